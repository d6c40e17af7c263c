"""The objects of ATIF documents, as far as ``atif.py`` reads them.

Unknown keys are forbidden by the standard, so what it has no field for stands under ``extra``. What our own export
(``handoff/exports/atif.py``) says there is under ``handoff``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from handoff.adapters.conversation import Role
from handoff.framing.losses import NOTHING, Repeated, Unhoused, Upkeep
from handoff.trajectory import Boundary, Missing


class Source(msgspec.Struct, gc=False):
    """Where an image or a sound lies."""

    media_type: str | None = None
    path: str | None = None
    duration_sec: Unhoused = NOTHING


class Part(msgspec.Struct, gc=False):
    """One part of a multimodal text."""

    type: str | None = None
    text: str | None = None
    source: Source | None = None


Content = str | list[Part] | None


class ReferenceExtra(msgspec.Struct, gc=False):
    """``extra`` of a reference to a subagent."""

    summary: str | None = None


class Reference(msgspec.Struct, gc=False):
    """A subagent's run, embedded or in another file."""

    trajectory_id: str | None = None
    session_id: str | None = None
    trajectory_path: str | None = None
    extra: ReferenceExtra | None = None


class OwnResult(msgspec.Struct, gc=False):
    """What our export says of a result."""

    is_orphan: bool = False
    call_id: str | None = None
    """Of an orphan: the id of the call that is not in the file."""


class ResultExtra(msgspec.Struct, gc=False):
    """``extra`` of a result."""

    exit_code: Any = None
    is_error: Any = None
    handoff: OwnResult | None = None


class Result(msgspec.Struct, gc=False):
    """What came back for one call, or for the step."""

    source_call_id: str | None = None
    content: Content = None
    subagent_trajectory_ref: list[Reference] | Reference | None = None
    extra: ResultExtra | None = None


class Seen(msgspec.Struct, gc=False):
    """``observation``."""

    results: list[Result] | None = None


class OwnCall(msgspec.Struct, gc=False):
    """What our export says of a predecessor's call."""

    call_id: str | msgspec.UnsetType | None = msgspec.UNSET
    """The source's own id where the document needs another; ``null``: the source has none."""
    is_text: bool = False
    """The only argument is text that the source did not keep as an object."""
    missing: Missing | None = None


class CallExtra(msgspec.Struct, gc=False):
    """``extra`` of a call."""

    handoff: OwnCall | None = None


class ToolCall(msgspec.Struct, gc=False):
    """One call."""

    tool_call_id: str | None = None
    function_name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    extra: CallExtra | None = None


class Metrics(msgspec.Struct, gc=False):
    """Tokens and cost of a step; ``prompt_tokens`` includes the cached ones."""

    prompt_tokens: Any = None
    cached_tokens: Any = None
    completion_tokens: Any = None
    cost_usd: Any = None


class OwnStep(msgspec.Struct, gc=False):
    """What our export says of a predecessor's step."""

    role: Role | None = None
    boundary: Boundary | None = None
    timestamp: str | None = None
    metrics: Metrics | None = None


class StepExtra(msgspec.Struct, gc=False):
    """``extra`` of a step, as Harbor's converters and our export write it."""

    note: Upkeep = NOTHING
    is_sidechain: Any = None
    tool_result_is_error: Any = None
    tool_use_name: Repeated = NOTHING
    raw_arguments: Repeated = NOTHING
    metadata: Repeated = NOTHING
    handoff: OwnStep | None = None


class Turn(msgspec.Struct, gc=False):
    """One entry of ``steps``."""

    source: str
    message: Content = None
    step_id: Any = None
    timestamp: Any = None
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Seen | None = None
    metrics: Metrics | None = None
    llm_call_count: Any = None
    is_copied_context: Any = None
    extra: StepExtra | None = None


class AgentExtra(msgspec.Struct, gc=False):
    """``agent.extra``: what Harbor's agents write there."""

    parser: str | None = None
    temperature: Any = None
    agent_class: str | None = None
    continuation_index: Any = None
    summarization_index: Any = None
    parent_session_id: str | None = None
    cwds: list[str] | None = None
    git_branches: list[str] | None = None


class Agent(msgspec.Struct, gc=False):
    """``agent``."""

    name: str | None = None
    version: str | None = None
    model_name: str | None = None
    tool_definitions: msgspec.Raw = msgspec.Raw(b"null")
    extra: AgentExtra | None = None


class Origin(msgspec.Struct, gc=False):
    """``extra.origin`` of our own export."""

    task_id: str | None = None
    repo: str | None = None
    base_commit: str | None = None
    licence: str | None = None
    split: str | None = None


class RootExtra(msgspec.Struct, gc=False):
    """``extra`` of a document."""

    origin: Origin | None = None
    cwd: str | None = None
    git_branch: str | None = None
    base_commit: str | None = None
    repo: str | None = None
    task_id: str | None = None


class Totals(msgspec.Struct, gc=False):
    """``final_metrics``."""

    total_prompt_tokens: Any = None
    total_completion_tokens: Any = None
    total_cached_tokens: Any = None
    total_cost_usd: Any = None
    total_steps: Upkeep = NOTHING


class Document(msgspec.Struct, gc=False):
    """One run."""

    steps: list[Turn]
    agent: Agent | None = None
    schema_version: str | None = None
    session_id: str | None = None
    trajectory_id: str | None = None
    final_metrics: Totals | None = None
    continued_trajectory_ref: str | None = None
    notes: str | None = None
    extra: RootExtra | None = None
    subagent_trajectories: list[Document] | None = None
