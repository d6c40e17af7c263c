"""What wraps files: compression, archives of samples, and folders in which each event is a file."""

from __future__ import annotations

import re
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import zstandard

COMPRESSIONS: tuple[tuple[bytes, str], ...] = ((b"\x1f\x8b", "gz"), (b"\x28\xb5\x2f\xfd", "zst"))
"""First bytes and name."""

_SLICE = 4_096
"""Compressed bytes looked at once: what they unpack to is held in memory."""
_FREE = 1 << 30
_RATIO = 300
"""Text compresses up to about fiftyfold; what grows further past a gigabyte is a bomb."""

_EVENT = re.compile(r"event-(\d+)-.*\.json\Z")
_ZSTANDARD = 93
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Bomb(Exception):
    """Compressed data that grows beyond all use."""


def unpack(file: Any, compression: str, seen: Callable[[bytes], None]) -> IO[bytes]:
    """The decompressed bytes in a file without a name. ``seen`` is shown every compressed byte.

    ``Bomb`` when it grows too far, ``ValueError`` when the data is broken.
    """
    unpacked = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    size = 0
    try:
        for read, piece in _stream(file, compression, seen):
            size += len(piece)
            if size > _FREE and size > _RATIO * read:
                raise Bomb
            unpacked.write(piece)
    except BaseException:
        unpacked.close()
        raise
    unpacked.seek(0)
    return unpacked


def _stream(file: Any, compression: str, seen: Callable[[bytes], None]) -> Iterator[tuple[int, bytes]]:
    """(compressed bytes so far, a piece of the text); members that follow one another are one text."""
    read = 0
    machine: Any = None
    while chunk := file.read(_SLICE):
        seen(chunk)
        read += len(chunk)
        while chunk.strip(b"\0") if machine is None else chunk:
            if machine is None:
                machine = (
                    zlib.decompressobj(31) if compression == "gz" else zstandard.ZstdDecompressor().decompressobj()
                )
            try:
                piece = machine.decompress(chunk)
            except (zlib.error, zstandard.ZstdError) as error:
                raise ValueError(str(error)) from error
            yield read, piece
            chunk = b""
            if machine.eof:
                chunk, machine = machine.unused_data, None
    if machine is not None:
        raise ValueError("the data breaks off")


class Member(NamedTuple):
    """One sample of an archive; ``data`` is ``None`` when it is too long or broken, ``problem`` says so."""

    name: str
    data: bytes | None
    length: int
    problem: str


def samples(file: Any, limit: int) -> tuple[bytes, Iterator[Member]] | None:
    """Header and samples of an Inspect log; ``None`` when the archive is something else.

    ``zipfile.BadZipFile`` when it is broken.
    """
    archive = zipfile.ZipFile(file)
    names = archive.namelist()
    header = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
    if header is None:
        return None
    context = _member(archive, header, limit)
    return context.data or b"{}", (
        _member(archive, name, limit)
        for name in sorted(names)
        if name.startswith("samples/") and name.endswith(".json")
    )


def _member(archive: zipfile.ZipFile, name: str, limit: int) -> Member:
    info = archive.getinfo(name)
    if info.file_size > limit:
        return Member(name, None, info.file_size, "too long")
    try:
        if info.compress_type == _ZSTANDARD:
            data = _zstandard_member(archive, info, limit)
        elif info.compress_type in _METHODS:
            with archive.open(info) as member:
                data = member.read(limit + 1)
        else:
            return Member(name, None, info.file_size, f"compressed by method {info.compress_type}, which is not read")
    except (zipfile.BadZipFile, zlib.error, zstandard.ZstdError, ValueError, EOFError, RuntimeError) as error:
        return Member(name, None, info.file_size, str(error) or type(error).__name__)
    return Member(name, None, len(data), "too long") if len(data) > limit else Member(name, data, len(data), "")


def _zstandard_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> bytes:
    """A member that the standard library cannot unpack: its raw bytes, found by its local header."""
    file = archive.fp
    if file is None:
        raise ValueError("the archive is closed")
    file.seek(info.header_offset)
    local = file.read(30)
    if len(local) < 30 or local[:4] != b"PK\x03\x04":
        raise ValueError("the member has no local header")
    file.seek(int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little"), 1)
    with zstandard.ZstdDecompressor().stream_reader(file.read(info.compress_size)) as member:
        data: bytes = member.read(limit + 1)
    return data


def event_files(folder: Path) -> list[Path]:
    """The files of a folder that holds one event a file, in the order of their numbers; empty when it does not.

    ``OSError`` when the folder cannot be read.
    """
    found = []
    for entry in folder.iterdir():
        match = _EVENT.match(entry.name)
        if match and entry.is_file() and not entry.is_symlink():
            found.append((int(match[1][:18]), entry.name, entry))
    return [path for _, _, path in sorted(found)]
