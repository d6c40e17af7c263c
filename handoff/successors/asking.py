"""The probe as a question to a model, and its answer read (``docs/science.md §6, §7``).

The answer is bound to a schema, as long as fits the tokens that it may have; where an endpoint cannot bind it, the
schema stands in the question. Either way it is read strictly: one that does not fit is no answer. Subtasks are named by
opaque ids.
"""

from __future__ import annotations

import re
from typing import Any, get_args

import msgspec

from handoff.actions.operations import Kind
from handoff.endpoints.schemas import CHARACTERS_A_TOKEN, TOKENS_A_NODE
from handoff.errors import SuccessorError
from handoff.identity import canonical_json
from handoff.successors import Answer, Question

MOST_PLANNED = 30
"""Steps of a plan that are asked for where the tokens are enough, and the most that are taken."""
LONGEST_TARGET = 120
"""Characters of a planned step's target, where the endpoint can bound it."""
_KINDS: tuple[str, ...] = get_args(Kind)
_FENCE = re.compile(r"\A\s*```(?:json)?[ \t]*\n(.*?)\n?```\s*\Z", re.S)
_WORDINGS = {
    "reproduce": "the failure was reproduced",
    "locate": "the place to change was found in {}",
    "edit": "{} has all the changes that the task needs",
    "validate": "the work was validated with {}, and passes",
}


class _Step(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    target: str


class _Reply(msgspec.Struct, forbid_unknown_fields=True):
    done: list[str]
    plan: list[_Step]


def steps_of(question: Question, tokens: int) -> int:
    """How long a plan is asked for, 1 to ``MOST_PLANNED``, in an answer of at most ``tokens``."""
    a_step = 3 * TOKENS_A_NODE + LONGEST_TARGET // CHARACTERS_A_TOKEN
    left = tokens - (3 + len(question.nodes)) * TOKENS_A_NODE
    return max(1, min(MOST_PLANNED, left // a_step))


def schema_of(question: Question, tokens: int) -> dict[str, Any]:
    """The JSON schema of an answer of at most ``tokens``."""
    target = {"type": "string", "maxLength": LONGEST_TARGET}
    step = {
        "type": "object",
        "properties": {"kind": {"type": "string", "enum": list(_KINDS)}, "target": target},
        "required": ["kind", "target"],
        "additionalProperties": False,
    }
    ids = [identifier for identifier, _ in question.nodes]
    return {
        "type": "object",
        "properties": {
            "done": {"type": "array", "items": {"type": "string", "enum": ids}, "maxItems": len(ids)},
            "plan": {"type": "array", "items": step, "maxItems": steps_of(question, tokens)},
        },
        "required": ["done", "plan"],
        "additionalProperties": False,
    }


def words_of(question: Question, tokens: int, *, is_bound: bool) -> str:
    """The question in words. ``is_bound``: the endpoint holds the answer to the schema, which need not be shown."""
    lines = [f"{identifier}: {_wording(node)}" for identifier, node in question.nodes]
    text = (
        "A question beside the work; no tool is called and nothing changes. As far as you can tell now, which of these "
        "are already so in the repository? Some may have nothing to do with the task.\n\n"
        + "\n".join(lines)
        + "\n\nAnswer with one JSON object and nothing else. `done` lists the ids of those that are so. `plan` lists "
        f"the steps that you mean to take from here, in order, at most {steps_of(question, tokens)}: `kind` is one of "
        f"{', '.join(_KINDS)}, `target` the file (relative to the repository), test or command."
    )
    if is_bound:
        return text
    return f"{text}\n\nThe object fits this schema:\n{canonical_json(schema_of(question, tokens)).decode()}"


def _wording(node: str) -> str:
    kind, _, target = node.partition(":")
    if kind not in _WORDINGS:
        return node
    return _WORDINGS[kind].format(target if target and target != "all" else "all tests")


def read_answer(text: str, question: Question) -> Answer:
    """The answer in a reply, runs of one step merged as in P. ``SuccessorError`` when it does not fit the schema."""
    fenced = _FENCE.match(text)
    try:
        found = msgspec.json.decode(fenced[1] if fenced else text.strip(), type=_Reply)
    except (ValueError, RecursionError) as error:
        raise SuccessorError(f"the answer is not of the form that was asked for ({error})") from error
    nodes = dict(question.nodes)
    if unknown := [identifier for identifier in found.done if identifier not in nodes]:
        raise SuccessorError(f"the answer names {unknown[0][:40]!r}, which was not asked about")
    if odd := [step.kind for step in found.plan if step.kind not in _KINDS]:
        raise SuccessorError(f"the answer plans {odd[0][:40]!r}, which is no kind of action")
    steps = [f"{step.kind} {_target(step.target)}" for step in found.plan[:MOST_PLANNED]]
    plan = [step for step, before in zip(steps, [None, *steps], strict=False) if step != before]
    return Answer(done=tuple(dict.fromkeys(nodes[identifier] for identifier in found.done)), plan=tuple(plan))


def _target(text: str) -> str:
    """A target as keys write it: no prefix of the sandbox, one line."""
    return " ".join(text.split())[:500].removeprefix("/repo/").removeprefix("./")
