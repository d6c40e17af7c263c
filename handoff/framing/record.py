"""One record of a source file: its bytes, where it stood, and cheap looks into it.

A look decodes the top-level keys only, without building what they hold, so that recognising a format costs
about a tenth of parsing it. Reading it through ``decode``, ``decode_under``, ``field``, ``rows`` and ``part`` keeps
account of what was read: ``losses`` tells the rest. Finding the records in a file is in ``source.py``.
"""

from __future__ import annotations

import hashlib
import json
import math
import stat
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from handoff.errors import RecordError
from handoff.framing.losses import Losses, count, holds_aside, set_aside, strict, unread

T = TypeVar("T")

_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
_OPTIONAL: dict[Any, Any] = {}
_PEEK = 65_536
_LOOKS = (4_096, _PEEK)
_BESIDE_LIMIT = 8 << 20
_STDLIB = json.JSONDecoder(strict=False)

Form = Literal["json", "lines", "text"]
"""``json``: one value; ``lines``: one value a line, all of them one session; ``text``: no JSON at all."""


class Row(NamedTuple):
    """One line of a session."""

    line: int
    """From 1, blank lines counted."""
    data: bytes


class Record:
    """The bytes of one record. ``position`` is 1-based: the line of a line-wise file, else the item."""

    def __init__(
        self,
        data: bytes,
        *,
        file: str = "",
        position: int = 1,
        sha256: str | None = None,
        form: Form = "json",
        context: bytes = b"{}",
        folder: Path | None = None,
    ) -> None:
        self.data = data
        self.file = file
        self.position = position
        self.form = form
        self.context = context
        """What the container says of all its records: an archive's header, as JSON."""
        self.repairs = 0
        """Characters that had to be replaced: bytes that are no UTF-8, lone surrogates, numbers outside JSON."""
        self.problems: list[RecordError] = []
        """Parts that cannot be read and are left out, each with its line and field."""
        self._folder = folder
        self._sha256 = sha256
        self._firsts: dict[str | None, dict[str, Any]] = {}
        self._is_repaired = False
        self._taken: set[str] = set()
        self._is_whole = False
        self._leaks: list[tuple[bytes, Any, str]] = []
        self._losses: Losses = Counter()

    def __reduce__(self) -> tuple[object, ...]:
        """Only what was read of the file crosses to another process: a record is sent before anybody looks at it."""
        place = (self.file, self.position, self._sha256, self.form, self.context, self._folder)
        return (_sent, (self.data, *place))

    def __repr__(self) -> str:
        return f"Record({self.file!r}, {self.position}, {len(self.data)} bytes)"

    @property
    def sha256(self) -> str:
        """Hash of the bytes as read, before any repair."""
        if self._sha256 is None:
            self._sha256 = hashlib.sha256(self.data).hexdigest()
        return self._sha256

    @cached_property
    def is_array(self) -> bool:
        """True when the record is a bare JSON array."""
        return self.form == "json" and self.data.lstrip()[:1] == b"["

    @cached_property
    def keys(self) -> dict[str, msgspec.Raw]:
        """Top-level keys with their values unparsed; empty for an array, lines and text."""
        return {} if self.is_array or self.form != "json" else self._decoded(dict[str, msgspec.Raw])

    # -- reading, which keeps account --------------------------------------------------------------

    def decode(self, kind: type[T]) -> T:
        """The record as ``kind``; ``RecordError`` with the field's path when it does not fit."""
        self._is_whole = True
        while True:
            try:
                return self._read(self.data, kind, "$")
            except (msgspec.DecodeError, RecursionError) as error:
                self._repair(error, "$")

    def decode_under(self, key: str, kind: type[T]) -> T:
        """The value under ``key`` as ``kind``; the value may also be text that holds it, at most twice."""
        self._taken.add(key)
        while True:
            raw: msgspec.Raw | bytes = self.keys[key]
            try:
                for _ in range(2):
                    if begins(raw, b'"'):
                        raw = msgspec.json.decode(raw, type=str).encode()
                return self._read(raw, kind, f"$.{key}")
            except (msgspec.DecodeError, RecursionError) as error:
                self._repair(error, f"$.{key}")

    def field(self, key: str, kind: type[T]) -> T | None:
        """One top-level value as ``kind``; ``None`` when it is absent, null, or something else entirely."""
        raw = self.keys.get(key)
        if raw is None:
            return None
        try:
            value: T | None = self._read(raw, _optional(kind), f"$.{key}")
        except (msgspec.DecodeError, RecursionError):
            return None
        self._taken.add(key)
        return value

    def raw(self, key: str) -> msgspec.Raw | None:
        """One top-level value unparsed, which counts as read; ``None`` when it is absent or null."""
        raw = self.keys.get(key)
        if raw is None or begins(raw, b"null"):
            return None
        self._taken.add(key)
        return raw

    def text(self, *names: str) -> str | None:
        """The first of these fields that holds a non-empty string."""
        for name in names:
            value = self.field(name, str)
            if value:
                return value
        return None

    def rows(self) -> Iterator[Row]:
        """The lines of a session, blank ones left out. Read one with ``part``."""
        for number, line in enumerate(self.data.split(b"\n"), 1):
            data = line.strip()
            if data:
                yield Row(number, data)

    def part(self, row: Row, kind: type[T], path: str = "$") -> T | None:
        """A line as ``kind``. A broken or misfit one is noted in ``problems`` with its line, and gives ``None``."""
        try:
            return self._read(row.data, kind, path)
        except (msgspec.DecodeError, RecursionError) as error:
            try:
                return self._mended(row.data, kind, path, error)
            except RecordError as problem:
                self.problem(problem, row.line)
                return None

    def under(self, raw: msgspec.Raw | bytes, kind: type[T], path: str) -> T | None:
        """A value that a struct kept unparsed, as ``kind``; ``None`` when it is something else, which is then lost."""
        try:
            return self._read(bytes(raw), kind, path)
        except (msgspec.DecodeError, RecursionError) as error:
            try:
                return self._mended(bytes(raw), kind, path, error)
            except RecordError:
                self.lost(path)
                return None

    def _mended(self, data: bytes, kind: type[T], path: str, cause: Exception) -> T:
        """A part of the record read leniently; ``RecordError`` when it does not fit even so."""
        part = Record(data)
        part._repair(cause, path)
        try:
            value = part._read(part.data, kind, path)
        except (msgspec.DecodeError, RecursionError) as error:
            raise malformed(error) from error
        self.repairs += part.repairs
        self._leaks += part._leaks
        self._losses.update(part._losses)
        return value

    def problem(self, error: RecordError, line: int | None = None) -> None:
        """A part cannot be read and is left out; the rest is read."""
        self.problems.append(error.at(self.file, self.position if line is None else line))

    # -- what was not read -------------------------------------------------------------------------

    def lost(self, path: str, times: int = 1, *, reason: str | None = None) -> None:
        """Something has no home in a trajectory."""
        count(self._losses, path, reason, times)

    def leave(self, *keys: str, reason: str) -> None:
        """Top-level fields that are known and left on purpose."""
        for key in keys:
            if key in self.keys and bytes(self.keys[key]) not in _NOTHING:
                count(self._losses, f"$.{key}", reason)
                self._taken.add(key)

    def forget(self) -> None:
        """Begin the account anew: looks that only recognise a format are no reading."""
        self._taken.clear()
        self._losses.clear()
        self._leaks.clear()
        self._is_whole = False

    def losses(self) -> Losses:
        """All that was not read so far."""
        found = Counter(self._losses)
        for data, kind, path in self._leaks:
            unread(_lenient(data), kind, path, found)
        if not self._is_whole:
            for key, raw in self.keys.items():
                if key not in self._taken and bytes(raw) not in _NOTHING:
                    count(found, f"$.{key}")
        for key in self._taken:
            found.pop((f"$.{key}", None), None)
        return found

    def _read(self, data: bytes | msgspec.Raw, kind: type[T], path: str) -> T:
        """A typed reading; what it leaves behind is counted now, or noted to be counted when asked."""
        try:
            value = _decoder(strict(kind)).decode(data)
        except msgspec.ValidationError as error:
            if "unknown field" not in str(error):
                raise
            value = _decoder(kind).decode(data)
            self._leaks.append((bytes(data), kind, path))
            return value  # type: ignore[no-any-return]
        if holds_aside(kind):  # type: ignore[arg-type]
            set_aside([value], path, self._losses)
        return value  # type: ignore[no-any-return]

    # -- looks -------------------------------------------------------------------------------------

    def peek(self, key: str) -> str | None:
        """A top-level text, only looked at."""
        raw = self.keys.get(key)
        try:
            return None if raw is None or not begins(raw, b'"') else msgspec.json.decode(raw, type=str)
        except msgspec.DecodeError:
            return None

    def first(self, key: str | None = None) -> dict[str, Any]:
        """The first item of a list, under ``key`` or of the array itself; empty when there is none.

        Only the first 64 KiB are looked at, unless the item is longer than that.
        """
        found = self._firsts.get(key)
        if found is None:
            found = self._firsts[key] = first_item(self.data if key is None else self.keys.get(key, b""))
        return found

    def opening(self, lines: int = 6) -> list[dict[str, Any]]:
        """The first whole lines of a session, shallow: short texts, ``{}`` for objects, ``None`` for the rest."""
        found = []
        head = self.data[: max(_PEEK, self.data.find(b"\n"))]  # the first line, however long
        for line in head.split(b"\n")[:lines] if self.form == "lines" else ():
            look = Record(line)
            try:
                found.append(shallow(look))
            except RecordError:
                continue
        return found

    def beside(self, name: str) -> bytes | None:
        """A side file in the same folder, such as a session's metadata; ``None`` when there is none.

        ``name`` is the adapter's, never the recording's: it must be a bare name. Links are not followed.
        """
        if self._folder is None or "/" in name or name in ("", ".", ".."):
            return None
        path = self._folder / name
        try:
            found = path.lstat()
            return path.read_bytes() if stat.S_ISREG(found.st_mode) and found.st_size <= _BESIDE_LIMIT else None
        except OSError:
            return None

    def _decoded(self, kind: type[T]) -> T:
        while True:
            try:
                return _decoder(kind).decode(self.data)  # type: ignore[no-any-return]
            except (msgspec.DecodeError, RecursionError) as error:
                self._repair(error, "$")

    def _repair(self, cause: Exception, under: str) -> None:
        """Read once more, leniently: invalid UTF-8, lone surrogates, control characters, NaN, huge numbers."""
        if isinstance(cause, msgspec.ValidationError) and "out of range" not in str(cause):
            raise misfit(cause, under) from cause
        sha256 = self.sha256
        if self._is_repaired:
            raise malformed(cause) from cause
        self._is_repaired = True
        text = self.data.decode("utf-8", "replace")
        count = _Count(text.count("\ufffd") - self.data.count(b"\xef\xbf\xbd"))
        try:
            value = json.loads(
                text, strict=False, parse_constant=count.constant, parse_float=count.real, parse_int=count.whole
            )
            self.data = msgspec.json.encode(count.scrub(value))
        except (ValueError, RecursionError) as error:
            raise malformed(error) from error
        self._sha256 = sha256
        self.__dict__.pop("keys", None)
        self._firsts.clear()
        self.repairs = count.total


def _sent(
    data: bytes, file: str, position: int, sha256: str | None, form: Form, context: bytes, folder: Path | None
) -> Record:
    return Record(data, file=file, position=position, sha256=sha256, form=form, context=context, folder=folder)


class _Count:
    """Replacements made while reading leniently."""

    def __init__(self, total: int) -> None:
        self.total = max(total, 0)

    def constant(self, _: str) -> None:
        self.total += 1

    def real(self, text: str) -> float | None:
        value = float(text)
        if math.isfinite(value):
            return value
        self.total += 1
        return None

    def whole(self, text: str) -> int | float | None:
        return int(text) if len(text) < 19 else self.real(text)

    def scrub(self, value: Any) -> Any:
        if isinstance(value, str):
            if value.isascii():
                return value
            clean = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            if clean != value:
                self.total += clean.count("\ufffd") - value.count("\ufffd")
            return clean
        if isinstance(value, list):
            return [self.scrub(item) for item in value]
        if isinstance(value, dict):
            return {self.scrub(key): self.scrub(item) for key, item in value.items()}
        return value


def misfit(error: msgspec.ValidationError, under: str = "$") -> RecordError:
    """A record error from msgspec's: its message already names the path."""
    problem, _, path = str(error).partition(" - at `")
    field = path.rstrip("`") or "$"
    return RecordError(
        f"{problem}.",
        field=under + field[1:] if field.startswith("$") else field,
        remedy="Export the record again with the tool that wrote it; a hand-edited file needs this field mended.",
    )


def malformed(cause: Exception) -> RecordError:
    """A record error for bytes that are no JSON."""
    if isinstance(cause, RecursionError):
        return RecordError(
            "The JSON is nested too deeply to read.", remedy="No known agent writes this; remove the record."
        )
    if isinstance(cause, json.JSONDecodeError):
        what = f"{cause.msg.removesuffix(' at')} at character {cause.pos}"
        if cause.msg == "Extra data":
            return RecordError(
                f"Not valid JSON: {what}.", remedy="One value follows another: write one a line, or one a file."
            )
    else:
        what = str(cause)
    return RecordError(
        f"Not valid JSON: {what}.",
        remedy="A cut-off copy is the usual cause: copy or export the file again.",
    )


def begins(data: bytes | msgspec.Raw, mark: bytes) -> bool:
    """Whether a value, parsed or not, starts like this; nothing is copied for it."""
    return bytes(memoryview(data)[: len(mark)]) == mark


def first_item(array: bytes | msgspec.Raw) -> dict[str, Any]:
    """The first object of a JSON array, read from its first few KiB where that is enough."""
    for size in _LOOKS:
        head = bytes(memoryview(array)[:size]).lstrip()
        if head[:1] not in (b"[", b""):
            return {}
        try:
            value, _ = _STDLIB.raw_decode(head[1:].decode("utf-8", "ignore").lstrip())
            break
        except (ValueError, RecursionError):
            continue
    else:
        try:
            items = msgspec.json.decode(array, type=list[msgspec.Raw])
            value = msgspec.json.decode(items[0]) if items else None
        except (msgspec.DecodeError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def shallow(record: Record) -> dict[str, Any]:
    """Top-level strings and the presence of everything else."""
    line: dict[str, Any] = {}
    for key, raw in record.keys.items():
        data = bytes(raw)
        if data[:1] == b'"' and len(data) < 300:
            line[key] = msgspec.json.decode(data)
        else:
            line[key] = {} if data[:1] == b"{" else None
    return line


def _lenient(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None


_NOTHING = (b"null", b'""', b"[]", b"{}")


def _optional(kind: Any) -> Any:
    found = _OPTIONAL.get(kind)
    if found is None:
        found = _OPTIONAL[kind] = kind | None
    return found


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    found = _DECODERS.get(kind)
    if found is None:
        found = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return found
