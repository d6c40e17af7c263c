"""Lint: whether a training file, ours or anybody's, trains what it should (``docs/lint.md``).

::

    reading.py   files and their rows, one at a time
    shapes.py    a row of any known format, as turns, calls and flags
    pieces.py    a turn in stretches with one role and weight
    templates.py a row under the template and tokenizer of the model
    codes.py     every finding by its code
    checks/      what is looked for, one subject per file
    run.py       all checks over all rows; the report
    preview.py   one row with its mask, for a terminal and as a page

A row is read, brought to one form and looked at; nothing of it is kept but digests, so memory grows little with a file.
"""

from __future__ import annotations

from handoff.lint.codes import CODES, Code, Finding
from handoff.lint.run import Options, Report, lint

__all__ = ["CODES", "Code", "Finding", "Options", "Report", "lint"]
