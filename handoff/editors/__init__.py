"""Editors: the bytes that an edit leaves of a file, as the program that made it leaves them. Pure functions.

::

    editing.py       a structured edit by its dialect: str_replace.py, windows.py, lenient.py, plain.py
    patches.py       a patch as text: unified.py read, git_apply.py, gnu_patch.py and begin_patch.py applied, binary.py
    stream.py        what ``sed`` leaves
    hunks.py         which changes of a reference a text has

``plain.Misfit``: the edit cannot have happened on these bytes. ``plain.Unknowable``: the bytes cannot be derived.
"""
