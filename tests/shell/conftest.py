"""A project in a temporary folder with stand-in stages, and a Dagster instance."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterInstance
from standins import Stages

import handoff.stages
from handoff.project import Project


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Stages:
    """Stand-ins in the place of all stages."""
    made = Stages()
    for name, module in made.modules().items():
        monkeypatch.setitem(sys.modules, f"handoff.stages.{name}", module)
        monkeypatch.setattr(handoff.stages, name, module, raising=False)
    return made


@pytest.fixture
def project(tmp_path: Path, stages: Stages) -> Project:
    """An empty project."""
    made = Project(tmp_path / "data")
    made.inbox.mkdir(parents=True)
    return made


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    """A Dagster instance in memory."""
    with DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Suites that hold without being run; what they find is test_checks.py's subject."""
    import handoff_assets.checks

    monkeypatch.setattr(handoff_assets.checks, "validate", lambda suite, rows: [])
