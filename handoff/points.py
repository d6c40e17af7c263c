"""Handoff points: where a trajectory may be cut, and the sealed targets a takeover is measured by.

Labels are ``docs/science.md §1``, the task-state graph §6, gold keys §5, the hindsight plan §7. Labels, graph, plan and
gold use the whole recording and are sealed: no view and no successor sees them. What a successor may be told is in
``evidence.py`` and depends on steps ≤ h alone; so do ``tree`` and ``prefix_keys`` here.
"""

from __future__ import annotations

import ast
import posixpath
import re
import warnings
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import msgspec

from handoff.actions.history import Event, history
from handoff.actions.operations import CHANGING_KINDS, Key, Restore, Undo, patch_paths
from handoff.actions.paths import context_of, is_outside
from handoff.editors.hunks import has_all_hunks
from handoff.evidence import find_reverted, predecessor_of
from handoff.identity import identify
from handoff.states.reader import StateReader
from handoff.tokens import prompt_lengths
from handoff.trajectory import Trajectory

ALL = (
    "milestone",
    "intermediate",
    "error",
    "first_meaningful_modification",
    "post_first_validation_result",
    "post_failed_repair_edit",
    "natural",
)
"""Labels that a recording itself decides."""
GRID = ("every_k", "fraction")
"""Labels of grid points; only when asked for."""
FRACTIONS = (0.25, 0.5, 0.75)

StateClass = Literal["needs_completion", "already_solved", "regressed", "invalid"]


class Node(NamedTuple):
    """A subtask and whether it is done at h."""

    node: str
    done: bool


class Edge(NamedTuple):
    """One subtask comes before another."""

    before: str
    after: str


class GoldKey(NamedTuple):
    """A key of the recorded continuation."""

    step: int
    """Number in the recording, > h."""
    kind: str
    target: str
    necessary: bool
    """The solution needed it: an edit that survives, a read of such a file, the validation that decided."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One handoff point. ``row()`` is its row of ``injected_handoffs``."""

    point_id: str
    trajectory_id: str
    task_id: str | None
    repo: str | None
    base_commit: str | None
    split: str | None
    author: Literal["agent", "human"] = "agent"
    """Who did the work up to here."""
    h: int
    n_steps: int
    labels: tuple[str, ...]
    tree: str | None
    base_tree: str | None
    state_status: str | None
    state_is_derived: bool
    state_class: StateClass | None = None
    state_class_reason: str | None = None
    """Why there is no class, where tests were to be run on the state."""
    nodes: tuple[Node, ...]
    """Empty unless the run's end is a reference: it is resolved, or a person's branch."""
    edges: tuple[Edge, ...]
    plan: tuple[str, ...] | None
    gold: tuple[GoldKey, ...] | None
    """``None`` unless the run's end is a reference."""
    prefix_keys: tuple[Key, ...]
    remaining_steps: int | None
    """Model calls. ``None`` for a person, who makes none."""
    remaining_prompt_tokens: int | None
    """By our own tokenizer, as takeovers are counted (``tokens.prompt_lengths``). ``None`` for a person."""

    def row(self) -> dict[str, Any]:
        """Plain values for the lake."""
        row = {name: getattr(self, name) for name in self.__struct_fields__ if name != "base_tree"}
        row["labels"] = list(self.labels)
        row["nodes"] = [node._asdict() for node in self.nodes]
        row["edges"] = [edge._asdict() for edge in self.edges]
        row["plan"] = None if self.plan is None else list(self.plan)
        row["gold"] = None if self.gold is None else [key._asdict() for key in self.gold]
        row["prefix_keys"] = [{"kind": key.kind, "target": key.target} for key in self.prefix_keys]
        return row


def find_handoff_points(
    trajectory: Trajectory,
    trajectory_id: str,
    states: StateReader | None,
    *,
    labels: Collection[str] = ALL,
    every_k: int | None = None,
) -> tuple[Point, ...]:
    """The points of one run that carry at least one of ``labels``, by h.

    A label whose rule nothing in the run meets has no point; it is never imputed. ``every_k`` adds the grid
    1·k, 2·k, …; the label ``fraction`` adds the quarters.
    """
    n = len(trajectory.steps)
    if n < 2:
        return ()
    run = _Run(trajectory, states)
    labelled = run.labels()
    if every_k is not None and every_k > 0:
        for h in range(every_k, n, every_k):
            labelled.setdefault(h, set()).add("every_k")
    if "fraction" in labels:
        for share in FRACTIONS:
            labelled.setdefault(max(1, min(n - 1, round(share * n))), set()).add("fraction")
    wanted = {*labels, *(("every_k",) if every_k is not None else ())}
    order = {label: place for place, label in enumerate((*ALL, *GRID))}
    points = []
    for h in sorted(labelled):
        chosen = tuple(sorted(labelled[h] & wanted, key=order.__getitem__))
        if chosen and 1 <= h < n:
            points.append(_point(run, trajectory_id, h, chosen))
    return tuple(points)


def omitted(points: Sequence[Point], labels: Collection[str] = ALL) -> tuple[str, ...]:
    """The labels that no point of a run carries, in the order of ``labels``: to be counted, never imputed."""
    present = {label for point in points for label in point.labels}
    return tuple(label for label in labels if label not in present)


def state_class(*, base: tuple[int, int] | None, now: tuple[int, int] | None) -> StateClass | None:
    """The class of a state from test results, each (passed, total); ``None`` results mean that tests cannot run.

    ``invalid``: no test could be collected although the base has some. ``regressed``: fewer pass than at the base.
    """
    if now is None or base is None:
        return None
    passed, total = now
    if total <= 0:
        return "invalid" if base[1] > 0 else None
    if passed >= total and total >= base[1]:
        return "already_solved"
    return "regressed" if passed < base[0] else "needs_completion"


# -- labels -------------------------------------------------------------------------------------

_CODE = frozenset(
    [
        "py",
        "pyx",
        "pyi",
        "js",
        "jsx",
        "ts",
        "tsx",
        "mjs",
        "cjs",
        "java",
        "kt",
        "kts",
        "scala",
        "go",
        "rs",
        "c",
        "h",
        "cc",
        "cpp",
        "cxx",
        "hpp",
        "hh",
        "m",
        "mm",
        "swift",
        "rb",
        "php",
        "pl",
        "pm",
        "lua",
        "r",
        "jl",
        "sh",
        "bash",
        "zsh",
        "sql",
        "cs",
        "fs",
        "vb",
        "ex",
        "exs",
        "erl",
        "hs",
        "ml",
        "mli",
        "clj",
        "cljs",
        "dart",
        "vue",
        "svelte",
        "zig",
        "nim",
        "css",
        "scss",
        "less",
        "html",
    ]
)
_TEST_PATH = re.compile(
    r"(?:\A|/)(?:tests?|testing|specs?|__tests__)/|_(?:test|spec)\.|\.(?:test|spec)\.|(?:\A|/)(?:test_[^/]*|conftest)\.py\Z"
)
_SCRATCH = re.compile(r"(?:reproduce|repro|scratch|tmp|debug)[^/]*\Z", re.I)


def is_source(path: str) -> bool:
    """A source file in the sense of §1: code suffix, not under test paths, no scratch file at the root."""
    if is_outside(path) or path == ".":
        return False
    suffix = posixpath.splitext(path)[1].lstrip(".").lower()
    return suffix in _CODE and _TEST_PATH.search(path) is None and _SCRATCH.match(path) is None


class _Run:
    """What all points of one run share."""

    def __init__(self, trajectory: Trajectory, states: StateReader | None) -> None:
        self.trajectory = trajectory
        self.states = states
        self.n = len(trajectory.steps)
        self.prompts = prompt_lengths(trajectory)
        self.events = history(trajectory.steps, context_of(trajectory.format, trajectory.source))
        self.reverted = find_reverted(self.events, states)
        self.undone = {(path, step) for path, *steps in self.reverted for step in steps}
        """(path, step) of edits that were taken back and of those that took them back."""
        self.final_files = self._final_files()
        self.is_human = trajectory.author == "human"
        resolved = trajectory.outcome.resolved
        self.is_reference = resolved is True or (self.is_human and resolved is None)
        """What its author left at the end counts as right: the tests said so, or a person stopped there (§1)."""
        self._hunks: dict[tuple[int, str], bool] = {}
        self.deciding = next((e for e in reversed(self.events) if e.result is not None), None)

    def _final_files(self) -> tuple[str, ...]:
        if self.states is not None and self.states.tree(self.states.final()) is not None:
            return tuple(sorted(filter(_is_text, self.states.changed(self.states.final()))))
        patch = self.trajectory.outcome.patch
        if not patch:
            return ()
        return tuple(sorted(path for path in patch_paths(patch, 1) if not is_outside(path)))

    def source_edits(self) -> list[Event]:
        return [e for e in self.events if any(is_source(path) for path in e.changed)]

    def labels(self) -> dict[int, set[str]]:
        """h → labels, sets that are only ever read sorted."""
        found: dict[int, set[str]] = {}

        def add(step: int, label: str) -> None:
            if 1 <= step < self.n:
                found.setdefault(step, set()).add(label)

        milestones = self._milestones()
        for step in milestones:
            add(step, "milestone")
        for step in self._intermediate(milestones):
            add(step, "intermediate")
        for step in self._errors():
            add(step, "error")
        edits = [e for e in self.source_edits() if not isinstance(e.operation, Restore | Undo)]
        if edits:
            first = edits[0]
            add(first.step, "first_meaningful_modification")
            place = self.events.index(first)
            result = next((e for e in self.events[place + 1 :] if e.result is not None), None)
            if result is not None:
                add(result.step, "post_first_validation_result")
        failed = next(
            (n for n, e in enumerate(self.events) if e.result is not None and e.result.outcome == "failed"), None
        )
        if failed is not None:
            repair = next((e for e in self.events[failed + 1 :] if self._is_repair(e)), None)
            if repair is not None:
                add(repair.step, "post_failed_repair_edit")
        for number, recorded in enumerate(self.trajectory.steps, start=1):
            if recorded.boundary not in (None, "rollback") or number == self.trajectory.copied_steps:
                add(number, "natural")
        return found

    def _is_repair(self, event: Event) -> bool:
        """A source change, not made by git stash, restore, checkout, reset or clean."""
        reason = getattr(event.operation, "reason", "")
        if isinstance(event.operation, Restore) or reason.startswith("git "):
            return False
        return any(is_source(path) for path in event.changed)

    def _milestones(self) -> list[int]:
        found: set[int] = set()
        is_edited = is_reproduced = False
        last_edit: dict[str, int] = {}
        for event in self.events:
            if event.changed:
                is_edited = is_edited or any(not _SCRATCH.match(path) for path in event.changed)
                for path in event.changed:
                    last_edit[path] = event.step
            if event.result is None:
                continue
            if event.result.outcome == "passed" and is_edited:
                found.add(event.step)
                is_edited = False
            elif event.result.outcome == "failed" and not is_reproduced and not any(map(is_source, last_edit)):
                found.add(event.step)
                is_reproduced = True
        found.update(last_edit[path] for path in self.final_files if path in last_edit)
        return sorted(found)

    def _intermediate(self, milestones: list[int]) -> list[int]:
        found: set[int] = set()
        open_edit: int | None = None
        for event in self.events:
            if any(path != "." for path in event.changed) and any(not _SCRATCH.match(path) for path in event.changed):
                if open_edit is not None and open_edit != event.step:
                    found.add(open_edit)
                open_edit = event.step
            elif event.result is not None and open_edit is not None:
                if event.step != open_edit:
                    found.add(open_edit)
                open_edit = None
        if open_edit is not None:
            found.add(open_edit)
        marks = [0, *milestones, self.n]
        length, start = max(((b - a), -a) for a, b in pairwise(marks))
        if length >= 2:
            found.add(-start + length // 2)
        return sorted(found.difference(milestones))

    def _errors(self) -> list[int]:
        found = {first for _, first, _ in self.reverted}
        latest: dict[tuple[str, str], str] = {}
        last_edit: int | None = None
        for event in self.events:
            if event.changed:
                last_edit = event.step
                if any(self._breaks_syntax(event.step, path) for path in event.changed):
                    found.add(event.step)
            result = event.result
            if result is None or result.outcome is None:
                continue
            if result.outcome == "failed" and last_edit is not None:
                found.add(event.step)
                if latest.get((result.kind, result.target)) == "passed":
                    found.add(last_edit)
            latest[result.kind, result.target] = result.outcome
        return sorted(found)

    def _breaks_syntax(self, step: int, path: str) -> bool:
        if self.states is None or not path.endswith(".py") or self.states.tree(step) is None:
            return False
        now = self.states.read(step, path)
        if now is None or _parses(now):
            return False
        before = self.states.read(step - 1, path)
        return before is None or _parses(before)

    # -- §6 -------------------------------------------------------------------------------------

    def graph(self, h: int) -> tuple[tuple[Node, ...], tuple[Edge, ...]]:
        """V with V_done at h, and E. Empty unless the run is resolved and its final diff is known."""
        if not self.is_reference or not self.final_files:
            return (), ()
        before = [e for e in self.events if e.step <= h]
        located = {key.target for e in before for key in e.keys if key.kind in ("read", *CHANGING_KINDS)}
        nodes: list[Node] = []
        edges: list[Edge] = []
        reproduced = self._reproduced()
        if reproduced is not None:
            nodes.append(Node("reproduce", reproduced <= h))
        for path in self.final_files:
            nodes += [Node(f"locate:{path}", path in located), Node(f"edit:{path}", self._is_fixed(h, path))]
            edges.append(Edge(f"locate:{path}", f"edit:{path}"))
            if reproduced is not None and reproduced < self._first_edit(path):
                edges.append(Edge("reproduce", f"edit:{path}"))
        if self.deciding is not None and self.deciding.result is not None:
            target = self.deciding.result.target
            nodes.append(Node(f"validate:{target}", self._is_validated(before, target)))
            edges += [Edge(f"edit:{path}", f"validate:{target}") for path in self.final_files]
        return tuple(nodes), tuple(edges)

    def _reproduced(self) -> int | None:
        """The first step at which a validation failed before any source file was changed."""
        for event in self.events:
            if event.result is not None and event.result.outcome == "failed":
                return event.step
            if any(map(is_source, event.changed)):
                return None
        return None

    def _first_edit(self, path: str) -> int:
        return next((e.step for e in self.events if path in e.changed), self.n)

    def _is_validated(self, before: list[Event], target: str) -> bool:
        for event in reversed(before):
            if event.changed:
                return False
            if event.result is not None:
                return event.result.outcome == "passed" and event.result.target in (target, ".")
        return False

    def _is_fixed(self, h: int, path: str) -> bool:
        """All of the file's final hunks are there at h. Without states: edited by h and never after."""
        states = self.states
        if states is None or states.tree(h) is None or states.tree(states.final()) is None:
            edits = [e.step for e in self.events if path in e.changed]
            return bool(edits) and max(edits) <= h
        if (h, path) not in self._hunks:
            base, final, now = states.read(0, path), states.read(states.final(), path), states.read(h, path)
            self._hunks[h, path] = has_all_hunks(base, final, now)
        return self._hunks[h, path]

    # -- §5, §7 ---------------------------------------------------------------------------------

    def gold(self, h: int) -> tuple[GoldKey, ...] | None:
        """The keys of the recorded continuation; ``None`` unless the run's end is a reference."""
        if not self.is_reference:
            return None
        return tuple(
            GoldKey(event.step, key.kind, key.target, self._is_necessary(event, key))
            for event in self.events
            if event.step > h
            for key in event.keys
        )

    def _is_necessary(self, event: Event, key: Key) -> bool:
        if event.result is not None:
            return event is self.deciding
        if not event.happened or key.target not in self.final_files:
            return False
        if key.kind in CHANGING_KINDS:
            return (key.target, event.step) not in self.undone and not isinstance(event.operation, Restore | Undo)
        return key.kind == "read"

    def prefix_keys(self, h: int) -> tuple[Key, ...]:
        """Keys seen up to h that would tell nothing new: their target has not changed since (for what looks at more
        than one file: nothing has). Edits are left out: going on with a file is no rediscovery."""
        last: dict[Key, int] = {}
        file_changed: dict[str, int] = {}
        any_changed = -1
        for place, event in enumerate(self.events):
            if event.step > h:
                break
            for key in event.keys:
                if key.kind not in CHANGING_KINDS:
                    last[key] = place
            for path in event.changed:
                file_changed[path] = any_changed = place
        whole = file_changed.get(".", -1)
        return tuple(
            key
            for key, place in last.items()
            if place > (max(file_changed.get(key.target, -1), whole) if key.kind == "read" else any_changed)
        )


def _is_text(path: str) -> bool:
    """Whether a file's name is text: one that is not cannot be named in a table or asked about."""
    return not any("\ud800" <= character <= "\udfff" for character in path)


def _parses(source: bytes) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def plan_of(gold: Sequence[GoldKey]) -> tuple[str, ...]:
    """The hindsight plan: the continuation's keys as ``kind target``, runs of one key merged."""
    plan: list[str] = []
    for key in gold:
        step = f"{key.kind} {key.target}"
        if not plan or plan[-1] != step:
            plan.append(step)
    return tuple(plan)


def _point(run: _Run, trajectory_id: str, h: int, labels: tuple[str, ...]) -> Point:
    trajectory, states = run.trajectory, run.states
    gold = run.gold(h)
    nodes, edges = run.graph(h)
    return Point(
        point_id=identify("p", trajectory_id, h),
        trajectory_id=trajectory_id,
        task_id=trajectory.task_id,
        repo=trajectory.repo,
        base_commit=trajectory.base_commit,
        split=trajectory.split,
        author="agent" if predecessor_of(trajectory, h) == "agent" else "human",
        h=h,
        n_steps=run.n,
        labels=labels,
        tree=states.tree(h) if states is not None else None,
        base_tree=states.tree(0) if states is not None else None,
        state_status=states.status(h) if states is not None else None,
        state_is_derived=states is not None and states.is_derived(h),
        nodes=nodes,
        edges=edges,
        plan=None if gold is None else plan_of(gold),
        gold=gold,
        prefix_keys=run.prefix_keys(h),
        remaining_steps=None if run.is_human else run.n - h,
        remaining_prompt_tokens=None if run.is_human else sum(run.prompts[h:]),
    )
