"""``repository_states`` → ``injected_handoffs`` → ``view_renderings``: where runs may be cut, what is handed on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow.compute as pc

from handoff import corpus
from handoff.endpoints import Client
from handoff.errors import InputError
from handoff.evidence import Evidence, gather_evidence
from handoff.git.repositories import Repository
from handoff.kata.lab import KataLab
from handoff.kata.pool import Progress, run_many
from handoff.kata.record import EXPERT
from handoff.lake import Written
from handoff.points import find_handoff_points, state_class
from handoff.project import Project
from handoff.stages import inputs_of, is_embedded, is_executable, is_real
from handoff.stages.choosing import choose_points
from handoff.stages.judges import images_by_task, judge_states, judging_version, surroundings_of
from handoff.stages.writing import Commission, write_all, write_one, writer_of
from handoff.states.reader import StateReader, StoredStates
from handoff.successors import Briefing
from handoff.trajectory import Trajectory
from handoff.views import author_of, lacking, parse_view, preamble, render_view, view_row, views_at
from handoff.views.written import written_row
from handoff.workplace import Surroundings
from handoff.writers.model import VERSION as WRITER_VERSION

State = tuple[str, str, str]
"""(repository, base commit, tree)."""


def injected_handoffs(project: Project, shard: str, progress: Progress | None = None) -> Written:
    """Find every handoff point of a shard's trajectories, with its sealed targets. ``progress``: of testing states.

    Where tests can run, each distinct state is tested once for its class; elsewhere the class stays null. A leaked
    run (docs/science.md §14) has points only before its leak, and its outcome counts for nothing: no gold, no plan.
    """
    upstream = [(table, {"shard": shard}) for table in ("raw_trajectories", "repository_states", "run_quality")]
    tested_by = judging_version(project, shard) if project.settings.test_states else None
    inputs = inputs_of("injected_handoffs", project.lake, *upstream, settings=tested_by)
    if current := project.lake.current("injected_handoffs", inputs=inputs, shard=shard):
        return current
    rows = _point_rows(project, shard)
    # Demonstrations are learned from as a whole: nobody takes over from their points.
    heads = project.lake.rows("raw_trajectories", ["trajectory_id", "agent"], shard=shard)
    shown = {head["trajectory_id"] for head in heads if head["agent"] == EXPERT}
    tested = [row for row in rows if is_executable(row) and row["trajectory_id"] not in shown]
    states = {_state(row, tree) for row in tested for tree in (row["tree"], row["base_commit"])}
    counted = _run_tests(project, sorted(states))
    for row in tested:
        base, now = counted[_state(row, row["base_commit"])], counted[_state(row, row["tree"])]
        row["state_class"] = state_class(base=base, now=now)
    if tested_by:
        _classify(project, shard, [row for row in rows if row["repo"] and not is_embedded(row["repo"])], progress)
    return project.lake.write("injected_handoffs", rows, inputs=inputs, shard=shard)


def _point_rows(project: Project, shard: str) -> list[dict[str, Any]]:
    heads = project.lake.rows("raw_trajectories", ["trajectory_id", "split", "repeated_steps"], shard=shard)
    splits = {head["trajectory_id"]: head["split"] for head in heads}
    # A resumed run begins with all of another one: that part is the other's, and has its points there.
    begins = {head["trajectory_id"]: head["repeated_steps"] for head in heads}
    leaks = leaked_steps(project, shard)
    with States(project, shard) as states:
        return [
            {
                **point.row(),
                "split": _split(trajectory, splits[id_], states.place(id_)),
                **states.place(id_),
            }
            for id_, trajectory in corpus.trajectories(project.lake, shard)
            for point in find_handoff_points(
                _without_success(trajectory) if id_ in leaks else trajectory, id_, states.of(id_, trajectory.repo)
            )
            if begins[id_] <= point.h < leaks.get(id_, point.n_steps)
        ]


def _split(trajectory: Trajectory, split: str, place: Mapping[str, Any]) -> str:
    """The split of a run; by its repository also where only an instance names that."""
    if trajectory.repo or trajectory.split or not place:
        return split
    return corpus.split_of(place["repo"], trajectory.task_id)


def leaked_steps(project: Project, shard: str) -> dict[str, int]:
    """Leaked run → the step from which it may have known the solution (``docs/science.md §14``)."""
    rows = project.lake.rows("run_quality", ["trajectory_id", "leak_step"], shard=shard)
    return {row["trajectory_id"]: row["leak_step"] for row in rows if row["leak_step"] is not None}


def _without_success(trajectory: Trajectory) -> Trajectory:
    outcome = msgspec.structs.replace(trajectory.outcome, resolved=None)
    return msgspec.structs.replace(trajectory, outcome=outcome)


def _state(row: Mapping[str, Any], tree: str) -> State:
    return row["repo"], row["base_commit"], tree


def _run_tests(project: Project, states: Sequence[State]) -> dict[State, tuple[int, int]]:
    settings = project.settings
    counts = run_many(count_tests, states, data=project.root, sandbox=settings.sandbox, workers=settings.workers)
    return dict(zip(states, counts, strict=True))


def _classify(project: Project, shard: str, rows: Sequence[dict[str, Any]], progress: Progress | None) -> None:
    """Fill in the class of states of real repositories, each distinct one tested once by its task's own tests."""
    for row in rows:
        row["state_class_reason"] = None if is_real(row) else "not all of the state follows from the recording"
    rows = [row for row in rows if is_real(row)]
    states = [(row["repo"], row["base_commit"], row["task_id"], row["tree"]) for row in rows]
    distinct = list(dict.fromkeys(states))
    found = dict(zip(distinct, judge_states(project, shard, distinct, progress), strict=True))
    for row, state in zip(rows, states, strict=True):
        row["state_class"] = found[state].state
        row["state_class_reason"] = None if found[state].state else found[state].reason


def count_tests(lab: KataLab, state: State) -> tuple[int, int]:
    """(passed, total) of one state, in a worker."""
    return lab.test(*state)


def view_renderings(project: Project, shard: str, progress: Progress | None = None) -> Written:
    """Render the views of every point once, and keep their recipes and tokens: the four, ``recorded`` where
    something was handed over, and those that the settings name (``views``).

    Rule-written text is not stored: it is rendered again on read, byte for byte. Where the settings name a ``writer``,
    its summaries and notes of points at which named successors are started come after them, as rows of their own.
    """
    own = project.settings
    upstream = [(table, {"shard": shard}) for table in ("raw_trajectories", "repository_states", "injected_handoffs")]
    settings: tuple[object, ...] = own.further_views
    if own.writer:
        settings += (writer_of(project, own.writer).digest, WRITER_VERSION, own.points_per_run, own.seed)
        settings += tuple(filter(None, [own.writer_dollar_budget]))
    inputs = inputs_of("view_renderings", project.lake, *upstream, settings=settings or None)
    if current := project.lake.current("view_renderings", inputs=inputs, shard=shard):
        return current
    return project.lake.write("view_renderings", _view_rows(project, shard, progress), inputs=inputs, shard=shard)


def _view_rows(project: Project, shard: str, progress: Progress | None) -> Iterator[dict[str, Any]]:
    points: dict[str, list[dict[str, Any]]] = {}
    for row in project.lake.rows("injected_handoffs", shard=shard):
        points.setdefault(row["trajectory_id"], []).append(row)
    chosen = _to_write(project, [point for own in points.values() for point in own])
    views = [view for view in ("summary", "structured", *project.settings.further_views) if parse_view(view).is_written]
    commissions: list[Commission] = []
    with States(project, shard) as states:
        for id_, trajectory in corpus.trajectories(project.lake, shard, points):
            reader = states.of(id_, trajectory.repo)
            for point in points[id_]:
                h, point_id = point["h"], point["point_id"]
                evidence = gather_evidence(trajectory, h, reader)
                for view in (*views_at(trajectory, h), *project.settings.further_views):
                    reason = lacking(parse_view(view), trajectory, h, reader)
                    text = None if reason else render_view(view, trajectory, h, evidence, reader)
                    yield view_row(point_id, view, text, author=author_of(view, trajectory, h), reason=reason)
                if point_id in chosen:
                    commissions += [
                        Commission(point_id=point_id, view=view, trajectory=trajectory, h=h, evidence=evidence)
                        for view in views
                    ]
    if commissions:
        with Client(writer_of(project, project.settings.writer)) as client:
            for commission, written in zip(commissions, write_all(project, commissions, client, progress), strict=True):
                yield written_row(commission.point_id, commission.view, written)


def _to_write(project: Project, points: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Points that a model writes for: those at which a round starts successors that the settings name."""
    own = project.settings
    if not own.writer:
        return frozenset()
    embedded = choose_points([point for point in points if is_executable(point)], own.points_per_run, own.seed)
    real = [point for point in points if is_real(point) and point["split"] == "test"]
    chosen = [*embedded, *choose_points(real, own.points_per_run, own.seed, unknown=True)]
    return frozenset(point["point_id"] for point in chosen if point["split"] == "test")


def is_by_rule(row: Mapping[str, Any]) -> bool:
    """Whether a row of ``view_renderings`` tells of a view that rules rendered, or that the recording holds."""
    return row["writing"] is None


def view_ids(rows: Iterable[Mapping[str, Any]], *, by_rule: bool = True) -> dict[tuple[str, str], str]:
    """(point, view) → ``view_id`` of the views that can be had: those of rules, or those that a model wrote."""
    return {
        (row["point_id"], row["view"]): row["view_id"]
        for row in rows
        if is_by_rule(row) == by_rule and row["tokens"] is not None
    }


class States:
    """State readers of a shard, opened once per repository. A context manager."""

    def __init__(self, project: Project, shard: str) -> None:
        self._repositories = project.repositories(shard)
        self._open: dict[str, Repository] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {}
        for row in project.lake.rows("repository_states", shard=shard):
            self._rows.setdefault(row["trajectory_id"], []).append(row)

    def __enter__(self) -> States:
        return self

    def __exit__(self, *_: object) -> None:
        for repository in self._open.values():
            repository.close()

    def of(self, trajectory_id: str, repo: str | None) -> StateReader | None:
        """The reader of one trajectory; ``None`` when its states are unverifiable from the start."""
        rows = self._rows.get(trajectory_id, [])
        repo = repo or self.place(trajectory_id).get("repo")
        if not repo or not rows or rows[0]["tree"] is None:
            return None
        return StoredStates(self.repository(repo), rows)

    def place(self, trajectory_id: str) -> dict[str, Any]:
        """Where a trajectory's states are: ``repo`` and ``base_commit``, named by the recording or not."""
        first = next((row for row in self._rows.get(trajectory_id, []) if row["step"] == 0), None)
        if first is None or first["tree"] is None or not first["repo"]:
            return {}
        return {"repo": first["repo"], "base_commit": first["commit"]}

    def repository(self, repo: str) -> Repository:
        """An open repository; closed with this object."""
        if repo not in self._open:
            self._open[repo] = self._repositories.open(repo)
        return self._open[repo]


class Handoffs:
    """A shard's points with all that is needed to start from them. A context manager.

    Trajectories are read when first asked for and kept: meant for the points of one job, not for whole corpora.
    """

    def __init__(self, project: Project, shard: str) -> None:
        self._project = project
        self._shard = shard
        self._states = States(project, shard)
        self._trajectories: dict[str, Trajectory] = {}
        self._evidence: dict[tuple[str, int], Evidence] = {}
        self._images: Mapping[str, str] | None = None
        self._by_models: dict[str, dict[str, Any]] = {}
        self._has_read = False

    def __enter__(self) -> Handoffs:
        return self

    def __exit__(self, *exception: object) -> None:
        self._states.__exit__(*exception)

    def load(self, trajectory_ids: Iterable[str]) -> None:
        """Read these trajectories in one pass."""
        missing = sorted(set(trajectory_ids) - self._trajectories.keys())
        if missing:
            self._trajectories.update(corpus.trajectories(self._project.lake, self._shard, missing))

    def trajectory(self, point: Mapping[str, Any]) -> Trajectory:
        """The recorded run that a point cuts."""
        self.load([point["trajectory_id"]])
        return self._trajectories[point["trajectory_id"]]

    @property
    def states(self) -> States:
        """The states of the shard's runs."""
        return self._states

    def reader(self, point: Mapping[str, Any]) -> StateReader | None:
        """The states of that run."""
        return self._states.of(point["trajectory_id"], point["repo"])

    def repository(self, point: Mapping[str, Any]) -> Repository:
        """Where its trees are."""
        return self._states.repository(point["repo"])

    def surroundings(self, point: Mapping[str, Any]) -> Surroundings:
        """Where commands run at a point of a real repository."""
        if self._images is None:
            self._images = images_by_task(self._project, self._shard)
        return surroundings_of(self._project, point["repo"], point["task_id"], self._images)

    def evidence(self, point: Mapping[str, Any]) -> Evidence:
        """The evidence record at a point."""
        key = (point["trajectory_id"], point["h"])
        if key not in self._evidence:
            self._evidence[key] = gather_evidence(self.trajectory(point), point["h"], self.reader(point))
        return self._evidence[key]

    def text(self, point: Mapping[str, Any], view: str, view_id: str = "") -> str:
        """The view block: the one that a model wrote when ``view_id`` names that, else as rules render it.

        ``InputError``: no such view, or it cannot be had there.
        """
        stored = self._stored(view_id)
        if stored is not None:
            if stored["written"] is None:
                problem = f"{stored['author']} could not write the {view} view: {stored['reason']}"
                raise InputError(f"{problem}; choose another writer, or none")
            return str(stored["written"])
        evidence = self.evidence(point) if parse_view(view).is_written else None
        return render_view(view, self.trajectory(point), point["h"], evidence, self.reader(point))

    def row(self, point: Mapping[str, Any], view: str) -> dict[str, Any]:
        """The row of ``view_renderings`` that rules give, whether the table has it or not."""
        author = author_of(view, self.trajectory(point), point["h"])
        return view_row(point["point_id"], view, self.text(point, view), author=author)

    def written(self, point: Mapping[str, Any], view: str, client: Client) -> dict[str, Any]:
        """The row of a view that the model behind ``client`` writes, now or read from the journal. ``text`` and
        ``briefing`` know its ``view_id`` from now on. Errors as ``writing.write_one``."""
        trajectory, evidence = self.trajectory(point), self.evidence(point)
        written = write_one(self._project, view, trajectory, point["h"], evidence, client)
        row = written_row(point["point_id"], view, written)
        self._stored(row["view_id"])
        self._by_models[row["view_id"]] = row
        return row

    def note_tokens(self, view_id: str) -> int:
        """Tokens spent on writing a view; none for rules."""
        stored = self._stored(view_id)
        return 0 if stored is None else int(stored["writing_tokens"])

    def _stored(self, view_id: str) -> dict[str, Any] | None:
        if not view_id:
            return None
        if not self._has_read:
            self._has_read = True
            rows = self._project.lake.rows("view_renderings", where=pc.is_valid(pc.field("writing")), shard=self._shard)
            self._by_models.update((row["view_id"], row) for row in rows)
        return self._by_models.get(view_id)

    def briefing(self, point: Mapping[str, Any], view: str, view_id: str = "") -> Briefing:
        """What a successor is told at a point under a view; ``view_id`` as for ``text``."""
        trajectory = self.trajectory(point)
        return Briefing(
            task=trajectory.task,
            view=view,
            view_text=self.text(point, view, view_id),
            preamble=preamble(trajectory, point["h"]),
            tools=trajectory.tools or "[]",
        )


def read_briefing(project: Project, point_id: str, view: str) -> Briefing:
    """The briefing of one point anywhere in the lake. ``point_id`` may be the beginning of one."""
    view = parse_view(view).name
    point = find_point(project, point_id)
    with Handoffs(project, point["shard"]) as handoffs:
        return handoffs.briefing(point, view)


def read_written(project: Project, point_id: str, view: str, writer: str) -> tuple[Briefing, dict[str, Any]]:
    """(briefing, row) of one view that a model writes, now or read from the journal. ``InputError``: as
    ``read_briefing``, no such writer, or no text could be had of it."""
    view = parse_view(view).name
    point = find_point(project, point_id)
    with Handoffs(project, point["shard"]) as handoffs, Client(writer_of(project, writer)) as client:
        row = handoffs.written(point, view, client)
        return handoffs.briefing(point, view, row["view_id"]), row


def _points_instead(project: Project, point_id: str) -> str:
    """What a user may have meant: the points of the run of that id, or where the ids are."""
    place = project.lake.root / "injected_handoffs"
    if not project.lake.partitions("injected_handoffs"):
        return f"there is no point in {project.root} yet: run `handoff ingest FILES`, or correct --data"
    where = pc.starts_with(pc.field("trajectory_id"), point_id)
    own = sorted(
        project.lake.read("injected_handoffs", ["point_id", "trajectory_id", "h"], where=where).to_pylist(),
        key=lambda row: row["h"],
    )
    if len({row["trajectory_id"] for row in own}) != 1:
        return f"the ids are in {place}"
    more = " …" if len(own) > _TOLD else ""
    listed = ", ".join(f"{row['point_id']} (step {row['h']})" for row in own[:_TOLD])
    return f"the points of that run are {listed}{more}"


_TOLD = 10


def find_point(project: Project, point_id: str) -> dict[str, Any]:
    """The row of one point anywhere in the lake. ``point_id`` may be the beginning of one; ``InputError`` when none
    or several begin so."""
    found = project.lake.read("injected_handoffs", where=pc.starts_with(pc.field("point_id"), point_id)).to_pylist()
    if not found:
        raise InputError(f"no handoff point begins with {point_id!r}; {_points_instead(project, point_id)}")
    if len(found) > 1:
        some = ", ".join(row["point_id"] for row in found[:3])
        raise InputError(f"{len(found)} handoff points begin with {point_id!r} ({some} …); give more of the id")
    row: dict[str, Any] = found[0]
    return row
