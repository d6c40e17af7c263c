"""Which commands of a line surely ran, and which surely succeeded: what the line's exit code proves, and no more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from handoff.shell import Command

_BACKGROUND = re.compile(r"(?<![&>|<\\])&(?![&>])")
_SPEECHLESS = frozenset(
    ("cd", "pushd", "popd", "export", "unset", "source", ".", "mkdir", "touch", "echo", "true", ":")
)
"""Programs that complain when they fail, and whose complaint would be in the answer."""


class Course(NamedTuple):
    """What is sure of one command of a line."""

    ran: bool
    succeeded: bool
    is_background: bool


def courses(line: str, parts: Sequence[Command], exit_code: int | None, is_quiet: bool) -> list[Course]:
    """One for each command, in order. ``is_quiet``: no complaint of a shell is in the answer."""
    in_background = _BACKGROUND.search(line) is not None
    last = max((n for n, part in enumerate(parts) if part.connector not in ("&&", "||", "|")), default=0)
    has_else = any(part.connector == "||" for part in parts[last:])
    found: list[Course] = []
    ran = succeeded = True
    for number, part in enumerate(parts):
        is_last_chain = number >= last and exit_code == 0 and not has_else
        if part.connector == "&&":
            ran = (ran and succeeded) or is_last_chain
        elif part.connector == "||" or (part.connector != "|" and not part.is_certain):
            ran = False
        elif part.connector != "|":
            ran = True
        is_background = in_background and not part.owns_status
        surely = ran and not part.is_conditional and part.is_certain
        program = part.words[0].text if part.words else ""
        proven = is_last_chain and part.owns_status and part.position == part.length - 1
        succeeded = surely and not is_background and (proven or (is_quiet and (not program or program in _SPEECHLESS)))
        found.append(Course(surely, succeeded, is_background))
    return found
