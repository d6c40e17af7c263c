"""Proof: what a recording shows of files, held against the state that was derived (``docs/science.md §2``).

::

    checkpoints.py   texts of files that tools printed; gitshown.py what git printed
    watching.py      files while a recording is carried out, and everything shown of them
    proofs.py        which versions of a file are proven; undoing.py an edit taken back
    unseen.py        what may have changed files unseen, and looks at the whole tree that answer it
    recovery.py      how far back a later proof of an underivable file holds
    judge.py         from all this to verdicts; blame.py where a file first went wrong; verdict.py their form
"""
