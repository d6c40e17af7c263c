"""The editor tool: look at and change files of a work folder that an agent has touched, never through a link.

Its commands and arguments are those of ``successors/calls.py``. What goes wrong is told to the agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from handoff.errors import SandboxError
from handoff.sandbox.files import list_folder, read_file, write_file
from handoff.trajectory import Observation

LARGEST_FILE = 4 << 20
"""Bytes of a file that can be viewed or edited."""
MOST_SHOWN = 64 << 10
"""Characters of a view; the rest is left out, and said to be."""
_CONTEXT = 4
"""Lines shown on either side of a change."""


def edit(workdir: Path, root: str, arguments: Mapping[str, Any], call_id: str | None) -> Observation:
    """Carry out one call. ``root``: the work folder as commands see it, such as ``/repo``. Never raises for what the
    call asks."""
    path = _relative(str(arguments.get("path", "")), root)
    try:
        text = _edited(workdir, path, arguments)
    except (_Refused, SandboxError) as error:
        return Observation(call_id=call_id, text=str(error), exit_code=1, error=True)
    except FileNotFoundError:
        return Observation(call_id=call_id, text=f"There is no file {path}.", exit_code=1, error=True)
    except OSError as error:
        text = f"{path}: {error.strerror or error}"
        return Observation(call_id=call_id, text=text, exit_code=1, error=True)
    return Observation(call_id=call_id, text=text, exit_code=0, error=False)


class _Refused(Exception):
    """What the agent asks cannot be done; the message tells it why."""


def _edited(workdir: Path, path: str, arguments: Mapping[str, Any]) -> str:
    if PurePosixPath(path).parts[:1] == (".git",):
        raise _Refused("Files of git itself are not for the editor; use git.")
    match arguments.get("command"):
        case "view":
            return _view(workdir, path, arguments.get("view_range"))
        case "create":
            return _create(workdir, path, _text(arguments, "file_text"))
        case "str_replace":
            return _replace(workdir, path, _text(arguments, "old_str"), _text(arguments, "new_str"))
        case "insert":
            line = arguments.get("insert_line")
            if not isinstance(line, int):
                raise _Refused("insert needs insert_line, a whole number.")
            return _insert(workdir, path, line, _text(arguments, "new_str"))
    raise _Refused(f"The editor has no command {arguments.get('command')!r}.")


def _text(arguments: Mapping[str, Any], key: str) -> str:
    value = arguments.get(key)
    if not isinstance(value, str):
        raise _Refused(f"{arguments['command']} needs {key}, text.")
    return value


def _view(workdir: Path, path: str, span: object) -> str:
    names = list_folder(workdir, path)
    if names is not None:
        return _cut("\n".join(name for name in names if name not in (".git", ".git/"))) or "(empty)"
    lines = _read(workdir, path).splitlines()
    first, last = _span(span, len(lines))
    return _cut(_numbered(lines, first, last)) or "(empty)"


def _span(span: object, count: int) -> tuple[int, int]:
    if span is None:
        return 1, count
    if not isinstance(span, list) or len(span) != 2 or not all(isinstance(n, int) for n in span):
        raise _Refused("view_range is a pair of line numbers, such as [1, 40].")
    first, last = span[0], count if span[1] == -1 else min(span[1], count)
    if not 1 <= first <= max(last, 1):
        raise _Refused(f"view_range {span} does not fit: the file has {count} lines.")
    return first, last


def _create(workdir: Path, path: str, text: str) -> str:
    try:
        read_file(workdir, path, limit=LARGEST_FILE)
    except FileNotFoundError:
        write_file(workdir, path, _bytes(text))
        return f"The file {path} has been created."
    raise _Refused(f"The file {path} exists already; change it with str_replace.")


def _replace(workdir: Path, path: str, old: str, new: str) -> str:
    text = _read(workdir, path)
    count = text.count(old) if old else 0
    if count != 1:
        raise _Refused(f"old_str occurs {count} times in {path}; it must occur exactly once.")
    before, _, after = text.partition(old)
    changed = before + new + after
    write_file(workdir, path, _bytes(changed))
    first = before.count("\n") + 1
    return f"The file {path} has been edited.\n{_around(changed, first, first + new.count(chr(10)))}"


def _insert(workdir: Path, path: str, line: int, new: str) -> str:
    lines = _read(workdir, path).splitlines(keepends=True)
    if not 0 <= line <= len(lines):
        raise _Refused(f"insert_line {line} does not fit: {path} has {len(lines)} lines.")
    if line and not lines[line - 1].endswith("\n"):
        lines[line - 1] += "\n"
    added = new if new.endswith("\n") or not new else f"{new}\n"
    changed = "".join([*lines[:line], added, *lines[line:]])
    write_file(workdir, path, _bytes(changed))
    return f"The file {path} has been edited.\n{_around(changed, line + 1, line + added.count(chr(10)))}"


def _read(workdir: Path, path: str) -> str:
    return read_file(workdir, path, limit=LARGEST_FILE).decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _around(text: str, first: int, last: int) -> str:
    lines = text.splitlines()
    return _cut(_numbered(lines, max(1, first - _CONTEXT), min(len(lines), last + _CONTEXT)))


def _numbered(lines: list[str], first: int, last: int) -> str:
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines[first - 1 : last], first))


def _cut(text: str) -> str:
    shown = text.encode("utf-8", "replace").decode()  # bytes that are no UTF-8 become question marks, as in a terminal
    if len(shown) <= MOST_SHOWN:
        return shown
    return f"{shown[:MOST_SHOWN]}\n[{len(shown) - MOST_SHOWN} more characters; use view_range]"


def _relative(path: str, root: str) -> str:
    """The path below the work folder; what lies elsewhere stays as it is, and is refused when it is opened."""
    return path.removeprefix(f"{root.rstrip('/')}/").removeprefix("./")
