"""The ``diet`` view: the trace without its waste (``docs/science.md §3, §14``).

Answers that are redundant, useless or expired *by h* are left out, and a mark stands in their place; what the
predecessor thought, said and called stays, except a reply that the harness only sent back, and an edit that changes
nothing. What is waste is decided by the rules of ``quality/waste.py`` on steps 1..h as they stood at h: nothing later
decides it. Their signals are of steps; of a step with several calls only those go whose every file or target a signal
names.

Marks are written here and hold no word of the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from handoff.actions import CHANGING_KINDS
from handoff.evidence import predecessor_of
from handoff.quality.recording import Deed, Recording
from handoff.quality.signal import Signal
from handoff.quality.waste import expired, redundant, useless
from handoff.tokens import count_tokens
from handoff.trajectory import Step, Trajectory, prefix
from handoff.views import trace

HEADER = (
    "# Trace of the previous {predecessor}'s work, without what was of no use\n\n"
    "Every step it took, in order. {left_out}\n\n"
)

_LOOKS = frozenset({"read", "search", "list", "test", "run", "vcs"})
_RULES: dict[str, frozenset[str]] = {
    "same_read": frozenset({"read"}),
    "same_call": _LOOKS,
    "noise": _LOOKS,
    "no_change": frozenset(CHANGING_KINDS),
    "read_again": frozenset({"read"}),
    "overwritten": frozenset({"read"}),
    "deleted": frozenset({"read"}),
}
"""Rule → kinds of the actions whose answers it makes waste."""


class _Waste(NamedTuple):
    """What of one step is left out."""

    answers: dict[int, str]
    """Place of the call → why its answer is left out."""
    calls: frozenset[int]
    """Places of calls that are left out themselves."""
    reply: str
    """Why the whole reply is left out; empty: it is not."""


def render(trajectory: Trajectory, h: int) -> str:
    """Steps 1..h with marks in place of their waste."""
    steps = prefix(trajectory.steps, h)
    recording = Recording(msgspec.structs.replace(trajectory, steps=steps))
    signals: dict[int, list[Signal]] = {}
    for signal in (*redundant(recording), *useless(recording), *expired(recording)):
        signals.setdefault(signal.step, []).append(signal)
    pieces: list[str] = []
    answers = tokens = 0
    for number, step in enumerate(steps, 1):
        if number not in signals:
            pieces.append(trace.render_steps((step,), number))
            continue
        waste = _waste(step, recording.deeds[number - 1], signals[number])
        marks, spared = _marks(step, waste)
        answers += len(waste.answers) + bool(waste.reply)
        tokens += spared
        pieces.append(trace.render_step(number, _without(step, waste), marks, remark=waste.reply))
    left_out = f"{answers} answers and replies are left out, with {tokens} tokens; a mark stands in place of each."
    if not answers:
        left_out = "Nothing had to be left out."
    return HEADER.format(predecessor=predecessor_of(trajectory, h), left_out=left_out) + "".join(pieces)


def _waste(step: Step, deeds: Sequence[Deed], signals: Iterable[Signal]) -> _Waste:
    answers: dict[int, str] = {}
    calls: set[int] = set()
    reply = ""
    for signal in signals:
        if signal.rule == "no_call":
            reply = "a reply without a call, which the harness sent back"
            continue
        for place, action in enumerate(step.actions):
            if place >= len(step.observations) or step.observations[place].is_orphan:
                break
            is_alone = len(step.actions) == 1 and signal.rule in ("same_call", "noise")
            own = [deed for deed in deeds if deed.action is action]
            if place not in answers and (is_alone or _is_named(signal, own)):
                answers[place] = _reason(signal)
                if signal.rule == "no_change":
                    calls.add(place)
    return _Waste(answers, frozenset(calls), reply)


def _is_named(signal: Signal, own: Sequence[Deed]) -> bool:
    """Whether a signal names all that one call does."""
    if signal.rule == "run_again":
        return bool(own) and all(deed.result is not None and deed.result.target in signal.paths for deed in own)
    kinds = _RULES[signal.rule]
    keys = [key for deed in own for key in deed.keys]
    return bool(keys) and all(key.kind in kinds and key.target in signal.paths for key in keys)


def _reason(signal: Signal) -> str:
    last = signal.shown_by[-1] if signal.shown_by else 0
    return {
        "same_read": f"redundant, step {last} had shown it",
        "same_call": f"redundant, step {last} had shown it",
        "noise": "useless, it lists caches, dependencies or files of git",
        "no_change": "useless, an edit that changes nothing",
        "read_again": f"expired, step {last} shows it anew",
        "overwritten": f"expired, step {last} writes the file anew",
        "deleted": f"expired, step {last} deletes the file",
        "run_again": f"expired, step {last} runs it again",
    }[signal.rule]


def _marks(step: Step, waste: _Waste) -> tuple[dict[int, str], int]:
    """(place of the call → mark, tokens that are left out)."""
    marks: dict[int, str] = {}
    total = 0
    for place, reason in sorted(waste.answers.items()):
        spared = _tokens(step.observations[place].text)
        if place in waste.calls:
            spared += _tokens(step.actions[place].arguments)
        marks[place] = f"left out: {reason}; {spared} tokens"
        total += spared
    if waste.reply:
        said = (message.text for message in step.after if message.role == "harness")
        total += sum(map(_tokens, (step.text, step.thought, *said)))
    return marks, total


def _without(step: Step, waste: _Waste) -> Step:
    if waste.reply:
        kept = tuple(message for message in step.after if message.role != "harness")
        return msgspec.structs.replace(step, text="", thought="", after=kept)
    if not waste.answers:
        return step
    actions = tuple(
        msgspec.structs.replace(action, arguments="", is_text=True) if place in waste.calls else action
        for place, action in enumerate(step.actions)
    )
    observations = tuple(
        msgspec.structs.replace(seen, text="") if place in waste.answers else seen
        for place, seen in enumerate(step.observations)
    )
    return msgspec.structs.replace(step, actions=actions, observations=observations)


def _tokens(text: str) -> int:
    return count_tokens(text.encode("utf-8", "replace").decode())
