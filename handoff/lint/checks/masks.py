"""What is trained: never the predecessor, never nothing, and never a character more or less than is said."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from handoff.lint.codes import Finding
from handoff.lint.shapes import Row, Talk, TokenRow, Turn

_PREAMBLE = re.compile(
    r"You are taking over a software task that "
    r"|^# (?:(?:Trace|Summary|Changes|Handoff note|The last steps) of the previous|What was handed over here)",
    re.M,
)
"""What only stands in front of a successor's own words, in files of this project."""
_EMPTY_THOUGHT = re.compile(r"<think>\s*</think>")
_CONTEXT = ("context", "handoff_context", "warning")
_TRAIN_TOOLS = ("axolotl", "canonical", "llamafactory-v1")
"""Shapes whose results of tools may bear loss."""
_WRITERS = ("Somebody else will take over from here",)
"""Instructions under which such a text is the answer."""


def check_masks(row: Row) -> Iterator[Finding]:
    """M01 to M07 and M10 to M15; those that need a tokenizer are in ``templates.py``."""
    if row.tokens is not None:
        yield from _tokens(row.tokens)
        return
    for talk in row.talks:
        yield from _flags(row, talk)
    if row.sample is not None:
        yield from _spans(row.sample)


def _flags(row: Row, talk: Talk) -> Iterator[Finding]:
    trained = [turn for turn in talk.turns if turn.trained]
    if talk.ends_with_reply and not trained:
        yield Finding("M01", "", "")
    writes_notes = any(word in str(talk.turns[0].text) for word in _WRITERS) if talk.turns else False
    for number, turn in enumerate(talk.turns):
        if not turn.trained:
            continue
        if turn.role in ("user", "system") or (turn.role == "tool" and row.shape not in _TRAIN_TOOLS):
            yield Finding("M02", turn.place, turn.role)
        if number < talk.prompt and row.shape != "prime-rl":
            yield Finding("M03", turn.place, "a turn of the prompt")
        text = turn.text if isinstance(turn.text, str) else ""
        if turn.role == "assistant" and not writes_notes and _PREAMBLE.search(text):
            yield Finding("M03", turn.place, "it begins as what successors are told does")
        if turn.raw.get("is_copied_context"):
            yield Finding("M03", turn.place, "a copied step")
        if turn.role == "assistant" and _EMPTY_THOUGHT.search(text):
            yield Finding("M13", turn.place, "")
        yield from _details(turn, text)
        if _disagrees(turn):
            yield Finding("M14", turn.place, "")
    for turn in talk.turns:
        for name in ("weight", "loss_weight", "loss_scale"):
            value = turn.raw.get(name)
            if isinstance(value, int | float) and (value < 0 or (row.shape == "openai" and value not in (0, 1))):
                yield Finding("M06", f"{turn.place}.{name}", repr(value)[:40])


def _disagrees(turn: Turn) -> bool:
    """One message that is said to be trained and not."""
    flags = [bool(turn.raw[name]) for name in ("train", "loss") if isinstance(turn.raw.get(name), bool)]
    names = ("weight", "loss_weight", "loss_scale")
    weights = [bool(turn.raw[name]) for name in names if isinstance(turn.raw.get(name), int | float)]
    return len({*flags, *weights}) > 1


def _details(turn: Turn, text: str) -> Iterator[Finding]:
    details = turn.raw.get("train_detail")
    if not isinstance(details, list):
        return
    at = 0
    for number, detail in enumerate(details):
        place = f"{turn.place}.train_detail[{number}]"
        ends = (detail.get("begin_offset"), detail.get("end_offset")) if isinstance(detail, dict) else (None, None)
        if not all(isinstance(end, int) for end in ends):
            yield Finding("M10", place, "no offsets")
            continue
        start, end = int(ends[0] or 0), int(ends[1] or 0)
        if not 0 <= start <= end < len(text):
            yield Finding("M10", place, f"{start} to {end} of {len(text)} characters, both inclusive")
        elif start < at:
            yield Finding("M11", place, f"it begins at {start}, the one before ends at {at - 1}")
        at = end + 1


def _spans(sample: Mapping[str, Any]) -> Iterator[Finding]:
    by_field: dict[tuple[str, int, str], list[Mapping[str, Any]]] = {}
    for number, span in enumerate(sample["spans"]):
        if not isinstance(span, dict):
            yield Finding("M10", f"spans[{number}]", "no span")
            continue
        key = (str(span.get("part", "messages")), int(span.get("message") or 0), str(span.get("field")))
        by_field.setdefault(key, []).append(span)
        weight = span.get("weight")
        if not isinstance(weight, int | float) or not math.isfinite(weight) or weight < 0:
            yield Finding("M06", f"spans[{number}]", repr(weight)[:40])
        elif weight > 0 and span.get("role") in _CONTEXT:
            yield Finding("M12", f"spans[{number}]", str(span.get("role")))
    for (part, message, field), spans in by_field.items():
        place = f"{part}[{message}].{field}"
        text = _field(sample, part, message, field)
        if text is None:
            yield Finding("M10", place, "there is no such text")
            continue
        if any(s["start"] < 0 or s["end"] > len(text) or s["start"] >= s["end"] for s in spans):
            yield Finding("M10", place, f"beyond {len(text)} characters")
        elif spans[0]["start"] != 0 or spans[-1]["end"] != len(text):
            yield Finding("M11", place, "its ends are not covered")
        elif any(one["end"] != other["start"] for one, other in itertools.pairwise(spans)):
            yield Finding("M11", place, "")


def _field(sample: Mapping[str, Any], part: str, message: int, field: str) -> str | None:
    try:
        own = sample[part][message]
        if field in ("content", "reasoning_content"):
            return str(own[field])
        head, _, name = field.partition("].function.")
        return str(own["tool_calls"][int(head.removeprefix("tool_calls["))]["function"][name])
    except (KeyError, IndexError, ValueError, TypeError):
        return None


def _tokens(row: TokenRow) -> Iterator[Finding]:
    ids = row.ids if isinstance(row.ids, list) else []
    columns = [("labels", row.labels), ("loss_mask", row.mask), ("loss_weights", row.weights)]
    given = [(name, values) for name, values in columns if values is not None]
    for name, values in (*given, ("attention_mask", row.attention)):
        if values is not None and len(values) != len(ids):
            yield Finding("M04", name, f"{len(values)} for {len(ids)} ids")
            return
    odd = [n for n, id_ in enumerate(ids) if not isinstance(id_, int) or isinstance(id_, bool) or id_ < 0]
    if odd or len(ids) != len(row.ids):
        yield Finding("M15", f"input_ids[{odd[0]}]" if odd else "input_ids", f"{len(odd)} tokens")
        return
    if row.mask is not None and (strange := [n for n, value in enumerate(row.mask) if value not in (0, 1)]):
        yield Finding("M06", f"loss_mask[{strange[0]}]", f"{len(strange)} tokens")
    if not given:
        yield Finding("M01", "", "no labels, mask or weights")
        return
    if row.labels is not None:
        wrong = [n for n, (id_, label) in enumerate(zip(ids, row.labels, strict=True)) if label not in (id_, -100)]
        if wrong:
            yield Finding("M05", f"labels[{wrong[0]}]", f"{len(wrong)} tokens")
    if row.weights is not None:
        bad = [n for n, w in enumerate(row.weights) if not isinstance(w, int | float) or not math.isfinite(w) or w < 0]
        if bad:
            yield Finding("M06", f"loss_weights[{bad[0]}]", f"{len(bad)} tokens")
            return
    flags = [trained(name, values) for name, values in given]
    if any(own != flags[0] for own in flags[1:]):
        yield Finding("M07", given[1][0], f"it disagrees with {given[0][0]}")
    if not any(flags[0]):
        yield Finding("M01", given[0][0], f"{len(ids)} tokens")


def trained(name: str, values: Sequence[Any]) -> list[bool]:
    """Whether each token bears loss, by one column."""
    if name == "labels":
        return [value != -100 for value in values]
    return [bool(value) for value in values]


def trained_tokens(row: Row, talk: Talk | None = None) -> list[bool]:
    """Whether each token of a row bears loss; weights go before labels, labels before a mask."""
    if row.tokens is None:
        return []
    tokens = row.tokens
    for name, values in (("loss_weights", tokens.weights), ("labels", tokens.labels), ("loss_mask", tokens.mask)):
        if values is not None:
            return trained(name, values)
    return []
