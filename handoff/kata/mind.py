"""What an agent can know: everything a kata agent believes comes from its briefing and its observations.

``Mind`` reads a conversation as it grows, live or from a recording, and keeps what follows from it: which files
exist, what was read, what the tests said and whether that is stale, what git diff showed. The same mind serves the
learned policy, the reference successors and training. It never looks at the repository itself.
"""

from __future__ import annotations

import re

import msgspec

from handoff.kata import tools
from handoff.kata.handed import Handed, read_view
from handoff.kata.mutations import Change, difference, functions
from handoff.kata.suspicion import suspicions
from handoff.kata.tools import Move
from handoff.successors import Briefing
from handoff.trajectory import Action, Observation

FEATURE_MAP = "FEATURES.md"

_MAP_LINE = re.compile(r"^- `([\w/.]+::\w+)`: ([\w., ]+)$", re.MULTILINE)
_FAILED_LINE = re.compile(r"^(?:FAILED|ERROR) ([\w/.]+(?:::\w+)?)", re.MULTILINE)
_SUMMARY_LINE = re.compile(r"^(?=.*\b(?:passed|failed|error)\b)[\w ,]+?(?: in [\d.]+s)?$", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (passed|failed|errors?)")
_REPORTED = re.compile(r"Users report (.+?):")
_PACKAGE = re.compile(r"features of `(\w+)`")


class TestResult(msgspec.Struct, frozen=True):
    """One run of the tests, as its own summary tells it."""

    __test__ = False

    target: str
    """Test file, or ``""`` for all."""
    failing: tuple[str, ...]
    """Test ids, sorted."""
    passed: int
    state: str
    """Of the tree it ran on, as ``Mind.state`` names it."""


class Attempt(msgspec.Struct):
    """One edit of the agent's own."""

    change: Change
    before: str
    """State it was made on."""
    after: str
    """State it made."""
    is_undone: bool = False


class Mind:
    """The knowledge of one agent in one conversation."""

    def __init__(self, briefing: Briefing) -> None:
        self.briefing = briefing
        self.is_takeover = bool(briefing.preamble)
        self.handed: Handed = read_view(briefing.view, briefing.view_text)
        match = _REPORTED.search(briefing.task)
        self.reported: tuple[str, ...] = tuple(re.findall(r"`(\w+)`", match[1])) if match else ()
        self.files: tuple[str, ...] = ()
        self.texts: dict[str, str] = {}
        """Files whose present text is known."""
        self.covers: dict[str, tuple[str, ...]] = {}
        """Test id → functions, once the feature map was read."""
        self.hunks: dict[str, tuple[Change, ...] | None] | None = None
        """File → token changes against the base, ``None`` for one changed in other ways. ``None`` before any diff."""
        self.hunk_code: dict[Change, str] = {}
        """Change that git diff showed → a one-line function of the line as it is now, to judge it by."""
        self.results: list[TestResult] = []
        self.attempts: list[Attempt] = []
        self.moves: list[Move] = []
        self.state = ""
        """A name of the tree as far as the agent's own moves changed it: the same after an edit and its undoing."""
        self.taken: set[tuple[Move, str]] = set()
        """(move, state) pairs already played; membership only, never iterated."""
        self.is_submitted = False
        told = _PACKAGE.search(briefing.task)
        self._told_package = told[1] if told else ""
        self._take_map(briefing.view_text)
        if briefing.view == "diff":
            self.hunks, self.hunk_code = read_diff(briefing.view_text)
        self._suspicions: tuple[tuple[object, ...], dict[str, float]] | None = None

    # -- reading the conversation ----------------------------------------------------------------

    def take(self, action: Action, observation: Observation) -> Move:
        """Read one action and what came back."""
        path = tools.edited_path(action)
        move = tools.move_of(action, self.texts.get(path) if path is not None else None)
        self.taken.add((self._memory(move), self.state))
        self.moves.append(move)
        text = observation.text
        match move.kind:
            case "list":
                self.files = tuple(line for line in text.split("\n") if line)
            case "diff":
                self.hunks, self.hunk_code = read_diff(text)
            case "test_all" | "test_one":
                self._take_result(move.path, text)
            case "read":
                if observation.exit_code in (0, None):
                    self._take_text(move.path, text)
            case "edit":
                if observation.exit_code in (0, None) and not observation.error:
                    self._take_edit(move)
            case "restore":
                self._take_restore(move.path)
            case "submit":
                self.is_submitted = True
            case _:
                if path is not None:  # an edit whose effect is not understood
                    self.texts.pop(path, None)
                    self.state = f"{self.state}/{len(self.moves)}"
        return move

    def _memory(self, move: Move) -> Move:
        return Move("edit", move.path, move.change) if move.kind == "undo" else move

    def was_taken(self, move: Move) -> bool:
        """True when this move was already made on the present state."""
        return (self._memory(move), self.state) in self.taken

    def _take_text(self, path: str, text: str) -> None:
        self.texts[path] = text
        if path == FEATURE_MAP:
            self._take_map(text)

    def _take_map(self, text: str) -> None:
        found = {test: tuple(names.split(", ")) for test, names in _MAP_LINE.findall(text)}
        self.covers = found or self.covers

    def _take_result(self, target: str, text: str) -> None:
        counts = {word.removesuffix("s"): int(n) for n, word in _COUNT.findall(_last_summary(text))}
        failing = tuple(sorted(_FAILED_LINE.findall(text)))
        self.results.append(TestResult(target, failing, counts.get("passed", 0), self.state))

    def _take_edit(self, move: Move) -> None:
        change = move.change
        if change is None:
            return
        self.texts[move.path] = change.apply(self.texts[move.path])
        for attempt in reversed(self.attempts):
            if attempt.change.inverse() == change and not attempt.is_undone:
                attempt.is_undone = True
                self._forget_hunk(attempt.change)
                self.state = self._name_state()
                return
        before = self.state
        self.attempts.append(Attempt(change, before, ""))
        self.state = self.attempts[-1].after = self._name_state()
        if self.hunks is not None:
            own = self.hunks.get(move.path, ())
            if own is not None:
                kept = tuple(c for c in own if c.inverse() != change)
                self.hunks[move.path] = kept if len(kept) < len(own) else (*own, change)

    def _forget_hunk(self, change: Change) -> None:
        if self.hunks is not None:
            own = self.hunks.get(change.path)
            if own is not None:
                self.hunks[change.path] = tuple(c for c in own if c != change)

    def _take_restore(self, path: str) -> None:
        known = self.hunks.get(path, ()) if self.hunks is not None else None
        text = self.texts.pop(path, None)
        if text is not None and known:
            for change in reversed(known):
                try:
                    text = change.inverse().apply(text)
                except ValueError:
                    text = None
                    break
            if text is not None:
                self.texts[path] = text
        if self.hunks is not None:
            self.hunks[path] = ()
        for attempt in self.attempts:
            if attempt.change.path == path:
                attempt.is_undone = True
        self.state = self._name_state()

    def _name_state(self) -> str:
        kept = sorted(
            (a.change.path, a.change.line, a.change.column, a.change.new) for a in self.attempts if not a.is_undone
        )
        restored = sorted({move.path for move in self.moves if move.kind in ("restore", "other")})
        return repr((kept, restored)) if kept or restored else ""

    # -- what follows ------------------------------------------------------------------------------

    @property
    def last_full(self) -> TestResult | None:
        """The last run of all tests on the present state, else on any."""
        full = [result for result in self.results if not result.target]
        here = [result for result in full if result.state == self.state]
        return here[-1] if here else full[-1] if full else None

    @property
    def is_fresh(self) -> bool:
        """True when all tests were run on the present state."""
        full = self.last_full
        return full is not None and full.state == self.state

    @property
    def is_green(self) -> bool:
        """True when all tests were run on the present state and passed."""
        full = self.last_full
        return full is not None and full.state == self.state and not full.failing and full.passed > 0

    def outcome(self, attempt: Attempt) -> str:
        """``better``, ``same`` or ``worse`` by failing tests before and after; ``""`` when either was not run."""
        counts: dict[str, int] = {}
        for result in self.results:
            if not result.target:
                counts[result.state] = len(result.failing)
        before, after = counts.get(attempt.before), counts.get(attempt.after)
        if before is None or after is None:
            return ""
        return "better" if after < before else "worse" if after > before else "same"

    def status(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """(failing, passing) test ids by the latest run of each; ``None`` when no test was run.

        Runs on the present state count before any other. Passing tests are known by the feature map: what a run
        covered and did not report.
        """
        if not self.results:
            return None
        failing: dict[str, bool] = {}
        for result in sorted(self.results, key=lambda result: result.state == self.state):  # stable: the present last
            for test in self.covers:
                if not result.target or test.startswith(result.target + "::"):
                    failing[test] = False
            for test in result.failing:
                failing[test] = True
        return (
            tuple(sorted(test for test, is_failing in failing.items() if is_failing)),
            tuple(sorted(test for test, is_failing in failing.items() if not is_failing)),
        )

    def suspicions(self) -> dict[str, float]:
        """Function (``module.name``) → chance that it is wrong; empty before the feature map was read."""
        if not self.covers:
            return {}
        status = self.status()
        if status is None:
            told = self.handed.failing or tuple(
                t for t in self.covers if t.split("::test_")[-1].rsplit("_", 1)[0] in self.reported
            )
            status = (tuple(told), ())
        key: tuple[object, ...] = (status, len(self.covers))
        if self._suspicions is None or self._suspicions[0] != key:
            self._suspicions = (key, suspicions(self.covers, *status))
        return self._suspicions[1]

    @property
    def package(self) -> str:
        """The package's folder, as the task or the list of files names it; ``""`` before that."""
        return self._told_package or next(
            (path.split("/")[0] for path in self.files if path.endswith("/__init__.py")), ""
        )

    @property
    def modules(self) -> tuple[str, ...]:
        """Source files that may hold bugs, as far as they are known, sorted."""
        named = {path for path in self.files if _is_module(path)}
        if self.package:
            covered = {name.split(".")[0] for names in self.covers.values() for name in names}
            named |= {f"{self.package}/{module}.py" for module in covered}
        named |= {path for path in self.texts if _is_module(path)}
        named |= {path for path in (*self.handed.changed, *self.handed.read) if _is_module(path)}
        if self.hunks is not None:
            named |= {path for path in self.hunks if _is_module(path)}
        return tuple(sorted(named))

    def qualified(self, path: str) -> tuple[str, ...]:
        """The functions of a source file as the feature map names them; by the map before the file was read."""
        module = path.rsplit("/", 1)[-1].removesuffix(".py")
        if path in self.texts:
            return tuple(f"{module}.{name}" for name, _, _ in functions(self.texts[path]))
        names = {name for names in self.covers.values() for name in names}
        return tuple(sorted(name for name in names if name.startswith(module + ".")))

    @property
    def own_changes(self) -> tuple[Change, ...]:
        """The agent's edits that still stand, oldest first."""
        return tuple(attempt.change for attempt in self.attempts if not attempt.is_undone)


def _is_module(path: str) -> bool:
    return (
        path.endswith(".py")
        and "/" in path
        and not path.startswith("tests/")
        and not path.endswith(("__init__.py", "flows.py"))
    )


def _last_summary(text: str) -> str:
    found = _SUMMARY_LINE.findall(text)
    return found[-1] if found else ""


def read_diff(text: str) -> tuple[dict[str, tuple[Change, ...] | None], dict[Change, str]]:
    """What ``git diff`` showed: file → its token changes (``None``: it takes more than those to tell), and the
    code around each change as a one-line function."""
    found: dict[str, tuple[Change, ...] | None] = {}
    code: dict[Change, str] = {}
    for part in re.split(r"^diff --git ", text, flags=re.MULTILINE)[1:]:
        match = re.search(r"^\+\+\+ b/(.+)$", part, re.MULTILINE)
        if match is not None:
            found[match[1]] = _read_hunks(match[1], part, code)
    return found, code


_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)\n((?:[ +\-\\].*\n?)*)", re.MULTILINE)


def _read_hunks(path: str, part: str, code: dict[Change, str]) -> tuple[Change, ...] | None:
    changes: list[Change] = []
    for header in _HUNK.finditer(part):
        number, function = int(header[1]), header[2].strip()
        removed: list[str] = []
        added: list[tuple[int, str]] = []
        for line in [*header[3].split("\n"), " "]:
            if line.startswith("-"):
                removed.append(line[1:])
                continue
            if line.startswith("+"):
                added.append((number, line[1:]))
                number += 1
                continue
            if line.startswith("\\"):
                continue
            if len(removed) != len(added):
                return None
            for old, (place, new) in zip(removed, added, strict=True):
                tokens = difference(path, old.strip() + "\n", new.strip() + "\n")
                if tokens is None:
                    return None
                indent = len(new) - len(new.lstrip())
                for token in tokens:
                    change = Change(path, place, token.column + indent, token.old, token.new)
                    changes.append(change)
                    code[change] = f"{function if function.startswith('def ') else 'def _():'}\n{new}\n"
            removed, added = [], []
            number += 1
            if line.startswith(" def "):
                function = line[1:]
    return tuple(changes)
