"""What a recording shows of the commit that it began on: texts of files not yet changed, and ids that git printed.

Only what holds for the base counts: of a file, what was shown before its first change; of the history, what git said
before ``HEAD`` moved. A sighting says nothing about which commit it is; that is weighed in ``base``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from handoff.actions import (
    ApplyPatch,
    Context,
    EditLines,
    Opaque,
    Operation,
    Replace,
    StreamEdit,
    WriteFile,
    changed_paths,
    context_of,
    did_not_happen,
    interpret,
    is_outside,
    resolve,
)
from handoff.actions.paths import settled
from handoff.actions.tools import SHELLS, command_line
from handoff.editors.patches import parse_unified, stripped
from handoff.editors.plain import Misfit
from handoff.git.objects import byte_path, is_safe_path
from handoff.shell import Command, commands
from handoff.states.proof.checkpoints import Shown, shown
from handoff.trajectory import Action, Observation, Step, Trajectory

MOST_SIGHTINGS = 200
"""More of them add no certainty."""
_NO_OBSERVATION = Observation(missing="none")
_EDITS = (ApplyPatch, EditLines, Replace, StreamEdit, WriteFile)
_FULL_ID = re.compile(r"^(?:commit )?([0-9a-f]{40})\b", re.MULTILINE)
_SHORT_ID = re.compile(r"^(?:[*|\\/ ]{0,12})([0-9a-f]{7,40}) \S", re.MULTILINE)
_ONLY_ID = re.compile(r"^([0-9a-f]{7,40})$", re.MULTILINE)
_BRANCH_ID = re.compile(r"^\* \S+ +([0-9a-f]{7,40}) ", re.MULTILINE)
_MADE = re.compile(r"^\[[^\]\s]{1,200}(?: \([^)]*\))? ([0-9a-f]{7,40})\] ", re.MULTILINE)
_INDEX = re.compile(r"^diff --git a/(\S+) b/\1\n(?:[a-z ]+ mode \d+\n)*index ([0-9a-f]{7,40})\.\.", re.MULTILINE)
_MOVES_HEAD = frozenset(
    ("am", "bisect", "checkout", "cherry-pick", "merge", "pull", "rebase", "reset", "revert", "stash", "switch")
)
_ONE_COMMIT = re.compile(
    r"HEAD|-\d+|-n|\d+|-p|--(?:oneline|stat|no-color|format=\S*|pretty=\S*|decorate\S*|graph|patch)"
)
"""Arguments with which ``git log`` and ``git show`` still begin at ``HEAD``."""


class Sighting(NamedTuple):
    """Something shown of one file before the run changed it."""

    path: str
    """Relative to the repository."""
    step: int
    """Where it was shown; 0: in the recorded patch."""
    blob: str | None = None
    """The git id of its bytes, or the beginning of it."""
    text: Shown | None = None
    """A text of the file, or of some lines."""
    is_text: bool = False
    """The id is of the file as text: its line ends, and a mark at its beginning, may have been others."""


class Sightings(NamedTuple):
    """All that a recording shows of its base."""

    files: tuple[Sighting, ...]
    heads: tuple[tuple[str, int], ...]
    """(id as printed, step) of what git said ``HEAD`` was."""
    made: tuple[str, int] | None
    """The first commit that the run itself made, and its step: the base is its parent."""
    began: int | None
    """Seconds since 1970 of the first dated reply."""


class _Facts(msgspec.Struct):
    """Texts that the recorder named by their git ids."""

    originals: dict[str, str] = {}
    before: dict[str, str] = {}
    read: dict[str, str] = {}


_facts = msgspec.json.Decoder(_Facts).decode


def sightings(trajectory: Trajectory, most: int = MOST_SIGHTINGS) -> Sightings:
    """What ``trajectory`` shows of its base. It stops looking after ``most`` files and texts."""
    look = _Look(trajectory, most)
    for number, step in enumerate(trajectory.steps, 1):
        if look.is_over:
            break
        look.at(number, step)
    patched = [Sighting(path, 0, blob=blob) for path, blob in preimages(trajectory.outcome.patch).items()]
    return Sightings(
        files=tuple(sighting for sighting in patched + look.files if _can_be_held(sighting.path)),
        heads=tuple(look.heads),
        made=look.made,
        began=_first_time(trajectory.steps),
    )


def _can_be_held(path: str) -> bool:
    """Whether a tree can hold a file of this name; a recording may say anything."""
    try:
        return is_safe_path(byte_path(path))
    except UnicodeEncodeError:
        return False


def preimages(patch: str | None) -> dict[str, str]:
    """Path → abbreviated blob id before the recorded patch, for files that existed."""
    try:
        files = parse_unified(patch or "")
    except Misfit:
        return {}
    found = {}
    for file in files:
        path = stripped(file.old_path, 1) if file.old_path and "/" in file.old_path else None
        if path and file.before and set(file.before) != {"0"}:
            found[path] = file.before
    return found


def shell_line(action: Action) -> str | None:
    """The shell line of an action; ``None`` when no shell runs it."""
    if action.tool.lower() not in SHELLS:
        return None
    if action.is_text:
        return action.arguments
    try:
        values = msgspec.json.decode(action.arguments.encode("utf-8", "replace")) if action.arguments else {}
    except (msgspec.DecodeError, RecursionError):
        return action.arguments
    return command_line(action.tool.lower(), values) if isinstance(values, dict) else action.arguments


class _Look:
    """Goes through a run until nothing it shows is of the base any more."""

    def __init__(self, trajectory: Trajectory, most: int) -> None:
        self.files: list[Sighting] = []
        self.heads: list[tuple[str, int]] = []
        self.made: tuple[str, int] | None = None
        self.is_over = False
        self._most = most
        self._context: Context = context_of(trajectory.format, trajectory.source)
        self._facts = _read_facts(trajectory.source)
        self._changed: set[str] = set()
        self._is_staged = False
        if not self._facts.before:
            for path, blob in self._facts.originals.items():
                self._add(path, 0, blob=blob, is_text=True)

    def at(self, number: int, step: Step) -> None:
        """One step more."""
        for place, action in enumerate(step.actions):
            if self.is_over:
                return
            answer = step.observations[place] if place < len(step.observations) else _NO_OBSERVATION
            self._context = settled(self._context, action.arguments)
            operations, self._context = interpret(action, self._context, answer)
            is_told = answer.missing is None and not answer.is_orphan and not answer.error
            if is_told:
                self._see_ids(number, action.call_id or "", operations)
            if answer.missing != "not_executed" and not did_not_happen(action, answer):
                self._change(operations)  # first: what an edit prints is the file after it
            if is_told and answer.exit_code in (None, 0) and answer.text and action.call_id not in self._facts.read:
                for seen in shown(operations, answer.text):
                    self._add(seen.path, number, text=seen)
            line = shell_line(action) if "git" in action.arguments else None
            if line is not None:
                self._git(number, line, answer.text)

    def _see_ids(self, number: int, call: str, operations: tuple[Operation, ...]) -> None:
        for noted, kinds in ((self._facts.read, None), (self._facts.before, _EDITS)):
            if call in noted:
                for path in _paths(operations, kinds):
                    self._add(path, number, blob=noted[call], is_text=True)

    def _add(
        self, path: str, step: int, *, blob: str | None = None, text: Shown | None = None, is_text: bool = False
    ) -> None:
        place = resolve(path, self._context)
        if not is_outside(place) and place not in self._changed and len(self.files) < self._most:
            self.files.append(Sighting(place, step, blob, text, is_text))

    def _change(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            self._changed.update(changed_paths(operation))
            if isinstance(operation, Opaque):
                self._changed.update(resolve(path, self._context) for path in operation.paths)
                self.is_over |= not operation.is_possible and not operation.paths

    def _git(self, number: int, line: str, said: str) -> None:
        for part in commands(line):
            verb, rest = _git_words(part)
            if verb == "commit":
                if self.made is None and "--amend" not in rest and (found := _MADE.search(said)):
                    self.made = (found[1], number)
                self.is_over = True  # of files, too: the next checkout may be of this commit
            elif verb in _MOVES_HEAD and not _stays(verb, rest):
                self.is_over = True
            elif verb == "add":
                self._is_staged = True
            elif verb == "diff" and not self._is_staged and not [word for word in rest if not word.startswith("-")]:
                for match in _INDEX.finditer(said):
                    if set(match[2]) != {"0"} and len(self.files) < self._most:
                        self.files.append(Sighting(match[1], number, blob=match[2]))
            elif verb and (head := _head(verb, rest, said)):
                self.heads.append((head, number))


def _paths(operations: Iterable[Operation], kinds: tuple[type[Operation], ...] | None) -> Iterator[str]:
    """The files that a call read or edited; the call has one text, so only where it is one file."""
    found = [
        path
        for operation in operations
        if kinds is None or isinstance(operation, kinds)
        if isinstance(path := getattr(operation, "path", None), str)
    ]
    if len(set(found)) == 1:
        yield found[0]


def _git_words(part: Command) -> tuple[str, list[str]]:
    """The verb of a git command and what follows; an empty verb for any other program."""
    words = [word.text for word in part.words]
    if not words or words[0].rsplit("/", 1)[-1] != "git":
        return "", []
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-c", "--git-dir", "--work-tree") else 1
    return (words[at], words[at + 1 :]) if at < len(words) else ("", [])


def _stays(verb: str, rest: list[str]) -> bool:
    """Whether a command of a verb that may move ``HEAD`` leaves commit and files of the base where they are."""
    if verb == "checkout":
        return ("-b" in rest and len(rest) == 2) or "--" in rest
    if verb == "switch":
        return ("-c" in rest or "--create" in rest) and len(rest) == 2
    if verb == "stash":
        return rest[:1] in (["list"], ["show"])
    if verb == "reset":
        return not any(word.startswith("--") for word in rest) and not any("~" in word or "^" in word for word in rest)
    return False


def _head(verb: str, rest: list[str], said: str) -> str | None:
    """The id that a command printed of ``HEAD``."""
    if verb == "rev-parse" and "HEAD" in rest and "--abbrev-ref" not in rest:
        found = _ONLY_ID.search(said)
    elif verb in ("log", "show") and all(_ONE_COMMIT.fullmatch(word) for word in rest):
        full, short = _FULL_ID.search(said), _SHORT_ID.search(said)
        found = min((match for match in (full, short) if match), key=lambda match: match.start(), default=None)
    elif verb == "branch" and any(word in ("-v", "-vv") for word in rest):
        found = _BRANCH_ID.search(said)
    else:
        found = None
    return found[1] if found else None


def _read_facts(source: str) -> _Facts:
    try:
        return _facts(source)
    except msgspec.DecodeError:  # facts of other types
        return _Facts()


def _first_time(steps: Iterable[Step]) -> int | None:
    for step in steps:
        if step.timestamp:
            found = seconds_of(step)
            return None if found is None else int(found)
    return None


def seconds_of(step: Step) -> float | None:
    """When a reply was given, in seconds since 1970; ``None``: it is not dated in ISO 8601. Without a zone: UTC."""
    try:
        at = datetime.fromisoformat(step.timestamp or "")
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def fact(trajectory: Trajectory, name: str) -> str | None:
    """One text among the facts of the source; ``None`` where there is none."""
    try:
        facts: Mapping[str, object] = msgspec.json.decode(trajectory.source, type=dict[str, object])
    except msgspec.DecodeError:
        return None
    value = facts.get(name)
    return value if isinstance(value, str) and value else None
