"""Calls as sources write them: native tool calls, and calls inside the text of a reply.

::

    native   {"id": "call_1", "function": {"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}}
    xml      <function=bash>\\n<parameter=command>ls</parameter>\\n</function>
    tagged   <tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>
    fenced   ```bash\\nls\\n```

A text syntax is chosen once for a whole run. What a call means is in ``actions.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from handoff.trajectory import Action

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TAGGED = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
_FENCE = re.compile(r"^```([^`\r\n]*)\r?$\n?", re.MULTILINE)
_SHELLS = ("mswea_bash_command", "bash", "sh", "shell", "console")


class Function(msgspec.Struct, gc=False):
    """Name and arguments of a native call; arguments may be an object, or its text."""

    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class Call(msgspec.Struct, gc=False):
    """One native call."""

    id: str | None = None
    function: Function | None = None
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"null")


def is_object(text: str) -> bool:
    """True when ``text`` is a JSON object."""
    if text.lstrip()[:1] != "{":
        return False
    try:
        _OBJECT.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def arguments_of(raw: msgspec.Raw) -> tuple[str, bool]:
    """Arguments as text, and whether they are only text. ``null`` and nothing are the empty object."""
    data = bytes(raw)
    if data[:1] == b'"':
        text = msgspec.json.decode(data, type=str)
        if not text:
            return "{}", False
        return text, not is_object(text)
    if data in (b"null", b""):
        return "{}", False
    return data.decode("utf-8", "replace"), data[:1] != b"{"


def native(calls: list[Call]) -> tuple[Action, ...]:
    """The actions of native calls; a call without a name is kept under an empty one."""
    actions = []
    for call in calls:
        function = call.function if call.function is not None else call
        arguments, is_text = arguments_of(function.arguments)
        actions.append(Action(call_id=call.id or None, tool=function.name or "", arguments=arguments, is_text=is_text))
    return tuple(actions)


Reading = tuple[str, tuple[Action, ...]]
"""What a reply says outside its calls, and its calls."""


def xml(content: str) -> Reading:
    """``<function=…>`` blocks. Values lose one newline at each end; a missing end tag ends with the text."""
    said = []
    actions = []
    end = 0
    # str.find, not a regular expression: a lazy ".*?" over long values cost a quarter of the whole ingestion.
    while (opened := content.find("<function=", end)) >= 0:
        name, start = _tag(content, opened + 10)
        if name is None:
            break
        said.append(content[end:opened])
        closed = content.find("</function>", start)
        inside = content[start:] if closed < 0 else content[start:closed]
        end = len(content) if closed < 0 else closed + 11
        actions.append(Action(tool=name, arguments=msgspec.json.encode(_parameters(inside)).decode()))
    said.append(content[end:])
    return "".join(said).strip() if actions else content, tuple(actions)


def _parameters(inside: str) -> dict[str, str]:
    values = {}
    end = 0
    while (opened := inside.find("<parameter=", end)) >= 0:
        name, start = _tag(inside, opened + 11)
        if name is None:
            break
        closed = inside.find("</parameter>", start)
        values[name] = _trim(inside[start:] if closed < 0 else inside[start:closed])
        end = len(inside) if closed < 0 else closed + 12
    return values


def _tag(text: str, start: int) -> tuple[str | None, int]:
    """The name up to ``>`` and where what follows begins; no name when the tag is none."""
    end = text.find(">", start, start + 200)
    name = text[start:end] if end > start else ""
    return (None, start) if not name or "\n" in name else (name, end + 1)


def tagged(content: str) -> Reading:
    """``<tool_call>{json}</tool_call>`` blocks; broken JSON is kept as text under the tool ``unparsed``."""
    actions = []
    for found in _TAGGED.finditer(content):
        try:
            function = msgspec.json.decode(found[1], type=Function)
        except (msgspec.DecodeError, RecursionError):
            actions.append(Action(tool="unparsed", arguments=found[1], is_text=True))
            continue
        arguments, is_text = arguments_of(function.arguments)
        actions.append(Action(tool=function.name or "", arguments=arguments, is_text=is_text))
    return _TAGGED.sub("", content).strip() if actions else content, tuple(actions)


def fenced(content: str) -> Reading:
    """A fenced command: the last shell block, else the last block without a language."""
    if "```" not in content:
        return content, ()
    blocks = list(_blocks(content))
    chosen = [b for b in blocks if b[0] in _SHELLS] or [b for b in blocks if not b[0]]
    if not chosen:
        return content, ()
    _, start, inner, outer, end = chosen[-1]
    said = (content[:start].rstrip() + "\n" + content[end:].lstrip()).strip()
    return said, (Action(tool="bash", arguments=_trim(content[inner:outer]), is_text=True),)


def _blocks(content: str) -> Iterator[tuple[str, int, int, int, int]]:
    """Language, start, start of the inside, end of the inside, end; a block ends at the next bare fence."""
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(content):
        language = fence[1].strip()
        if opened is None:
            opened = fence
        elif not language:
            yield opened[1].strip(), opened.start(), opened.end(), fence.start(), fence.end()
            opened = None


TEXT_SYNTAXES: tuple[tuple[str, str, Callable[[str], Reading]], ...] = (
    ("xml", "<function=", xml),
    ("tagged", "<tool_call>", tagged),
    ("fenced", "```", fenced),
)
"""Name, the mark that a reply in this syntax holds, and its reader; the first that fits a run is used."""


def _trim(value: str) -> str:
    return value.removeprefix("\n").removesuffix("\n")
