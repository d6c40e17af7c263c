"""Looking at the project's later history: where the solution of a recorded task may lie (``docs/science.md §14``).

A run may read the past of its base commit as it likes. What lies beyond it (other refs, the reflog, unreachable
objects, the project's later releases, its pull requests on the web) may hold the fix. ``looked``: the step could have
shown some of it; ``meant``: it searched there or took from there; ``saw``: the answer shows it. The last two make a
run leaked. Nothing is judged by words of a message: refs, commit names, their order and their dates decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import cached_property
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

from handoff.actions.operations import Other, Read
from handoff.quality.commands import NOTHING, Call
from handoff.quality.elsewhere import Project
from handoff.quality.glances import (
    GIT_FOLDER,
    LISTING,
    NARROWING,
    REMOTE_REF,
    SHA,
    SHOWING,
    WIDE,
    Glance,
    git_verb,
    glances,
    is_own,
    moves,
    operands,
)
from handoff.quality.recording import Deed, Recording
from handoff.quality.signal import Signal, short
from handoff.trajectory import Observation, Trajectory

Kind: TypeAlias = Literal["looked", "meant", "saw"]
_RANK = {"looked": 0, "meant": 1, "saw": 2}

LEAKING = frozenset({"meant", "saw"})
"""Kinds that make the run leaked: curation drops it and its outcome counts for nothing."""

_COMMIT = r"((?=[0-9a-f]{0,39}\d)[0-9a-f]{7,40})"
_LISTED = re.compile(
    rf"^[*|/\\_ ]{{0,40}}(?:(?:dangling |unreachable )?commit )?{_COMMIT}(?=[ \t\r\n^)(]|$)(.*)",
    re.M,
)
_NAMED = re.compile(rf"\b{_COMMIT}\b")
_COMMITTED = re.compile(r"^\[[^\]\n]{0,200} ([0-9a-f]{7,40})\]", re.M)
_NOW_AT = re.compile(r"^HEAD is now at ([0-9a-f]{7,40})", re.M)
_UPDATING = re.compile(r"^Updating ([0-9a-f]{7,40})\.\.([0-9a-f]{7,40})", re.M)
_CURRENT = re.compile(r"^\* (?:\([^)\n]*\)|\S+) +([0-9a-f]{7,40})\b", re.M)
_PARENT = re.compile(r"^parent ([0-9a-f]{40})$", re.M)
_DECORATED = re.compile(r"[ \t]*\(HEAD\b")
_DATE = re.compile(
    r"^(?:Author|Commit)?Date:[ \t]+(?:[A-Z][a-z]{2} ([A-Z][a-z]{2}) (\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})"
    r"|(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)) ?([+-]\d\d):?(\d\d)",
    re.M,
)
_DATED = re.compile(f"{_LISTED.pattern}|{_DATE.pattern}", re.M)
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_HARNESS_COMMIT = re.compile(r"[ \t]*(?:\([^)\n]*\) )?SWE-bench[ \t\r]*\Z")
"""Subject of the empty commit that SWE-bench images put on top of the base."""
_MOST_GLANCES = 16
"""Commands of one call that are looked at: each is held against the whole answer."""
_TEXT_LIMIT = 400_000
"""Characters of an answer that are looked at."""


class _Proof(NamedTuple):
    """Why a step is more than a look."""

    kind: Kind
    why: str
    steps: tuple[int, ...] = ()
    """Earlier steps that it rests on."""


class _Known:
    """What the whole recording tells about commits: HEAD, its past, the run's own, and what was found elsewhere."""

    def __init__(self, base: str | None, task: str) -> None:
        self.heads: set[str] = {base[:7]} if base and SHA.match(base) else set()
        self.past: set[str] = set()
        self.own: set[str] = set()
        self.head_date: datetime | None = None
        self.later: dict[str, int] = {}
        """Commit → the step that showed it to lie beyond HEAD."""
        self.elsewhere: dict[str, int] = {}
        """Commit → the step in which it stood as the tip of another ref."""
        self.moved: int | None = None
        """The first step that took the work tree to another commit: from then on HEAD is no longer the base."""
        self._task = task

    @cached_property
    def given(self) -> set[str]:
        """Commits that the task names."""
        return {m[1][:7] for m in _NAMED.finditer(self._task[:_TEXT_LIMIT])}

    def is_past(self, sha: str) -> bool:
        return sha in self.heads or sha in self.past or sha in self.own or sha in self.given


def peeks(recording: Recording) -> list[Signal]:
    """At most one signal per step, the gravest, in order. Looks ahead: what HEAD is may be told by a later step."""
    known = _learn(recording)
    project = Project(recording.trajectory)
    found = []
    for number, (calls, deeds) in enumerate(zip(recording.calls, recording.deeds, strict=True), start=1):
        seen = [
            signal
            for place, call in enumerate(calls)
            if call is not NOTHING
            for signal in _judged(number, call, recording.answer(number, place), known, project)
        ]
        path = _git_folder(deeds)
        if path is not None:
            seen.append(_signal(number, f"reads {path}", (path,), _Proof("looked", "it names refs and their commits")))
        if seen:
            found.append(max(seen, key=lambda signal: _RANK[signal.rule]))
    return found


def leak_of(trajectory: Trajectory, found: Sequence[Signal]) -> Signal | None:
    """The first signal that makes the run leaked, ``saw`` before ``meant``; ``None``: it is not.

    A session that names no task and was not judged has no solution that could leak.
    """
    if trajectory.task_id is None and trajectory.outcome.resolved is None:
        return None
    leaks = [signal for signal in found if signal.name == "peek" and signal.rule in LEAKING]
    return min(leaks, key=lambda s: (s.rule != "saw", s.step), default=None)


def _git_folder(deeds: Sequence[Deed]) -> str | None:
    for deed in deeds:
        operation = deed.operation
        if isinstance(operation, Other | Read):
            path = operation.target if isinstance(operation, Other) else operation.path
            if ".git/" in path and GIT_FOLDER.search(path):
                return short(path)
    return None


def _signal(number: int, what: str, refs: tuple[str, ...], proof: _Proof) -> Signal:
    reason = f"{what}: {proof.why}"
    return Signal(step=number, name="peek", rule=proof.kind, shown_by=proof.steps, paths=refs[:8], reason=reason)


# -- what is known of HEAD ----------------------------------------------------------------------


def _learn(recording: Recording) -> _Known:
    known = _Known(recording.trajectory.base_commit, recording.trajectory.task)
    for number, calls in enumerate(recording.calls, start=1):
        for place, call in enumerate(calls):
            gits = [git_verb(p.arguments) for p in call.programs if p.name == "git"]
            if not gits:
                continue
            text = recording.answer(number, place).text[:_TEXT_LIMIT]
            if any(verb == "branch" for verb, _ in gits):
                known.heads.update(m[1][:7] for m in _CURRENT.finditer(text))
            known.own.update(m[1][:7] for m in _COMMITTED.finditer(text))
            if known.moved is None and any(map(moves, call.programs)):
                known.moved = number
            talking = [(verb, rest) for verb, rest in gits if verb in LISTING | SHOWING | {"rev-parse"}]
            if len(talking) == 1 and known.moved is None:
                _learn_past(known, *talking[0], text)
    known.heads -= known.own
    return known


def _learn_past(known: _Known, verb: str, rest: list[str], text: str) -> None:
    """From the answer of one command that shows nothing but HEAD and what it descends from."""
    named = operands(rest)
    if verb == "reflog" or any(map(WIDE.match, rest)) or not all(map(is_own, named)):
        return
    listed = _listed(text)
    is_head = named in ([], ["HEAD"]) and "--" not in rest and not any(map(NARROWING.match, rest))
    if verb in ("log", "rev-parse", "show") and listed and is_head:
        known.heads.add(listed[0][0])
        known.head_date = known.head_date or _date(text)
    known.past.update(sha for sha, _ in listed)
    if verb == "blame":
        known.past.update(m[1][:7] for m in re.finditer(r"^\^?([0-9a-f]{7,40})\b", text, re.M))


def _listed(text: str) -> list[tuple[str, str]]:
    """Commits at the beginning of lines, in order: (first 7 characters, rest of the line)."""
    return [(m[1][:7], m[2]) for m in _LISTED.finditer(text)]


def _date(text: str) -> datetime | None:
    """The first commit date in ``text``."""
    match = _DATE.search(text)
    if match is None:
        return None
    named, day, *clock, year = match.groups()[:6]
    try:
        if named is not None:
            date = (int(year), _MONTHS.find(named) // 3 + 1, int(day))
        else:
            date = (int(match[7]), int(match[8]), int(match[9]))
            clock = [match[10], match[11], match[12]]
        hours, minutes = int(match[13]), int(match[14])
        zone = timezone(timedelta(hours=hours, minutes=minutes if hours >= 0 else -minutes))
        return datetime(*date, int(clock[0]), int(clock[1]), int(clock[2]), tzinfo=zone)
    except ValueError:
        return None


# -- what a call shows --------------------------------------------------------------------------


def _judged(number: int, call: Call, answer: Observation, known: _Known, project: Project) -> Iterator[Signal]:
    text = "" if answer.missing is not None else answer.text[:_TEXT_LIMIT]
    is_refused = answer.exit_code not in (None, 0) or answer.error is True or text.lstrip()[:6] == "fatal:"
    has_moved = known.moved is not None and known.moved < number
    every = (glance for program in call.programs for glance in glances(program, has_moved=has_moved))
    talkers = sum(p.name == "git" and git_verb(p.arguments)[0] in LISTING | SHOWING for p in call.programs)
    for glance in islice(every, _MOST_GLANCES):
        if glance.shas and len(glance.refs) == len(glance.shas) and all(map(known.is_past, glance.shas)):
            continue  # it names nothing but HEAD's past
        proof = None
        if text and not is_refused:
            proof = _proof(number, glance, text, known, is_alone=talkers <= 1)
            if not (glance.shows or glance.lists):  # it names the tips of other refs
                for match in _NAMED.finditer(text):
                    known.elsewhere.setdefault(match[1][:7], number)
        if proof is None and glance.is_meant:
            proof = _Proof("meant", "it searches or takes from history beyond HEAD")
        looked = _Proof("looked", "the answer does not show that anything later was seen")
        yield _signal(number, glance.what, glance.refs, proof or looked)
    is_answered = bool(text.strip()) and not is_refused
    for kind, what, refs, why, steps in project.reached(number, call, text, is_answered):
        yield _signal(number, what, refs, _Proof(kind, why, steps))


def _proof(number: int, glance: Glance, text: str, known: _Known, *, is_alone: bool) -> _Proof | None:
    """Why the answer shows later history, or why it was meant to; ``None``: neither. What it shows is remembered."""
    if not (glance.shows or glance.lists):
        return None
    update = _UPDATING.search(text)
    if update is not None:
        return _Proof("saw", f"the work tree moves from {update[1]} to {update[2]}")
    shown = sorted({known.later[sha] for sha in glance.shas if sha in known.later})
    if shown:
        return _Proof("saw", f"{', '.join(glance.shas[:3])} lies beyond HEAD, as step {shown[0]} showed", tuple(shown))
    later = _later(glance, text, known) if is_alone else []
    if later:
        for sha in later:
            known.later.setdefault(sha, number)
        more = f" and {len(later) - 3} more" if len(later) > 3 else ""
        return _Proof("saw", f"it shows commits beyond HEAD: {', '.join(later[:3])}{more}")
    found = {sha: known.elsewhere[sha] for sha in glance.shas if sha in known.elsewhere and not known.is_past(sha)}
    if found:
        sha, step = min(found.items(), key=lambda item: (item[1], item[0]))
        return _Proof("meant", f"{sha} is the tip of another ref, as step {step} showed", (step,))
    return None


def _later(glance: Glance, text: str, known: _Known) -> list[str]:
    """Commits in the answer that are shown to lie beyond HEAD."""
    listed = [
        (sha, rest) for sha, rest in _listed(text) if not _HARNESS_COMMIT.match(rest) and "refs/stash" not in rest
    ]
    foreign = list(dict.fromkeys(sha for sha, _ in listed if not known.is_past(sha)))
    if glance.beyond:
        return foreign or (["a difference"] if "diff --git " in text else [])
    if glance.lists and glance.refs != ("reflog",):
        head = _place_of_head(listed, known)
        if head is not None:
            above = {sha for sha, _ in listed[:head]}
            return [sha for sha in foreign if sha in above]
        is_cut = glance.is_whole and known.moved is None and len(foreign) == len({sha for sha, _ in listed})
        if is_cut and known.heads and foreign:
            return foreign  # newest first, and cut before HEAD
    elif glance.shows and known.heads:
        parent = _PARENT.search(text)
        if parent is not None and parent[1][:7] in known.heads:
            return list(glance.shas) or ["a commit on top of HEAD"]
        if any(map(REMOTE_REF.match, glance.refs)):
            foreign += [m[1][:7] for m in _NOW_AT.finditer(text) if not known.is_past(m[1][:7])]
            if foreign:
                return foreign
    return _dated_after(text, known)


def _place_of_head(listed: Sequence[tuple[str, str]], known: _Known) -> int | None:
    """Where HEAD, or else the base, stands in a list; HEAD's own mark says nothing once the run has moved it."""
    decorated = next((place for place, (_, rest) in enumerate(listed) if _DECORATED.match(rest)), None)
    if decorated is not None and known.moved is None:
        return decorated
    return next((place for place, (sha, _) in enumerate(listed) if sha in known.heads), None)


def _dated_after(text: str, known: _Known) -> list[str]:
    """Commits whose printed date is after HEAD's."""
    if known.head_date is None:
        return []
    found = []
    sha: str | None = None
    for match in _DATED.finditer(text):
        if match[1] is not None:
            sha = match[1][:7]
        elif sha is not None and not known.is_past(sha):
            date = _date(match[0])
            if date is not None and date > known.head_date:
                found.append(sha)
    return list(dict.fromkeys(found))
