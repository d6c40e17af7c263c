"""Disturbances at points of real repositories: the task's own tests decide whether they are fair."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_server import serving

from handoff.project import Project
from handoff.stages.disturbances import disturb_point
from tests.stages.test_judged_takeovers import MENDED, World


@pytest.fixture
def world(tmp_path: Path, bubblewrap: None) -> Iterator[World]:
    with serving() as at:
        made = World(tmp_path, at.url)
        made.set()
        yield made


@pytest.mark.slow
def test_the_check_is_executed_with_the_tasks_own_tests(world: World) -> None:
    """The reference solution passes on the disturbed state, and nothing of it leaves the sealed folder."""
    world.ingest()
    point = world.point()["point_id"]
    for kind in ("reverted_edit", "half_alternatives"):
        found = disturb_point(Project(world.data), point, [(kind, 1.0)], "structured", 0)
        assert (found.row["oracle"], found.row["oracle_detail"]) == (
            "preserved",
            "the reference solution passes 2 of 2 tests",
        )
    text = MENDED.encode()
    blob = hashlib.sha1(b"blob %d\0" % len(text) + text, usedforsecurity=False).hexdigest()
    found_in = {path.relative_to(world.data).parts[0] for path in world.data.rglob(f"{blob[:2]}/{blob[2:]}")}
    assert found_in == {"sealed"}


def test_where_tests_cannot_run_the_check_is_not_run(world: World) -> None:
    """Said, not assumed."""
    world.ingest(FAIL_TO_PASS=[], PASS_TO_PASS=[])
    point = world.point()["point_id"]
    found = disturb_point(Project(world.data), point, [("reverted_edit", 1.0)], "repo", 0)
    assert found.row["oracle"] == "not_run" and found.row["tree"] is not None
