"""Random patches on random files leave, in memory, what the real ``git apply`` and ``patch`` leave on disk.

The file that is patched is now and then not the one that the patch was made from, so hunks move, lose context or do not
fit. A refusal must be known as one; a result that is said to be known must be right, the ``.orig`` file included.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from handoff.editors.patches import apply_patch
from handoff.editors.plain import Misfit, Unknowable

LINES = ["a", "b", "c", "", "  x", "\ty", "a ", "é", "def f():", "    return 1", "x\r"]
Program = Literal["git", "patch"]


class Case:
    """Files, a diff between two of them, and the folder where it is applied for real."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.choose = random.Random(seed)
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.environment = {**os.environ, "LC_ALL": "C.UTF-8", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
        before = self.text(self.choose.randint(0, 14))
        after = self.changed(before)
        self.is_reversed = self.choose.random() < 0.2
        self.diff = self.diff_of(before, after)
        start = after if self.is_reversed else before
        self.target: bytes = start if self.choose.random() < 0.3 else self.changed(start)
        if self.choose.random() < 0.15:
            self.target = self.text(self.choose.randint(1, 4)) + self.target

    def text(self, count: int) -> bytes:
        lines = [self.choose.choice(LINES) for _ in range(count)]
        end = "\n" if lines and self.choose.random() < 0.8 else ""
        return ("\n".join(lines) + end).encode()

    def changed(self, data: bytes) -> bytes:
        lines = data.decode().splitlines(keepends=True) if b"\r" not in data else data.decode().split("\n")
        lines = [line.rstrip("\n") for line in lines]
        for _ in range(self.choose.randint(0, 3)):
            at = self.choose.randint(0, len(lines))
            lines[at : at + self.choose.randint(0, 1)] = self.choose.choice([[], [self.choose.choice(LINES)]])
        made = "\n".join(lines)
        return (made + "\n" if made and self.choose.random() < 0.85 else made).encode()

    def diff_of(self, before: bytes, after: bytes) -> str:
        (self.folder / "old").write_bytes(before)
        (self.folder / "new").write_bytes(after)
        context = self.choose.choice([3, 3, 3, 2, 1, 0])
        made = subprocess.run(
            ["git", "diff", "--no-index", f"-U{context}", "old", "new"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
        ).stdout.decode()
        (self.folder / "old").unlink()
        (self.folder / "new").unlink()
        _, _, hunks = made.partition("\n@@ ")
        if not hunks:
            return ""
        return "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ " + hunks

    def applied(self, program: Program) -> dict[str, bytes] | None:
        """What the real program leaves; ``None``: it refuses."""
        (self.folder / "f").write_bytes(self.target)
        line = ["git", "apply"] if program == "git" else ["patch", "-p1", "--force", "--binary", "--silent"]
        done = subprocess.run(
            line + ["-R"] * self.is_reversed,
            cwd=self.folder,
            env=self.environment,
            input=self.diff.encode(),
            capture_output=True,
        )
        if done.returncode:
            return None
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}

    def derived(self, program: Program) -> dict[str, bytes]:
        files = {"f": self.target}
        for change in apply_patch(self.diff, files.get, 1, is_reversed=self.is_reversed, program=program):
            if change.data is None:
                files.pop(change.path, None)
            else:
                files[change.path] = change.data
        return files


@pytest.mark.parametrize("count", [pytest.param(50, id="some"), pytest.param(5000, id="many", marks=pytest.mark.slow)])
@pytest.mark.parametrize("program", ["git", "patch"])
def test_patches(program: Program, count: int, tmp_path: Path) -> None:
    totals: Counter[str] = Counter()

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), deadline=None, database=None)
    @given(st.integers(min_value=0, max_value=2**64))
    @example(3_219_788)  # an open last line that the file goes on from
    @example(29_510_852_864)  # a hunk out of place that the next one may not step behind
    def check(seed: int) -> None:
        case = Case(seed, tmp_path / "work")
        if not case.diff:
            return
        real = case.applied(program)
        try:
            derived = case.derived(program)
        except Misfit:
            assert real is None
            totals["refused"] += 1
        except Unknowable:
            assert program == "patch"
            totals["unknown"] += real is not None
        else:
            assert derived == real
            totals["known"] += 1

    check()
    assert totals["unknown"] <= 0.1 * totals["known"], totals


@pytest.mark.parametrize("count", [pytest.param(40, id="some"), pytest.param(1000, id="many", marks=pytest.mark.slow)])
def test_binary_patches(count: int, tmp_path: Path) -> None:
    """Whole contents and deltas, forward and back, of files that are the right ones or are not."""

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), deadline=None, database=None)
    @given(st.integers(min_value=0, max_value=2**64))
    def check(seed: int) -> None:
        case = Case(seed, tmp_path / "work")
        before = bytes([0]) + case.choose.randbytes(case.choose.choice([0, 5, 60, 600]))
        cut = case.choose.randint(0, len(before))
        after = (
            before[:cut] + case.choose.randbytes(case.choose.randint(1, 9)) + before[cut:] * case.choose.randint(0, 2)
        )
        for name, data in (("old", before), ("new", after)):
            (case.folder / name).write_bytes(data)
        line = ["git", "diff", "--no-index", "--binary", "old", "new"]
        made = subprocess.run(line, cwd=case.folder, env=case.environment, capture_output=True).stdout.decode()
        for name in ("old", "new"):
            (case.folder / name).unlink()
        case.diff = made.replace("a/old b/new", "a/f b/f").replace("a/old", "a/f").replace("b/new", "b/f")
        case.target = after if case.is_reversed else before
        real = case.applied("git")
        assert real is not None
        assert case.derived("git") == real

    check()


@pytest.mark.parametrize("damage", ["literal 9", "delta 5", "literal 5\nzzz", "literal 5\nE~~~~~~~~~", "literal 5\n\n"])
def test_a_damaged_binary_patch_is_a_misfit(damage: str) -> None:
    patch = f"diff --git a/f b/f\nindex {'1' * 40}..{'2' * 40} 100644\nGIT binary patch\n{damage}\n\n"
    with pytest.raises(Misfit):
        apply_patch(patch, {"f": b"x"}.get)
