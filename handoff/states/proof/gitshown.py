"""What git itself printed about files: a diff of the work tree, the commit that was made.

A blob id in a diff is proof of a whole file: it is the hash of its bytes. Only diffs of the *work tree* count; one
between commits, or of the index, says nothing about the files now.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from handoff.actions.paths import Context, is_outside, resolve, with_folder
from handoff.editors.patches import FilePatch, apply_hunks, parse_unified, stripped
from handoff.editors.plain import Misfit
from handoff.git.objects import object_id
from handoff.shell import Command, commands

_HARMLESS = frozenset(["cat", "cd", "echo", "git", "grep", "head", "less", "ls", "pwd", "sed", "tail", "true", "wc"])
"""Programs after which the files are what they were."""
_SHOWING = frozenset(("diff", "log", "ls-files", "rev-parse", "show", "status"))
_GLOB = re.compile(r"[*?\[]")
_SECTION = re.compile(r"^diff --git ", re.M)
_COMMITTED = re.compile(r"^\[[^\]\s]{1,200}(?: \([^)]*\))? ([0-9a-f]{7,40})\] ", re.M)
_HEX = re.compile(r"[0-9a-f]{7,40}")
_UNFIT = (
    *("--cached", "--staged", "--no-index", "-R", "--merge-base", "--color=always", "--word-diff", "--relative"),
    *("--no-prefix", "--src-prefix", "--dst-prefix", "--line-prefix", "--output", "--ita-", "--submodule"),
)
_PRINTING = frozenset(("awk", "bat", "cat", "echo", "grep", "head", "less", "more", "printf", "sed", "tail", "zcat"))
"""Programs that may print diffs of their own when they are given files or texts."""
_WITH_SCRIPT = frozenset(("awk", "grep", "sed"))
"""Those whose first word is no file."""
_SHORT = frozenset(("--short", "-s", "--porcelain", "--porcelain=v1", "-uall", "--untracked-files=all"))
_STATUS = re.compile(r"(?!  )([ MADRCUT?!]{2}) ([^\"\n]+)")
_WIDE = frozenset(("--short", "-s", "--porcelain", "--porcelain=v1"))
_HEADING = re.compile(r"On branch \S{1,250}|HEAD detached (?:at|from) \S{1,250}|Not currently on any branch\.")
_COLUMNS = {"Changes to be committed:": 0, "Changes not staged for commit:": 1, "Untracked files:": 2}
_CHANGED = re.compile(r"\t(modified|deleted|new file|renamed|typechange|copied): {1,12}([^\"\n]+)")
_LETTERS = {"modified": "M", "deleted": "D", "new file": "A", "renamed": "R", "typechange": "T", "copied": "C"}
_ASIDE = re.compile(
    r"  \(use \".*|  \(commit or discard .*|Your branch (?:is|and) .*|and have \d+ and \d+ different .*|"
    r"nothing to commit, working tree clean|no changes added to commit .*|"
    r"nothing added to commit but untracked files present.*|No commits yet"
)
"""Rows of that list that name no file."""
_SHORTEST = 7
"""Hex digits of a blob id that are taken as proof."""


class BlobShown(NamedTuple):
    """A file of the work tree as a diff shows it."""

    path: str
    blob: str | None
    """Abbreviated blob id of its bytes; ``None``: it is gone."""
    patch: FilePatch


def diffs(line: str, context: Context, observation: str, is_path: Callable[[str], bool]) -> list[BlobShown]:
    """Files of the work tree that the shell line ``line``, begun in ``context``, printed a diff of. ``is_path``:
    whether a name is that of a file or folder; any other is one of a commit."""
    if "diff" not in line or "diff --git " not in observation or not _shows_work_tree(line, context, is_path):
        return []
    found: list[BlobShown] = []
    for section in _sections(observation.replace("\r\n", "\n")):
        try:
            files = parse_unified(section)
        except Misfit:
            files = [file] if (file := _head(section)) else []
        for file in files:
            gone = file.new_path is None
            path = _plain(file.old_path if gone else file.new_path)
            after = file.after
            if path is None or after is None or len(after) < _SHORTEST:
                continue
            found.append(BlobShown(path, None if gone else after, file))
    return found


def _plain(path: str | None) -> str | None:
    try:
        return stripped(path, 1)
    except Misfit:
        return None


def _sections(text: str) -> list[str]:
    edges = [*(match.start() for match in _SECTION.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


def _head(section: str) -> FilePatch | None:
    """A section whose hunks are cut off still names the blobs."""
    head = section.split("\n@@ ", 1)[0]
    try:
        files = parse_unified(head)
    except Misfit:
        return None
    return files[0] if files else None


def _shows_work_tree(line: str, context: Context, is_path: Callable[[str], bool]) -> bool:
    """Whether the diffs that a line prints are of this repository's work tree as the line leaves it."""
    parts = commands(line)
    seen = False
    for part in parts:
        if _program(part) in ("cd", "pushd", "popd"):
            context = with_folder(context, part.words[1].text) if len(part.words) > 1 else context
            continue
        verb, rest = _git(part)
        if part.position == 0 and _may_print_diffs(part, context, is_path):
            return False
        if verb == "diff" and is_outside(_folder(part, context)):
            return False
        if verb == "diff":
            here = _folder(part, context)
            if seen or not _is_of_work_tree(rest, "" if here in ("", ".") else f"{here}/", is_path):
                return False
            seen = True
        elif verb in ("show", "log", "stash", "format-patch"):
            return False  # it may print diffs of its own
        elif seen and (verb not in _SHOWING if verb else _program(part) not in _HARMLESS or _edits_in_place(part)):
            return False
        if part.redirects and seen and any(r.operator.startswith((">", "&>")) and r.fd != "2" for r in part.redirects):
            return False
    return seen


def _program(part: Command) -> str:
    return part.words[0].text.rsplit("/", 1)[-1] if part.words else ""


def _may_print_diffs(part: Command, context: Context, is_path: Callable[[str], bool]) -> bool:
    """Whether a program may print a diff of its own: from a file that is none of the repository's, or is called one."""
    program = _program(part)
    words = [word.text for word in part.words[1:]]
    if program in ("echo", "printf"):
        return any("diff" in word or "$" in word for word in words)
    if program not in _PRINTING:
        return False
    names = [word for word in words if not word.startswith("-") and not word.isdigit()]
    if program in _WITH_SCRIPT:
        names = names[1:]
    places = [resolve(name, context) for name in names]
    return any("diff" in place or "patch" in place or is_outside(place) or not is_path(place) for place in places)


def _edits_in_place(part: Command) -> bool:
    return any(word.text.startswith(("-i", "--in-place")) for word in part.words[1:])


def status(line: str, context: Context, observation: str) -> dict[str, str] | None:
    """Path → the two letters of ``git status --short``, where the line prints all that git lists and nothing else;
    ``None`` otherwise. Untracked folders end in a slash."""
    if "status" not in line:
        return None
    parts = [part for part in commands(line) if _program(part) != "cd"]
    if len(parts) != 1 or _git(parts[0])[0] != "status" or parts[0].redirects or parts[0].length > 1:
        return None
    for part in commands(line):
        if _program(part) == "cd" and len(part.words) > 1:
            context = with_folder(context, part.words[1].text)
    options = _git(parts[0])[1]
    if _folder(parts[0], context) != "." or not set(options) <= _SHORT:
        return None
    rows = observation.replace("\r\n", "\n").split("\n")
    return _short(rows) if not _WIDE.isdisjoint(options) else _long(rows)


def _short(rows: list[str]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for row in rows:
        match = _STATUS.fullmatch(row)
        if match is None:
            if row.strip():
                return None
            continue
        for path in match[2].split(" -> "):
            found[path] = match[1]
    return found


def _long(rows: list[str]) -> dict[str, str] | None:
    """The same from git's list for people."""
    found: dict[str, str] = {}
    column, is_list = -1, False
    for number, row in enumerate(rows):
        if number == 0:
            is_list = _HEADING.fullmatch(row) is not None
            if not is_list:
                return None
        elif row in _COLUMNS:
            column = _COLUMNS[row]
        elif match := _CHANGED.fullmatch(row):
            if column not in (0, 1):
                return None
            letter = _LETTERS[match[1]]
            for path in match[2].split(" -> "):
                before = found.get(path, "  ")
                found[path] = letter + before[1] if column == 0 else before[0] + letter
        elif column == 2 and (untracked := re.fullmatch(r"\t([^\"\n]+)", row)):
            found[untracked[1]] = "??"
        elif row.strip() and _ASIDE.fullmatch(row) is None:
            return None
    return found if is_list else None


def _folder(part: Command, context: Context) -> str:
    """Where a git command works."""
    words = [word.text for word in part.words]
    folder = context.cwd or "."
    for option, value in pairwise(words[: words.index(_git(part)[0])]):
        if option == "-C":
            folder = resolve(value, context)
        elif option in ("--git-dir", "--work-tree"):
            return "/"
    return folder


def _git(part: Command) -> tuple[str, list[str]]:
    """The verb of a git command and what follows; an empty verb for any other program."""
    words = [word.text for word in part.words]
    if not words or _program(part) != "git":
        return "", []
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-c", "--git-dir", "--work-tree") else 1
    return (words[at], words[at + 1 :]) if at < len(words) else ("", [])


def _is_of_work_tree(arguments: list[str], within: str, is_path: Callable[[str], bool]) -> bool:
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if any(argument.startswith(_UNFIT) or re.fullmatch(r"-[a-zA-Z]*R[a-zA-Z]*", argument) for argument in before):
        return False
    names = [argument for argument in before if not argument.startswith("-")]
    if any(".." in name and not name.startswith("../") for name in names):
        return False
    is_listed = "--" in arguments
    commits = [name for name in names if is_listed or not (_GLOB.search(name) or is_path(within + name))]
    return len(commits) <= 1


def commits_made(line: str, observation: str) -> list[str]:
    """Abbreviated ids of the commits that the line made, as ``git commit`` prints them."""
    if "commit" not in line:
        return []
    if not any(_git(part)[0] == "commit" for part in commands(line)):
        return []
    return [match[1] for match in _COMMITTED.finditer(observation.replace("\r\n", "\n"))]


def patched(file: FilePatch, known: Callable[[str], bytes | None]) -> bytes | None:
    """The bytes of the file after the diff, proven by its blob id; ``None`` where that cannot be had.

    ``known``: the content of a blob by its abbreviated id.
    """
    if file.is_binary or file.after is None or file.before is None or len(file.after) < _SHORTEST:
        return None
    before = b"" if set(file.before) == {"0"} else known(file.before)
    if before is None:
        return None
    try:
        after = apply_hunks(before, file.hunks, "")
    except Misfit:
        return None
    return after if is_blob(after, file.after) else None


def is_blob(data: bytes, blob: str) -> bool:
    """Whether ``data`` hashes to the (abbreviated) id."""
    return _HEX.fullmatch(blob) is not None and object_id("blob", data).startswith(blob)
