"""Files that git writes otherwise than it stores them, by the ``.gitattributes`` of the state.

What such a file holds after a checkout is not derived. Large files that git-lfs keeps stay the pointers they are.
"""

from __future__ import annotations

import re
from functools import lru_cache

from handoff.states.shell.disk import Disk
from handoff.states.shell.ignored import glob_pattern

_MOST_RULES = 2_000
_CHECKOUT = re.compile(r"eol=crlf|ident|working-tree-encoding=.*|filter=(?!lfs\Z).*", re.S)
_DIFF = re.compile(r"[-!]?diff(?:=.*)?|binary|[-!]text|working-tree-encoding=.*|filter=.*|ident", re.S)
_ADD = re.compile(r"text|text=auto|crlf(?:=.*)?|eol=.*|ident|working-tree-encoding=.*|filter=(?!lfs\Z).*", re.S)


@lru_cache(maxsize=256)
def _rules(data: bytes) -> tuple[tuple[re.Pattern[str], bool, bool, bool], ...]:
    """Of each line that converts: its pattern, whether that is for whole paths, whether it does at a checkout, whether
    at an addition."""
    found: list[tuple[re.Pattern[str], bool, bool, bool]] = []
    for line in data.decode("utf-8", "surrogateescape").split("\n")[:_MOST_RULES]:
        words = line.split()
        if len(words) < 2 or words[0].startswith("#"):
            continue
        pattern, *attributes = words
        is_macro = pattern.startswith("[attr]")
        goes_out = is_macro or any(_CHECKOUT.fullmatch(item) for item in attributes)
        comes_in = is_macro or any(_ADD.fullmatch(item) for item in attributes)
        if goes_out or comes_in:
            pattern = "*" if is_macro or pattern.startswith('"') or len(pattern) > 300 else pattern
            wanted = re.compile(glob_pattern(pattern.removeprefix("/")))
            found.append((wanted, "/" in pattern.rstrip("/"), goes_out, comes_in))
    return tuple(found)


def _matching(disk: Disk, path: str) -> tuple[bool, bool]:
    """Whether some line converts the file at a checkout, and at an addition. A later line may undo it; then nothing is
    lost but what could have been known."""
    goes_out = comes_in = False
    folder, _, name = path.rpartition("/")
    while True:
        attributes = f"{folder}/.gitattributes" if folder else ".gitattributes"
        if disk.effects.is_unknown(attributes) and disk.files.exists(attributes):
            return True, True
        data = disk.files.read(attributes) if disk.files.exists(attributes) else None
        relative = path[len(folder) + 1 :] if folder else path
        for pattern, is_for_path, out, add in _rules(data) if data else ():
            if pattern.match(relative if is_for_path else name):
                goes_out, comes_in = goes_out or out, comes_in or add
        if not folder:
            return goes_out, comes_in
        folder = folder.rpartition("/")[0]


def is_diffed_otherwise(disk: Disk, path: str) -> bool:
    """Whether some attribute may change how git shows the difference of two versions."""
    folder = path.rpartition("/")[0]
    while True:
        attributes = f"{folder}/.gitattributes" if folder else ".gitattributes"
        if disk.files.exists(attributes):
            data = disk.files.read(attributes)
            words = (data or b"").decode("utf-8", "surrogateescape").split()
            if disk.effects.is_unknown(attributes) or any(_DIFF.fullmatch(w) or w.startswith("[attr]") for w in words):
                return True
        if not folder:
            return False
        folder = folder.rpartition("/")[0]


def is_written_otherwise(disk: Disk, path: str) -> bool:
    """Whether a checkout may write other bytes than git stores."""
    return _matching(disk, path)[0]


def is_stored_otherwise(disk: Disk, path: str, data: bytes) -> bool:
    """Whether git may store other bytes than the work tree holds."""
    goes_out, comes_in = _matching(disk, path)
    return goes_out or (comes_in and b"\r\n" in data)
