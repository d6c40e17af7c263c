"""More from each run: what failed runs achieved, and how wrong turns were mended (``docs/science.md §11``).

::

    relabel.py   a failed takeover that made some tests pass is a success of that smaller task [after AgentHER]
    recovery.py  the stretch of a recorded run that leads out of a wrong turn

Nothing here counts as a solve anywhere: it changes what training data holds, and is marked there (``basis``).
"""
