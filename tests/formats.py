"""One sample of every kind, for tests of formats and of trainers."""

from __future__ import annotations

import json

from handoff.samples import (
    Origin,
    env_prediction_samples,
    note_writing_sample,
    pivot_sample,
    preference_sample,
    rl_prompt_sample,
    sft_sample,
    state_reconstruction_sample,
)
from handoff.successors import Briefing
from handoff.trajectory import Action, Message, Observation, Step

TOOLS = json.dumps([{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}])
BRIEFING = Briefing(
    task="Fix a.py", view="structured", view_text="# Done\n- a.py [1]", preamble="You take over.", tools=TOOLS,
    system="You are in a shell.",
)  # fmt: skip
ORIGIN = Origin(
    trajectory_id="t_1", point_id="p_1", view_id="v_1", view="structured", h=2, split="train", takeover_id="k_1",
    licence="MIT", repo="r", task_id="r-1", base_commit="abc", labels=("error",), tree="def",
)  # fmt: skip


def step(command: str, output: str = "ok", *, text: str = "", thought: str = "") -> Step:
    action = Action(tool="bash", arguments=json.dumps({"command": command}))
    return Step(text=text, thought=thought, actions=(action,), observations=(Observation(text=output),))


RUN = [
    step("git diff", "+x in 0.31s", text="Look first.", thought="hm"),
    Step(
        actions=(Action(tool="bash", arguments='{"command":"a"}'), Action(tool="bash", arguments='{"n":1}')),
        observations=(Observation(text="one"), Observation(text="two")),
        after=(Message(role="harness", text="Mind the time."),),
    ),
    step("submit"),
]
OTHER = [RUN[0], step("rm a.py"), step("submit")]
SAMPLES = [
    sft_sample(ORIGIN, BRIEFING, RUN),
    preference_sample(ORIGIN, BRIEFING, RUN, OTHER),
    rl_prompt_sample(ORIGIN, BRIEFING),
    pivot_sample(ORIGIN, BRIEFING, RUN, at=3),
    *env_prediction_samples(ORIGIN, BRIEFING, RUN[:1]),
    state_reconstruction_sample(ORIGIN, BRIEFING, {"changed": ["a.py"], "failing": None}),
    note_writing_sample(ORIGIN, BRIEFING, "# Trace\n\nit edited a.py"),
]
