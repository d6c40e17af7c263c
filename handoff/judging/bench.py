"""The bench of one task: a state is laid out afresh with the task's tests, they run in a fresh sandbox, and what came
of it is remembered by task and tree, so that nothing is tested twice.

The tests are laid over the state as ``instances/answers.py`` says; files that decide how tests run are the base's.
What runs is hostile all the same: it sees no network and nothing of the user's; its time, memory and output are
bounded; it can only damage its own layout. It runs in one process with the tests, so a successor that sets out to forge
their output can (``docs/tasks.md``). Layouts with tests, and what tests were run, stay in the sealed folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec

from handoff.diagnosis.fixes import destroyed_fixes
from handoff.diagnosis.measure import Measure, missing
from handoff.errors import StateError
from handoff.git.repository import Repository
from handoff.git.worktree import lay_out
from handoff.identity import canonical_json, identify
from handoff.instances.answers import Judged, sealed_store, with_reference, with_tests
from handoff.instances.reading import Answer
from handoff.journal import Journal
from handoff.judging.command import command_of
from handoff.judging.results import Run, results_of
from handoff.judging.settings import SECONDS, TestRule, programs_version
from handoff.judging.verdict import Decisive, Fitness, Judgement, fitness_of, judge
from handoff.sandbox import Completed, Limits
from handoff.takeover import Verdict
from handoff.workplace import Surroundings

LIMITS = Limits(memory_mb=4096, disk_mb=4096, processes=512, output_kb=32_768)
VERSION = 2
"""Raise it when the same run would be read differently."""


class Bench:
    """Runs a task's tests on states of its repository. Opens nothing until it is asked."""

    def __init__(
        self,
        *,
        sealed: Path,
        repository: Repository,
        base_commit: str,
        answer: Answer,
        rule: TestRule,
        surroundings: Surroundings,
        slots: AbstractContextManager[object] | None = None,
    ) -> None:
        """``sealed``: the folder that only judges read; ``slots``: held while tests run, to bound how many do."""
        self._sealed = sealed
        self._journal = Journal(sealed / "runs")
        self._repository = repository
        self._base_commit = repository.commit_id(base_commit)
        self._answer = answer
        self._surroundings = surroundings
        self._slots: AbstractContextManager[object] = slots if slots is not None else nullcontext()
        self._timeout_s = rule.timeout_s or SECONDS
        self._decisive = Decisive(fail_to_pass=answer.fail_to_pass, pass_to_pass=answer.pass_to_pass)
        self._command = command_of(answer, rule)
        self._identity = canonical_json(
            [
                *(VERSION, msgspec.to_builtins(answer), self._base_commit, self._command, self._timeout_s),
                *(surroundings.digest, programs_version(surroundings.programs)),
            ]
        )
        self._fitness: tuple[Fitness, float] | None = None

    @property
    def missing(self) -> str:
        """Why nothing can be judged; empty when it can."""
        if not self._decisive.names:
            return "the instance names no tests that decide it"
        if self._command is None:
            place = f'[tests."{self._repository.name}"]'
            return f"nobody says how the task's tests are run: write {place} with a command in handoff.toml"
        return ""

    def judge(self, tree: str | None) -> Judgement:
        """The verdict on a state; ``None``: what was left is none, and no test passes on it. ``SandboxError`` when the
        sandbox cannot be had; everything else is a reason."""
        if self.missing:
            return Judgement(verdict=Verdict(solved=None), reason=self.missing)
        fitness, seconds = self._fit()
        if not fitness.begins and not fitness.stays:
            return Judgement(verdict=Verdict(solved=None), reason=f"the environment is unfit: {fitness.reason}")
        run = Run(problem="what was left is no state") if tree is None else self._tested(tree)
        if run.is_late and seconds > self._timeout_s / 2:
            reason = f"the tests were stopped, and took {seconds:.0f} s where nothing is wrong; set a longer timeout_s"
            return Judgement(verdict=Verdict(solved=None), reason=reason)
        return judge(self._decisive, fitness, run)

    def judge_changed(self, tree: str, changes: Mapping[str, bytes | None]) -> Judgement:
        """The verdict on a state with files replaced, or removed (``None``); they are written into the sealed store."""
        with sealed_store(self._sealed, self._repository) as store:
            return self.judge(store.write_tree(tree, changes) if changes else tree)

    def reference(self) -> dict[str, bytes | None] | None:
        """Path → content of what the reference solution changes; ``None`` where it is not known or does not fit."""
        try:
            reference = with_reference(self._sealed, self._repository, self._base_commit, self._answer)
        except StateError:
            return None
        if reference is None:
            return None
        with reference.repository as store:
            changed = store.differences(self._repository.tree_of(self._base_commit), reference.tree)
            return {path: store.read(reference.tree, path) for path, _, _ in changed}

    def destroyed(self, at_h: str, final: str) -> Measure:
        """Destroyed fixes between two states (``docs/science.md §9``), by the reference solution where it is known."""
        wanted = self.reference()
        if wanted is None:
            return missing("the reference solution is not known, or does not fit the base commit")

        def at(tree: str) -> dict[str, bytes | None]:
            return {path: self._repository.read(tree, path) for path in wanted}

        base = self._repository.tree_of(self._base_commit)
        return destroyed_fixes(base=at(base), reference=wanted, at_h=at(at_h), final=at(final))

    # -- runs -----------------------------------------------------------------------------------

    def _fit(self) -> tuple[Fitness, float]:
        """What the base and the reference solution show, and how many seconds their tests took at most."""
        if self._fitness is None:
            base = self._tested(self._repository.tree_of(self._base_commit), is_ours=True)
            reference = self._reference_run()
            seconds = max(base.seconds, 0.0 if reference is None else reference.seconds)
            self._fitness = fitness_of(self._decisive, base, reference), seconds
        return self._fitness

    def _reference_run(self) -> Run | None:
        """The run with the reference solution; ``None`` where that is not known."""
        try:
            reference = with_reference(self._sealed, self._repository, self._base_commit, self._answer)
        except StateError:
            return None
        if reference is None:
            return None
        reference.repository.close()
        return self._tested(reference.tree, is_ours=True)

    def _tested(self, tree: str, *, is_ours: bool = False) -> Run:
        """The run on a tree, remembered. ``is_ours``: what keeps it from its end is this machine's fault, and may be
        gone another time."""
        name = identify("j", self._identity, tree)
        with self._journal.open(name) as log:  # locked: who wants the same run waits for it
            if log.entries:
                return msgspec.json.decode(log.entries[-1], type=Run)
            with self._slots:
                run = self._run(tree, self._sealed / "layouts" / name)
            if not (is_ours and run.problem):
                log.append(msgspec.json.encode(run), is_last=True)
        return run

    def _run(self, tree: str, place: Path) -> Run:
        assert self._command is not None, "see missing"
        try:
            judged = with_tests(self._sealed, self._repository, self._base_commit, tree, self._answer)
        except StateError:
            return Run(problem="the task's tests cannot be laid over the state")
        with judged.repository as store:
            return _read(self._executed(store, judged, place), self._timeout_s)

    def _executed(self, store: Repository, judged: Judged, place: Path) -> Completed:
        assert self._command is not None, "see missing"
        with lay_out(store, self._base_commit, judged.tree, place) as work:
            sandbox = self._surroundings.open(work.path, LIMITS)
            try:
                return sandbox.run(self._command, self._timeout_s)
            finally:
                sandbox.close()


def _read(done: Completed, timeout_s: float) -> Run:
    problem = ""
    if done.timed_out:
        problem = f"the tests were stopped after {timeout_s:g} s"
    elif done.notice:
        problem = f"the tests did not end by themselves: {done.notice.strip('[]').partition('. A new shell')[0]}"
    return Run(
        results=results_of(done.output),
        problem=problem,
        is_late=done.timed_out,
        seconds=done.seconds,
        is_cut=done.is_truncated,
    )
