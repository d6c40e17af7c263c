"""Who judges takeovers of real repositories: the tests of a run's task, as far as they are known and can run here.

Answers are sealed by shard (``stages/instances.py``); how tests run is said by the settings (``[tests."owner/name"]``)
or by the instance. Running them is in ``judging``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from handoff.adapters import values
from handoff.git.repository import Repository
from handoff.identity import canonical_json, identify
from handoff.instances.answers import load_answers
from handoff.instances.reading import Answer, Instance, read_instances
from handoff.judging.bench import Bench
from handoff.judging.settings import programs_version, rule_for
from handoff.judging.verdict import Judgement
from handoff.project import Project
from handoff.takeover import Takeover, Verdict
from handoff.workplace import Surroundings

UNKNOWN_TASK = "no instance file names the task's tests"


class Tasks(NamedTuple):
    """What instances say of a shard's tasks, by task id as runs name it."""

    answers: Mapping[str, Answer]
    images: Mapping[str, str]
    """Docker images that they name."""


class Judges:
    """The judges of one shard. A context manager, for one thread; ``slots`` and ``tasks`` may be shared by several."""

    def __init__(
        self, project: Project, shard: str, slots: threading.Semaphore | None = None, tasks: Tasks | None = None
    ) -> None:
        self._project = project
        self._slots = slots
        self._tasks = tasks if tasks is not None else tasks_of(project, shard)
        self._repositories = project.repositories(shard)
        self._benches: dict[tuple[str, str, str], Bench] = {}

    def __enter__(self) -> Judges:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._repositories.close()

    def repository(self, repo: str) -> Repository:
        """An open repository; closed with this object."""
        return self._repositories.open(repo)

    def surroundings(self, repo: str, task_id: str | None) -> Surroundings:
        """Where commands of a task run."""
        return surroundings_of(self._project, repo, task_id, self._tasks.images)

    def judge(self, repo: str, base_commit: str, task_id: str | None, tree: str | None) -> Judgement:
        """The verdict of a task's tests on a state; ``None``: what was left is none."""
        bench = self._bench(repo, base_commit, task_id)
        return Judgement(verdict=Verdict(solved=None), reason=UNKNOWN_TASK) if bench is None else bench.judge(tree)

    def judge_changed(
        self, repo: str, base_commit: str, task_id: str | None, tree: str, changes: Mapping[str, bytes | None]
    ) -> Judgement:
        """The same with files of the state replaced, or removed (``None``)."""
        bench = self._bench(repo, base_commit, task_id)
        if bench is None:
            return Judgement(verdict=Verdict(solved=None), reason=UNKNOWN_TASK)
        return bench.judge_changed(tree, changes)

    def reference(self, repo: str, base_commit: str, task_id: str | None) -> dict[str, bytes | None] | None:
        """Sealed: path → content of what the task's reference solution changes; ``None`` where it is not known."""
        bench = self._bench(repo, base_commit, task_id)
        return None if bench is None else bench.reference()

    def columns(
        self, takeover: Takeover, repo: str, base_commit: str, task_id: str | None, tree: str
    ) -> dict[str, Any]:
        """The columns of ``takeover_runs`` that a judge fills. ``tree``: where the run began."""
        final, bench = takeover.final_tree, self._bench(repo, base_commit, task_id)
        judged = self.judge(repo, base_commit, task_id, final)
        destroyed = None if bench is None or final is None else bench.destroyed(tree, final).value
        said = f"not judged: {judged.reason}" if judged.verdict.solved is None else judged.reason
        return {
            "solved": judged.verdict.solved,
            "tests_passed": judged.verdict.passed,
            "tests_total": judged.verdict.total,
            "destroyed_fixes": None if destroyed is None else int(destroyed),
            "note": "; ".join(part for part in (takeover.note, said) if part),
        }

    def _bench(self, repo: str, base_commit: str, task_id: str | None) -> Bench | None:
        answer = self._tasks.answers.get(task_id or "")
        if answer is None:
            return None
        key = (repo, base_commit, answer.instance_id)
        if key not in self._benches:
            self._benches[key] = Bench(
                sealed=self._project.sealed,
                repository=self.repository(repo),
                base_commit=base_commit,
                answer=answer,
                rule=rule_for(self._project.settings.tests, repo),
                surroundings=self.surroundings(repo, task_id),
                slots=self._slots,
            )
        return self._benches[key]


def surroundings_of(project: Project, repo: str, task_id: str | None, images: Mapping[str, str]) -> Surroundings:
    """Where commands of a real repository run here. ``images``: those that instances name."""
    rule = rule_for(project.settings.tests, repo)
    env = tuple(sorted(rule.env.items()))
    if project.settings.sandbox == "docker":
        image = images.get(task_id or "") or rule.image_of(task_id)
        return Surroundings(sandbox="docker", image=image, env=env)
    return Surroundings(programs=rule.programs, env=env)  # `host` is for the embedded world's code alone


State: TypeAlias = tuple[str, str, str | None, str]
"""(repository, base commit, task id, tree)."""


def judge_states(
    project: Project, shard: str, states: Sequence[State], progress: Callable[[int, int], None] | None = None
) -> list[Judgement]:
    """The verdicts on many states, in their order, as many at once as there are ``workers``."""
    tasks = tasks_of(project, shard)
    done = count(1)

    def judge(state: State) -> Judgement:
        with Judges(project, shard, tasks=tasks) as judges:
            found = judges.judge(*state)
        if progress is not None:
            progress(next(done), len(states))
        return found

    with ThreadPoolExecutor(project.settings.workers) as pool:
        return list(pool.map(judge, states))


def tasks_of(project: Project, shard: str) -> Tasks:
    """What instances say of a shard's tasks."""
    answers: dict[str, Answer] = {}
    for id_, answer in load_answers(project.sealed, shard).items():
        for name in (id_, values.task_of(id_) or id_):
            answers.setdefault(name, answer)
    return Tasks(answers, images_by_task(project, shard))


def images_by_task(project: Project, shard: str) -> Mapping[str, str]:
    """Task id → the docker image that its instance names. Nothing is read where no image is used."""
    files = project.instance_files(shard) if project.settings.sandbox == "docker" else []
    by_id: Mapping[str, Instance] = read_instances(files).by_id if files else {}
    return {id_: instance.image for id_, instance in by_id.items() if instance.image}


def judging_version(project: Project, shard: str) -> str:
    """A hash of all that decides verdicts in a shard beside the states: answers, and where their tests run. Empty: no
    answers are known."""
    answers = load_answers(project.sealed, shard)
    if not answers:
        return ""
    return identify("i", surroundings_version(project, shard), canonical_json(msgspec.to_builtins(answers)))


def surroundings_version(project: Project, shard: str) -> str:
    """A hash of all that decides where commands of a shard's real repositories run, and how their tests: settings,
    images, what programs there are. Empty: nothing is special about it."""
    settings = project.settings
    if not settings.tests and settings.sandbox != "docker":
        return ""
    programs = [programs_version(rule.programs) for _, rule in sorted(settings.tests.items())]
    images = sorted(images_by_task(project, shard).items())
    return identify("i", canonical_json([msgspec.to_builtins(settings.tests), settings.sandbox, programs, images]))
