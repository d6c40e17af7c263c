"""How much a small program may cost: what it makes, what it goes over, what its patterns may try.

The code is hostile until shown otherwise. Every cost is counted before it arises, and all of them count against one
allowance: many small costs are a large one.
"""

from __future__ import annotations

import re
from typing import Any

from handoff.states.shell.values import Function, NotUnderstood, OpenedFile

_ALLOWANCE = 1 << 30
"""Units: one for a character that is gone over, and so on, as below. All of them take a few seconds at most."""
_HEAVIEST = 32_000_000
"""What the values of one call may weigh."""
_KEPT = 4
"""Units for a character that is made anew, and may be kept."""
_NODE = 64
"""Units for one value, whatever it is."""


class Work:
    """The allowance of one program."""

    def __init__(self) -> None:
        self._left = _ALLOWANCE

    def spend(self, units: int) -> None:
        """Take from the allowance; ``NotUnderstood`` when it is used up."""
        self._left -= units
        if self._left < 0:
            raise NotUnderstood

    def made(self, found: Any) -> Any:
        """A value that was just made, without what it refers to."""
        if isinstance(found, str | bytes):
            self.spend(_KEPT * len(found))
        elif isinstance(found, list | tuple | dict):
            self.spend(_NODE * len(found))
        return found

    def weigh(self, *values: Any) -> int:
        """Go over values with all that they hold, as printing or comparing them does; what they weigh.

        A part that is held twice counts twice. ``NotUnderstood`` for what is too heavy, or no plain value.
        """
        total = 0
        waiting = list(values)
        while waiting:
            found = waiting.pop()
            total += _NODE
            if isinstance(found, str | bytes):
                total += len(found)
            elif isinstance(found, list | tuple):
                total += 0 if total + _NODE * len(found) <= _HEAVIEST else _HEAVIEST
                waiting += found if total <= _HEAVIEST else ()
            elif isinstance(found, dict):
                waiting += (*found.keys(), *found.values())
            elif found is not None and not isinstance(
                found, bool | int | float | slice | range | Function | OpenedFile | re.Pattern | re.Match
            ):
                raise NotUnderstood
            if total > _HEAVIEST:
                raise NotUnderstood
        self.spend(total)
        return total
