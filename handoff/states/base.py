"""The base commit of a trajectory: as recorded, else found by what the recording shows of it.

Commits that may be it are those that something names (``HEAD`` as git printed it, the parent of the commit that the run
made, the parent of the commit that a recorder made of the run), the newest before the run began, and the last ones
that still hold the files shown. Each is held against every text and blob id of ``sightings``; the commit that most
agree with and fewest contradict is named, with what speaks for it and against it. Time decides only between
commits that fit equally well, and proves nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from handoff.errors import StateError
from handoff.git.objects import SYMLINK, object_id
from handoff.git.program import run_git
from handoff.git.repository import Repository
from handoff.states.proof.checkpoints import compare
from handoff.states.sightings import Sighting, Sightings, fact, preimages, sightings
from handoff.trajectory import Trajectory

__all__ = ["Base", "find_base", "find_result", "preimages"]

_FEW = 12
"""Texts held against a commit that the recording names: it is doubted only when they contradict it."""
_EARLIER = 200
"""Commits before the run began that are looked at."""
_MOST_COMMITS = 600
"""Commits held against the sightings."""
_MOST_PATHS = 20
"""Files whose history is walked."""
_TEXTS_OF_A_FILE = 2
_LISTED = 3
_PULL_REQUEST = re.compile(r"\w-(\d{1,7})\Z", re.ASCII)
_CHECKPOINT = re.compile(r"[0-9A-Za-z]{8,40}")
_OWN = "--exclude=refs/handoff/*"
"""States of ours are no history."""
_RECORDERS = ("--exclude=refs/heads/entire/*", "--exclude=refs/entire/*", "--exclude=entire/*")
"""Nor are the branches on which a recorder keeps its sessions."""


class Base(NamedTuple):
    """A base commit and how it is known."""

    commit: str
    evidence: str


class _Support(NamedTuple):
    """How a commit stands against what was shown."""

    commit: str
    agreeing: tuple[str, ...]
    """Files of which something agrees and nothing contradicts, in path order."""
    contradicting: tuple[str, ...]
    named: str
    """What names this commit; empty: nothing does."""
    rank: int
    """Of what names it; lower is better."""
    place: int
    """In the order of looking: lower is nearer to the beginning of the run."""

    @property
    def is_whole(self) -> bool:
        """Whether everything comparable agrees."""
        return bool(self.agreeing) and not self.contradicting

    def order(self) -> tuple[int, int, int, int]:
        """Smaller is better supported."""
        return self.net, len(self.contradicting), self.rank, self.place

    @property
    def net(self) -> int:
        """Contradicting files less agreeing ones."""
        return len(self.contradicting) - len(self.agreeing)


def find_base(trajectory: Trajectory, repository: Repository, hint: Base | None = None) -> Base | None:
    """The base commit and its evidence; ``None`` when nothing supports any commit enough.

    The recorded commit wins when the repository has it, unless files contradict it and another commit agrees with all
    of them. ``hint``: a commit known from elsewhere (an instance file), used when the recording's own is not to be had.
    """
    named = trajectory.base_commit
    if named and repository.has(named):
        return _checked(trajectory, repository, repository.commit_id(named), hint)
    if hint is not None and repository.has(hint.commit):
        lacking = f"; the recording names {named[:12]}, which the repository lacks" if named else ""
        return Base(repository.commit_id(hint.commit), hint.evidence + lacking)
    return _found(trajectory, repository, sightings(trajectory))


def find_result(trajectory: Trajectory, repository: Repository) -> str | None:
    """The commit that a recorder's trailer says was made of this run; ``None`` when there is none here.

    What it holds was accepted by a human, who may have changed it: equal files confirm, others prove nothing.
    """
    commits = _checkpoint_commits(trajectory, repository)
    return commits[0][0] if commits else None


# -- a commit that the recording names -------------------------------------------------------------


def _checked(trajectory: Trajectory, repository: Repository, commit: str, hint: Base | None) -> Base:
    evidence = "named by the recording"
    if hint is not None and repository.has(hint.commit) and repository.commit_id(hint.commit) != commit:
        evidence += f"; {hint.evidence} names {hint.commit[:12]}"
    seen = sightings(trajectory, _FEW)
    jury = _Jury(repository, seen.files)
    support = jury.support(commit)
    if not support.contradicting:
        return Base(commit, evidence)
    against = f"{_listed(support.contradicting)} {'differs' if len(support.contradicting) == 1 else 'differ'} there"
    other = _found(trajectory, repository, seen, whole=True)
    if other is not None and other.commit != commit and len(support.agreeing) < len(support.contradicting):
        return Base(other.commit, f"{other.evidence}; the recording names {commit[:12]}, but {against}")
    return Base(commit, f"{evidence}; {against}")


# -- a commit that must be found -------------------------------------------------------------------


def _found(trajectory: Trajectory, repository: Repository, seen: Sightings, *, whole: bool = False) -> Base | None:
    """The best supported commit; with ``whole``, only one that nothing contradicts."""
    jury = _Jury(repository, seen.files)
    named = {
        commit: jury.support(commit, why, rank, rank)
        for rank, (commit, why) in enumerate(_named(trajectory, repository, seen))
    }
    best = min(named.values(), key=_Support.order, default=None)
    if seen.files and (best is None or not best.is_whole):
        for commit, why in _pulled(trajectory, repository):
            item = jury.support(commit, why, len(named), len(named))
            if item.is_whole:
                named.setdefault(commit, item)
        best = min(named.values(), key=_Support.order, default=None)
    others = 0
    if seen.files and (best is None or not best.is_whole):
        fitting = dict(named)
        for place, commit in enumerate(_candidates(trajectory, repository, seen, jury)):
            if commit not in fitting:
                fitting[commit] = jury.support(commit, "", len(named), len(named) + place)
        best = min(fitting.values(), key=_Support.order, default=None)
        if best is not None:
            others = sum(item.order()[:3] == best.order()[:3] for item in fitting.values()) - 1
    if best is None or (whole and not best.is_whole):
        return None
    if best.net >= 0 and not (best.named and not best.contradicting):
        return None
    return Base(best.commit, _evidence(best, seen, others))


def _named(trajectory: Trajectory, repository: Repository, seen: Sightings) -> Iterator[tuple[str, str]]:
    """Commits that something other than their content names, the surest first."""
    known: set[str] = set()
    for printed, step in seen.heads:
        if repository.has(printed) and (commit := repository.commit_id(printed)) not in known:
            known.add(commit)
            yield commit, f"step {step} shows it as HEAD"
    if seen.made is not None and repository.has(seen.made[0]):
        for parent in _parents(repository, repository.commit_id(seen.made[0])):
            if parent not in known:
                known.add(parent)
                yield parent, f"it is the parent of the commit made in step {seen.made[1]}"
    for commit, parents in _checkpoint_commits(trajectory, repository):
        if len(parents) == 1 and parents[0] not in known:
            known.add(parents[0])
            yield parents[0], f"it is the parent of {commit[:12]}, whose trailer names this session's checkpoint"


def _pulled(trajectory: Trajectory, repository: Repository) -> Iterator[tuple[str, str]]:
    """Where the pull request began that a task id such as ``owner__name-123`` seems to name. No proof by itself."""
    number = _PULL_REQUEST.search(trajectory.task_id or "")
    if number is None:
        return
    subject = re.compile(rf"\(#{number[1]}\)\Z|\AMerge pull request #{number[1]} ")
    form = ("log", "-F", f"--grep=#{number[1]}", "--format=%H %P%x00%s")
    main = repository.git(*form, *starts).decode("utf-8", "replace") if (starts := _main(repository)) else ""
    for line in (main + repository.git(*form, _OWN, *_RECORDERS, "--all").decode("utf-8", "replace")).splitlines():
        ids, _, said = line.partition("\0")
        commit, *parents = ids.split()
        if subject.search(said) is None:
            continue
        if len(parents) == 1:
            yield parents[0], f"it is the parent of {commit[:12]}, the commit of pull request {number[1]}"
        elif len(parents) == 2:
            try:
                fork = repository.git("merge-base", *parents).decode("ascii").strip()
            except StateError:  # no common history
                continue
            yield fork, f"{commit[:12]} merges pull request {number[1]}, which began there"


def _parents(repository: Repository, commit: str) -> list[str]:
    return repository.git("rev-list", "--parents", "-n", "1", commit).decode("ascii").split()[1:2]


def _checkpoint_commits(trajectory: Trajectory, repository: Repository) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(commit, parents) of the commits made of this session's checkpoint, oldest first."""
    checkpoint = fact(trajectory, "checkpoint")
    if checkpoint is None or not _CHECKPOINT.fullmatch(checkpoint):
        return ()
    return _trailers(repository.git_dir, repository.version()).get(checkpoint, ())


@functools.lru_cache(maxsize=8)
def _trailers(git_dir: Path, version: str) -> dict[str, tuple[tuple[str, tuple[str, ...]], ...]]:
    """Checkpoint → (commit, parents) of the commits whose message names it. ``version``: of the repository's refs."""
    form = "%H %P%x00%(trailers:key=Entire-Checkpoint,valueonly,separator=%x20)"
    listed = run_git("--git-dir", git_dir, "log", "--reverse", _OWN, "--all", f"--format={form}")
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for line in listed.decode("utf-8", "replace").splitlines():
        ids, _, trailers = line.partition("\0")
        commit, *parents = ids.split()
        for checkpoint in trailers.split():
            found.setdefault(checkpoint, []).append((commit, tuple(parents)))
    return {checkpoint: tuple(commits) for checkpoint, commits in found.items()}


def _candidates(trajectory: Trajectory, repository: Repository, seen: Sightings, jury: _Jury) -> Iterable[str]:
    """Commits whose content may fit, those nearest to the beginning of the run first."""
    found: dict[str, None] = {}
    if seen.began is not None:
        until = (f"--before={seen.began}", "-n", str(_EARLIER))
        branch = fact(trajectory, "branch")
        for starts in (*_tips(repository, branch), (_OWN, *_RECORDERS, "--all")):
            found.update(dict.fromkeys(repository.git("rev-list", *until, *starts).decode("ascii").split()))
    for starts in _tips(repository, None):
        found.update(dict.fromkeys(repository.git("rev-parse", *starts).decode("ascii").split()))
    found.update(dict.fromkeys(_last_fitting(repository, jury)))
    return list(found)[:_MOST_COMMITS]


def _main(repository: Repository) -> tuple[str, ...]:
    """The main history, as an argument of git; empty when there is none."""
    return ("HEAD",) if repository.find("HEAD^{commit}") is not None else ()


def _tips(repository: Repository, branch: str | None) -> Iterator[tuple[str, ...]]:
    """Where to begin: the recorded branch, then the main one; as arguments of git."""
    names = [f"refs/heads/{branch}"] if branch and re.fullmatch(r"[\w][\w./-]{0,200}", branch) else []
    for name in (*names, "HEAD"):
        if repository.find(f"{name}^{{commit}}") is not None:
            yield (name,)


def _last_fitting(repository: Repository, jury: _Jury) -> Iterator[str]:
    """Commits after which some file was changed away from what was shown: the main history first, newest first.

    Every commit that fits is one of them, a tip, or an ancestor of one over which the files shown stay the same.
    """
    paths = [f":(literal,top){path}" for path in jury.paths[:_MOST_PATHS]]
    if not paths:
        return
    known: set[str] = set()
    form = ("--format=%x01%P", "--raw", "--no-abbrev", "--no-renames", "-m")
    for starts in (("--first-parent", "HEAD"), (_OWN, *_RECORDERS, "--all")):
        if starts[-1] == "HEAD" and not _main(repository):
            continue
        try:
            listed = repository.git("log", *form, *starts, "--", *paths)
        except StateError:
            continue  # a history with holes
        for entry in listed.decode("utf-8", "surrogateescape").split("\x01")[1:]:
            parents, _, changes = entry.partition("\n")
            parent = parents.split()[:1]
            if parent and parent[0] not in known and any(jury.was_shown(line) for line in changes.split("\n")):
                known.add(parent[0])
                yield parent[0]


# -- weighing --------------------------------------------------------------------------------------


class _Jury:
    """Holds commits against sightings; a file's version is compared once."""

    def __init__(self, repository: Repository, files: Iterable[Sighting]) -> None:
        self._repository = repository
        self._shown: dict[str, list[Sighting]] = {}
        for sighting in files:
            self._shown.setdefault(sighting.path, []).append(sighting)
        self._shown = {path: _telling(shown) for path, shown in self._shown.items()}
        self.paths = sorted(self._shown, key=lambda path: (not any(s.blob for s in self._shown[path]), path))
        """Those known by their id first."""
        self._verdicts: dict[tuple[str, str | None], bool | None] = {}

    def support(self, commit: str, named: str = "", rank: int = 0, place: int = 0) -> _Support:
        """How ``commit`` stands."""
        tree = self._repository.tree_of(commit)
        agreeing: list[str] = []
        contradicting: list[str] = []
        for path in sorted(self._shown):
            entry = self._repository.entry(tree, path)
            verdict = self._verdict(path, None if entry is None or entry[0] == SYMLINK else entry[1])
            if verdict is not None:
                (agreeing if verdict else contradicting).append(path)
        return _Support(commit, tuple(agreeing), tuple(contradicting), named, rank, place)

    def was_shown(self, raw: str) -> bool:
        """Whether the old side of a line of ``git log --raw`` is a version that agrees with what was shown."""
        head, _, path = raw.partition("\t")
        words = head.split(" ")
        return len(words) == 5 and path in self._shown and self._verdict(path, words[2]) is True

    def _verdict(self, path: str, blob: str | None) -> bool | None:
        """Whether a version agrees with everything shown of the file; ``None``: nothing can be said."""
        key = (path, blob)
        if key not in self._verdicts:
            self._verdicts[key] = self._compare(self._shown[path], blob)
        return self._verdicts[key]

    def _compare(self, shown: list[Sighting], blob: str | None) -> bool | None:
        if blob is None or set(blob) == {"0"}:
            # Of a file that is not tracked nothing can be said, unless git itself printed its id.
            return False if any(sighting.blob and not sighting.is_text for sighting in shown) else None
        if shown[0].blob is not None:
            return all(self._is(sighting, blob) for sighting in shown)
        verdicts = [self._agrees(sighting, blob) for sighting in shown]
        return False if False in verdicts else True if True in verdicts else None

    def _is(self, sighting: Sighting, blob: str) -> bool:
        named = sighting.blob or ""
        return blob.startswith(named) or (sighting.is_text and self._normal(blob) == named)

    def _normal(self, blob: str) -> str | None:
        """The id that a version has with plain line feeds and no mark at its beginning."""
        try:
            data = self._repository.blob(blob)
        except StateError:
            return None
        return object_id("blob", data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n"))

    def _agrees(self, sighting: Sighting, blob: str) -> bool | None:
        if sighting.text is None:
            return None
        try:
            data = self._repository.blob(blob)
        except StateError:  # a folder, or the content is not here
            return None
        found = compare(sighting.text, data)
        return None if found is None else found.holds


def _telling(shown: list[Sighting]) -> list[Sighting]:
    """The sightings of one file that are compared: ids, which are proof, or the longest texts.

    Texts beside an id may be clipped, or redacted by a publisher.
    """
    named = [sighting for sighting in shown if sighting.blob is not None]
    return named or sorted(shown, key=_length, reverse=True)[:_TEXTS_OF_A_FILE]


def _length(sighting: Sighting) -> int:
    text = sighting.text
    return (
        0 if text is None else len(text.text) if text.text is not None else sum(len(line) for _, line in text.numbered)
    )


# -- words -----------------------------------------------------------------------------------------


def _evidence(best: _Support, seen: Sightings, others: int) -> str:
    by_id = {sighting.path for sighting in seen.files if sighting.blob is not None}
    whole = [path for path in best.agreeing if path in by_id]
    partly = [path for path in best.agreeing if path not in by_id]
    reasons = [best.named] if best.named else []
    if whole:
        reasons.append(
            f"{_count(whole, 'file')} as shown before any change ({_listed(whole)}) {_have(whole)} its blob id"
        )
    if partly:
        reasons.append(f"the text shown of {_count(partly, 'file')} ({_listed(partly)}) agrees")
    if others:
        reasons.append(
            f"{others} other{'s fit' if others > 1 else ' fits'} equally; "
            + ("the last before the run began was taken" if seen.began is not None else "the newest was taken")
        )
    if best.contradicting:
        reasons.append(f"{_listed(best.contradicting)} differ{'s' if len(best.contradicting) == 1 else ''} there")
    return "found: " + "; ".join(reasons)


def _count(items: list[str], noun: str) -> str:
    return f"{len(items)} {noun}{'s' if len(items) != 1 else ''}"


def _have(items: list[str]) -> str:
    return "has" if len(items) == 1 else "have"


def _listed(paths: Iterable[str]) -> str:
    named = list(paths)
    more = len(named) - _LISTED
    return ", ".join(named[:_LISTED]) + (f" and {more} more" if more > 0 else "")
