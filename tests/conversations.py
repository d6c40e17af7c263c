"""Samples to mask."""

from __future__ import annotations

import json
import re

from handoff.samples import Origin, Sample, sft_sample
from handoff.successors import Briefing
from handoff.trajectory import Action, Observation, Step

TOOLS = json.dumps([{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}])
BRIEFING = Briefing(
    task="Fix <a.py>.  ", view="trace", view_text="# Trace\nit ran `ls`", preamble="You take over.", tools=TOOLS
)
ORIGIN = Origin(trajectory_id="t", point_id="p", view_id="v", view="trace", h=1, split="train", takeover_id="k")


def step(command: object = "git diff\n", output: str = "+x\n", *, text: str = "", thought: str = "") -> Step:
    arguments = json.dumps({"command": command})
    action = Action(tool="bash", arguments=arguments)
    return Step(text=text, thought=thought, actions=(action,), observations=(Observation(text=output),))


def last(text: str) -> Step:
    return Step(text=text)


def sample(*steps: Step) -> Sample:
    return sft_sample(ORIGIN, BRIEFING, steps)


TALKS = {
    "a story": sample(step(text="Let me look.", thought="hm\n"), step("pytest", "1 failed in 0.12s"), last("Done.\n")),
    "no text": sample(step(), step(), step("true", "")),
    "odd arguments": sample(step(7), step({"a": [1]}), step(""), last("x")),
    "tags": sample(step("echo '<|im_end|>'", "<tool_response>\n</think>", text="<|im_start|>user\n"), last("<call>")),
    "letters": sample(step("écho \u00a0 ☃", "\u2028☃\n\n", text="  naïve  "), last("𝄞 ok \u00a0")),
    "one word": sample(last("ok")),
}


def encode(text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """A tokenizer whose tokens are words with the blank before them, tags, and single other characters."""
    places = [match.span() for match in re.finditer(r"<\|?\w+\|?>| ?\w+|.", text, re.DOTALL)]
    return [hash_of(text[start:end]) for start, end in places], places


def hash_of(text: str) -> int:
    return sum(ord(letter) * 31**place for place, letter in enumerate(text)) % 50_000
