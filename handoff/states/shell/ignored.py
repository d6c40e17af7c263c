"""Which files git ignores, by the ``.gitignore`` files of the state. A user's own rules are not in a recording."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from handoff.states.shell.disk import Disk

_MOST_RULES = 5_000


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    is_negated: bool
    is_for_folders: bool
    matches_path: bool
    """Against the whole path from the rule's folder; otherwise against the last name."""


@functools.lru_cache(maxsize=256)
def _rules(data: bytes) -> tuple[_Rule, ...]:
    found: list[_Rule] = []
    for line in data.decode("utf-8", "surrogateescape").split("\n")[:_MOST_RULES]:
        text = line.removesuffix("\r")
        if text.startswith("#"):
            continue
        stripped = text.rstrip(" ")
        if stripped.endswith("\\") and stripped != text:
            stripped += " "
        is_negated = stripped.startswith("!")
        body = stripped[1:] if is_negated else stripped
        body = body.removeprefix("\\") if body.startswith(("\\#", "\\!")) else body
        is_for_folders = body.endswith("/")
        body = body.removesuffix("/")
        if not body or len(body) > 300:
            continue
        matches_path = "/" in body
        found.append(_Rule(re.compile(glob_pattern(body.removeprefix("/"))), is_negated, is_for_folders, matches_path))
    return tuple(found)


def glob_pattern(text: str, *, crosses: bool = False) -> str:
    """A pattern of names as a regular expression. ``crosses``: ``*`` also matches ``/``, as git's path names do."""
    parts: list[str] = []
    place = 0
    any_one, any_many = (".", ".*") if crosses else ("[^/]", "[^/]*")
    while place < len(text):
        character = text[place]
        if text.startswith("**/", place) and (place == 0 or text[place - 1] == "/"):
            _settle_folders(parts)
            parts.append(_FOLDERS)
            place += 3
            continue
        if text.startswith("/**", place) and place + 3 == len(text):
            parts.append("/.+")
            break
        place += 1
        if character == "*":
            if parts[-1:] != [any_many]:
                _settle(parts, any_many)
                parts.append(any_many)
        elif character == "?":
            parts.append(any_one)
        elif character == "[":
            end = text.find("]", place + (text[place : place + 1] in "!^") + 1)
            if end < 0:
                parts.append(r"\[")
            else:
                inside = text[place:end]
                is_not = inside[:1] in ("!", "^")
                body = inside[1:] if is_not else inside
                escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", body)
                parts.append(f"[{'^/' if is_not else ''}{escaped}]")
                place = end + 1
        elif character == "\\" and place < len(text):
            parts.append(re.escape(text[place]))
            place += 1
        else:
            parts.append(re.escape(character))
    return f"(?s:{''.join(parts)})\\Z"


_FOLDERS = "(?:[^/]*/)*"
"""What ``**/`` matches."""


def _settle_folders(parts: list[str]) -> None:
    """Before another ``**/``: the first place that fits what follows the last one is as good as any later one."""
    if _FOLDERS in parts:
        last = len(parts) - 1 - parts[::-1].index(_FOLDERS)
        parts[last:] = [f"(?>{_FOLDERS}?{''.join(parts[last + 1 :])})"]


def _settle(parts: list[str], any_many: str) -> None:
    """Before another star: the first place that fits what follows the last one is as good as any later one."""
    last = len(parts) - 1 - parts[::-1].index(any_many) if any_many in parts else None
    if last is not None and not any("/" in part and not part.startswith("[^/") for part in parts[last + 1 :]):
        parts[last:] = [f"(?>{any_many}?{''.join(parts[last + 1 :])})"]


def is_ignored(disk: Disk, path: str) -> bool:
    """Whether git leaves an untracked file alone: a rule covers it, or a folder it lies in."""
    parts = path.split("/")
    return any(_decided(disk, "/".join(parts[:length]), length < len(parts)) for length in range(1, len(parts) + 1))


def _decided(disk: Disk, path: str, is_folder: bool) -> bool:
    folder, _, name = path.rpartition("/")
    is_folder = is_folder or disk.files.is_folder(path)
    while True:
        rules = f"{folder}/.gitignore" if folder else ".gitignore"
        data = disk.files.read(rules) if disk.files.exists(rules) and not disk.effects.is_unknown(rules) else None
        relative = path[len(folder) + 1 :] if folder else path
        for rule in reversed(_rules(data) if data else ()):
            if rule.is_for_folders and not is_folder:
                continue
            if rule.pattern.match(relative if rule.matches_path else name):
                return not rule.is_negated
        if not folder:
            return False
        folder = folder.rpartition("/")[0]
