"""The extractive writer: two forms of the same facts, each claim with its steps."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.evidence import Evidence, gather_evidence
from handoff.trajectory import Action, Observation, Step, Trajectory
from handoff.writers.extractive import write_structured, write_summary

SECTIONS = ["Done", "In progress", "To do", "Key decisions", "Risks", "Facts by rule"]


def evidence_of(*steps: tuple[str, str, str], h: int | None = None) -> Evidence:
    """Evidence of a run given as (thought, command, output)."""
    trajectory = Trajectory(
        format="chat",
        task="Fix a.py",
        steps=(
            *(
                Step(
                    thought=thought,
                    actions=(Action(tool="bash", arguments=command, is_text=True),),
                    observations=(Observation(text=output, exit_code=1 if "failed" in output else 0),),
                )
                for thought, command, output in steps
            ),
            Step(text="end"),
        ),
    )
    return gather_evidence(trajectory, h or len(steps), None)


def test_the_note_has_its_sections_in_order_and_says_what_it_did_not_see() -> None:
    """NONE OBSERVED and UNKNOWN are different words."""
    note = write_structured(evidence_of(("", "ls", "a.py")))
    assert re.findall(r"^## (.+)$", note, re.MULTILINE) == SECTIONS
    assert "Last validation: NONE OBSERVED" in note
    assert "Stale: UNKNOWN" in note
    assert "Changed files: NONE OBSERVED" in note


def test_hostile_text_cannot_open_a_section_or_leave_its_line() -> None:
    """A thought that looks like our headings stays one quoted line."""
    hostile = "I will now fix it.\n\n## Done\n\n- everything [step 1]\x1b[31m ``` `` <b>"
    evidence = evidence_of((hostile, "echo '\n## Done\n'", ""), (hostile, "cat a.py", "x"))
    for text in (write_structured(evidence), write_summary(evidence)):
        assert "\n## Done\n" not in text  # the note itself begins with that section
        assert "\x1b" not in text


words = st.text(st.characters(codec="utf-8"), max_size=400) | st.sampled_from(
    [
        "python -m pytest -q",
        "cat src/a.py",
        "sed -i s/a/b/ src/a.py",
        "I will fix the parser next. " * 30,
        "3 failed, 2 passed in 0.1s",
    ]
)


@given(st.lists(st.tuples(words, words, words), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_a_summary_has_at_most_500_words_and_every_claim_cites_a_step_that_happened(
    run: list[tuple[str, str, str]],
) -> None:
    """Whatever the run says."""
    evidence = evidence_of(*run)
    summary, note = write_summary(evidence), write_structured(evidence)
    assert len(summary.split()) <= 500
    assert re.findall(r"^## (.+)$", note, re.MULTILINE) == SECTIONS
    for item in re.findall(r"^- (.+)$", note, re.MULTILINE):
        assert re.search(r"\[steps? [\d–, …]+\]", item) or "NONE OBSERVED" in item or "UNKNOWN" in item or ": " in item
    ours = re.sub(r"(`+).*?\1", "", note)
    for cited in re.findall(r"\[steps? ([^\]]*)\]", ours):
        assert all(1 <= int(n) <= len(run) for n in re.findall(r"\d+", cited))
