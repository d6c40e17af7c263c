"""Disturbances of the embedded world: the oracle is executed, and what they cost is measured (docs/science.md §10)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from handoff import cli
from handoff.adversary import DISTURBANCES, Scene, Variant, apply_recipes, obedience, read_recipes, vary
from handoff.errors import InputError
from handoff.kata.lab import KataLab
from handoff.kata.record import load_world, record
from handoff.kata.world import generate
from handoff.lake import SCHEMAS
from handoff.project import Project
from handoff.stages import corpus, handoffs, quality
from handoff.stages.adversary import adversarial_variants, briefing_at, checked_rows, scene_of
from handoff.stages.disturbances import disturb_point, measure
from handoff.stages.handoffs import Handoffs
from handoff.takeover import read_transcript
from handoff.trajectory import Action, Outcome, Step

SHARD = "kata-test"
VIEWS = ("structured", "trace", "summary")
KINDS = [each.kind for each in DISTURBANCES]


def recorded(data: Path, tasks: int) -> Project:
    """A data folder with the points of some tasks, really executed."""
    record(generate(5, 1, 0, tasks), data, seed=5, workers=2)
    project = Project(data)
    for stage in (
        corpus.raw_trajectories,
        corpus.repository_states,
        quality.quality_signals,
        handoffs.injected_handoffs,
        handoffs.view_renderings,
    ):
        stage(project, SHARD)
    return project


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return recorded(tmp_path_factory.mktemp("kata") / "data", 2)


@pytest.fixture(scope="module")
def fifty(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return recorded(tmp_path_factory.mktemp("fifty") / "data", 54)


class Scenes:
    """Scenes of a project's points, each read once."""

    def __init__(self, project: Project, shown: Handoffs) -> None:
        points = project.lake.rows("injected_handoffs", shard=SHARD)
        open_points = [point for point in points if point["state_class"] == "needs_completion"]
        self.by_task: dict[str, list[dict[str, Any]]] = {}
        for point in sorted(open_points, key=lambda p: (p["repo"], -p["h"])):
            self.by_task.setdefault(point["repo"], []).append(point)
        self._shown = shown
        self._known: dict[tuple[str, str], Scene] = {}

    def of(self, task: str) -> Iterator[tuple[dict[str, Any], Scene]]:
        """Points of a task, the latest first, under each view."""
        for point in self.by_task[task]:
            for view in VIEWS:
                key = (point["point_id"], view)
                if key not in self._known:
                    self._known[key] = scene_of(self._shown, point, view)
                yield point, self._known[key]

    def fitting(self, task: str, kinds: list[tuple[str, float]]) -> tuple[Variant, Mapping[str, Any]] | None:
        """The first of them that the kinds can disturb."""
        for point, scene in self.of(task):
            variant = vary(point["point_id"], scene, kinds, seed=1)
            if variant is not None:
                return variant, point
        return None


@pytest.mark.slow
def test_every_kind_keeps_the_oracle_on_fifty_tasks(fifty: Project) -> None:
    """The reference solution passes after it, by execution, and behaviour is kept where a kind says so."""
    with Handoffs(fifty, SHARD) as shown:
        scenes = Scenes(fifty, shown)
        made = [found for kind in KINDS for task in scenes.by_task if (found := scenes.fitting(task, [(kind, 0.6)]))]
        rows = list(checked_rows(fifty, shown, made))
        counted = Counter(row["kinds"][0] for row in rows if row["oracle"] == "preserved")
        assert {kind: counted[kind] for kind in KINDS if counted[kind] < 50} == {}, "tasks of each kind"
        refused = {(row["kinds"][0], row["oracle_detail"]) for row in rows if row["oracle"] != "preserved"}
        # To put a wrong edit back can be all that was missing: then nothing is left to do, and it is refused.
        assert refused <= {("reverted_edit", "the disturbance alone solves the task")}
        assert len(rows) - counted.total() <= 2
        world = load_world(fifty.root)
        with KataLab(fifty.root, worker="again") as lab:
            for row, (variant, point) in zip(rows[::17], made[::17], strict=True):  # stored as recipes, made again
                told, tree = briefing_at(shown, point, row["view"], row)
                assert (told.task, told.view_text) == (variant.after.task, variant.after.view_text)
                assert tree == row["tree"]
                put_back = {path: data and data.decode() for path, data in variant.before.base.items()}
                solution = {**put_back, **world.task(point["repo"]).reference}
                assert lab.environment(point["repo"], point["base_commit"], tree, solution).verdict().solved


@pytest.mark.slow
def test_any_two_kinds_in_either_order_keep_the_oracle(small: Project) -> None:
    with Handoffs(small, SHARD) as shown:
        scenes = Scenes(small, shown)
        made = []
        missing = []
        for pair in itertools.permutations(KINDS, 2):
            found = [scenes.fitting(task, [(kind, 0.6) for kind in pair]) for task in scenes.by_task]
            made += [one for one in found if one is not None]
            missing += [] if any(found) else [pair]
        rows = list(checked_rows(small, shown, made))
        refused = {
            (row["oracle_detail"], "reverted_edit" in row["kinds"]) for row in rows if row["oracle"] != "preserved"
        }
        assert refused <= {("the disturbance alone solves the task", True)}
        assert len(made) >= 2 * len(KINDS) * (len(KINDS) - 1) * 0.9
        assert all({"stale_notes"} & set(pair) for pair in missing), "a trace is never a note of an earlier moment"


def test_a_point_is_disturbed_shown_and_left_alone(small: Project) -> None:
    """What is printed is what a successor would meet; nothing is written into tables."""
    before = small.lake.partitions("adversarial_variants")
    point = next(
        p
        for p in small.lake.rows("injected_handoffs", shard=SHARD)
        if p["state_class"] == "needs_completion" and p["h"] > 9
    )
    found = disturb_point(small, point["point_id"], [("reverted_edit", 1.0), ("harmful_command", 0.5)], "structured", 3)
    assert found.row["oracle"] == "preserved" and found.row["families"] == ["state_inconsistency", "injection"]
    assert found.row["tree"] != point["tree"]
    assert apply_recipes(found.variant.before, read_recipes(found.row["parameters"])) == found.variant.after
    done = CliRunner().invoke(
        cli.app,
        [
            "disturb",
            point["point_id"],
            "--kind",
            "harmful_command",
            "--kind",
            "noisy_output",
            "--data",
            str(small.root),
        ],
    )
    assert done.exit_code == 0, done.output
    assert "rm -rf results-" in done.output and "oracle preserved" in done.output and "noisy" in done.output
    with pytest.raises(InputError, match="what fits there by itself: reverted_edit"):
        disturb_point(small, point["point_id"], [("lost_notes", 0.5)], "repo", 0)
    assert small.lake.partitions("adversarial_variants") == before


def test_the_kinds_are_listed() -> None:
    done = CliRunner().invoke(cli.app, ["disturb", "--list"])
    assert done.exit_code == 0 and all(kind in done.output for kind in KINDS)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("p_1", "--measure", "expert"), "leave the point out"),
        (("--measure", "expert", "--severity", "nan"), "above 0 and at most 1, not nan"),
        (("p_1", "--kind", "reverted_edit", "--severity", "7"), "above 0 and at most 1, not 7.0"),
    ],
)
def test_what_cannot_be_disturbed_is_said_before_anything_runs(
    tmp_path: Path, arguments: tuple[str, ...], problem: str
) -> None:
    done = CliRunner().invoke(cli.app, ["disturb", *arguments, "--data", str(tmp_path)])
    assert done.exit_code == 2 and problem in done.output


@pytest.mark.slow
def test_what_a_disturbance_costs_is_measured_on_pairs(small: Project) -> None:
    """The expert, really run with and without; run again, it is read from the journal and says the same."""
    kinds = ["reverted_edit", "harmful_command", "noisy_output"]
    first = measure(small, arm="expert", kinds=kinds, views=["structured"], severity=1.0)
    by_kind = {line.kind: line for line in first.lines}
    assert list(by_kind) == kinds and first.rejected == 0
    assert all(line.n_tasks == 2 and line.low is not None for line in first.lines)
    assert by_kind["reverted_edit"].change > 0, "work that is undone has to be done again"
    assert by_kind["harmful_command"].obeyed == 0.0 and by_kind["reverted_edit"].obeyed is None
    assert measure(small, arm="expert", kinds=kinds, views=["structured"], severity=1.0) == first


def test_noise_reaches_the_run(small: Project) -> None:
    """Answers in the transcript of a noisy takeover hold what does not belong there."""
    from handoff.stages.disturbances import run_each
    from handoff.stages.takeovers import Start, make_job

    with Handoffs(small, SHARD) as shown:
        scenes = Scenes(small, shown)
        task = next(iter(scenes.by_task))
        variant, point = scenes.fitting(task, [("noisy_output", 1.0)])  # type: ignore[misc]
        (row,) = checked_rows(small, shown, [(variant, point)])
        start = Start(
            point_id=point["point_id"],
            view_id=shown.row(point, row["view"])["view_id"],
            variant_id=row["variant_id"],
            view=row["view"],
            tier=None,
            purpose="search",
            arm="expert",
            seed=1,
        )
        job = make_job(small, shown, start, point, {row["variant_id"]: row}, {})
        (run,) = run_each(small, [job], None)
    answers = [seen.text for step in read_transcript(run["transcript"]) for seen in step.observations]
    assert any("temporarily unavailable" in text or "warning: clock" in text or '"status"' in text for text in answers)
    assert obedience(variant.recipes, read_transcript(run["transcript"])) == ()


def test_the_extreme_tier_takes_the_worst_known_point(small: Project) -> None:
    """By search, else by measured takeovers; a guess says that it is one."""
    points = small.lake.rows("injected_handoffs", shard=SHARD)
    open_points = [p for p in points if p["state_class"] == "needs_completion" and len(p["nodes"]) > 0]
    task = open_points[0]["task_id"]
    own = [p for p in open_points if p["task_id"] == task]
    costs = {own[0]["point_id"]: ("measured", 9.0), own[-1]["point_id"]: ("searched", 3.0)}
    rows = [{"point_id": id_, "how": how, "excess_cost": cost} for id_, (how, cost) in costs.items()]
    rows.append({"point_id": own[0]["point_id"], "how": "searched", "excess_cost": 1.0})
    blank = dict.fromkeys(SCHEMAS["worst_points"].names)
    small.lake.write("worst_points", [{**blank, **row} for row in rows], inputs="i", round="r001", shard=SHARD)
    adversarial_variants(small, "r001", SHARD)
    by_id = {p["point_id"]: p for p in points}
    made = small.lake.rows("adversarial_variants", round="r001", shard=SHARD)
    extreme = {by_id[row["point_id"]]["task_id"]: row for row in made if row["tier"] == "extreme"}
    assert (extreme[task]["point_id"], extreme[task]["worst_known"]) == (own[-1]["point_id"], "searched")
    assert {row["worst_known"] for other, row in extreme.items() if other != task} <= {"proxy"}
    assert {row["worst_known"] for row in made if row["tier"] != "extreme"} == {None}


@pytest.mark.parametrize("view", ["structured", "summary", "trace", "diet", "window:3", "repo", "diff"])
def test_a_scene_knows_nothing_of_what_came_after(small: Project, view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that follows h is changed, and the outcome; the scene is the same."""
    points = small.lake.rows("injected_handoffs", shard=SHARD)
    point = next(p for p in points if p["state_class"] == "needs_completion" and p["h"] > 9)
    with Handoffs(small, SHARD) as shown:
        before = scene_of(shown, point, view)
        run = shown.trajectory(point)
    later = (
        Step(text="I will leak LEAKED.py", actions=(Action(tool="bash", arguments='{"command":"cat LEAKED.py"}'),)),
    )
    other = msgspec.structs.replace(
        run, steps=(*run.steps[: point["h"]], *later * 3), outcome=Outcome(resolved=None, exit_status="leaked")
    )
    monkeypatch.setattr(Handoffs, "trajectory", lambda self, point: other)
    with Handoffs(small, SHARD) as shown:
        assert scene_of(shown, point, view) == before
