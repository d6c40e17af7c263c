"""Long conversations in windows of a context budget [after KLong]: each holds the task, and each token is trained once.

A window begins with the task (everything before the first reply). What follows are the last replies of the window
before with their results, as context, and then as many new replies as fit, each with the results that it answers. So
every window ends with a reply, no result stands without its call, and nothing is cut inside.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from handoff.identity import canonical_json, identify
from handoff.samples import Sample, Span


class Windows(NamedTuple):
    """What became of one sample."""

    samples: tuple[Sample, ...]
    """The sample itself where it fits."""
    left_out: int
    """Replies that do not fit even alone with the task and what they answer: they are trained nowhere."""


def windows(sample: Sample, sizes: Sequence[int], *, budget: int, overlap: int = 2) -> Windows:
    """Split a demonstration into windows of at most ``budget`` tokens.

    ``sizes``: tokens of each message with what a template puts around it (:func:`handoff.masks.tokens.message_sizes`).
    ``overlap``: replies of the window before that are shown again, at least 1; fewer where they leave no room. Samples
    of other kinds than ``sft`` are one reply long: they are kept or left out whole.
    """
    if sum(sizes) <= budget:
        return Windows((sample,), 0)
    if sample.kind != "sft":
        return Windows((), 1)
    replies = [place for place, message in enumerate(sample.messages) if message.role == "assistant"]
    sums = [0, *itertools.accumulate(sizes)]

    def fits(shown: int, start: int, end: int) -> bool:
        last = replies[end - 1] + 1
        return sums[replies[0]] + sums[last] - sums[replies[start - shown]] <= budget

    made: list[Sample] = []
    left_out = start = 0
    while start < len(replies):
        shown = min(max(overlap, 1), start)
        while shown > 1 and not fits(shown, start, start + 1):
            shown -= 1
        end = _most(functools.partial(fits, shown, start), start, len(replies))
        if end == start:
            left_out += 1
            start += 1
            continue
        made.append(_window(sample, replies, shown, start, end))
        start = end
    kept = [window for window in made if any(message.train for message in window.messages)]
    return Windows(tuple(_named(window, place, len(kept)) for place, window in enumerate(kept, 1)), left_out)


def _most(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The largest end in [low, high] that fits; ``low`` where none does."""
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _window(sample: Sample, replies: Sequence[int], shown: int, start: int, end: int) -> Sample:
    """The task, the ``shown`` replies before ``start`` as context, and replies ``start`` to ``end`` as they are."""
    opening = replies[0]
    first, last = replies[start - shown], replies[end - 1] + 1
    trained = replies[start - 1] + 1 if start else opening
    messages = [
        *sample.messages[:opening],
        *(msgspec.structs.replace(message, train=False) for message in sample.messages[first:trained]),
        *sample.messages[trained:last],
    ]
    spans: list[Span] = []
    for span in sample.spans:
        if span.message < opening:
            spans.append(span)
        elif first <= span.message < last:
            weight = 0.0 if span.message < trained else span.weight
            spans.append(msgspec.structs.replace(span, message=span.message - first + opening, weight=weight))
    return msgspec.structs.replace(sample, messages=tuple(messages), spans=tuple(spans))


def _named(window: Sample, place: int, count: int) -> Sample:
    changed = {**window.changes, "window": place, "windows": count}
    unnamed = msgspec.structs.replace(window, changes=changed, sample_id="")
    return msgspec.structs.replace(unnamed, sample_id=identify("s", canonical_json(unnamed)))
