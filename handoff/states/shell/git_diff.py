"""``git diff`` as it goes into a file or a pipe.

How many digits of an id git prints hangs on how many objects the repository of the recording held. A diff that the
recording shows anywhere tells it; without one the output is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from handoff.errors import StateError
from handoff.git.importer import FileState
from handoff.git.objects import SYMLINK
from handoff.git.repositories import Repository
from handoff.git.textdiff import text_diff
from handoff.states.shell.attributes import is_diffed_otherwise, is_stored_otherwise
from handoff.states.shell.gitcall import Git, is_in
from handoff.states.shell.streams import Unsupported
from handoff.states.versions import UNSURE, Known

_MOST_FILES = 40
_MOST_BYTES = 4_000_000
_SHOWN = re.compile(
    r"^diff --git a/(\S+) b/\1\n(?:(?:old|new|deleted) .*\n)*index ([0-9a-f]{4,40})\.\.([0-9a-f]{4,40})(?: \d+)?$", re.M
)
_PLAIN_NAME = re.compile(r"[\w./+@%,:=~ -]+", re.A)
_INDEX = re.compile(rb"^index ([0-9a-f]{40})\.\.([0-9a-f]{40})", re.M)


def digits_shown(texts: Iterable[str], repository: Repository, tree: str) -> int | None:
    """How many digits of an id the git of a recording prints, by the diffs it shows of files of ``tree``; ``None``:
    none is shown, or not all agree."""
    found: set[int] = set()
    for text in texts:
        if "\nindex " not in text or "diff --git a/" not in text:
            continue
        for match in _SHOWN.finditer(text):
            path, old = match[1], match[2]
            if set(old) == {"0"}:
                continue
            entry = repository.entry(tree, path)
            if entry is not None and entry[1].startswith(old):
                found |= {len(old), len(match[3])}
    return found.pop() if len(found) == 1 else None


def printed(git: Git) -> bytes | None:
    """What the command prints; ``None``: not known."""
    length = git.effects.id_digits
    try:
        given, before, after = git.options("--cached --staged --no-color --no-ext-diff -p -u --patch --no-renames")
        is_staged = bool(given.keys() & {"--cached", "--staged"})
        is_head = before[:1] == ["HEAD"]
        specs = git.specs([*before[is_head:], *(after or [])])
        git.need_index()
    except Unsupported:
        return None
    if length is None or (after is None and len(before) > is_head and not all(map(git.matches, specs))):
        return None
    index, head = git.versions.index, git.head()
    pairs: list[tuple[str, Known, Known]] = []
    for path in git.touched(head):
        if specs and not is_in(path, specs):
            continue
        old = head.get(path) if is_head or is_staged else index.get(path)
        new = index.get(path) if is_staged else git.work(path)
        if old is None and not is_staged and git.is_tracked(path) is False:
            continue
        if UNSURE in (old, new) or git.effects.files.is_folder(path):
            return None
        if old != new:
            pairs.append((path, old, new))
    return _joined(git, pairs, length)


def _joined(git: Git, pairs: list[tuple[str, Known, Known]], length: int) -> bytes | None:
    may_be_renamed = any(old is None for _, old, _ in pairs) and any(new is None for _, _, new in pairs)
    if len(pairs) > _MOST_FILES or may_be_renamed:
        return None
    parts: list[bytes] = []
    for path, old, new in sorted(pairs, key=lambda pair: pair[0].encode("utf-8", "surrogateescape")):
        if not _PLAIN_NAME.fullmatch(path) or is_diffed_otherwise(git.disk, path):
            return None
        sides = [state for state in (_told(old), _told(new)) if state is not None]
        if sum(len(data) for _, data in sides) > _MOST_BYTES or any(
            mode != SYMLINK and is_stored_otherwise(git.disk, path, data) for mode, data in sides
        ):
            return None
        if len(sides) == 2 and (sides[0][0] == SYMLINK) != (sides[1][0] == SYMLINK):
            return None
        try:
            parts.append(text_diff(path, _told(old), _told(new)))
        except StateError:
            return None
    return _INDEX.sub(lambda m: b"index " + m[1][:length] + b".." + m[2][:length], b"".join(parts))


def _told(state: Known) -> FileState:
    return None if state is UNSURE else state
