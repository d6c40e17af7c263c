"""Rows of known formats in one form: turns with what they say, what they call, and whether they are trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

Wants: TypeAlias = Literal["object", "text", "either"]
"""What a format takes for arguments."""


class Call(NamedTuple):
    """One call."""

    id: Any
    name: Any
    arguments: Any
    """As it stands: text or an object, if it is right."""
    place: str


class Turn(NamedTuple):
    """One message, by its role in chat templates."""

    role: str
    text: Any
    thought: str
    calls: tuple[Call, ...]
    answers: Any
    """Id of the call that a result answers; ``None``: it names none."""
    trained: bool
    place: str
    raw: Mapping[str, Any]
    has_content: bool = True


class Talk(NamedTuple):
    """One conversation."""

    turns: tuple[Turn, ...]
    prompt: int
    """Turns of the prompt, of which nothing may be trained."""
    ends_with_reply: bool
    """Whether it is a demonstration: its last turn has to be a reply."""


class TokenRow(NamedTuple):
    """A row of tokens."""

    ids: Sequence[Any]
    labels: Sequence[Any] | None
    mask: Sequence[Any] | None
    weights: Sequence[Any] | None
    attention: Sequence[Any] | None = None


class Row(NamedTuple):
    """A row in one form."""

    shape: str
    talks: tuple[Talk, ...] = ()
    """One, or the two sides of a pair, each with the prompt in front."""
    tools: Any = None
    """Decoded; ``None`` where the row has none."""
    wants: Wants = "either"
    uses_ids: bool = True
    """Whether results name their calls."""
    nulls: bool = False
    """Whether content may be null."""
    tokens: TokenRow | None = None
    sample: Mapping[str, Any] | None = None
    """A canonical sample as it stands."""
    id: str = ""
    source: tuple[str, str] = ("", "")
    """(repository, task) where the row says so."""


_TALKS = ("messages", "prompt", "completion", "chosen", "rejected", "conversations")
_ROLES = {
    "human": "user",
    "gpt": "assistant",
    "function_call": "assistant",
    "observation": "tool",
    "tool_response": "tool",
    "tool_call": "assistant",
    "developer": "system",
    "function": "tool",
}


def recognise(row: Mapping[str, Any]) -> Row | None:
    """The row in one form; ``None`` where it is of no known shape. Conversations may be JSON text, as they are in
    Parquet that `datasets` wrote."""
    row = {name: _decoded(value) if name in _TALKS else value for name, value in row.items()}
    version = str(row.get("schema_version") or "")
    origin = row.get("origin") if isinstance(row.get("origin"), dict) else row.get("metadata")
    own = {**(origin if isinstance(origin, dict) else {}), **row}
    named: dict[str, Any] = {
        "id": str(row.get("sample_id") or ""),
        "source": (str(own.get("repo") or ""), str(own.get("task_id") or own.get("instance_id") or "")),
    }
    match row:
        case {"messages": list(), "spans": list()} if version.startswith("handoff-sample"):
            return _canonical(row, named)
        case {"steps": list()} if version.startswith("ATIF"):
            return _atif(row, named)
        case {"input_ids": _}:
            found = TokenRow(
                row["input_ids"],
                row.get("labels"),
                row.get("loss_mask"),
                row.get("loss_weights"),
                row.get("attention_mask"),
            )
            return Row("tokens", tokens=found, **named)
        case {"conversations": list(talk)}:
            return _sharegpt(row, talk, named)
        case {"input": {"messages": list()}, "preferred_output": _}:
            return _openai_pair(row, named)
        case {"responses_create_params": {"input": list()}}:
            return _responses(row, named)
        case {"context": list(), "completions": list()}:
            return _ranked(row, named)
        case {"chosen_messages": list(), "rejected_messages": list()}:
            sides = [_talk(row, name, ends=True) for name in ("chosen_messages", "rejected_messages")]
            return Row("llamafactory-v1", tuple(sides), _tools(row), uses_ids=False, **named)
        case {"messages": list(), "rejected_messages": list()}:
            sides = [_talk(row, name, ends=True) for name in ("messages", "rejected_messages")]
            return Row("swift", tuple(sides), _tools(row), uses_ids=False, **named)
        case {"prompt": list() | str(), "chosen": _, "rejected": _}:
            return _pair(row, named)
        case {"messages": list(), "rejected_response": str() | list()}:
            return _replaced(row, named)
        case {"chosen": list(chosen), "rejected": list()} if chosen:
            sides = [_talk(row, name, ends=True) for name in ("chosen", "rejected")]
            return Row("trl", tuple(sides), _tools(row), "either", **named)
        case {"prompt": list() | str(), "completion": _}:
            return _prompted(row, named)
        case {"messages": list(messages)}:
            return _messages(row, messages, named)
        case {"prompt": list()}:
            name = "verl" if "reward_model" in row else "skyrl" if "env_class" in row else "prompts"
            start = _talk(row, "prompt", ends=False)
            return Row(name, (start._replace(prompt=len(start.turns)),), _tools(row), nulls=name == "verl", **named)
    return None


# -- one shape each -----------------------------------------------------------------------------


def _messages(row: Mapping[str, Any], messages: Sequence[Any], named: Mapping[str, Any]) -> Row:
    first = [message for message in messages if isinstance(message, dict)]
    if any(isinstance(m.get("content"), list) and "loss_weight" in m for m in first):
        return Row("llamafactory-v1", (_talk(row, "messages", ends=True),), _tools(row), uses_ids=False, **named)
    replies = any(m.get("role") in ("assistant", "tool_call") for m in first)  # else it is a start to roll out from
    if any(m.get("role") in ("tool_call", "tool_response") or "loss" in m for m in first):
        return Row("swift", (_talk(row, "messages", ends=replies),), _tools(row), uses_ids=False, **named)
    if any("train" in m for m in first):
        return Row("axolotl", (_talk(row, "messages", ends=True),), _tools(row), "either", **named)
    if "parallel_tool_calls" in row or any("weight" in m for m in first):
        return Row("openai", (_talk(row, "messages", ends=replies),), _tools(row), "text", nulls=True, **named)
    return Row("messages", (_talk(row, "messages", ends=replies),), _tools(row), **named)


def _prompted(row: Mapping[str, Any], named: Mapping[str, Any]) -> Row:
    talk = _joined(row, "completion")
    is_text = isinstance(row.get("tools"), str)  # prime-rl decodes what TRL's templates want decoded
    return Row("prime-rl" if is_text else "trl", (talk,), _tools(row), "either" if is_text else "object", **named)


def _pair(row: Mapping[str, Any], named: Mapping[str, Any]) -> Row:
    sides = tuple(_joined(row, name) for name in ("chosen", "rejected"))
    is_text = isinstance(row.get("tools"), str)
    return Row("trl", sides, _tools(row), "either" if is_text else "object", **named)


def _replaced(row: Mapping[str, Any], named: Mapping[str, Any]) -> Row:
    """ms-swift: another last reply in place of the one that the messages end with."""
    chosen = _talk(row, "messages", ends=True)
    other = _turns(_listed(row["rejected_response"], "assistant"), "rejected_response", trains=True)
    rejected = chosen._replace(turns=(*chosen.turns[:-1], *other))
    return Row("swift", (chosen, rejected), _tools(row), uses_ids=False, **named)


def _decoded(value: Any) -> Any:
    """A conversation that is JSON text; anything else as it is."""
    if not isinstance(value, str) or value[:2] not in ("[{", "[ "):
        return value
    try:
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value
    is_talk = isinstance(found, list) and all(isinstance(m, dict) and ("role" in m or "from" in m) for m in found)
    return found if is_talk else value


def _joined(row: Mapping[str, Any], name: str) -> Talk:
    """A prompt and what follows it."""
    turns = [*_turns(_listed(row["prompt"], "user"), "prompt", trains=False)]
    prompt = len(turns)
    turns += _turns(_listed(row[name], "assistant"), name, trains=True)
    return Talk(tuple(turns), prompt, ends_with_reply=True)


def _listed(value: Any, role: str) -> list[Any]:
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    return value if isinstance(value, list) else [value]


def _openai_pair(row: Mapping[str, Any], named: Mapping[str, Any]) -> Row:
    prompt = _turns(row["input"]["messages"], "input.messages", trains=False)
    sides = []
    for name in ("preferred_output", "non_preferred_output"):
        own = _turns(_listed(row.get(name), "assistant"), name, trains=True)
        sides.append(Talk((*prompt, *own), len(prompt), ends_with_reply=True))
    return Row("openai", tuple(sides), _tools(row["input"]), "text", nulls=True, **named)


def _ranked(row: Mapping[str, Any], named: Mapping[str, Any]) -> Row:
    prompt = _turns(row["context"], "context", trains=False)
    sides = []
    for place, entry in enumerate(row["completions"]):
        own = entry.get("completion") if isinstance(entry, dict) else None
        turns = _turns(_listed(own, "assistant"), f"completions[{place}].completion", trains=True)
        sides.append(Talk((*prompt, *turns), len(prompt), ends_with_reply=True))
    return Row("nemo-rl", tuple(sides[:2]), _tools(row), **named)


def _sharegpt(row: Mapping[str, Any], talk: Sequence[Any], named: Mapping[str, Any]) -> Row:
    mapped = []
    for turn in talk:
        role, value = (turn.get("from"), turn.get("value")) if isinstance(turn, dict) else (None, None)
        mapped.append({"role": role, "content": value, **({"calls": value} if role == "function_call" else {})})
    tail = {name: row[name] for name in ("chosen", "rejected") if isinstance(row.get(name), dict)}
    tools = _tools(row)
    if not tail:
        turns = tuple(_turns(mapped, "conversations", trains=True))
        return Row("llamafactory", (Talk(turns, 0, True),), tools, "either", uses_ids=False, **named)
    prompt = _turns(mapped, "conversations", trains=False)
    sides = []
    for name, turn in tail.items():
        own = [{"role": turn.get("from"), "content": turn.get("value"), "calls": turn.get("value")}]
        sides.append(Talk((*prompt, *_turns(own, name, trains=True)), len(prompt), True))
    return Row("llamafactory", tuple(sides), tools, "either", uses_ids=False, **named)


def _responses(row: Mapping[str, Any], named: Mapping[str, Any]) -> Row:
    """NeMo Gym: a request, and perhaps the call that is expected."""
    request = row["responses_create_params"]
    messages: list[dict[str, Any]] = []
    for item in request["input"]:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "function_call":
            call = {
                "id": item.get("call_id"),
                "function": {"name": item.get("name"), "arguments": item.get("arguments")},
            }
            if messages and messages[-1]["role"] == "assistant":
                messages[-1].setdefault("tool_calls", []).append(call)
            else:
                messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif kind == "function_call_output":
            messages.append({"role": "tool", "content": item.get("output"), "tool_call_id": item.get("call_id")})
        else:
            messages.append(dict(item) if isinstance(item, dict) else {"role": None})
    turns = _turns(messages, "responses_create_params.input", trains=False)
    expected = row.get("expected_action")
    if isinstance(expected, dict):
        call = {"id": "expected", "function": {"name": expected.get("name"), "arguments": expected.get("arguments")}}
        own = [{"role": "assistant", "content": expected.get("content") or "", "tool_calls": [call]}]
        if expected.get("type") == "message":
            own[0].pop("tool_calls")
        last = _turns(own, "expected_action", trains=True)
        talk = Talk((*turns, *last), len(turns), True)
        return Row("nemo-gym", (talk,), _tools(request), "text", **named)
    return Row("nemo-gym", (Talk(tuple(turns), len(turns), False),), _tools(request), "text", **named)


def _canonical(row: Mapping[str, Any], named: Mapping[str, Any]) -> Row:
    prompt = _turns(row["messages"], "messages", trains=True)
    talks = [Talk(tuple(prompt), 0, row.get("kind") != "rl_prompt")]
    if row.get("kind") == "preference":
        sides = [_turns(row.get(name) or [], name, trains=True) for name in ("chosen", "rejected")]
        talks = [Talk((*prompt, *side), len(prompt), True) for side in sides]
    tools = _tools(row)
    return Row("canonical", tuple(talks), tools, "text", sample=row, **named)


def _atif(row: Mapping[str, Any], named: Mapping[str, Any]) -> Row:
    messages: list[dict[str, Any]] = []
    for step in row["steps"]:
        if not isinstance(step, dict):
            continue
        is_agent = step.get("source") == "agent"
        calls = [
            {"id": c.get("tool_call_id"), "function": {"name": c.get("function_name"), "arguments": c.get("arguments")}}
            for c in step.get("tool_calls") or []
            if isinstance(c, dict)
        ]
        own: dict[str, Any] = {
            "role": "assistant" if is_agent else step.get("source"),
            "content": step.get("message") or "",
            "train": is_agent and not step.get("is_copied_context"),
        }
        if calls:
            own["tool_calls"] = calls
        messages.append(own)
        for result in (step.get("observation") or {}).get("results") or []:
            if isinstance(result, dict) and result.get("source_call_id") is not None:
                answered = {"role": "tool", "content": result.get("content") or "", "train": False}
                messages.append({**answered, "tool_call_id": result["source_call_id"]})
    agent = row.get("agent") if isinstance(row.get("agent"), dict) else {}
    turns = tuple(_turns(messages, "steps", trains=True))
    tools = agent.get("tool_definitions") if isinstance(agent, dict) else None
    return Row("atif", (Talk(turns, 0, False),), tools, "object", **named)


# -- turns --------------------------------------------------------------------------------------


def _talk(row: Mapping[str, Any], name: str, *, ends: bool) -> Talk:
    return Talk(tuple(_turns(row[name], name, trains=True)), 0, ends)


def _turns(messages: Sequence[Any], where: str, *, trains: bool) -> list[Turn]:
    found: list[Turn] = []
    for number, message in enumerate(messages):
        place = f"{where}[{number}]"
        if not isinstance(message, dict):
            found.append(Turn("", message, "", (), None, False, place, {}))
            continue
        name = str(message.get("role") or "")
        role = _ROLES.get(name, name)
        text, calls, thought = message.get("content"), tuple(_calls(message, place)), message.get("reasoning_content")
        if isinstance(text, list):
            text, thought, more = _parts(text, place)
            calls += more
        if name in ("tool_call", "function_call"):
            text = ""
        turn = Turn(
            role=role,
            text=text,
            thought=str(thought or ""),
            calls=calls,
            answers=message.get("tool_call_id"),
            trained=_is_trained(message, role, trains),
            place=place,
            raw=message,
            has_content="content" in message or bool(calls),
        )
        before = found[-1] if found else None
        if name == "tool_call" and before is not None and before.role == "assistant" and before.trained == turn.trained:
            found[-1] = before._replace(calls=(*before.calls, *turn.calls))  # a text and its calls are one reply
        else:
            found.append(turn)
    return found


def _is_trained(message: Mapping[str, Any], role: str, trains: bool) -> bool:
    for name in ("train", "loss", "training"):
        if isinstance(message.get(name), bool):
            return bool(message[name])
    for name in ("weight", "loss_weight"):
        if isinstance(message.get(name), int | float):
            return bool(message[name])
    return trains and role == "assistant"


def _calls(message: Mapping[str, Any], place: str) -> Iterator[Call]:
    for number, call in enumerate(message.get("tool_calls") or ()):
        inner = call.get("function") if isinstance(call, dict) else None
        function = inner if isinstance(inner, dict) else {}
        own = call if isinstance(call, dict) else {}
        where = f"{place}.tool_calls[{number}]"
        yield Call(own.get("id"), function.get("name"), function.get("arguments"), where)
    text = message.get("calls") if "calls" in message else message.get("content")
    if message.get("role") in ("tool_call", "function_call"):
        yield from _written(text, place)


def _written(text: Any, place: str) -> Iterator[Call]:
    """Calls that are written as JSON."""
    try:
        found = msgspec.json.decode(text) if isinstance(text, str) else text
    except (msgspec.DecodeError, RecursionError):
        yield Call(None, None, text, place)
        return
    for call in found if isinstance(found, list) else [found]:
        own = call if isinstance(call, dict) else {}
        yield Call(None, own.get("name"), own.get("arguments"), place)


def _parts(parts: Sequence[Any], place: str) -> tuple[str, str, tuple[Call, ...]]:
    """(text, thought, calls) of content that comes in parts."""
    texts: dict[str, list[str]] = {"text": [], "reasoning": []}
    calls: list[Call] = []
    for number, part in enumerate(parts):
        kind = part.get("type") if isinstance(part, dict) else None
        value = (part.get("value", part.get("text")) if isinstance(part, dict) else None) or ""
        if kind == "tool_call":
            calls += _written(value, f"{place}.content[{number}]")
        elif kind in texts:
            texts[kind].append(str(value))
    return "".join(texts["text"]), "".join(texts["reasoning"]), tuple(calls)


def _tools(row: Mapping[str, Any]) -> Any:
    tools = row.get("tools")
    if isinstance(tools, str):
        try:
            return msgspec.json.decode(tools) if tools.strip() else None
        except (msgspec.DecodeError, RecursionError):
            return tools
    return tools
