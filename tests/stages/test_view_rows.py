"""``view_renderings``: which views a point gets, and where a text comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handoff.project import Project
from handoff.stages import handoffs
from handoff.stages.quality import quality_signals
from handoff.views import VIEWS, view_tokens
from tests.stages.test_explained import World, chat


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.read(chat(repo="acme/pager", base_commit=made.base), chat(2))
    quality_signals(made.project, "a")
    handoffs.injected_handoffs(made.project, "a")
    return made


def rows_of(world: World, toml: str = "") -> dict[str, list[dict[str, Any]]]:
    """Rows of ``view_renderings`` by view, under these settings."""
    (world.project.root / "handoff.toml").write_text(toml)
    handoffs.view_renderings(Project(world.project.root), "a")
    found: dict[str, list[dict[str, Any]]] = {}
    for row in world.project.lake.rows("view_renderings", shard="a"):
        found.setdefault(row["view"], []).append(row)
    return found


def test_named_views_are_rendered_beside_the_four(world: World) -> None:
    """The four keep their ids; a text that is asked for is the one that the row counted."""
    plain = rows_of(world)
    assert set(plain) == set(VIEWS)
    named = rows_of(world, 'views = ["window:2", "diff", "drop", "diet"]')
    assert set(named) == {*VIEWS, "window:2", "diff", "diet"}
    assert {view: named[view] for view in VIEWS} == plain
    rows = [row for rows in named.values() for row in rows]
    assert len({row["view_id"] for row in rows}) == len(rows)
    for row in rows:
        if row["tokens"] is not None:
            briefing = handoffs.read_briefing(world.project, row["point_id"], row["view"])
            assert view_tokens(briefing.view_text) == row["tokens"]


def test_a_view_that_cannot_be_had_is_a_row_without_a_count(world: World) -> None:
    """The run that names no repository has no state and no diff; its shard is not lost."""
    points = {point["point_id"]: point for point in world.project.lake.rows("injected_handoffs")}
    diffs = rows_of(world, 'views = ["diff"]')["diff"]
    assert {row["tokens"] is None for row in diffs} == {True, False}
    assert all((row["tokens"] is None) == (points[row["point_id"]]["tree"] is None) for row in diffs)


def test_the_diff_is_what_was_changed_by_then(world: World) -> None:
    point = next(p for p in world.project.lake.rows("injected_handoffs") if p["tree"] is not None and p["h"] == 1)
    text = handoffs.read_briefing(world.project, point["point_id"], "diff").view_text
    assert "-one\n+two\n" in text
    assert text.count("diff --git") == 1
