"""Python inside a line, or a script that the run wrote, where it only reads, changes and writes texts of files.

The code is read as a syntax tree and interpreted, statement by statement, on the state. Python itself never runs it.
What is beyond the few forms understood (``values``) makes the whole program opaque: what it did is then taken back.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from handoff.actions.programs.scripts import script_of
from handoff.states.editors import encoded
from handoff.states.shell.disk import Disk, Place
from handoff.states.shell.machine import Builtin, Machine, Result, Streams, Unsupported
from handoff.states.shell.values import (
    MODULES,
    Failed,
    NotUnderstood,
    PathValue,
    attribute,
    binary,
    call_method,
    checked,
    compare,
    formatted,
    plain,
    safe_pattern,
)
from handoff.states.shell.words import Arg
from handoff.states.versions import UNSURE

_LONGEST = 100_000
_MOST_STEPS = 50_000
_DEEPEST = 40


class _Return(Exception):
    """``return``, with its value in ``args[0]``."""


class _Break(Exception):
    """``break``."""


class _Continue(Exception):
    """``continue``."""


class _Exit(Exception):
    """``sys.exit``, with its status in ``args[0]``."""


class _Function:
    """A function of the program."""

    def __init__(self, names: list[str], defaults: list[Any], body: list[ast.stmt] | ast.expr) -> None:
        self.names = names
        self.defaults = defaults
        self.body = body


class _File:
    """An open file: every write reaches the state at once."""

    def __init__(self, program: _Program, place: Place, mode: str, newline: str | None) -> None:
        self.is_text = "b" not in mode
        self._translates = self.is_text and newline is None
        self._program, self._place = program, place
        self.kind = mode.replace("b", "").replace("t", "")
        self.data = b""
        self.position = 0
        if self.kind in ("r", "r+", "a", "a+"):
            self.data = program.read(place, must_exist=self.kind[0] == "r")
            self.position = len(self.data) if self.kind[0] == "a" else 0
            if self.kind[0] == "a" and program.disk.kind(place) == "none":
                program.write(place, b"")
        elif self.kind == "x" and program.disk.kind(place) != "none":
            raise Failed
        else:
            program.write(place, b"")

    def read(self) -> str | bytes:
        """The rest of the file."""
        if self.kind not in ("r", "r+"):
            raise NotUnderstood
        rest, self.position = self.data[self.position :], len(self.data)
        if not self.is_text:
            return rest
        text = decoded(rest)
        return text.replace("\r\n", "\n").replace("\r", "\n") if self._translates else text

    def lines(self) -> list[str] | list[bytes]:
        """The rest of the file, line by line."""
        text = self.read()
        if isinstance(text, bytes):
            return re.findall(rb"[^\n]*\n|[^\n]+", text)
        if not self._translates and "\r" in text:
            raise NotUnderstood
        return re.findall(r"[^\n]*\n|[^\n]+", text)

    def write(self, text: Any) -> int:
        """Write here."""
        if self.kind == "r" or not isinstance(text, str if self.is_text else bytes):
            raise Failed
        raw = utf8(text) if isinstance(text, str) else text
        at = len(self.data) if self.kind[0] == "a" else self.position
        self.data = checked(self.data[:at] + raw + self.data[at + len(raw) :])
        self.position = at + len(raw)
        self._program.write(self._place, self.data)
        return len(text)

    def truncate(self) -> None:
        """End the file here."""
        self.data = self.data[: self.position]
        self._program.write(self._place, self.data)


def decoded(data: bytes) -> str:
    """A text as Python reads it: UTF-8, or the program fails."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Failed from error


def utf8(text: str) -> bytes:
    """A text as Python writes it."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Failed from error


class _Program:
    """One program being interpreted."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.disk: Disk = machine.disk
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed: list[str] = []
        self._local: list[dict[str, Any]] = []
        self._steps = 0

    # -- files ----------------------------------------------------------------------------------

    def place(self, path: Any) -> Place:
        """Where a path leads."""
        text = path.text if isinstance(path, PathValue) else path
        if not isinstance(text, str) or not text or "\0" in text:
            raise NotUnderstood
        if text.startswith(("~", "$")):
            raise NotUnderstood
        place = self.machine.place(text)
        if not place.is_certain:
            raise NotUnderstood
        return place

    def read(self, place: Place, *, must_exist: bool = True) -> bytes:
        """The bytes of a file."""
        data = self.disk.read(place)
        if data is UNSURE:
            raise NotUnderstood
        if data is None and (must_exist or self.disk.kind(place) == "folder"):
            raise Failed
        return data if isinstance(data, bytes) else b""

    def write(self, place: Place, data: bytes) -> None:
        """Set the bytes of a file."""
        status = self.disk.write(place, data, "a program")
        if status is None:
            raise NotUnderstood
        if not status:
            raise Failed

    # -- statements -----------------------------------------------------------------------------

    def run(self, body: list[ast.stmt]) -> None:
        """Statements in order."""
        for statement in body:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise NotUnderstood
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if alias.name not in MODULES or (alias.asname and "." in alias.name):
                        raise NotUnderstood
                    root = alias.name.split(".")[0]
                    self._set(alias.asname or root, ("module", alias.name if alias.asname else root))
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for alias in names:
                    if f"{module}.{alias.name}" not in _FUNCTIONS and alias.name != "Path":
                        raise NotUnderstood
                    self._set(alias.asname or alias.name, ("function", f"{module}.{alias.name}"))
            case ast.Assign(targets=targets, value=value):
                found = self.value(value)
                for target in targets:
                    self._assign(target, found)
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                self._assign(target, self.value(value))
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                self._set(name, binary(op, self._name(name), self.value(value)))
            case ast.Expr(value=value):
                self.value(value)
            case ast.Assert(test=test):
                if not self.value(test):
                    raise Failed
            case ast.If(test=test, body=body, orelse=orelse):
                self.run(body if self.value(test) else orelse)
            case ast.For(target=target, iter=iterable, body=body, orelse=[]):
                self._for(target, iterable, body)
            case ast.With(items=items, body=body):
                for item in items:
                    opened = self.value(item.context_expr)
                    if not isinstance(opened, _File):
                        raise NotUnderstood
                    if item.optional_vars is not None:
                        self._assign(item.optional_vars, opened)
                self.run(body)
            case ast.FunctionDef(name=name, args=arguments, body=body, decorator_list=[]):
                self._set(name, self._function(arguments, body))
            case ast.Return(value=value):
                raise _Return(None if value is None else self.value(value))
            case ast.Try(body=body, orelse=orelse, finalbody=finalbody):
                try:
                    self.run([*body, *orelse, *finalbody])
                except Failed as failed:
                    raise NotUnderstood from failed
            case ast.Raise():
                raise Failed
            case ast.Delete(targets=[ast.Subscript(value=value, slice=index)]):
                self._delete(self.value(value), self.value(index))
            case ast.Pass():
                pass
            case ast.Break():
                raise _Break
            case ast.Continue():
                raise _Continue
            case _:
                raise NotUnderstood

    def _for(self, target: ast.expr, iterable: ast.expr, body: list[ast.stmt]) -> None:
        for item in self._items(self.value(iterable)):
            self._assign(target, item)
            try:
                self.run(body)
            except _Continue:
                continue
            except _Break:
                break

    def _items(self, found: Any) -> list[Any]:
        if isinstance(found, _File):
            return list(found.lines())
        if isinstance(found, list | tuple | str | range | dict):
            return list(found)
        raise NotUnderstood

    def _delete(self, holder: Any, key: Any) -> None:
        if not isinstance(holder, dict | list) or (isinstance(holder, list) and not isinstance(key, int | slice)):
            raise NotUnderstood
        try:
            del holder[key]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise Failed from error

    def _function(self, arguments: ast.arguments, body: list[ast.stmt] | ast.expr) -> _Function:
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
            raise NotUnderstood
        return _Function([a.arg for a in arguments.args], [self.value(d) for d in arguments.defaults], body)

    def _set(self, name: str, found: Any) -> None:
        (self._local[-1] if self._local else self.names)[name] = found

    def _name(self, name: str) -> Any:
        for scope in (*self._local[-1:], self.names):
            if name in scope:
                return scope[name]
        if name in ("True", "False", "None"):
            return {"True": True, "False": False, "None": None}[name]
        if name in _FUNCTIONS:
            return ("function", name)
        raise NotUnderstood

    def _assign(self, target: ast.expr, found: Any) -> None:
        match target:
            case ast.Name(id=name):
                self._set(name, found)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                items = self._items(found)
                if len(items) != len(elements):
                    raise Failed
                for element, item in zip(elements, items, strict=True):
                    self._assign(element, item)
            case ast.Subscript(value=value, slice=index):
                holder, key = self.value(value), self.value(index)
                if isinstance(holder, dict) and isinstance(key, str | int):
                    holder[key] = found
                elif isinstance(holder, list) and isinstance(key, int | slice):
                    try:
                        holder[key] = list(found) if isinstance(key, slice) else found
                    except (IndexError, TypeError, ValueError) as error:
                        raise Failed from error
                else:
                    raise NotUnderstood
            case _:
                raise NotUnderstood

    # -- expressions ----------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Any:
        """The value of an expression."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise NotUnderstood
        match node:
            case ast.Constant(value=found):
                return found
            case ast.Name(id=name):
                return self._name(name)
            case ast.Tuple(elts=elements):
                return tuple(self.value(item) for item in elements)
            case ast.List(elts=elements):
                return [self.value(item) for item in elements]
            case ast.Dict(keys=keys, values=values):
                if None in keys:
                    raise NotUnderstood
                return {
                    self._key(self.value(k)): self.value(v) for k, v in zip(keys, values, strict=True) if k is not None
                }
            case ast.JoinedStr(values=values):
                return checked("".join(self._formatted(item) for item in values))
            case ast.BinOp(left=left, op=op, right=right):
                return binary(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.value(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                found = self.value(operand)
                if not isinstance(found, int):
                    raise NotUnderstood
                return -found
            case ast.BoolOp(op=op, values=values):
                for item in values:
                    found = self.value(item)
                    if bool(found) == isinstance(op, ast.Or):
                        return found
                return found
            case ast.Compare(left=left, ops=ops, comparators=others):
                first = self.value(left)
                for sign, other in zip(ops, others, strict=True):
                    second = self.value(other)
                    if not compare(sign, first, second):
                        return False
                    first = second
                return True
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.value(body if self.value(test) else orelse)
            case ast.Subscript(value=value, slice=index):
                return self._item(self.value(value), index)
            case ast.Attribute(value=value, attr=name):
                return attribute(self.value(value), name)
            case ast.Lambda(args=arguments, body=expression):
                return self._function(arguments, expression)
            case ast.ListComp(elt=element, generators=[loop]) | ast.GeneratorExp(elt=element, generators=[loop]):
                return self._comprehension(element, loop)
            case ast.Call():
                return self._call(node)
            case _:
                raise NotUnderstood

    def _key(self, key: Any) -> Any:
        if not isinstance(key, str | int | tuple):
            raise NotUnderstood
        return key

    def _formatted(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.FormattedValue(value=value, conversion=conversion, format_spec=spec):
                shown = "" if spec is None else self.value(spec)
                return formatted(self.value(value), conversion, shown)
            case _:
                raise NotUnderstood

    def _item(self, holder: Any, index: ast.expr) -> Any:
        if not isinstance(holder, str | bytes | list | tuple | dict | re.Match):
            raise NotUnderstood
        try:
            if isinstance(index, ast.Slice) and isinstance(holder, str | bytes | list | tuple):
                parts = [None if p is None else self.value(p) for p in (index.lower, index.upper, index.step)]
                return holder[slice(*parts)]
            return holder[self._key(self.value(index))]
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise Failed from error

    def _comprehension(self, element: ast.expr, loop: ast.comprehension) -> list[Any]:
        found: list[Any] = []
        outer = dict(self._local[-1]) if self._local else {}
        items = self._items(self.value(loop.iter))
        self._local.append(outer)
        for item in items:
            self._assign(loop.target, item)
            if all(self.value(test) for test in loop.ifs):
                found.append(self.value(element))
        self._local.pop()
        return found

    # -- calls ----------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Any:
        given: list[Any] = []
        target = node.func
        holder: Any = None
        if isinstance(target, ast.Attribute):
            holder = self.value(target.value)
            is_function = isinstance(holder, tuple) and holder[:1] == ("module",)
            called: Any = ("function", f"{holder[1]}.{target.attr}") if is_function else None
            if isinstance(holder, tuple) and holder[:1] == ("function",):
                raise NotUnderstood
        else:
            called = self.value(target)
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                given += self._items(self.value(argument.value))
            else:
                given.append(self.value(argument))
        named = {word.arg: self.value(word.value) for word in node.keywords if word.arg is not None}
        if len(named) != len(node.keywords):
            raise NotUnderstood
        if called is None:
            return self._method(holder, target.attr if isinstance(target, ast.Attribute) else "", given, named)
        return self.invoke(called, given, named)

    def invoke(self, called: Any, given: list[Any], named: Mapping[str, Any]) -> Any:
        """Call a function: the program's own, or one that is understood."""
        if isinstance(called, _Function):
            return self._invoke_own(called, given, named)
        if not (isinstance(called, tuple) and called[:1] == ("function",)):
            raise NotUnderstood
        function = _FUNCTIONS.get(called[1])
        if function is None:
            raise NotUnderstood
        try:
            return function(self, *given, **named)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise NotUnderstood from error

    def _invoke_own(self, function: _Function, given: list[Any], named: Mapping[str, Any]) -> Any:
        if len(self._local) > _DEEPEST or len(given) > len(function.names) or not named.keys() <= set(function.names):
            raise NotUnderstood
        defaults = dict(
            zip(function.names[len(function.names) - len(function.defaults) :], function.defaults, strict=True)
        )
        scope = defaults | dict(zip(function.names, given, strict=False)) | dict(named)
        if scope.keys() != set(function.names):
            raise Failed
        self._local.append(scope)
        try:
            if isinstance(function.body, list):
                self.run(function.body)
                return None
            return self.value(function.body)
        except _Return as returned:
            return returned.args[0]
        finally:
            self._local.pop()

    def _method(self, holder: Any, name: str, given: list[Any], named: Mapping[str, Any]) -> Any:
        if isinstance(holder, _File):
            return self._file_method(holder, name, given, named)
        if isinstance(holder, PathValue):
            function = _PATH_METHODS.get(name)
            if function is None:
                raise NotUnderstood
            try:
                return function(self, holder, *given, **named)
            except TypeError as error:
                raise NotUnderstood from error
        if isinstance(holder, re.Pattern) and name in ("sub", "search", "match", "findall"):
            return _FUNCTIONS[f"re.{name}"](self, holder, *given, **named)
        return call_method(holder, name, given, named)

    def _file_method(self, file: _File, name: str, given: list[Any], named: Mapping[str, Any]) -> Any:
        if named:
            raise NotUnderstood
        match name, given:
            case "read", []:
                return file.read()
            case "readlines", []:
                return file.lines()
            case "write", [text]:
                return file.write(text)
            case "writelines", [list() | tuple() as lines]:
                for line in lines:
                    file.write(line)
                return None
            case "seek", [0]:
                file.position = 0
                return 0
            case "truncate", []:
                file.truncate()
                return None
            case (("close" | "flush"), []):
                return None
            case _:
                raise NotUnderstood


# -- functions ----------------------------------------------------------------------------------


def _open(
    program: _Program, path: Any, mode: str = "r", *, encoding: Any = None, newline: Any = None, errors: Any = None
) -> _File:
    if encoding not in (None, "utf-8", "utf8", "UTF-8") or newline not in (None, "", "\n") or errors is not None:
        raise NotUnderstood
    if mode.replace("b", "").replace("t", "") not in ("r", "w", "a", "x", "r+"):
        raise NotUnderstood
    return _File(program, program.place(path), mode, newline)


def _print(
    program: _Program, *values: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: Any = None
) -> None:
    text = sep.join(str(plain(value)) for value in values) + end
    if file is None or file == ("value", "sys.stdout"):
        program.printed.append(text)
    elif file != ("value", "sys.stderr"):
        raise NotUnderstood


def _exit(program: _Program, status: Any = None) -> None:
    raise _Exit(status in (None, 0))


def _sub(program: _Program, pattern: Any, new: Any, text: Any, count: int = 0, flags: int = 0) -> Any:
    found = safe_pattern(pattern, text, flags)
    if isinstance(new, _Function):
        given = new

        def made(match: re.Match[Any]) -> Any:
            return program.invoke(given, [match], {})

        return checked(found.sub(made, text, count=count))
    if not isinstance(new, str | bytes):
        raise NotUnderstood
    try:
        return checked(found.sub(new, text, count=count))
    except (re.error, IndexError) as error:
        raise Failed from error


def _search(method: str) -> Callable[..., Any]:
    def run(program: _Program, pattern: Any, text: Any, flags: int = 0) -> Any:
        return getattr(safe_pattern(pattern, text, flags), method)(text)

    return run


def _compile(program: _Program, pattern: Any, flags: int = 0) -> Any:
    return safe_pattern(pattern, "" if isinstance(pattern, str) else b"", flags)


def _exists(kinds: tuple[str, ...]) -> Callable[..., bool]:
    def run(program: _Program, path: Any) -> bool:
        kind = program.disk.kind(program.place(path))
        if kind == "unknown":
            raise NotUnderstood
        return kind in kinds

    return run


def _remove(program: _Program, path: Any, missing_ok: bool = False) -> None:
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


def _make_folder(program: _Program, path: Any, *, parents: bool = True, exist_ok: bool = False) -> None:
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


def _write_text(program: _Program, path: PathValue, text: Any, encoding: Any = None, newline: Any = None) -> int:
    return _open(program, path, "w", encoding=encoding, newline=newline).write(text)


def _copy(program: _Program, source: Any, target: Any) -> None:
    new = program.place(target)
    if program.disk.kind(new) not in ("file", "none"):
        raise NotUnderstood
    program.write(new, program.read(program.place(source)))


def _load(program: _Program, file: Any) -> Any:
    return _loads(program, file.read())


def _loads(program: _Program, text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Failed from error


_DUMPING = frozenset(("indent", "ensure_ascii", "sort_keys", "separators"))


def _dumps(program: _Program, data: Any, **named: Any) -> str:
    indent = named.get("indent")
    if not named.keys() <= _DUMPING or (isinstance(indent, int) and indent > 16):
        raise NotUnderstood
    return checked(json.dumps(plain(data), **named))


def _dump(program: _Program, data: Any, file: Any, **named: Any) -> None:
    file.write(_dumps(program, data, **named))


def _sorted(program: _Program, items: Any) -> Any:
    try:
        return sorted(program._items(items))
    except TypeError as error:
        raise Failed from error


_FUNCTIONS: dict[str, Callable[..., Any]] = {
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
    "enumerate": lambda program, items, start=0: list(enumerate(program._items(items), start)),
    "zip": lambda program, *items: list(zip(*(program._items(i) for i in items), strict=False)),
    "list": lambda program, items=(): list(program._items(items)),
    "tuple": lambda program, items=(): tuple(program._items(items)),
    "sorted": _sorted,
    "reversed": lambda program, items: list(reversed(program._items(items))),
    "any": lambda program, items: any(program._items(items)),
    "all": lambda program, items: all(program._items(items)),
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


_PATH_METHODS: dict[str, Callable[..., Any]] = {
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


# -- programs -----------------------------------------------------------------------------------


def python(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``python``: code in the line, or a script whose text the state holds."""
    words = args[1:]
    while words and re.fullmatch(r"-[uBsEIOS]+", words[0].text):
        words = words[1:]
    if not words or words[0].text == "-":
        if streams.stdin is None or len(words) > 1:
            raise Unsupported
        return _interpreted(machine, "python -", streams.stdin.decode("utf-8", "surrogateescape"))
    if words[0].text == "-c":
        if len(words) != 2 or not words[1].is_known:
            raise Unsupported
        return _interpreted(machine, "python -c", words[1].text)
    if words[0].text.startswith("-") or not words[0].is_known:
        raise Unsupported
    place = machine.place(words[0].text)
    is_own = place.path in (machine.effects.files.differing if place.is_inside else machine.effects.outside)
    data = machine.disk.read(place) if is_own else None
    if not isinstance(data, bytes):
        raise Unsupported
    code = data.decode("utf-8", "surrogateescape")
    return _interpreted(machine, words[0].text, code, has_arguments=len(words) > 1)


def _interpreted(machine: Machine, name: str, code: str, *, has_arguments: bool = False) -> Result:
    """Run the code on the state, or say what it may have touched."""
    before = machine.effects.snapshot()
    program = _Program(machine)
    try:
        status = _run(program, code) if not has_arguments else None
    except (NotUnderstood, RecursionError):
        status = None
    if status is not None:
        return Result(status, encoded("".join(program.printed)))
    machine.effects.go_back(before)
    for operation in script_of(name, code, machine.context):
        machine.carry_out(operation)
    return Result(None, None, False)


def _run(program: _Program, code: str) -> bool | None:
    if len(code) > _LONGEST or "\0" in code:
        raise NotUnderstood
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError) as error:
        raise NotUnderstood from error
    try:
        program.run(tree.body)
    except Failed:
        return False
    except _Exit as left:
        return bool(left.args[0])
    except (_Return, _Break, _Continue) as error:
        raise NotUnderstood from error
    return True


PROGRAMS: dict[str, Builtin] = {"python": python, "python3": python}
"""Programs by name."""
