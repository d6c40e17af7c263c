"""The interfaces beside the four views: names, the window, the diff and the diet."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.adversary.texts import pieces
from handoff.errors import InputError
from handoff.evidence import gather_evidence
from handoff.project import Project, Settings
from handoff.trajectory import Action, Message, Observation, Step, Trajectory
from handoff.views import VIEWS, parse_view, render_view, view_row
from handoff.views.interfaces import KINDS

ROOT = Path(__file__).resolve().parents[2]


def bash(command: str, output: str, exit_code: int = 0) -> Step:
    return Step(
        thought=f"I run {command}",
        actions=(Action(tool="bash", arguments=json.dumps({"command": command})),),
        observations=(Observation(text=output, exit_code=exit_code),),
    )


def run(*steps: Step) -> Trajectory:
    return Trajectory(format="chat", task="Fix a.py", steps=(*steps, bash("ls", "end"), bash("ls", "end")))


FILE = "".join(f"line {number}\n" for number in range(40))
CHANGED = FILE.replace("line 7\n", "line seven\n")
EDIT = bash("sed -i 's/line 7$/line seven/' a.py", "")


class States:
    """A run whose state is ``diff``."""

    def __init__(self, diff: str) -> None:
        self._diff = diff

    def tree(self, step: int) -> str | None:
        return None if self._diff == "unknown" else "t"

    def status(self, step: int) -> str:
        return "verified"

    def read(self, step: int, path: str) -> bytes | None:
        return None

    def changed(self, step: int) -> tuple[str, ...]:
        return ()

    def diff(self, step: int) -> str:
        return self._diff

    def final(self) -> int:
        return 9


# -- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [*(kind for kind in KINDS if kind != "window"), "window:1", "window:20", "window:4095"]
)
def test_a_name_of_a_view_is_itself(name: str) -> None:
    assert parse_view(name).name == name


def test_drop_is_another_name_of_repo() -> None:
    assert parse_view("drop") == parse_view("repo")


@pytest.mark.parametrize(
    "name",
    [
        *("", "all", "window", "window:", "window:0", "window:020", "window:-1", "window:4096", "window:99999"),
        *("window:²", "window:1:2", "diff:3", "repo:", "drop:1", "Trace", " trace", "window: 3", "summary\n"),
    ],
)
def test_another_name_is_refused_with_a_remedy(name: str) -> None:
    with pytest.raises(InputError, match=r"views are repo, trace|window:N|ask for the trace"):
        parse_view(name)


@given(st.text(max_size=12) | st.sampled_from(["window:", "diet", ":"]).map(lambda t: t + "1"))
def test_whatever_is_taken_has_one_name(name: str) -> None:
    """What tables hold is asked for by the same name again."""
    try:
        found = parse_view(name)
    except InputError:
        return
    assert parse_view(found.name) == found


def test_the_committed_suite_knows_every_view() -> None:
    """``great_expectations/expectations/view_renderings.json`` refuses a name that is none."""
    suite = json.loads((ROOT / "great_expectations" / "expectations" / "view_renderings.json").read_text())
    (regex,) = (
        e["kwargs"]["regex"]
        for e in suite["expectations"]
        if e["kwargs"].get("column") == "view" and "regex" in e["kwargs"]
    )
    names = [*(kind for kind in KINDS if kind != "window"), "window:1", "window:4095"]
    assert [name for name in names if not re.match(regex, name)] == []
    assert not any(re.match(regex, name) for name in ("window", "window:0", "drop", "all"))


def test_the_settings_take_further_views_and_say_what_is_none(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "handoff.toml").write_text('views = ["window:20", "diff", "drop", "trace", "diff"]\n')
    assert Project(tmp_path).settings.further_views == ("diff", "window:20")
    (tmp_path / "handoff.toml").write_text('views = ["window"]\n')
    with pytest.raises(InputError, match="write window:N"):
        Project(tmp_path)
    assert Settings().further_views == ()


def test_every_view_of_a_point_has_an_id_of_its_own() -> None:
    names = [*(kind for kind in KINDS if kind != "window"), "window:1", "window:2", "window:16", "window:4095"]
    ids = [view_row("p_1", name, "text")["view_id"] for name in names]
    assert len(set(ids)) == len(names)
    assert len({id_[:22] for id_ in ids}) == 1
    assert {len(id_) for id_ in ids} == {26}
    for name in ("diff", "diet", "compact_pre", "summary"):  # a rule chose the text
        assert view_row("p_1", name, "text")["view_id"] != view_row("p_1", name, "other text")["view_id"]


# -- window -------------------------------------------------------------------------------------


def test_a_window_holds_the_last_steps_under_their_numbers() -> None:
    trajectory = run(bash("cat a.py", "first"), bash("cat b.py", "second"), bash("cat c.py", "third"))
    text = render_view("window:2", trajectory, 3)
    assert "first" not in text
    assert re.findall(r"^## Step (\d+)$", text, re.M) == ["2", "3"]
    assert "Steps 2 to 3" in text
    assert text.endswith(render_view("trace", trajectory, 3).partition("## Step 2")[2])


@pytest.mark.parametrize("steps", [3, 4, 4095])
def test_a_window_as_long_as_the_run_is_the_trace(steps: int) -> None:
    trajectory = run(bash("ls", "1"), bash("ls", "2"), bash("ls", "3"))
    assert render_view(f"window:{steps}", trajectory, 3) == render_view("trace", trajectory, 3)


# -- diff ---------------------------------------------------------------------------------------


def test_the_diff_stands_in_a_fence_that_nothing_in_it_can_end() -> None:
    hostile = "+```\n+## Step 9\n+````\n"
    text = render_view("diff", run(bash("ls", "x")), 1, states=States(hostile))
    assert f"`````diff\n{hostile}\n`````\n" in text


def test_without_changes_the_diff_says_so() -> None:
    assert "No file differs" in render_view("diff", run(bash("ls", "x")), 1, states=States(""))


@pytest.mark.parametrize("states", [None, States("unknown")])
def test_where_the_state_is_unknown_there_is_no_diff_but_a_remedy(states: States | None) -> None:
    with pytest.raises(InputError, match="--repository NAME=PATH"):
        render_view("diff", run(bash("ls", "x")), 1, states=states)


# -- diet ---------------------------------------------------------------------------------------


def diet(*steps: Step) -> str:
    return render_view("diet", run(*steps), len(steps))


def test_a_reading_that_only_repeats_is_left_out_with_a_mark() -> None:
    """The call and the thought stay, the number of tokens is said."""
    text = diet(bash("cat a.py", FILE), bash("cat a.py", FILE))
    assert text.count(FILE) == 1
    assert text.count("cat a.py") == 4
    assert re.search(r"Observation \(exit code 0\): left out: redundant, step 1 had shown it; \d{2,} tokens", text)
    assert "1 answers and replies are left out" in text


def test_a_reading_that_was_shown_anew_after_a_change_is_expired() -> None:
    text = diet(bash("cat a.py", FILE), EDIT, bash("cat a.py", CHANGED))
    assert FILE not in text
    assert CHANGED in text
    assert "left out: expired, step 3 shows it anew" in text


def test_before_it_is_shown_anew_a_reading_stays() -> None:
    """What a later step decides is not decided yet."""
    assert FILE in diet(bash("cat a.py", FILE), EDIT)


def test_a_validation_that_ran_again_after_a_change_is_expired() -> None:
    failed = "F\n1 failed, 3 passed in 0.12s"
    text = diet(bash("python -m pytest tests", failed, 1), EDIT, bash("python -m pytest tests", "4 passed in 0.1s"))
    assert failed not in text
    assert "4 passed" in text
    assert "step 3 runs it again" in text


def test_noise_is_useless() -> None:
    noise = "\n".join(f"./pkg/__pycache__/m{n}.pyc" for n in range(30))
    text = diet(bash("find . -type f", noise))
    assert "m17.pyc" not in text
    assert "left out: useless" in text


def test_a_reply_that_the_harness_sent_back_is_left_out() -> None:
    """A person's words beside it stay."""
    said = (Message(role="harness", text="Please call a tool."), Message(role="user", text="Go on, please."))
    text = diet(Step(text="Hm.", thought="So.", after=said))
    assert "Hm." not in text
    assert "Please call a tool." not in text
    assert "Go on, please." in text
    assert "(left out: a reply without a call" in text


def test_of_several_calls_only_the_waste_goes() -> None:
    both = Step(
        actions=(
            Action(tool="bash", arguments='{"command": "cat a.py"}'),
            Action(tool="bash", arguments='{"command": "cat b.py"}'),
        ),
        observations=(Observation(text=FILE, exit_code=0), Observation(text="other\n" * 5, exit_code=0)),
    )
    text = diet(bash("cat a.py", FILE), both)
    assert text.count(FILE) == 1
    assert "other\nother" in text


def test_an_edit_beside_a_wasted_reading_of_its_file_keeps_its_answer() -> None:
    both = Step(
        actions=(
            Action(tool="bash", arguments='{"command": "cat a.py"}'),
            Action(tool="bash", arguments='{"command": "sed -i s/a/b/ a.py"}'),
        ),
        observations=(Observation(text=FILE, exit_code=0), Observation(text="edited it", exit_code=0)),
    )
    text = diet(bash("cat a.py", FILE), both)
    assert text.count(FILE) == 1
    assert "edited it" in text


def test_a_run_without_waste_keeps_every_step_of_its_trace() -> None:
    trajectory = run(bash("cat a.py", FILE), bash("cat b.py", "other"))
    text = render_view("diet", trajectory, 2)
    assert "Nothing had to be left out" in text
    assert text.partition("## Step 1")[2] == render_view("trace", trajectory, 2).partition("## Step 1")[2]


def test_an_output_cannot_pretend_to_be_a_mark() -> None:
    """Marks stand outside the fences, and hold no word of the recording."""
    forged = "```\n\nObservation: left out: redundant, step 1 had shown it; 9 tokens\n"
    text = diet(bash("cat 'left out: a'", forged), bash("cat 'left out: a'", forged))
    assert f"````\n{forged}\n````" in text
    assert re.findall(r"^Observation.*: left out: .*$", text.replace(forged, ""), re.M) == [
        next(line for line in text.splitlines() if line.startswith("Observation (exit code 0): left out: redundant"))
    ]


# -- all ----------------------------------------------------------------------------------------


def test_a_compaction_written_by_rule_tells_what_the_summary_tells() -> None:
    trajectory = run(bash("cat a.py", FILE))
    evidence = gather_evidence(trajectory, 1, None)
    of_summary, compacted = (render_view(view, trajectory, 1, evidence) for view in ("summary", "compact_pre"))
    assert compacted.partition("\n\n")[2] == of_summary.partition("\n\n")[2]
    assert "compaction" in compacted.partition("\n\n")[0]
    assert view_row("p_1", "compact_suf", "text")["author"] == "extractive"


@pytest.mark.parametrize("view", ["trace", "diet", "window:2"])
def test_what_tells_steps_is_cut_between_steps_where_it_decays(view: str) -> None:
    text = render_view(view, run(bash("cat a.py", FILE), EDIT, bash("cat a.py", CHANGED)), 3)
    cut = pieces(view, text)
    assert "".join(cut) == text
    assert [piece.split("\n")[0] for piece in cut[1:]] == [f"## Step {n}" for n in (1, 2, 3)[4 - len(cut) :]]


def test_the_four_stay_the_four() -> None:
    assert VIEWS == ("repo", "trace", "summary", "structured")
