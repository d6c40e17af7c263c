"""More from each run: what failed runs achieved, and how wrong turns were mended (``docs/science.md §11``).

::

    relabel.py    a failed takeover that made some tests pass is a success of that smaller task [after AgentHER]
    recovery.py   the stretch of a recorded run that leads out of a wrong turn
    branching.py  other moves in a failed takeover, where the policy was least sure [after LATR and TSR]

The first two count as a solve nowhere: they change what training data holds, and are marked there (``basis``). A branch
is a takeover of its own.
"""
