"""A JSON array in a stream, one item at a time."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

CHUNK = 1 << 20
HEAD = 200
SPACE = b" \t\r\n"

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)|[\[\]{},]', re.DOTALL)
_STRING_REST = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)', re.DOTALL)


class Item:
    """One array item; ``data`` is ``None`` when it was too long to hold."""

    def __init__(self, data: bytes | None, length: int, sha256: str, head: bytes) -> None:
        self.data = data
        self.length = length
        self.sha256 = sha256
        self.head = head


class ArrayScanner:
    """Finds the items of a top-level array in a stream, looking at every byte once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.is_closed = False
        self.is_broken = False
        """True where an item is missing: what follows is no array."""
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
        return min(max(CHUNK, len(self._buffer)), 16 * CHUNK)

    def feed(self, chunk: bytes) -> Iterator[Item]:
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
                if not (self._dropped_length or buffer[start : at - 1].strip(SPACE)):
                    self.is_broken = True
                    break
                yield self._cut(buffer[start : at - 1])
                start = at
            elif text in (b"]", b"}"):
                self._depth -= 1
                if self._depth == 0:
                    last = buffer[start : at - 1]
                    self.is_closed = True
                    if last.strip(SPACE) or self._dropped_length:
                        yield self._cut(last)
                    start = at
        if at - start > self.limit:
            self._head = self._head or buffer[start : start + HEAD * 4].lstrip(SPACE)
            self._dropped.update(buffer[start:at])
            self._dropped_length += at - start
            start = at
        self._buffer = buffer[start:]
        self._scan = at - start

    def left_over(self) -> bytes | None:
        """What stood after the last whole item, if anything did."""
        rest = self._buffer.strip(SPACE)
        return rest or (self._head if self._dropped_length else None) or (None if self.is_closed else b"")

    def _cut(self, data: bytes) -> Item:
        if not self._dropped_length:
            data = data.strip(SPACE)
            if len(data) > self.limit:
                return Item(None, len(data), hashlib.sha256(data).hexdigest(), data[: HEAD * 4])
            return Item(data, len(data), "", b"")
        self._dropped.update(data)
        item = Item(None, self._dropped_length + len(data), self._dropped.hexdigest(), self._head)
        self._dropped, self._dropped_length, self._head = hashlib.sha256(), 0, b""
        return item
