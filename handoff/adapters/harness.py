"""Text of the scaffold around a run: what wraps an observation, and what only looks like one.

Wrappers are constant per scaffold, so taking one off loses nothing. Text that tells the agent about its own
format errors, or tells it to go on, is kept with the role ``harness``: it is no evidence that a command ran.
"""

from __future__ import annotations

import re
from typing import Any

_NOTICES = (
    "Your output could not be parsed",
    "Your last output did not use any tool calls",
    "Your last output included multiple tool calls",
    "Your action could not be parsed",
    "Your response must contain",
    "Please always provide EXACTLY ONE action",
    "Please continue working on the task",
    "Please format your action in triple backticks",
    "Please proceed to the next step using your best judgement",
    "No tool calls found in the response",
    "Tool call error:",
    "Format error:",
    "ENVIRONMENT REMINDER:",
    "The task appears incomplete (iteration ",
    "Previous response had parsing errors:",
    "ERROR!! NONE of the actions you just requested were performed",
    "You are about to hand off your work to another AI agent.",
    "The next agent has a few questions for you",
)
_SUMMARIES = (
    "You are picking up work from a previous AI agent on this task:",
    "Here are the answers the other agent provided.",
)
_REVIEW = "Thank you for your work on this issue. Please carefully follow the steps below"
_FOOTER = re.compile(r"\n?\(Open file: ([^\n]*)\)\n\(Current directory: ([^\n]*)\)\nbash-\$\s*\Z")
_RETURNCODE = re.compile(r"\s*(?:<exception>(.*?)</exception>\s*)?<returncode>(-?\d{1,10})</returncode>\s*", re.DOTALL)
_EXECUTION_RESULT = re.compile(r"EXECUTION RESULT of \[[^\]\n]{0,100}\]:\n")
_SHELL_CODE = re.compile(
    r"\[(?:The c|C)ommand (?:completed|finished) with exit code (-?\d{1,10})\.?\]|\nexit code: (-?\d{1,10})\s*\Z"
)


def is_notice(text: str) -> bool:
    """True for format errors and prompts to go on."""
    return text.lstrip().startswith(_NOTICES)


def is_summary(text: str) -> bool:
    """True for what Terminus hands to itself in place of a context that grew too long."""
    return text.startswith(_SUMMARIES)


def is_review(text: str) -> bool:
    """True for SWE-agent's answer to the first submit: it asks for a review, and nothing was submitted."""
    return text.startswith((_REVIEW, "OBSERVATION:\n" + _REVIEW))


class States:
    """Working directory and open file as SWE-agent's prompt tells them, wherever they differ from the last ones."""

    def __init__(self) -> None:
        self.found: list[list[Any]] = []
        """``[step, working directory, open file]``; step 0 is before the first."""

    @property
    def first_folder(self) -> str | None:
        """Where the run began."""
        return self.found[0][1] if self.found else None

    def add(self, step: int, folder: str | None, open_file: str | None) -> None:
        """What held after a step."""
        now = [folder, None if open_file == "n/a" else open_file]
        if not self.found or self.found[-1][1:] != now:
            self.found.append([step, *now])

    def note(self, step: int, text: str) -> str:
        """An observation without the footer that 0.x puts under it, which is noted."""
        start = text.rfind("(Open file: ") if text.rstrip().endswith("\nbash-$") else -1
        found = _FOOTER.search(text, max(start - 1, 0)) if start >= 0 else None
        if found is None:
            return text
        self.add(step, found[2], found[1])
        return text[: found.start()]


def unwrap(text: str) -> tuple[str, int | None, bool | None]:
    """An observation without its wrapper, with the exit code and error flag that the wrapper states."""
    if text.startswith("OBSERVATION:\n"):
        return text[13:], _stated(text), None
    if text.startswith(("Observation: ", "Observation:\n")):
        return text[13:], None, None
    if text.startswith("EXECUTION RESULT of ["):
        found = _EXECUTION_RESULT.match(text)
        return (text[found.end() :], exit_code_in(text), None) if found else (text, None, None)
    if text.lstrip().startswith(("<returncode>", "<exception>")) and "<returncode>" in text[:20_000]:
        return _unwrap_returncode(text)
    code = _stated(text)
    return text, None if code is not None and "<returncode>" in text[:20_000] else code, None


def _stated(text: str) -> int | None:
    """The code in OpenHands' last line; any other end of a text may be what the command itself printed."""
    return exit_code_in(text) if text.endswith("]") else None


def exit_code_in(text: str) -> int | None:
    """The exit code that an OpenHands tool writes at the end of its output."""
    found = list(_SHELL_CODE.finditer(text, max(0, len(text) - 2_000)))
    return known_code(int(found[-1][1] or found[-1][2])) if found else None


def known_code(code: int | None) -> int | None:
    """-1 means timed out or still running: no code is known."""
    return None if code is None or code < 0 or code > 2**31 - 1 else code


def _unwrap_returncode(text: str) -> tuple[str, int | None, bool | None]:
    found = _RETURNCODE.match(text)
    if found is None:
        return text, None, None
    body = text[found.end() :]
    start, end = body.find("<output>"), body.rfind("</output>")
    if start == 0 and end >= 8:
        body = body[8:end].removeprefix("\n")
    exception = found[1]
    if exception:
        body = f"{exception}\n{body}" if body else exception
    return body, known_code(int(found[2])), True if exception else None
