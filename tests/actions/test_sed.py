"""``sed -i``: which scripts are understood exactly, and which stay opaque (``docs/science.md §4``).

That the understood ones leave the bytes that GNU ``sed`` leaves is in ``tests/editors/test_stream.py``.
"""

from __future__ import annotations

import shlex

import pytest

from handoff.actions.operations import LAST_LINE, LineEdit, Opaque, Read, Replace, StreamEdit
from tests.actions.calls import bash, operations


def substitute(pattern: str, *replacement: str | int, literal: str = "", every: bool = False, nth: int = 1) -> LineEdit:
    return LineEdit(
        kind="substitute", pattern=pattern, literal=literal, replacement=replacement, is_every=every, nth=nth
    )


@pytest.mark.parametrize(
    ("script", "edit"),
    [
        ("s/a/b/", substitute("a", "b", literal="a")),
        (r"s|/a\.b|\&c|", substitute(r"/a\.b", "&c", literal="/a.b")),
        (r"s/\(a*\)b/<\1&>/2", substitute("(a*)b", "<", 1, 0, ">", nth=2)),
        (r"s/[[:digit:]]\+ *$//g", substitute(r"[0-9]+\ *\Z", every=True)),
        ("s/^/# /", substitute("^", "# ")),
        (r"s/x/a\nb/", substitute("x", "a\nb", literal="x")),
        ("s/x/y/I", substitute("(?i)x", "y")),
        ("5d", LineEdit(kind="delete", start=5)),
        ("5,7d", LineEdit(kind="delete", start=5, end=7)),
        ("$d", LineEdit(kind="delete", start=LAST_LINE)),
        ("/a.b/,+2d", LineEdit(kind="delete", start="a.b", extra=2)),
        ("/x/!d", LineEdit(kind="delete", start="x", is_negated=True)),
        (r"3i\    x = 1", LineEdit(kind="insert", start=3, replacement=("    x = 1",))),
        ("3a x = 1", LineEdit(kind="append", start=3, replacement=("x = 1",))),
        ("/x/c\\\nnew\\\nlines", LineEdit(kind="change", start="x", replacement=("new\nlines",))),
    ],
)
def test_a_script_is_understood(script: str, edit: LineEdit) -> None:
    assert operations(bash(f"sed -i {shlex.quote(script)} a.py")) == (StreamEdit(path="a.py", edits=(edit,)),)


def test_several_commands_are_one_pass_over_the_file() -> None:
    (edit,) = operations(bash("sed -i -e 's/a/b/' -e '3d;4d' a.py"))
    assert isinstance(edit, StreamEdit)
    assert [e.kind for e in edit.edits] == ["substitute", "delete", "delete"]


def test_a_plain_text_replaced_everywhere_is_a_replacement() -> None:
    assert operations(bash("sed -i 's/a/b/g' a.py b.py")) == (
        Replace(path="a.py", old="a", new="b", count="all"),
        Replace(path="b.py", old="a", new="b", count="all"),
    )


@pytest.mark.parametrize(
    "script",
    [
        r"s/a\|b/c/",
        r"s/\(ab\)*/c/",
        r"s/a\{2\}/c/",
        r"s/\(a\)\1/c/",
        r"s/a/\U&/",
        "s/a*/x/g",
        "s/a/b/p",
        "y/abc/xyz/",
        "/a/{s/b/c/}",
        "N;s/a/b/",
        "1~2d",
        "s/[[.a.]]/x/",
        "s/a/b",
        "2d;3,4d",
        "s/é*/x/",
        "r other.txt",
        "$!N",
        "q",
    ],
)
def test_what_is_not_exactly_understood_stays_opaque(script: str) -> None:
    """The file it edits is still known."""
    assert operations(bash(f"sed -i {shlex.quote(script)} a.py")) == (Opaque(reason="sed -i", paths=("a.py",)),)


@pytest.mark.parametrize("script", ["s/a/b/w out.txt", "s/a/b/e", "w out.txt", "1e touch x"])
@pytest.mark.parametrize("option", ["-i ", "", "-n "])
def test_a_script_may_do_more_than_edit_its_file(script: str, option: str) -> None:
    """Files that it writes beside are in doubt, whether it edits in place or prints."""
    made = operations(bash(f"sed {option}{shlex.quote(script)} a.py"))
    assert any(isinstance(operation, Opaque) and operation.is_possible for operation in made)


@pytest.mark.parametrize("script", ["s/a/b/", "s/one/w out/", "2d", "2,5p", "/while/p"])
def test_most_scripts_do_not(script: str) -> None:
    made = operations(bash(f"sed -n {shlex.quote(script)} a.py"))
    assert not any(isinstance(operation, Opaque) for operation in made)


@pytest.mark.parametrize(
    "line", ["sed -n -i p a.py", "sed -i -f x.sed a.py", "sed -i -z 's/a/b/' a.py", 'sed -i "$S" a.py']
)
def test_options_that_change_the_meaning_stay_opaque(line: str) -> None:
    assert operations(bash(line)) == (Opaque(reason="sed -i", paths=("a.py",)),)


def test_bsd_has_no_extensions() -> None:
    """``-i ''`` is BSD's; there ``\\+`` or a one-line ``a`` mean something else, or nothing."""
    assert isinstance(operations(bash("sed -i '' 's/a.b/c/' a.py"))[0], StreamEdit)
    for script in (r"s/a\+/c/", "2a x", r"s/a/\n/", "s/a/b/I"):
        assert isinstance(operations(bash(f"sed -i '' {shlex.quote(script)} a.py"))[0], Opaque)


def test_extended_patterns_are_another_grammar() -> None:
    (edit,) = operations(bash(r"sed -i -E 's/(a+)\(b/\1/' a.py"))
    assert isinstance(edit, StreamEdit)
    assert edit.edits[0].pattern == r"(a+)\(b"
    assert isinstance(operations(bash("sed -i -E 's/a|b/c/' a.py"))[0], Opaque)


def test_without_i_a_file_is_read() -> None:
    assert operations(bash("sed -n '3,5p' a.py")) == (Read(path="a.py", first=3, last=5, is_alone=True),)
    assert operations(bash("sed -n '3,$p' a.py")) == (Read(path="a.py", first=3, is_alone=True),)
    assert operations(bash("sed 's/a/b/' a.py")) == (Read(path="a.py"),)
    assert operations(bash("cat a.py | sed -n '3p'"))[1:] == ()
