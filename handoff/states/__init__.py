"""Repository states: what a predecessor left on disk, as git trees (``docs/science.md §2``).

``repositories`` holds the bare mirrors by name (``names``; ``sources`` for where they come from, ``packs`` for keeping
them small, ``survey`` for what is wrong with one), ``repository`` is one of them, ``instances`` and ``answers`` read
benchmark files, ``objects`` has the little of git's object format we need.

``replay`` turns recorded trajectories into one tree per step and a verdict: ``walk`` carries a recording out
(``effects``, ``editors``, ``patches``, ``shell``), ``watching`` holds the files against what it shows
(``checkpoints``, ``gitshown``), ``proofs`` and ``undoing`` say which versions that proves, ``recovery`` takes what no
text tells from later evidence, ``judge`` and ``blame`` give the ``verdict``, ``importer`` writes.

``reader`` gives stored states back, ``worktree`` lays one out for a successor (``templates`` for clean checkouts,
``readback`` for what it left, ``unheld`` for what git does not hold). What an action *means* is decided in
``actions``.
"""
