"""Which lines belong together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handoff.framing import Record, SourceFile


def forms(path: Path, *rows: Any) -> list[str]:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return [item.form for item in SourceFile(path) if isinstance(item, Record)]


@pytest.mark.parametrize(
    "first",
    [
        {"type": "session_meta", "payload": {"id": "a"}},
        {"type": "world_state", "payload": {}},
        {"id": "a", "timestamp": "t", "instructions": None},
        {"type": "thread.started", "thread_id": "a"},
        {"sessionId": "a", "projectHash": "b", "kind": "main"},
    ],
)
def test_the_lines_of_a_session_are_one_record(tmp_path: Path, first: dict[str, Any]) -> None:
    second = {"type": "response_item", "payload": {}} if first.get("type") == "world_state" else {"id": "b", "x": 1}
    assert forms(tmp_path / "a.jsonl", first, second, {"y": 2}) == ["lines"]


def test_a_session_of_one_line_is_still_a_session(tmp_path: Path) -> None:
    assert forms(tmp_path / "a.jsonl", {"type": "session_meta", "payload": {"id": "a"}}) == ["lines"]


@pytest.mark.parametrize("value", [{}, {"a": 1}, [], None, 3, True])
def test_a_type_that_is_no_text_says_nothing(tmp_path: Path, value: Any) -> None:
    row = {
        "type": value,
        "payload": {},
        "leafUuid": "a",
        "sessionId": "b",
        "kind": value,
        "action": value,
        "role": value,
    }
    assert forms(tmp_path / "a.jsonl", row, row) == ["json", "json"]
