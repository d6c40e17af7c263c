"""The rendered conversation of a sample, cut into pieces with one role and one weight (``docs/science.md §11``).

Every field of a message is rendered with marks in it, private characters that the template carries along; where they
come out is where the field went, trimmed, escaped or left out as the template likes. Rendered without marks, the text
must be the same. What the template puts around the fields of a reply that is trained is trained with it, from the end
of the generation prompt to the end of the turn, since the model writes that, too; what ``{% generation %}`` marks is
taken instead where a template has it. Around results of tools nothing is trained.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from handoff.errors import RecordError
from handoff.masks.chat import chat_messages
from handoff.masks.template import RESERVED, ChatTemplate, Message, Rendered
from handoff.samples import Part, Role, Sample, SampleMessage, Span, fields

_FIRST_MARK = 0x100000
_LAST_MARK = 0x10FFFB
_MARK = re.compile("([\U00100000-\U0010fffb])")


class Piece(NamedTuple):
    """Characters [start, end) of the rendered text."""

    start: int
    end: int
    role: Role
    weight: float
    """Weight of the loss as the sample has it; 0 is masked."""
    message: int
    """0-based message it belongs to; −1 for what belongs to none."""


class Masked(NamedTuple):
    """A rendered conversation whose every character has a role."""

    text: str
    pieces: tuple[Piece, ...]
    """In order, without gaps: they cover the text."""
    left_out: tuple[str, ...]
    """Fields that the template does not show, as ``3.reasoning_content``."""


def mask(sample: Sample, template: ChatTemplate, *, side: Part = "messages") -> Masked:
    """The sample's conversation by this template, every character with its role and weight.

    ``side``: of a preference, the reply that follows the messages (``chosen`` or ``rejected``).
    ``RecordError`` where the template refuses the conversation, where it writes something else once marks are in it, or
    where a text holds characters of plane 16.
    """
    messages = sample.messages if side == "messages" else (*sample.messages, *getattr(sample, side))
    tools: list[Any] = msgspec.json.decode(sample.tools)
    chat, rendered = _rendered(messages, tools, template)
    if RESERVED.search(sample.tools) or any(RESERVED.search(text) for row in chat for text in _strings(row)):
        raise RecordError(
            "a text holds private characters of plane 16, by which masks are found", remedy="Leave the sample out."
        )
    spans: dict[tuple[int, str], list[Span]] = {}
    for span in sample.spans:
        if span.part in ("messages", side):
            number = span.message + (0 if span.part == "messages" else len(sample.messages))
            spans.setdefault((number, span.field), []).append(span)
    marks = _Marks(chat)
    for number, message in enumerate(messages):
        for field in fields(message):
            marks.put(number, field, spans.get((number, field), []))
    marks.find(template.render(marks.chat, tools).text)
    if marks.text != rendered.text:
        raise RecordError(
            "the chat template writes something else when marks are in the texts",
            remedy="It decides by how a text begins or ends; use another template for these rows.",
        )
    if rendered.generated:
        turns = _marked_turns(rendered.generated, marks, messages)
    else:
        turns = _Turns(template, marks, messages, tools).find()
    return Masked(rendered.text, tuple(_pieces(turns, marks, messages)), marks.left_out())


def _rendered(
    messages: Sequence[SampleMessage], tools: Sequence[Any], template: ChatTemplate
) -> tuple[list[dict[str, Any]], Rendered]:
    chat = chat_messages(messages, with_names=True)
    try:
        return chat, template.render(chat, tools)
    except RecordError as error:
        if not any(message.tool_calls for message in messages):
            raise
        chat = chat_messages(messages, arguments=str, with_names=True)
        try:
            return chat, template.render(chat, tools)
        except RecordError:
            raise error from None


# -- marks --------------------------------------------------------------------------------------


class _Found(NamedTuple):
    """A mark in the rendered text."""

    place: int
    """Of the character after it."""
    field: str
    span: Span | None
    """What begins here; ``None`` where the field ends."""


class _Marks:
    """Marks in the fields of messages, and where they came out."""

    def __init__(self, chat: Sequence[Message]) -> None:
        self.chat: list[dict[str, Any]] = [dict(row) for row in chat]
        self.text = ""
        self.of: dict[int, list[_Found]] = {}
        """Message → its marks in the order of the text."""
        self._made: list[tuple[int, str, Span | None]] = []

    def put(self, number: int, field: str, spans: Sequence[Span]) -> None:
        """Mark one field, inside the blanks around its text, since templates trim those."""
        row = self.chat[number]
        if not field.startswith("tool_calls"):
            row[field] = self._marked(row[field], number, field, spans)
            return
        head, _, name = field.partition("].function.")
        place = int(head.removeprefix("tool_calls["))
        calls = row["tool_calls"] = [dict(call) for call in row["tool_calls"]]
        function = calls[place]["function"] = dict(calls[place]["function"])
        if name == "name":
            function["name"] = self._marked(function["name"], number, field, spans)
        elif isinstance(function["arguments"], str):
            function["arguments"] = self._marked(function["arguments"], number, field, spans)
        elif function["arguments"]:
            function["arguments"] = self._with_end(function["arguments"], number, field)

    def _marked(self, text: str, number: int, field: str, spans: Sequence[Span]) -> str:
        start, end = len(text) - len(text.lstrip()), len(text.rstrip())
        if start >= end:
            return text
        pieces = [text[:start]]
        for span in spans:
            if span.start < end and span.end > start:
                inside = text[max(span.start, start) : min(span.end, end)]
                pieces.append(self._mark(number, field, span) + inside)
        return "".join([*pieces, self._mark(number, field, None), text[end:]])

    def _with_end(self, arguments: dict[str, Any], number: int, field: str) -> dict[str, Any]:
        """Arguments with a mark near their end: in the last value, or in its name where that is no text."""
        *others, (name, value) = arguments.items()
        if isinstance(value, str) and value.strip():
            end = len(value.rstrip())
            return {**dict(others), name: value[:end] + self._mark(number, field, None) + value[end:]}
        return {**dict(others), name + self._mark(number, field, None): value}

    def _mark(self, number: int, field: str, span: Span | None) -> str:
        code = _FIRST_MARK + len(self._made)
        if code > _LAST_MARK:
            raise RecordError(
                f"the conversation has more than {_LAST_MARK - _FIRST_MARK} places to follow",
                remedy="Split it into windows first.",
            )
        self._made.append((number, field, span))
        return chr(code)

    def find(self, marked: str) -> None:
        """Note where the marks are in this text, and the text without them.

        A mark counts where it comes first: some templates tell a tool's name again over its result.
        """
        pieces: list[str] = []
        seen: set[str] = set()
        length = 0
        for piece in _MARK.split(marked):
            if _MARK.fullmatch(piece):
                if piece in seen:
                    continue
                seen.add(piece)
                number, field, span = self._made[ord(piece) - _FIRST_MARK]
                self.of.setdefault(number, []).append(_Found(length, field, span))
            else:
                pieces.append(piece)
                length += len(piece)
        self.text = "".join(pieces)

    def left_out(self) -> tuple[str, ...]:
        """Fields none of whose marks came out."""
        made = dict.fromkeys((number, field) for number, field, _ in self._made)
        shown = {(number, mark.field) for number, marks in self.of.items() for mark in marks}
        return tuple(f"{number}.{field}" for number, field in made if (number, field) not in shown)

    def bounds(self, number: int) -> tuple[int, int] | None:
        """Where a message is first and last seen."""
        places = [mark.place for mark in self.of.get(number, ())]
        return (min(places), max(places)) if places else None


# -- turns --------------------------------------------------------------------------------------

_Turn: TypeAlias = tuple[int, int, int]
"""(start, end, message): what the model writes of one reply."""


def _marked_turns(
    generated: Sequence[tuple[int, int]], marks: _Marks, messages: Sequence[SampleMessage]
) -> list[_Turn]:
    """What the template marks as generated, each stretch with the reply whose fields it holds."""
    replies = [number for number, message in enumerate(messages) if message.role == "assistant"]
    held = sorted((place, number) for number in replies for place, _, _ in marks.of.get(number, ()))
    turns: list[_Turn] = []
    at = last = 0
    for start, end in generated:
        while at < len(held) and held[at][0] < start:
            at += 1
        if at < len(held) and held[at][0] <= end:
            last = held[at][1]
        elif turns:  # an empty stretch, as of a reply without a text
            last = next((n for n in replies if n > last and n not in marks.of), last)
        turns.append((start, end, last))
    return turns


class _Turns:
    """Where replies begin and end, of a template that does not say: found by rendering up to them.

    What stands between two messages is nearly always the same, so only few beginnings have to be rendered.
    """

    def __init__(
        self, template: ChatTemplate, marks: _Marks, messages: Sequence[SampleMessage], tools: Sequence[Any]
    ) -> None:
        self._template = template
        self._marks = marks
        self._messages = messages
        self._tools = tools
        self._known: dict[tuple[bool, str, str], int] = {}

    def find(self) -> list[_Turn]:
        """The trained replies that are shown."""
        turns: list[_Turn] = []
        for number, message in enumerate(self._messages):
            own = self._marks.bounds(number)
            if message.train and message.role == "assistant" and own:
                before = self._last_before(number)
                if any(
                    own[0] < mark.place < own[1] for n, found in self._marks.of.items() if n != number for mark in found
                ):
                    raise RecordError(
                        f"the chat template shows another message amid the reply of message {number}",
                        remedy="Use a template that marks with {% generation %} what the model writes.",
                    )
                start = before + self._length(number, self._marks.text[before : own[0]], is_header=True)
                after = self._first_after(number)
                end = own[1] + self._length(number + 1, self._marks.text[own[1] : after], is_header=False)
                turns.append((start, end, number))
        return turns

    def _last_before(self, number: int) -> int:
        places = [bounds[1] for n in range(number) if (bounds := self._marks.bounds(n))]
        return max(places, default=0)

    def _first_after(self, number: int) -> int:
        for later in range(number + 1, len(self._messages)):
            if bounds := self._marks.bounds(later):
                return bounds[0]
        return len(self._marks.text)

    def _length(self, count: int, gap: str, *, is_header: bool) -> int:
        """How much of a gap belongs to what stands before the reply (its header), or to the reply (its end)."""
        role = self._messages[count - 1].role if count else ""
        key = (is_header, role, gap)
        if key not in self._known:
            shown = self._template.render(self._marks.chat[:count], self._tools, add_generation_prompt=is_header).text
            last = max((place.end() for place in _MARK.finditer(shown)), default=0)
            self._known[key] = _alike(shown[last:], gap)
        return self._known[key]


def _alike(shown: str, gap: str) -> int:
    """How much of a gap is as shown; where they part, no tag is cut (``<|end|>`` and ``<|endoftext|>`` begin alike)."""
    parted = (place for place, (one, other) in enumerate(zip(shown, gap, strict=False)) if one != other)
    common = shown[: next(parted, min(len(shown), len(gap)))]
    if len(common) < len(shown) and common.rfind("<") > common.rfind(">"):
        return common.rfind("<")
    return len(common)


# -- pieces -------------------------------------------------------------------------------------


def _pieces(turns: Sequence[_Turn], marks: _Marks, messages: Sequence[SampleMessage]) -> Iterator[Piece]:
    """Every character once: fields by their spans, the rest of a trained reply as the reply, all else context."""
    painted = [Piece(0, len(marks.text), "context", 0.0, -1)]
    for start, end, number in turns:
        if messages[number].train:
            painted.append(Piece(start, end, *_of_reply(marks, number), number))
    for number, found in marks.of.items():
        is_weighed = messages[number].train or messages[number].role == "tool"
        for mark, after in itertools.pairwise(found):
            if mark.span is not None and mark.field == after.field:
                weight = mark.span.weight if is_weighed else 0.0
                painted.append(Piece(mark.place, after.place, mark.span.role, weight, number))
    top = np.zeros(len(marks.text), dtype=np.int32)
    for layer, piece in enumerate(painted):
        top[piece.start : piece.end] = layer
    cuts = [0, *(np.flatnonzero(np.diff(top)) + 1).tolist(), len(top)]
    for start, end in itertools.pairwise(cuts):
        if start < end:
            yield painted[top[start]]._replace(start=start, end=end)


def _of_reply(marks: _Marks, number: int) -> tuple[Role, float]:
    """Role and weight of what a template puts around a reply: those of its heaviest span."""
    spans = [mark.span for mark in marks.of.get(number, ()) if mark.span is not None]
    if not spans:
        return "action", 1.0
    heaviest = max(spans, key=lambda span: span.weight)
    return heaviest.role, heaviest.weight


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
