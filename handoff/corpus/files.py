"""Which files a path stands for, and what identifies them. Finding records in a file is in ``handoff/framing/``."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from handoff.errors import InputError
from handoff.framing import label
from handoff.identity import identify


def files(paths: Sequence[Path]) -> Iterator[Path]:
    """The regular files at ``paths``, folders walked in name order.

    Hidden names, links to folders (which may form loops) and anything that is no regular file are passed
    over inside a folder; a path given by name that does not exist is an ``InputError``.
    """
    for path in paths:
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise InputError(f"{label(path)}: {error.strerror or error}; check the path") from error
        if stat.S_ISDIR(mode):
            yield from _walk(path)
        elif stat.S_ISREG(mode):
            yield path
        else:
            raise InputError(f"{label(path)}: neither a file nor a folder; give a copy of it")


def fingerprint(paths: Sequence[Path]) -> str:
    """A hash of the files' content, whatever they are called; an unreadable file counts by its name."""
    digests = []
    for path in files(paths):
        try:
            with path.open("rb") as file:
                digests.append(hashlib.file_digest(file, "sha256").hexdigest())
        except OSError:
            digests.append("unreadable " + label(path))
    return identify("i", "content", *sorted(digests))


def size_of(path: Path) -> int:
    """Bytes of a file; 0 when it cannot be asked."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _walk(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        try:
            mode = entry.stat().st_mode
        except OSError:  # a dangling link, or a loop of links
            continue
        if stat.S_ISDIR(mode):
            if not entry.is_symlink():
                yield from _walk(entry)
        elif stat.S_ISREG(mode):
            yield entry
