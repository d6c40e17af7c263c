"""``repository_states`` → ``injected_handoffs`` → ``view_renderings``: where a run may be cut, and what is handed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from handoff import corpus
from handoff.evidence import gather_evidence
from handoff.lake import Written
from handoff.points import Point, StateReader, find_handoff_points, state_class
from handoff.project import Project
from handoff.stages import inputs_of
from handoff.states.reader import StoredStates
from handoff.views import VIEWS, render_view, view_row

TestRun = Callable[[str, str, str], tuple[int, int] | None]
"""(repo, base commit, tree) → (passed, total) of the task's tests, or ``None`` where they cannot be run."""


def injected_handoffs(project: Project, shard: str, run_tests: TestRun | None = None) -> Written:
    """Find every handoff point of a shard's trajectories, with its sealed targets.

    ``run_tests`` gives the state class by execution; without it the class stays null.
    """
    upstream = [(table, {"shard": shard}) for table in ("raw_trajectories", "repository_states")]
    inputs = inputs_of("injected_handoffs", project.lake, *upstream, settings=run_tests is not None)
    if current := project.lake.current("injected_handoffs", inputs=inputs, shard=shard):
        return current
    return project.lake.write("injected_handoffs", _point_rows(project, shard, run_tests), inputs=inputs, shard=shard)


def _point_rows(project: Project, shard: str, run_tests: TestRun | None) -> Iterator[dict[str, Any]]:
    with States(project, shard) as states:
        for id_, trajectory in corpus.trajectories(project.lake, shard):
            reader = states.of(id_, trajectory.repo)
            for point in find_handoff_points(trajectory, id_, reader):
                yield _row(point, run_tests)


def _row(point: Point, run_tests: TestRun | None) -> dict[str, Any]:
    row = point.row()
    if run_tests is not None and point.tree and point.repo and point.base_commit:
        row["state_class"] = state_class(
            base=run_tests(point.repo, point.base_commit, point.base_tree or point.tree),
            now=run_tests(point.repo, point.base_commit, point.tree),
        )
    return row


def view_renderings(project: Project, shard: str) -> Written:
    """Render the four views of every point once, and keep their recipe, tokens and hash.

    Rule-written text is not stored: it is rendered again on read, byte for byte (the hash proves it).
    """
    upstream = [(table, {"shard": shard}) for table in ("raw_trajectories", "repository_states", "injected_handoffs")]
    inputs = inputs_of("view_renderings", project.lake, *upstream)
    if current := project.lake.current("view_renderings", inputs=inputs, shard=shard):
        return current
    return project.lake.write("view_renderings", _view_rows(project, shard), inputs=inputs, shard=shard)


def _view_rows(project: Project, shard: str) -> Iterator[dict[str, Any]]:
    points: dict[str, list[dict[str, Any]]] = {}
    for row in project.lake.rows("injected_handoffs", ["point_id", "trajectory_id", "h"], shard=shard):
        points.setdefault(row["trajectory_id"], []).append(row)
    with States(project, shard) as states:
        for id_, trajectory in corpus.trajectories(project.lake, shard, points):
            reader = states.of(id_, trajectory.repo)
            for point in points[id_]:
                evidence = gather_evidence(trajectory, point["h"], reader)
                for view in VIEWS:
                    yield view_row(point["point_id"], view, render_view(view, trajectory, point["h"], evidence))


class States:
    """State readers of a shard, opened once per repository. A context manager."""

    def __init__(self, project: Project, shard: str) -> None:
        self._repositories = project.repositories(shard)
        self._rows: dict[str, list[dict[str, Any]]] = {}
        for row in project.lake.rows("repository_states", shard=shard):
            self._rows.setdefault(row["trajectory_id"], []).append(row)

    def __enter__(self) -> States:
        return self

    def __exit__(self, *_: object) -> None:
        self._repositories.close()

    def of(self, trajectory_id: str, repo: str | None) -> StateReader | None:
        """The reader of one trajectory; ``None`` when its states are unverifiable from the start."""
        rows = self._rows.get(trajectory_id, [])
        if not repo or not rows or rows[0]["tree"] is None:
            return None
        return StoredStates(self._repositories.open(repo), rows)
