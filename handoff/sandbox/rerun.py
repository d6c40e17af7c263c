"""A recorded step executed again, to learn what it did to files that no text tells (``docs/science.md §2``).

The tree before the step is laid out at the path where the recording had it, the line runs in a jail without network,
and its exit code and output must be the recorded ones, but for times and addresses. It runs twice, on fresh layouts:
both must leave the same files. Anything else is no evidence, and the step stays opaque. Only bubblewrap will do.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from handoff.actions import Context, context_of
from handoff.errors import StateError
from handoff.git.importer import FileState
from handoff.git.objects import FOLDER, SUBMODULE, write_loose
from handoff.git.repositories import Repository
from handoff.git.worktree import lay_out
from handoff.sandbox import Completed, Limits, open_sandbox
from handoff.states.proof.checkpoints import unwrapped
from handoff.states.replay import Reruns
from handoff.states.walk import Rerunner
from handoff.trajectory import Observation, Trajectory

LIMITS = Limits(memory_mb=1024, disk_mb=512, wall_s=30.0)
"""What one step may use."""

_ROOT = re.compile(r"/(?:testbed|repo|app/repo|workspaces?/[\w.-]+|[\w.-]+__[\w.-]+)(?=[/\s\"']|\Z)", re.A)
_LINES_LOOKED_AT = 200
_VARYING = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)?\s?(?:ms|s|sec|secs|seconds|min|m)\b"), "<time>"),
    (re.compile(r"\b0x[0-9a-fA-F]{4,16}\b"), "<address>"),
)
"""What differs between two runs of the same program, and what stands for it."""


def reruns(work: Path, *, limits: Limits = LIMITS) -> Reruns:
    """A way to execute steps again, in layouts below ``work``, a folder of its own. ``SandboxError`` from the first
    step that is tried where no jail can be opened."""

    def of(repository: Repository, base_commit: str, trajectory: Trajectory) -> Rerunner:
        root = root_of(trajectory)
        known: dict[object, Mapping[str, FileState] | None] = {}  # a recording may be walked more than once

        def again(
            before: Mapping[str, FileState], line: str, context: Context, observation: Observation
        ) -> Mapping[str, FileState] | None:
            if context.cwd.startswith(("/", "..", "~", "$")):
                return None
            key = (line, context.cwd, observation.text, observation.exit_code, tuple(sorted(before.items())))
            if key not in known:
                place = _Place(repository, base_commit, root, f"{root}/{context.cwd}", work, limits)
                first = place.run(before, line, observation)
                known[key] = first if first is not None and first == place.run(before, line, observation) else None
            return known[key]

        return again

    return of


def root_of(trajectory: Trajectory) -> str:
    """Where the recording had the repository; ``/repo`` when it does not say."""
    prefixes = context_of(trajectory.format, trajectory.source).prefixes
    if prefixes:
        return prefixes[0]
    for step in trajectory.steps[:_LINES_LOOKED_AT]:
        for action in step.actions:
            if found := _ROOT.search(action.arguments):
                return found[0]
    return "/repo"


class _Place(NamedTuple):
    """Where a step runs again."""

    repository: Repository
    base_commit: str
    root: str
    folder: str
    work: Path
    limits: Limits

    def run(self, before: Mapping[str, FileState], line: str, observation: Observation) -> dict[str, FileState] | None:
        """What the line changes; ``None`` when it does not answer as recorded."""
        repository = self.repository
        entries = {
            path: None if state is None else (state[0], write_loose(repository.git_dir, "blob", state[1]))
            for path, state in before.items()
        }
        try:
            start = repository.write_entries(repository.tree_of(self.base_commit), entries)
            with lay_out(repository, self.base_commit, start, self.work / "rerun") as tree:
                sandbox = open_sandbox("bubblewrap", tree.path, limits=self.limits, root=self.root)
                try:
                    sandbox.run(f"cd {shlex.quote(self.folder)}")
                    done = sandbox.run(line, self.limits.wall_s)
                finally:
                    sandbox.close()
                if not answers_alike(done, observation):
                    return None
                end = tree.tree()
        except StateError:
            return None
        changes: dict[str, FileState] = {}
        for path, _, entry in repository.differences(start, end):
            if entry is not None and entry[0] in (FOLDER, SUBMODULE):
                return None
            changes[path] = None if entry is None else (entry[0], repository.blob(entry[1]))
        return changes


def answers_alike(done: Completed, observation: Observation) -> bool:
    """Whether a line that ran again gave its recorded answer: exit code and output, but for times and addresses.

    Without a recorded exit code it must be 0.
    """
    if done.timed_out or done.is_truncated or done.exit_code is None or done.notice:
        return False
    if done.exit_code != (observation.exit_code or 0):
        return False
    return _plain(done.output) == _plain(unwrapped(observation.text))


def _plain(text: str) -> str:
    text = text.replace("\r\n", "\n")
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


__all__ = ["LIMITS", "answers_alike", "reruns", "root_of"]
