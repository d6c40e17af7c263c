"""What a git tree names and does not hold: submodules, and large files kept elsewhere (Git LFS).

A replay cannot read them and a layout shows them as git does: an empty folder for a submodule, the pointer for a file.
They are stated so that nobody takes such a state for complete.
"""

from __future__ import annotations

import fnmatch
import re
from typing import NamedTuple
from weakref import WeakKeyDictionary

from handoff.errors import StateError
from handoff.git.objects import EXECUTABLE, FILE, FOLDER, SUBMODULE, text_path
from handoff.git.repository import Repository

_POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\n(?:[^\n]*\n)*?oid sha256:[0-9a-f]{64}\n")
_LONGEST_POINTER = 1024
"""Bytes; the specification's limit."""
_MOST_TREES = 256
"""Trees whose answer is kept for one repository."""


class Submodule(NamedTuple):
    """A commit of another repository at a path of this one."""

    path: str
    commit: str
    url: str | None
    """As ``.gitmodules`` says, unresolved: it is text of the repository and is never fetched."""


class Unheld(NamedTuple):
    """What a tree names and does not hold, each sorted by path."""

    submodules: tuple[Submodule, ...] = ()
    lfs_pointers: tuple[str, ...] = ()
    """Files whose content is a pointer, where the tree's own attributes put them under LFS."""


_KNOWN: WeakKeyDictionary[Repository, dict[str, Unheld]] = WeakKeyDictionary()


def unheld(repository: Repository, tree: str) -> Unheld:
    """Submodules and LFS pointers of a tree. Kept for each tree, so asking again costs nothing."""
    known = _KNOWN.setdefault(repository, {})
    if tree not in known:
        if len(known) >= _MOST_TREES:
            known.clear()
        submodules, pointers = _search(repository, tree)
        urls = _modules(repository, tree) if submodules else {}
        known[tree] = Unheld(
            tuple(Submodule(path, commit, urls.get(path)) for path, commit in sorted(submodules)),
            tuple(sorted(pointers)),
        )
    return known[tree]


class _Rule(NamedTuple):
    folder: str
    """Where the rule stands, with a slash at its end."""
    pattern: str
    is_lfs: bool


def _search(repository: Repository, tree: str) -> tuple[list[tuple[str, str]], list[str]]:
    """(path, commit) of every submodule, and the path of every pointer."""
    submodules: list[tuple[str, str]] = []
    pointers: list[str] = []
    waiting: list[tuple[str, str, tuple[_Rule, ...]]] = [("", tree, ())]
    while waiting:
        prefix, at, rules = waiting.pop()
        entries = repository.entries(at)
        own = entries.get(b".gitattributes")
        if own is not None and own[0] in (FILE, EXECUTABLE):
            rules += tuple(_rules(prefix, _content(repository, own[1])))
        is_lfs_possible = any(rule.is_lfs for rule in rules)
        for name, (mode, id_) in entries.items():
            path = prefix + text_path(name)
            if mode == FOLDER:
                waiting.append((f"{path}/", id_, rules))
            elif mode == SUBMODULE:
                submodules.append((path, id_))
            elif (
                is_lfs_possible
                and mode in (FILE, EXECUTABLE)
                and _is_lfs(path, rules)
                and _is_pointer(_content(repository, id_))
            ):
                pointers.append(path)
    return submodules, pointers


def _rules(folder: str, attributes: bytes) -> list[_Rule]:
    found = []
    for line in attributes.decode("utf-8", "replace").splitlines():
        words = line.split()
        if len(words) < 2 or words[0].startswith(("#", "[attr]", "!")):
            continue
        for word in words[1:]:
            if word == "filter=lfs" or word.startswith("filter=") or word in ("-filter", "!filter"):
                found.append(_Rule(folder, words[0], word == "filter=lfs"))
    return found


def _is_lfs(path: str, rules: tuple[_Rule, ...]) -> bool:
    """The last rule that matches decides, as in git."""
    return next((rule.is_lfs for rule in reversed(rules) if _matches(path, rule)), False)


def _matches(path: str, rule: _Rule) -> bool:
    inside = path[len(rule.folder) :]
    if "/" not in rule.pattern:
        return fnmatch.fnmatchcase(inside.rsplit("/", 1)[-1], rule.pattern)
    return _follows(inside.split("/"), rule.pattern.removeprefix("/").split("/"))


def _follows(path: list[str], pattern: list[str]) -> bool:
    """Part by part; ``**`` stands for any number of folders. The places reached are kept: no pattern is slow."""
    reached = {0}
    for wanted in pattern:
        if wanted == "**":
            reached = set(range(min(reached), len(path))) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < len(path) and fnmatch.fnmatchcase(path[at], wanted)}
    return len(path) in reached or (pattern[-1] == "**" and bool(reached))


def _content(repository: Repository, blob: str) -> bytes:
    """A file's bytes; nothing of one that a partial clone lacks and cannot get."""
    try:
        return repository.blob(blob)
    except StateError:
        return b""


def _is_pointer(data: bytes) -> bool:
    return len(data) <= _LONGEST_POINTER and _POINTER.match(data) is not None


def _modules(repository: Repository, tree: str) -> dict[str, str]:
    """Path → URL of ``.gitmodules``, as far as it can be read."""
    entry = repository.entry(tree, ".gitmodules")
    data = _content(repository, entry[1]) if entry and entry[0] in (FILE, EXECUTABLE) else b""
    found: dict[str, str] = {}
    section: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        name, is_setting, value = line.partition("=")
        if line.lstrip().startswith("["):
            section = {}
        elif is_setting and name.strip() in ("path", "url"):
            section[name.strip()] = value.strip().strip('"')
            if len(section) == 2:
                found[section["path"]] = section["url"]
    return found
