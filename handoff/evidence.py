"""The evidence record: what the predecessor did and saw up to the handoff (``docs/science.md §3``).

Both written views are made from it, so it is the leak boundary: it is built from the task, the steps ≤ h and the
repository's states ≤ h, and from nothing else. Phrasing is in ``writers/``; where a run may be cut, in ``points.py``.
Every text in it comes from the recording and is hostile: escape it wherever it is shown.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from handoff.actions.history import Event, history
from handoff.actions.operations import Install, Read, Replace, Restore, Run, Undo, Validate, WriteFile
from handoff.actions.paths import context_of, is_outside
from handoff.states.reader import StateReader
from handoff.trajectory import Step, Trajectory, prefix

Predecessor = Literal["agent", "person"]


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A file that differs from the base commit at h."""

    path: str
    status: Literal["added", "modified", "deleted"]
    steps: tuple[int, ...]
    """Steps that changed it; empty when only the state shows the change."""


class Reverted(msgspec.Struct, frozen=True, kw_only=True):
    """An edit that was taken back by h."""

    path: str
    steps: tuple[int, ...]
    """The step of the edit, then the step that took it back."""


class LastValidation(msgspec.Struct, frozen=True, kw_only=True):
    """The last test, build or lint run up to h."""

    command: str
    step: int
    outcome: Literal["passed", "failed"] | None
    passed: int | None
    failed: int | None
    failing: tuple[str, ...]
    is_stale: bool
    """A file was changed after it."""


class FileRead(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was read."""

    path: str
    step: int
    """The last time."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A text of the recording, with its step."""

    text: str
    step: int


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that the written views may tell. Every tuple is in order of steps."""

    h: int
    predecessor: Predecessor = "agent"
    task: str
    changed: tuple[Changed, ...]
    reverted: tuple[Reverted, ...]
    last_validation: LastValidation | None
    reads: tuple[FileRead, ...]
    failed_attempts: tuple[Said, ...]
    """Edits that were refused."""
    intentions: tuple[Said, ...]
    """Sentences in which the predecessor says what it will do, verbatim."""
    open_failures: tuple[Said, ...]
    """Validations before the last one that failed when last run."""
    commands: tuple[Said, ...]
    """Commands that were run, each with its last step."""


def predecessor_of(trajectory: Trajectory, h: int) -> Predecessor:
    """Who did the work of steps 1..h. Where people and agents share a branch, a step of an agent names its model."""
    is_agent = trajectory.author == "agent" or all(step.model for step in trajectory.steps[:h])
    return "agent" if is_agent else "person"


def gather_evidence(trajectory: Trajectory, h: int, states: StateReader | None) -> Evidence:
    """The evidence record at ``h``. Only steps ≤ h and states ≤ h are looked at."""
    steps = prefix(trajectory.steps, h)
    events = history(steps, context_of(trajectory.format, trajectory.source))
    reverted = find_reverted(events, states)
    return Evidence(
        h=h,
        predecessor=predecessor_of(trajectory, h),
        task=trajectory.task,
        changed=_changed(events, h, states),
        reverted=tuple(Reverted(path=path, steps=(first, last)) for path, first, last in reverted),
        last_validation=_last_validation(events),
        reads=_reads(events),
        failed_attempts=_failed(events),
        intentions=_intentions(steps),
        open_failures=_open_failures(events),
        commands=_commands(events),
    )


def find_reverted(events: list[Event], states: StateReader | None) -> list[tuple[str, int, int]]:
    """Edits taken back: (path, step of the edit, step that took it back), sorted by the latter.

    With states: the file is back to what it was before the edit. Without: an undo, a restore, the inverse
    replacement, or the file written anew as a whole.
    """
    found: dict[tuple[str, int], int] = {}
    edits: dict[str, list[Event]] = {}
    for event in events:
        for path in event.changed:
            scope = sorted(edits) if path == "." else [path]
            for name in scope:
                for earlier in edits.get(name, ()):
                    if earlier.step < event.step and (name, earlier.step) not in found:
                        if states is not None and states.tree(event.step) is not None:
                            is_back = _is_back(states, name, earlier.step, event.step)
                        else:
                            is_back = _takes_back(event, earlier, edits[name])
                        if is_back:
                            found[name, earlier.step] = event.step
            if path != ".":
                edits.setdefault(path, []).append(event)
    return sorted(((path, first, last) for (path, first), last in found.items()), key=lambda r: (r[2], r[1], r[0]))


def _is_back(states: StateReader, path: str, first: int, last: int) -> bool:
    before, after, now = states.read(first - 1, path), states.read(first, path), states.read(last, path)
    return before != after and now == before


def _takes_back(event: Event, earlier: Event, edits: list[Event]) -> bool:
    operation, first = event.operation, earlier.operation
    if isinstance(operation, Restore):
        return True
    if isinstance(operation, Undo):
        return earlier is edits[-1]
    if isinstance(operation, Replace) and isinstance(first, Replace):
        return operation.old == first.new and operation.new == first.old
    return isinstance(operation, WriteFile) and isinstance(first, WriteFile | Replace)


def _changed(events: list[Event], h: int, states: StateReader | None) -> tuple[Changed, ...]:
    steps: dict[str, list[int]] = {}
    status: dict[str, Literal["added", "modified", "deleted"]] = {}
    for event in events:
        for key in event.keys if event.changed else ():
            path = key.target
            if isinstance(event.operation, Restore):
                for gone in sorted(status) if path == "." else [path]:
                    status.pop(gone, None)
                    steps.setdefault(gone, []).append(event.step)
                continue
            if path == "." or path not in event.changed:
                continue
            steps.setdefault(path, []).append(event.step)
            if key.kind == "delete":
                if status.get(path) == "added":
                    del status[path]
                else:
                    status[path] = "deleted"
            elif key.kind == "create" and path not in status:
                status[path] = "added"
            elif status.get(path) != "added":
                status[path] = "modified"
    if states is not None and states.tree(h) is not None:
        status = {}
        for path in states.changed(h):
            before, now = states.read(0, path), states.read(h, path)
            status[path] = "added" if before is None else "deleted" if now is None else "modified"
    return tuple(
        Changed(path=path, status=status[path], steps=tuple(dict.fromkeys(steps.get(path, ()))))
        for path in sorted(status, key=lambda p: (steps.get(p, [0])[0], p))
    )


def _last_validation(events: list[Event]) -> LastValidation | None:
    for place in range(len(events) - 1, -1, -1):
        event = events[place]
        if event.result is None:
            continue
        return LastValidation(
            command=event.result.command,
            step=event.step,
            outcome=event.result.outcome,
            passed=event.result.passed,
            failed=event.result.failed,
            failing=event.result.failing,
            is_stale=any(later.changed for later in events[place + 1 :]),
        )
    return None


def _reads(events: list[Event]) -> tuple[FileRead, ...]:
    last: dict[str, int] = {}
    for event in events:
        if isinstance(event.operation, Read) and event.happened and not is_outside(event.operation.path):
            last.pop(event.operation.path, None)
            last[event.operation.path] = event.step
    return tuple(FileRead(path=path, step=step) for path, step in last.items())


def _failed(events: list[Event]) -> tuple[Said, ...]:
    found = []
    for event in events:
        if not event.happened and any(key.kind in ("edit", "create", "delete") for key in event.keys):
            first = next((line for line in event.observation.text.splitlines() if line.strip()), "no answer")
            key = event.keys[0]
            found.append(Said(text=f"{key.kind} {key.target}: {first.strip()[:300]}", step=event.step))
    return tuple(found)


_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?![\s\n]|\Z)[^.!?\n]*)*[.!?]?")
_INTENTION = re.compile(
    r"\b(?:I will|I'll|I’ll|let me|let's|let’s|next,? (?:I|we)|I (?:need|want|plan|am going|should|intend) to"
    r"|I'm going to|we (?:need|should|will)|I should|now I|the next step|going to)\b",
    re.I,
)
_LONGEST_TEXT = 20_000


def _intentions(steps: tuple[Step, ...]) -> tuple[Said, ...]:
    found = []
    for number, step in enumerate(steps, start=1):
        seen: dict[str, None] = {}
        for text in (step.thought, step.text):
            for match in _SENTENCE.finditer(text[:_LONGEST_TEXT]):
                sentence = match[0].strip()
                if 8 <= len(sentence) <= 400 and _INTENTION.search(sentence):
                    seen[sentence] = None
        found += [Said(text=sentence, step=number) for sentence in seen]
    return tuple(found)


def _open_failures(events: list[Event]) -> tuple[Said, ...]:
    latest: dict[tuple[str, str], Event] = {}
    last = None
    for event in events:
        if event.result is not None:
            last = event
            if event.result.outcome is not None:
                latest[event.result.kind, event.result.target] = event
                if event.result.outcome == "passed" and event.result.target == ".":
                    latest = {k: e for k, e in latest.items() if k[0] != event.result.kind or e is event}
    found = []
    for event in latest.values():
        result = event.result
        if result is not None and result.outcome == "failed" and event is not last:
            found.append(Said(text=result.command or f"{result.kind} {result.target}", step=event.step))
    return tuple(sorted(found, key=lambda s: (s.step, s.text)))


def _commands(events: list[Event]) -> tuple[Said, ...]:
    last: dict[str, int] = {}
    for event in events:
        operation = event.operation
        if isinstance(operation, Validate):
            text = operation.command or operation.target
        elif isinstance(operation, Run):
            text = operation.target
        elif isinstance(operation, Install):
            text = f"install {operation.target}"
        else:
            continue
        last.pop(text, None)
        last[text] = event.step
    return tuple(Said(text=text, step=step) for text, step in last.items())
