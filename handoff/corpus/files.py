"""Which files a path stands for, and what identifies them. Finding records in a file is in ``handoff/framing/``."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from handoff.errors import InputError
from handoff.framing import label
from handoff.framing.containers import event_files
from handoff.identity import identify

_AIDER = ".aider.chat.history"


def files(paths: Sequence[Path]) -> Iterator[Path]:
    """The regular files at ``paths``, folders walked in name order.

    A folder that holds one event a file stands for itself: it is one recording; so does one that cannot be read, so
    that it is reported. Passed over inside a folder are hidden names (but for Aider's chat history, which is hidden
    by default), links to folders (which may form loops), links to files outside the folder (which would show what
    nobody offered) and anything that is no regular file. A path given by name that does not exist is an ``InputError``.
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
        place = path
        try:
            for place in event_files(path) if path.is_dir() else [path]:
                with place.open("rb") as file:
                    digests.append(hashlib.file_digest(file, "sha256").hexdigest())
        except OSError:
            digests.append("unreadable " + label(place))
    return identify("i", "content", *sorted(digests))


def size_of(path: Path) -> int:
    """Bytes of a file or of a folder of events; 0 when it cannot be asked."""
    try:
        return sum(file.stat().st_size for file in event_files(path)) if path.is_dir() else path.stat().st_size
    except OSError:
        return 0


def _walk(folder: Path) -> Iterator[Path]:
    root = folder.resolve()
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        if not place.is_dir():
            yield place
            continue
        try:
            events, entries = set(event_files(place)), sorted(place.iterdir(), reverse=True)
        except OSError:
            yield place
            continue
        if events:
            yield place
        waiting += [entry for entry in entries if entry not in events and _is_walked(entry, root)]


def _is_walked(entry: Path, root: Path) -> bool:
    if entry.name.startswith(".") and not entry.name.startswith(_AIDER):
        return False
    try:
        mode = entry.stat().st_mode
    except OSError:  # a dangling link, or a loop of links
        return False
    if entry.is_symlink():
        return stat.S_ISREG(mode) and entry.resolve().is_relative_to(root)
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)
