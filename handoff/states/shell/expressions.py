"""The expressions of a small Python program, and the calls in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from handoff.states.shell.machine import Machine
from handoff.states.shell.openfile import Files, OpenFile
from handoff.states.shell.values import (
    LONGEST,
    Failed,
    Function,
    NotUnderstood,
    PathValue,
    attribute,
    binary,
    call_method,
    checked,
    compare,
    formatted,
)

_MOST_STEPS = 50_000
_DEEPEST = 40
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


class Expressions(Files):
    """What expressions are worth. Statements are in ``interpreter``."""

    def __init__(self, machine: Machine, functions: Mapping[str, Named], path_methods: Mapping[str, Named]) -> None:
        super().__init__(machine)
        self.functions = functions
        self._path_methods = path_methods
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed: list[str] = []
        self._local: list[dict[str, Any]] = []
        self._scopes: list[dict[str, Any]] = [self.names]
        """Where names are looked for, the innermost last."""
        self._owner: dict[str, Any] | None = None
        self._own: frozenset[str] = frozenset()
        """The names of the function that runs, and those that it assigns somewhere."""
        self._steps = 0

    def run(self, body: list[ast.stmt]) -> None:
        """Statements in order."""
        raise NotImplementedError

    def count_step(self) -> None:
        """One more statement or expression; ``NotUnderstood`` after too many."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise NotUnderstood

    # -- names and values

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

    def defined(self, arguments: ast.arguments, body: list[ast.stmt] | ast.expr) -> Function:
        """A function of the program."""
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
            raise NotUnderstood
        defaults = [self.value(default) for default in arguments.defaults]
        return Function([a.arg for a in arguments.args], defaults, body, list(self._scopes))

    def set(self, name: str, found: Any) -> None:
        """Give a name its value."""
        if isinstance(found, OpenFile):
            found.is_held = True
        (self._local[-1] if self._local else self.names)[name] = found

    def named(self, name: str) -> Any:
        """The value of a name."""
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
            if scope is self._owner and name in self._own:
                raise Failed  # its own, and not assigned yet
        if name in ("True", "False", "None"):
            return {"True": True, "False": False, "None": None}[name]
        if name in self.functions:
            return ("function", name)
        raise NotUnderstood

    def assign(self, target: ast.expr, found: Any) -> None:
        """Assign to names, items or parts."""
        match target:
            case ast.Name(id=name):
                self.set(name, found)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                items = self.items(found)
                if len(items) != len(elements):
                    raise Failed
                for element, item in zip(elements, items, strict=True):
                    self.assign(element, item)
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

    # -- expressions

    def value(self, node: ast.expr) -> Any:
        """The value of an expression."""
        self.count_step()
        found = self._value(node)
        return found if isinstance(node, ast.Constant | ast.Name | ast.Attribute) else self.work.made(found)

    def operated(self, op: ast.operator, a: Any, b: Any) -> Any:
        """``a op b``."""
        if isinstance(op, ast.Mod):
            self.work.weigh(a, b)
        return binary(op, a, b)

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=found):
                return found
            case ast.Name(id=name):
                return self.named(name)
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
                return self.operated(op, self.value(left), self.value(right))
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
                return self.defined(arguments, expression)
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
            if length > LONGEST:
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
                self.assign(loop.target, item)
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
        function = self.functions.get(called[1])
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
            return self.functions[f"re.{name}"](self, holder, *given, **named)
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
