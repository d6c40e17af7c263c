"""The statements and expressions of a small Python program, interpreted on the state.

What may be done with values is in ``values``, what functions do in ``functions``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from handoff.states.shell.disk import Disk, Place
from handoff.states.shell.machine import Machine
from handoff.states.shell.values import (
    MODULES,
    Failed,
    Function,
    NotUnderstood,
    OpenedFile,
    PathValue,
    attribute,
    binary,
    call_method,
    checked,
    compare,
    formatted,
)
from handoff.states.shell.work import Work
from handoff.states.versions import UNSURE

_MOST_STEPS = 50_000
_DEEPEST = 40
_LONGEST = 8_000_000
_LIGHT = frozenset(("len", "any", "all", "enumerate", "zip", "reversed", "list", "tuple"))
"""Functions that do not go into what their values hold; they go over it through ``lazy`` and ``items``."""
_CONSUMERS = frozenset(("join", "extend", "writelines"))
"""Methods that go over what they are given."""
_SCANNING = frozenset(("index", "remove", "count", "copy"))
"""Methods of lists that go over the list."""


Named: TypeAlias = Callable[..., Any]
"""A function that is understood: the program, then its arguments."""


class Return(Exception):
    """``return``, with its value in ``args[0]``."""


class Break(Exception):
    """``break``."""


class Continue(Exception):
    """``continue``."""


class Exit(Exception):
    """``sys.exit``, with its status in ``args[0]``."""


class OpenFile(OpenedFile):
    """An open file. Every write reaches the state at once; ``Program.read`` minds those that in truth wait."""

    def __init__(self, program: Program, place: Place, mode: str, newline: str | None) -> None:
        self.is_text = "b" not in mode
        self._translates = self.is_text and newline is None
        self._program, self._place = program, place
        self.kind = mode.replace("b", "").replace("t", "")
        self.data = b""
        self.position = 0
        self.is_held = False
        """Whether a name holds it: what is written waits then until it is closed."""
        self._has_read = False
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
        if not self._has_read and self._program.read(self._place) != self.data:
            raise NotUnderstood  # changed between opening and reading it
        self._has_read = True
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
        self._program.work.spend(4 * len(raw) + len(self.data) // 8)
        self._program.write(self._place, self.data)
        self._has_read = True
        if self.is_held:
            self._program.waiting.add(self._place.path)
        return len(text)

    def close(self) -> None:
        """Nothing waits any longer."""
        self._program.waiting.discard(self._place.path)

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


class Program:
    """One program being interpreted."""

    def __init__(self, machine: Machine, functions: Mapping[str, Named], path_methods: Mapping[str, Named]) -> None:
        self.machine = machine
        self._functions = functions
        self._path_methods = path_methods
        self.disk: Disk = machine.disk
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed: list[str] = []
        self._local: list[dict[str, Any]] = []
        self._scopes: list[dict[str, Any]] = [self.names]
        """Where names are looked for, the innermost last."""
        self._owner: dict[str, Any] | None = None
        self._own: frozenset[str] = frozenset()
        """The names of the function that runs, and those that it assigns somewhere."""
        self._steps = 0
        self.work = Work()
        """What it may still cost."""
        self.waiting: set[str] = set()
        """Files with writes that have not reached them yet."""

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
        if data is UNSURE or place.path in self.waiting:
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
                    if f"{module}.{alias.name}" not in self._functions and alias.name != "Path":
                        raise NotUnderstood
                    self._set(alias.asname or alias.name, ("function", f"{module}.{alias.name}"))
            case ast.Assign(targets=targets, value=value):
                found = self.value(value)
                for target in targets:
                    self._assign(target, found)
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                self._assign(target, self.value(value))
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                old, more = self._name(name), self.value(value)
                if isinstance(old, list):  # changed in place
                    if not isinstance(op, ast.Add):
                        raise NotUnderstood
                    old += self.work.made(self.items(more))
                    checked(old)
                else:
                    self._set(name, self._binary(op, old, more))
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
                files: list[OpenFile] = []
                for item in items:
                    opened = self.value(item.context_expr)
                    if not isinstance(opened, OpenFile):
                        raise NotUnderstood
                    opened.is_held = True
                    if item.optional_vars is not None:
                        self._assign(item.optional_vars, opened)
                    files.append(opened)
                self.run(body)
                for opened in files:
                    opened.close()
            case ast.FunctionDef(name=name, args=arguments, body=body, decorator_list=[]):
                self._set(name, self._function(arguments, body))
            case ast.Return(value=value):
                raise Return(None if value is None else self.value(value))
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
                raise Break
            case ast.Continue():
                raise Continue
            case _:
                raise NotUnderstood

    def _for(self, target: ast.expr, iterable: ast.expr, body: list[ast.stmt]) -> None:
        try:
            for item in self.lazy(self.value(iterable)):
                self._assign(target, item)
                try:
                    self.run(body)
                except Continue:
                    continue
                except Break:
                    break
        except RuntimeError as error:  # a dictionary that changes while a loop goes over it
            raise NotUnderstood from error

    def lazy(self, found: Any) -> Iterable[Any]:
        """What a loop goes over. As in Python, it meets what the loop itself changes."""
        if isinstance(found, OpenFile):
            return found.lines()
        if isinstance(found, list | tuple | str | range | dict | Iterator):
            return found
        raise NotUnderstood

    def items(self, found: Any) -> list[Any]:
        """The same, all at once."""
        return self.work.made(list(self.lazy(found)))  # type: ignore[no-any-return]

    def _delete(self, holder: Any, key: Any) -> None:
        if not isinstance(holder, dict | list) or (isinstance(holder, list) and not isinstance(key, int | slice)):
            raise NotUnderstood
        try:
            del holder[key]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise Failed from error

    def _function(self, arguments: ast.arguments, body: list[ast.stmt] | ast.expr) -> Function:
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
            raise NotUnderstood
        defaults = [self.value(default) for default in arguments.defaults]
        return Function([a.arg for a in arguments.args], defaults, body, list(self._scopes))

    def _set(self, name: str, found: Any) -> None:
        if isinstance(found, OpenFile):
            found.is_held = True
        (self._local[-1] if self._local else self.names)[name] = found

    def _name(self, name: str) -> Any:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
            if scope is self._owner and name in self._own:
                raise Failed  # its own, and not assigned yet
        if name in ("True", "False", "None"):
            return {"True": True, "False": False, "None": None}[name]
        if name in self._functions:
            return ("function", name)
        raise NotUnderstood

    def _assign(self, target: ast.expr, found: Any) -> None:
        match target:
            case ast.Name(id=name):
                self._set(name, found)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                items = self.items(found)
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
                        holder[key] = self.items(found) if isinstance(key, slice) else found
                        checked(holder)
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
        found = self._value(node)
        return found if isinstance(node, ast.Constant | ast.Name | ast.Attribute) else self.work.made(found)

    def _binary(self, op: ast.operator, a: Any, b: Any) -> Any:
        if isinstance(op, ast.Mod):
            self.work.weigh(a, b)
        return binary(op, a, b)

    def _value(self, node: ast.expr) -> Any:
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
                return self._joined(values)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left), self.value(right))
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
                    if not isinstance(sign, ast.Is | ast.IsNot):
                        self.work.weigh(first, second)
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
            case ast.ListComp(elt=element, generators=[loop]):
                return self._comprehension(element, loop)
            case ast.GeneratorExp(elt=element, generators=[loop]):
                return iter(self._comprehension(element, loop))
            case ast.Call():
                return self._call(node)
            case _:
                raise NotUnderstood

    def _key(self, key: Any) -> Any:
        if not isinstance(key, str | int | tuple):
            raise NotUnderstood
        self.work.weigh(key)
        return key

    def _joined(self, values: list[ast.expr]) -> str:
        parts: list[str] = []
        length = 0
        for item in values:
            parts.append(self._formatted(item))
            length += len(parts[-1])
            self.work.spend(len(parts[-1]))
            if length > _LONGEST:
                raise NotUnderstood
        return "".join(parts)

    def _formatted(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.FormattedValue(value=value, conversion=conversion, format_spec=spec):
                shown = "" if spec is None else self.value(spec)
                found = self.value(value)
                self.work.weigh(found)
                return formatted(found, conversion, shown)
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
        items = self.lazy(self.value(loop.iter))
        own: dict[str, Any] = {}
        self._local.append(own)
        self._scopes.append(own)
        try:
            for item in items:
                self._assign(loop.target, item)
                if all(self.value(test) for test in loop.ifs):
                    found.append(self.value(element))
                    self.work.spend(64)
        finally:
            self._local.pop()
            self._scopes.pop()
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
                given += self.items(self.value(argument.value))
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
        if isinstance(called, Function):
            return self._invoke_own(called, given, named)
        if not (isinstance(called, tuple) and called[:1] == ("function",)):
            raise NotUnderstood
        function = self._functions.get(called[1])
        if function is None:
            raise NotUnderstood
        if called[1] not in _LIGHT:
            self.work.weigh(*given, *named.values())
        try:
            return function(self, *given, **named)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise NotUnderstood from error

    def _invoke_own(self, function: Function, given: list[Any], named: Mapping[str, Any]) -> Any:
        if len(self._local) > _DEEPEST or len(given) > len(function.names) or not named.keys() <= set(function.names):
            raise NotUnderstood
        defaults = dict(
            zip(function.names[len(function.names) - len(function.defaults) :], function.defaults, strict=True)
        )
        scope = defaults | dict(zip(function.names, given, strict=False)) | dict(named)
        if scope.keys() != set(function.names):
            raise Failed
        outer = self._scopes, self._owner, self._own
        self._scopes, self._owner, self._own = [*function.scopes, scope], scope, function.own
        self._local.append(scope)
        try:
            if isinstance(function.body, list):
                self.run(function.body)
                return None
            return self.value(function.body)
        except Return as returned:
            return returned.args[0]
        finally:
            self._local.pop()
            self._scopes, self._owner, self._own = outer

    def _method(self, holder: Any, name: str, given: list[Any], named: Mapping[str, Any]) -> Any:
        given = [self.items(item) if isinstance(item, Iterator) and name in _CONSUMERS else item for item in given]
        self.work.weigh(*given, *named.values())
        if isinstance(holder, str | bytes) or name in _SCANNING:
            self.work.weigh(holder)
        if isinstance(holder, OpenFile):
            return self._file_method(holder, name, given, named)
        if isinstance(holder, PathValue):
            function = self._path_methods.get(name)
            if function is None:
                raise NotUnderstood
            try:
                return function(self, holder, *given, **named)
            except TypeError as error:
                raise NotUnderstood from error
        if isinstance(holder, re.Pattern) and name in ("sub", "search", "match", "findall"):
            return self._functions[f"re.{name}"](self, holder, *given, **named)
        return call_method(holder, name, given, named)

    def _file_method(self, file: OpenFile, name: str, given: list[Any], named: Mapping[str, Any]) -> Any:
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
                file.close()
                return None
            case _:
                raise NotUnderstood
