"""The two published studies on one's own models and tasks: what handing over costs (``docs/studies.md``).

::

    design.py     what a study compares: successors or a pair of models, interfaces, timings, tasks
    timing.py     where a source run is cut: percentiles, no progress for N steps, the tail
    debt.py       handoff debt: each view against the bare repository on matched points
    tax.py        handoff tax: quality recovered and cost saved when models are switched in the middle
    front.py      which interfaces nothing beats on both quality and cost, and which one to take
    planning.py   what a study will cost, before it starts

All are pure functions. Running the takeovers and filling the tables is in ``stages/debt_study.py`` and
``stages/tax_study.py``.
"""
