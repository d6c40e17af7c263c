"""The lines of a Codex rollout as types."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from handoff.adapters import values
from handoff.framing.losses import NOTHING, Repeated, Unhoused, Upkeep

ENCRYPTED = "encrypted: only the provider can read it"
Opaque = Annotated[msgspec.Raw, msgspec.Meta(extra={"aside": ENCRYPTED})]
"""Reasoning and summaries that the provider sealed."""


class Line(msgspec.Struct, gc=False):
    """One line: when, what kind, and what."""

    timestamp: Any = None
    type: Any = None
    payload: msgspec.Raw = NOTHING
    ordinal: Upkeep = NOTHING


class Look(msgspec.Struct, gc=False):
    """A look at a payload: what it is, and the turn it belongs to."""

    type: str | None = None
    turn_id: Any = None


class State(msgspec.Struct, gc=False):
    """A line of early 2025 about the client itself."""

    record_type: Any = None


class Text(msgspec.Struct, gc=False):
    """Instructions, and where they come from."""

    text: str | None = None
    provenance: Upkeep = NOTHING


class Git(msgspec.Struct, gc=False):
    """The repository at the start; its tree may have been dirty."""

    commit_hash: str | None = None
    branch: str | None = None
    repository_url: str | None = None


class Spawn(msgspec.Struct, gc=False):
    """Who started a subagent."""

    parent_thread_id: str | None = None
    depth: Unhoused = NOTHING
    agent_nickname: Repeated = NOTHING
    agent_role: Repeated = NOTHING
    agent_path: Repeated = NOTHING


class Subagent(msgspec.Struct, gc=False):
    """``source.subagent`` when it is an object."""

    thread_spawn: Spawn | None = None
    other: str | None = None


class Origin(msgspec.Struct, gc=False):
    """``source`` when it is an object."""

    subagent: str | Subagent | None = None
    custom: str | None = None
    internal: str | None = None


class Base(msgspec.Struct, gc=False):
    """Where a fork without copied lines takes its history from."""

    thread_id: str | None = None
    end_ordinal_exclusive: Any = None
    end_byte_offset: Upkeep = NOTHING


class Session(msgspec.Struct, gc=False):
    """``session_meta``; also the first line of a rollout of 2025, which has no ``type``."""

    id: str | None = None
    timestamp: Any = None
    cwd: Any = None
    originator: Any = None
    cli_version: Any = None
    source: str | Origin | None = None
    git: Git | None = None
    model_provider: Any = None
    base_instructions: Text | None = None
    instructions: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    agent_nickname: Any = None
    agent_role: Any = None
    agent_path: Upkeep = NOTHING
    history_base: Base | None = None
    session_id: Repeated = NOTHING
    forked_from_ordinal_exclusive: Upkeep = NOTHING
    thread_source: Upkeep = NOTHING
    history_mode: Upkeep = NOTHING
    memory_mode: Upkeep = NOTHING
    context_window: Upkeep = NOTHING
    multi_agent_version: Upkeep = NOTHING


class Context(msgspec.Struct, gc=False):
    """``turn_context``: how the next replies are asked for."""

    model: str | None = None
    effort: Any = None
    cwd: Repeated = NOTHING
    turn_id: Any = None
    user_instructions: Repeated = NOTHING
    developer_instructions: Repeated = NOTHING
    base_instructions: Repeated = NOTHING
    workspace_roots: Upkeep = NOTHING
    current_date: Upkeep = NOTHING
    timezone: Upkeep = NOTHING
    approval_policy: Upkeep = NOTHING
    approvals_reviewer: Upkeep = NOTHING
    sandbox_policy: Upkeep = NOTHING
    file_system_sandbox_policy: Upkeep = NOTHING
    permission_profile: Upkeep = NOTHING
    active_permission_profile: Upkeep = NOTHING
    network: Upkeep = NOTHING
    collaboration_mode: Upkeep = NOTHING
    multi_agent_mode: Upkeep = NOTHING
    multi_agent_version: Upkeep = NOTHING
    personality: Upkeep = NOTHING
    realtime_active: Upkeep = NOTHING
    summary: Upkeep = NOTHING
    truncation_policy: Upkeep = NOTHING
    final_output_json_schema: Upkeep = NOTHING
    comp_hash: Upkeep = NOTHING


# -- what was said and done: response_item -----------------------------------------------------------


class Served(msgspec.Struct, gc=False):
    """What all items of the model's API have."""

    type: Any = None
    status: Upkeep = NOTHING
    metadata: Upkeep = NOTHING
    internal_chat_message_metadata_passthrough: Upkeep = NOTHING


class Item(Served, gc=False):
    """An item whose own id names nothing else."""

    id: Upkeep = NOTHING


class Part(msgspec.Struct, gc=False):
    """One part of a content list."""

    type: Any = None
    text: str | None = None
    refusal: str | None = None
    image_url: Any = None
    detail: Upkeep = NOTHING
    encrypted_content: Opaque = NOTHING
    annotations: Upkeep = NOTHING
    logprobs: Upkeep = NOTHING


Content = str | list[Part] | Part | None


class Message(Item, gc=False):
    """``message``: of the model, the user, or the harness in the name of either."""

    role: str | None = None
    content: Content = None
    phase: Any = None
    end_turn: Upkeep = NOTHING


class AgentMessage(Item, gc=False):
    """``agent_message``: what another agent sent."""

    author: Unhoused = NOTHING
    recipient: Upkeep = NOTHING
    content: Content = None


class Reasoning(Item, gc=False):
    """``reasoning``: its summary, its text where the provider gives it, or a seal."""

    summary: Content = None
    content: Content = None
    encrypted_content: Opaque = NOTHING


class FunctionCall(Item, gc=False):
    """``function_call``, ``tool_search_call``."""

    name: str | None = None
    namespace: str | None = None
    arguments: msgspec.Raw = NOTHING
    call_id: str | None = None
    execution: Upkeep = NOTHING


class CustomCall(Item, gc=False):
    """``custom_tool_call``: free text, mostly a patch."""

    name: str | None = None
    namespace: str | None = None
    input: str | None = None
    call_id: str | None = None


class ShellAction(msgspec.Struct, gc=False):
    """What a ``local_shell_call`` runs. Its environment may hold secrets and is left out."""

    type: Upkeep = NOTHING
    command: list[str] | None = None
    working_directory: Any = None
    timeout_ms: Any = None
    env: Upkeep = NOTHING
    user: Upkeep = NOTHING


class ShellCall(Item, gc=False):
    """``local_shell_call``."""

    call_id: str | None = None
    action: ShellAction | None = None


class SearchCall(Served, gc=False):
    """``web_search_call``: the provider searches; what it found is mostly not in the file."""

    id: str | None = None
    status: Any = None
    action: msgspec.Raw = NOTHING


class ImageCall(Served, gc=False):
    """``image_generation_call``: call and result in one."""

    id: str | None = None
    revised_prompt: Any = None
    result: str | None = None


class Sealed(Item, gc=False):
    """``compaction``, ``context_compaction``: the provider's own summary."""

    encrypted_content: Opaque = NOTHING


class Output(Item, gc=False):
    """``function_call_output``, ``custom_tool_call_output``."""

    call_id: str | None = None
    name: Repeated = NOTHING
    output: msgspec.Raw = NOTHING
    success: Any = None


class SearchOutput(Item, gc=False):
    """``tool_search_output``: the tools that were found."""

    call_id: str | None = None
    execution: Upkeep = NOTHING
    tools: msgspec.Raw = NOTHING


class Compacted(msgspec.Struct, gc=False):
    """``compacted``: the context was replaced."""

    message: str | None = None
    replacement_history: msgspec.Raw = NOTHING
    window_id: Upkeep = NOTHING
    window_number: Upkeep = NOTHING
    first_window_id: Upkeep = NOTHING
    previous_window_id: Upkeep = NOTHING


# -- what the client saw: event_msg ------------------------------------------------------------------


class Event(msgspec.Struct, gc=False):
    """What all events have."""

    type: Any = None
    turn_id: Any = None


class Heard(Event, gc=False):
    """``user_message``: a clean copy of what the human typed."""

    message: str | None = None
    images: list[str] | None = None
    local_images: list[str] | None = None
    text_elements: Upkeep = NOTHING
    audio: Upkeep = NOTHING
    local_audio: Upkeep = NOTHING
    client_id: Upkeep = NOTHING
    kind: Upkeep = NOTHING


class Counts(msgspec.Struct, gc=False):
    """Tokens of one reply."""

    input_tokens: Any = None
    cached_input_tokens: Any = None
    output_tokens: Any = None
    total_tokens: Repeated = NOTHING


class TokenInfo(msgspec.Struct, gc=False):
    """``info`` of a token count; the running total tells a new count from a repeated one."""

    total_token_usage: msgspec.Raw = NOTHING
    last_token_usage: Counts | None = None
    model_context_window: Upkeep = NOTHING


class TokenCount(Event, gc=False):
    """``token_count``."""

    info: TokenInfo | None = None
    rate_limits: Upkeep = NOTHING


class Ended(Event, gc=False):
    """``exec_command_end``, ``patch_apply_end``: how a call went, as the client saw it."""

    call_id: str | None = None
    aggregated_output: str | None = None
    exit_code: Any = None
    success: Any = None
    status: str | None = None
    process_id: Repeated = NOTHING
    command: Repeated = NOTHING
    cwd: Repeated = NOTHING
    parsed_cmd: Repeated = NOTHING
    source: Upkeep = NOTHING
    interaction_input: Repeated = NOTHING
    stdout: Repeated = NOTHING
    stderr: Repeated = NOTHING
    formatted_output: Repeated = NOTHING
    changes: Repeated = NOTHING
    auto_approved: Upkeep = NOTHING


class ToolEnded(Event, gc=False):
    """``mcp_tool_call_end``."""

    call_id: str | None = None
    invocation: Repeated = NOTHING
    duration: Unhoused = NOTHING
    result: msgspec.Raw = NOTHING
    """Read for its error flag alone."""


class ToolOk(msgspec.Struct, gc=False):
    """``result.Ok`` of a tool's end; its content is the call's output again."""

    isError: Any = None


class ToolResult(msgspec.Struct, gc=False):
    """``result`` of a tool's end."""

    Ok: ToolOk | None = None
    Err: Any = None


class Searched(Event, gc=False):
    """``web_search_end``."""

    call_id: str | None = None
    query: Repeated = NOTHING
    action: Repeated = NOTHING
    results: msgspec.Raw = NOTHING


class Stopped(Event, gc=False):
    """``turn_aborted``."""

    reason: str | None = None
    started_at: Upkeep = NOTHING
    completed_at: Upkeep = NOTHING
    duration_ms: Unhoused = NOTHING


class TurnError(msgspec.Struct, gc=False):
    """Why a turn failed."""

    message: str | None = None
    codex_error_info: Any = None


class Completed(Event, gc=False):
    """``task_complete``, ``turn_complete``."""

    error: TurnError | None = None
    last_agent_message: Repeated = NOTHING
    started_at: Upkeep = NOTHING
    completed_at: Upkeep = NOTHING
    duration_ms: Unhoused = NOTHING
    time_to_first_token_ms: Unhoused = NOTHING


class Notice(Event, gc=False):
    """``error``, ``warning``, ``stream_error``, ``undo_completed``: the client speaks."""

    message: str | None = None
    codex_error_info: Any = None
    success: Any = None


class RolledBack(Event, gc=False):
    """``thread_rolled_back``: turns that were taken back; their edits stay."""

    num_turns: Any = None


class Finished(Ended, gc=False):
    """``item`` of an ``item_completed`` that is a command or a change of files; its ``id`` is the call's."""

    id: str | None = None


class Typed(msgspec.Struct, gc=False):
    """``item`` of an ``item_completed``: a message of the human, or something else by its type."""

    type: Any = None
    content: Content = None


class ItemCompleted(Event, gc=False):
    """``item_completed``: newer versions tell an item's end like this."""

    item: msgspec.Raw = NOTHING
    thread_id: Upkeep = NOTHING
    started_at_ms: Upkeep = NOTHING
    completed_at_ms: Upkeep = NOTHING


class Payload(Part, gc=False):
    """An output that is an object: one part, or content with a flag."""

    content: str | list[Part] | None = None
    success: Any = None


def parts(content: Content) -> list[Part]:
    """A content in its full form."""
    if isinstance(content, str | None):
        return [Part(text=content)] if content else []
    return content if isinstance(content, list) else [content]


def texts(content: Content) -> list[str]:
    """The texts of its parts; what is no text is named."""
    return [text for text in map(said_in, parts(content)) if text]


def join(content: Content) -> str:
    """Its text, one part after the other, each on a line of its own."""
    said = texts(content)
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in said[:-1]) + "".join(said[-1:])


def said_in(part: Part) -> str:
    """The text of one part."""
    if part.text is not None or part.refusal is not None:
        return part.text or part.refusal or ""
    return values.media("image", part.image_url) if isinstance(part.image_url, str) and part.image_url else ""
