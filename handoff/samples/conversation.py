"""Messages and their spans, grown together from what a successor was told and did."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from handoff.errors import RecordError
from handoff.samples.sample import ENV_WEIGHT, Function, Part, Role, SampleMessage, Span, ToolCall
from handoff.successors import Briefing
from handoff.trajectory import Action, Observation, Step

TEXT_ARGUMENT = "input"
"""The one argument of a tool other than a shell that takes free text."""


VOLATILE = re.compile(
    r"\[[^\[\]\n]{0,80}\b(?:truncated|left out|omitted|clipped)\b[^\[\]\n]{0,80}\]"  # a harness cut the output
    r"|<response clipped>"
    r"|\b(?:0x[0-9a-f]{6,16})\b"  # addresses
    r"|/tmp/tmp[\w.-]+|/tmp/pytest-of-[\w.-]+/pytest-\d+"
    r"|\b\d+\.\d+ ?s(?:ec(?:onds)?)?\b"  # durations
    r"|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?",
    re.IGNORECASE,
)
"""Parts of an observation that cannot be predicted and must not be learned (role ``warning``)."""

Pieces: TypeAlias = Sequence[tuple[str, Role]]
_WEIGHTS: dict[Role, float] = {"action": 1.0, "env_output": ENV_WEIGHT, "handoff_state": 1.0}


def opening(briefing: Briefing) -> list[tuple[str, Role]]:
    """What the successor is told, in the order of ``docs/science.md §3``."""
    parts: list[tuple[str, Role]] = []
    for text, role in (
        (briefing.preamble, "handoff_context"),
        (briefing.view_text, "handoff_context"),
        (briefing.task, "context"),
    ):
        if text:
            parts += [("\n\n", parts[-1][1])] if parts else []
            parts.append((text, role))  # type: ignore[arg-type]  # the tuple's literals widen to str
    return parts


def roles_of_output(text: str) -> list[tuple[str, Role]]:
    """What a tool printed; what cannot be predicted is a ``warning``."""
    pieces: list[tuple[str, Role]] = []
    last = 0
    for match in VOLATILE.finditer(text):
        pieces += [(text[last : match.start()], "env_output"), (match.group(), "warning")]
        last = match.end()
    return [*pieces, (text[last:], "env_output")]


class Conversation:
    """Messages and their spans, grown together."""

    def __init__(self, part: Part = "messages") -> None:
        self.part = part
        self.messages: list[SampleMessage] = []
        self.spans: list[Span] = []
        self.changes: dict[str, int] = {}

    def open(self, briefing: Briefing) -> None:
        """The first message, behind that of the system. ``RecordError`` when the successor was told nothing."""
        pieces = opening(briefing)
        if not pieces:
            raise RecordError("the successor was told nothing", field="$.messages[0]", remedy="Give a task.")
        if briefing.system and not self.messages:  # an instruction of our own stands in its place
            self.add("system", [(briefing.system, "context")], segment="instruction")
        self.add("user", pieces, segment="task")

    def play(self, steps: Sequence[Step]) -> None:
        """The successor's conversation, cut after its last reply."""
        for number, step in enumerate(steps, 1):
            if step.text or step.thought or step.actions:
                self._reply(number, step)
                for position, action in enumerate(step.actions):
                    self._result(number, position, action, step)
            self._count("orphan_results_dropped", sum(o.is_orphan for o in step.observations))
            for message in step.after:
                role: Role = "warning" if message.role == "harness" else "context"
                self.add("user", [(message.text, role)], segment="harness", source_step=number)
        while self.messages and self.messages[-1].role != "assistant":
            self._drop_last()
        if not self.messages:
            raise RecordError("the successor said nothing", field="$.messages", remedy="Drop the takeover.")

    def train_last_alone(self) -> None:
        """Everything but the last message is context."""
        last = len(self.messages) - 1
        self.messages[:last] = [msgspec.structs.replace(message, train=False) for message in self.messages[:last]]
        self.spans = [
            span if span.message == last else msgspec.structs.replace(span, weight=0.0) for span in self.spans
        ]

    def add(
        self,
        role: Literal["system", "user", "assistant", "tool"],
        pieces: Pieces,
        *,
        segment: Literal["task", "successor", "environment", "harness", "instruction", "target"],
        source_step: int | None = None,
        train: bool = False,
        tool_call_id: str | None = None,
        env_weight: float = ENV_WEIGHT,
    ) -> None:
        """One message; text of a role that spoke just now is appended to its message instead."""
        last = self.messages[-1] if self.messages else None
        if last is not None and role == last.role == "user":
            self.messages.pop()
            pieces = [("\n\n", "context"), *pieces]
            content, offset, segment, source_step = last.content, len(last.content), last.segment, last.source_step
        else:
            content, offset = "", 0
        text = content + "".join(piece for piece, _ in pieces)
        self._mark("content", pieces, offset, env_weight)
        self.messages.append(
            SampleMessage(
                role=role,
                content=text,
                segment=segment,
                source_step=source_step,
                train=train,
                tool_call_id=tool_call_id,
            )
        )

    def _reply(self, number: int, step: Step) -> None:
        content, reasoning = step.text, step.thought
        if (
            self.messages and self.messages[-1].role == "assistant"
        ):  # a reply that called nothing and was followed by another
            last = self.messages.pop()
            at = len(self.messages)
            self.spans = [span for span in self.spans if span.message != at]
            content = "\n\n".join(filter(None, (last.content, content)))
            reasoning = "\n\n".join(filter(None, (last.reasoning_content, reasoning)))
            self._count("replies_joined", 1)
        calls = tuple(
            ToolCall(
                id=_call_id(number, position),
                function=Function(
                    name=_tool_name(action, number, position), arguments=self._arguments(action, number, position)
                ),
            )
            for position, action in enumerate(step.actions)
        )
        self._mark("content", [(content, "action")])
        self._mark("reasoning_content", [(reasoning, "action")])
        for position, call in enumerate(calls):
            self._mark(f"tool_calls[{position}].function.name", [(call.function.name, "action")])
            self._mark(f"tool_calls[{position}].function.arguments", [(call.function.arguments, "action")])
        self.messages.append(
            SampleMessage(
                role="assistant",
                content=content,
                reasoning_content=reasoning,
                tool_calls=calls,
                segment="successor",
                source_step=number,
                train=True,
            )
        )

    def _result(self, number: int, position: int, action: Action, step: Step) -> None:
        answers = [o for o in step.observations if not o.is_orphan]
        answer = answers[position] if position < len(answers) else Observation(missing="none")
        if answer.missing is not None and not answer.text:
            self._count("missing_results_as_empty", 1)
        self.add(
            "tool",
            roles_of_output(answer.text),
            segment="environment",
            source_step=number,
            tool_call_id=_call_id(number, position),
        )

    def _arguments(self, action: Action, number: int, position: int) -> str:
        if action.is_text:
            is_line = action.tool == "bash"
            self._count("shell_lines_wrapped" if is_line else "text_arguments_wrapped", 1)
            return msgspec.json.encode({"command" if is_line else TEXT_ARGUMENT: action.arguments}).decode()
        try:
            msgspec.json.decode(action.arguments, type=dict[str, msgspec.Raw])
        except msgspec.DecodeError as error:
            raise RecordError(
                f"the arguments of {action.tool!r} are not a JSON object: {error}",
                field=f"$.steps[{number - 1}].actions[{position}].arguments",
                remedy="Mark them as text at the source, or drop the takeover.",
            ) from error
        return action.arguments

    def _drop_last(self) -> None:
        dropped = self.messages.pop()
        at = len(self.messages)
        self.spans = [span for span in self.spans if span.message != at]
        self._count("closing_results_cut" if dropped.role == "tool" else "closing_messages_cut", 1)

    def _mark(self, field: str, pieces: Pieces, offset: int = 0, env_weight: float = ENV_WEIGHT) -> None:
        for text, role in pieces:
            if not text:
                continue
            weight = env_weight if role == "env_output" else _WEIGHTS.get(role, 0.0)
            span = Span(
                part=self.part,
                message=len(self.messages),
                field=field,
                start=offset,
                end=offset + len(text),
                role=role,
                weight=weight,
            )
            offset = span.end
            if self.spans and self.spans[-1].end == span.start and _same_place(self.spans[-1], span):
                span = msgspec.structs.replace(self.spans.pop(), end=span.end)
            self.spans.append(span)

    def _count(self, change: str, number: int) -> None:
        if number:
            self.changes[change] = self.changes.get(change, 0) + number


def _same_place(a: Span, b: Span) -> bool:
    return (a.message, a.field, a.role, a.weight) == (b.message, b.field, b.role, b.weight)


def _call_id(step: int, position: int) -> str:
    return f"c{step:05d}{position:03d}"


_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _tool_name(action: Action, number: int, position: int) -> str:
    if not _NAME.fullmatch(action.tool):
        raise RecordError(
            f"{action.tool!r} cannot name a tool",
            field=f"$.steps[{number - 1}].actions[{position}].tool",
            remedy="Names are letters, digits, '_', '.' and '-', 64 at most; drop the takeover.",
        )
    return action.tool
