"""One record of a source file: its bytes, where it stood, and cheap looks into it.

A look decodes the top-level keys only, without building what they hold, so that recognising a format costs
about a tenth of parsing it. Finding the records in a file is in ``framing.py``.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, TypeVar

import msgspec

from handoff.errors import RecordError

T = TypeVar("T")

_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
_PEEK = 65_536
_STDLIB = json.JSONDecoder(strict=False)


class Record:
    """The bytes of one record. ``position`` is 1-based: the line of a line-wise file, else the item."""

    def __init__(self, data: bytes, *, file: str = "", position: int = 1, sha256: str | None = None) -> None:
        self.data = data
        self.file = file
        self.position = position
        self.repairs = 0
        """Characters that had to be replaced: bytes that are no UTF-8, lone surrogates, numbers outside JSON."""
        self._sha256 = sha256
        self._keys: dict[str, msgspec.Raw] | None = None
        self._is_repaired = False

    def __repr__(self) -> str:
        return f"Record({self.file!r}, {self.position}, {len(self.data)} bytes)"

    @property
    def sha256(self) -> str:
        """Hash of the bytes as read, before any repair."""
        if self._sha256 is None:
            self._sha256 = hashlib.sha256(self.data).hexdigest()
        return self._sha256

    @property
    def is_array(self) -> bool:
        """True when the record is a bare JSON array."""
        return self.data.lstrip()[:1] == b"["

    @property
    def keys(self) -> dict[str, msgspec.Raw]:
        """Top-level keys with their values unparsed; empty for an array."""
        if self._keys is None:
            self._keys = {} if self.is_array else self.decode(dict[str, msgspec.Raw])
        return self._keys

    def decode(self, kind: type[T]) -> T:
        """The record as ``kind``; ``RecordError`` with the field's path when it does not fit."""
        try:
            return _decoder(kind).decode(self.data)  # type: ignore[no-any-return]
        except (msgspec.DecodeError, RecursionError) as error:
            self._repair(error, "$")
        return self.decode(kind)

    def decode_under(self, key: str, kind: type[T]) -> T:
        """The value under ``key`` as ``kind``; the value may also be text that holds it, at most twice."""
        raw: msgspec.Raw | bytes = self.keys[key]
        try:
            for _ in range(2):
                if bytes(raw)[:1] == b'"':
                    raw = msgspec.json.decode(raw, type=str).encode()
            return _decoder(kind).decode(raw)  # type: ignore[no-any-return]
        except (msgspec.DecodeError, RecursionError) as error:
            self._repair(error, f"$.{key}")
        return self.decode_under(key, kind)

    def field(self, key: str, kind: type[T]) -> T | None:
        """One top-level value as ``kind``; ``None`` when it is absent, null, or something else entirely."""
        raw = self.keys.get(key)
        if raw is None:
            return None
        try:
            return msgspec.json.decode(raw, type=kind | None)
        except (msgspec.DecodeError, RecursionError):
            return None

    def text(self, *names: str) -> str | None:
        """The first of these fields that holds a non-empty string."""
        for name in names:
            value = self.field(name, str)
            if value:
                return value
        return None

    def first(self, key: str | None = None) -> dict[str, Any]:
        """The first item of a list, under ``key`` or of the array itself; empty when there is none.

        Only the first 64 KiB are looked at, unless the item is longer than that.
        """
        raw = self.data if key is None else bytes(self.keys.get(key, b""))
        return first_item(raw)

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
        self._keys = None
        self.repairs = count.total


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
        what = f"{cause.msg} at character {cause.pos}"
    else:
        what = str(cause)
    return RecordError(
        f"Not valid JSON: {what}.",
        remedy="A cut-off copy is the usual cause: copy or export the file again.",
    )


def first_item(array: bytes) -> dict[str, Any]:
    """The first object of a JSON array, read from its first 64 KiB where that is enough."""
    start = array.find(b"[")
    if start < 0 or array[:start].strip():
        return {}
    head = array[start + 1 : start + 1 + _PEEK].decode("utf-8", "ignore").lstrip()
    try:
        value, _ = _STDLIB.raw_decode(head)
    except (ValueError, RecursionError):
        try:
            items = msgspec.json.decode(array, type=list[msgspec.Raw])
            value = msgspec.json.decode(items[0]) if items else None
        except (msgspec.DecodeError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    found = _DECODERS.get(kind)
    if found is None:
        found = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return found
