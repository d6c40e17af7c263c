"""Calls carried out in memory, as a replay does it, on files that lie in no commit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from handoff.actions import Context, did_not_happen, interpret
from handoff.git.objects import EMPTY_TREE
from handoff.git.repositories import Repository
from handoff.states.effects import Effects
from handoff.states.working import WorkingFiles
from handoff.trajectory import Action, Observation


class Replayed:
    """One run's files in memory."""

    def __init__(self, repository: Repository, files: Mapping[str, bytes], context: Context) -> None:
        self.files = WorkingFiles(repository, EMPTY_TREE)
        self.effects = Effects(self.files)
        self.context = context
        for path, data in files.items():
            self.files.put(path, data)

    def call(self, tool: str, arguments: Mapping[str, Any] | str, answer: str, *, has_happened: bool) -> None:
        """A call and its answer. What the answer refuses must be known to have been refused."""
        is_text = isinstance(arguments, str)
        action = Action(
            tool=tool, arguments=arguments if isinstance(arguments, str) else json.dumps(arguments), is_text=is_text
        )
        observation = Observation(text=answer)
        operations, self.context = interpret(action, self.context, observation)
        assert did_not_happen(action, observation) is not has_happened, (action, answer)
        if has_happened:
            for operation in operations:
                self.effects.carry_out(operation)

    def left(self) -> dict[str, bytes | None]:
        """Path → content; ``None`` where it is said to be unknown."""
        found: dict[str, bytes | None] = {
            path: self.files.read(path) for path in self.files.differing if self.files.get(path) is not None
        }
        for path in self.effects.unknown:
            found[path] = None
        return found
