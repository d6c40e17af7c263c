"""What is looked for in a row, one subject per file: calls, turns, masks, texts, pairs."""

from __future__ import annotations

from collections.abc import Iterator

from handoff.lint.checks.calls import check_calls
from handoff.lint.checks.masks import check_masks
from handoff.lint.checks.pairs import check_pair
from handoff.lint.checks.texts import check_texts
from handoff.lint.checks.turns import check_turns
from handoff.lint.codes import Finding
from handoff.lint.shapes import Row


def check_row(row: Row) -> Iterator[Finding]:
    """Everything that one row tells of itself."""
    for talk in row.talks:
        yield from check_turns(row, talk)
        yield from check_calls(row, talk)
        yield from check_texts(row, talk)
    yield from check_masks(row)
    if len(row.talks) == 2:
        yield from check_pair(*row.talks)


__all__ = ["check_row"]
