"""What a successor left in a work tree, read back as changes of its base.

Plain files are read and nothing of the work tree's own ``.git`` is trusted. Folders are opened one below the other and
no symbolic link is followed, not even one that something still running puts in a folder's place. What is too deep, too
much or too large to be a state is refused. An overlay is read from its upper layer alone, a copy in whole. Laying out
is in ``worktree``.
"""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path

from handoff.errors import StateError
from handoff.folders import Found, read
from handoff.git.objects import (
    EXECUTABLE,
    FILE,
    FOLDER,
    SUBMODULE,
    SYMLINK,
    Entries,
    byte_path,
    is_safe_name,
    object_id,
    text_path,
    write_loose,
)
from handoff.git.program import git_environment, git_program
from handoff.git.repository import Repository

LARGEST_FILE = 256 * 1024 * 1024
"""Bytes. A larger file in a work tree makes reading it back refuse."""
MOST_BYTES = 2 << 30
"""Of all files together that are read back: a file may have a length and take no disk."""
MOST_FILES = 200_000
"""That are read back."""
DEEPEST = 128
"""Folders of a state, one in the other."""
_RULES = ".gitignore"
_LARGEST_RULES = 1 << 20
_RULES_S = 20.0

Change = tuple[str, tuple[str, str] | None]
"""(path, (mode, object id)) of one file that differs from the base; ``None``: it is gone."""


def is_whiteout(status: os.stat_result) -> bool:
    """Whether a file of an upper layer says that there is none."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


class _Left:
    """What may still be read of one work tree."""

    def __init__(self) -> None:
        self.bytes = MOST_BYTES
        self.files = MOST_FILES

    def take(self, size: int) -> None:
        """``StateError`` when it is too much."""
        self.bytes -= size
        self.files -= 1
        if self.bytes < 0 or self.files < 0:
            raise StateError(f"more than {MOST_FILES} files or {MOST_BYTES >> 20} MB were left; that is no state")


def read_upper(upper: Path, repository: Repository, base_tree: str) -> Iterator[Change]:
    """What the upper layer of an overlay says about the base."""
    with _opened(None, upper) as folder:
        yield from _read_upper_level(folder, b"", repository, base_tree, base_tree, b"", _Left())


def _read_upper_level(
    folder: int, prefix: bytes, repository: Repository, tree: str | None, base_tree: str, origin: bytes, left: _Left
) -> Iterator[Change]:
    """One folder of the upper layer over ``tree``, the folder of the base that lies below it (``None``: nothing).

    ``origin``: that folder's path in the base, with a slash at its end.
    """
    below = repository.entries(tree) if tree else {}
    hides_base = bool(prefix) and _mark(folder, "opaque") == b"y"
    seen: set[bytes] = set()
    for name, status in _scan(folder, prefix):
        if not is_safe_name(name):
            continue
        seen.add(name)
        old = below.get(name)
        path = prefix + name
        if is_whiteout(status):
            yield from _gone(path, old, repository)
        elif stat.S_ISDIR(status.st_mode):
            with _opened(folder, name) as here:
                moved = _moved_from(here, origin)
                if old and (moved is not None or old[0] not in (FOLDER, SUBMODULE)):
                    yield from _gone(path, old, repository)
                if moved is not None:
                    old = repository.entry(base_tree, text_path(moved))
                    if old is not None:
                        yield from _came(path, old, repository)
                inside = old[1] if old and old[0] == FOLDER else None
                below_here = (origin + name if moved is None else moved) + b"/"
                yield from _read_upper_level(here, path + b"/", repository, inside, base_tree, below_here, left)
        else:
            if old and old[0] == FOLDER:
                yield from _gone(path, old, repository)
            entry = _stored(folder, name, path, status, repository, left)
            if entry is not None or old is not None:
                yield text_path(path), entry
    if hides_base:
        for name in sorted(below.keys() - seen):
            yield from _gone(prefix + name, below[name], repository)


def _mark(folder: int, name: str) -> bytes | None:
    """What the kernel noted on a folder of the upper layer; a sandboxed program cannot write these."""
    try:
        return os.getxattr(folder, f"trusted.overlay.{name}")
    except OSError:
        return None


def _moved_from(folder: int, origin: bytes) -> bytes | None:
    """Where in the base a renamed folder came from; ``None`` for a folder that was not renamed."""
    redirect = _mark(folder, "redirect")
    if redirect is None:
        return None
    return redirect.lstrip(b"/") if redirect.startswith(b"/") else origin + redirect


def _came(path: bytes, entry: tuple[str, str], repository: Repository) -> Iterator[Change]:
    if entry[0] != FOLDER:
        yield text_path(path), entry
        return
    for name, below in sorted(repository.entries(entry[1]).items()):
        yield from _came(path + b"/" + name, below, repository)


def _gone(path: bytes, old: tuple[str, str] | None, repository: Repository) -> Iterator[Change]:
    if old is None:
        return
    if old[0] != FOLDER:
        yield text_path(path), None
        return
    for name, entry in sorted(repository.entries(old[1]).items()):
        yield from _gone(path + b"/" + name, entry, repository)


def read_all(root: Path, repository: Repository, base_tree: str) -> Iterator[Change]:
    """Every file of a copied work tree against the base. All content is hashed: times can be forged."""
    with _opened(None, root) as folder:
        yield from _read_level(folder, b"", repository, base_tree, _Left())


def _read_level(folder: int, prefix: bytes, repository: Repository, tree: str | None, left: _Left) -> Iterator[Change]:
    below: Entries = repository.entries(tree) if tree else {}
    seen: set[bytes] = set()
    for name, status in _scan(folder, prefix):
        if not is_safe_name(name):
            continue
        old = below.get(name)
        path = prefix + name
        if stat.S_ISDIR(status.st_mode):
            if old and old[0] == SUBMODULE:
                seen.add(name)
                continue
            if old and old[0] == FOLDER:
                seen.add(name)
            inside = old[1] if old and old[0] == FOLDER else None
            with _opened(folder, name) as here:
                yield from _read_level(here, path + b"/", repository, inside, left)
            continue
        entry = _stored(folder, name, path, status, repository, left, old)
        if entry is not None:
            if old is None or old[0] != FOLDER:
                seen.add(name)
            if entry != old:
                if old and old[0] == FOLDER:
                    seen.add(name)
                    yield from _gone(path, old, repository)
                yield text_path(path), entry
    for name in sorted(below.keys() - seen):
        yield from _gone(prefix + name, below[name], repository)


@contextmanager
def _opened(above: int | None, name: bytes | Path) -> Iterator[int]:
    """A folder, never through a link. ``StateError`` when it is none any more."""
    try:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except OSError as error:
        shown = text_path(name) if isinstance(name, bytes) else name
        raise StateError(f"the folder {shown} cannot be read back: {error.strerror}") from error
    try:
        yield folder
    finally:
        os.close(folder)


def _scan(folder: int, prefix: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    if prefix.count(b"/") > DEEPEST:
        raise StateError(f"folders nested more than {DEEPEST} deep were left; that is no state")
    found = []
    with os.scandir(folder) as entries:
        for item in entries:
            with suppress(FileNotFoundError):
                found.append((os.fsencode(item.name), item.stat(follow_symlinks=False)))
    yield from sorted(found, key=itemgetter(0))


def _stored(
    folder: int,
    name: bytes,
    path: bytes,
    status: os.stat_result,
    repository: Repository,
    left: _Left,
    old: tuple[str, str] | None = None,
) -> tuple[str, str] | None:
    """Store one file or link as a blob; ``None`` for anything that git does not keep."""
    left.take(0 if stat.S_ISLNK(status.st_mode) else status.st_size)
    if stat.S_ISLNK(status.st_mode):
        with suppress(FileNotFoundError):
            target = os.readlink(name, dir_fd=folder)
            return SYMLINK, write_loose(repository.git_dir, "blob", target)
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    if status.st_size > LARGEST_FILE:
        raise StateError(f"{text_path(path)} has {status.st_size} bytes; a state stores files up to {LARGEST_FILE}")
    data = read(Found(folder, os.fsdecode(name), status, 0), LARGEST_FILE)
    if data is None:
        return None
    mode = EXECUTABLE if status.st_mode & 0o100 else FILE
    if old is not None and old == (mode, object_id("blob", data)):
        return old
    return mode, write_loose(repository.git_dir, "blob", data)


def ignored(
    changes: Mapping[str, tuple[str, str] | None], repository: Repository, base: str, paths: list[str]
) -> list[str]:
    """Which of these new files the state's own ignore rules name.

    The rules are laid out afresh, from what was read: the work tree's may be pipes or links by now. Git runs with the
    mirror's configuration. ``StateError`` when it does not come to an end: some patterns take for ever.
    """
    if not paths:
        return []
    with tempfile.TemporaryDirectory(prefix="handoff-ignore-") as name:
        root = Path(name)
        folders = {path[:at] for path in paths for at in _slashes(path)}
        for folder in sorted(folders):
            rules = f"{folder}{_RULES}"
            entry = changes[rules] if rules in changes else repository.entry(base, rules)
            if entry is None or entry[0] not in (FILE, EXECUTABLE):
                continue
            data = repository.blob(entry[1])
            if len(data) <= _LARGEST_RULES:
                (root / folder).mkdir(parents=True, exist_ok=True)
                (root / rules).write_bytes(data)
        try:
            done = subprocess.run(
                [
                    *(
                        git_program(),
                        "--git-dir",
                        str(repository.git_dir),
                        "--work-tree",
                        name,
                        "-c",
                        "core.bare=false",
                    ),
                    *("-c", "core.excludesFile=", "-c", "core.fsmonitor=false"),
                    *("check-ignore", "--no-index", "-z", "--stdin"),
                ],
                input=b"\0".join(map(byte_path, paths)) + b"\0",
                capture_output=True,
                check=False,
                cwd=name,
                env=git_environment(),
                timeout=_RULES_S,
            )
        except subprocess.TimeoutExpired as error:
            raise StateError(
                f"the ignore rules that were left take more than {_RULES_S:g} s; that is no state"
            ) from error
    if done.returncode not in (0, 1):  # 1: none is ignored
        said = done.stderr.decode("utf-8", "replace").strip()[-300:]
        raise StateError(f"the ignore rules that were left cannot be read: {said}")
    asked: Mapping[str, None] = dict.fromkeys(paths)
    return [path for path in map(text_path, done.stdout.split(b"\0")) if path in asked]


def _slashes(path: str) -> Iterator[int]:
    """Where the names of a path's folders end, the root's first."""
    yield 0
    yield from (at + 1 for at, character in enumerate(path) if character == "/")
