"""Places of a source file where something can be written without a change of meaning."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from whole_scene import everything

import handoff
from handoff.adversary import disturb
from handoff.adversary.kinds.parallel_change import ParallelChange
from handoff.adversary.source import first_remark, places_of, with_remarks

FILES = sorted(Path(handoff.__file__).parent.rglob("*.py"))


def put_everywhere(data: bytes) -> bytes:
    """A remark at each place, and brackets around each value."""
    places = places_of(data)
    assert places is not None
    lines = data.split(b"\n")
    for value in reversed(places.values):
        line = lines[value.line]
        lines[value.line] = line[: value.start] + b"(" + line[value.start : value.end] + b")" + line[value.end :]
    return with_remarks("a.py", b"\n".join(lines), tuple((line, "# Remark.") for line, _ in places.remarks))


@pytest.mark.parametrize("path", FILES[:: len(FILES) // 40], ids=lambda path: path.name)
def test_a_program_stays_what_it_was(path):
    """Real files, with a remark above every statement and brackets around every value."""
    data = path.read_bytes()
    after = put_everywhere(data)
    assert after.count(b"# Remark.") > 0
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(data))


HARD = (
    "x = 1; \\\ny = 2\n",
    'x = """\n  a\n"""; y = 3\n',
    "@wraps(f)\n@other\ndef f():\n    return 1, *b\n",
    "if a: b = 1\nelif c: b = 2\nelse:\n\tb = (yield_)\n",
    "def g():\n    x = yield 3\n    return (yield x)\n",
    "try:\n    pass\nexcept* A as e:\n    x = e\nfinally:\n    y = 1\n",
    "match x:\n    case 1:\n        y = 2\n    case _:\n        y = x, \n",
    "class A: \\\n  pass\n",
    "#!/usr/bin/python\n# coding: utf-8\nx = f'{1}' 'b'\n",
    '"""Doc."""\nfrom __future__ import annotations\nx: int = 1\n',
    "x = 'ä'; y = 'ö'\nreturn_ = lambda: (1)\n",
    "with a as b, c:\n    d = b if c else\\\n      1\n",
    "async def f():\n    return [x async for x in y]\n",
)


@pytest.mark.parametrize("text", HARD)
def test_hard_places_are_left_alone(text):
    data = text.encode()
    after = put_everywhere(data)
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(data))
    assert after.startswith(b"#!") == data.startswith(b"#!")


@given(st.lists(st.sampled_from([*HARD, "a = b\n", "pass\n"]), min_size=1, max_size=4), st.integers(0, 2))
def test_joined_and_indented_they_are_still_the_same(texts, depth):
    text = "".join(t for t in texts if "coding" not in t and "__future__" not in t)
    for _ in range(depth):
        text = "def f():\n" + textwrap.indent(text or "pass\n", "    ")
    data = text.encode()
    try:
        before = ast.dump(ast.parse(data))
    except SyntaxError:
        assert places_of(data) is None
        return
    assert ast.dump(ast.parse(put_everywhere(data))) == before


UNREADABLE = (
    b"def f(:\n",
    b"\0",
    b"x = 1\r\n",
    b"\xef\xbb\xbfx = 1\n",
    b"\xff",
    b"# coding: latin-1\nx = '\xe4'\n",
    b"(" * 5000,
    b"x = 1\n" * 100_000,
)


@pytest.mark.parametrize("data", UNREADABLE, ids=range(len(UNREADABLE)))
def test_what_cannot_be_read_has_no_places(data):
    assert places_of(data) is None


def test_a_remark_stands_below_what_must_come_first():
    assert first_remark(b"#!/bin/sh\n# -*- coding: utf-8 -*-\nx\n") == 2
    assert with_remarks("a.sh", b"#!/bin/sh", ((1, "# R"),)) == b"#!/bin/sh\n# R\n"
    assert with_remarks("a.toml", b"", ((0, "# R"),)) == b"# R\n"


def test_a_parallel_change_touches_the_predecessors_lines_and_no_meaning():
    before = everything()
    recipe = ParallelChange().plan(before, 1.0, seed=3)
    after = ParallelChange().apply(before, recipe)
    old, new = before.files["pkg/m.py"], after.files["pkg/m.py"]
    assert ast.dump(ast.parse(old)) == ast.dump(ast.parse(new)) and new.count(b"#") == 2
    assert b"return (values[1], len(values))" in new and b"result = (values[0])" in new


def test_a_file_that_is_no_program_is_not_worked_on():
    before = msgspec.structs.replace(everything(), files={**everything().files, "pkg/m.py": b"def (:\n"})
    assert ParallelChange().plan(before, 1.0, seed=3) is None
    assert disturb(before, [("competing_todos", 0.5)], seed=0) is not None, "a remark can stand at its head"
