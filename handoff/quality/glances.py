"""What a git command can show of other history than HEAD's (``docs/science.md §14``).

Here a command is taken by itself: which refs and commits it names, whether it lists or shows them. What its answer
proves is for ``peek.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from handoff.quality.commands import Program
from handoff.quality.signal import short

LISTING = frozenset(("log", "rev-list", "shortlog", "whatchanged", "format-patch", "cherry", "reflog"))
SHOWING = frozenset(("show", "cat-file", "diff", "diff-tree", "range-diff", "archive", "blame", "ls-tree", "grep"))
"""Verbs that print commits: many in order, or what one holds."""
_TAKING = frozenset(("checkout", "switch", "restore", "cherry-pick", "merge", "rebase", "reset", "worktree", "pull"))
_MOVES = frozenset(("checkout", "switch", "merge", "rebase", "reset", "pull"))
_DIFFERENCES = frozenset(("diff", "diff-tree", "range-diff"))
_NAMES = frozenset(("for-each-ref", "show-ref", "ls-remote", "verify-pack", "fetch"))

WIDE = re.compile(r"--(?:all|branches|remotes|tags|glob|reflog|walk-reflogs|alternate-refs)(?:=|\Z)|-g\Z")
"""Options by which a list goes beyond HEAD."""
NARROWING = re.compile(r"--(?:grep|author|committer|since|until|after|before|skip|reverse|merges|no-merges)\b|-[SGi]")
"""Options after which a list is no longer every commit, newest first."""
_SEARCHING = re.compile(r"--grep\b|-[SG]|-i\Z|--pickaxe")
_ALL_BRANCHES = re.compile(r"-[ar]v{0,2}\Z|-v{1,2}[ar]\Z|--(?:all|remotes)\Z")
_TAKES_VALUE = frozenset(
    (
        *("-n", "-S", "-G", "-L", "-U", "-C", "-M", "--grep", "--author", "--since", "--until", "--after"),
        *("--before", "--format", "--pretty", "--skip"),
    )
)
_SEARCHERS = frozenset(("grep", "egrep", "rg", "ag", "ack"))

REMOTE_REF = re.compile(
    r"(?:refs/)?(?:remotes/)?(?:origin|upstream)/|(?:refs/)?remotes/|FETCH_HEAD\Z|.*@\{u(?:pstream)?\}"
)
_REFLOG_REF = re.compile(r"(?:HEAD|\w[\w/.-]*)?@\{(?!u)[^}]*\}|ORIG_HEAD\Z")
_BRANCH_REF = re.compile(r"(?:refs/heads/)?(?:main|master|trunk|develop|dev)\Z")
"""Local branches that usually go on where a base commit was checked out."""
_TAG_REF = re.compile(r"(?:refs/tags/)?v?\d+(?:\.\d+)+\w*\Z|refs/tags/")
_OWN_REF = re.compile(r"(?:HEAD|@)?(?:[~^]\d*)*\Z|stash")
SHA = re.compile(r"(?=[0-9a-f]{0,39}\d)[0-9a-f]{7,40}\Z|[0-9a-f]{40}\Z")
_SUFFIX = re.compile(r"(?:[~^]\d*)+\Z")
GIT_FOLDER = re.compile(
    r"(?:\A|/)\.git/(?:packed-refs|logs(?:/|\Z)|refs/(?:remotes|tags)|FETCH_HEAD|ORIG_HEAD|objects|lost-found)"
)
"""Git's own files that name other refs and their commits."""


class Glance(NamedTuple):
    """One command that can reach beyond HEAD."""

    what: str
    """The command, shortened."""
    refs: tuple[str, ...] = ()
    """Options and refs by which it does."""
    shas: tuple[str, ...] = ()
    """Commits that it names, by their first 7 characters."""
    is_meant: bool = False
    """It searches there, or takes from there."""
    lists: bool = False
    """It prints commits, newest first, so that what stands above HEAD is later."""
    is_whole: bool = False
    """HEAD would stand in the list, had it not been cut before: every ref, and nothing filtered out."""
    shows: bool = False
    """It prints what one commit holds or changes, or moves to it."""
    beyond: bool = False
    """Whatever it prints lies beyond HEAD (``HEAD..origin/main``)."""


def git_verb(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The verb of a git command and what follows it, global options taken off; an empty verb when there is none."""
    place = 0
    while place < len(arguments) and arguments[place].startswith("-"):
        place += 2 if arguments[place] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace") else 1
    return (arguments[place], list(arguments[place + 1 :])) if place < len(arguments) else ("", [])


def operands(rest: Sequence[str]) -> list[str]:
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


def is_own(operand: str) -> bool:
    """HEAD or what it descends from, or surely a path: what such a command prints is HEAD's past."""
    if ".." in operand or _is_beyond(operand):
        return False
    return _OWN_REF.match(operand) is not None or "/" in operand or "." in operand


def moves(program: Program) -> bool:
    """Whether a git command takes the work tree to another commit."""
    verb, rest = git_verb(program.arguments)
    if program.name != "git" or verb not in _MOVES or "--" in rest:
        return False
    return verb == "pull" or any(_is_beyond(side) or SHA.match(side) for side in map(_shown_side, operands(rest)))


def glances(program: Program, *, has_moved: bool) -> Iterator[Glance]:
    """What one program can show beyond the base: nothing, or one glance. ``has_moved``: HEAD may be elsewhere now."""
    if program.name != "git":
        path = next((a for a in program.arguments if GIT_FOLDER.search(a)), None)
        if path is not None:
            yield Glance(short(str(program)), (path,))
        return
    verb, rest = git_verb(program.arguments)
    said = short(str(program))
    named = operands(rest)
    shown = [_shown_side(operand) for operand in named]
    shas = tuple(side[:7] for side in shown if SHA.match(side))
    refs = tuple(side for side in shown if _is_beyond(side))
    if verb == "reflog":
        if rest[:1] not in (["expire"], ["delete"], ["exists"]):
            yield Glance(said, ("reflog",), is_meant=_is_searched(program, rest), lists=True)
    elif verb in LISTING:
        yield from _of_list(said, program, rest, refs or (("HEAD",) if has_moved else ()), shas)
    elif verb in SHOWING:
        yield from _of_show(said, verb, rest, refs, shas)
    elif verb in _TAKING and (refs or shas or verb == "pull"):
        is_foreign = any(not _BRANCH_REF.match(ref) for ref in refs)
        takes = is_foreign and (verb in ("restore", "cherry-pick") or (verb == "checkout" and "--" in rest))
        yield Glance(said, refs or shas or ("git pull",), shas, is_meant=takes, shows=True)
    elif verb == "fsck" and "--no-dangling" not in rest:
        is_meant = any(a in ("--lost-found", "--unreachable", "--dangling") for a in rest)
        yield Glance(said, ("unreachable objects",), is_meant=is_meant)
    elif (
        verb in _NAMES
        or (verb == "branch" and any(map(_ALL_BRANCHES.match, rest)))
        or (verb == "tag" and (not rest or rest[0].startswith(("-l", "-n", "--list", "--sort", "--contains"))))
    ):
        yield Glance(said, (f"git {verb}",))


def _of_list(
    said: str, program: Program, rest: Sequence[str], refs: tuple[str, ...], shas: tuple[str, ...]
) -> Iterator[Glance]:
    wide = tuple(option for option in rest if WIDE.match(option))
    if not (wide or refs or shas):
        return
    is_patch = bool(wide) and any(a in ("-p", "--patch", "-u") for a in rest)
    named = operands(rest)
    is_whole = "--all" in wide and not named and not any(map(NARROWING.match, rest)) and "--" not in rest
    is_beyond = any(map(_is_beyond, refs))
    yield Glance(
        said,
        (*wide, *refs, *shas),
        shas,
        is_meant=(_is_searched(program, rest) or is_patch) and (bool(wide) or is_beyond),
        lists=True,
        is_whole=is_whole and program.then in ((), ("head",)),
        beyond=is_beyond and any(".." in operand for operand in named),
    )


def _of_show(
    said: str, verb: str, rest: Sequence[str], refs: tuple[str, ...], shas: tuple[str, ...]
) -> Iterator[Glance]:
    named = operands(rest)
    if verb == "cat-file" and "--batch-all-objects" in rest:
        yield Glance(said, ("--batch-all-objects",))
    elif verb == "grep" and any("rev-list --all" in a for a in rest):
        yield Glance(said, ("--all",), is_meant=True)
    elif verb in _DIFFERENCES and not shas and not any(".." in operand for operand in named) and len(named) < 2:
        return  # `git diff origin/main` is how a branch looks at its own changes
    elif refs or shas:
        yield Glance(said, (*refs, *shas), shas, shows=True, beyond=bool(refs) and any(".." in o for o in named))
    elif verb in _DIFFERENCES:
        other = tuple(o.split("..", 1)[0] for o in named if ".." in o and "..." not in o)
        if any(map(_is_beyond, other)):
            yield Glance(said, other)


def _is_searched(program: Program, rest: Sequence[str]) -> bool:
    return any(map(_SEARCHING.match, rest)) or any(reader in _SEARCHERS for reader in program.then)


def _shown_side(operand: str) -> str:
    """The revision whose content is shown: of ``a..b`` and ``a...b`` the latter; without ``:path`` and ``~n``."""
    revision = operand.split(":", 1)[0]
    return _SUFFIX.sub("", re.split(r"\.{2,3}", revision, maxsplit=1)[-1])


def _is_beyond(revision: str) -> bool:
    return any(form.match(revision) for form in (REMOTE_REF, _REFLOG_REF, _TAG_REF, _BRANCH_REF))
