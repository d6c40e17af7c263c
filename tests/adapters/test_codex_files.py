"""What Codex notes of the files that its patches changed."""

from __future__ import annotations

import difflib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.adapters.claude_files import blob_id
from handoff.adapters.codex_files import Noted, changes, follows

TEXTS = st.lists(st.sampled_from(["a", "b", "\tc", " ", "", "d\r", "é"]), max_size=12).map("\n".join)


def diff_of(before: str, after: str, context: int) -> str:
    """The diff that the client writes, without names."""
    sides = [text.split("\n") for text in (before, after)]
    lines = [[f"{line}\n" for line in side[:-1]] + ([side[-1]] if side[-1] else []) for side in sides]
    found = list(difflib.unified_diff(*lines, n=context))[2:]
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in found)


def noted(**change: Any) -> Noted | None:
    return changes(json.dumps({"/r/x.py": change}).encode()).get("/r/x.py")


@given(TEXTS, TEXTS, TEXTS, st.integers(0, 3))
def test_a_noted_diff_holds_for_its_two_texts_and_no_other(before: str, after: str, other: str, context: int) -> None:
    diff = diff_of(before, after, context)
    found = noted(type="update", unified_diff=diff, move_path=None)
    if before == after:
        assert found is None
        return
    assert found is not None
    assert follows(found.hunks, before, after)
    assert follows(found.hunks, before, other) == (other == after)


@given(
    st.text(max_size=40) | st.sampled_from(["@@ -1 +1 @@\n", "@@ -0,0 +1,999999999 @@\n+a\n", "@@ -1 +1 @@\n-a\n+b"])
)
def test_no_diff_is_too_odd_to_read(diff: str) -> None:
    found = noted(type="update", unified_diff=diff)
    assert found is None or found.hunks


def test_whole_texts_are_their_ids() -> None:
    assert noted(type="add", content="a\n") == Noted(after=blob_id("a\n"))
    assert noted(type="delete", content="a\n") == Noted(before=blob_id("a\n"))


@pytest.mark.parametrize(
    "raw",
    [
        b"null",
        b"[]",
        b'{"/r/x": 3}',
        b'{"/r/x": {"type": "add", "content": 3}}',
        b'{"/r/x": {"type": "update", "unified_diff": "@@ -1,2 +1,2 @@\\n", "move_path": null}}',
        b'{"/r/x": {"type": "update", "unified_diff": "@@ -1 +1 @@\\n-a\\n+b\\n", "move_path": "/r/y"}}',
        b'{"/r/x": {"type": "update", "unified_diff": "--- a\\n+++ b\\n"}}',
        b'{"": {"type": "add", "content": "a"}}',
        b"[" * 100_000,
    ],
)
def test_other_forms_say_nothing(raw: bytes) -> None:
    assert changes(raw) == {}


def test_hunks_of_another_form_hold_for_nothing() -> None:
    for hunks in ([], [[1, 1, 1, 1]], [["1", 1, 1, 1, "x"]], [[1, 1, 1, -1, "x"]], [[5, 1, 5, 1, "x"]]):
        assert not follows(hunks, "a\n", "b\n")
