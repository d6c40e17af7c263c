"""Git: bare mirrors by name, their objects, and states laid out on disk. Knows nothing of recordings.

::

    program.py       running git, and what it may know of its surroundings
    names.py         the many spellings of a repository's name, and its folder
    repositories.py  the mirrors of a data folder, found by name; sources.py where their objects come from
    repository.py    one of them: reading objects and trees, writing new ones (objects.py: the format)
    importer.py      many chains of states at once; packs.py keeps what is written small
    worktree.py      a state on disk for a successor; templates.py its clean checkout, readback.py what was left in it
    unheld.py        what a tree names and does not hold: submodules, large files kept elsewhere
    survey.py        what mirrors there are and what is wrong with them
"""
