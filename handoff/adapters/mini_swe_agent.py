"""mini-swe-agent trajectories: a bare list (v0), ``mini-swe-agent-1`` and ``mini-swe-agent-1.1`` and later (v2).

::

    {"trajectory_format": "mini-swe-agent-1.1", "instance_id": "owner__name-17", "info": {…}, "messages": [
      {"role": "assistant", "content": "Look first.", "tool_calls": [{"id": "call_1", "function": {"name": "bash", …}}],
       "extra": {"cost": 0.0004, "timestamp": 1775715329.7, "response": {"usage": {…}, "model": "…"}}},
      {"role": "tool", "tool_call_id": "call_1", "content": "<returncode>0</returncode>\\n<output>…</output>",
       "extra": {"raw_output": "…", "returncode": 0}}]}

Older versions write one fenced command in each reply, and its output as the next user message. The run ends
with a command that prints a marker; what follows it is the submission, which goes to the outcome.
"""

from __future__ import annotations

from typing import Any

import msgspec

from handoff.adapters import harness, values
from handoff.adapters.calls import Call, fenced, native
from handoff.adapters.conversation import Conversation
from handoff.adapters.rows import Part, text_of
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, Repeated, Upkeep
from handoff.identity import canonical_json
from handoff.trajectory import Action, Ending, Outcome, Trajectory

MARKERS = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
"""What the last command prints, by version."""


class Command(msgspec.Struct, gc=False):
    """One command as the scaffold parsed it."""

    command: str = ""
    tool_call_id: str | None = None


class Response(msgspec.Struct, gc=False):
    """What is read of the provider's answer."""

    model: str | None = None
    usage: values.UsageRow | None = None
    choices: Repeated = NOTHING
    id: Upkeep = NOTHING
    created: Upkeep = NOTHING
    object: Upkeep = NOTHING
    system_fingerprint: Upkeep = NOTHING
    provider: Upkeep = NOTHING
    service_tier: Upkeep = NOTHING


class Reply(msgspec.Struct, gc=False):
    """The message of a choice. Version 1 copies its content into the conversation, and nothing else; of a reply whose
    calls could not be read, version 2 keeps only this."""

    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Call] | None = None


class Choice(msgspec.Struct, gc=False):
    """One of ``choices``; there is never more than one."""

    message: Reply


_CHOICES = msgspec.json.Decoder(list[Choice])


class Extra(msgspec.Struct, gc=False):
    """``extra`` of a message."""

    actions: list[Command] | None = None
    response: Response | str | None = None
    """Text where the scaffold could not take the answer apart."""
    cost: Any = None
    timestamp: Any = None
    raw_output: str | None = None
    returncode: int | None = None
    exception_info: str | None = None
    exception: Repeated = NOTHING
    exception_type: Repeated = NOTHING
    exit_status: str | None = None
    submission: str | None = None
    interrupt_type: Repeated = NOTHING


class Turn(msgspec.Struct, gc=False):
    """One message."""

    role: str
    content: str | list[Part] | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    extra: Extra | None = None
    timestamp: Any = None
    function_call: Repeated = NOTHING
    provider_specific_fields: Upkeep = NOTHING


class Model(msgspec.Struct, gc=False):
    """``info.config.model``; its other keys may hold an API key and are not read."""

    model_name: str | None = None
    model_kwargs: Upkeep = NOTHING
    cost_tracking: Upkeep = NOTHING
    format_error_template: Upkeep = NOTHING
    observation_template: Upkeep = NOTHING


class Environment(msgspec.Struct, gc=False):
    """``info.config.environment``."""

    image: str | None = None
    cwd: str | None = None
    timeout: Upkeep = NOTHING
    env: Upkeep = NOTHING
    executable: Upkeep = NOTHING
    interpreter: Upkeep = NOTHING
    pull_timeout: Upkeep = NOTHING
    container_timeout: Upkeep = NOTHING
    run_args: Upkeep = NOTHING
    forward_env: Upkeep = NOTHING


class Limits(msgspec.Struct, gc=False):
    """``info.config.agent``: where a run was to be stopped; 0 is no limit."""

    step_limit: Any = None
    cost_limit: Any = None
    system_template: Repeated = NOTHING
    instance_template: Repeated = NOTHING
    action_observation_template: Repeated = NOTHING
    format_error_template: Upkeep = NOTHING
    timeout_template: Upkeep = NOTHING
    output_path: Upkeep = NOTHING
    mode: Upkeep = NOTHING
    max_consecutive_format_errors: Upkeep = NOTHING
    wall_time_limit_seconds: Upkeep = NOTHING
    confirm_exit: Upkeep = NOTHING
    whitelist_actions: Upkeep = NOTHING


class Config(msgspec.Struct, gc=False):
    """``info.config``."""

    model: Model | None = None
    environment: Environment | None = None
    agent: Limits | None = None
    model_type: Upkeep = NOTHING
    agent_type: Upkeep = NOTHING
    environment_type: Upkeep = NOTHING


class Totals(msgspec.Struct, gc=False):
    """``info.model_stats``."""

    instance_cost: Any = None
    api_calls: Any = None


class Info(msgspec.Struct, gc=False):
    """``info``."""

    exit_status: str | None = None
    submission: str | None = None
    mini_version: str | None = None
    config: Config | None = None
    model_stats: Totals | None = None


class Run(msgspec.Struct, gc=False):
    """A v1 or v2 file."""

    messages: list[Turn]
    info: Info | None = None
    trajectory_format: str | None = None
    instance_id: str | None = None


class MiniSweAgent:
    """Reads mini-swe-agent runs."""

    format = "mini_swe_agent"

    def recognises(self, record: Record) -> bool:
        """By ``trajectory_format``; a bare list by its markers and return codes."""
        if not record.is_array:
            return (record.peek("trajectory_format") or "").startswith("mini-swe-agent")
        first = record.first()
        return (
            first.keys() >= {"role", "content"}
            and first.get("role") in ("system", "user")
            and (b"<returncode>" in record.data or any(marker.encode() in record.data for marker in MARKERS))
        )

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The run, alone; ``RecordError`` when a field does not fit or there is no reply."""
        run = Run(messages=record.decode(list[Turn])) if record.is_array else record.decode(Run)
        info = run.info or Info()
        config = info.config or Config()
        talk = Conversation()
        outcome = _read(run.messages, talk)
        steps = talk.steps()
        task = next((m.text for m in talk.preamble if m.role == "user"), "")
        if not steps or not task:
            raise RecordError(
                "No reply of the model is in it." if task else "The task is missing.",
                field="$.messages" if not record.is_array else "$",
                remedy="The run ended before its first step; leave the file out.",
            )
        environment = config.environment or Environment()
        facts: dict[str, Any] = {
            "trajectory_format": run.trajectory_format,
            "mini_version": info.mini_version,
            "image": environment.image,
            "cwd": environment.cwd or None,
            "repairs": record.repairs or None,
        }
        submission = info.submission or outcome.patch or ""
        status = info.exit_status or outcome.exit_status
        totals = info.model_stats or Totals()
        if values.real(totals.instance_cost):
            facts["total_cost"] = values.real(totals.instance_cost)
        return (
            Trajectory(
                format=self.format,
                task_id=values.task_of(run.instance_id),
                task=task,
                repo=values.repository_of(run.instance_id),
                agent="mini-swe-agent",
                model=config.model.model_name if config.model else None,
                preamble=tuple(talk.preamble),
                steps=steps,
                outcome=Outcome(
                    exit_status=status,
                    ended=_ended(status, config, totals, has_submitted=outcome.patch is not None),
                    patch=submission if "diff --git" in submission else None,
                ),
                source=canonical_json({k: v for k, v in facts.items() if v is not None}).decode(),
            ),
        )


def _thought(response: Response) -> str:
    """Reasoning that only the provider's answer holds. Most have none, so they are not decoded."""
    return _answer(response).reasoning_content or "" if b'"reasoning_content"' in bytes(response.choices) else ""


def _answer(response: Response) -> Reply:
    """What the provider answered; an empty reply where it cannot be read."""
    try:
        return next((choice.message for choice in _CHOICES.decode(bytes(response.choices))), Reply())
    except (msgspec.DecodeError, RecursionError):
        return Reply()


def _refused(turn: Turn, extra: Extra, response: Response, text: str, talk: Conversation) -> None:
    """A reply whose calls could not be read: it stands in what the scaffold told the model about it."""
    reply = _answer(response)
    talk.reply(
        reply.content or "",
        thought=reply.reasoning_content or "",
        actions=native(reply.tool_calls or []),
        model=response.model,
        usage=values.usage(response.usage),
        cost=values.real(extra.cost),
        timestamp=values.stamp(extra.timestamp) or values.stamp(turn.timestamp),
    )
    talk.refuse()
    talk.message("harness", text)


def _read(messages: list[Turn], talk: Conversation) -> Outcome:
    outcome = Outcome()
    is_native = is_last_command = False
    for turn in messages:
        extra = turn.extra or Extra()
        text = text_of(turn.content)
        response = extra.response if isinstance(extra.response, Response) else Response()
        if turn.role == "assistant":
            said, actions = _calls(turn, text)
            is_native = bool(turn.tool_calls)
            is_last_command = any(marker in action.arguments for action in actions for marker in MARKERS)
            talk.reply(
                said,
                thought=turn.reasoning_content or _thought(response),
                actions=actions,
                model=response.model,
                usage=values.usage(response.usage),
                cost=values.real(extra.cost),
                timestamp=values.stamp(extra.timestamp) or values.stamp(turn.timestamp),
            )
        elif turn.role == "exit":
            patch = extra.submission if extra.submission is not None else text
            outcome = Outcome(exit_status=extra.exit_status, patch=patch)
        elif turn.role == "user" and isinstance(extra.response, Response):
            _refused(turn, extra, response, text, talk)
        elif turn.role == "user" and talk.steps_begun and harness.is_notice(text):
            talk.refuse()
            talk.message("harness", text)
        elif turn.role == "tool" or (turn.role == "user" and talk.awaits_result and not is_native):
            if is_last_command and "<returncode>" not in text and extra.returncode is None:
                outcome = Outcome(patch=text)
            else:
                _result(turn, extra, text, talk)
        elif turn.role in ("user", "system"):
            talk.message("user" if turn.role == "user" else "system", text)
        else:
            talk.message("harness", text)
    return outcome


def _ended(status: str | None, config: Config, totals: Totals, *, has_submitted: bool) -> Ending | None:
    """How the run ended. ``LimitsExceeded`` is one word for both limits: the totals tell which one was reached."""
    if status is None:
        return "submitted" if has_submitted else None
    if status != "LimitsExceeded":
        return values.ended(status)
    limits = config.agent or Limits()
    pairs: tuple[tuple[Ending, Any, Any], ...] = (
        ("step_limit", totals.api_calls, limits.step_limit),
        ("cost_limit", totals.instance_cost, limits.cost_limit),
    )
    reached = [name for name, spent, limit in pairs if _is_over(values.real(spent), values.real(limit))]
    return reached[0] if len(reached) == 1 else None


def _is_over(spent: float | None, limit: float | None) -> bool:
    return spent is not None and limit is not None and 0 < limit <= spent


def _calls(turn: Turn, text: str) -> tuple[str, tuple[Action, ...]]:
    if turn.tool_calls:
        return text, native(turn.tool_calls)
    said, actions = fenced(text)
    parsed = turn.extra.actions if turn.extra is not None else None
    if parsed:
        return said, tuple(
            [Action(call_id=c.tool_call_id, tool="bash", arguments=c.command, is_text=True) for c in parsed]
        )
    return said, actions


def _result(turn: Turn, extra: Extra, text: str, talk: Conversation) -> None:
    unwrapped, code, error = harness.unwrap(text)
    if extra.raw_output is not None:
        # The message may show only head and tail of it.
        unwrapped = "\n".join(part for part in (extra.exception_info, extra.raw_output) if part)
    if extra.returncode is not None:
        code = harness.known_code(extra.returncode)
    talk.result(turn.tool_call_id, unwrapped, exit_code=code, error=True if extra.exception_info else error)
