"""Agent Trajectory Interchange Format (ATIF) documents, 1.0 to 1.8, as Harbor and its converters write them.

::

    {"schema_version": "ATIF-v1.8", "session_id": "s1", "agent": {"name": "terminus-2", "version": "2.0.0"}, "steps": [
      {"step_id": 1, "source": "user", "message": "Fix …"},
      {"step_id": 2, "source": "agent", "message": "Look first.", "reasoning_content": "…",
       "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}],
       "observation": {"results": [{"source_call_id": "c1", "content": "setup.py"}]},
       "metrics": {"prompt_tokens": 520, "cached_tokens": 200, "completion_tokens": 80, "cost_usd": 0.0004}}]}

An agent step is one reply with its results. Results without a call's id answer by position where the counts agree;
one result for several calls is a terminal's screen, which stands at the last of them. Where no step has calls, they are
read from the text in one of the syntaxes of ``calls.py``. What comes back for a reply without calls is the scaffold
speaking.

Embedded subagents, and Claude Code's sidechain steps in the main list, are runs of their own. A subagent in another
file is named in the facts; its path is never opened. Leading ``is_copied_context`` replies are ``copied_steps``: the
format asks every consumer to keep them out of training targets. The standard forbids unknown keys, so what it has no
field for is read from the ``extra`` of our own export (``handoff/exports/atif.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from handoff.adapters import harness, values
from handoff.adapters.atif_shapes import (
    Agent,
    AgentExtra,
    Content,
    Document,
    Metrics,
    Origin,
    OwnCall,
    OwnResult,
    OwnStep,
    Reference,
    ReferenceExtra,
    Result,
    ResultExtra,
    RootExtra,
    StepExtra,
    ToolCall,
    Totals,
    Turn,
)
from handoff.adapters.calls import TEXT_SYNTAXES, Reading, arguments_of, ending
from handoff.adapters.conversation import Conversation, Role
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.identity import canonical_json
from handoff.trajectory import Action, Outcome, Step, Trajectory, Usage

_COMPACTION = re.compile(r"summari[sz]|compact|condens", re.IGNORECASE)
_FACT = 500
"""Characters of the longest fact that is kept whole."""
_CONTINUED = re.compile(r"(.*)-cont-(\d{1,6})")


class Atif:
    """Reads ATIF documents."""

    format = "atif"

    def recognises(self, record: Record) -> bool:
        """By ``schema_version``."""
        return (record.peek("schema_version") or "").startswith("ATIF-v")

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The run, then those of its subagents; ``RecordError`` when the document holds no reply of its agent."""
        document = record.decode(Document)
        runs = []
        for path, found, parent in _documents(document):
            for is_main, turns in _strands(found):
                try:
                    run = _run(found, turns, path, record, is_main=is_main)
                except RecordError as error:
                    if found is document and is_main:
                        raise
                    record.problem(error)
                    continue
                above = parent if is_main else _name(found)
                runs.append(msgspec.structs.replace(run, parent=above or run.parent))
        return tuple(runs)


def _documents(document: Document) -> Iterator[tuple[str, Document, str | None]]:
    """(path, document, parent's session) of a document and all below it, parents first."""
    waiting: list[tuple[str, Document, str | None]] = [("$", document, None)]
    for path, found, parent in waiting:
        yield path, found, parent
        for position, child in enumerate(found.subagent_trajectories or []):
            waiting.append((f"{path}.subagent_trajectories[{position}]", child, _name(found)))


def _strands(document: Document) -> Iterator[tuple[bool, list[Turn]]]:
    """The main line and, apart from it, the sidechain steps that Harbor's Claude Code converter puts before it."""
    side = [turn for turn in document.steps if turn.extra is not None and turn.extra.is_sidechain is True]
    if not side or len(side) == len(document.steps):
        yield True, document.steps
        return
    yield True, [turn for turn in document.steps if turn.extra is None or turn.extra.is_sidechain is not True]
    yield False, side


def _name(document: Document) -> str | None:
    return document.session_id or document.trajectory_id or None


def _run(document: Document, turns: list[Turn], path: str, record: Record, *, is_main: bool) -> Trajectory:
    talk = _Talk(turns, is_ours=document.extra is not None and document.extra.origin is not None)
    for position, turn in enumerate(turns):
        talk.add(turn, f"{path}.steps[{position}].source")
    steps = talk.steps()
    task = next((m.text for m in talk.preamble if m.role == "user"), "")
    if not steps or not task:
        raise RecordError(
            "No step of the agent is in it." if task else "No user step comes first, so the task is missing.",
            field=f"{path}.steps",
            remedy="The run ended before its first reply, or the export lost a part; leave it out or export it again.",
        )
    agent = document.agent or Agent()
    about = agent.extra or AgentExtra()
    extra = document.extra or RootExtra()
    origin = extra.origin or Origin()
    session = _name(document) if is_main else None
    task_id = origin.task_id or extra.task_id
    return Trajectory(
        format="atif",
        task_id=values.task_of(task_id),
        task=task,
        repo=origin.repo or extra.repo or values.repository_of(task_id),
        base_commit=values.commit(origin.base_commit or extra.base_commit),
        agent=agent.name,
        model=agent.model_name,
        licence=origin.licence,
        split=values.split(origin.split),
        tools=values.tool_definitions(agent.tool_definitions),
        preamble=tuple(talk.preamble),
        steps=steps,
        session=session,
        parent=about.parent_session_id,
        continues=_continues(session, about) if is_main else None,
        copied_steps=talk.copied,
        outcome=Outcome(ended=None if document.continued_trajectory_ref else ending(steps)),
        source=canonical_json(_facts(document, talk, is_main, record, path)).decode(),
    )


class _Talk(Conversation):
    """The steps of one line of a document as a conversation."""

    def __init__(self, turns: list[Turn], *, is_ours: bool) -> None:
        super().__init__()
        self._is_ours = is_ours
        self.copied = 0
        self.syntax = _syntax(turns)
        self.subagents: list[dict[str, Any]] = []
        self.call_counts: dict[str, int] = {}
        self._own_ids: dict[str, str | None] = {}
        self._replies = 0
        self._is_leading = True
        self._was_compacted = False

    def steps(self) -> tuple[Step, ...]:
        """The finished steps, with the call ids that a predecessor's source had."""
        steps = super().steps()
        return tuple([_with_ids(step, self._own_ids) for step in steps]) if self._own_ids else steps

    def add(self, turn: Turn, where: str) -> None:
        """The next entry of ``steps``."""
        if turn.source == "agent":
            self._reply(turn)
        elif turn.source in ("user", "system"):
            self._heard(turn)
        else:
            raise RecordError(
                f"Unknown source {turn.source[:40]!r}.",
                field=where,
                remedy="It is system, user or agent.",
            )

    def _reply(self, turn: Turn) -> None:
        self._replies += 1
        if turn.is_copied_context is True and self._is_leading:
            self.copied += 1
        else:
            self._is_leading = False
        count = values.whole(turn.llm_call_count)
        if count not in (None, 1):
            self.call_counts[str(self._replies)] = count
        extra = turn.extra or StepExtra()
        own = extra.handoff or OwnStep()
        said, actions = _text(turn.message), self._actions(turn.tool_calls or [])
        if not actions and self.syntax is not None:
            said, actions = self.syntax(said)
        metrics = turn.metrics or own.metrics
        self.reply(
            said,
            thought=turn.reasoning_content or "",
            actions=actions,
            model=turn.model_name,
            usage=_usage(metrics),
            cost=values.real(metrics.cost_usd) if metrics is not None else None,
            timestamp=values.stamp(turn.timestamp) or own.timestamp,
        )
        self._results(turn, len(actions), values.flag(extra.tool_result_is_error))
        for call in turn.tool_calls or ():
            about = (call.extra.handoff if call.extra is not None else None) or OwnCall()
            if about.missing is not None:
                self.result(call.tool_call_id, "", missing=about.missing)
        if own.boundary is not None:
            self.boundary(own.boundary)

    def _actions(self, calls: list[ToolCall]) -> tuple[Action, ...]:
        actions = []
        for call in calls:
            own = (call.extra.handoff if call.extra is not None else None) or OwnCall()
            if call.tool_call_id and own.call_id is not msgspec.UNSET:
                self._own_ids[call.tool_call_id] = own.call_id
            arguments, is_text = arguments_of(msgspec.Raw(msgspec.json.format(call.arguments, indent=-1)))
            if own.is_text:
                arguments, is_text = _only_text(arguments), True
            tool = call.function_name or ""
            actions.append(Action(call_id=call.tool_call_id or None, tool=tool, arguments=arguments, is_text=is_text))
        return tuple(actions)

    def _results(self, turn: Turn, calls: int, error: bool | None) -> None:
        results = (turn.observation.results if turn.observation is not None else None) or []
        self._note_subagents(results)
        told = [result for result in results if result.content is not None]
        unnamed = sum(not result.source_call_id for result in told)
        for result in told:
            text, code, flag = _text(result.content), None, None
            if not self._is_ours:
                text, code, flag = harness.unwrap(text)
            extra = result.extra or ResultExtra()
            own = extra.handoff or OwnResult()
            if extra.exit_code is not None:
                code = harness.known_code(values.whole(extra.exit_code, 31))
            flag = values.flag(extra.is_error) if extra.is_error is not None else error if error is not None else flag
            if result.source_call_id:
                self.result(result.source_call_id, text, exit_code=code, error=flag)
            elif own.is_orphan:
                self.orphan(own.call_id, text, exit_code=code, error=flag)
            elif harness.is_notice(text):
                self.refuse()
                self.message("harness", text)
            elif not self.awaits_result:
                self.message("harness", text)
            elif unnamed == 1:
                self.screen(text, exit_code=code, error=flag)
            elif unnamed == calls:
                self.result(None, text, exit_code=code, error=flag)
            else:
                self.orphan(None, text, exit_code=code, error=flag)

    def _heard(self, turn: Turn) -> None:
        own = (turn.extra.handoff if turn.extra is not None else None) or OwnStep()
        text = _text(turn.message)
        is_system = turn.source == "system"
        role: Role
        if own.role is not None:
            role = own.role
        elif is_system:
            role = "harness" if self.preamble or self.steps_begun else "system"
            if self.steps_begun and _COMPACTION.search(text, 0, 2_000):
                self.boundary("compaction")
                self._was_compacted = True
        elif harness.is_notice(text) and self.steps_begun:
            role = "harness"
        elif self.preamble and (self._was_compacted or harness.is_summary(text)):
            role = "context_summary"
        else:
            role = "user"
        self._was_compacted = self._was_compacted and is_system
        if text or own.role is not None:
            self.message(role, text)
        results = (turn.observation.results if turn.observation is not None else None) or []
        self._note_subagents(results)
        for result in results:
            if result.content:
                self.message("harness", _text(result.content))

    def _note_subagents(self, results: list[Result]) -> None:
        for result in results:
            found = result.subagent_trajectory_ref
            for reference in [found] if isinstance(found, Reference) else found or []:
                about = reference.extra or ReferenceExtra()
                facts = {
                    "session": reference.session_id or reference.trajectory_id,
                    "path": reference.trajectory_path,
                    "summary": about.summary,
                }
                kept = {key: text[:_FACT] for key, text in facts.items() if text}
                self.subagents.append({"step": self._replies} | kept)


def _only_text(arguments: str) -> str:
    try:
        found = msgspec.json.decode(arguments, type=dict[str, str])
    except msgspec.DecodeError:
        return arguments
    return next(iter(found.values()), "")


def _with_ids(step: Step, ids: dict[str, str | None]) -> Step:
    def own(call_id: str | None) -> str | None:
        return ids.get(call_id, call_id) if call_id is not None else None

    return msgspec.structs.replace(
        step,
        actions=tuple([msgspec.structs.replace(action, call_id=own(action.call_id)) for action in step.actions]),
        observations=tuple([msgspec.structs.replace(seen, call_id=own(seen.call_id)) for seen in step.observations]),
    )


def _syntax(turns: list[Turn]) -> Any:
    """The text syntax of a run none of whose replies has calls of its own."""
    replies = [turn for turn in turns if turn.source == "agent"]
    if any(turn.tool_calls for turn in replies):
        return None
    for _, mark, reader in TEXT_SYNTAXES:
        for turn in replies:
            text = _text(turn.message)
            reading: Reading = reader(text) if mark in text else ("", ())
            if reading[1]:
                return reader
    return None


def _text(content: Content) -> str:
    if isinstance(content, list):
        return "\n".join(
            part.text or ""
            if part.source is None
            else values.media(part.type or "media", part.source.path, part.source.media_type)
            for part in content
        )
    return content or ""


def _usage(metrics: Metrics | None) -> Usage | None:
    if metrics is None:
        return None
    return values.tokens(
        prompt=metrics.prompt_tokens, cached=metrics.cached_tokens, completion=metrics.completion_tokens
    )


def _continues(session: str | None, about: AgentExtra) -> str | None:
    """Terminus names the session of a continuation after the one it goes on from."""
    if session is None or not values.whole(about.continuation_index):
        return None
    found = _CONTINUED.fullmatch(session)
    if found is None:
        return session
    number = int(found[2])
    return found[1] if number <= 1 else f"{found[1]}-cont-{number - 1}"


def _facts(document: Document, talk: _Talk, is_main: bool, record: Record, path: str) -> dict[str, Any]:
    agent = document.agent or Agent()
    about = agent.extra or AgentExtra()
    extra = document.extra or RootExtra()
    totals = document.final_metrics or Totals()
    sums = {name: values.real(getattr(totals, name)) for name in Totals.__struct_fields__ if name != "total_steps"}
    facts: dict[str, Any] = {
        "schema_version": document.schema_version,
        "agent_version": agent.version,
        "agent_class": about.agent_class,
        "parser": about.parser,
        "temperature": values.real(about.temperature),
        "summarization_index": values.whole(about.summarization_index),
        "cwds": sorted(set(about.cwds or [extra.cwd or ""])),
        "branches": sorted(set(about.git_branches or [extra.git_branch or ""])),
        "subagents": talk.subagents,
        "llm_call_counts": talk.call_counts,
        "repairs": record.repairs,
    }
    if is_main:
        ids = enumerate([turn.step_id for turn in document.steps], 1)
        facts["step_ids_break_at"] = next((place for place, id_ in ids if id_ not in (None, place)), None)
        facts["base_ref"] = None if values.commit(extra.base_commit) else extra.base_commit
        facts["trajectory_id"] = document.trajectory_id if document.session_id else None
        facts["continued_in"] = document.continued_trajectory_ref
        facts["totals"] = {name: number for name, number in sums.items() if number}
        facts["notes"] = document.notes
        if document.notes and len(document.notes) > _FACT:
            record.lost(f"{path}.notes")
    return {
        key: value[:_FACT] if isinstance(value, str) else value
        for key, value in facts.items()
        if value not in (None, "", 0, [], {}, [""])
    }
