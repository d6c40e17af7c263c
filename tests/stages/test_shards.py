"""Reading a shard: what it made is new, what it found is not."""

from __future__ import annotations

import json
from pathlib import Path

from handoff.project import Project
from handoff.stages.corpus import raw_trajectories


def test_a_table_is_new_when_it_was_made_and_not_when_it_was_found(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.inbox.mkdir()
    messages = [{"role": "user", "content": "Fix it."}, {"role": "assistant", "content": "Done."}]
    (project.inbox / "k.json").write_text(json.dumps({"messages": messages}))
    made, found = raw_trajectories(project, "k"), raw_trajectories(project, "k")
    assert (made.is_new, found.is_new) == (True, False)
    assert (made.digest, made.rows) == (found.digest, found.rows)
