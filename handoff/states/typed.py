"""What a shell was given when its line was typed in: a tab there completes a word and is no letter.

OpenHands types every line into an interactive shell. With a tab in it, the line that ran is the recorded one only as
far as the shell's echo says so.
"""

from __future__ import annotations

import msgspec

from handoff.trajectory import Action, Observation

UNCLEAR = "a tab was typed into a shell that completes words at it"
_TYPED = "execute_bash"


def as_typed(action: Action, observation: Observation) -> Action | None:
    """The call with the line that ran; ``None`` where nothing tells that line. Other calls come back as they are."""
    if action.tool != _TYPED or action.is_text or "\\t" not in action.arguments:
        return action
    try:
        values = msgspec.json.decode(action.arguments, type=dict[str, msgspec.Raw])
        line = msgspec.json.decode(values.get("command", b'""'), type=str)
    except msgspec.DecodeError:
        return action
    if "\t" not in line:
        return action
    ran = line.replace("\t", "")
    if not observation.text.lstrip().startswith(ran):
        return None
    values["command"] = msgspec.Raw(msgspec.json.encode(ran))
    return msgspec.structs.replace(action, arguments=msgspec.json.encode(values).decode())
