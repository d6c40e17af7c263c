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
from handoff.trajectory import Action, Outcome, Step, Trajectory, Usage

_STARTED = re.compile(r"^# aider chat started at ([^\n]{1,40})$", re.MULTILINE)
_FENCES = ("```", "~~~", "<source>", "<code>", "<pre>", "<codename>", "<sourcecode>")
_CLOSING = ("```", "~~~", "</")
_SEARCH = re.compile(r"<{5,9} SEARCH>?\s*")
_DIVIDER = re.compile(r"={5,9}\s*")
_REPLACE = re.compile(r">{5,9} REPLACE\s*")
_PATCH = "*** Begin Patch"
_MODEL = re.compile(r"(?:Models?|Main model): (\S{1,200}) with (\S{1,40}) edit format")
_EDITOR = re.compile(r"Editor model: (\S{1,200}) with (\S{1,40}) edit format")
_VERSION = re.compile(r"Aider v(\S{1,60})")
_BEFORE = re.compile(r"([\d,]{1,20}) prompt tokens, ([\d,]{1,20}) completion tokens(?:, \$([\d.]{1,20}) cost)?")
_AFTER = re.compile(r"Tokens: ([\d.,]{1,20}[kM]?) sent,(?: \S{1,20} cache \w{1,5},){0,2} ([\d.,]{1,20}[kM]?) received")
_COST = re.compile(r"Cost: \$([\d.]{1,20}) message")
_APPLIED = "Applied edit to "
_FAILED = re.compile(r"This SEARCH block failed to exactly match lines in (.{1,500})")
_OTHERS_APPLIED = re.compile(r"# The other \d+ SEARCH/REPLACE blocks? were applied successfully\.")
_REJECTED = "The LLM did not conform to the edit format."
_NO_MATCH = re.compile(r"# \d+ SEARCH/REPLACE blocks? failed to match!")
_NO_MATCH_END = "Just reply with fixed versions of the block"
_STOPPED = re.compile(r"Only \d+ reflections allowed, stopping\.")
_MOST_COMMANDS = 20
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
        if text[: starts[0].start() if starts else len(text)].strip():
            record.lost("(text before the first chat)")
        ends = [*(start.start() for start in starts[1:]), len(text)][: len(starts)]
        result = _result(record)
        attempts = result.all_results or [result]
        if len(attempts) != len(starts):  # nothing says which patch is whose
            attempts = [Attempt()] * len(starts)
        chosen = _chosen(result, attempts)
        runs = []
        for number, (start, end, attempt) in enumerate(zip(starts, ends, attempts, strict=True)):
            chat = _Chat()
            steps = chat.read(text[start.end() : end])
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
    is_dump = is_blank = False
    for line in chat.split("\n"):
        is_marked = line.endswith("  ")
        if is_marked and line.startswith("#### "):
            now: Speaker = "human"
            line = line[5:-2]
            is_dump = False
        elif is_marked and line.startswith("> "):
            now = "client"
            line = line[2:-2]
            is_dump = _NO_MATCH.fullmatch(line) is not None
        elif is_dump or (speaker == "client" and lines and line and not is_blank):
            # Later versions mark only the first line of what they print.
            now = "client"
            is_dump = is_dump and not line.startswith(_NO_MATCH_END)
        elif not line and speaker != "agent":
            is_blank = True
            continue
        else:
            now = "agent"
        is_blank = False
        if now != speaker:
            if lines:
                yield Said(speaker, lines)
            speaker, lines = now, []
        lines.append(line)
    if lines:
        yield Said(speaker, lines)


class _Chat:
    """A chat while its stretches are taken in."""

    def __init__(self) -> None:
        self.talk = Conversation()
        self.version: str | None = None
        self.edits: str | None = None
        self.model: str | None = None
        self.editor: tuple[str, str] | None = None
        self.is_stopped = False
        self.is_first = False
        """True until the second reply to a message: the client counts tokens and cost by message."""
        self.usage: Usage | None = None
        self.cost: float | None = None

    def read(self, chat: str) -> tuple[Step, ...]:
        """The steps of a chat."""
        said = list(_speeches(chat))
        for number, (speaker, lines) in enumerate(said):
            after = said[number + 1].lines if number + 1 < len(said) and said[number + 1].speaker == "client" else []
            if speaker == "human":
                self._asked("\n".join(lines).strip("\n"))
            elif speaker == "agent":
                self._reply(lines, after)
            else:
                self._told(lines)
        return self.talk.steps()

    def _asked(self, text: str) -> None:
        is_command = text.startswith("/") and not text.startswith(_ASKING)
        self.talk.message("harness" if is_command else "user", text)
        self.is_first = True

    def _reply(self, lines: list[str], after: list[str]) -> None:
        edits = self.edits or ""
        if edits == "architect" and self.editor is not None:
            edits = self.editor[1]
        said, actions = _edits(lines, edits)
        text = "\n".join(lines)
        ran = [line[8:] for line in after if line.startswith("Running ")][:_MOST_COMMANDS]
        ran = [command for command in ran if command in text]
        calls = [*actions, *(Action(tool="bash", arguments=command, is_text=True) for command in ran)]
        if self.is_first and self.usage is None:
            self._count("\n".join(after))
        self.talk.reply(
            said.strip("\n"),
            actions=tuple(calls),
            model=self.editor[0] if self.editor is not None and actions else self.model,
            usage=self.usage,
            cost=self.cost,
        )
        self.usage = self.cost = None
        self.is_first = False
        self._results(actions, after)

    def _count(self, text: str) -> None:
        """Tokens and cost as later versions tell them, after the first reply to a message."""
        tokens, cost = _AFTER.search(text), _COST.search(text)
        if tokens is not None:
            self.usage = Usage(prompt=_whole(tokens[1]), completion=_whole(tokens[2]))
            self.cost = _real(cost[1]) if cost is not None else None

    def _results(self, actions: list[Action], after: list[str]) -> None:
        """What the client says of the edits, edit by edit; nothing is known of one that it does not name."""
        text = "\n".join(after)
        others = _OTHERS_APPLIED.search(text)
        failed = _failed(after)
        told = set(after)
        done = [line for line in after if line.startswith(_APPLIED)]
        for action in actions:
            path, search = _target(action)
            applied = _APPLIED + path
            if (path, _bare(search)) in failed:
                self.talk.result(None, failed[path, _bare(search)], error=True)
            elif applied in told:
                self.talk.result(None, applied, error=False)
            elif not path and done:
                self.talk.result(None, "\n".join(done), error=False)
            elif f"Skipping edits to {path}" in told or f"Did not apply edit to {path} (--dry-run)" in told:
                self.talk.result(None, "", missing="not_executed")
            elif others is not None:
                self.talk.result(None, others[0], error=False)
            elif _REJECTED in told and not failed:
                self.talk.result(None, _REJECTED, error=True)
            else:
                self.talk.result(None, "", missing="none")

    def _told(self, lines: list[str]) -> None:
        """The client: what it says of itself, tokens of the next reply, and text that the model may have seen."""
        kept = []
        for line in lines:
            if (tokens := _BEFORE.fullmatch(line)) is not None:
                self.usage = Usage(prompt=_whole(tokens[1]), completion=_whole(tokens[2]))
                self.cost = _real(tokens[3])
                continue
            if (version := _VERSION.fullmatch(line)) is not None:
                self.version = version[1]
            elif (model := _MODEL.match(line)) is not None:
                if self.model is not None and model[1] != self.model:
                    self.talk.boundary("agent_switch")
                self.model, self.edits = model[1], model[2]
            elif (editor := _EDITOR.match(line)) is not None:
                self.editor = (editor[1], editor[2])
            elif _STOPPED.fullmatch(line) is not None:
                self.is_stopped = True
            if not line.startswith((_APPLIED, "Tokens: ", "Cost: ")):
                kept.append(line)
        text = "\n".join(kept).strip("\n")
        if text:
            self.talk.message("harness", text)


Reading = tuple[str, list[Action]]


def _edits(lines: list[str], edit_format: str) -> Reading:
    """What a reply says outside its edits, and the edits."""
    if any(_SEARCH.fullmatch(line) for line in lines):
        return _search_blocks(lines)
    if _PATCH in lines:
        return _fenced(lines, _PATCH, "*** End Patch", "apply_patch")
    if "udiff" in edit_format:
        return _fenced(lines, "```diff", "```", "udiff")
    if "whole" in edit_format:
        return _whole_files(lines)
    return "\n".join(lines), []


def _search_blocks(lines: list[str]) -> Reading:
    """Blocks of old and new text. The path stands above, around the fence; a block without one goes on in the last."""
    said: list[str] = []
    actions: list[Action] = []
    path, at = "", 0
    for start, divider, end in _blocks(lines):
        said += lines[at:start]
        path, is_fenced = _path_above(said, path)
        block = {
            "path": path,
            "search": _joined(lines[start + 1 : divider]),
            "replace": _joined(lines[divider + 1 : end]),
        }
        actions.append(Action(tool="edit_block", arguments=msgspec.json.encode(block).decode()))
        at = end + 1
        if is_fenced and at < len(lines) and lines[at].startswith(_CLOSING):
            at += 1
    said += lines[at:]
    return "\n".join(said), actions


def _blocks(lines: list[str]) -> Iterator[tuple[int, int, int]]:
    """Where each block that ends begins, divides and ends."""
    start = divider = -1
    for number, line in enumerate(lines):
        if start < 0:
            if _SEARCH.fullmatch(line):
                start = number
        elif divider < 0:
            if _DIVIDER.fullmatch(line):
                divider = number
        elif _REPLACE.fullmatch(line) or _DIVIDER.fullmatch(line):
            yield start, divider, number
            start = divider = -1


def _path_above(said: list[str], last: str) -> tuple[str, bool]:
    """The path in the last lines said, which are taken off together with the fence, and whether there was one."""
    is_fenced = False
    for back in range(1, min(3, len(said)) + 1):
        line = said[-back].strip()
        if line.startswith(_FENCES):
            is_fenced = True
            name = line[3:].strip() if line.startswith("```") else ""
            if "." not in name and "/" not in name:
                continue
            line = name
        path = line.rstrip(":").lstrip("#").strip().strip("`").strip("*")
        if path and path != "...":
            del said[-back:]
            return path, is_fenced
        break
    if is_fenced:
        said.pop()
    return last, is_fenced


def _fenced(lines: list[str], opening: str, closing: str, tool: str) -> Reading:
    """Patches between two marks, as text; one that does not end goes to the end of the reply."""
    said: list[str] = []
    patches: list[list[str]] = []
    is_inside = False
    for line in lines:
        if not is_inside and line == opening:
            patches.append([line])
            is_inside = True
        elif is_inside:
            patches[-1].append(line)
            is_inside = line != closing
        else:
            said.append(line)
    if tool == "udiff":
        patches = [[line for line in patch if not line.startswith("```")] for patch in patches]
    return "\n".join(said), [Action(tool=tool, arguments=_joined(patch), is_text=True) for patch in patches]


def _whole_files(lines: list[str]) -> Reading:
    """Files written whole: a path, and the text in a fence below it."""
    said: list[str] = []
    actions: list[Action] = []
    path, begun = "", -1
    for number, line in enumerate(lines):
        if begun < 0:
            said.append(line)
            if line.startswith("```"):
                above = said[-2].strip().strip("`*#:").strip() if len(said) > 1 else ""
                if above and " " not in above and ("." in above or "/" in above):
                    path, begun = above, number
                    del said[-2:]
        elif line == "```":
            content = {"path": path, "content": _joined(lines[begun + 1 : number])}
            actions.append(Action(tool="write_file", arguments=msgspec.json.encode(content).decode()))
            begun = -1
    if begun >= 0:
        said += [path, *lines[begun:]]
    return "\n".join(said), actions


def _failed(after: list[str]) -> dict[tuple[str, str], str]:
    """The blocks that the client could not match: their path and old text, and how it says so."""
    found: dict[tuple[str, str], str] = {}
    begun = 0
    for start, divider, _ in _blocks(after):
        above = next((m for line in after[begun:start] if (m := _FAILED.search(line)) is not None), None)
        if above is not None:
            found[above[1].strip(), _bare(_joined(after[start + 1 : divider]))] = above[0]
        begun = divider
    return found


class _Target(msgspec.Struct, gc=False):
    path: str = ""
    search: str = ""


def _target(action: Action) -> tuple[str, str]:
    """Path and old text of an edit; a patch names several files, so it has no path here."""
    if action.is_text:
        return "", ""
    target = msgspec.json.decode(action.arguments, type=_Target)
    return target.path, target.search


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _bare(text: str) -> str:
    """Without the spaces at the ends of lines, which the client does not repeat."""
    return "\n".join(line.rstrip() for line in text.splitlines())


def _whole(count: str) -> int | None:
    """A count as the client shows it: ``1,234``, or rounded as in ``4.1k``."""
    scale = {"k": 1_000, "M": 1_000_000}.get(count[-1:], 1)
    number = _real(count.removesuffix("k").removesuffix("M").replace(",", ""))
    return None if number is None else round(number * scale)


def _real(number: str | None) -> float | None:
    try:
        return float(number) if number else None
    except ValueError:
        return None
