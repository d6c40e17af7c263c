"""The canonical trajectory: one agent's recorded attempt at one task.

Adapters (``adapters/``) build it, everything later reads it. What an action *means* (its key, the files
it touches) is not stored here but derived in ``actions.py``, so that a better reading never changes an
identifier.

Counting: a *step* is one model reply and all that followed it until the next reply. Steps are numbered
from 1; a handoff index ``h`` is the number of the last predecessor step, inclusive
(``docs/science.md §1``). What came before the first reply is ``preamble``.

msgspec checks types when decoding, not when constructing: decode at the boundary, trust inside.
None of these values can be part of a cycle, so the garbage collector need not look at them (``gc=False``):
that is a fifth of the time of reading a file. Fields at their default are left out of the encoding, so a field
added later changes no identifier of a run that does not use it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from handoff.identity import canonical_json, identify

Missing = Literal["none", "aborted", "not_executed", "truncated", "pending"]
"""``pending`` only in a ``prefix``: the answer came after its end."""

Boundary = Literal["compaction", "resume", "agent_switch", "commit", "rollback"]
"""What happened between two replies. ``compaction``: the context was replaced by a summary (also called condensation);
``resume``: the session was closed and taken up again; ``agent_switch``: another agent or model took over; ``commit``:
a human's commit; ``rollback``: turns were taken back from the context while their edits stayed, which is no handoff."""

Ending = Literal["submitted", "step_limit", "cost_limit", "context_limit", "time_limit", "error", "aborted", "cut_off"]
"""How a run ended, in one vocabulary for all harnesses. ``submitted``: the agent said that it was done; ``aborted``: a
human stopped it; ``cut_off``: the recording stops in the middle of a call."""


class Action(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One call of a reply, as the source recorded it."""

    call_id: str | None = None
    """The source's own id. ``None``: the format has none, or this call lacked one; pairing is then by position."""
    tool: str
    """Tool name as recorded; ``bash`` for a fenced shell command."""
    arguments: str
    """A JSON object as text, or free text when ``is_text``."""
    is_text: bool = False
    """True when ``arguments`` is not a JSON object: a freeform patch, a rendered command line, broken JSON."""


class Observation(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What came back for one call. Joined by call id, never by position where ids exist."""

    call_id: str | None = None
    text: str = ""
    """Text as read: carriage returns, escape sequences and NULs are kept. Escape it wherever it is shown."""
    exit_code: int | None = None
    """``None``: the source does not say."""
    error: bool | None = None
    """The source's own error flag. ``None`` is unknown; a missing flag is not success."""
    missing: Missing | None = None
    """Why there is no text, when the call got no answer."""
    is_orphan: bool = False
    """A result whose call is not in the file (kept, counted, never evidence that a command ran)."""
    arrived: int | None = None
    """The step by whose end it had come whole, when that is later than its own: a command that went on running."""


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Text in the conversation that is neither a reply of the agent nor a result of a call."""

    role: Literal["system", "user", "harness", "context_summary"]
    """``harness``: text of the scaffold (format errors, reminders); ``context_summary``: what a compaction wrote."""
    text: str


class Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Tokens of one model call as the source counted them; ``None`` is unknown. ``prompt`` includes ``cached``."""

    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One model reply, its observations (one per action, same order; orphans last) and the messages after it."""

    text: str = ""
    """What the agent said outside its calls."""
    thought: str = ""
    """Explicit reasoning, when the source keeps it apart from ``text``."""
    actions: tuple[Action, ...] = ()
    observations: tuple[Observation, ...] = ()
    after: tuple[Message, ...] = ()
    """Messages that came after the observations and before the next reply."""
    boundary: Boundary | None = None
    """What really happened right after this step. A summary that was written there is in ``after``."""
    model: str | None = None
    usage: Usage | None = None
    cost: float | None = None
    """US dollars."""
    timestamp: str | None = None
    """As recorded."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """How the run ended. Sealed: no view and no successor ever sees it."""

    resolved: bool | None = None
    """The task's tests decided. ``None``: unknown ("submitted" is not "resolved")."""
    exit_status: str | None = None
    """As the source words it."""
    ended: Ending | None = None
    """The same in our words. ``None``: the source does not say."""
    patch: str | None = None
    """The final patch the run submitted, as unified diff."""


class Trajectory(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One recorded run."""

    format: str
    """Name of the adapter that read it."""
    task_id: str | None = None
    """The source's name of the task (instance id). ``None``: the file does not say."""
    task: str
    """The task as the agent was given it: the first human message."""
    repo: str | None = None
    base_commit: str | None = None
    agent: str | None = None
    author: Literal["agent", "human"] = "agent"
    """``human``: the commits of a branch, read as a predecessor's work."""
    model: str | None = None
    licence: str | None = None
    split: str | None = None
    """``train``, ``validation`` or ``test`` when the source fixes it; else decided by repository."""
    tools: str | None = None
    """Tool definitions as a JSON array in OpenAI form, as text."""
    preamble: tuple[Message, ...] = ()
    """Messages before the first reply, in order, the task among them."""
    steps: tuple[Step, ...]
    session: str | None = None
    """The source's own id of this run or conversation."""
    parent: str | None = None
    """``session`` of the run that started this one as its subagent. Its edits fall between that call and its result."""
    continues: str | None = None
    """``session`` of the earlier run that this one goes on from, when the source says so."""
    copied_steps: int = 0
    """Leading steps that the source marks as copies from that earlier run: context here, paid for and trained there."""
    outcome: Outcome = Outcome()
    source: str = "{}"
    """Facts of the source that have no field here, as a JSON object."""

    def __post_init__(self) -> None:
        # A default is left out of the encoding when it is the same object: an equal one becomes that.
        for name, default in _DEFAULTS.items():
            if getattr(self, name) == default:
                msgspec.structs.force_setattr(self, name, default)


_DEFAULTS = {
    field.name: field.default
    for field in msgspec.structs.fields(Trajectory)
    if isinstance(field.default, str | Outcome) and field.default != ""
}


def prefix(steps: tuple[Step, ...], h: int) -> tuple[Step, ...]:
    """Steps 1..h as they stood when step h was over: a result that came later is not there yet."""
    return tuple(
        [
            as_of(step, h) if any(seen.arrived is not None and seen.arrived > h for seen in step.observations) else step
            for step in steps[:h]
        ]
    )


def as_of(step: Step, h: int) -> Step:
    """One step without the results that came after step h."""
    seen = [
        Observation(call_id=seen.call_id, missing="pending") if seen.arrived is not None and seen.arrived > h else seen
        for seen in step.observations
    ]
    return msgspec.structs.replace(step, observations=tuple(seen))


def trajectory_id(trajectory: Trajectory) -> str:
    """The content hash that names a trajectory. The file it came from is not part of it."""
    return identify("t", canonical_json(trajectory))
