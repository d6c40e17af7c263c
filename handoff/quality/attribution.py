"""Why a failed run failed: categories after HORIZON, each with the steps that show it (``docs/science.md §14``).

A rule looks at what was run and what came back. It can say that something went wrong there, not that nothing else did;
so a run may carry several categories, and one to which no rule applies is ``unexplained``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from handoff.actions.operations import Delete, Read, Restore, Undo
from handoff.points import is_source
from handoff.quality.recording import Deed, Recording
from handoff.quality.repeats import failures
from handoff.quality.signal import Signal, short, storable
from handoff.trajectory import Ending, Outcome

Category: TypeAlias = Literal[
    "environment",
    "instruction",
    "false_assumption",
    "planning",
    "history_error_accumulation",
    "catastrophic_forgetting",
    "memory_limitation",
    "unexplained",
]

UNFINISHED: tuple[Ending, ...] = ("step_limit", "cost_limit", "context_limit", "time_limit", "error")
"""Endings after which a run without a patch has failed, whatever its tests would say."""

SEVERAL = 3
"""Events of one kind that make a pattern."""
_NAMED = 12
"""Steps named for one category."""

_UNAVAILABLE = re.compile(
    r"command not found|No module named|Could not resolve host|Temporary failure in name resolution"
    r"|No space left on device|Network is unreachable|Connection (?:refused|timed out)|Permission denied"
    r"|cannot open shared object|Read-only file system|Out of memory|Killed\s*\Z"
)
_ASIDE = frozenset((".md", ".rst", ".txt", ".log", ".patch", ".diff"))
_TIMED_OUT = frozenset((124, 137))


class Failure(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One category of one failed run."""

    category: Category
    steps: tuple[int, ...]
    """The steps that show it, ascending; at least one."""
    reason: str

    def row(self) -> dict[str, object]:
        """Plain values for the lake."""
        return {"category": self.category, "steps": list(self.steps), "reason": storable(self.reason)}


def has_failed(outcome: Outcome) -> bool:
    """The tests say so, or the run was cut short without leaving a patch. Unknown success is no failure."""
    if outcome.resolved is not None:
        return not outcome.resolved
    return outcome.ended in UNFINISHED and not (outcome.patch or "").strip()


def attribute(recording: Recording, signals: Sequence[Signal]) -> tuple[Failure, ...] | None:
    """The categories of a failed run, by the first step that shows them; ``None``: it is not known to have failed.

    ``signals``: those of the run.
    """
    outcome = recording.trajectory.outcome
    if not recording.steps or not has_failed(outcome):
        return None
    rules: tuple[Callable[[Recording, Sequence[Signal]], Iterator[Failure]], ...] = (
        _environment,
        _instruction,
        _false_assumption,
        _planning,
        _accumulation,
        _forgetting,
        _memory,
    )
    found = [failure for rule in rules for failure in rule(recording, signals)]
    if not found:
        last = len(recording.steps)
        found = [_failure("unexplained", [last], "no rule applies: only its tests say that it failed")]
    return tuple(sorted(found, key=lambda f: (f.steps[0], f.category)))


def _failure(category: Category, steps: Sequence[int], reason: str) -> Failure:
    unique = sorted(set(steps))
    more = f" ({len(unique) - _NAMED} more steps)" if len(unique) > _NAMED else ""
    return Failure(category=category, steps=tuple(unique[:_NAMED]), reason=reason + more)


def _environment(recording: Recording, signals: Sequence[Signal]) -> Iterator[Failure]:
    """The machine would not: programs, modules or hosts that are not there, time-outs, or the harness itself broke."""
    steps = []
    first = ""
    for number, step in enumerate(recording.steps, start=1):
        for answer in step.observations:
            match = _UNAVAILABLE.search(answer.text[-4_000:]) if answer.exit_code not in (None, 0) else None
            if match is not None or answer.exit_code in _TIMED_OUT:
                steps.append(number)
                first = first or (match[0] if match is not None else "a command timed out")
    if len(set(steps)) >= SEVERAL:
        yield _failure(
            "environment", steps, f"the environment refused in {len(set(steps))} steps, first: {short(first)}"
        )
    ended = recording.trajectory.outcome.ended
    if ended in ("error", "time_limit"):
        what = "an error of the harness" if ended == "error" else "the time limit"
        yield _failure("environment", [len(recording.steps)], f"the run was ended by {what}")


def _instruction(recording: Recording, signals: Sequence[Signal]) -> Iterator[Failure]:
    """What was asked for was not done at all, or the replies did not keep to the asked form."""
    changed = [e for step in recording.deeds for e in step if e.changed]
    last = len(recording.steps)
    if not changed:
        yield _failure("instruction", [last], "the run ends without having changed a file")
    elif not any(map(_is_work, (path for deed in changed for path in deed.changed))):
        steps = [deed.step for deed in changed]
        yield _failure("instruction", steps, "only tests, documents or scratch files were changed, no source file")
    malformed = [s.step for s in signals if s.name == "useless" and s.rule == "no_call"]
    if len(malformed) >= SEVERAL:
        yield _failure("instruction", malformed, f"{len(malformed)} replies were not in the form the harness asks for")


def _false_assumption(recording: Recording, signals: Sequence[Signal]) -> Iterator[Failure]:
    """Acting on what was not checked: texts and files that are not there, an edit that nothing ever tested."""
    refused = [failed.step for failed in failures(recording) if failed.kind in ("refused", "unknown")]
    if len(refused) >= SEVERAL:
        reason = f"{len(refused)} calls name files, texts or programs that are not there"
        yield _failure("false_assumption", refused, reason)
    edit = _last_source_edit(recording)
    if edit is not None and recording.trajectory.outcome.ended in ("submitted", None):
        after = [e for step in recording.deeds[edit.step - 1 :] for e in step if e.step > edit.step or e is edit]
        if not any(e.result is not None or any(key.kind == "run" for key in e.keys) for e in after):
            reason = f"the last change of {short(edit.changed[0])} was never run or tested"
            yield _failure("false_assumption", [edit.step, len(recording.steps)], reason)


def _planning(recording: Recording, signals: Sequence[Signal]) -> Iterator[Failure]:
    """Wrong or missing next steps: malformed calls, loops, the budget spent, the end while a validation fails."""
    malformed = [failed.step for failed in failures(recording) if failed.kind == "malformed"]
    if len(malformed) >= SEVERAL:
        yield _failure(
            "planning", malformed, f"{len(malformed)} calls were malformed: wrong parameters or broken syntax"
        )
    looping = [s.step for s in signals if s.name == "loop"]
    if looping:
        yield _failure("planning", looping, f"{len(looping)} steps go round in a loop")
    outcome = recording.trajectory.outcome
    last = len(recording.steps)
    if outcome.ended in ("step_limit", "cost_limit"):
        edit = _last_source_edit(recording)
        since = (
            f"; the last source change was in step {edit.step}" if edit is not None else "; no source file was changed"
        )
        steps = [last] if edit is None else [edit.step, last]
        yield _failure("planning", steps, f"the budget was spent before the work was done{since}")
    unheeded = [s.step for s in signals if s.name == "unused_evidence" and s.rule == "failure"]
    final = _results(recording)
    if final and final[-1].result is not None and final[-1].result.outcome == "failed" and final[-1].step in unheeded:
        reason = "the run ends although its last validation failed, with nothing changed after it"
        yield _failure("planning", [final[-1].step, last], reason)


def _accumulation(recording: Recording, signals: Sequence[Signal]) -> Iterator[Failure]:
    """An early mistake that later steps build on: the same validation fails again and again over several edits."""
    streaks: dict[tuple[str, str], list[int]] = {}
    edits: dict[tuple[str, str], int] = {}
    last_edit = 0
    for deeds in recording.deeds:
        for deed in deeds:
            if deed.changed:
                last_edit = deed.step
            result = deed.result
            if result is None or result.outcome is None:
                continue
            key = result.kind, result.target
            if result.outcome == "passed":
                streaks[key] = []
            elif not streaks.get(key) or last_edit > edits.get(key, 0):
                streaks.setdefault(key, []).append(deed.step)
            edits[key] = last_edit
    for (kind, target), steps in sorted(streaks.items()):
        if len(steps) > SEVERAL:
            reason = f"{kind} {short(target)} failed {len(steps)} times in a row, each time after another edit"
            yield _failure("history_error_accumulation", steps, reason)


def _forgetting(recording: Recording, signals: Sequence[Signal]) -> Iterator[Failure]:
    """What had been reached is lost: a validation that passed fails at the end, or the own change is gone."""
    passed: dict[tuple[str, str], int] = {}
    lost: dict[tuple[str, str], list[int]] = {}
    for deed in _results(recording):
        result = deed.result
        if result is None or result.outcome is None:
            continue
        key = result.kind, result.target
        if result.outcome == "passed":
            passed[key] = deed.step
            lost.pop(key, None)
        elif key in passed:
            lost.setdefault(key, [passed[key]]).append(deed.step)
    for (kind, target), steps in sorted(lost.items()):
        reason = f"{kind} {short(target)} had passed in step {steps[0]} and fails at the end"
        yield _failure("catastrophic_forgetting", steps, reason)
    edits: dict[str, Deed] = {}
    for deeds in recording.deeds:
        for deed in deeds:
            for path in deed.changed:
                edits[path] = deed
    undone = [(p, e) for p, e in sorted(edits.items()) if isinstance(e.operation, Restore | Undo)]
    if undone and len(undone) == len(edits):
        steps = [deed.step for _, deed in undone]
        yield _failure("catastrophic_forgetting", steps, "every file it had changed was set back at the end")


def _memory(recording: Recording, signals: Sequence[Signal]) -> Iterator[Failure]:
    """The context did not hold what was needed: it ran over, or files were read again after it was cut."""
    if recording.trajectory.outcome.ended == "context_limit":
        yield _failure("memory_limitation", [len(recording.steps)], "the context limit ended the run")
    seen: set[str] = set()
    before: set[str] = set()
    cut = 0
    again: list[int] = []
    for number, (step, deeds) in enumerate(zip(recording.steps, recording.deeds, strict=True), start=1):
        for deed in deeds:
            if isinstance(deed.operation, Read) and deed.happened:
                if deed.operation.path in before:
                    again.append(number)
                    before.discard(deed.operation.path)
                seen.add(deed.operation.path)
            for path in deed.changed:
                seen.discard(path)
                before.discard(path)
        if step.boundary == "compaction":
            before |= seen
            cut = cut or number
    if len(again) >= SEVERAL:
        reason = f"{len(again)} files were read again, unchanged, after the context was compacted in step {cut}"
        yield _failure("memory_limitation", [cut, *again], reason)


def _is_work(path: str) -> bool:
    """Whatever its suffix: neither under test paths nor a scratch file, a document or a log."""
    stem, suffix = posixpath.splitext(path)
    return path == "." or (suffix not in _ASIDE and is_source(f"{stem}.py"))


def _results(recording: Recording) -> list[Deed]:
    return [deed for deeds in recording.deeds for deed in deeds if deed.result is not None]


def _last_source_edit(recording: Recording) -> Deed | None:
    for deeds in reversed(recording.deeds):
        for deed in reversed(deeds):
            if any(map(is_source, deed.changed)) and not isinstance(deed.operation, Delete):
                return deed
    return None
