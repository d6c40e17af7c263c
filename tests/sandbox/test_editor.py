"""The editor tool: what it shows and changes, and that it never leaves the work folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.sandbox import editor


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "pkg").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("secret")
    (folder / "pkg" / "a.py").write_text("one\ntwo\nthree\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "linked.py").symlink_to(tmp_path / "outside" / "key")
    return folder


def act(work: Path, command: str, path: str, **more: Any) -> tuple[bool, str]:
    seen = editor.edit(work, "/repo", {"command": command, "path": path, **more}, "c1")
    assert seen.call_id == "c1"
    return seen.exit_code == 0, seen.text


def test_a_file_is_shown_with_line_numbers(work: Path) -> None:
    assert act(work, "view", "pkg/a.py") == (True, "     1\tone\n     2\ttwo\n     3\tthree")
    assert act(work, "view", "/repo/pkg/a.py", view_range=[2, -1]) == (True, "     2\ttwo\n     3\tthree")
    assert act(work, "view", "./pkg/a.py", view_range=[3, 99]) == (True, "     3\tthree")


@pytest.mark.parametrize("span", [[0, 2], [4, 5], [3, 1], [1], "1-2", [1, "x"]])
def test_a_span_that_does_not_fit_is_said(work: Path, span: object) -> None:
    is_done, text = act(work, "view", "pkg/a.py", view_range=span)
    assert not is_done and "view_range" in text


def test_a_folder_is_listed_without_gits_own(work: Path) -> None:
    assert act(work, "view", ".") == (True, "link\nlinked.py\npkg/")
    assert act(work, "view", "pkg") == (True, "a.py")


def test_a_long_file_is_cut_and_said_to_be(work: Path) -> None:
    (work / "long.txt").write_text("x\n" * 100_000)
    is_done, text = act(work, "view", "long.txt")
    assert is_done and len(text) < editor.MOST_SHOWN + 100 and text.endswith("more characters; use view_range]")


def test_edits_change_what_they_name_alone(work: Path) -> None:
    assert act(work, "str_replace", "pkg/a.py", old_str="two", new_str="2\n2b")[0]
    assert (work / "pkg/a.py").read_text() == "one\n2\n2b\nthree\n"
    assert act(work, "insert", "pkg/a.py", insert_line=0, new_str="zero")[0]
    assert act(work, "insert", "pkg/a.py", insert_line=5, new_str="four\n")[0]
    assert (work / "pkg/a.py").read_text() == "zero\none\n2\n2b\nthree\nfour\n"
    assert act(work, "create", "new/deep/b.py", file_text="b")[0]
    assert (work / "new/deep/b.py").read_text() == "b"


@pytest.mark.parametrize(
    ("command", "path", "more", "problem"),
    [
        ("str_replace", "pkg/a.py", {"old_str": "e", "new_str": "E"}, "occurs 3 times"),
        ("str_replace", "pkg/a.py", {"old_str": "", "new_str": "E"}, "occurs 0 times"),
        ("str_replace", "pkg/a.py", {"old_str": 7, "new_str": "E"}, "needs old_str"),
        ("str_replace", "pkg/none.py", {"old_str": "a", "new_str": "E"}, "There is no file"),
        ("create", "pkg/a.py", {"file_text": "x"}, "exists already"),
        ("create", "pkg", {"file_text": "x"}, "not a regular file"),
        ("insert", "pkg/a.py", {"insert_line": 9, "new_str": "x"}, "has 3 lines"),
        ("insert", "pkg/a.py", {"insert_line": "1", "new_str": "x"}, "needs insert_line"),
        ("undo_edit", "pkg/a.py", {}, "has no command"),
    ],
)
def test_what_cannot_be_done_is_told_and_nothing_changes(
    work: Path, command: str, path: str, more: dict[str, Any], problem: str
) -> None:
    is_done, text = act(work, command, path, **more)
    assert not is_done and problem in text
    assert (work / "pkg/a.py").read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    "path",
    [
        "linked.py",
        "link/key",
        "link",
        "../outside/key",
        "/etc/passwd",
        "pkg/../../outside/key",
        ".git/config",
        "././.git/config",
        ".//.git/config",
        "a\0b",
    ],
)
@pytest.mark.parametrize("command", ["view", "create", "str_replace", "insert"])
def test_nothing_outside_the_folder_is_seen_or_changed(work: Path, command: str, path: str) -> None:
    more = {"file_text": "x", "old_str": "secret", "new_str": "x", "insert_line": 0}
    is_done, text = act(work, command, path, **more)
    assert not is_done
    assert "secret" not in text and "root:" not in text
    assert (work.parent / "outside" / "key").read_text() == "secret"
    assert (work / ".git" / "config").read_text() == "secret"
    assert sorted(p.name for p in (work.parent / "outside").iterdir()) == ["key"]


@given(text=st.text(st.characters(codec=None), max_size=60), new=st.text(st.characters(codec=None), max_size=20))
def test_any_text_is_written_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str, new: str) -> None:
    """Lone surrogates, NULs and every kind of line end included; what is kept is what was given, where UTF-8 can."""
    work = tmp_path_factory.mktemp("work")
    assert act(work, "create", "f", file_text=text)[0]
    assert act(work, "insert", "f", insert_line=0, new_str=new)[0]
    act(work, "view", "f")[1].encode()
