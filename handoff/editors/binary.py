"""Binary files in git's diffs: ``GIT binary patch`` with whole contents or deltas, forward and back."""

from __future__ import annotations

import base64
import re
import zlib
from typing import NamedTuple

from handoff.editors.plain import Misfit

_HEAD = re.compile(rb"(literal|delta) (\d{1,9})")
_MOST_BYTES = 64 << 20
"""What one binary file may come to."""


class Binary(NamedTuple):
    """One direction of a binary change."""

    is_delta: bool
    size: int
    """Bytes of ``data`` when it is no longer compressed."""
    data: bytes
    """Compressed, as it stands in the patch."""

    def applied(self, before: bytes, path: str) -> bytes:
        """The content after it. ``Misfit``: the patch is damaged, or made for another content."""
        try:
            plain = zlib.decompressobj().decompress(self.data, min(self.size, _MOST_BYTES) + 1)
        except zlib.error:
            raise Misfit(f"{path}: the binary patch is damaged") from None
        if len(plain) != self.size:
            raise Misfit(f"{path}: the binary patch is damaged")
        return _of_delta(plain, before, path) if self.is_delta else plain


def read_binary(lines: list[bytes], at: int) -> tuple[Binary | None, int]:
    """The part of a ``GIT binary patch`` that begins at a line, and where what follows begins."""
    match = _HEAD.fullmatch(lines[at]) if at < len(lines) else None
    if match is None:
        return None, at
    at += 1
    chunks: list[bytes] = []
    while at < len(lines) and lines[at]:
        first, body = lines[at][0], lines[at][1:]
        length = first - ord("A") + 1 if ord("A") <= first <= ord("Z") else first - ord("a") + 27
        try:
            decoded = base64.b85decode(body)
        except ValueError:
            raise Misfit("a line of the binary patch is damaged") from None
        if not 0 < length <= len(decoded) < length + 4:
            raise Misfit("a line of the binary patch is damaged")
        chunks.append(decoded[:length])
        at += 1
    return Binary(match[1] == b"delta", int(match[2]), b"".join(chunks)), at + 1


def _of_delta(delta: bytes, before: bytes, path: str) -> bytes:
    """git's delta: two sizes, then copies from the old content and new bytes."""
    try:
        old_size, at = _number(delta, 0)
        new_size, at = _number(delta, at)
        if old_size != len(before) or new_size > _MOST_BYTES:
            raise Misfit(f"{path}: the binary patch was made for another content")
        made = bytearray()
        while at < len(delta) and len(made) <= new_size:
            code = delta[at]
            at += 1
            if not code & 0x80:
                made += delta[at : at + code]
                at += code
                continue
            offset = size = 0
            for bit in range(7):
                if code >> bit & 1:
                    if bit < 4:
                        offset |= delta[at] << 8 * bit
                    else:
                        size |= delta[at] << 8 * (bit - 4)
                    at += 1
            size = size or 0x10000
            if offset + size > len(before):
                raise Misfit(f"{path}: the binary patch is damaged")
            made += before[offset : offset + size]
    except IndexError:
        raise Misfit(f"{path}: the binary patch is damaged") from None
    if len(made) != new_size:
        raise Misfit(f"{path}: the binary patch is damaged")
    return bytes(made)


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80 or shift > 63:
            return value, at
