"""Values of the small programs that ``inline`` interprets: what may be done with them, and how much of it.

Nothing here reaches beyond texts, numbers, lists and dictionaries. Everything has a limit: the code is hostile until
shown otherwise.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Mapping, Sized
from typing import Any, NamedTuple, TypeVar

LONGEST = 8_000_000
"""Characters of one text, or items of one list."""
_MOST_WORK = 50_000_000
"""Steps that matching a pattern may cost."""


class NotUnderstood(Exception):
    """The program does something that is not interpreted here."""


class Failed(Exception):
    """The program ends with an error of its own."""


class Function:
    """A function of the program. ``scopes``: where it finds names that are not its own, the innermost last."""

    def __init__(
        self, names: list[str], defaults: list[Any], body: list[ast.stmt] | ast.expr, scopes: list[dict[str, Any]]
    ) -> None:
        self.names = names
        self.defaults = defaults
        self.body = body
        self.scopes = scopes
        self.own = assigned(body) if isinstance(body, list) else frozenset()
        """Names that it assigns: they are its own from its beginning."""


class OpenedFile:
    """What every open file is."""


def assigned(body: list[ast.stmt]) -> frozenset[str]:
    """Names that statements assign in their own scope."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
            continue
        if isinstance(node, ast.Lambda | ast.ListComp | ast.GeneratorExp):
            continue
        if isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        waiting += ast.iter_child_nodes(node)
    return frozenset(found)


class PathValue(NamedTuple):
    """A ``pathlib.Path``."""

    text: str

    @staticmethod
    def joined(parts: tuple[Any, ...]) -> PathValue:
        """The path of several parts."""
        texts = [part.text if isinstance(part, PathValue) else part for part in parts]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise NotUnderstood
        joined = posixpath.join(*texts)
        parts_kept = [part for part in joined.split("/") if part not in ("", ".")]
        return PathValue(("/" if joined.startswith("/") else "") + "/".join(parts_kept) or ".")


MODULES = frozenset(("re", "sys", "os", "os.path", "io", "pathlib", "json", "shutil"))
"""Modules that may be imported."""
_FLAGS = {"I": re.I, "M": re.M, "S": re.S, "X": re.X, "IGNORECASE": re.I, "MULTILINE": re.M, "DOTALL": re.S}
_T = TypeVar("_T")


def checked(text: _T) -> _T:
    """A text that is not too long."""
    if isinstance(text, Sized) and len(text) > LONGEST:
        raise NotUnderstood
    return text


def plain(value: Any) -> Any:
    """A value whose printed form is the same in any Python."""
    if value is None or isinstance(value, str | bytes | bool):
        return value
    if isinstance(value, int):
        if abs(value) > 10**18:
            raise NotUnderstood
        return value
    if isinstance(value, PathValue):
        return value.text
    if isinstance(value, list):
        return [_inner(item) for item in value]
    if isinstance(value, tuple) and value[:1] not in (("module",), ("function",), ("value",)):
        return tuple(_inner(item) for item in value)
    if isinstance(value, dict):
        return {key: _inner(item) for key, item in value.items()}
    raise NotUnderstood


def _inner(value: Any) -> Any:
    if isinstance(value, float):
        return value
    if isinstance(value, PathValue):
        raise NotUnderstood
    return plain(value)


def binary(op: ast.operator, a: Any, b: Any) -> Any:
    """``a op b``."""
    match op:
        case ast.Add() if type(a) is type(b) and isinstance(a, str | bytes | list | tuple):
            return checked(a + b)
        case ast.Add() if isinstance(a, int) and isinstance(b, int):
            return a + b
        case ast.Sub() if isinstance(a, int) and isinstance(b, int):
            return a - b
        case ast.Mult() if isinstance(a, str | list) and isinstance(b, int) and len(a) * b < LONGEST:
            return a * b
        case ast.Mult() if isinstance(a, int) and isinstance(b, int) and max(abs(a), abs(b)) < 10**9:
            return a * b
        case ast.FloorDiv() | ast.Mod() if isinstance(a, int) and isinstance(b, int) and b:
            return a // b if isinstance(op, ast.FloorDiv) else a % b
        case ast.BitOr() if isinstance(a, int) and isinstance(b, int):
            return a | b
        case ast.Div() if isinstance(a, PathValue) and isinstance(b, str | PathValue):
            return PathValue.joined((a, b))
        case ast.Mod() if isinstance(a, str):
            return _percent(a, b)
        case _:
            raise NotUnderstood


def _percent(form: str, values: Any) -> str:
    if re.search(r"%(?![sd%])", form):
        raise NotUnderstood
    try:
        return checked(str(form % plain(values)))
    except (TypeError, ValueError) as error:
        raise Failed from error


def compare(op: ast.cmpop, a: Any, b: Any) -> bool:
    """``a op b`` for comparisons."""
    try:
        match op:
            case ast.Eq():
                return bool(a == b)
            case ast.NotEq():
                return bool(a != b)
            case ast.Is():
                return a is b if a is None or b is None or isinstance(b, bool) else _beyond()
            case ast.IsNot():
                return a is not b if a is None or b is None or isinstance(b, bool) else _beyond()
            case ast.In():
                return bool(a in b) if isinstance(b, str | bytes | list | tuple | dict) else _beyond()
            case ast.NotIn():
                return bool(a not in b) if isinstance(b, str | bytes | list | tuple | dict) else _beyond()
            case ast.Lt():
                return bool(a < b)
            case ast.LtE():
                return bool(a <= b)
            case ast.Gt():
                return bool(a > b)
            case ast.GtE():
                return bool(a >= b)
            case _:
                raise NotUnderstood
    except TypeError as error:
        raise Failed from error


def _beyond() -> bool:
    raise NotUnderstood


def formatted(value: Any, conversion: int, spec: str) -> str:
    """One part of an f-string."""
    if spec and (not re.fullmatch(r"[<>^]?\d{0,3}[sd]?", spec) or not isinstance(value, str | int)):
        raise NotUnderstood
    found = plain(value)
    if conversion == ord("r"):
        found = repr(found)
    elif conversion not in (-1, ord("s")):
        raise NotUnderstood
    try:
        return format(found, spec) if spec else str(found)
    except (TypeError, ValueError) as error:
        raise Failed from error


def attribute(holder: Any, name: str) -> Any:
    """``holder.name``, where it is no method."""
    if isinstance(holder, tuple) and holder[:1] == ("module",):
        if holder[1] == "re" and name in _FLAGS:
            return int(_FLAGS[name])
        if holder[1] == "sys" and name in ("stdout", "stderr"):
            return ("value", f"sys.{name}")
        if holder[1] == "os" and name == "path":
            return ("module", "os.path")
        if holder[1] == "os" and name == "sep":
            return "/"
        if f"{holder[1]}.{name}" in ("pathlib.Path", "re.sub", "os.path.join"):
            return ("function", f"{holder[1]}.{name}")
        raise NotUnderstood
    if isinstance(holder, PathValue):
        path = holder.text
        base = path.rsplit("/", 1)[-1]
        stem, dot, suffix = base.rpartition(".")
        match name:
            case "name":
                return base
            case "suffix":
                return f".{suffix}" if dot and stem else ""
            case "stem":
                return stem if dot and stem else base
            case "parent":
                return PathValue(posixpath.dirname(path) or ".")
    raise NotUnderstood


_TEXT_METHODS = frozenset(
    (
        *("replace", "strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "startswith", "endswith", "find"),
        *("rfind", "index", "rindex", "count", "partition", "rpartition", "removeprefix", "removesuffix", "join"),
        *("upper", "lower", "encode", "decode", "title", "capitalize", "isspace", "isdigit", "isupper", "islower"),
    )
)
_LIST_METHODS = frozenset(("append", "insert", "index", "pop", "extend", "remove", "reverse", "copy", "count"))
_DICT_METHODS = frozenset(("get", "keys", "values", "items", "pop", "setdefault", "update"))
_MATCH_METHODS = frozenset(("group", "groups", "start", "end", "span"))


def call_method(holder: Any, name: str, given: list[Any], named: Mapping[str, Any]) -> Any:
    """``holder.name(…)`` of a text, a list, a dictionary or a match."""
    if any(isinstance(item, tuple) and item[:1] in (("function",), ("module",)) for item in given):
        raise NotUnderstood
    if isinstance(holder, str | bytes):
        if name not in _TEXT_METHODS or not named.keys() <= {"keepends", "maxsplit"}:
            raise NotUnderstood
        if name in ("encode", "decode") and given not in ([], ["utf-8"], ["utf8"]):
            raise NotUnderstood
        if name == "replace":
            _check_growth(holder, given)
        if name == "join" and given and isinstance(given[0], Sized):
            _check_length(len(holder) * len(given[0]))
    elif isinstance(holder, list):
        if name not in _LIST_METHODS or named or len(holder) > 100_000:
            raise NotUnderstood
    elif isinstance(holder, dict):
        if name not in _DICT_METHODS or named or len(holder) > 100_000:
            raise NotUnderstood
    elif isinstance(holder, re.Match):
        if name not in _MATCH_METHODS or named:
            raise NotUnderstood
    else:
        raise NotUnderstood
    try:
        found = getattr(holder, name)(*given, **named)
    except (ValueError, IndexError, KeyError, UnicodeError) as error:
        raise Failed from error
    except (TypeError, AttributeError) as error:
        raise Failed from error
    if isinstance(found, str | bytes):
        return checked(found)
    return list(found) if isinstance(holder, dict) and name in ("keys", "values", "items") else found


def _check_growth(text: Any, given: list[Any]) -> None:
    if len(given) < 2 or type(given[0]) is not type(text) or type(given[1]) is not type(text):
        raise Failed
    times = text.count(given[0]) if given[0] else len(text) + 1
    _check_length(len(text) + times * len(given[1]))


def _check_length(length: int) -> None:
    if length > LONGEST:
        raise NotUnderstood


def substituted(found: re.Pattern[Any], new: Any, text: Any, count: int) -> Any:
    """``re.sub`` with a text to put in, whose result is not too long."""
    times = sum(1 for _ in found.finditer(text))
    mark = "\\" if isinstance(new, str) else b"\\"
    copied = new.count(mark) * len(text)  # what groups bring: each match its own, unless they look ahead
    looks_ahead = ("(?" if isinstance(found.pattern, str) else b"(?") in found.pattern
    _check_length(len(text) + times * len(new) + copied * (times if looks_ahead else 1))
    try:
        return found.sub(new, text, count=count)
    except (re.error, IndexError) as error:
        raise Failed from error


_NESTED = re.compile(r"\)(?:[*+{])")
_CHOICE = re.compile(r"(?<!\()\?|\|")
"""What a matcher may try in two ways: options, and alternatives."""
_UNBOUNDED = re.compile(r"(?<!\\)(?:[*+]|\{\d*,\d*\})")


def safe_pattern(pattern: Any, text: Any, flags: int) -> tuple[re.Pattern[Any], int]:
    """A compiled pattern whose matching cannot take long on ``text``, and the steps that it may take at most."""
    if isinstance(pattern, re.Pattern):
        source, flags = pattern.pattern, pattern.flags & (re.I | re.M | re.S | re.X)
    else:
        source = pattern
    if not isinstance(source, str | bytes) or type(source) is not type(text) or not isinstance(flags, int):
        raise NotUnderstood
    shown = source if isinstance(source, str) else source.decode("latin-1")
    if len(shown) > 5_000 or _NESTED.search(shown) or re.search(r"\\[1-9]|\(\?P=|\(\?<|\(\?\(", shown):
        raise NotUnderstood
    repeats = len(_UNBOUNDED.findall(shown))
    crosses = bool(flags & re.S) or "(?s" in shown or re.search(r"\[\^|\\[sSWD]", shown) is not None or "\\n" in shown
    lines = text.split("\n") if isinstance(text, str) else text.split(b"\n")
    reach = len(text) if crosses else max(map(len, lines))
    steps = (len(text) + 1) * max(reach, 2) ** repeats << len(_CHOICE.findall(shown))
    if steps > _MOST_WORK:
        raise NotUnderstood
    try:
        return re.compile(source, flags), steps
    except (re.error, OverflowError, RecursionError) as error:
        raise Failed from error
