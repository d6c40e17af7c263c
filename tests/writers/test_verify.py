"""Claims held against the evidence record: planted contradictions are caught, true sentences are not."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.adapters import convert
from handoff.errors import RecordError
from handoff.evidence import LastValidation, Said, gather_evidence
from handoff.framing import Record, SourceFile
from handoff.trajectory import Trajectory
from handoff.writers.claims import Claim
from handoff.writers.extractive import write_structured
from handoff.writers.phrasing import line
from handoff.writers.verify import Known, find_contradictions, find_faults
from tests.writers.records import FAILED, PASSED, STALE, record

UNKNOWN = LastValidation(
    command="make check", step=8, outcome=None, passed=None, failed=None, failing=(), is_stale=False
)
OPEN = (Said(text="python -m pytest tests/test_other.py", step=4),)


def faults(text: str, last: LastValidation | None = PASSED, section: str = "in_progress", **parts: object) -> str:
    claim = Claim(section=section, text=text, steps=(4,))
    return "; ".join(find_faults("structured", claim, Known(record(last, **parts))))


@pytest.mark.parametrize(
    ("text", "last", "section", "wanted"),
    [
        # a file that is as it was
        ("Changed src/cache.py to keep pages.", PASSED, "in_progress", "was taken back"),
        ("Modified tests/test_pager.py.", PASSED, "in_progress", "tests/test_pager.py was not changed"),
        ("The check in `test_pager.py` was updated.", PASSED, "risks", "was not changed"),
        ("tests/test_pager.py has been rewritten.", PASSED, "in_progress", "was not changed"),
        ("src/pager.py and tests/test_pager.py were changed.", PASSED, "in_progress", "tests/test_pager.py was not"),
        ("Fixed src/pager.py, tests/test_pager.py and the docs.", PASSED, "in_progress", "tests/test_pager.py was not"),
        ("Added a case to tests/test_pager.py", PASSED, "key_decisions", "was not changed"),
        ("We read README.md, then edited README.md.", PASSED, "in_progress", "README.md was not changed"),
        # done, while the last validation failed or is stale
        ("Changed src/pager.py to round up.", FAILED, "done", "step 8) failed"),
        ("Changed src/pager.py to round up.", STALE, "done", "older than the last change"),
        ("The rounding in src/pager.py is fixed.", FAILED, "in_progress", "something is done (fixed)"),
        ("The pager is now working.", FAILED, "risks", "something is done (working)"),
        ("Resolved the issue.", STALE, "key_decisions", "something is done (resolved)"),
        # passing
        ("All tests pass.", FAILED, "in_progress", "the last validation (step 8) failed"),
        ("The whole suite passed.", FAILED, "done", "failed"),
        ("test_last_page passes now.", FAILED, "in_progress", "test_last_page passes, and it failed"),
        ("tests/test_pager.py passes.", FAILED, "in_progress", "failed when last seen"),
        ("test_last_page no longer fails.", FAILED, "in_progress", "failed when last seen"),
        ("The tests pass.", STALE, "in_progress", "say that it is stale"),
        ("The tests pass.", None, "in_progress", "no validation with a known outcome"),
        ("The build succeeded.", UNKNOWN, "in_progress", "no validation with a known outcome"),
        ("The fix makes all tests pass.", FAILED, "in_progress", "failed"),
        # failing
        ("The tests are still failing.", PASSED, "to_do", "the last validation (step 8) passed"),
        ("pytest fails.", PASSED, "risks", "passed"),
        # names
        ("Look at src/ghost.py.", PASSED, "to_do", "src/ghost.py is not in the record"),
        ("Run `tests/test_ghost.py::test_all`.", PASSED, "to_do", "is not in the record"),
        ("test_ghost covers it.", PASSED, "risks", "test_ghost is not in the record"),
        ("See other/pager.py.", PASSED, "risks", "other/pager.py is not in the record"),
    ],
)
def test_a_planted_contradiction_is_caught(text: str, last: LastValidation | None, section: str, wanted: str) -> None:
    assert wanted in faults(text, last, section)


@pytest.mark.parametrize(
    ("text", "last", "section"),
    [
        ("Changed src/pager.py to round up.", PASSED, "done"),
        ("Changed src/pager.py after reading tests/test_pager.py and src/cache.py.", FAILED, "in_progress"),
        ("`pager.py` was changed so that it rounds up.", FAILED, "in_progress"),
        ("Added a guard in ./src/pager.py, like the one in src/cache.py.", FAILED, "in_progress"),
        ("tests/test_pager.py was read, not changed.", PASSED, "key_decisions"),
        ("tests/test_pager.py has not been updated.", PASSED, "risks"),
        ("tests/test_pager.py needs to be updated.", PASSED, "to_do"),
        ("Extend tests/test_pager.py.", PASSED, "to_do"),
        ("The edit of src/cache.py was reverted, so src/cache.py was changed for nothing.", PASSED, "key_decisions"),
        ("Took back the changed src/cache.py.", FAILED, "done"),
        ("The last page is not fixed.", FAILED, "in_progress"),
        ("Make test_last_page pass.", FAILED, "to_do"),
        ("test_last_page fails.", FAILED, "risks"),
        ("3 passed and 1 failed in the last run.", FAILED, "risks"),
        ("The tests passed before the last change, and that is stale.", STALE, "risks"),
        ("All tests pass.", PASSED, "done"),
        ("Tests should pass once the rounding is right.", FAILED, "to_do"),
        ("It is not known whether the tests pass.", None, "to_do"),
        ("It passes the page number to the cache.", FAILED, "key_decisions"),
        ("Located the cause of the lost page.", FAILED, "done"),
        ("Run python repro.py again; read README.md.", PASSED, "to_do"),
        ("Version 1.2.3 and e.g. read/write or and/or are no files.", PASSED, "risks"),
        ("Use a fixed page size.", FAILED, "key_decisions"),
        ("Pages are created in src/cache.py and test_pager.py.", PASSED, "key_decisions"),
        ("A later step has to verify that the loss of the last page has been fixed.", FAILED, "to_do"),
        ("I wrote it like a Vue.js application.", PASSED, "key_decisions"),
    ],
)
def test_a_true_sentence_is_left_alone(text: str, last: LastValidation | None, section: str) -> None:
    assert faults(text, last, section) == ""


def test_a_claim_cites_steps_of_the_run() -> None:
    known = Known(record())
    for steps, wanted in (((), "cites no step"), ((0,), "cites step 0"), ((3, 10), "cites step 10"), ((9,), "")):
        found = find_faults("structured", Claim(section="risks", text="It may mislead.", steps=steps), known)
        assert wanted in "; ".join(found) and bool(found) == bool(wanted)


def test_a_claim_that_is_no_sentence_any_more_is_refused() -> None:
    assert "more than 40 words" in faults("word " * 41)
    assert faults("word " * 40) == ""


def test_a_failure_that_is_still_open_is_known() -> None:
    """The last validation passed, and it was another one."""
    assert "failed when last seen" in faults("tests/test_other.py passes.", open_failures=OPEN)
    assert faults("tests/test_other.py fails.", open_failures=OPEN) == ""


def test_what_only_a_fuller_record_knows_is_no_contradiction() -> None:
    """The writer of a compaction saw the trace: names, citations and unknown outcomes are not held against it."""
    assert find_contradictions("All tests pass.", Known(record(UNKNOWN))) == ()
    assert find_contradictions("All tests pass.", Known(record(None))) != ()
    known = Known(record(FAILED))
    assert find_contradictions("See src/ghost.py. It may help.", known) == ()
    assert find_contradictions("Done: see src/ghost.py. All tests pass!", known) != ()


WORDS = "changed was src/pager.py test_x passes not to . , ; ` ../ :: fails".split()  # noqa: SIM905


@given(
    st.text(max_size=200) | st.lists(st.sampled_from(WORDS)).map(" ".join),
    st.sampled_from(["done", "risks", "sentences"]),
    st.sampled_from([PASSED, FAILED, STALE, None]),
)
@settings(max_examples=300, deadline=None)
def test_any_text_is_judged_and_names_outside_the_record_never_pass(
    text: str, section: str, last: LastValidation | None
) -> None:
    known = Known(record(last))
    find_faults("structured", Claim(section=section, text=text, steps=(1,)), known)
    planted = f"{text}\nsrc/planted_ghost.py"
    assert any(
        "planted_ghost" in fault
        for fault in find_faults("summary", Claim(section=section, text=planted, steps=(1,)), known)
    )


def test_long_hostile_texts_are_judged_in_linear_time() -> None:
    for text in ("." * 60_000, "a/" * 30_000, "a." * 30_000, "test_" * 12_000, "``" * 30_000, "changed " * 8_000):
        known = Known(record(task=text))
        assert known.has_file("src/pager.py")
        find_contradictions(text[:5_000], known)


def real_runs(corpus: Path) -> Iterator[Trajectory]:
    for folder in ("claude_code", "mini_swe_agent_v2"):
        for path in sorted((corpus / folder).rglob("*.json*")):
            for item in SourceFile(path):
                with suppress(RecordError):
                    yield from convert(item) if isinstance(item, Record) else ()


def test_what_rules_write_of_real_runs_is_never_refused(corpus: Path) -> None:
    """True by construction: every claim of the extractive note, but for sentences that it quotes."""
    claims = 0
    for run in real_runs(corpus):
        for h in {len(run.steps) // 2, len(run.steps) - 1} - {0}:
            evidence = gather_evidence(run, h, None)
            known = Known(evidence)
            for part in write_structured(evidence).split("\n## ")[:-1]:
                section = part.partition("\n")[0].removeprefix("## ").lower().replace(" ", "_")
                for text in re.findall(r"^- (?!NONE OBSERVED|UNKNOWN|Stated intention)(.*) \[step", part, re.M):
                    if section == "key_decisions":
                        continue
                    claims += 1
                    claim = Claim(section=section, text=text, steps=(1,))
                    assert find_faults("structured", claim, known) == (), (text, evidence.last_validation)
    assert claims > 50


def test_what_real_agents_say_of_their_work_is_seldom_refused(corpus: Path) -> None:
    """Sentences of recorded runs against their own evidence: nearly all are left alone."""
    sentences = refused = 0
    for run in real_runs(corpus):
        h = len(run.steps) - 1
        if h < 3:
            continue
        known = Known(gather_evidence(run, h, None))
        for sentence in re.split(r"(?<=[.!?])\s+|\n+", f"{run.steps[h - 1].text}\n{run.steps[h].text}"):
            sentences += len(sentence) > 12
            refused += bool(find_contradictions(line(sentence), known))
    assert sentences > 200
    assert refused / sentences < 0.02


@pytest.mark.parametrize("words", ["tests pass ", "changed src/pager.py ", "not done is ", "src/cache.py and fail "])
def test_a_text_without_an_end_is_read_in_a_moment(words: str) -> None:
    """A compaction may be anything, so work grows with its length and not with its square."""
    known = Known(record(PASSED))
    started = time.process_time()
    find_contradictions(words * (60_000 // len(words)), known)
    assert time.process_time() - started < 5
    assert find_contradictions("word " * 1_000 + "and all tests pass", Known(record(FAILED))) != ()
