"""Which commands of a line surely ran, and which surely succeeded: what the line's answer proves, and no more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from handoff.actions.programs.call import listed
from handoff.shell import Command
from handoff.trajectory import Observation

_BACKGROUND = re.compile(r"(?<![&>|<\\])&(?![&>])")
_PLAINTIVE = listed("cd export unset source . mkdir touch cp mv ln tee rm rmdir echo true : cat printf mktemp")
"""Programs that succeed, or complain; and whose complaint would be in the answer."""
_COMPLAINT = re.compile(
    r"(?m)^(?:(?:/\S{0,80}/)?(?:cd|cp|mv|ln|tee|rm|rmdir|mkdir|touch|cat|mktemp|bash|sh|dash|zsh|source)(?:\[\d+\])?: "
    r"|[^\n:]{1,200}: line \d+: |[^\n]{0,200}: (?:No such file or directory|Permission denied|command not found)\s*$)"
)
_HEAD = 20_000
"""Characters of an answer in which complaints are looked for."""


class Course(NamedTuple):
    """What is sure of one command of a line."""

    ran: bool
    succeeded: bool
    redirected: bool
    """Whether its redirections surely took place: it ran, and no shell complained."""
    is_background: bool


def complains(text: str) -> bool:
    """Whether a shell, or one of the programs that change folders and files, complains in an answer."""
    return _COMPLAINT.search(text, 0, _HEAD) is not None


def courses(line: str, parts: Sequence[Command], observation: Observation) -> list[Course]:
    """One for each command, in order."""
    if _COMPOUND.search(_without_heredocs(line, parts)):
        return unknown(parts)
    is_quiet = not any(_hides(part) for part in parts) and not complains(observation.text)
    in_background = _BACKGROUND.search(line) is not None
    last = max((n for n, part in enumerate(parts) if part.connector not in ("&&", "||", "|")), default=0)
    turned = [not part.owns_status and not in_background for part in parts]
    is_plain = not any(part.connector == "||" for part in parts[last:]) and not any(turned[last:])
    is_proven = observation.exit_code == 0 and is_plain
    found: list[Course] = []
    chain = _Chain(entered=True, ran=True, succeeded=True)
    inner: dict[tuple[int, ...], _Chain] = {}
    for number, part in enumerate(parts):
        is_outer = not part.scope
        own = chain if is_outer else inner.setdefault(part.scope, _entered(part, chain))
        is_last_chain = is_outer and is_proven and number >= last
        own.next(part.connector, is_last_chain)
        is_background = in_background and not part.owns_status
        surely = own.ran and not part.is_conditional and part.is_certain
        program = part.words[0].text if part.words else ""
        proven = is_last_chain and part.owns_status and part.position == part.length - 1
        succeeded = surely and not is_background and (proven or (is_quiet and (not program or program in _PLAINTIVE)))
        redirected = surely and (is_quiet or proven)
        found.append(Course(surely, succeeded, redirected, is_background))
        own.succeeded = succeeded and not any(turned[: number + 1])
        if not is_outer:
            chain.succeeded = False  # what a subshell ends with is not followed
    return found


class _Chain:
    """Commands that follow one another in one shell: how sure the one that is read is."""

    def __init__(self, *, entered: bool, ran: bool, succeeded: bool) -> None:
        self.entered = entered
        """Whether the shell itself surely was begun."""
        self.ran = ran
        self.succeeded = succeeded

    def next(self, connector: str, is_last_chain: bool) -> None:
        """Go on to the command behind ``connector``."""
        if connector == "&&":
            self.ran = (self.ran and self.succeeded) or is_last_chain
        elif connector == "||":
            self.ran = False
        elif connector != "|":
            self.ran = self.entered


def _entered(part: Command, outer: _Chain) -> _Chain:
    """A subshell that begins with ``part``. One behind ``;`` may as well be a substitution of a later command."""
    is_sure = part.connector == "" or (part.connector == "&&" and outer.ran and outer.succeeded)
    is_sure = is_sure or (part.connector == "|" and outer.ran)
    return _Chain(entered=is_sure, ran=is_sure, succeeded=is_sure)


_COMPOUND = re.compile(r"(?:^|[\s;&|(!])(?:\{|for|while|until|if|case|select|function)\s|\w\s*\(\)\s*\{")
"""Blocks and loops: what of them ran is not followed."""


def _without_heredocs(line: str, parts: Sequence[Command]) -> str:
    for part in parts:
        if part.stdin is not None and part.stdin.text:
            line = line.replace(part.stdin.text, "")
    return line


def _hides(part: Command) -> bool:
    """Whether complaints of a command go elsewhere than into the answer."""
    joins = any(redirect.operator == ">&" and redirect.target.text == "1" for redirect in part.redirects)
    for redirect in part.redirects:
        is_copy = redirect.operator == ">&" and redirect.target.text == "1"
        if not is_copy and (redirect.fd == "2" or "&" in redirect.operator):
            return True
        if joins and not is_copy and redirect.operator.startswith(">"):
            return True
    return joins and part.length > 1


def unknown(parts: Sequence[Command]) -> list[Course]:
    """The same for a line of which nobody knows whether it ran."""
    return [Course(False, False, False, False) for _ in parts]
