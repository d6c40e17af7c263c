"""What a user says about an agent that is a program of its own: how it is started, what it may use.

Its model is an endpoint (``endpoints/settings.py``) that is named here; the key of that endpoint never reaches the
agent (``broker.py``).
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from handoff.errors import InputError

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Seconds = Annotated[float, msgspec.Meta(gt=0)]

FIELDS = ("prompt", "prompt_json", "trajectory", "base_url", "model", "seed")
"""What may stand in braces in ``command``."""
FIELD = re.compile(r"(?<!\$)\{(" + "|".join(FIELDS) + r")\}")
_NAME = re.compile(r"(?!\.)[\w.+@-]{1,100}", re.A)


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="command"):
    """Any agent that is started by one command line and works by itself until it ends."""

    command: str
    """A bash script, run in the work tree. ``{prompt}``: a file with preamble, view and task; ``{prompt_json}``: the
    same as one JSON string; ``{trajectory}``: the file to write; ``{base_url}``, ``{model}``: of its model, without a
    key; ``{seed}``: of the takeover."""
    endpoint: str = ""
    """The ``[successors.NAME]`` whose model it uses. Empty: it reaches none."""
    programs: tuple[str, ...] = ()
    """Folders with the agent's installation, shown read-only at their own paths, their ``bin`` on the path."""
    trajectory: str = "trajectory.json"
    """Name of the file behind ``{trajectory}``: some agents and formats want a certain ending."""
    format: str = ""
    """The input format of that file. Empty: recognised."""
    timeout_s: _Seconds = 1800.0
    """Of the whole run."""
    env: dict[str, str] = {}
    """Variables that it sees. Never put a key here: the agent can read it, and there is no network to use it on."""
    memory_mb: _Positive = 4096
    processes: _Positive = 512
    concurrency: _Positive = 2
    """Runs at once in one process."""
    version: str = ""
    """Of the agent, in any words: change it when you install another one, so that takeovers are run anew."""

    def __post_init__(self) -> None:
        if not {"prompt", "prompt_json"} & set(FIELD.findall(self.command)):
            raise InputError("command names neither {prompt} nor {prompt_json}, so the agent would not know its task")
        if "\0" in self.command:
            raise InputError("command holds a NUL byte")
        if _NAME.fullmatch(self.trajectory) is None:
            raise InputError(f"trajectory {self.trajectory!r} is no plain file name, such as run.jsonl")
        for name, value in self.env.items():
            if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", name) is None or "\0" in value:
                raise InputError(f"env names {name!r}, which is no variable")
