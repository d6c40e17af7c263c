"""What a run reads for nothing: redundant, useless, expired, never used (``docs/science.md §14``).

All of it is told from what was shown and what was changed, never from what a text means. One pass each, and for one
file never more than ``KEPT`` earlier readings are compared, so the cost is linear in the recording.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from handoff.actions.operations import Delete, ListFiles, Opaque, Read, Replace, Run, Search, Validate, Vcs, WriteFile
from handoff.actions.paths import is_outside
from handoff.points import is_source
from handoff.quality.recording import Deed, Recording, Shown, answer_of, by_call, is_answered
from handoff.quality.signal import Signal, short
from handoff.trajectory import Action, Observation

KEPT = 16
"""Earlier readings of one file that a new one is compared with."""

FORGETTING = frozenset({"compaction", "agent_switch", "rollback"})
"""Boundaries after which an agent no longer has what it read: reading it again is no waste."""

HALF = 0.5
"""Share of a reading that must be shown anew for it to be replaced."""

_WRITING = re.compile(
    r"\bopen\([^)\n]{1,200}['\"][wa]|\.write(?:_text|_bytes|lines|File(?:Sync)?)?\(|\bshutil\.|\bos\.re(?:move|name|place)\("
    r"|\bsed -i|\btee "
)
"""What a script that writes files has in it."""
_NOISY_LINES = 10
_NOISE = ("__pycache__", ".pyc", "/.git/", "node_modules", "/.venv/", "/venv/", "site-packages", ".egg-info", "/.tox/")


class Changes:
    """When files were last changed, by number of deed; for questions "has it changed since?"."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._any = -1
        self._writers: set[str] = set()
        """Scripts of the run's own that write files."""

    def add(self, place: int, deed: Deed) -> None:
        """Count the changes of one deed; one whose effect is unknown may have changed what it names, or anything."""
        operation = deed.operation
        paths = deed.changed
        if deed.happened and isinstance(operation, Opaque) and not paths:
            paths = operation.paths or (".",)
        elif isinstance(operation, WriteFile) and _WRITING.search(operation.text):
            self._writers.add(operation.path)
        elif isinstance(operation, Run) and operation.target in self._writers:
            paths = (".",)
        for path in paths:
            self._at[path] = self._any = place

    def is_after(self, place: int, path: str | None = None) -> bool:
        """Whether ``path`` (``None``: anything) may have changed after deed ``place``."""
        if path is None:
            return self._any > place
        if self._at.get(".", -1) > place or self._at.get(path, -1) > place:
            return True
        at = path.rfind("/")
        while at > 0:
            if self._at.get(path[:at], -1) > place:
                return True
            at = path.rfind("/", 0, at)
        return False


# -- redundant ----------------------------------------------------------------------------------


class _Reading(NamedTuple):
    """One file shown by one step."""

    place: int
    """Number of the deed."""
    step: int
    shown: Shown


def redundant(recording: Recording) -> list[Signal]:
    """Steps that were shown what they had been shown before, with nothing changed since.

    ``same_read``: all that a reading of a file shows stood in one piece in an earlier reading of it; ``same_call``: the
    same call with the same answer. Depends on steps ≤ i alone.
    """
    found: list[Signal] = []
    changes = Changes()
    readings: dict[str, deque[_Reading]] = {}
    calls: dict[tuple[object, ...], tuple[int, int]] = {}
    place = 0
    for number, (step, deeds) in enumerate(zip(recording.steps, recording.deeds, strict=True), start=1):
        said: dict[str, Signal] = {}
        for own in by_call(deeds):
            first = own[0]
            if _is_look(own):
                key = (first.action.tool, first.action.arguments, *(e.operation for e in own), *answer_of(own))
                before = calls.get(key)
                if before is not None and not changes.is_after(before[0]):
                    said.setdefault("same_call", _repeat(number, "same_call", before[1], first))
                calls[key] = (place, number)
            for deed in own:
                operation = deed.operation
                if isinstance(operation, Read) and deed.happened and is_answered(deed.observation):
                    shown = recording.shown(deed.observation)
                    earlier = readings.setdefault(operation.path, deque(maxlen=KEPT))
                    for reading in reversed(earlier):
                        if changes.is_after(reading.place, operation.path):
                            break
                        if reading.step < number and reading.shown.holds(shown):
                            said.setdefault("same_read", _repeat(number, "same_read", reading.step, deed))
                            break
                    earlier.append(_Reading(place, number, shown))
                changes.add(place, deed)
                place += 1
        found += said.values()
        if step.boundary in FORGETTING:
            readings.clear()
            calls.clear()
    return found


def _is_look(own: Sequence[Deed]) -> bool:
    """A call that only looks around or validates, and has an answer; a validation that fails is one."""
    answer = own[0].observation
    is_heard = answer.missing is None and (answer.error is not True or own[0].result is not None)
    return is_heard and all(isinstance(deed.operation, Search | ListFiles | Validate | Vcs) for deed in own)


def _repeat(number: int, kind: str, before: int, deed: Deed) -> Signal:
    paths = tuple(dict.fromkeys(key.target for key in deed.keys))
    what = f"{deed.keys[0].kind} {deed.keys[0].target}" if deed.keys else deed.action.tool
    reason = f"{short(what)}: step {before} had shown the same, and nothing changed it since"
    return Signal(step=number, name="redundant", rule=kind, shown_by=(before,), paths=paths, reason=reason)


# -- useless ------------------------------------------------------------------------------------


def useless(recording: Recording) -> list[Signal]:
    """Steps that could tell nothing about the task. Depends on steps ≤ i alone.

    ``noise``: most of at least ten lines name caches, dependencies or git's own files; ``no_change``: an edit
    that puts back what it takes; ``no_call``: a reply without a call that the harness answered with a reminder.
    """
    found = []
    for number, (step, deeds) in enumerate(zip(recording.steps, recording.deeds, strict=True), start=1):
        answered = zip(step.actions, step.observations, strict=False)
        noise = next((n for action, answer in answered if (n := _noise(action, answer))), None)
        if noise is not None:
            found.append(Signal(step=number, name="useless", rule="noise", reason=noise))
        for deed in deeds:
            operation = deed.operation
            if isinstance(operation, Replace) and operation.old == operation.new:
                reason = "the edit replaces a text by itself"
                path = (operation.path,)
                found.append(Signal(step=number, name="useless", rule="no_change", paths=path, reason=reason))
                break
        if not step.actions and any(message.role == "harness" for message in step.after):
            reason = "a reply without a call, which the harness sent back"
            found.append(Signal(step=number, name="useless", rule="no_call", reason=reason))
    return found


def _noise(action: Action, answer: Observation) -> str | None:
    text = answer.text
    if sum(map(text.count, _NOISE)) * 2 <= _NOISY_LINES:
        return None
    if any(mark.strip("/") in action.arguments for mark in _NOISE):
        return None  # it was asked for
    lines = [line for line in text.splitlines() if line.strip()]
    noisy = sum(any(mark in line for mark in _NOISE) for line in lines)
    if len(lines) < _NOISY_LINES or noisy * 2 <= len(lines):
        return None
    return f"{noisy} of {len(lines)} lines name caches, dependencies or git's own files"


# -- expired ------------------------------------------------------------------------------------


class _Held(NamedTuple):
    """Something that was seen and may come to be out of date."""

    step: int
    shown: Shown
    changed: int
    """The step that changed it; 0: none yet."""


def expired(recording: Recording) -> list[Signal]:
    """What a step saw and a later one replaced. Looks ahead.

    ``read_again``: the file was changed, then at least half of the reading was shown anew; ``overwritten``,
    ``deleted``: the whole file was; ``run_again``: the same validation ran again after a change.
    """
    found: list[Signal] = []
    held: dict[str, deque[_Held]] = {}
    runs: dict[tuple[str, str], int] = {}
    changed_at = 0
    for number, deeds in enumerate(recording.deeds, start=1):
        for deed in deeds:
            operation = deed.operation
            if isinstance(operation, Read) and deed.happened and is_answered(deed.observation):
                shown = recording.shown(deed.observation)
                kept: deque[_Held] = deque(maxlen=KEPT)
                for each in held.get(operation.path, ()):
                    if each.changed and each.shown.overlap(shown) >= HALF:
                        found.append(_gone(each.step, "read_again", operation.path, (each.changed, number)))
                    else:
                        kept.append(each)
                kept.append(_Held(number, shown, 0))
                held[operation.path] = kept
            if deed.result is not None:
                key = deed.result.kind, deed.result.target
                if 0 < runs.get(key, 0) < changed_at:
                    found.append(_gone(runs[key], "run_again", deed.result.target, (changed_at, number)))
                runs[key] = number
            for path in deed.changed:
                changed_at = number
                if isinstance(operation, WriteFile | Delete):
                    kind = "deleted" if isinstance(operation, Delete) else "overwritten"
                    for each in held.pop(path, ()):
                        if each.step < number:
                            found.append(_gone(each.step, kind, path, (number,)))
                elif path in held:
                    marked = (e if e.changed else e._replace(changed=number) for e in held[path])
                    held[path] = deque(marked, maxlen=KEPT)
    return _merged(found)


def _gone(step: int, kind: str, path: str, steps: tuple[int, ...]) -> Signal:
    after = f"step {steps[0]} changed it and step {steps[1]} shows it anew" if len(steps) == 2 else f"step {steps[0]}"
    what = {
        "read_again": f"{short(path)}: {after}",
        "run_again": f"result of {short(path)}: step {steps[0]} changed files and step {steps[-1]} ran it again",
        "overwritten": f"{short(path)} was written anew as a whole in {after}",
        "deleted": f"{short(path)} was deleted in {after}",
    }[kind]
    return Signal(
        step=step, name="expired", rule=kind, shown_by=tuple(dict.fromkeys(steps)), paths=(path,), reason=what
    )


def _merged(found: Iterable[Signal]) -> list[Signal]:
    """One signal for each step and rule, with all paths and steps, by step."""
    groups: dict[tuple[int, str], list[Signal]] = {}
    for signal in found:
        groups.setdefault((signal.step, signal.rule), []).append(signal)
    merged = []
    for key in sorted(groups):
        first, *others = groups[key]
        paths = tuple(dict.fromkeys(path for signal in (first, *others) for path in signal.paths))
        shown_by = tuple(sorted({step for signal in (first, *others) for step in signal.shown_by}))
        more = f" (and {len(paths) - 1} more like it)" if others and len(paths) > 1 else ""
        merged.append(msgspec.structs.replace(first, paths=paths, shown_by=shown_by, reason=first.reason + more))
    return merged


# -- evidence that never became an edit ---------------------------------------------------------


def unused_evidence(recording: Recording) -> list[Signal]:
    """What was found out and never acted on. Looks ahead.

    ``read``: a source file that no later step changes, in a run that changes some file; ``failure``: a failed
    validation after which nothing is changed.
    """
    last: dict[str, int] = {}
    changed_at = 0
    for number, deeds in enumerate(recording.deeds, start=1):
        for deed in deeds:
            for path in deed.changed:
                last[path] = changed_at = number
    if not changed_at:
        return []
    found = []
    for number, deeds in enumerate(recording.deeds, start=1):
        for deed in deeds:
            operation = deed.operation
            if isinstance(operation, Read) and deed.happened and is_answered(deed.observation):
                path = operation.path
                if not is_outside(path) and is_source(path) and last.get(path, 0) < number:
                    reason = f"reads {short(path)}; no later step changes it"
                    found.append(Signal(step=number, name="unused_evidence", rule="read", paths=(path,), reason=reason))
            result = deed.result
            if result is not None and result.outcome == "failed" and changed_at <= number:
                reason = f"{short(result.command or result.target)} fails; nothing is changed after it"
                paths = result.failing[:8]
                found.append(Signal(step=number, name="unused_evidence", rule="failure", paths=paths, reason=reason))
    return _merged(found)
