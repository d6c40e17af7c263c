"""Aider's chat history: markdown in which the first characters of a line say who speaks.

::

    # aider chat started at 2024-05-21 15:19:47

    > Models: gpt-4o with diff edit format, weak model gpt-3.5-turbo

    #### The last page is lost. Fix it.
    > 812 prompt tokens, 91 completion tokens, $0.0061 cost

    I round up instead.

    core.py
    <<<<<<< SEARCH
        return n // size
    =======
        return -(-n // size)
    >>>>>>> REPLACE

    > Applied edit to core.py

Lines of the human and of the client end with two spaces. A file holds several chats, each a run of its own: aider
appends to one file for ever, and benchmarks try a task again. Edits are blocks in the text of a reply; that they were
made is what the client says after it. Files are added to the context whole, so there are no reads. The record of a
benchmark's run may lie beside the file: its patches belong to the chats in order, its answers stay out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Literal, NamedTuple

import msgspec

from handoff.adapters import values
from handoff.adapters.conversation import Conversation
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, Repeated, Sealed
from handoff.trajectory import Action, Outcome, Trajectory, Usage

_STARTED = re.compile(r"^# aider chat started at ([^\n]{1,40})$", re.MULTILINE)
_FENCES = ("```", "~~~", "<source>", "<code>", "<pre>", "<codename>", "<sourcecode>")
_SEARCH = re.compile(r"<{5,9} SEARCH>?\s*")
_DIVIDER = re.compile(r"={5,9}\s*")
_REPLACE = re.compile(r">{5,9} REPLACE\s*")
_PATCH = "*** Begin Patch"
_MODEL = re.compile(r"(?:Models?|Main model): (\S{1,200}) with (\S{1,40}) edit format")
_VERSION = re.compile(r"Aider v(\S{1,60})")
_REPOSITORY = re.compile(r"Git repo: (\S{1,300})")
_BEFORE = re.compile(r"([\d,]{1,20}) prompt tokens, ([\d,]{1,20}) completion tokens(?:, \$([\d.]{1,20}) cost)?")
_AFTER = re.compile(r"Tokens: ([\d.,]{1,20}[kM]?) sent,(?: \S{1,20} cache \w{1,5},){0,2} ([\d.,]{1,20}[kM]?) received")
_COST = re.compile(r"Cost: \$([\d.]{1,20}) message")
_APPLIED = "Applied edit to "
_FAILED = re.compile(r"This SEARCH block failed to exactly match lines in (.{1,500})")
_OTHERS_APPLIED = re.compile(r"# The other \d+ SEARCH/REPLACE blocks? were applied successfully\.")
_NO_MATCH = re.compile(r"# \d+ SEARCH/REPLACE blocks? failed to match!")
_NO_MATCH_END = "Just reply with fixed versions of the block"
_STOPPED = re.compile(r"Only \d+ reflections allowed, stopping\.")
_ASKING = ("/ask", "/code", "/architect", "/context")
"""Commands that pass their text on to the model; the others steer the client."""

Speaker = Literal["human", "client", "agent"]


class Attempt(msgspec.Struct, gc=False):
    """One attempt of a benchmark's run; whether its tests passed is only said of the chosen one."""

    instance_id: str | None = None
    model: str | None = None
    model_patch: str | None = None
    attempt: int | None = msgspec.field(default=None, name="try")
    name: Repeated = msgspec.field(default=NOTHING, name="model_name_or_path")
    cost: Repeated = NOTHING
    added: Repeated = msgspec.field(default=NOTHING, name="added_files")
    edited: Repeated = msgspec.field(default=NOTHING, name="edited_files")
    gold: Sealed = msgspec.field(default=NOTHING, name="gold_files")
    edit: Sealed = msgspec.field(default=NOTHING, name="edit_outcome")
    lint: Sealed = msgspec.field(default=NOTHING, name="lint_outcome")
    test: Sealed = msgspec.field(default=NOTHING, name="test_outcome")


class Result(Attempt, gc=False):
    """The record of a benchmark's run."""

    resolved: bool | None = None
    all_results: list[Attempt] = []
    tries: Repeated = NOTHING


class Said(NamedTuple):
    """A stretch of a chat: who speaks, and the lines without their marks."""

    speaker: Speaker
    lines: list[str]


class Aider:
    """Reads Aider's chat history."""

    format = "aider"

    def recognises(self, record: Record) -> bool:
        """By the line that begins a chat."""
        return record.form == "text"

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The chats in which the model replied, in order; ``RecordError`` when there is none."""
        text = record.data.decode("utf-8", "replace").replace("\r\n", "\n")
        repairs = text.count("\ufffd") - record.data.count(b"\xef\xbf\xbd")
        starts = list(_STARTED.finditer(text))
        ends = [start.start() for start in starts[1:]] + [len(text)]
        result = _result(record)
        attempts = result.all_results if len(result.all_results) == len(starts) else [Attempt()] * len(starts)
        chosen = _chosen(result, attempts)
        runs = []
        for number, (start, end, attempt) in enumerate(zip(starts, ends, attempts, strict=True)):
            chat = _Chat()
            for said in _speeches(text[start.end() : end]):
                chat.take(said)
            steps = chat.steps()
            asked = [m.text for m in chat.talk.preamble if m.role == "user"]
            if not steps or not asked:
                record.lost("(chat without a reply)")
                continue
            runs.append(
                Trajectory(
                    format=self.format,
                    task_id=values.task_of(result.instance_id),
                    task=asked[0],
                    repo=values.repository_of(result.instance_id),
                    agent="aider",
                    model=steps[0].model,
                    preamble=tuple(chat.talk.preamble),
                    steps=steps,
                    outcome=Outcome(
                        resolved=result.resolved if number == chosen else None,
                        ended="step_limit" if chat.is_stopped else None,
                        patch=attempt.model_patch or None,
                    ),
                    source=values.facts(
                        started=start[1].strip(),
                        version=chat.version,
                        edit_format=chat.edits,
                        repository=chat.repository,
                        attempt=attempt.attempt,
                        repairs=max(repairs, 0),
                    ),
                )
            )
        if not runs:
            raise RecordError(
                "No chat in it has a reply of the model.",
                remedy="The human left before anything happened; leave the file out.",
            )
        return tuple(runs)


def _result(record: Record) -> Result:
    """The record of the run beside the file; one that is something else says nothing."""
    data = record.beside(PurePath(record.file).stem + ".json")
    return (record.under(data, Result, "(run record)") if data is not None else None) or Result()


def _chosen(result: Result, attempts: list[Attempt]) -> int | None:
    """Which attempt the record's own fields speak of: the one with its patch, when there is just one."""
    found = [
        number
        for number, attempt in enumerate(attempts)
        if (attempt.model, attempt.attempt, attempt.model_patch) == (result.model, result.attempt, result.model_patch)
    ]
    return found[0] if len(found) == 1 else None


def _speeches(chat: str) -> Iterator[Said]:
    """The stretches of a chat, in order."""
    speaker: Speaker = "client"
    lines: list[str] = []
    fence = ""
    is_dump = is_blank = False
    for line in chat.split("\n"):
        is_marked = line.endswith("  ")
        if line.startswith("####") and line[4:5] in (" ", "") and is_marked and not fence:
            now: Speaker = "human"
            line, is_dump = line[5:].removesuffix("  "), False
        elif line.startswith("> ") and is_marked and not fence:
            now = "client"
            line = line[2:].removesuffix("  ")
            is_dump = _NO_MATCH.fullmatch(line) is not None
        elif speaker == "client" and (is_dump or (line and lines and not is_blank)):
            # Later versions mark only the first line of what they print.
            now = "client"
            is_dump = is_dump and not line.startswith(_NO_MATCH_END)
        elif not line and speaker != "agent":
            is_blank = True
            continue
        else:
            now = "agent"
            if fence:
                fence = "" if line.startswith(fence) else fence
            elif line.startswith(_FENCES):
                mark = next(mark for mark in _FENCES if line.startswith(mark))
                fence = mark.replace("<", "</")
        is_blank = False
        if now != speaker:
            if lines:
                yield Said(speaker, lines)
            speaker, lines, fence = now, [], fence if now == "agent" else ""
        lines.append(line)
    if lines:
        yield Said(speaker, lines)


class _Chat:
    """A chat while its stretches are taken in."""

    def __init__(self) -> None:
        self.talk = Conversation()
        self.version = self.repository = self.edits = self.model = None
