"""Random programs of edits through each editor leave, in memory, what a plain reference leaves of real files.

The calls go through ``interpret`` and ``Effects``, as in a replay. What a reference refuses must be known to have been
refused; what is said to be known must be right. Where an editor's release is not known the file may be unknown; how
often is bounded.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handoff.actions import Context
from handoff.git.repositories import Repository, run_git
from tests.editors.references.codex import ApplyPatch
from tests.editors.references.editors import Aider, Editor, Exact, Pi, Refused, ShellWindow, StrReplace, Window
from tests.editors.references.replaying import Replayed

MANY = pytest.mark.parametrize(
    "count", [pytest.param(80, id="some"), pytest.param(5000, id="many", marks=pytest.mark.slow)]
)
PIECES = ["a", "b", " ", "\t", "x\ty", "\n", "\n", "\n", "def f():", "  ", "é", "“q”", "\f"]
LINES = ["a", "b", "x y", "", "def f():", "\tq", "  z", "é", "a "]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    git_dir = tmp_path_factory.mktemp("store") / "empty.git"
    run_git("init", "--quiet", "--bare", "--template=", git_dir)
    with Repository(git_dir, name="o/empty") as made:
        yield made


class Case:
    """One program: a file, the real folder, the files in memory, and how to choose."""

    def __init__(self, seed: int, folder: Path, store: Repository, context: Context) -> None:
        self.choose = random.Random(seed)
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self.data = self.text(20).encode()
        if self.choose.random() < 0.15:
            self.data = self.data.replace(b"\n", b"\r\n")
        (folder / "f").write_bytes(self.data)
        self.run = Replayed(store, {"f": self.data}, context)

    def text(self, most: int) -> str:
        """Some text, never empty."""
        return "".join(self.choose.choice(PIECES) for _ in range(self.choose.randint(1, most)))

    def lines(self, most: int) -> str:
        """Whole lines, the last without its line feed."""
        return "\n".join(self.choose.choice(LINES) for _ in range(self.choose.randint(1, most)))

    def part(self) -> str:
        """A stretch of the file as it is, or now and then of none."""
        text = (self.folder / "f").read_bytes().decode()
        if not text or self.choose.random() < 0.15:
            return self.text(3)
        start = self.choose.randrange(len(text))
        return text[start : start + self.choose.randint(1, 7)]

    def both(self, reference: Editor, plain: dict[str, Any], tool: str, call: dict[str, Any] | str) -> None:
        """The call on the real files, and in memory with what the tool answered."""
        try:
            answer = reference.call(plain)
        except Refused as refusal:
            self.run.call(tool, call, str(refusal), has_happened=False)
        else:
            self.run.call(tool, call, answer, has_happened=True)

    def compare(self) -> int:
        """How many files are unknown. All others must be right, and none may be missing."""
        real = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        left = self.run.left()
        assert set(left) == set(real)
        for path, data in left.items():
            assert data is None or data == real[path], (data, real[path])
        return sum(data is None for data in left.values())


def programs(
    count: int, folder: Path, store: Repository, context: Context, play: Callable[[Case], None], most_unknown: float
) -> None:
    """``count`` random programs; at most the share ``most_unknown`` of their files is unknown at the end."""
    totals: Counter[str] = Counter()
    numbers = itertools.count()

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), deadline=None, database=None)
    @given(st.integers(min_value=0, max_value=2**64))
    def check(seed: int) -> None:
        case = Case(seed, folder / str(next(numbers) % 2), store, context)
        play(case)
        totals["unknown"] += case.compare()
        totals["cases"] += 1

    check()
    assert totals["unknown"] <= most_unknown * totals["cases"], totals


STR_REPLACE: dict[str, tuple[Context, Callable[[Path], Editor], float]] = {
    "sweagent": (
        Context(harness="sweagent"),
        lambda folder: StrReplace(folder, expands=True, whole_lines=False, undoes=False),
        0.0,
    ),
    "openhands_0_1": (
        Context(harness="openhands_events"),
        lambda folder: StrReplace(folder, expands=True, whole_lines=False),
        0.75,
    ),
    "openhands_0_2": (
        Context(harness="openhands_output"),
        lambda folder: StrReplace(folder, expands=True, whole_lines=True),
        0.75,
    ),
    "openhands_0_3": (
        Context(harness="openhands_events"),
        lambda folder: StrReplace(folder, expands=False, whole_lines=True, strips="both"),
        0.75,
    ),
    "openhands_sdk": (
        Context(harness="openhands_sdk"),
        lambda folder: StrReplace(folder, expands=False, whole_lines=True, strips="old"),
        0.2,
    ),
    "unknown_harness": (Context(), lambda folder: StrReplace(folder, expands=True, whole_lines=False), 0.75),
}


@MANY
@pytest.mark.parametrize("name", STR_REPLACE)
def test_str_replace_editors(name: str, count: int, tmp_path: Path, store: Repository) -> None:
    context, make, most_unknown = STR_REPLACE[name]

    def play(case: Case) -> None:
        reference = make(case.folder)
        for _ in range(case.choose.randint(1, 6)):
            path = case.choose.choice(["f", "f", "f", "n"])
            kind = case.choose.random()
            call: dict[str, Any] = {"path": path}
            if kind < 0.5:
                call |= {"command": "str_replace", "old_str": case.part(), "new_str": case.text(4)}
            elif kind < 0.75:
                call |= {"command": "insert", "insert_line": case.choose.randint(0, 8), "new_str": case.text(4)}
            elif kind < 0.9:
                call |= {"command": "undo_edit"}
            else:
                call |= {"command": "create", "file_text": case.text(8)}
            case.both(reference, call, "str_replace_editor", call)

    programs(count, tmp_path, store, context, play, most_unknown)


@MANY
@pytest.mark.parametrize("inserts_before", [False, True])
def test_windows_of_sweagent_1(inserts_before: bool, count: int, tmp_path: Path, store: Repository) -> None:
    """Where its ``insert`` puts lines is told by the screen, unless the same lines stand on both sides."""

    def play(case: Case) -> None:
        window = Window(case.folder / "f", case.choose.choice([3, 6, 100]), inserts_before=inserts_before)
        first = case.choose.randint(1, 9)
        case.both(window, {"goto": first}, "open", {"path": "f", "line_number": first})
        for _ in range(case.choose.randint(1, 4)):
            kind = case.choose.random()
            if kind < 0.2:
                start = case.choose.randint(1, 9)
                end = start + case.choose.randint(-1, 3)
                text = case.lines(3) if case.choose.random() < 0.9 else ""
                call = {"start_line": start, "end_line": end, "replacement_text": text}
                case.both(window, {"start": start, "end": end, "text": text}, "edit", call)
            elif kind < 0.35:
                start = case.choose.randint(1, 9)
                end = start + case.choose.randint(-1, 3)
                text = case.lines(3) + "\n" if case.choose.random() < 0.9 else ""
                line = f"edit {start}:{end}\n{text}end_of_edit"
                case.both(window, {"start": start, "end": end, "text": text.removesuffix("\n")}, "edit", line)
            elif kind < 0.65:
                old, new = case.choose.choice(["a", "b", "x y", "a\nb", case.part()]), case.lines(2)
                is_every = case.choose.random() < 0.3
                call = {"search": old, "replace": new, **({"replace-all": True} if is_every else {})}
                case.both(window, {"search": old, "replace": new, "all": is_every}, "edit", call)
            elif kind < 0.9:
                text = case.lines(2)
                at = {} if case.choose.random() < 0.4 else {"line": case.choose.choice([0, 1, 2, 5, 20])}
                if text:
                    case.both(window, {"insert": text, **at}, "insert", {"text": text, **at})
            else:
                text = case.lines(4)
                case.both(window, {"rewrite": text}, "edit", {"text": text})

    programs(count, tmp_path, store, Context(harness="sweagent"), play, 0.35)


@pytest.mark.parametrize("count", [pytest.param(30, id="some"), pytest.param(5000, id="many", marks=pytest.mark.slow)])
def test_ranges_of_sweagent_0(count: int, tmp_path: Path, store: Repository) -> None:
    """Its edits are the shell's own arrays, so the reference is the shell."""

    def play(case: Case) -> None:
        case.run.call("open", "open f", "[File: /testbed/f (9 lines total)]\n1:", has_happened=True)
        window = ShellWindow(case.folder / "f")
        for _ in range(case.choose.randint(1, 2)):
            start = case.choose.randint(1, 9)
            end = start + case.choose.randint(-1, 3)
            typed = case.lines(3) + "\n" if case.choose.random() < 0.85 else ""
            line = f"edit {start}:{end}\n{typed}end_of_edit"
            case.both(window, {"start": start, "end": end, "typed": typed}, "edit", line)

    programs(count, tmp_path, store, Context(harness="sweagent"), play, 0.0)


@MANY
@pytest.mark.parametrize("harness", ["claude_code", "gemini_cli"])
def test_editors_that_find_text_exactly(harness: str, count: int, tmp_path: Path, store: Repository) -> None:
    is_claude = harness == "claude_code"

    def play(case: Case) -> None:
        reference = Exact(case.folder, takes_line=is_claude, keeps_end=not is_claude)
        tool, every = ("Edit", "replace_all") if is_claude else ("replace", "allow_multiple")
        for _ in range(case.choose.randint(1, 5)):
            if case.choose.random() < 0.1:
                call: dict[str, Any] = {"file_path": "f", "content": case.text(12)}
                case.both(reference, call, "Write" if is_claude else "write_file", call)
                continue
            new = "" if case.choose.random() < 0.3 else case.text(4)
            call = {"file_path": "f", "old_string": case.part(), "new_string": new}
            if case.choose.random() < 0.3:
                call[every] = True
            case.both(reference, call, tool, call)

    programs(count, tmp_path, store, Context(harness=harness), play, 0.3 if is_claude else 0.6)


@MANY
def test_pi(count: int, tmp_path: Path, store: Repository) -> None:
    def play(case: Case) -> None:
        reference = Pi(case.folder)
        for _ in range(case.choose.randint(1, 4)):
            edits = []
            for _ in range(case.choose.choice([1, 1, 2, 3])):
                old = case.part()
                if case.choose.random() < 0.2:
                    old = old.replace("“", '"').replace("”", '"')
                edits.append({"oldText": old, "newText": case.text(3) if case.choose.random() < 0.8 else ""})
            call = {"path": "f", "edits": edits}
            case.both(reference, call, "edit", call)

    programs(count, tmp_path, store, Context(harness="pi"), play, 0.0)


@MANY
def test_aider(count: int, tmp_path: Path, store: Repository) -> None:
    def play(case: Case) -> None:
        text = case.lines(10) + case.choose.choice(["\n", "\n", ""])
        (case.folder / "f").write_text(text)
        case.run.files.put("f", text.encode())
        reference = Aider(case.folder)
        for _ in range(case.choose.randint(1, 4)):
            lines = (case.folder / "f").read_text().split("\n")
            start = case.choose.randrange(len(lines))
            old = "\n".join(lines[start : start + case.choose.randint(1, 4)]) + "\n"
            kind = case.choose.random()
            if kind < 0.3:
                old = "".join(line.lstrip() + "\n" for line in old.split("\n")[:-1])
            elif kind < 0.4:
                old = "\n" + old
            elif kind < 0.5:
                old = case.lines(2) + "\n"
            if old.strip():
                call = {"path": "f", "search": old, "replace": case.lines(3) + "\n"}
                case.both(reference, call, "edit_block", call)

    programs(count, tmp_path, store, Context(harness="aider"), play, 0.0)


@MANY
@pytest.mark.parametrize("is_newer", [False, True])
def test_codex(is_newer: bool, count: int, tmp_path: Path, store: Repository) -> None:
    """Its generations differ where a line is given loosely, and where the file ends in empty lines."""

    def play(case: Case) -> None:
        text = case.lines(12) + case.choose.choice(["\n", "\n", ""])
        (case.folder / "f").write_text(text)
        case.run.files.put("f", text.encode())
        reference = ApplyPatch(case.folder, is_newer=is_newer)
        for _ in range(case.choose.randint(1, 3)):
            patch = ["*** Begin Patch"]
            if case.choose.random() < 0.2:
                patch += ["*** Add File: n", *(f"+{line}" for line in case.lines(3).split("\n"))]
            patch += ["*** Update File: f", *hunks_of(case, (case.folder / "f").read_text())]
            call = {"input": "\n".join([*patch, "*** End Patch"])}
            case.both(reference, call, "apply_patch", call)

    programs(count, tmp_path, store, Context(harness="codex"), play, 0.5)


def hunks_of(case: Case, text: str) -> Iterator[str]:
    """Lines of an update that mostly fits: hunks in order, some of their lines given loosely."""
    lines = text.removesuffix("\n").split("\n")
    place = 0
    for _ in range(case.choose.randint(1, 2)):
        start = case.choose.randint(place, len(lines))
        end = min(len(lines), start + case.choose.randint(0, 4))
        is_named = start > 0 and case.choose.random() < 0.3
        yield f"@@ {lines[case.choose.randrange(start)]}".rstrip() if is_named else "@@"
        for line in lines[start:end]:
            loose = line.strip() if case.choose.random() < 0.05 else line
            kind = case.choose.random()
            yield f"{'-' if kind < 0.4 else ' '}{loose}"
            if kind < 0.2:
                yield f"+{case.choose.choice(LINES)}"
        if start == end or case.choose.random() < 0.3:
            yield f"+{case.choose.choice(LINES)}"
        if end == len(lines) and case.choose.random() < 0.2:
            yield "*** End of File"
        place = end
