"""An exported ATIF document reads back as the steps it was made from."""

from __future__ import annotations

import json
from collections import Counter

import msgspec
from test_exports import BRIEFING, ORIGIN, RUN, samples

from handoff.adapters import Record, convert
from handoff.exports import AtifExporter
from handoff.samples import sft_sample
from handoff.trajectory import Action, Message, Observation, Step, Trajectory, Usage

EVERYTHING = (
    Step(text="Nothing to do yet.", after=(Message(role="harness", text="Format error: no call."),)),
    Step(
        text="Look.",
        thought="Two at once.",
        actions=(
            Action(call_id="call_0", tool="bash", arguments='{"command":"ls"}'),
            Action(call_id="call_1", tool="apply_patch", arguments="*** Begin Patch", is_text=True),
            Action(call_id="call_2", tool="bash", arguments='{"command":"sleep 9"}'),
            Action(call_id="call_3", tool="bash", arguments="{}"),
        ),
        observations=(
            Observation(call_id="call_0", text="OBSERVATION:\na.py", exit_code=0),
            Observation(call_id="call_1", text="", error=True),
            Observation(call_id="call_2", missing="aborted"),
            Observation(call_id="call_3", missing="none"),
            Observation(call_id="lost", text="of no call", is_orphan=True),
            Observation(text="of nothing", is_orphan=True),
        ),
        after=(Message(role="user", text="Previous response had parsing errors: mind it."),),
        model="m-1",
        usage=Usage(prompt=9, cached=4, completion=2),
        cost=0.5,
        timestamp="2026-01-02T03:04:05Z",
    ),
    Step(
        text="Again.",
        actions=(
            Action(call_id="call_0", tool="bash", arguments="make", is_text=True),
            Action(tool="bash", arguments="{}"),
        ),
        observations=(Observation(call_id="call_0", text="built"), Observation(text="second")),
        after=(Message(role="context_summary", text=""), Message(role="system", text="Mind the summary.")),
        boundary="compaction",
        timestamp="1775715330.5",
    ),
)


def document(steps: tuple[Step, ...] = EVERYTHING) -> dict[str, object]:
    losses: Counter[str] = Counter()
    ((_, row),) = AtifExporter().rows(samples()[0], lambda _, h: steps, losses)
    value: dict[str, object] = json.loads(msgspec.json.encode(row))
    return value


def read(value: dict[str, object]) -> Trajectory:
    (run,) = convert(Record(json.dumps(value).encode()))
    return run


def test_the_predecessors_steps_come_back_as_they_were() -> None:
    run = read(document())
    *before, last = run.steps[: len(EVERYTHING)]
    # What the successor was given comes after the predecessor's last step.
    assert (*before, msgspec.structs.replace(last, after=last.after[:-1])) == EVERYTHING
    assert run.copied_steps == len(EVERYTHING)
    assert run.task == "Fix a.py"


def test_the_successors_steps_come_back_after_them() -> None:
    run = read(document())
    ours = run.steps[len(EVERYTHING) :]
    assert [[json.loads(a.arguments) for a in s.actions] for s in ours] == [
        [json.loads(a.arguments) for a in s.actions] for s in RUN
    ]
    assert [s.observations[0].text for s in ours[:2]] == [s.observations[0].text for s in RUN[:2]]
    assert ours[0].thought == "look"
    assert run.steps[len(EVERYTHING) - 1].after[-1].text == samples()[0].messages[0].content


def test_facts_of_the_origin_come_back() -> None:
    run = read(document())
    assert (run.licence, run.split, run.repo) == ("MIT", "train", "r")


def test_tokens_of_copied_steps_are_not_counted_again() -> None:
    steps = document()["steps"]
    assert isinstance(steps, list)
    assert all("metrics" not in step for step in steps if step.get("is_copied_context"))


def test_a_call_id_that_the_document_has_already_is_replaced_and_comes_back() -> None:
    """Ids are unique in a document although a predecessor counts anew in each reply."""
    value = document()
    steps = value["steps"]
    assert isinstance(steps, list)
    ids = [call["tool_call_id"] for step in steps for call in step.get("tool_calls", ())]
    assert len(ids) == len(set(ids))


def test_steps_without_a_predecessor_read_as_a_run_of_the_successor() -> None:
    ((_, row),) = AtifExporter().rows(sft_sample(ORIGIN, BRIEFING, RUN), None, Counter())
    run = read(json.loads(msgspec.json.encode(row)))
    assert (run.copied_steps, len(run.steps)) == (0, len(RUN))
