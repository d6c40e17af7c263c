"""The functions and methods that interpreted programs may call: files, patterns, JSON, paths."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable
from typing import Any

from handoff.states.shell.expressions import Exit
from handoff.states.shell.interpreter import Program
from handoff.states.shell.openfile import OpenFile
from handoff.states.shell.values import (
    Failed,
    Function,
    NotUnderstood,
    PathValue,
    checked,
    plain,
    safe_pattern,
    substituted,
)

_PER_STEP = 4
"""Units of work for one step of matching."""


def _open(
    program: Program, path: Any, mode: str = "r", *, encoding: Any = None, newline: Any = None, errors: Any = None
) -> OpenFile:
    if encoding not in (None, "utf-8", "utf8", "UTF-8") or newline not in (None, "", "\n") or errors is not None:
        raise NotUnderstood
    if mode.replace("b", "").replace("t", "") not in ("r", "w", "a", "x", "r+"):
        raise NotUnderstood
    return OpenFile(program, program.place(path), mode, newline)


def _print(
    program: Program, *values: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: Any = None
) -> None:
    text = sep.join(str(plain(value)) for value in values) + end
    if file is None or file == ("value", "sys.stdout"):
        program.printed.append(program.work.made(text))
    elif file != ("value", "sys.stderr"):
        raise NotUnderstood


def _exit(program: Program, status: Any = None) -> None:
    raise Exit(status in (None, 0))


def _sub(program: Program, pattern: Any, new: Any, text: Any, count: int = 0, flags: int = 0) -> Any:
    found = _pattern(program, pattern, text, flags)
    if isinstance(new, Function):
        given = new

        def made(match: re.Match[Any]) -> Any:
            return program.invoke(given, [match], {})

        return checked(found.sub(made, text, count=count))
    if not isinstance(new, str | bytes):
        raise NotUnderstood
    return substituted(found, new, text, count)


def _pattern(program: Program, pattern: Any, text: Any, flags: int) -> re.Pattern[Any]:
    found, steps = safe_pattern(pattern, text, flags)
    program.work.spend(_PER_STEP * steps)
    return found


def _search(method: str) -> Callable[..., Any]:
    def run(program: Program, pattern: Any, text: Any, flags: int = 0) -> Any:
        return getattr(_pattern(program, pattern, text, flags), method)(text)

    return run


def _compile(program: Program, pattern: Any, flags: int = 0) -> Any:
    return _pattern(program, pattern, "" if isinstance(pattern, str) else b"", flags)


def _exists(kinds: tuple[str, ...]) -> Callable[..., bool]:
    def run(program: Program, path: Any) -> bool:
        kind = program.disk.kind(program.place(path))
        if kind == "unknown":
            raise NotUnderstood
        return kind in kinds

    return run


def _remove(program: Program, path: Any, missing_ok: bool = False) -> None:
    text = path.text if isinstance(path, PathValue) else path
    place = program.machine.place(text, follows=False)
    kind = program.disk.kind(place)
    if kind == "unknown" or not place.is_inside:
        raise NotUnderstood
    if kind == "none" and missing_ok:
        return
    if kind not in ("file", "link"):
        raise Failed
    program.disk.remove(place.path)


def _make_folder(program: Program, path: Any, *, parents: bool = True, exist_ok: bool = False) -> None:
    place = program.place(path)
    kind = program.disk.kind(place)
    if not place.is_inside:
        if not exist_ok:
            raise NotUnderstood
        return
    if kind == "folder" and exist_ok:
        return
    if kind != "none" or program.disk.has_parent(place) is None or not (parents or program.disk.has_parent(place)):
        raise NotUnderstood
    program.disk.files.make_folder(place.path)


def _write_text(program: Program, path: PathValue, text: Any, encoding: Any = None, newline: Any = None) -> int:
    return _open(program, path, "w", encoding=encoding, newline=newline).write(text)


def _copy(program: Program, source: Any, target: Any) -> None:
    new = program.place(target)
    if program.disk.kind(new) not in ("file", "none"):
        raise NotUnderstood
    program.write(new, program.read(program.place(source)))


def _load(program: Program, file: Any) -> Any:
    return _loads(program, file.read())


def _loads(program: Program, text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Failed from error


_DUMPING = frozenset(("indent", "ensure_ascii", "sort_keys", "separators"))


def _dumps(program: Program, data: Any, **named: Any) -> str:
    indent = named.get("indent")
    if not named.keys() <= _DUMPING or (isinstance(indent, int) and indent > 16):
        raise NotUnderstood
    return checked(json.dumps(plain(data), **named))


def _dump(program: Program, data: Any, file: Any, **named: Any) -> None:
    file.write(_dumps(program, data, **named))


def _sorted(program: Program, items: Any) -> Any:
    try:
        return sorted(program.items(items))
    except TypeError as error:
        raise Failed from error


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "open": _open,
    "io.open": _open,
    "print": _print,
    "exit": _exit,
    "sys.exit": _exit,
    "len": lambda program, item: len(item),
    "str": lambda program, item="": str(plain(item)),
    "int": lambda program, item: int(item) if isinstance(item, int | str) and len(str(item)) < 18 else _beyond(),
    "repr": lambda program, item: repr(plain(item)),
    "range": lambda program, *numbers: range(*numbers) if all(abs(n) < 20_000 for n in numbers) else _beyond(),
    "enumerate": lambda program, items, start=0: enumerate(program.lazy(items), start),
    "zip": lambda program, *items: zip(*(program.lazy(i) for i in items), strict=False),
    "list": lambda program, items=(): list(program.items(items)),
    "tuple": lambda program, items=(): tuple(program.items(items)),
    "sorted": _sorted,
    "reversed": lambda program, items: reversed(items) if isinstance(items, list | tuple | str) else _beyond(),
    "any": lambda program, items: any(program.lazy(items)),
    "all": lambda program, items: all(program.lazy(items)),
    "min": lambda program, *items: min(*items),
    "max": lambda program, *items: max(*items),
    "Path": lambda program, *parts: PathValue.joined(parts),
    "pathlib.Path": lambda program, *parts: PathValue.joined(parts),
    "re.sub": _sub,
    "re.search": _search("search"),
    "re.match": _search("match"),
    "re.findall": _search("findall"),
    "re.compile": _compile,
    "re.escape": lambda program, text: re.escape(text),
    "os.remove": _remove,
    "os.unlink": _remove,
    "os.makedirs": lambda program, path, exist_ok=False: _make_folder(program, path, exist_ok=exist_ok),
    "os.path.exists": _exists(("file", "folder", "link")),
    "os.path.isfile": _exists(("file",)),
    "os.path.isdir": _exists(("folder",)),
    "os.path.join": lambda program, *parts: posixpath.join(*parts),
    "os.path.basename": lambda program, path: posixpath.basename(path),
    "os.path.dirname": lambda program, path: posixpath.dirname(path),
    "shutil.copyfile": _copy,
    "json.load": _load,
    "json.loads": _loads,
    "json.dump": _dump,
    "json.dumps": _dumps,
}
"""Functions that are understood, by name."""


def _beyond() -> Any:
    raise NotUnderstood


PATH_METHODS: dict[str, Callable[..., Any]] = {
    "read_text": lambda program, path, encoding=None: _open(program, path, "r", encoding=encoding).read(),
    "read_bytes": lambda program, path: _open(program, path, "rb").read(),
    "write_text": _write_text,
    "write_bytes": lambda program, path, data: _open(program, path, "wb").write(data),
    "open": _open,
    "exists": _exists(("file", "folder", "link")),
    "is_file": _exists(("file",)),
    "is_dir": _exists(("folder",)),
    "unlink": _remove,
    "mkdir": lambda program, path, parents=False, exist_ok=False: _make_folder(
        program, path, parents=parents, exist_ok=exist_ok
    ),
    "joinpath": lambda program, path, *parts: PathValue.joined((path, *parts)),
    "as_posix": lambda program, path: path.text,
}
