"""A model's answer as claims: what it is asked for, and how that is read (``docs/science.md §3``).

A claim is one sentence with the steps that show it. A note has five lists of them, a summary one. How many and how long
they may be hangs on the tokens that the answer may have. Answers are hostile: what does not fit raises ``Unreadable``,
and nothing is guessed. Whether claims are true is in ``verify.py``.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from handoff.endpoints.schemas import CHARACTERS_A_TOKEN, TOKENS_A_NODE

Form: TypeAlias = Literal["summary", "structured"]

SECTIONS = ("done", "in_progress", "to_do", "key_decisions", "risks")
"""Lists of a note, in order."""
SENTENCES = "sentences"
"""The one list of a summary."""

MOST_CLAIMS = {"summary": 40, "structured": 10}
"""Claims of one list that are taken."""
MOST_WORDS = {"summary": 60, "structured": 40}
"""Words of one claim. A longer one is rejected: half a sentence may say the opposite."""
LONGEST_CLAIM = 600
"""Characters of one claim."""
LONGEST_SUMMARY = 500
"""Words."""

MOST_CITED = 5
"""Steps that a claim may cite."""
_SHORTEST_CLAIM = 120
"""Characters: so long a sentence is asked for, however few tokens there are."""
_CHARACTERS_A_WORD = 5

_LONGEST_ANSWER = 200_000
_THOUGHT = re.compile(r"\A.*</think>", re.S)
_SENTENCES = re.compile(r".*[.!?](?=\s)", re.S)
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
    is_cut: bool = False
    """It is half a sentence, cut off where a claim may be no longer."""


class _Entry(msgspec.Struct):
    text: str
    steps: list[int] = []


def lists_of(form: Form) -> tuple[str, ...]:
    """The lists that an answer has."""
    return SECTIONS if form == "structured" else (SENTENCES,)


class Bounds(NamedTuple):
    """What an answer may hold."""

    claims: int
    """Of one list."""
    characters: int
    """Of one claim."""

    @property
    def words(self) -> int:
        """Of one claim."""
        return self.characters // _CHARACTERS_A_WORD


def bounds_of(form: Form, tokens: int) -> Bounds:
    """As much as ``tokens`` hold: whole claims first, then more of them. Never less than one short claim a list."""
    lists = len(lists_of(form))
    a_list = (tokens - TOKENS_A_NODE) // lists - TOKENS_A_NODE
    whole = MOST_WORDS[form] * _CHARACTERS_A_WORD
    around = 4 * TOKENS_A_NODE
    claims = max(1, min(MOST_CLAIMS[form], a_list // (around + whole // CHARACTERS_A_TOKEN)))
    left = (a_list // claims - around) * CHARACTERS_A_TOKEN
    return Bounds(claims, max(_SHORTEST_CLAIM, min(whole, left)))


def schema_of(form: Form, bounds: Bounds, h: int) -> dict[str, Any]:
    """The JSON schema of an answer; ``h``: the last step that may be cited."""
    step = {"type": "integer", "minimum": 1, "maximum": h}
    entry = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "maxLength": bounds.characters},
            "steps": {"type": "array", "items": step, "minItems": 1, "maxItems": MOST_CITED},
        },
        "required": ["text", "steps"],
        "additionalProperties": False,
    }
    names = lists_of(form)
    return {
        "type": "object",
        "properties": {name: {"type": "array", "items": entry, "maxItems": bounds.claims} for name in names},
        "required": list(names),
        "additionalProperties": False,
    }


def read_claims(form: Form, text: str, bounds: Bounds) -> tuple[Claim, ...]:
    """The claims of an answer in order, blank ones left out. ``Unreadable`` when it has another form or says nothing.

    What a model thought aloud before it is passed over, and so is what stands around one JSON object. Of a claim that
    is exactly as long as ``bounds`` let it be, the whole sentences are read.
    """
    value = _object(_THOUGHT.sub("", text[:_LONGEST_ANSWER]))
    found = []
    for name in lists_of(form):
        try:
            entries = msgspec.convert(value.get(name, []), type=list[_Entry], strict=False)
        except msgspec.ValidationError as error:
            raise Unreadable(f"{name}: {error}") from error
        for entry in entries:
            said, is_cut = _whole(entry, bounds.characters)
            found.append(Claim(section=name, text=said, steps=tuple(entry.steps), is_cut=is_cut))
    found = [claim for claim in found if claim.text.strip()]
    if not found:
        raise Unreadable(f"it holds no claim in {', '.join(lists_of(form))}")
    return tuple(found)


def _whole(entry: _Entry, longest: int) -> tuple[str, bool]:
    """(the text without a half sentence at which an endpoint that bounds it cut it off, whether nothing else is it)."""
    if len(entry.text) != longest or entry.text.rstrip().endswith((".", "!", "?")):
        return entry.text, False
    kept = _SENTENCES.match(entry.text)
    return (entry.text, True) if kept is None else (kept[0], False)


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
