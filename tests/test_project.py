"""A project folder: what is in the inbox is a shard, settings are checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from handoff.errors import InputError
from handoff.project import Project


def test_a_dropped_file_is_a_shard(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert project.shards() == {}
    project.inbox.mkdir()
    (project.inbox / "runs of may.jsonl").write_text("{}")
    assert list(project.shards()) == ["runs-of-may"]


def test_files_that_differ_only_in_their_suffix_are_two_shards(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.inbox.mkdir()
    (project.inbox / "a.json").write_text("{}")
    (project.inbox / "a.jsonl").write_text("{}")
    assert len(project.shards()) == 2


def test_files_may_stay_where_they_are(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.add_shard("mine", ("/x/a.traj",), {"o/r": "/m.git"})
    assert project.shard("mine").paths == ("/x/a.traj",)
    assert project.shard("mine").repositories == {"o/r": "/m.git"}


def test_an_unknown_shard_is_answered_with_those_there_are(tmp_path: Path) -> None:
    Project(tmp_path).add_shard("mine", (), {})
    with pytest.raises(InputError, match="mine"):
        Project(tmp_path).shard("yours")


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    (tmp_path / "handoff.toml").write_text("wrokers = 3\n")
    with pytest.raises(InputError, match="wrokers"):
        Project(tmp_path)


def test_a_folder_keeps_its_seed(tmp_path: Path) -> None:
    project = Project(tmp_path).with_seed(3)
    assert Project(tmp_path).settings.seed == 3
    with pytest.raises(InputError, match="seed 3"):
        project.with_seed(4)
