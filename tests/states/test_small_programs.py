"""Small programs in a line: interpreted as Python runs them, and never at a cost that is not bounded."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from handoff.actions.paths import Context
from handoff.git.repositories import Repository
from handoff.states.effects import Effects
from handoff.states.shell import run_line
from handoff.states.shell.ignored import glob_pattern
from handoff.states.working import WorkingFiles
from handoff.trajectory import Observation
from tests.states.shell_bed import Bed

_SECONDS = 6.0

_TWINS = "a = ['x']\nb = ['x']\nfor i in range(60):\n    a = [a, a]\n    b = [b, b]\n"
_LONG = "x = 'a' * 7000000\n"
HOSTILE = {
    "options in a pattern": "import re\nre.search('a?' * 30 + 'a' * 30, 'a' * 30)",
    "alternatives in a pattern": "import re\nre.search('(?:a|aa)' * 40 + 'b', 'a' * 80)",
    "a repeated group": "import re\nre.search('(?:a?){30}b', 'a' * 40)",
    "a slow pattern, often": "import re\nx = 'a' * 6000\nfor i in range(19999):\n    re.search('a*b', x)",
    "one text, joined often": f"{_LONG}y = ''.join([x] * 90000)",
    "a text that joins": f"{_LONG}y = x.join(['b'] * 90000)",
    "one text, formatted often": f"{_LONG}y = ('%s' * 90000) % tuple([x] * 90000)",
    "one text, put in often": f"import re\n{_LONG}y = re.sub('a', x, x)",
    "groups, put in often": f"import re\n{_LONG}y = re.sub('(a+)', '\\\\1' * 90000, x)",
    "one text in many braces": f"{_LONG}y = f'{'{x}' * 20000}'",
    "one text as JSON, often": f"import json\n{_LONG}y = json.dumps([x] * 90000)",
    "many texts that are kept": f"{_LONG}y = []\nfor i in range(9999):\n    y.append(x + 'b')",
    "many texts that are printed": f"{_LONG}for i in range(9999):\n    print(x)",
    "many texts that are written": f"{_LONG}for i in range(9999):\n    open('o%d' % i, 'w').write(x)",
    "a list within itself, printed": f"{_TWINS}print(a)",
    "a list within itself, compared": f"{_TWINS}print(a == b)",
    "a list within itself, looked for": f"{_TWINS}print(a in [b])",
    "a tuple within itself, as a key": "a = ('x',)\nfor i in range(60):\n    a = (a, a)\nd = {a: 1}",
    "a slice that doubles": "a = [1]\nfor i in range(60):\n    a[0:0] = a",
    "a list that doubles": "a = [1]\nfor i in range(60):\n    a += a",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_no_program_costs_more_than_it_may(repository: Repository, base: str, name: str) -> None:
    """Time and memory that grow without bound: given up, and what it had done is taken back."""
    effects = Effects(WorkingFiles(repository, repository.tree_of(base), base))
    code = f"open('run.sh', 'w').write('taken back')\n{HOSTILE[name]}\nopen('end', 'w').write('x')"
    start = time.process_time()
    run_line(effects, f"python3 - <<'EOF'\n{code}\nEOF", Context(), Observation(text="", exit_code=None))
    assert time.process_time() - start < _SECONDS
    assert effects.is_unknown("run.sh") and "end" not in effects.files.differing


EXACT = {
    "a file emptied before it is read": "with open('a.txt') as f, open('a.txt', 'w') as g:\n"
    "    g.write(f.read() + 'x')\n",
    "a write that has not arrived": "f = open('a.txt', 'w')\nf.write('new')\ns = open('a.txt').read()\n"
    "open('out', 'w').write(s)\n",
    "a write that has": "f = open('a.txt', 'w')\nf.write('new')\nf.close()\n"
    "open('out', 'w').write(open('a.txt').read())\n",
    "removed while going over": "l = ['a', 'a', 'b', 'a', 'a']\nfor x in l:\n    if x == 'a':\n        l.remove(x)\n"
    "open('out', 'w').write(str(l))\n",
    "changed while counting": "l = ['a', 'b', 'c']\nfor i, x in enumerate(l):\n    if x == 'a':\n"
    "        l[i + 1] = 'z'\n"
    "        l.insert(i + 2, 'q')\n    open('out', 'a').write(x)\n",
    "one list under two names": "a = [1]\nb = a\na += [2]\nopen('out', 'w').write(str(b))\n",
    "a pair at a time": "it = iter_ = enumerate(['a', 'b', 'c'])\nfor i, x in it:\n    break\n"
    "open('out', 'w').write(str([x for i, x in iter_]))\n",
    "a generator used twice": "g = (x for x in ['a', 'b'])\nopen('out', 'w').write(''.join(g) + '|' + ''.join(g))\n",
    "a name of the function around": "x = 'global'\ndef f():\n    x = 'inner'\n    g = lambda: x\n    return g()\n"
    "open('out', 'w').write(f())\n",
    "a name not assigned yet": "n = 1\ndef f():\n    n += 1\n    open('out', 'w').write(str(n))\nf()\n",
    "a name of the caller": "def g():\n    return y\ndef f():\n    y = 'inner'\n    return g()\ny = 'global'\n"
    "open('out', 'w').write(f())\n",
    "a backslash in a template": "import re\n"
    "open('out', 'w').write(re.sub(r'(t)(w)?', r'<\\1\\2>', open('a.txt').read()))\n",
}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    if not shutil.which("bash") or not shutil.which("git") or not shutil.which("python3"):
        pytest.skip("needs bash, git and python3")
    made = Bed(Path(tmp_path_factory.mktemp("bed")) / "root")
    yield made
    made.close()


@pytest.mark.parametrize("name", sorted(EXACT))
def test_a_program_leaves_what_python_leaves(bed: Bed, name: str) -> None:
    """Order of reads and writes, values that two names share, scopes: as Python has them, or not known."""
    line = f"python3 - <<'EOF'\n{EXACT[name]}EOF\n"
    assert bed.compare([line], with_codes=True).wrong == []
    assert bed.compare([line], with_codes=False).wrong == []


LINES = {
    "a variable that doubles": 'V=aaaaaaaaaa; for i in {1..60}; do V="$V$V"; done; echo $V > run.sh',
    "a file that doubles": "for i in {1..60}; do cat run.sh run.sh > b; cat b b > run.sh; done",
}


@pytest.mark.parametrize("name", sorted(LINES))
def test_texts_that_grow_without_bound_are_not_known(repository: Repository, base: str, name: str) -> None:
    effects = Effects(WorkingFiles(repository, repository.tree_of(base), base))
    start = time.process_time()
    run_line(effects, LINES[name], Context(shell_persists=True), Observation(text="", exit_code=None))
    assert time.process_time() - start < _SECONDS
    assert effects.is_unknown("run.sh")


@pytest.mark.parametrize("pattern", ["*a" * 40 + "b", "*?a" * 40 + "b", "*[a-c]" * 40 + "b"])
def test_matching_a_name_with_many_stars_is_quick(pattern: str) -> None:
    start = time.process_time()
    wanted = re.compile(glob_pattern(pattern))
    assert not wanted.match("a" * 200) and wanted.match("a" * 200 + "b")
    assert time.process_time() - start < _SECONDS


@pytest.mark.parametrize("pattern", ["**/a/" * 30 + "b", "**/*/" * 30 + "b", "**/a*/" * 30 + "b", "a/**/" * 30 + "b"])
def test_matching_a_path_with_many_folders_is_quick(pattern: str) -> None:
    start = time.process_time()
    wanted = re.compile(glob_pattern(pattern))
    assert not wanted.match("a/" * 200) and wanted.match("a/" * 200 + "b")
    assert time.process_time() - start < _SECONDS


@given(st.lists(st.sampled_from(["**", "a", "b", "*", "a*"]), min_size=1, max_size=5), st.text("ab/", max_size=9))
def test_folders_match_what_backtracking_finds(parts: list[str], name: str) -> None:
    pattern = "/".join(parts)
    assume(not pattern.endswith("**") and "**/**" not in pattern)
    slow = pattern.replace("**/", "\N{BULLET}").replace("*", "[^/]*").replace("\N{BULLET}", "(?:.*/)?")
    assert (re.compile(glob_pattern(pattern)).match(name) is None) == (re.fullmatch(slow, name) is None)


@given(st.text("*?ab/", max_size=9), st.text("ab/", max_size=9))
def test_stars_match_what_backtracking_finds(pattern: str, name: str) -> None:
    """Taking the first place that fits loses no match."""
    slow = re.sub(r"\*+", "[^/]*", pattern.replace("?", "\N{BULLET}")).replace("\N{BULLET}", "[^/]")
    assume("**" not in pattern)
    assert (re.compile(glob_pattern(pattern)).match(name) is None) == (re.fullmatch(slow, name) is None)
