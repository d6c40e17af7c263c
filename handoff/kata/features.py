"""What a kata agent may do next, and what it can see about each possibility.

``candidates`` lists the sensible moves of a moment, ``features`` describes each by numbers that a developer at the
keyboard could observe: what was read, which tests fail, how suspicious a function is, how plausible a change. The
policy (``policy.py``) learns from these; the reference expert (``expert.py``) ranks by some of them.

A move is never offered twice on the same state: without that guard a learned policy circles.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
import numpy.typing as npt

from handoff.kata.mind import FEATURE_MAP, Mind
from handoff.kata.mutations import Change, changes, function_at
from handoff.kata.prior import Prior
from handoff.kata.tools import Move

Matrix = npt.NDArray[np.float64]

EDITS_PER_FUNCTION = 3
MAX_EDITS = 18
SHARPNESS = 0.25
"""How much a nat of the code prior counts when changes of one function are compared."""
DOUBT = 0.3
"""Part of the chance that is shared evenly, since the code prior knows little code."""
KINDS = ("list", "diff", "test_all", "test_one", "read", "edit", "undo", "restore", "submit")
PLACES = ("map", "readme", "flows", "module", "test_file")

CONTEXT_NAMES = (
    "is_takeover", "has_notes", "notes_changed", "notes_failing", "notes_passing", "notes_stale",
    "steps", "knows_files", "knows_map", "knows_diff", "diff_files", "knows_results", "is_fresh", "is_green",
    "failing", "untested_edits", "own_changes", "last_edit_better", "last_edit_same", "last_edit_worse",
    "last_edit_open", "modules_read", "top_suspicion", "top_is_read",
    "last_list", "last_diff", "last_test", "last_read", "last_edit",
)  # fmt: skip
MOVE_NAMES = (
    *(f"kind_{kind}" for kind in KINDS),
    *(f"place_{place}" for place in PLACES),
    "suspicion", "suspicion_rank", "is_most_suspicious", "gain", "gain_rank", "share", "score", "score_rank",
    "is_best_score",
    "is_cleared", "in_diff", "diff_gain", "undoes_hunk", "touches_hunk", "notes_say_changed", "notes_say_reverted",
    "notes_say_read", "notes_last", "tried_here", "covers_failing", "covers_edited", "undo_worse", "undo_same",
    "undo_better", "undo_gain", "is_just_read",
)  # fmt: skip
NAMES = CONTEXT_NAMES + MOVE_NAMES
FILE_NAMES = (
    "is_takeover", "knows_diff", "in_diff", "diff_gain", "best_gain", "suspicion", "knows_results", "is_green",
    "is_fresh",
    "has_notes", "notes_changed", "notes_reverted", "notes_read", "notes_stale", "notes_passing", "is_read",
    "own_changes",
    "own_better", "own_open", "n_changed",
)  # fmt: skip


class Edit(msgspec.Struct, frozen=True):
    """One change worth trying, with what speaks for it."""

    change: Change
    function: str
    suspicion: float
    gain: float
    share: float
    """Of the chance that its function is wrong, by plausibility among all changes of that function."""
    rank: int
    """Among the untried changes of its function, 0 the most plausible."""

    @property
    def chance(self) -> float:
        """That this change is a fix: the place is wrong, and this is what is wrong with it."""
        return self.suspicion * self.share


def edits(mind: Mind, prior: Prior) -> list[Edit]:
    """The changes worth trying in the files read so far, most likely first."""
    chances = mind.suspicions()
    found: list[Edit] = []
    own = {change.inverse() for change in mind.own_changes}
    for path in mind.modules:
        text = mind.texts.get(path)
        if text is None:
            continue
        module = path.rsplit("/", 1)[-1].removesuffix(".py")
        by_function: dict[str, list[Change]] = {}
        for change in changes(path, text):
            by_function.setdefault(function_at(text, change.line) or "", []).append(change)
        for function, options in by_function.items():
            name = f"{module}.{function}"
            weights = {change: math.exp(SHARPNESS * prior.gain(text, change)) for change in options}
            total = sum(weights.values())
            open_ = [c for c in options if c not in own and not mind.was_taken(Move("edit", path, c))]
            open_.sort(key=lambda change: (-weights[change], change))
            for rank, change in enumerate(open_[:EDITS_PER_FUNCTION]):
                share = (1 - DOUBT) * weights[change] / total + DOUBT / len(options)
                found.append(Edit(change, name, chances.get(name, 0.1), prior.gain(text, change), share, rank))
    found.sort(key=lambda edit: (-edit.chance, edit.change))
    return found[:MAX_EDITS]


def candidates(mind: Mind, worth: list[Edit]) -> list[Move]:
    """Every sensible move of the moment, in a fixed order. Never empty: submitting is always possible."""
    found: list[Move] = []
    if not mind.files:
        found.append(Move("list"))
    found += [move for move in (Move("diff"), Move("test_all")) if not mind.was_taken(move)]
    for path in mind.files:
        if path.startswith("tests/") and not mind.was_taken(Move("test_one", path)):
            found.append(Move("test_one", path))
    readable = {FEATURE_MAP, "README.md", *mind.files, *mind.modules} if mind.files else {*mind.modules, FEATURE_MAP}
    for path in sorted(readable):
        if place_of(path) is not None and path not in mind.texts and not mind.was_taken(Move("read", path)):
            found.append(Move("read", path))
    found += [Move("edit", edit.change.path, edit.change) for edit in worth]
    standing = [attempt for attempt in mind.attempts if not attempt.is_undone]
    for attempt in standing[-2:]:
        move = Move("undo", attempt.change.path, attempt.change.inverse())
        text = mind.texts.get(move.path)
        if text is not None and attempt.change.inverse().fits(text) and not mind.was_taken(move):
            found.append(move)
    changed = (
        set(mind.handed.changed) if mind.hunks is None else {path for path, own in mind.hunks.items() if own != ()}
    )
    restored = {move.path for move in mind.moves if move.kind == "restore"}
    for path in sorted(changed - restored):
        if place_of(path) == "module" and not mind.was_taken(Move("restore", path)):
            found.append(Move("restore", path))
    found.append(Move("submit"))
    return found


def place_of(path: str) -> str | None:
    """Which sort of file a path is, as reading goes; ``None`` for files not worth reading."""
    if path == FEATURE_MAP:
        return "map"
    if path == "README.md":
        return "readme"
    if not path.endswith(".py") or path.endswith("__init__.py"):
        return None
    if path.startswith("tests/"):
        return "test_file"
    return "flows" if path.endswith("/flows.py") else "module"


def features(mind: Mind, moves: list[Move], worth: list[Edit], prior: Prior) -> Matrix:
    """One row per move: the context's numbers, then the move's own."""
    context = _context(mind, worth)
    described = [context + _describe(mind, move, worth, prior) for move in moves]
    return np.array(described, dtype=np.float64).reshape(len(moves), len(NAMES))


def _context(mind: Mind, worth: list[Edit]) -> list[float]:
    handed = mind.handed
    full = mind.last_full
    last = next((attempt for attempt in reversed(mind.attempts)), None)
    outcome = mind.outcome(last) if last is not None and not last.is_undone else ""
    is_open = last is not None and not last.is_undone and last.after == mind.state and not mind.is_fresh
    chances = mind.suspicions()
    top = max(chances.values(), default=0.0)
    tops = {name.split(".")[0] for name, value in chances.items() if value == top}
    read = {path for path in mind.texts if place_of(path) == "module"}
    kinds = [move.kind for move in mind.moves[-1:]]
    return [
        float(mind.is_takeover),
        float(handed.has_notes),
        min(len(handed.changed), 4) / 4,
        min(len(handed.failing), 6) / 6,
        float(handed.is_passing is True),
        float(handed.is_stale),
        min(len(mind.moves), 40) / 20,
        float(bool(mind.files)),
        float(bool(mind.covers)),
        float(mind.hunks is not None),
        min(sum(1 for own in (mind.hunks or {}).values() if own != ()), 4) / 4,
        float(bool(mind.results)),
        float(mind.is_fresh),
        float(mind.is_green),
        min(len(full.failing), 8) / 8 if full is not None else 0.0,
        min(_untested(mind), 4) / 4,
        min(len(mind.own_changes), 4) / 4,
        float(outcome == "better"),
        float(outcome == "same"),
        float(outcome == "worse"),
        float(is_open),
        min(len(read), 8) / 8,
        top,
        float(any(path.rsplit("/", 1)[-1].removesuffix(".py") in tops for path in sorted(read))),
        float("list" in kinds),
        float("diff" in kinds),
        float("test_all" in kinds or "test_one" in kinds),
        float("read" in kinds),
        float("edit" in kinds),
    ]


def _untested(mind: Mind) -> int:
    """Own edits made after the last run of all tests that still stand."""
    if mind.is_fresh:
        return 0
    tested = {result.state for result in mind.results if not result.target}
    return sum(1 for attempt in mind.attempts if not attempt.is_undone and attempt.after not in tested)


def _describe(mind: Mind, move: Move, worth: list[Edit], prior: Prior) -> list[float]:
    handed = mind.handed
    row = dict.fromkeys(MOVE_NAMES, 0.0)
    row[f"kind_{move.kind}"] = 1.0
    place = place_of(move.path) if move.path else None
    if place is not None:
        row[f"place_{place}"] = 1.0
    if place == "module":
        row["in_diff"] = float(mind.hunks is not None and mind.hunks.get(move.path, ()) != ())
        row["notes_say_changed"] = float(move.path in handed.changed)
        row["notes_say_reverted"] = float(move.path in handed.reverted)
        row["notes_say_read"] = float(move.path in handed.read)
        row["notes_last"] = float(move.path == handed.last_mentioned)
        row["diff_gain"] = _hunk_gain(mind, move.path, prior)
        row["is_just_read"] = float(bool(mind.moves) and mind.moves[-1] == Move("read", move.path))
    if move.kind in ("read", "restore") and place == "module":
        value, rank = _file_suspicion(mind, move.path)
        row["suspicion"] = value
        row["suspicion_rank"] = 1 / (1 + rank)
        row["is_most_suspicious"] = float(rank == 0 and value > 0)
    if move.kind in ("test_one", "read") and place == "test_file":
        status = mind.status()
        failing = status[0] if status is not None else handed.failing
        row["covers_failing"] = float(any(test.startswith(move.path + "::") for test in failing))
        edited = {c.path.rsplit("/", 1)[-1].removesuffix(".py") for c in mind.own_changes[-1:]}
        covered = {n.split(".")[0] for t, names in mind.covers.items() if t.startswith(move.path + "::") for n in names}
        row["covers_edited"] = float(bool(edited & covered))
    if move.kind == "edit":
        _describe_edit(mind, move, worth, row)
    if move.kind == "undo" and move.change is not None:
        attempt = next(a for a in reversed(mind.attempts) if a.change.inverse() == move.change)
        outcome = mind.outcome(attempt)
        row["undo_worse"], row["undo_same"] = float(outcome == "worse"), float(outcome == "same")
        row["undo_better"] = float(outcome == "better")
        row["undo_gain"] = _scaled(prior.gain(mind.texts[move.path], move.change))
    return [row[name] for name in MOVE_NAMES]


def _describe_edit(mind: Mind, move: Move, worth: list[Edit], row: dict[str, float]) -> None:
    at = next(i for i, edit in enumerate(worth) if edit.change == move.change)
    edit = worth[at]
    change = edit.change
    highest = max(other.suspicion for other in worth)
    row["suspicion"] = edit.suspicion
    row["is_most_suspicious"] = float(edit.suspicion == highest)
    row["suspicion_rank"] = 1 / (1 + len({other.suspicion for other in worth if other.suspicion > edit.suspicion}))
    row["gain"] = _scaled(edit.gain)
    row["gain_rank"] = 1 / (1 + edit.rank)
    row["score"] = edit.chance
    row["share"] = edit.share
    row["score_rank"] = 1 / (1 + at)
    row["is_best_score"] = float(at == 0)
    row["is_cleared"] = float(edit.suspicion < 0.06)
    hunks = (mind.hunks or {}).get(change.path) or ()
    row["undoes_hunk"] = float(any(hunk.inverse() == change for hunk in hunks))
    row["touches_hunk"] = float(any(hunk.line == change.line for hunk in hunks))
    tried = [a for a in mind.attempts if a.change.path == change.path and a.change.line == change.line]
    row["tried_here"] = min(len(tried), 3) / 3


def _scaled(gain: float) -> float:
    return max(-2.0, min(2.0, gain / 5))


def _hunk_gain(mind: Mind, path: str, prior: Prior) -> float:
    """How much the code prior likes what git diff shows of a file: its least likely change; zero for no change."""
    hunks = (mind.hunks or {}).get(path) or ()
    return _scaled(min((hunk_gain(mind, hunk, prior) for hunk in hunks), default=0.0))


def hunk_gain(mind: Mind, hunk: Change, prior: Prior) -> float:
    """How much likelier a change that stands in the work tree made its line."""
    code = mind.hunk_code.get(hunk)
    if code is not None:
        line = code.split("\n")[1]
        column = hunk.column
        back = Change(hunk.path, 2, column, hunk.new, hunk.old)
        return -prior.gain(code, back) if line.startswith(hunk.new, column) else 0.0
    text = mind.texts.get(hunk.path)
    return -prior.gain(text, hunk.inverse()) if text is not None else 0.0


def _file_suspicion(mind: Mind, path: str) -> tuple[float, int]:
    """(highest suspicion of a function in the file, rank of the file among the unread ones)."""
    chances = mind.suspicions()
    by_file: dict[str, float] = {}
    for name, value in chances.items():
        module = name.split(".")[0]
        by_file[module] = max(by_file.get(module, 0.0), value)
    read = {p.rsplit("/", 1)[-1].removesuffix(".py") for p in mind.texts}
    own = path.rsplit("/", 1)[-1].removesuffix(".py")
    value = by_file.get(own, 0.0)
    better = [other for module, other in by_file.items() if other > value and module not in read]
    return value, len(better)


def file_features(mind: Mind, paths: tuple[str, ...], prior: Prior) -> Matrix:
    """One row per source file: what the belief head sees when it judges how far the work on that file is."""
    handed = mind.handed
    rows = []
    worth = edits(mind, prior)
    for path in paths:
        suspicion, _ = _file_suspicion(mind, path)
        own = [attempt for attempt in mind.attempts if attempt.change.path == path and not attempt.is_undone]
        in_diff = mind.hunks is not None and mind.hunks.get(path, ()) != ()
        best = max((edit.gain for edit in worth if edit.change.path == path), default=0.0)
        rows.append([
            float(mind.is_takeover),
            float(mind.hunks is not None),
            float(in_diff),
            _hunk_gain(mind, path, prior),
            _scaled(best),
            suspicion,
            float(bool(mind.results)),
            float(mind.is_green),
            float(mind.is_fresh),
            float(handed.has_notes),
            float(path in handed.changed),
            float(path in handed.reverted),
            float(path in handed.read),
            float(handed.is_stale),
            float(handed.is_passing is True),
            float(path in mind.texts),
            min(len(own), 3) / 3,
            float(any(mind.outcome(attempt) == "better" for attempt in own)),
            float(any(mind.outcome(attempt) == "" for attempt in own)),
            min(len(handed.changed), 4) / 4,
        ])  # fmt: skip
    return np.array(rows, dtype=np.float64).reshape(len(paths), len(FILE_NAMES))
