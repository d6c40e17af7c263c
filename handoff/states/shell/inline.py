"""Python inside a line, or a script that the run wrote, where it only reads, changes and writes texts of files.

The code is read as a syntax tree and interpreted on the state (``interpreter``); Python itself never runs it. What is
beyond the few forms understood makes the whole program opaque: what it did is then taken back.
"""

from __future__ import annotations

import ast
import re
import warnings

from handoff.actions.programs.scripts import has_unnamed_writes, script_of
from handoff.editors.plain import encoded
from handoff.states.shell.expressions import Break, Continue, Exit, Return
from handoff.states.shell.functions import FUNCTIONS, PATH_METHODS
from handoff.states.shell.interpreter import Program
from handoff.states.shell.machine import Builtin, Machine
from handoff.states.shell.streams import Result, Streams, Unsupported
from handoff.states.shell.values import (
    Failed,
    NotUnderstood,
)
from handoff.states.shell.words import Arg

_LONGEST = 100_000


def python(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``python``: code in the line, or a script whose text the state holds."""
    words = args[1:]
    while words and re.fullmatch(r"-[uBsEIOS]+", words[0].text):
        words = words[1:]
    if not words or words[0].text == "-":
        if streams.written is not None:
            return _unread(machine, "python -", streams.written)
        if streams.stdin is None or len(words) > 1:
            raise Unsupported
        return _interpreted(machine, "python -", streams.stdin.decode("utf-8", "surrogateescape"))
    if words[0].text == "-c":
        if len(words) != 2 or not words[1].is_known:
            raise Unsupported
        return _interpreted(machine, "python -c", words[1].text)
    if words[0].text.startswith("-") or not words[0].is_known:
        raise Unsupported
    place = machine.place(words[0].text)
    is_own = place.path in (machine.effects.files.differing if place.is_inside else machine.effects.outside)
    data = machine.disk.read(place) if is_own else None
    if not isinstance(data, bytes):
        if not place.is_inside:
            machine.suspicion = machine.suspicion or f"{words[0].text}, a script that is not in the repository"
        raise Unsupported
    code = data.decode("utf-8", "surrogateescape")
    return _interpreted(machine, words[0].text, code, has_arguments=len(words) > 1)


def _interpreted(machine: Machine, name: str, code: str, *, has_arguments: bool = False) -> Result:
    """Run the code on the state, or say what it may have touched."""
    before = machine.effects.snapshot()
    program = Program(machine, FUNCTIONS, PATH_METHODS)
    try:
        status = _run(program, code) if not has_arguments else None
    except (NotUnderstood, RecursionError, MemoryError):
        status = None
    if status is not None:
        return Result(status, encoded("".join(program.printed)))
    machine.effects.go_back(before)
    return _unread(machine, name, code)


def _unread(machine: Machine, name: str, code: str) -> Result:
    """A program that is not understood: what it may have touched is not known."""
    for operation in script_of(name, code, machine.context):
        machine.carry_out(operation)
    if has_unnamed_writes(code):
        machine.effects.forget(f"{name} writes files that it does not name", ())
    return Result(None, None, False)


def _run(program: Program, code: str) -> bool | None:
    if len(code) > _LONGEST or "\0" in code:
        raise NotUnderstood
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError) as error:
        raise NotUnderstood from error
    try:
        program.run(tree.body)
    except Failed:
        return False
    except Exit as left:
        return bool(left.args[0])
    except (Return, Break, Continue) as error:
        raise NotUnderstood from error
    return True


PROGRAMS: dict[str, Builtin] = {"python": python, "python3": python}
"""Programs by name."""
