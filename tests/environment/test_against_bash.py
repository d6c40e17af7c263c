"""What is said to be known of the shell is what a real bash has: random lines, run and then read.

Every folder, variable and file that is known after a line must be so in the shell that ran it. Not knowing is allowed;
how often it happens is bounded, so that the promise is not kept by knowing nothing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handoff.environment import environment
from handoff.trajectory import Action, Observation, Step, Trajectory

_SIMPLE = (
    "cd src",
    "cd ..",
    "cd deep",
    "cd OUT",
    "cd OUT/d",
    "cd nowhere",
    "cd REPO",
    "cd",
    "cd -",
    "cd $V",
    'cd "$W"',
    "export V=src",
    "export W=OUT",
    "export V=$W/d",
    'export V="a b"',
    "export V=$(echo x)",
    "export V=",
    "unset V",
    "V=local",
    "touch OUT/a",
    "touch OUT/b.py",
    "mkdir -p OUT/d",
    "mkdir OUT/d",
    "touch OUT/d/c",
    "rm OUT/a",
    "rm -rf OUT/d",
    "rm -f OUT/*.py",
    "mv OUT/a OUT/b.py",
    "mv OUT/a OUT/d",
    "cp OUT/a OUT/d/",
    "cp OUT/a OUT/z",
    "echo hi > OUT/e",
    "echo hi >> OUT/none/x",
    "rm -f OUT/$V",
    "cat OUT/missing",
    "false",
    "true",
    "ls",
    "pwd",
    "echo $V",
    "env",
    "touch ../beside",
    "rm ../beside",
    "cat > OUT/h <<'EOF'\nx\nEOF",
    "exit_with_nothing",
    "test -d OUT/d",
    "touch '$V'",
    "touch src/x > OUT/log 2>&1",
    "tee OUT/t < /dev/null",
    "> OUT/made",
)
_JOINED = (" && ", "; ", " || ", "\n", " | ")


class Shell(NamedTuple):
    """What a bash had after one line."""

    output: str
    code: int
    folder: str
    variables: dict[str, str]
    files: frozenset[str]


@st.composite
def _lines(draw: st.DrawFn) -> str:
    line = draw(st.sampled_from(_SIMPLE))
    for _ in range(draw(st.integers(0, 3))):
        joint = draw(st.sampled_from(_JOINED if "EOF" not in line.rsplit("\n", 1)[-1] else ("\n",)))
        line += joint + draw(st.sampled_from([simple for simple in _SIMPLE if "EOF" not in simple]))
    shape = draw(st.sampled_from(("{}", "{}", "{}", "({})", "if true; then {}; fi", "! {}", "{{ {}; }}")))
    return line if "EOF" in line else shape.format(line)


DEPTH = 24
"""Folders above the repository: no line leaves the test's own, however often it goes up."""


def _in_bash(top: Path, root: Path, lines: list[str], is_kept: bool) -> list[Shell]:
    """Run the lines in one shell, or each in one of its own, with their errors in their answers."""
    shutil.rmtree(top / "d", ignore_errors=True)
    (top / "beside").unlink(missing_ok=True)
    (root / "repo" / "src" / "deep").mkdir(parents=True)
    (root / "out").mkdir()
    parts = []
    open_, close = ("", "") if is_kept else ("(", ")")
    for number, line in enumerate(lines):
        (root / f"{number}.sh").write_text(line + "\n")
        parts.append(
            f"{open_}source {root}/{number}.sh{close} > {root}/{number}.out 2>&1 < /dev/null; code=$?\n"
            f"echo $code > {root}/{number}.code; pwd > {root}/{number}.pwd; env -0 > {root}/{number}.env\n"
            f'test -z "${{V+x}}" || printf "V=%s\\0" "$V" >> {root}/{number}.env\n'
            f"find {top} > {root}/{number}.files 2> /dev/null\n"
        )
    (root / "all.sh").write_text("".join(parts))
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(root / "home"), "LC_ALL": "C"}
    (root / "home").mkdir()
    subprocess.run(["bash", root / "all.sh"], cwd=root / "repo", env=clean, check=False, capture_output=True)
    found = []
    for number in range(len(lines)):
        read = {kind: (root / f"{number}.{kind}").read_text() for kind in ("out", "code", "pwd", "env", "files")}
        pairs = (entry.partition("=") for entry in read["env"].split("\0") if entry)
        found.append(
            Shell(
                output=read["out"],
                code=int(read["code"]),
                folder=read["pwd"].strip(),
                variables={name: value for name, _, value in pairs},
                files=frozenset(read["files"].splitlines()),
            )
        )
    return found


def _step(line: str, shell: Shell, knows_code: bool) -> Step:
    return Step(
        actions=(Action(tool="bash", arguments=json.dumps({"command": line})),),
        observations=(Observation(text=shell.output, exit_code=shell.code if knows_code else None),),
    )


def _absolute(path: str, repo: Path, home: Path) -> str:
    if path == "~" or path.startswith("~/"):
        return str(home) + path[1:]
    return path if path.startswith("/") else str((repo / path).resolve()) if path != "." else str(repo)


@pytest.mark.parametrize("examples", [15, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("format", ["claude_code", "mini_swe_agent"])
@pytest.mark.parametrize("knows_code", [True, False], ids=["with codes", "without codes"])
def test_what_is_known_is_so(
    tmp_path_factory: pytest.TempPathFactory, knows_code: bool, format: str, examples: int
) -> None:
    top = tmp_path_factory.mktemp("shell")
    root = top.joinpath(*["d"] * DEPTH)
    repo, out, home = root / "repo", root / "out", root / "home"
    known = told = 0

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(st.lists(_lines(), min_size=1, max_size=5))
    def check(drawn: list[str]) -> None:
        nonlocal known, told
        lines = [line.replace("OUT", str(out)).replace("REPO", str(repo)) for line in drawn]
        shells = _in_bash(top, root, lines, is_kept=format == "claude_code")
        steps = tuple(_step(line, shell, knows_code) for line, shell in zip(lines, shells, strict=True))
        run = Trajectory(format=format, task="t", steps=steps, source=json.dumps({"cwd": str(repo)}))
        found = environment(run)
        for h, shell in enumerate(shells, 1):
            there = found.at(h)
            shown = (lines[:h], [s.output for s in shells[:h]], there)
            told += 1
            for item in there.known:
                match item.kind:
                    case "folder":
                        known += 1
                        assert _absolute(item.value or "", repo, home) == shell.folder, shown
                    case "variable":
                        assert shell.variables.get(item.name) == item.value, shown
                    case "file":
                        assert _absolute(item.name, repo, home) in shell.files, shown

    check()
    assert known > told * 0.15, (known, told)
