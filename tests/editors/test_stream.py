"""``sed -i`` without ``sed``: the same bytes as GNU ``sed`` leaves, or no answer (``docs/science.md §2``)."""

from __future__ import annotations

import functools
import random
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.actions.operations import LAST_LINE, LineEdit, Opaque, Replace, StreamEdit
from handoff.editors import plain as editors
from handoff.editors.plain import Unknowable
from handoff.editors.stream import stream_edit
from tests.actions.calls import bash, operations

DATA = b"one\n  two two\n\nthree # 3\nfour"


def after(line: str, data: bytes) -> bytes | None:
    """What the line leaves of ``f``; ``None`` when it is not derived."""
    edit = operations(bash(line))[-1]
    match edit:
        case StreamEdit(edits=edits):
            return stream_edit(data, edits)
        case Replace(old=old, new=new, count=count):
            return editors.replace(data, old, new, count)
        case _:
            assert isinstance(edit, Opaque)
            return None


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("s/two/2/", b"one\n  2 two\n\nthree # 3\nfour"),
        ("s/two/2/2", b"one\n  two 2\n\nthree # 3\nfour"),
        ("s/ *#.*$//", b"one\n  two two\n\nthree\nfour"),
        ("$d", b"one\n  two two\n\nthree # 3\n"),
        ("2,4d", b"one\nfour"),
        ("/^$/d", b"one\n  two two\nthree # 3\nfour"),
        ("/two/,/three/d", b"one\nfour"),
        ("2!d", b"  two two\n"),
        ("9d", DATA),
        (r"1i\  zero", b"  zero\n" + DATA),
        ("$a five", DATA + b"\nfive\n"),
        ("2,3c X", b"one\nX\nthree # 3\nfour"),
        ("s/^/> /;3d", b"> one\n>   two two\n> three # 3\n> four"),
    ],
)
def test_a_script_does_what_sed_does(script: str, expected: bytes) -> None:
    assert after(f"sed -i {shlex.quote(script)} f", DATA) == expected


@functools.cache
def sed_is_gnu() -> bool:
    try:
        return b"GNU" in subprocess.run(["sed", "--version"], capture_output=True, check=False).stdout
    except OSError:
        return False


ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        "c",
        ".",
        "[ab]",
        "[^a]",
        r"\.",
        r"\w",
        r"\s",
        r"\b",
        r"\<",
        r"\>",
        "[[:space:]]",
        "[]a]",
        r"\t",
        " ",
    ]
)
ODD_ATOMS = st.sampled_from([r"\(a\)", "(.)", "{", "|", "?", "$", "^", "é", "&", "-", r"\1", "#", "+", r"\{2\}"])
PATTERNS = st.lists(
    st.tuples(ATOMS | ATOMS | ATOMS | ODD_ATOMS, st.sampled_from(["", "", "", "*", "+", r"\+", "?", r"\?"])),
    min_size=1,
    max_size=4,
)
REPLACEMENTS = st.lists(st.sampled_from(["x", "&", r"\1", r"\n", r"\&", "é", "$", r"\\"]), max_size=3)
ADDRESSES = st.sampled_from(
    ["", "", "", "2", "$", "/a/", "2,3", "2,/b/", "/a/,/b/", "/a/,+1", "3,1", "2,$", "/b/!", "1,2!"]
)
LINES = st.lists(
    st.sampled_from(
        ["a", "b", "ab", "  a b", "aab  ", "", "x.y", "a+b", "abab", "é a", "a\tb", "(a)", "{a|b}", "^a$&"]
    ),
    max_size=6,
)


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """One or two commands around the understood part."""
    made = []
    for _ in range(draw(st.integers(1, 2))):
        pattern = "".join(atom + times for atom, times in draw(PATTERNS))
        pattern = draw(st.sampled_from(["", "", "^"])) + pattern + draw(st.sampled_from(["", "", "$"]))
        substitution = f"s/{pattern}/{''.join(draw(REPLACEMENTS))}/{draw(st.sampled_from(['', 'g', '2', 'I']))}"
        inserted = draw(st.sampled_from(["d", r"i\  x", "a x", "c x"]))
        made.append(draw(ADDRESSES) + draw(st.sampled_from([substitution, substitution, inserted])))
    return "\n".join(made)


@settings(max_examples=200, deadline=None)
@given(
    script=scripts(),
    lines=LINES,
    ends=st.booleans(),
    is_extended=st.booleans(),
    locale=st.sampled_from(["C", "C.UTF-8"]),
)
def test_the_bytes_are_those_of_gnu_sed(
    tmp_path_factory: pytest.TempPathFactory, script: str, lines: list[str], ends: bool, is_extended: bool, locale: str
) -> None:
    """In any locale, for every script that has an answer at all."""
    if not sed_is_gnu():
        pytest.skip("needs GNU sed")
    data = ("\n".join(lines) + ("\n" if ends and lines else "")).encode()
    options = ["-E"] if is_extended else []
    try:
        derived = after(shlex.join(["sed", "-i", *options, script, "f"]), data)
    except Unknowable:
        return
    if derived is None:
        return
    folder = tmp_path_factory.getbasetemp()
    (folder / "f").write_bytes(data)
    command = ["sed", "-i", *options, script, "f"]
    subprocess.run(
        command, cwd=folder, env={"LC_ALL": locale, "PATH": "/usr/bin:/bin"}, check=True, capture_output=True
    )
    assert Path(folder / "f").read_bytes() == derived


def test_what_hangs_on_the_locale_is_not_known() -> None:
    """``.`` is one byte or one character; plain text is the same in both."""
    with pytest.raises(Unknowable, match="locale"):
        after("sed -i 's/a.b/x/' f", "aéb\n".encode())
    assert after("sed -i 's/é/e/' f", "aéb\n".encode()) == b"aeb\n"


def test_what_costs_too_much_is_not_known() -> None:
    """A pattern with several stars on long lines of a hostile file ends early, not late."""
    with pytest.raises(Unknowable, match="too long"):
        after("sed -i 's/a*a*a*[ab]c/x/' f", b"a" * 10_000 + b"c\n")


def test_many_lines_cost_what_they_hold() -> None:
    rng = random.Random(3)
    data = b"".join(bytes(rng.choices(b"abc ", k=60)) + b"\n" for _ in range(5_000))
    edits = (LineEdit(kind="substitute", pattern=r"a.*b", replacement=("x",)), LineEdit(kind="delete", start=LAST_LINE))
    assert stream_edit(data, edits).count(b"\n") == 4_999
