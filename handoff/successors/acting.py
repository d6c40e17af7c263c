"""Agents that act by themselves: what they are given, and what they leave.

A ``Session`` says what it wants done and is shown what came of it. An agent that is a program of its own does its work
where it is put, and tells afterwards. Both end as one ``Takeover`` (``takeover.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from handoff.endpoints.ledger import Ledger
from handoff.sandbox import Limits, Mount, Sandbox
from handoff.successors import Answer, Briefing, Budget, Question, Status
from handoff.trajectory import Step


class Ground(Protocol):
    """The frozen state on disk, as the place of an agent that acts by itself."""

    def annex(self) -> Path:
        """A new empty folder beside the work tree, on its disk. It is removed with it."""
        ...

    def jail(
        self, *, read_only: Sequence[Path], mounts: Sequence[Mount], env: Mapping[str, str], limits: Limits
    ) -> Sandbox:
        """A sandbox of its own over the work tree, by the means by which commands run there otherwise.

        ``SandboxError`` when that cannot be had here. Closed by whoever asked for it.
        """
        ...


class Acted(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of such an agent came to."""

    status: Status
    transcript: tuple[Step, ...]
    steps: int
    """Model calls answered; without a model of ours, those of the transcript."""
    first_prompt_tokens: int
    prompt_tokens: int
    completion_tokens: int
    """By this project's tokenizer."""
    answer: Answer | None
    """The probe's. ``None``: there is no valid one."""
    notes: tuple[str, ...]
    is_passing: bool = False
    """It ended because its model gave no answer, which may be otherwise another time: then it is run again."""


@runtime_checkable
class ActingSuccessor(Protocol):
    """An agent that acts by itself."""

    kind: str
    name: str
    digest: str
    """Content hash of all that decides its behaviour."""

    def act(
        self, briefing: Briefing, ground: Ground, ledger: Ledger, budget: Budget, seed: int, question: Question | None
    ) -> Acted:
        """Run it once, from the frozen state to its end. All calls of its model go through ``ledger``.

        Errors: as of a session's ``reply``, and ``SandboxError`` and ``InputError`` where it cannot be run at all.
        """
        ...
