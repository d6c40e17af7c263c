"""Where a takeover acts, and who judges it: the embedded world, or a real repository with its task's tests."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from handoff.diagnosis.fixes import destroyed_fixes
from handoff.errors import SandboxError
from handoff.kata.lab import KataLab
from handoff.kata.world import Task, World
from handoff.project import Project
from handoff.sandbox import missing
from handoff.stages.judges import Judges, Tasks
from handoff.takeover import Environment, Takeover
from handoff.workplace import open_workplace


class Placed(Protocol):
    """What a place needs to know of a job."""

    @property
    def takeover_id(self) -> str:
        """The run's name."""
        ...

    @property
    def repo(self) -> str:
        """Repository."""
        ...

    @property
    def base_commit(self) -> str:
        """Its base commit."""
        ...

    @property
    def tree(self) -> str:
        """Where the run begins."""
        ...

    @property
    def shard(self) -> str:
        """Whose repositories and answers."""
        ...

    @property
    def task_id(self) -> str | None:
        """Whose tests decide."""
        ...


class Place(Protocol):
    """Where one takeover acts."""

    def environment(self) -> Environment:
        """The frozen state, brought to life. Whoever asks closes it."""
        ...

    def judged(self, takeover: Takeover) -> dict[str, Any]:
        """The columns of ``takeover_runs`` that a judge decides or adds to, for a takeover that is over."""
        ...


def check_walls(lab: KataLab, *, is_own: bool) -> None:
    """``SandboxError`` when one that is not the embedded world's own would act on a host that nobody asked for."""
    if lab.is_unwalled and not is_own:
        raise SandboxError(
            f"a model's commands run in a sandbox, and {missing('bubblewrap')}; "
            '`sandbox = "host"` runs them as you, with all that you can reach'
        )


class KataPlace:
    """The embedded world, which has the tests at hand."""

    def __init__(self, lab: KataLab, job: Placed, world: World, *, is_own: bool) -> None:
        """``is_own``: one of the embedded world's own successors acts. Others get no host that nobody asked for."""
        self.task: Task = world.task(job.repo)
        self._is_own = is_own
        self._lab = lab
        self._job = job

    def environment(self) -> Environment:
        """See ``Place``. ``SandboxError``: a model would act outside a sandbox."""
        check_walls(self._lab, is_own=self._is_own)
        return self._lab.environment(self._job.repo, self._job.base_commit, self._job.tree)

    def judged(self, takeover: Takeover) -> dict[str, Any]:
        """Destroyed fixes; the rest was judged where the run acted."""
        lab, job = self._lab, self._job
        if takeover.final_tree is None:
            return {"solved": False, "destroyed_fixes": None}
        removed = destroyed_fixes(
            base=_bytes(lab.files(job.base_commit)),
            reference={path: text.encode() for path, text in self.task.reference.items()},
            at_h=_bytes(lab.files(job.tree)),
            final=_bytes(lab.files(takeover.final_tree)),
        )
        return {"destroyed_fixes": int(removed.value or 0)}


class RealPlace:
    """A state of a real repository. What is left is judged by its task's tests, when the run is over and recorded: so
    a verdict that could not be had can be had another time, and costs no request. A context manager."""

    def __init__(
        self, project: Project, job: Placed, slots: threading.Semaphore | None = None, tasks: Tasks | None = None
    ) -> None:
        self._job = job
        self._folder: Path = project.root / "sandboxes" / job.takeover_id
        self._judges = Judges(project, job.shard, slots, tasks)

    def __enter__(self) -> RealPlace:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._judges.__exit__(kind, error, at)

    def environment(self) -> Environment:
        """See ``Place``."""
        job = self._job
        surroundings = self._judges.surroundings(job.repo, job.task_id)
        repository = self._judges.repository(job.repo)
        return open_workplace(repository, job.base_commit, job.tree, self._folder, surroundings)

    def judged(self, takeover: Takeover) -> dict[str, Any]:
        """See ``Place``."""
        job = self._job
        return self._judges.columns(takeover, job.repo, job.base_commit, job.task_id, job.tree)


def _bytes(files: Mapping[str, str]) -> dict[str, bytes | None]:
    return {path: text.encode("utf-8", "surrogateescape") for path, text in files.items()}
