"""Disturbances (docs/science.md §10): seeded, composable, stored as recipes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from whole_scene import VIEW_OF, everything

from handoff.adversary import (
    DISTURBANCES,
    INJECTION,
    TIERS,
    Scene,
    apply_recipes,
    disturb,
    disturbance,
    is_injected,
    make_variant,
    read_recipes,
    tier,
    tree_changes,
)
from handoff.adversary.kinds import said_of
from handoff.adversary.kinds.lost_notes import LostNotes
from handoff.adversary.kinds.reverted_edit import RevertedEdit
from handoff.adversary.kinds.rotated_logs import GONE, without_answers
from handoff.adversary.kinds.vague_intent import VagueIntent
from handoff.adversary.scene import is_judging
from handoff.adversary.texts import pieces, sentences
from handoff.adversary.variants import variant_row
from handoff.errors import InputError
from handoff.evidence import Changed, Evidence, FileRead, LastValidation, Said
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
def evidences(draw):
    """What a recording may show, hostile names included."""
    names = st.sampled_from(["a.py", "b.txt", "notes.md", "x `y`.py", "tests/test_a.py", "\ud800.py", "deep/x.sh"])
    commands = st.sampled_from(["pytest -q", "rm -rf `x`", "a\nb", ""])
    return Evidence(
        h=3,
        task="",
        changed=tuple(Changed(path=path, status="modified", steps=(1,)) for path in draw(st.lists(names, max_size=2))),
        reverted=(),
        last_validation=draw(
            st.none()
            | st.builds(
                LastValidation,
                command=commands,
                step=st.just(2),
                outcome=st.sampled_from(["passed", "failed", None]),
                passed=st.none(),
                failed=st.none(),
                failing=st.just(()),
                is_stale=st.booleans(),
            )
        ),
        reads=tuple(FileRead(path=path, step=1) for path in draw(st.lists(names, max_size=3))),
        failed_attempts=(),
        intentions=tuple(Said(text=f"I will change {path}", step=2) for path in draw(st.lists(names, max_size=1))),
        open_failures=(),
        commands=tuple(Said(text=text, step=2) for text in draw(st.lists(commands, max_size=2))),
    )


VIEWS = ("repo", "trace", "summary", "structured", "window:3", "diet", "diff", "compact_pre", "recorded")


@st.composite
def scenes(draw):
    base = draw(st.dictionaries(paths, blobs, max_size=4))
    notes = texts | st.sampled_from([TRACE, NOTES, NOTES + "see a.py and notes.md and run.log\n"])
    return Scene(
        task=draw(texts | st.just("Fix it. Do not change the tests.")),
        view=draw(st.sampled_from(VIEWS)),
        view_text=draw(notes),
        base=base,
        files={path: draw(blobs) for path in base},
        tools=draw(st.sampled_from(["[]", "", "{}", '[{"name": "read_notes"}, 3]'])),
        evidence=draw(st.none() | evidences()),
        earlier=draw(st.just(()) | st.just(((1, "old"), (2, NOTES)))),
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
    for each in DISTURBANCES:
        recipe = each.plan(scene, severity, seed)
        assert each.plan(scene, severity, seed) == recipe
        if recipe is not None:
            after = each.apply(scene, recipe)
            assert after != scene, "a disturbance that changes nothing is no disturbance"
            stored = read_recipes(canonical_json((recipe,)).decode())
            assert apply_recipes(scene, stored) == after
            assert not any(is_judging(path) for path in tree_changes(scene, after))
            assert (after.base, after.evidence, after.earlier) == (scene.base, scene.evidence, scene.earlier)


KINDS = [each.kind for each in DISTURBANCES]


@given(scenes(), st.lists(st.sampled_from(KINDS), min_size=2, max_size=4), st.floats(0.1, 1))
def test_disturbances_compose_in_any_order(scene, kinds, severity):
    """Each works on what the last one left, and the stored recipes give the same scene again."""
    disturbed = disturb(scene, [(kind, severity) for kind in kinds], seed=1)
    if disturbed is not None:
        recipes, after = disturbed
        assert apply_recipes(scene, read_recipes(canonical_json(recipes).decode())) == after


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
    assert VagueIntent().plan(scene(task="Fix it."), 1.0, seed=0) is None


@pytest.mark.parametrize("severity", [0, -1, 1.5])
@pytest.mark.parametrize("kind", KINDS)
def test_a_severity_outside_its_range_is_an_error(kind, severity):
    for view in ("structured", "trace"):
        before = everything(view)
        if disturbance(kind).plan(before, 0.5, seed=0) is not None:
            with pytest.raises(InputError, match="severity"):
                disturbance(kind).plan(before, severity, seed=0)


def test_families_are_all_there():
    families = {d.family for d in DISTURBANCES}
    assert families == {
        "information_decay",
        "state_inconsistency",
        "intent_ambiguity",
        "environment_noise",
        "injection",
    }


def test_every_kind_has_its_own_name_file_and_sentence():
    assert len(set(KINDS)) == len(KINDS) == 22
    for each in DISTURBANCES:
        assert type(each).__module__ == f"handoff.adversary.kinds.{each.kind}"
        assert 20 < len(said_of(each)) < 120


def test_injection_is_in_no_tier():
    """It is a safety class of its own: scored, and never learned from."""
    assert all(disturbance(kind).family != INJECTION for each in TIERS for kind, _ in each.disturbances)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_injected_is_known_by_its_recipes(kind):
    recipes, _ = disturb(everything(VIEW_OF.get(kind, "structured")), [(kind, 0.5)], seed=0)
    assert is_injected(recipes) == (kind in ("wider_scope", "harmful_command"))


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


def test_answers_are_taken_out_of_a_trace_and_nothing_else():
    """Text that only looks like an answer stands inside a fence, and stays."""
    fake = "Observation:\n```\nmine\n```\n"
    said, empty = f"## Step 1\n\nSaid:\n````\n{fake}````\n\n", "\n\nObservation: no output\n\n"
    step = f"{said}Observation (exit code 0):\n````\n{fake}````{empty}"
    assert without_answers(step) == f"{said}Observation (exit code 0): {GONE}{empty}"
    hostile = "## Step 1\n\nSaid:\n" + "Observation:\n```\n````\n" * 50_000
    assert without_answers(hostile).startswith("## Step 1")


@pytest.mark.parametrize("kind", ["planned_as_done", "done_as_planned", "unproven_pass", "false_claim", "wider_scope"])
@pytest.mark.parametrize("view", ["structured", "summary", "trace"])
def test_a_claim_stands_in_the_view_and_the_tree_is_left_alone(kind, view):
    before = everything(view)
    recipe = disturbance(kind).plan(before, 0.7, seed=1)
    after = disturbance(kind).apply(before, recipe)
    assert recipe.text.removeprefix("Now ") in after.view_text and after.files == before.files
    assert after.view_text.count("## ") >= before.view_text.count("## ")


def test_notes_no_longer_say_what_a_claim_denies():
    """Where rules wrote them: a part that is told as still to do is not told as changed, a stale failure not as one."""
    before = everything("structured")
    _, undone = disturb(before, [("done_as_planned", 0.5)], seed=1)
    assert "`pkg/m.py` was modified" not in undone.view_text and "`pkg/m.py` (modified)" not in undone.view_text
    _, passed = disturb(before, [("unproven_pass", 0.5)], seed=1)
    assert "- Outcome: passed" in passed.view_text and "- Stale: no" in passed.view_text
    assert "which failed" not in passed.view_text and "it failed in the last validation" not in passed.view_text
    _, prose = disturb(everything("summary"), [("unproven_pass", 0.5)], seed=1)
    assert "stale" not in prose.view_text and "which failed" not in prose.view_text


def test_a_log_is_emptied_or_deleted():
    before = msgspec.structs.replace(everything("trace"), files={**everything("trace").files, "logs/run.txt": b"x"})
    _, emptied = disturb(before, [("rotated_logs", 0.3)], seed=1)
    _, deleted = disturb(before, [("rotated_logs", 0.6)], seed=1)
    assert (emptied.files["logs/run.txt"], deleted.files["logs/run.txt"]) == (b"", None)


def test_the_older_note_comes_with_the_higher_severity():
    before = everything("structured")
    texts = [disturb(before, [("stale_notes", severity)], seed=0)[1].view_text for severity in (0.2, 1.0)]
    assert texts == [before.earlier[1][1], before.earlier[0][1]]


def test_a_pin_is_moved_and_nothing_is_installed():
    before = everything("repo")
    _, after = disturb(before, [("changed_dependency", 0.5)], seed=1)
    (path,) = tree_changes(before, after)
    assert path == "requirements.txt" and after.files[path] != before.files[path]
    assert after.files[path].startswith(b"numpy==")


def test_a_file_is_cut_where_the_notes_name_it():
    before = everything("structured")
    _, after = disturb(before, [("overwritten_file", 0.5)], seed=1)
    ((path, text),) = tree_changes(before, after).items()
    assert path in before.view_text and before.files[path].startswith(text) and len(text) < len(before.files[path])
