"""Files → records: one JSON document, JSON lines, an array of rows, Parquet, an archive of samples, text.

Framing is decided by content, never by the file's name, and apart from the format: that is the adapters' business.
An array whose items are messages or events is one record; an array of anything else is one record per item. Lines
that are the events of one session are one record too. Files are read as a stream, compressed ones through a
temporary file, and no record longer than ``limit`` bytes is ever held: it is reported, and the rest is read.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from handoff.errors import RecordError
from handoff.framing.arrays import CHUNK, HEAD, SPACE, ArrayScanner
from handoff.framing.containers import COMPRESSIONS, Bomb, event_files, samples, unpack
from handoff.framing.record import Form, Record, first_item, shallow
from handoff.framing.sessions import Line, are_session, is_event, side_file

RECORD_LIMIT = 128 * 1024 * 1024
"""Bytes of the longest record that is read. Real runs stay below 64 MiB."""

_PEEK = 65_536
_LONG_LINE = 8 << 20
_SIDE_LIMIT = 1 << 20
_BOM = b"\xef\xbb\xbf"
_AIDER = b"# aider chat started at"
_NO_LOG = "Give the agent's own log; documents, settings and data in a folder are set aside like this."
_FOREIGN: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"\xff\xfe", "The file is UTF-16 text, which is not read.", "Save it as UTF-8."),
    (0, b"\xfe\xff", "The file is UTF-16 text, which is not read.", "Save it as UTF-8."),
    (0, b"PK\x05\x06", "The file is an empty zip archive.", "Leave it out."),
    (0, b"BZh", "The file is compressed with bzip2, which is not read.", "Unpack it."),
    (0, b"\xfd7zXZ", "The file is compressed with xz, which is not read.", "Unpack it."),
    (0, b"7z\xbc\xaf\x27\x1c", "The file is a 7z archive, which is not read.", "Unpack it."),
    (257, b"ustar", "The file is a tar archive, which is not read.", "Unpack it."),
)
"""What can be told from its bytes, though it is not read: place, bytes, problem and remedy."""


class Damaged:
    """A stretch of a file that gives no record: why, and what identifies the bytes."""

    def __init__(self, error: RecordError, *, sha256: str, head: bytes) -> None:
        self.error = error
        self.sha256 = sha256
        self.head = head_text(head)


def head_text(data: bytes) -> str:
    """The first 200 characters, readable whatever the bytes are."""
    return data[: HEAD * 4].decode("utf-8", "replace")[:HEAD]


def label(path: Path) -> str:
    """A path as text that any table can hold."""
    return os.fsencode(path).decode("utf-8", "replace")


def stored_name(path: Path, relative_to: Path | None = None) -> str:
    """The name of a file in every table: inside the folder ``relative_to`` the way from there, else as given.

    So tables do not change when a data folder is moved with the files in it.
    """
    if relative_to is None:
        return label(path)
    for place, folder in ((path.absolute(), relative_to.absolute()), (path.resolve(), relative_to.resolve())):
        if place.is_relative_to(folder):
            return label(place.relative_to(folder))
    return label(path)


class SourceFile:
    """One file, or a folder of event files; iterate it once for its records. ``framing``, ``sha256`` and ``bytes``
    are known afterwards.

    ``name`` is what its records are said to come from: see ``stored_name``.
    """

    def __init__(self, path: Path, *, limit: int = RECORD_LIMIT, relative_to: Path | None = None) -> None:
        self.path = path
        self.name = stored_name(path, relative_to)
        self.limit = limit
        self.framing = "unknown"
        self.bytes = 0
        """Bytes read so far, compressed ones as they lie on disk."""
        self._hash = hashlib.sha256()
        self._is_unpacked = False

    @property
    def sha256(self) -> str:
        """Hash of what was read of the file."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Record | Damaged]:
        try:
            if self.path.is_dir():
                yield from self._events()
                return
            with BufferedReader(self.path.open("rb", buffering=0), CHUNK) as file:
                yield from self._records(file)
        except OSError as error:
            what = "folder" if self.path.is_dir() else "file"
            problem = f"The {what} cannot be read: {error.strerror or error}."
            yield self._damage(problem, "Check its permissions.", head=b"")

    def _records(self, file: BufferedReader[Any]) -> Iterator[Record | Damaged]:
        head = file.peek(_PEEK)[:_PEEK]
        compression = next((name for magic, name in COMPRESSIONS if head.startswith(magic)), None)
        if compression is not None:
            yield from self._compressed(file, head, compression)
            return
        if head.startswith(b"PK\x03\x04"):
            yield from self._archive(file, head)
            return
        if head.startswith(b"PAR1"):
            yield from self._parquet(file)
            return
        start = head.removeprefix(_BOM).lstrip(SPACE)[:1]
        size = os.fstat(file.fileno()).st_size
        if start == b"[" and size <= self.limit:
            yield from self._small_array(file)
        elif start == b"[":
            yield from self._large_array(file)
        elif start == b"{":
            yield from self._objects(file, size)
        elif not start and size <= len(head):
            self._consume(file)
            yield self._damage("The file is empty.", "Leave it out, or copy it again.", head=head)
        elif _AIDER in head and size <= self.limit:
            self.framing = "text"
            data = file.read()
            self._read(data)
            yield self._record(data, 1, sha256=self.sha256, form="text")
        else:
            self._consume(file)
            known = (found for at, magic, *found in _FOREIGN if head.startswith(magic, at))
            problem, remedy = next(known, ("The file is not JSON, JSON lines or Parquet.", _NO_LOG))
            yield self._damage(problem, remedy, head=head)

    # -- containers -----------------------------------------------------------------------------

    def _compressed(self, file: BufferedReader[Any], head: bytes, compression: str) -> Iterator[Record | Damaged]:
        if self._is_unpacked:
            self._consume(file)
            yield self._damage("The file is compressed twice.", "Unpack it once.", head=head)
            return
        try:
            unpacked = unpack(file, compression, self._read)
        except Bomb:
            yield self._damage("The file unpacks to far more than any log.", "Unpack it and look at it.", head=head)
            return
        except ValueError as error:
            self._consume(file)
            yield self._damage(f"The file cannot be unpacked: {error}.", "Copy it again.", head=head)
            return
        self._is_unpacked = True
        with unpacked, BufferedReader(unpacked, CHUNK) as inner:  # type: ignore[type-var]
            yield from self._records(inner)
        self.framing += f".{compression}"

    def _archive(self, file: BufferedReader[Any], head: bytes) -> Iterator[Record | Damaged]:
        """Samples of an Inspect log, each with the log's header as its context."""
        self._consume(file)
        file.seek(0)
        try:
            found = samples(file, self.limit)
            if found is None:
                yield self._damage("The file is a zip archive, and no Inspect log.", "Unpack it.", head=head)
                return
            self.framing = "eval"
            context, members = found
            position = 0
            for position, member in enumerate(members, 1):
                if member.data is None:
                    yield self._damage(
                        f"The sample {head_text(member.name.encode())} cannot be read: {member.problem}.",
                        "Write the log again, or raise record_limit in handoff.toml if it is too long.",
                        head=member.name.encode("utf-8", "replace"),
                        position=position,
                    )
                else:
                    yield self._record(member.data, position, context=context)
            if not position:
                yield self._damage("The log holds no samples.", "The evaluation did not get to one.", head=head)
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            yield self._damage(f"The archive cannot be read: {error}.", "Copy it again.", head=head)

    def _events(self) -> Iterator[Record | Damaged]:
        """A folder with one event a file: its events as the lines of one session."""
        self.framing = "events"
        lines: list[bytes] = []
        for path in event_files(self.path):
            data = path.read_bytes() if self.bytes <= self.limit else b""
            self._read(data)
            try:
                lines.append(msgspec.json.format(data.removeprefix(_BOM), indent=-1))
            except msgspec.DecodeError:
                lines.append(data.replace(b"\n", b" "))
        if self.bytes > self.limit:
            yield self._too_long(1, self.bytes, self.sha256, lines[0])
        else:
            yield self._record(b"\n".join(lines), 1, sha256=self.sha256, form="lines")

    # -- objects and lines ----------------------------------------------------------------------

    def _objects(self, file: BufferedReader[Any], size: int) -> Iterator[Record | Damaged]:
        """A file that starts with ``{``: one document, or one object per line."""
        first = file.readline(self.limit + 1)
        if len(first) == size <= self.limit:
            yield from self._document(first)
            return
        if len(first) > self.limit or _is_json_object(first):
            yield from self._lines(file, first)
            return
        if size > self.limit:
            second = file.readline(self.limit + 1)
            if _looks_like_object(second):
                yield from self._lines(file, first, second)
                return
            self.framing = "json"
            self._read(first)
            self._read(second)
            self._consume(file)
            yield self._too_long(1, size, self.sha256, first)
            return
        rest = file.read()
        lines = rest.split(b"\n", 2)
        data = first + rest
        if rest.strip() and not _is_json_object(data) and any(_looks_like_object(line) for line in lines[:2]):
            file.seek(0)
            yield from self._lines(file, file.readline(self.limit + 1))
            return
        yield from self._document(data)

    def _document(self, data: bytes) -> Iterator[Record | Damaged]:
        """A file that is one object: a run, a session of a single line, or a side file, which gives no record."""
        self._read(data)
        line = _line_values(data, b"")
        if line and len(data) <= _SIDE_LIMIT and side_file(frozenset(line[0])) is not None:
            self.framing = "side file"
            return
        self.framing = "json"
        is_session = bool(line) and b"\n" not in data.rstrip() and are_session(line)
        yield self._record(data, 1, sha256=self.sha256, form="lines" if is_session else "json")

    def _lines(self, file: BufferedReader[Any], *ahead: bytes) -> Iterator[Record | Damaged]:
        self.framing = "jsonl"
        if are_session(_line_values(ahead[0], file.peek(_PEEK)[:_PEEK])):
            yield from self._session(file, ahead)
            return
        position = 0
        waiting = list(ahead)
        while True:
            line = waiting.pop(0) if waiting else file.readline(self.limit + 1)
            if not line:
                return
            position += 1
            self._read(line)
            if len(line) > self.limit and not line.endswith(b"\n"):
                yield self._skip_line(file, line, position)
                continue
            data = line.rstrip(b"\r\n")
            if data.strip(SPACE):
                yield self._record(data, position)

    def _session(self, file: BufferedReader[Any], ahead: tuple[bytes, ...]) -> Iterator[Record | Damaged]:
        """All lines of the file as one record."""
        begun = b"".join(ahead)
        rest = file.read(max(0, self.limit + 1 - len(begun)))
        data = begun + rest
        self._read(data)
        if len(data) > self.limit:
            self._consume(file)
            yield self._too_long(1, self.bytes, self.sha256, data)
        else:
            yield self._record(data, 1, sha256=self.sha256, form="lines")

    def _skip_line(self, file: BufferedReader[Any], line: bytes, position: int) -> Damaged:
        digest = hashlib.sha256(line)
        length = len(line)
        head = line[: HEAD * 4]
        del line
        while part := file.readline(CHUNK):
            self._read(part)
            digest.update(part)
            length += len(part)
            if part.endswith(b"\n"):
                break
        return self._too_long(position, length, digest.hexdigest(), head)

    # -- arrays ---------------------------------------------------------------------------------

    def _small_array(self, file: BufferedReader[Any]) -> Iterator[Record | Damaged]:
        data = file.read()
        array = data.removeprefix(_BOM)
        self.framing = "array"
        try:
            items = msgspec.json.decode(array, type=list[msgspec.Raw])
        except (msgspec.DecodeError, RecursionError):
            first = data.split(b"\n", 1)[0]
            file.seek(0)
            if _is_json_array(first) and data[len(first) :].strip():
                yield from self._lines(file, file.readline())
            else:
                yield from self._large_array(file)
            return
        self._read(data)
        if not items:
            yield self._damage("The array is empty.", "Leave the file out.", head=data)
        elif not any(bytes(memoryview(item)[:1]) in b"{[" for item in items):
            yield self._damage("The array holds no objects.", _NO_LOG, head=data)
        elif is_event(first_item(array[:_PEEK]) or first_item(array)):
            self.framing = "json"
            yield self._record(data, 1, sha256=self.sha256)
        else:
            for position, item in enumerate(items, 1):
                yield self._record(bytes(item), position)

    def _large_array(self, file: BufferedReader[Any]) -> Iterator[Record | Damaged]:
        """Items of an array one by one; also what can be saved of an array that breaks off."""
        self.framing = "array"
        head = file.peek(_PEEK)[:_PEEK]
        size = os.fstat(file.fileno()).st_size
        if is_event(first_item(head.removeprefix(_BOM))):
            self.framing = "json"
            if size > self.limit:
                self._consume(file)
                yield self._too_long(1, size, self.sha256, head)
            else:
                data = file.read()
                self._read(data)
                yield self._record(data, 1, sha256=self.sha256)
            return
        scanner = ArrayScanner(self.limit)
        position = 0
        while not scanner.is_broken and (chunk := file.read(scanner.appetite)):
            self._read(chunk)
            for item in scanner.feed(chunk):
                position += 1
                if item.data is None:
                    yield self._too_long(position, item.length, item.sha256, item.head)
                else:
                    yield self._record(item.data, position)
        self._consume(file)
        left = scanner.left_over()
        if left is not None:
            yield Damaged(
                RecordError(
                    "The array breaks off here." if not scanner.is_closed else "Text follows the end of the array.",
                    file=self.name,
                    record=position + 1,
                    remedy="Copy or export the file again; the items before this one were read.",
                ),
                sha256=hashlib.sha256(left).hexdigest(),
                head=left,
            )

    # -- Parquet --------------------------------------------------------------------------------

    def _parquet(self, file: BufferedReader[Any]) -> Iterator[Record | Damaged]:
        """Rows of a Parquet file; a row's bytes are its JSON."""
        self.framing = "parquet"
        self._consume(file)
        position = 0
        try:
            with pq.ParquetFile(self.path, pre_buffer=False, buffer_size=CHUNK) as table:
                for batch in table.iter_batches(batch_size=64):
                    for row in batch.to_pylist():
                        position += 1
                        data = msgspec.json.encode(row)
                        if len(data) > self.limit:
                            yield self._too_long(position, len(data), hashlib.sha256(data).hexdigest(), data)
                        else:
                            yield self._record(data, position)
        except (pa.ArrowException, OSError, TypeError, ValueError) as error:
            yield self._damage(
                f"The Parquet file cannot be read: {error}.", "Write it again.", head=b"PAR1", position=position + 1
            )

    # -- small parts ----------------------------------------------------------------------------

    def _read(self, data: bytes) -> None:
        """Bytes of the file on disk; what was unpacked from them is not counted again."""
        if not self._is_unpacked:
            self._hash.update(data)
            self.bytes += len(data)

    def _consume(self, file: BufferedReader[Any]) -> None:
        while chunk := file.read(CHUNK):
            self._read(chunk)

    def _record(
        self, data: bytes, position: int, *, sha256: str | None = None, form: Form = "json", context: bytes = b"{}"
    ) -> Record:
        return Record(
            data.removeprefix(_BOM),
            file=self.name,
            position=position,
            sha256=None if self._is_unpacked else sha256,
            form=form,
            context=context,
            folder=self.path.parent,
        )

    def _damage(self, problem: str, remedy: str, *, head: bytes, position: int = 1) -> Damaged:
        error = RecordError(problem, file=self.name, record=position, remedy=remedy)
        return Damaged(error, sha256=self.sha256, head=head)

    def _too_long(self, position: int, length: int, sha256: str, head: bytes) -> Damaged:
        error = RecordError(
            f"The record has {length:,} bytes; the limit is {self.limit:,}.",
            file=self.name,
            record=position,
            remedy="Split it, drop repeated history, or raise record_limit in handoff.toml if there is the memory.",
        )
        return Damaged(error, sha256=sha256, head=head)


def _is_json_object(data: bytes) -> bool:
    try:
        msgspec.json.decode(data.removeprefix(_BOM), type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _is_json_array(data: bytes) -> bool:
    try:
        msgspec.json.decode(data.removeprefix(_BOM), type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _looks_like_object(line: bytes) -> bool:
    line = line.strip(SPACE)
    return line.startswith(b'{"') and line.endswith(b"}")


def _line_values(first: bytes, more: bytes) -> list[Line]:
    """The first few lines as values, as far as they are whole."""
    found = []
    for line in (first.removeprefix(_BOM), *more.split(b"\n")[:-1][:5]):
        if len(line) > _LONG_LINE:
            continue
        try:
            found.append(shallow(Record(line)))
        except RecordError:
            continue
    return found
