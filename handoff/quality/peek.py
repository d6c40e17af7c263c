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
from handoff.quality.commands import NOTHING, Call, Program
from handoff.quality.recording import Deed, Recording
from handoff.quality.risk import git_verb
from handoff.quality.signal import Signal, short
from handoff.trajectory import Observation, Trajectory

Kind: TypeAlias = Literal["looked", "meant", "saw"]
_RANK = {"looked": 0, "meant": 1, "saw": 2}

LEAKING = frozenset({"meant", "saw"})
"""Kinds that make the run leaked: curation drops it and its outcome counts for nothing."""

_LISTING = frozenset(("log", "rev-list", "shortlog", "whatchanged", "format-patch", "cherry", "reflog"))
_SHOWING = frozenset(("show", "cat-file", "diff", "diff-tree", "range-diff", "archive", "blame", "ls-tree", "grep"))
_PRINTING = _LISTING | _SHOWING
_TAKING = frozenset(("checkout", "switch", "restore", "cherry-pick", "merge", "rebase", "reset", "worktree", "pull"))
_WIDE = re.compile(r"--(?:all|branches|remotes|tags|glob|reflog|walk-reflogs|alternate-refs)(?:=|\Z)|-g\Z")
_ALL_BRANCHES = re.compile(r"-[ar]v{0,2}\Z|-v{1,2}[ar]\Z|--(?:all|remotes)\Z")
_SEARCHING = re.compile(r"--grep\b|-[SG]|-i\Z|--pickaxe")
_NARROWING = re.compile(r"--(?:grep|author|committer|since|until|after|before|skip|reverse|merges|no-merges)\b|-[SGi]")
_TAKES_VALUE = frozenset(
    (
        *("-n", "-S", "-G", "-L", "-U", "-C", "-M", "--grep", "--author", "--since", "--until", "--after"),
        *("--before", "--format", "--pretty", "--skip"),
    )
)
_REMOTE_REF = re.compile(
    r"(?:refs/)?(?:remotes/)?(?:origin|upstream)/|(?:refs/)?remotes/|FETCH_HEAD\Z|.*@\{u(?:pstream)?\}"
)
_REFLOG_REF = re.compile(r"(?:HEAD|\w[\w/.-]*)?@\{(?!u)[^}]*\}|ORIG_HEAD\Z")
_OWN_REF = re.compile(r"(?:HEAD|@)?(?:[~^]\d*)*\Z|stash")
_BRANCH_REF = re.compile(r"(?:refs/heads/)?(?:main|master|trunk|develop|dev)\Z")
"""Local branches that usually go on where a base commit was checked out."""
_TAG_REF = re.compile(r"(?:refs/tags/)?v?\d+(?:\.\d+)+\w*\Z|refs/tags/")
_SHA = re.compile(r"(?=[0-9a-f]{0,39}\d)[0-9a-f]{7,40}\Z|[0-9a-f]{40}\Z")
_SUFFIX = re.compile(r"(?:[~^]\d*)+\Z")
_GIT_FOLDER = re.compile(
    r"(?:\A|/)\.git/(?:packed-refs|logs(?:/|\Z)|refs/(?:remotes|tags)|FETCH_HEAD|ORIG_HEAD|objects|lost-found)"
)
_SEARCHERS = frozenset(("grep", "egrep", "rg", "ag", "ack"))

_LISTED = re.compile(
    r"^[*|/\\_ ]{0,40}(?:(?:dangling |unreachable )?commit )?"
    r"((?=[0-9a-f]{0,39}\d)[0-9a-f]{7,40})(?=[ \t\r\n^)(]|$)(.*)",
    re.M,
)
_COMMITTED = re.compile(r"^\[[^\]\n]{0,200} ([0-9a-f]{7,40})\]", re.M)
_NOW_AT = re.compile(r"^HEAD is now at ([0-9a-f]{7,40})", re.M)
_UPDATING = re.compile(r"^Updating ([0-9a-f]{7,40})\.\.([0-9a-f]{7,40})", re.M)
_DATE = re.compile(
    r"^(?:Author|Commit)?Date:[ \t]+(?:[A-Z][a-z]{2} ([A-Z][a-z]{2}) (\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})"
    r"|(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)) ?([+-]\d\d):?(\d\d)",
    re.M,
)
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_HARNESS_COMMIT = re.compile(r"[ \t]*(?:\([^)\n]*\) )?SWE-bench[ \t\r]*\Z")
"""Subject of the empty commit that SWE-bench images put on top of the base."""
_MOST_GLANCES = 16
"""Commands of one call that are looked at: each is held against the whole answer."""
_TEXT_LIMIT = 400_000
"""Characters of an answer that are looked at."""


class _Glance(NamedTuple):
    """One command or address that reaches beyond HEAD."""

    what: str
    refs: tuple[str, ...] = ()
    is_meant: bool = False
    lists: bool = False
    """It prints commits, newest first, so that what stands above HEAD is later."""
    is_whole: bool = False
    """Nothing was filtered out of the list."""
    shows: bool = False
    """It prints one commit or a difference, or moves to it."""
    beyond: bool = False
    """Whatever it prints lies beyond HEAD (``HEAD..origin/main``)."""
    shas: tuple[str, ...] = ()
    """Commits that it names."""


class _Known:
    """What the whole recording tells about commits: HEAD, its past, and the run's own."""

    def __init__(self, base: str | None, task: str) -> None:
        self.heads: set[str] = {base[:7]} if base and _SHA.match(base) else set()
        self.past: set[str] = set()
        self.own: set[str] = set()
        self.later: dict[str, int] = {}
        """Commit → the step that showed it to lie beyond HEAD."""
        self._task = task
        self.head_date: datetime | None = None

    @cached_property
    def given(self) -> set[str]:
        """Commits that the task names."""
        return {m[0][:7] for m in re.finditer(r"\b[0-9a-f]{7,40}\b", self._task[:_TEXT_LIMIT])}

    def is_past(self, sha: str) -> bool:
        return sha in self.heads or sha in self.past or sha in self.own or sha in self.given


def peeks(recording: Recording) -> list[Signal]:
    """At most one signal per step, the gravest, in order. Looks ahead: what HEAD is may be told by a later step."""
    known = _learn(recording)
    project = _Project(recording.trajectory)
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
            seen.append(_signal(number, "looked", _Glance(f"reads {path}", (path,)), "it names refs and their commits"))
        if seen:
            found.append(max(seen, key=lambda signal: _RANK[signal.rule]))
    return found


def leak_of(found: Sequence[Signal]) -> Signal | None:
    """The first signal that makes the run leaked, ``saw`` before ``meant``; ``None``: it is not."""
    leaks = [signal for signal in found if signal.name == "peek" and signal.rule in LEAKING]
    return min(leaks, key=lambda s: (s.rule != "saw", s.step), default=None)


def _git_folder(deeds: Sequence[Deed]) -> str | None:
    for deed in deeds:
        operation = deed.operation
        if isinstance(operation, Other | Read):
            path = operation.target if isinstance(operation, Other) else operation.path
            if ".git/" in path and _GIT_FOLDER.search(path):
                return short(path)
    return None


# -- what is known of HEAD ----------------------------------------------------------------------


def _learn(recording: Recording) -> _Known:
    known = _Known(recording.trajectory.base_commit, recording.trajectory.task)
    for number, calls in enumerate(recording.calls, start=1):
        for place, call in enumerate(calls):
            gits = [git_verb(p.arguments) for p in call.programs if p.name == "git"]
            if not gits:
                continue
            text = recording.answer(number, place).text[:_TEXT_LIMIT]
            known.own.update(m[1][:7] for m in _COMMITTED.finditer(text))
            talking = [(verb, rest) for verb, rest in gits if verb in _PRINTING or verb == "rev-parse"]
            if len(talking) != 1:
                continue
            verb, rest = talking[0]
            operands = _operands(rest)
            if verb == "reflog" or any(map(_WIDE.match, rest)) or not all(map(_is_own, operands)):
                continue
            listed = _listed(text)
            is_head = operands in ([], ["HEAD"]) and "--" not in rest and not any(map(_NARROWING.match, rest))
            if verb in ("log", "rev-parse", "show") and listed and is_head:
                known.heads.add(listed[0][0])
                known.head_date = known.head_date or _date(text)
            known.past.update(sha for sha, _ in listed)
            if verb == "blame":
                known.past.update(m[0][:7] for m in re.finditer(r"^\^?([0-9a-f]{7,40})\b", text, re.M))
    known.heads -= known.own
    return known


def _listed(text: str) -> list[tuple[str, str]]:
    """Commits at the beginning of lines, in order: (first 7 characters, rest of the line)."""
    return [(m[1][:7], m[2]) for m in _LISTED.finditer(text)]


def _date(text: str) -> datetime | None:
    """The first commit date in ``text``."""
    match = _DATE.search(text)
    return _when(match) if match is not None else None


def _when(match: re.Match[str]) -> datetime | None:
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


# -- glances ------------------------------------------------------------------------------------


def _operands(rest: Sequence[str]) -> list[str]:
    """Revisions, or paths where no ``--`` stands before them."""
    found = []
    skip = False
    for word in rest:
        if word == "--":
            break
        if skip:
            skip = False
        elif word in _TAKES_VALUE:
            skip = True
        elif not word.startswith("-"):
            found.append(word)
    return found


def _is_own(operand: str) -> bool:
    """HEAD or what it descends from, or surely a path: what such a command prints is HEAD's past."""
    if ".." in operand or _is_beyond(operand):
        return False
    return _OWN_REF.match(operand) is not None or "/" in operand or "." in operand


def _sides(operand: str) -> tuple[str, ...]:
    """The revisions of an operand whose content is shown: of ``a..b`` the later side."""
    revision = operand.split(":", 1)[0] if ":" in operand else operand
    if "..." in revision:
        return (_SUFFIX.sub("", revision.split("...", 1)[1]),)
    if ".." in revision:
        return (_SUFFIX.sub("", revision.split("..", 1)[1]),)
    return (_SUFFIX.sub("", revision),)


def _is_beyond(revision: str) -> bool:
    return any(form.match(revision) for form in (_REMOTE_REF, _REFLOG_REF, _TAG_REF, _BRANCH_REF))


def _glances(program: Program, call: Call, known: _Known) -> Iterator[_Glance]:
    if program.name != "git":
        path = next((a for a in program.arguments if _GIT_FOLDER.search(a)), None)
        if path is not None:
            yield _Glance(short(str(program)), (path,))
        return
    verb, rest = git_verb(program.arguments)
    said = short(str(program))
    operands = _operands(rest)
    sides = [side for operand in operands for side in _sides(operand)]
    shas = tuple(side[:7] for side in sides if _SHA.match(side) and not known.is_past(side[:7]))
    refs = tuple(side for side in sides if _is_beyond(side))
    is_wide = any(map(_WIDE.match, rest))
    is_searched = any(map(_SEARCHING.match, rest)) or any(reader in _SEARCHERS for reader in program.then)
    is_range = any(".." in operand for operand in operands)
    if verb == "reflog":
        if rest[:1] in (["expire"], ["delete"], ["exists"]):
            return
        yield _Glance(said, ("reflog",), is_meant=is_searched, lists=True)
    elif verb in _LISTING and (is_wide or refs or shas):
        wide = tuple(a for a in rest if _WIDE.match(a))
        is_patch = is_wide and any(a in ("-p", "--patch", "-u") for a in rest)
        whole = not any(map(_NARROWING.match, rest)) and len(sides) == len(refs) and "--" not in rest
        yield _Glance(
            said,
            (*wide, *refs, *shas),
            is_meant=(is_searched or is_patch) and (is_wide or bool(refs)),
            lists=True,
            is_whole=whole and program.then in ((), ("head",)),
            beyond=is_range and bool(refs),
            shas=shas,
        )
    elif verb in _SHOWING and (refs or shas):
        is_difference = verb in ("diff", "diff-tree") and not is_range and len(sides) < 2
        if not (is_difference and not shas):  # `git diff origin/main` shows the run's own changes as well
            yield _Glance(said, (*refs, *shas), shows=True, beyond=is_range and bool(refs), shas=shas)
    elif verb in _TAKING and (refs or shas or verb == "pull"):
        is_foreign = any(not _BRANCH_REF.match(ref) for ref in refs)
        takes = is_foreign and (verb in ("restore", "cherry-pick") or (verb == "checkout" and "--" in rest))
        yield _Glance(said, (*refs, *shas) or (f"git {verb}",), is_meant=takes, shows=True, shas=shas)
    elif verb == "fsck" and not any(a == "--no-dangling" for a in rest):
        is_meant = any(a in ("--lost-found", "--unreachable", "--dangling") for a in rest)
        yield _Glance(said, ("unreachable objects",), is_meant=is_meant)
    elif (
        (verb == "branch" and any(map(_ALL_BRANCHES.match, rest)))
        or verb in ("for-each-ref", "show-ref", "ls-remote", "verify-pack")
        or (verb == "tag" and (not rest or rest[0].startswith(("-l", "-n", "--list", "--sort", "--contains"))))
        or (verb == "cat-file" and "--batch-all-objects" in rest)
        or (verb == "fetch")
    ):
        yield _Glance(said, (f"git {verb}",))
    if verb == "grep" and any("rev-list --all" in a for a in rest):
        yield _Glance(said, ("--all",), is_meant=True)


def _judged(number: int, call: Call, answer: Observation, known: _Known, project: _Project) -> Iterator[Signal]:
    text = "" if answer.missing is not None else answer.text[:_TEXT_LIMIT]
    is_refused = answer.exit_code not in (None, 0) or answer.error is True or text.lstrip()[:6] == "fatal:"
    every = (glance for program in call.programs for glance in _glances(program, call, known))
    glances = list(islice(every, _MOST_GLANCES))
    printing = [g for g in glances if g.lists or g.shows]
    talkers = sum(p.name == "git" and git_verb(p.arguments)[0] in _PRINTING for p in call.programs)
    for glance in glances:
        evidence = None
        if not is_refused and text and glance in printing:
            evidence = _evidence(number, glance, text, known, is_alone=talkers <= 1)
        if evidence is not None:
            yield _signal(number, "saw", glance, evidence[0], evidence[1])
        elif glance.is_meant:
            yield _signal(number, "meant", glance, "it searches or takes from history beyond HEAD")
        else:
            yield _signal(number, "looked", glance, "the answer does not show that anything later was seen")
    yield from project.judged(number, call, text, is_refused)


def _evidence(
    number: int, glance: _Glance, text: str, known: _Known, *, is_alone: bool
) -> tuple[str, tuple[int, ...]] | None:
    """Why the answer shows later history, and the earlier steps that this rests on; ``None``: it does not."""
    update = _UPDATING.search(text)
    if update is not None:
        return f"the work tree moves from {update[1]} to {update[2]}", ()
    before = sorted({known.later[sha] for sha in glance.shas if known.later.get(sha, number) < number})
    if before and (glance.shows or glance.lists):
        return f"{', '.join(glance.shas[:3])} lies beyond HEAD, as step {before[0]} showed", tuple(before)
    if not is_alone:
        return None
    later = _later(glance, text, known)
    if not later:
        return None
    for sha in later:
        known.later.setdefault(sha, number)
    more = f" and {len(later) - 3} more" if len(later) > 3 else ""
    return f"it shows commits beyond HEAD: {', '.join(later[:3])}{more}", ()


def _later(glance: _Glance, text: str, known: _Known) -> list[str]:
    """Commits in the answer that are shown to lie beyond HEAD."""
    listed = [
        (sha, rest) for sha, rest in _listed(text) if not _HARNESS_COMMIT.match(rest) and "refs/stash" not in rest
    ]
    shas = [sha for sha, _ in listed]
    if glance.beyond:
        foreign = [sha for sha in shas if not known.is_past(sha)]
        return foreign or (["a difference"] if "diff --git " in text else [])
    moved = _NOW_AT.search(text)
    if glance.shows and moved is not None and known.heads and not known.is_past(moved[1][:7]):
        return [moved[1][:7]]
    dated = _dated_after(text, known)
    if glance.refs == ("reflog",) or not glance.lists:
        return dated
    decorated = next((n for n, (_, rest) in enumerate(listed) if re.match(r"[ \t]*\(HEAD\b", rest)), None)
    head = decorated if decorated is not None else next((n for n, s in enumerate(shas) if s in known.heads), None)
    if head is not None:
        return list(dict.fromkeys(s for s in shas[:head] if not known.is_past(s)))
    if glance.is_whole and known.heads and shas and not any(map(known.is_past, shas)):
        return shas  # newest first and cut before HEAD
    return dated


def _dated_after(text: str, known: _Known) -> list[str]:
    """Commits whose printed date is after HEAD's."""
    if known.head_date is None:
        return []
    found = []
    sha: str | None = None
    for match in re.finditer(rf"{_LISTED.pattern}|{_DATE.pattern}", text, re.M):
        if match[1] is not None:
            sha = match[1][:7]
        elif sha is not None and not known.is_past(sha):
            date = _date(match[0])
            if date is not None and date > known.head_date:
                found.append(sha)
    return list(dict.fromkeys(found))


def _signal(number: int, kind: Kind, glance: _Glance, why: str, steps: tuple[int, ...] = ()) -> Signal:
    return Signal(
        step=number, name="peek", rule=kind, shown_by=steps, paths=glance.refs[:8], reason=f"{glance.what}: {why}"
    )


# -- the project elsewhere ----------------------------------------------------------------------

_PAGES = re.compile(r"/(?:pulls?|commits?|compare|blob|raw|tree|archive|releases)\b|\.(?:patch|diff)\Z")
_VERSION = re.compile(r"[\[=<>~!@ ;].*\Z", re.S)


class _Project:
    """The project that the task is about, as it can be had from the web and from package indexes."""

    def __init__(self, trajectory: Trajectory) -> None:
        repo = (trajectory.repo or "").strip().lower().removesuffix(".git")
        self.repo = repo if re.fullmatch(r"[\w.-]+/[\w.-]+", repo) else ""
        self.package = self.repo.rsplit("/", 1)[-1].replace("_", "-")
        self.task = trajectory.task
        self.installed: int | None = None
        """The step that got the package from an index."""

    def judged(self, number: int, call: Call, text: str, is_refused: bool) -> Iterator[Signal]:
        """Signals of one call about pages and packages of this project."""
        if not self.repo:
            return
        is_answered = bool(text.strip()) and not is_refused
        for url in call.urls:
            if not self._is_ours(url) or url.rstrip("/.,") in self.task:
                continue
            is_content = "raw.githubusercontent" in url or _PAGES.search(url) is not None
            is_clone = any(p.name == "git" and git_verb(p.arguments)[0] == "clone" for p in call.programs)
            glance = _Glance(f"asks {short(url)}", (url,))
            if is_content and not is_clone:
                kind: Kind = "saw" if is_answered else "meant"
                why = "a later state of this project" + ("" if is_answered else "; there was no answer")
                yield _signal(number, kind, glance, why)
            else:
                yield _signal(number, "looked", glance, "a page of this project that may tell what came later")
        for program in call.programs:
            yield from self._of_program(number, program, text, is_answered)

    def _is_ours(self, url: str) -> bool:
        place = url.lower().removesuffix(".git").rstrip("/")
        at = place.find(self.repo)
        return at > 0 and place[at - 1] in "/:" and place[at + len(self.repo) :][:1] in ("", "/", "#", "?", ".")

    def _of_program(self, number: int, program: Program, text: str, is_answered: bool) -> Iterator[Signal]:
        words = [a for a in program.arguments if not a.startswith("-")]
        said = short(str(program))
        if program.name == "gh" and words[:1] == ["pr"] and words[1:2] in (["diff"], ["view"], ["checkout"]):
            is_seen = is_answered and "diff --git " in text
            why = "a pull request's change" if is_seen else "a pull request of this project"
            yield _signal(number, "saw" if is_seen else "looked", _Glance(said, ("gh pr",)), why)
            return
        if self.installed is not None and is_answered:
            inside = next((a for a in program.arguments if self._is_installed(a)), None)
            if inside is not None:
                glance = _Glance(said, (inside,))
                yield _signal(number, "saw", glance, "the released package's own source", (self.installed,))
        if program.name.startswith(("python", "uv")) and words[:1] == ["pip"]:
            words = words[1:]
        elif program.name not in ("pip", "pip3", "npm", "yarn", "pnpm"):
            return
        named = [w for w in words[1:] if _VERSION.sub("", w).lower().replace("_", "-") == self.package]
        if not named or words[0] not in ("install", "download", "wheel", "pack", "view", "add"):
            return
        glance = _Glance(said, tuple(named))
        if words[0] in ("download", "wheel", "pack") or "--target" in program.arguments or "-t" in program.arguments:
            yield _signal(number, "meant", glance, "it gets a release of the very package it works on")
        else:
            yield _signal(number, "looked", glance, "it installs a release of the very package it works on")
        if is_answered and "Successfully " in text:
            self.installed = number

    def _is_installed(self, argument: str) -> bool:
        tail = argument.lower().replace("_", "-").split("site-packages/", 1)
        return len(tail) == 2 and tail[1].startswith((self.package + "/", self.package + "-", self.package + "."))
