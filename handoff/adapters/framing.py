"""Files → records: one JSON document, JSON lines, an array of rows, Parquet. Formats are in the adapters.

Framing is decided by content, never by the file's name. An array whose items are messages or events is one
record; an array of anything else is one record per item. Lines that are the events of one session are one
record too. Files are read as a stream and no record longer than ``limit`` bytes is ever held: it is reported,
and the rest of the file is read.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from handoff.adapters.nearest import Line, session_of_lines, shallow
from handoff.adapters.record import Record, first_item
from handoff.errors import RecordError

RECORD_LIMIT = 128 * 1024 * 1024
"""Bytes of the longest record that is read. Real runs stay below 64 MiB."""

_CHUNK = 1 << 20
_PEEK = 65_536
_HEAD = 200
_LONG_LINE = 8 << 20
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)|[\[\]{},]', re.DOTALL)
_STRING_REST = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)', re.DOTALL)
_BINARY: tuple[tuple[bytes, str, str | None], ...] = (
    (b"PK\x03\x04", "a zip archive", "inspect"),
    (b"\x1f\x8b", "gzip-compressed", None),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed", None),
    (b"\xff\xfe", "UTF-16 text", None),
    (b"\xfe\xff", "UTF-16 text", None),
)


class Damaged:
    """A stretch of a file that gives no record: why, and what identifies the bytes."""

    def __init__(self, error: RecordError, *, sha256: str, head: bytes, nearest: str | None = None) -> None:
        self.error = error
        self.sha256 = sha256
        self.head = head_text(head)
        self.nearest = nearest


def head_text(data: bytes) -> str:
    """The first 200 characters, readable whatever the bytes are."""
    return data[: _HEAD * 4].decode("utf-8", "replace")[:_HEAD]


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
    """One file; iterate it once for its records. ``framing``, ``sha256`` and ``bytes`` are known afterwards.

    ``name`` is what its records are said to come from: see ``stored_name``.
    """

    def __init__(self, path: Path, *, limit: int = RECORD_LIMIT, relative_to: Path | None = None) -> None:
        self.path = path
        self.name = stored_name(path, relative_to)
        self.limit = limit
        self.framing = "unknown"
        self.bytes = 0
        """Bytes read so far."""
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Hash of what was read of the file."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Record | Damaged]:
        try:
            with BufferedReader(self.path.open("rb", buffering=0), _CHUNK) as file:
                yield from self._records(file)
        except OSError as error:
            yield self._damage(
                f"The file cannot be read: {error.strerror or error}.", "Check its permissions.", head=b""
            )

    def _records(self, file: BufferedReader[Any]) -> Iterator[Record | Damaged]:
        head = file.peek(_PEEK)[:_PEEK]
        for magic, what, guess in _BINARY:
            if head.startswith(magic):
                self._consume(file)
                remedy = (
                    "Unpack it, or save it as UTF-8."
                    if guess is None
                    else f"It may be an {guess} log; export it as chat rows."
                )
                yield self._damage(f"The file is {what}, which is not read.", remedy, head=head, nearest=guess)
                return
        if head.startswith(b"PAR1"):
            yield from self._parquet(file)
            return
        start = head.removeprefix(_BOM).lstrip(_SPACE)[:1]
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
        else:
            self._consume(file)
            guess = "aider" if b"# aider chat started at" in head else None
            yield self._damage(
                "The file is not JSON, JSON lines or Parquet.",
                "Give the agent's own log; documents and settings in a folder are set aside like this.",
                head=head,
                nearest=guess,
            )

    # -- objects and lines ----------------------------------------------------------------------

    def _objects(self, file: BufferedReader[Any], size: int) -> Iterator[Record | Damaged]:
        """A file that starts with ``{``: one document, or one object per line."""
        first = file.readline(self.limit + 1)
        if len(first) == size <= self.limit:
            self.framing = "json"
            self._read(first)
            yield self._record(first, 1, sha256=self.sha256)
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
        self.framing = "json"
        self._read(data)
        yield self._record(data, 1, sha256=self.sha256)

    def _lines(self, file: BufferedReader[Any], *ahead: bytes) -> Iterator[Record | Damaged]:
        self.framing = "jsonl"
        guess = session_of_lines(_line_values(ahead[0], file.peek(_PEEK)[:_PEEK]))
        if guess is not None:
            for line in ahead:
                self._read(line)
            self._consume(file)
            yield self._damage(
                f"The file is a session of {guess}, which no adapter reads yet.",
                "Convert it to chat rows with tool_calls.",
                head=ahead[0],
                nearest=guess,
            )
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
            if data.strip(_SPACE):
                yield self._record(data, position)

    def _skip_line(self, file: BufferedReader[Any], line: bytes, position: int) -> Damaged:
        digest = hashlib.sha256(line)
        length = len(line)
        head = line[: _HEAD * 4]
        del line
        while part := file.readline(_CHUNK):
            self._read(part)
            digest.update(part)
            length += len(part)
            if part.endswith(b"\n"):
                break
        return self._too_long(position, length, digest.hexdigest(), head)

    # -- arrays ---------------------------------------------------------------------------------

    def _small_array(self, file: BufferedReader[Any]) -> Iterator[Record | Damaged]:
        data = file.read()
        self.framing = "array"
        try:
            items = msgspec.json.decode(data.removeprefix(_BOM), type=list[msgspec.Raw])
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
        elif _is_event(first_item(data[:_PEEK]) or first_item(data)):
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
        if _is_event(first_item(head.removeprefix(_BOM))):
            self.framing = "json"
            if size > self.limit:
                self._consume(file)
                yield self._too_long(1, size, self.sha256, head)
            else:
                data = file.read()
                self._read(data)
                yield self._record(data, 1, sha256=self.sha256)
            return
        scanner = _ArrayScanner(self.limit)
        position = 0
        while chunk := file.read(scanner.appetite):
            self._read(chunk)
            for item in scanner.feed(chunk):
                position += 1
                if item.data is None:
                    yield self._too_long(position, item.length, item.sha256, item.head)
                else:
                    yield self._record(item.data, position)
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
            with pq.ParquetFile(self.path, pre_buffer=False, buffer_size=_CHUNK) as table:
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
        self._hash.update(data)
        self.bytes += len(data)

    def _consume(self, file: BufferedReader[Any]) -> None:
        while chunk := file.read(_CHUNK):
            self._read(chunk)

    def _record(self, data: bytes, position: int, *, sha256: str | None = None) -> Record:
        return Record(data.removeprefix(_BOM), file=self.name, position=position, sha256=sha256)

    def _damage(
        self, problem: str, remedy: str, *, head: bytes, nearest: str | None = None, position: int = 1
    ) -> Damaged:
        error = RecordError(problem, file=self.name, record=position, remedy=remedy)
        return Damaged(error, sha256=self.sha256, head=head, nearest=nearest)

    def _too_long(self, position: int, length: int, sha256: str, head: bytes) -> Damaged:
        error = RecordError(
            f"The record has {length:,} bytes; the limit is {self.limit:,}.",
            file=self.name,
            record=position,
            remedy="Split it, drop repeated history, or raise record_limit in handoff.toml if there is the memory.",
        )
        return Damaged(error, sha256=sha256, head=head)


class _Item:
    """One array item; ``data`` is ``None`` when it was too long to hold."""

    def __init__(self, data: bytes | None, length: int, sha256: str, head: bytes) -> None:
        self.data = data
        self.length = length
        self.sha256 = sha256
        self.head = head


class _ArrayScanner:
    """Finds the items of a top-level array in a stream, looking at every byte once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.is_closed = False
        self._buffer = b""
        self._scan = 0
        self._depth = 0
        self._in_string = False
        self._dropped = hashlib.sha256()
        self._dropped_length = 0
        self._head = b""

    @property
    def appetite(self) -> int:
        """Bytes to feed next: more while a long item is being collected, so that copying stays linear."""
        return min(max(_CHUNK, len(self._buffer)), 16 * _CHUNK)

    def feed(self, chunk: bytes) -> Iterator[_Item]:
        """The items that are whole now."""
        buffer = self._buffer + chunk
        start, at = 0, self._scan
        while True:
            match = _STRING_REST.match(buffer, at) if self._in_string else _TOKEN.search(buffer, at)
            if match is None:
                at = len(buffer)
                break
            at = match.end()
            text = match[0]
            if self._in_string or text[:1] == b'"':
                self._in_string = match[1] != b'"'
                if self._in_string:
                    at -= len(match[1])  # a backslash at the end waits for its character
                    break
            elif text in (b"[", b"{"):
                self._depth += 1
                if self._depth == 1:
                    start = at
            elif text == b"," and self._depth == 1:
                yield self._cut(buffer[start : at - 1])
                start = at
            elif text in (b"]", b"}"):
                self._depth -= 1
                if self._depth == 0:
                    last = buffer[start : at - 1]
                    self.is_closed = True
                    if last.strip(_SPACE) or self._dropped_length:
                        yield self._cut(last)
                    start = at
        if at - start > self.limit:
            self._head = self._head or buffer[start : start + _HEAD * 4].lstrip(_SPACE)
            self._dropped.update(buffer[start:at])
            self._dropped_length += at - start
            start = at
        self._buffer = buffer[start:]
        self._scan = at - start

    def left_over(self) -> bytes | None:
        """What stood after the last whole item, if anything did."""
        rest = self._buffer.strip(_SPACE)
        return rest or (self._head if self._dropped_length else None) or (None if self.is_closed else b"")

    def _cut(self, data: bytes) -> _Item:
        if not self._dropped_length:
            data = data.strip(_SPACE)
            if len(data) > self.limit:
                return _Item(None, len(data), hashlib.sha256(data).hexdigest(), data[: _HEAD * 4])
            return _Item(data, len(data), "", b"")
        self._dropped.update(data)
        item = _Item(None, self._dropped_length + len(data), self._dropped.hexdigest(), self._head)
        self._dropped, self._dropped_length, self._head = hashlib.sha256(), 0, b""
        return item


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
    line = line.strip(_SPACE)
    return line.startswith(b'{"') and line.endswith(b"}")


def _is_event(item: Line) -> bool:
    """True for what only makes sense as part of one conversation."""
    if isinstance(item.get("role"), str) and ("content" in item or "tool_calls" in item):
        return True
    if isinstance(item.get("kind"), str) and item["kind"].endswith("Event"):
        return True
    return isinstance(item.get("action", item.get("observation")), str) and bool(
        {"source", "args", "extras"} & item.keys()
    )


def _line_values(first: bytes, more: bytes) -> list[Line]:
    """The first few lines as values, as far as they are whole."""
    found = []
    for line in (first, *more.split(b"\n")[:-1][:5]):
        if len(line) > _LONG_LINE:
            continue
        try:
            found.append(shallow(Record(line)))
        except RecordError:
            continue
    return found
