"""Destroyed fixes: correct hunks present at h that the successor removed (``docs/science.md §9``).

A hunk is a block of lines in which the reference solution differs from the base commit. It is present in a later
text when its new lines stand there together, or for a mere deletion the old ones do not, between the nearest base
lines around it that are still there. Work beside a fix therefore does not destroy it.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher

from handoff.diagnosis.measure import Measure

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


def hunks_present(base: bytes | None, reference: bytes | None, text: bytes | None) -> set[int]:
    """Which hunks (0, 1, …) of base → reference ``text`` has. A file created or deleted as a whole is one hunk."""
    if base is None or reference is None:
        return {0} if text == reference else set()
    if text is None:
        return set()
    old, new, now = base.splitlines(True), reference.splitlines(True), text.splitlines(True)
    # Where each line of the base stands now; the line before the first and the one after the last always do.
    place = {-1: -1, len(old): len(now)}
    for block in SequenceMatcher(None, old, now, autojunk=False).get_matching_blocks():
        place.update((block.a + i, block.b + i) for i in range(block.size))
    found = set()
    blocks = [op for op in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if op[0] != "equal"]
    for number, (_, i1, i2, j1, j2) in enumerate(blocks):
        above = next(i for i in range(i1 - 1, -2, -1) if i in place)
        below = next(i for i in range(i2, len(old) + 1) if i in place)
        between = now[place[above] + 1 : place[below]]
        if _contains(between, new[j1:j2]) if j1 < j2 else not _contains(between, old[i1:i2]):
            found.add(number)
    return found


def _contains(lines: list[bytes], block: list[bytes]) -> bool:
    return any(lines[i : i + len(block)] == block for i in range(len(lines) - len(block) + 1))
