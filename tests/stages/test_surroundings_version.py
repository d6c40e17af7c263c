"""Takeovers of real repositories are run anew when commands run elsewhere, also where nobody judges them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handoff.project import Project
from handoff.stages import takeovers
from handoff.stages.corpus import raw_trajectories, repository_states
from handoff.stages.judges import judging_version, surroundings_version

MODEL = 'evaluate = ["m"]\n[successors.m]\nkind = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n'
RULES = (
    "",
    '[tests."acme/*"]\nimage = "acme/one"\n',
    '[tests."acme/*"]\nimage = "acme/two"\n',
    '[tests."acme/*"]\nprograms = ["/opt/one"]\n',
    '[tests."acme/*"]\n[tests."acme/*".env]\nPATH = "/opt/one/bin"\n',
)


def test_every_setting_of_the_surroundings_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def nothing(*_: Any) -> list[Any]:
        ran.append("")
        return []

    monkeypatch.setattr(takeovers, "_planned", nothing)
    file = tmp_path / "a.jsonl"
    call = {"id": "c", "function": {"name": "bash", "arguments": json.dumps({"command": "ls"})}}
    talk = [
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "a.py"},
    ]
    file.write_text(json.dumps({"messages": talk}) + "\n")
    Project(tmp_path / "data").add_shard("a", (str(file),), {})
    raw_trajectories(Project(tmp_path / "data"), "a")
    repository_states(Project(tmp_path / "data"), "a")
    versions = set()
    for sandbox in ("bubblewrap", "docker"):
        for rule in RULES:
            (tmp_path / "data" / "handoff.toml").write_text(f'sandbox = "{sandbox}"\n{MODEL}{rule}')
            project = Project(tmp_path / "data")
            versions.add(surroundings_version(project, "a"))
            assert judging_version(project, "a") == ""
            before = len(ran)
            takeovers.takeover_runs(project, "r001", "a")
            takeovers.takeover_runs(project, "r001", "a")
            assert len(ran) == before + 1
    assert len(versions) == 2 * len(RULES)
