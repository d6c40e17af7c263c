"""What a typed reading leaves behind: every field of a record that no struct names, counted by its path.

An adapter says what it reads with msgspec structs. Decoding first tries a strict twin of the struct, which refuses
unknown fields: where that works, nothing was left behind and nothing more is done. Where it does not, the value is
decoded as it is, and ``unread`` walks it beside the struct's fields. So a record in a well-known shape costs nothing.

A field that an adapter knows and leaves on purpose is named in its struct with one of the types below; it is
counted too, with its reason if it has one. Null and empty values carry nothing, so they are not counted.
"""

from __future__ import annotations

import types
import typing
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

REPEATED = "repeats what is kept elsewhere"
SEALED = "answers and evaluation: kept out on purpose"
UPKEEP = "upkeep of the harness: says nothing about the run"

Repeated = Annotated[msgspec.Raw, msgspec.Meta(extra={"aside": REPEATED})]
"""A field that only repeats what another holds."""
Sealed = Annotated[msgspec.Raw, msgspec.Meta(extra={"aside": SEALED})]
"""Hidden tests, reference patches, evaluation logs: what the run could not see."""
Upkeep = Annotated[msgspec.Raw, msgspec.Meta(extra={"aside": UPKEEP})]
"""Bookkeeping of the client: display state, feature flags, object versions."""

Unhoused = Annotated[msgspec.Raw, msgspec.Meta(extra={"aside": ""})]
"""A field that tells of the run what a trajectory has no place for: how long a call took, one part of a sum. It counts
as without a home, like a field that no struct names, and costs no walk through the record."""

NOTHING = msgspec.Raw(b"null")
"""The default of such a field."""

Losses = Counter[tuple[str, str | None]]
"""(path, reason) → how often. The path is like ``$.messages[].name``; no reason: the field found no home."""

_MOST_PATHS = 200
_LONGEST_PATH = 160
_EMPTY: tuple[Any, ...] = (None, "", [], {})

_STRICT: dict[Any, Any] = {}
_FIELDS: dict[Any, dict[str, tuple[str | None, Any]]] = {}
_ASIDE: dict[Any, tuple[tuple[str, str, str | None], ...]] = {}


def strict(kind: Any) -> Any:
    """The twin of a type in which no struct accepts an unknown field. Its values are values of ``kind`` as well."""
    found = _STRICT.get(kind)
    if found is None:
        found = _STRICT[kind] = _twin(kind, {})
    return found


def _twin(kind: Any, begun: dict[Any, Any]) -> Any:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind in begun:
            return begun[kind]  # a forward reference: the struct holds itself
        name = f"_Strict{len(_STRICT)}_{len(begun)}_{kind.__name__}"
        begun[kind] = name
        fields: list[Any] = []
        for field in msgspec.structs.fields(kind):
            inner = _twin(field.type, begun)
            # Only what changed is named again: tags, encodings and orders stay as they are.
            if inner is not field.type:
                fields.append((field.name, inner, *_default(field)))
        twin = msgspec.defstruct(
            name, fields, bases=(kind,), forbid_unknown_fields=True, kw_only=True, gc=False, module=__name__
        )
        globals()[name] = twin  # where msgspec looks a forward reference up
        begun[kind] = twin
        return twin
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is None or origin is Annotated or not arguments:
        return kind
    inner_types = [_twin(argument, begun) if argument is not ... else ... for argument in arguments]
    if all(new is old for new, old in zip(inner_types, arguments, strict=True)):
        return kind
    if origin in (Union, types.UnionType):
        return Union[tuple(typing.ForwardRef(t) if isinstance(t, str) else t for t in inner_types)]  # noqa: UP007
    inner_types = [typing.ForwardRef(t) if isinstance(t, str) else t for t in inner_types]
    return origin[tuple(inner_types)]


def _default(field: Any) -> tuple[Any, ...]:
    if field.default is not msgspec.NODEFAULT:
        return (field.default,)
    if field.default_factory is not msgspec.NODEFAULT:
        return (msgspec.field(default_factory=field.default_factory),)
    return ()


def unread(value: Any, kind: Any, path: str, losses: Losses) -> None:
    """Count into ``losses`` what ``kind`` does not name of ``value``, a parsed JSON value that ``kind`` accepts."""
    if not isinstance(value, dict | list):
        return
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if isinstance(value, dict):
            _unread_fields(value, kind, path, losses)
        return
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        chosen = _member(value, arguments)
        if chosen is not None:
            unread(value, chosen, path, losses)
    elif origin in (list, tuple) and isinstance(value, list):
        for item in value:
            unread(item, arguments[0], path + "[]", losses)
    elif origin is dict and isinstance(value, dict):
        for item in value.values():
            unread(item, arguments[1], path + ".*", losses)


def _unread_fields(value: dict[str, Any], kind: Any, path: str, losses: Losses) -> None:
    tag = kind.__struct_config__.tag_field
    named = _named(kind)
    for key, item in value.items():
        if key in named:
            aside, inner = named[key]
            if aside is not None:
                if item not in _EMPTY:
                    count(losses, f"{path}.{key}", aside or None)
            elif isinstance(item, dict | list):
                unread(item, inner, f"{path}.{key}", losses)
        elif key != tag and item not in _EMPTY:
            count(losses, f"{path}.{key}")


def _named(kind: Any) -> dict[str, tuple[str | None, Any]]:
    found = _FIELDS.get(kind)
    if found is None:
        found = _FIELDS[kind] = {
            field.encode_name: (_reason(field.type), field.type) for field in msgspec.structs.fields(kind)
        }
    return found


def _reason(kind: Any) -> str | None:
    if get_origin(kind) is Annotated:
        for note in get_args(kind)[1:]:
            if isinstance(note, msgspec.Meta) and note.extra and "aside" in note.extra:
                return str(note.extra["aside"])
    return None


def _member(value: Any, kinds: tuple[Any, ...]) -> Any:
    """The member of a union that a value was read as."""
    for kind in kinds:
        origin = get_origin(kind) or kind
        if isinstance(value, dict) and isinstance(origin, type):
            if origin is dict:
                return kind
            if issubclass(origin, msgspec.Struct):
                config = origin.__struct_config__
                if config.tag is None or value.get(config.tag_field) == config.tag:
                    return kind
        elif isinstance(value, list) and origin in (list, tuple):
            return kind
    return None


def set_aside(values: list[Any], path: str, losses: Losses) -> None:
    """Count the fields of *decoded* values that their structs set aside; nothing else was left behind.

    ``values`` all stand at ``path``. They are looked at field by field, not one by one: a run has many messages.
    """
    for kind, same in _by_kind(values):
        if issubclass(kind, msgspec.Struct):
            for name, key, reason in _asides(kind):
                items = [item for value in same if (item := getattr(value, name)) is not None and item is not NOTHING]
                if not items:
                    continue
                if reason is None:
                    set_aside(items, f"{path}.{key}", losses)
                elif times := sum([bytes(item) not in _EMPTY_BYTES for item in items]):
                    count(losses, f"{path}.{key}", reason or None, times)
        elif kind is list:
            set_aside([item for value in same for item in value], path + "[]", losses)
        elif kind is dict:
            set_aside([item for value in same for item in value.values()], path + ".*", losses)


def _by_kind(values: list[Any]) -> Iterable[tuple[Any, list[Any]]]:
    """Values by their type, in the order of the first of each."""
    kinds = set(map(type, values))
    if len(kinds) == 1:
        return ((kinds.pop(), values),)
    found: dict[Any, list[Any]] = {}
    for value in values:
        found.setdefault(type(value), []).append(value)
    return found.items()


_EMPTY_BYTES = (b"null", b'""', b"[]", b"{}")


def _asides(kind: Any) -> tuple[tuple[str, str, str | None], ...]:
    """The fields of a struct that are set aside, or hold structs in which some are: name, key, reason."""
    found = _ASIDE.get(kind)
    if found is None:
        fields = [(field, _reason(field.type)) for field in msgspec.structs.fields(kind)]
        found = _ASIDE[kind] = tuple(
            [
                (field.name, field.encode_name, reason)
                for field, reason in fields
                if reason is not None or _holds_aside(field.type, frozenset())
            ]
        )
    return found


@cache
def holds_aside(kind: Any) -> bool:
    """True when a value of this type may hold a field that is set aside."""
    return _holds_aside(kind, frozenset())


def _holds_aside(kind: Any, within: frozenset[Any]) -> bool:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind in within:
            return False
        fields = msgspec.structs.fields(kind)
        return any(_reason(field.type) is not None or _holds_aside(field.type, within | {kind}) for field in fields)
    if get_origin(kind) is Annotated:
        return False
    return any(_holds_aside(argument, within) for argument in get_args(kind))


def count(losses: Losses, path: str, reason: str | None = None, times: int = 1) -> None:
    """Add to ``losses``; a hostile record with endless field names ends in one line for the rest."""
    place = (path[:_LONGEST_PATH].encode("utf-8", "replace").decode(), reason)
    if place not in losses and len(losses) >= _MOST_PATHS:
        place = ("(further fields)", None)
    losses[place] += times
