"""Destroyed fixes: correct hunks present at h that the successor removed (``docs/science.md §9``).

A hunk is a block of lines in which the reference solution differs from the base commit; ``editors.hunks`` says when a
text has it. Work beside a fix does not destroy it.
"""

from __future__ import annotations

from collections.abc import Mapping

from handoff.diagnosis.measure import Measure
from handoff.editors.hunks import hunks_present

Files = Mapping[str, bytes | None]
"""Path → content; ``None`` or no entry: there is no such file."""


def destroyed_fixes(*, base: Files, reference: Files, at_h: Files, final: Files) -> Measure:
    """How many hunks of the reference were there at h and are gone at the end; the denominator is those there at h.

    A file that is missing from ``at_h`` or ``final`` is deleted there, so give every file that ``reference`` changes.
    """
    present = destroyed = 0
    for path in sorted(reference):
        if reference[path] == base.get(path):
            continue
        before = hunks_present(base.get(path), reference[path], at_h.get(path))
        present += len(before)
        if before and final.get(path) != at_h.get(path):
            destroyed += len(before - hunks_present(base.get(path), reference[path], final.get(path)))
    return Measure(float(destroyed), float(destroyed), float(present))
