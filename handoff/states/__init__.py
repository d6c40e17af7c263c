"""Repository states: what a predecessor left on disk, as git trees (``docs/science.md §2``).

::

    replay.py        recorded trajectories → one tree a step and a verdict on each, stored by ``handoff.git``
    walk.py          one recording carried out on its base commit (effects.py one operation, shell/ one shell line)
    working.py       the files meanwhile; versions.py what git holds beside them: HEAD, index, stash
    base.py          the base commit, named or found; sightings.py what a recording shows of it
    family.py        a run and its subagents as one
    rewrites.py      what programs and harnesses say of files that something else rewrote
    unwatched.py     programs of which nobody can tell whether they change files
    proof/           what the recording proves of all this
    branches.py      a git branch as a recording; commits.py its states
    reader.py        stored states, read back

What an action *means* is decided in ``actions``, what an edit leaves of a file in ``editors``.
"""
