"""What programs and harnesses say of files that something else rewrote.

A formatter or a hook names the files it mended; a harness tells its agent that a user or a linter changed a file in
between. What they left is in no such text: the files are then not known.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_MENDED = re.compile(
    r"\b[Ff]ixed [1-9]\d{0,6} (?:files?|errors?)\b|\b[1-9]\d{0,6} files? (?:re)?formatted\b|^reformatted \S|"
    r"\bFormatted [1-9]\d{0,6} files?\b|files were modified by this hook|\([1-9]\d{0,6} fixed\b"
    r"|Applying modifications from tasks",
    re.M,
)
"""What formatters and hooks print when they have changed files, or (lint-staged) may have."""
_NAMED = re.compile(r"^reformatted (\S{1,300})$", re.M)
_MEANWHILE = re.compile(
    r"\bNote: (/[^\n\"<>]{1,400}?) was modified,? (?:either )?by the user or by a linter"
    r"|^(/[^\n\"<>]{1,400}?) was modified outside of this session",
    re.M,
)
"""How a harness tells that a file is no longer as its agent knows it."""


class Said(NamedTuple):
    """That files were rewritten."""

    words: str
    """What says so."""
    paths: tuple[str, ...]
    """The files, as they are named; none: any."""


def said(text: str) -> Said | None:
    """What a program printed of files that it rewrote; ``None``: nothing."""
    found = _MENDED.search(text)
    if found is None:
        return None
    return Said(found[0].strip(), tuple(dict.fromkeys(_NAMED.findall(text))))


def meanwhile(text: str) -> tuple[str, ...]:
    """Files that, as a harness tells, someone else changed; absolute, as named, each once."""
    if "was modified" not in text:
        return ()
    return tuple(dict.fromkeys(first or second for first, second in _MEANWHILE.findall(text)))
