"""A model's answer as claims: what it is asked for, and how that is read (``docs/science.md §3``).

A claim is one sentence with the steps that show it. A note has five lists of them, a summary one. Answers are hostile:
what does not fit raises ``Unreadable``, and nothing is guessed. Whether claims are true is in ``verify.py``.
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

import msgspec

Form: TypeAlias = Literal["summary", "structured"]

SECTIONS = ("done", "in_progress", "to_do", "key_decisions", "risks")
"""Lists of a note, in order."""
SENTENCES = "sentences"
"""The one list of a summary."""

MOST_CLAIMS = {"summary": 40, "structured": 10}
"""Claims of one list that are taken."""
MOST_WORDS = {"summary": 60, "structured": 40}
"""Words of one claim. A longer one is rejected, not cut: half a sentence may say the opposite."""
LONGEST_CLAIM = 600
"""Characters of one claim."""
LONGEST_SUMMARY = 500
"""Words."""

_LONGEST_ANSWER = 200_000
_THOUGHT = re.compile(r"\A.*</think>", re.S)
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.S)


class Unreadable(Exception):
    """An answer that is not of the form that was asked for."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence of the writer."""

    section: str
    """One of ``SECTIONS``, or ``SENTENCES``."""
    text: str
    steps: tuple[int, ...]
    """Steps that show it, as the writer says: perhaps none, perhaps no steps of the run."""


class _Entry(msgspec.Struct):
    text: str
    steps: list[int] = []


def lists_of(form: Form) -> tuple[str, ...]:
    """The lists that an answer has."""
    return SECTIONS if form == "structured" else (SENTENCES,)


def schema_of(form: Form) -> dict[str, Any]:
    """The JSON schema of an answer."""
    entry = {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "steps": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["text", "steps"],
        "additionalProperties": False,
    }
    names = lists_of(form)
    return {
        "type": "object",
        "properties": {name: {"type": "array", "items": entry} for name in names},
        "required": list(names),
        "additionalProperties": False,
    }


def read_claims(form: Form, text: str) -> tuple[Claim, ...]:
    """The claims of an answer in order, blank ones left out. ``Unreadable`` when it has another form or says nothing.

    What a model thought aloud before it is passed over, and so is what stands around one JSON object.
    """
    value = _object(_THOUGHT.sub("", text[:_LONGEST_ANSWER]))
    found = []
    for name in lists_of(form):
        try:
            entries = msgspec.convert(value.get(name, []), type=list[_Entry], strict=False)
        except msgspec.ValidationError as error:
            raise Unreadable(f"{name}: {error}") from error
        found += [Claim(section=name, text=entry.text, steps=tuple(entry.steps)) for entry in entries]
    found = [claim for claim in found if claim.text.strip()]
    if not found:
        raise Unreadable(f"it holds no claim in {', '.join(lists_of(form))}")
    return tuple(found)


def _object(text: str) -> dict[str, Any]:
    fenced = _FENCE.search(text)
    first, last = text.find("{"), text.rfind("}")
    for part in (text, fenced[1] if fenced else "", text[first : last + 1] if 0 <= first < last else ""):
        try:
            value = msgspec.json.decode(part)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    raise Unreadable("it is no JSON object")
