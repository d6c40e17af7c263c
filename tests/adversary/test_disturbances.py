"""Disturbances (docs/science.md §10): seeded, composable, stored as recipes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.adversary import (
    DISTURBANCES,
    Scene,
    apply_recipes,
    disturb,
    make_variant,
    read_recipes,
    tier,
    tree_changes,
)
from handoff.adversary.ambiguity import VagueIntent, sentences
from handoff.adversary.decay import LostNotes, pieces
from handoff.adversary.inconsistency import RevertedEdit
from handoff.adversary.scene import is_judging
from handoff.adversary.variants import variant_row
from handoff.errors import InputError
from handoff.identity import canonical_json
from handoff.lake import SCHEMAS

TRACE = "# Trace\n\n" + "".join(f"## Step {n}\n\nSaid:\n```\nstep {n}\n```\n\n" for n in range(1, 6))
NOTES = "# Notes\n\n## Done\n\n- a [step 1]\n\n## To do\n\n- b\n\n## Risks\n\n- c\n"
BASE = b"".join(b"line %d\n" % n for n in range(20))
NOW = BASE.replace(b"line 3\n", b"LINE 3\n").replace(b"line 9\n", b"LINE 9\nmore\n").replace(b"line 15\n", b"")

texts = st.text(alphabet="ab.! \n#\x00\x1b<\ud800", max_size=60)
blobs = st.none() | st.lists(st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"\xff\x00", b"#!x\n"]), max_size=8).map(
    b"".join
)
paths = st.sampled_from(["a.py", "b.txt", "tests/test_a.py", "conftest.py", "deep/x.sh"])


@st.composite
def scenes(draw):
    base = draw(st.dictionaries(paths, blobs, max_size=4))
    return Scene(
        task=draw(texts),
        view=draw(st.sampled_from(["repo", "trace", "summary", "structured"])),
        view_text=draw(texts | st.just(TRACE) | st.just(NOTES)),
        base=base,
        files={path: draw(blobs) for path in base},
    )


def scene(**changes):
    plain = {
        "task": "Fix it. It fails on empty input. Keep the API.",
        "view": "repo",
        "view_text": "",
        "base": {},
        "files": {},
    }
    return Scene(**{**plain, **changes})


@given(scenes(), st.floats(0.01, 1), st.integers(0, 3))
def test_a_recipe_says_everything(scene, severity, seed):
    """Planning again gives the same recipe; applying it, also after storing it, the same bytes; no judge is touched."""
    for disturbance in DISTURBANCES:
        recipe = disturbance.plan(scene, severity, seed)
        assert disturbance.plan(scene, severity, seed) == recipe
        if recipe is not None:
            after = disturbance.apply(scene, recipe)
            assert after != scene, "a disturbance that changes nothing is no disturbance"
            stored = read_recipes(canonical_json((recipe,)).decode())
            assert apply_recipes(scene, stored) == after
            assert not any(is_judging(path) for path in tree_changes(scene, after))


@given(scenes(), st.permutations([("lost_notes", 0.5), ("reverted_edit", 1.0), ("vague_intent", 0.5)]))
def test_disturbances_compose_in_any_order(scene, kinds):
    """Each works on what the last one left, and the stored recipes give the same scene again."""
    disturbed = disturb(scene, kinds, seed=1)
    if disturbed is not None:
        recipes, after = disturbed
        assert apply_recipes(scene, recipes) == after


@given(st.sampled_from(["trace", "structured", "summary"]), texts | st.just(TRACE) | st.just(NOTES))
def test_cutting_a_text_loses_nothing(view, text):
    assert "".join(pieces(view, text)) == text
    assert "".join(sentences(text)) == text


def test_a_trace_loses_its_oldest_steps_and_keeps_its_heading():
    """As when a log is rotated."""
    before = scene(view="trace", view_text=TRACE)
    recipe = LostNotes().plan(before, 0.4, seed=0)
    after = LostNotes().apply(before, recipe)
    assert recipe.parts == (1, 2)
    assert after.view_text.startswith("# Trace\n\n## Step 3") and after.view_text.endswith(TRACE[-20:])
    assert after.files == before.files and after.task == before.task


def test_notes_lose_whole_sections():
    before = scene(view="structured", view_text=NOTES)
    lost = {LostNotes().apply(before, LostNotes().plan(before, 0.3, seed)).view_text.count("## ") for seed in range(9)}
    assert lost == {2}


def test_the_repo_view_has_no_notes_to_lose():
    assert LostNotes().plan(scene(), 0.5, seed=0) is None


def test_an_edit_is_put_back_to_the_base_commits_lines():
    """At full severity the file is the base commit's again; below, some hunks of it are."""
    before = scene(base={"a.py": BASE}, files={"a.py": NOW})
    whole = RevertedEdit().apply(before, RevertedEdit().plan(before, 1.0, seed=0))
    assert whole.files["a.py"] == BASE
    recipe = RevertedEdit().plan(before, 0.3, seed=0)
    part = RevertedEdit().apply(before, recipe).files["a.py"]
    assert len(recipe.parts) == 1 and part not in (BASE, NOW)
    assert whole.task == before.task and whole.view_text == before.view_text, "nobody says a word"


def test_a_file_that_the_predecessor_created_is_silently_gone():
    before = scene(base={"new.py": None}, files={"new.py": b"x\n"})
    after = RevertedEdit().apply(before, RevertedEdit().plan(before, 0.5, seed=0))
    assert tree_changes(before, after) == {"new.py": None}


@pytest.mark.parametrize(
    "path",
    ["tests/test_a.py", "a/tests/b.py", "test_a.py", "a_test.py", "conftest.py", "pyproject.toml", "a.spec/spec/x"],
)
def test_files_that_judge_are_never_put_back(path):
    assert RevertedEdit().plan(scene(base={path: b"a\n"}, files={path: b"b\n"}), 1.0, seed=0) is None


def test_the_first_sentence_of_a_statement_stays():
    before = scene()
    after = VagueIntent().apply(before, VagueIntent().plan(before, 1.0, seed=0))
    assert after.task == "Fix it."


def test_a_statement_of_one_sentence_gets_a_competitor_below_the_hash_bang():
    before = scene(task="Fix it.", base={"a.py": b""}, files={"a.py": b"#!/usr/bin/python\nx = 1\n"})
    after = VagueIntent().apply(before, VagueIntent().plan(before, 1.0, seed=0))
    first, second, third = after.files["a.py"].splitlines()
    assert (first, third) == (b"#!/usr/bin/python", b"x = 1") and second.startswith(b"# TODO")
    assert VagueIntent().plan(scene(task="Fix it."), 1.0, seed=0) is None


@pytest.mark.parametrize("severity", [0, -1, 1.5])
def test_a_severity_outside_its_range_is_an_error(severity):
    with pytest.raises(InputError, match="severity"):
        VagueIntent().plan(scene(), severity, seed=0)


def test_families_are_all_there():
    assert {d.family for d in DISTURBANCES} == {"information_decay", "state_inconsistency", "intent_ambiguity"}


def test_a_variant_is_named_by_what_it_does_and_fits_the_table():
    from handoff.adversary import OracleCheck

    before = scene(base={"a.py": BASE}, files={"a.py": NOW})
    one, again = (make_variant("p_1", tier("extreme"), before, seed=5) for _ in range(2))
    row = variant_row(one, "tree", OracleCheck(outcome="preserved", detail=""))
    assert one == again and set(row) == set(SCHEMAS["adversarial_variants"].names)
    assert row["kinds"] == ["reverted_edit", "vague_intent"] and row["severity"] == 1.0
    assert apply_recipes(before, read_recipes(row["parameters"])) == one.after
    assert make_variant("p_1", tier("extreme"), scene(), seed=5) is None, "half a tier is no tier"
    with pytest.raises(InputError, match="summary"):
        make_variant("p_1", tier("medium"), before, seed=5)
