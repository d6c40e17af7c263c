"""Which changes of a reference a text has, hunk by hunk (``docs/science.md §6, §9``).

A hunk is a block of lines in which the reference differs from the base. It is present in a text when its new lines
stand there together, or for a mere deletion the old ones do not, between the nearest base lines around it that are
still there. Work beside a hunk therefore does not hide it.
"""

from __future__ import annotations

from difflib import SequenceMatcher


def hunks_present(base: bytes | None, reference: bytes | None, text: bytes | None) -> set[int]:
    """Which hunks (0, 1, …) of base → reference ``text`` has. A file created or deleted as a whole is one hunk."""
    return {number for number, is_present in enumerate(_hunks(base, reference, text)) if is_present}


def has_all_hunks(base: bytes | None, reference: bytes | None, text: bytes | None) -> bool:
    """Whether ``text`` has every hunk of base → reference, and none is only partly there."""
    return text == reference or (text != base and all(_hunks(base, reference, text)))


def _hunks(base: bytes | None, reference: bytes | None, text: bytes | None) -> list[bool]:
    if base is None or reference is None:
        return [text == reference]
    old, new = base.splitlines(True), reference.splitlines(True)
    blocks = [op for op in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if op[0] != "equal"]
    if text is None:
        return [False] * max(len(blocks), 1)
    now = text.splitlines(True)
    # Where each line of the base stands now; the line before the first and the one after the last always do.
    place = {-1: -1, len(old): len(now)}
    for block in SequenceMatcher(None, old, now, autojunk=False).get_matching_blocks():
        place.update((block.a + i, block.b + i) for i in range(block.size))
    found = []
    for _, i1, i2, j1, j2 in blocks:
        above = next(i for i in range(i1 - 1, -2, -1) if i in place)
        below = next(i for i in range(i2, len(old) + 1) if i in place)
        between = now[place[above] + 1 : place[below]]
        found.append(_contains(between, new[j1:j2]) if j1 < j2 else not _contains(between, old[i1:i2]))
    return found


def _contains(lines: list[bytes], block: list[bytes]) -> bool:
    return any(lines[i : i + len(block)] == block for i in range(len(lines) - len(block) + 1))
