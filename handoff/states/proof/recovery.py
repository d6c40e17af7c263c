"""How far back a later proof of an underivable file holds (``docs/science.md §2``).

What an opaque step left of a file is told by the first thing after it that shows the file whole: a read, a diff of
git, at the end the recorded patch. That holds back to the last action that may have touched the file otherwise: an edit
is taken back where only one content can have led to its result; a program that ran is never stepped over. From there
on the file is *pinned*, and the recording is walked again, so that everything else it shows is held against it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from handoff.actions import (
    Install,
    ListFiles,
    MakeDirectory,
    Opaque,
    Operation,
    Other,
    Read,
    Run,
    Search,
    Validate,
    Vcs,
    changed_paths,
)
from handoff.git.importer import FileState
from handoff.states.effects import EVERYTHING
from handoff.states.proof.judge import Ending, Judgement, ending, is_picked
from handoff.states.proof.undoing import undone
from handoff.states.proof.verdict import Recovery
from handoff.states.walk import Fact, Gap, Moment, Pin, Walk

Judged: TypeAlias = tuple[Walk, Judgement]

_ROUNDS = 3
"""Walks in which one recovery may make another possible."""


def recovered(
    walk: Walk, judgement: Judgement, again: Callable[[list[Pin], list[Gap]], Judged]
) -> tuple[Walk, Judgement, tuple[Recovery, ...]]:
    """The walk with all that can be recovered, its judgement, and what was recovered. ``again`` walks anew with pins,
    and with the gaps that only later steps showed."""
    pins: list[Pin] = []
    for _ in range(_ROUNDS):
        known = {(pin.moment, pin.path) for pin in pins}
        new = [pin for pin in _pins(walk) if (pin.moment, pin.path) not in known]
        if not new:
            break
        tried = sorted([*pins, *new], key=lambda pin: (pin.moment, pin.lifts, pin.path))
        late = dict.fromkeys([*walk.late, *(gap for pin in new if pin.lifts for gap in _still_open(walk, pin, tried))])
        further, verdict = again(tried, list(late))
        if further.divergence is not None and further.divergence != walk.divergence:
            break  # what was taken for known contradicts the recording
        walk, judgement, pins = further, verdict, tried
    return walk, judgement, _told(walk, pins)


def _told(walk: Walk, pins: list[Pin]) -> tuple[Recovery, ...]:
    found = [Recovery(_step(walk, pin.moment), pin.path or ".", pin.fact.how, pin.fact.step) for pin in pins]
    found += [Recovery(fact.step, fact.path, fact.how, fact.step) for fact in [*walk.facts, *walk.reran]]
    return tuple(sorted(set(found)))


def _step(walk: Walk, moment: int) -> int:
    return walk.moments[moment - 1].step if moment else 0


def _pins(walk: Walk) -> Iterator[Pin]:
    if not walk.gaps:
        return
    end = ending(walk)
    for fact in [*walk.facts, *_facts_of_patch(walk, end)]:
        gaps = [gap for gap in walk.gaps if gap.moment <= fact.moment and _covers(gap.place, fact.path)]
        if not gaps:
            continue
        gap = max(gaps, key=lambda gap: gap.moment)
        if not gap.is_certain:
            continue
        moment, state = _reach(walk, fact, gap)
        if moment < fact.moment or fact.how == "patch":
            yield Pin(moment, fact.path, state, fact)
    if end.has_patch and end.is_complete:
        yield from _lifted(walk)


def _covers(place: str, path: str) -> bool:
    return place in ("", path) or path.startswith(f"{place}/")


def _facts_of_patch(walk: Walk, end: Ending) -> Iterator[Fact]:
    """Files that are not known at the end, as the recorded patch has them."""
    if not end.has_patch:
        return
    moment, step = len(walk.moments), len(walk.trajectory.steps)
    for path, state in sorted(end.contents.items()):
        if walk.effects.is_unknown(path):
            yield Fact(moment, step, path, state, "patch", True)
    picked = is_picked(walk)
    for path in sorted({*walk.histories.paths(), *walk.effects.unknown} - end.contents.keys() - {EVERYTHING}):
        base = walk.files.base(path)
        if not walk.effects.is_unknown(path) or picked or walk.names_in_patch(path):
            continue
        if base is not None or (end.is_complete and path in walk.histories):
            yield Fact(moment, step, path, base, "patch", True)


def _lifted(walk: Walk) -> Iterator[Pin]:
    """Folders whose other files the patch tells: they are as they were."""
    moment, step = len(walk.moments), len(walk.trajectory.steps)
    for gap in walk.gaps:
        if gap.place != EVERYTHING and not walk.files.is_folder(gap.place):
            continue
        if gap.place not in walk.effects.unknown:
            continue
        at = moment
        while at > gap.moment and not _disturbs_folder(walk, walk.moments[at - 1], gap.place):
            at -= 1
        yield Pin(at, gap.place, None, Fact(moment, step, gap.place, None, "patch", True), lifts=True)


def _still_open(walk: Walk, lift: Pin, pins: list[Pin]) -> Iterator[Gap]:
    """Files below a lifted folder that a later action names: unless they are pinned, they stay unknown till then."""
    pinned = {pin.path for pin in pins if pin.moment <= lift.moment}
    named = {
        place
        for item in walk.moments[lift.moment :]
        if item.happened
        for operation in item.operations
        for path in changed_paths(operation)
        if (place := walk.files.locate(path, follow_last=False))
    }
    for path in sorted(named - pinned):
        if _covers(lift.path, path):
            reason = f"changed later; what step {_step(walk, lift.moment)} left of it is not known"
            yield Gap(lift.moment, _step(walk, lift.moment), path, reason)


# -- going back -----------------------------------------------------------------------------------


def _reach(walk: Walk, fact: Fact, gap: Gap) -> tuple[int, FileState]:
    """The first moment from which the fact holds, and the content then."""
    state = fact.state
    at = fact.moment
    while at > gap.moment:
        item = walk.moments[at - 1]
        touching = [operation for operation in item.operations if _disturbs(walk, operation, fact.path)]
        if touching and item.happened:
            before = _taken_back(state, touching, item)
            if before is None:
                break
            state = before
        at -= 1
    return at, state


def _disturbs(walk: Walk, operation: Operation, path: str) -> bool:
    """Whether the operation may have changed the file."""
    match operation:
        case Read() | Search() | ListFiles() | MakeDirectory() | Vcs() | Other() | Install():
            return False
        case Validate(kind=kind):
            return kind == "build"
        case Run(target=target):
            return walk.files.locate(target) not in walk.files.differing
        case Opaque(paths=()):
            return True
        case _:
            places = {walk.files.locate(named) for named in changed_paths(operation)}
            return any(place is not None and _covers(place, path) for place in places)


def _disturbs_folder(walk: Walk, item: Moment, folder: str) -> bool:
    """Whether an action may have changed files of a folder that it does not name."""
    if not item.happened:
        return False
    for operation in item.operations:
        if not isinstance(operation, Opaque | Run | Validate):
            continue
        if _disturbs(walk, operation, f"{folder}/\0" if folder else "\0"):
            return True
    return False


def _taken_back(state: FileState, operations: list[Operation], item: Moment) -> FileState:
    """The file before these operations, where it can have been only one; else ``None``."""
    if state is None or (item.is_line and len(item.operations) > 1):
        return None
    mode, data = state
    for operation in reversed(operations):
        before = undone(operation, data)
        if before is None:
            return None
        data = before
    return mode, data
