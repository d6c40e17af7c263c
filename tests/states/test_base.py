"""The base commit: as recorded, or found by what the recording shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handoff.git.objects import object_id
from handoff.git.repository import Repository
from handoff.states.base import Base, find_base, find_result
from handoff.states.sightings import sightings
from handoff.trajectory import Action, Observation, Outcome, Step, Trajectory
from tests.states.histories import Made, make

CRLF = b"one\r\ntwo\r\n"
VERSIONS: tuple[dict[str, bytes], ...] = (
    {"a.py": b"a = 0\n", "b.py": b"b = 0\n", "c.md": b"First.\n", "d.txt": CRLF},
    {"a.py": b"a = 1\n"},
    {"b.py": b"b = 1\n"},
    {"a.py": b"a = 2\n"},
    {"c.md": b"Second.\n"},
    {"a.py": b"a = 3\n"},
    {"c.md": b"Third.\n"},
)
MESSAGES = {3: b"More of a\n\nEntire-Checkpoint: 0123456789ab\n", 5: b"The third (#17)", 6: b"Docs, after (#17) of old"}
FIRST = 1_700_000_000
APART = 1_000


class History(NamedTuple):
    repository: Repository
    commits: list[str]


def written(folder: Path, versions: tuple[dict[str, bytes], ...] = VERSIONS) -> History:
    made = [
        Made(
            {path.encode(): ("100644", data) for path, data in files.items()},
            message=MESSAGES.get(place),
            when=f"{FIRST + APART * place} +0000",
        )
        for place, files in enumerate(versions)
    ]
    commits = make(folder, made, {"main": len(made) - 1})
    return History(Repository(folder, name="o/r"), commits)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return written(tmp_path_factory.mktemp("git") / "r.git")


def blob(data: bytes) -> str:
    return object_id("blob", data)


def ran(command: str, said: str = "", *, call: str | None = None, time: str | None = None) -> Step:
    return Step(
        actions=(Action(call_id=call, tool="bash", arguments=json.dumps({"command": command})),),
        observations=(Observation(call_id=call, text=said, exit_code=0),),
        timestamp=time,
    )


def used(tool: str, call: str, **arguments: Any) -> Step:
    return Step(
        actions=(Action(call_id=call, tool=tool, arguments=json.dumps(arguments)),),
        observations=(Observation(call_id=call, text="The file /src/r/a.py has been updated successfully."),),
    )


def run_of(
    *steps: Step, base: str | None = None, patch: str | None = None, task: str | None = None, **facts: Any
) -> Trajectory:
    return Trajectory(
        format="claude_code",
        task="Fix it.",
        task_id=task,
        base_commit=base,
        steps=steps,
        outcome=Outcome(patch=patch),
        source=json.dumps({"cwd": "/src/r", **facts}),
    )


def patch_of(path: str, before: bytes, after: bytes = b"changed\n") -> str:
    return (
        f"diff --git a/{path} b/{path}\nindex {blob(before)[:8]}..{blob(after)[:8]} 100644\n"
        f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{before.decode()}+{after.decode()}"
    )


def place_of(history: History, run: Trajectory, hint: Base | None = None) -> tuple[int | None, str]:
    """The place of the commit that was found in the history, and the evidence."""
    found = find_base(run, history.repository, hint)
    return (None, "") if found is None else (history.commits.index(found.commit), found.evidence)


# -- content -----------------------------------------------------------------------------------------


def test_the_recorded_commit_is_the_base(history: History) -> None:
    assert place_of(history, run_of(base=history.commits[1][:10])) == (1, "named by the recording")


def test_the_patch_names_the_files_it_was_made_on(history: History) -> None:
    """The newest commit at which all of them had these blobs."""
    patch = patch_of("a.py", b"a = 1\n") + patch_of("b.py", b"b = 1\n")
    place, evidence = place_of(history, run_of(patch=patch))
    assert place == 2
    assert evidence == "found: 2 files as shown before any change (a.py, b.py) have its blob id"


def test_files_noted_before_their_first_edit_name_the_commit(history: History) -> None:
    """What the second edit found is no file of the base."""
    steps = (
        used("Read", "c1", file_path="/src/r/b.py"),
        used("Edit", "c2", file_path="/src/r/a.py", old_string="1", new_string="9"),
        used("Edit", "c3", file_path="/src/r/a.py", old_string="9", new_string="3"),
    )
    noted = {"read": {"c1": blob(b"b = 1\n")}, "before": {"c2": blob(b"a = 1\n"), "c3": blob(b"a = 3\n")}}
    assert place_of(history, run_of(*steps, **noted))[0] == 2


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("cat a.py", "a = 1\n"),
        ("cat -n a.py", "     1\ta = 1\n"),
        ("cd /src/r && cat a.py", "a = 1\n"),
        ("git diff", f"diff --git a/a.py b/a.py\nindex {blob(b'a = 1' + bytes([10]))[:7]}..1234567 100644\n"),
    ],
)
def test_the_text_of_a_file_names_the_commit(history: History, command: str, said: str) -> None:
    assert place_of(history, run_of(ran(command, said)))[0] == 2


def test_a_text_as_it_was_read_may_have_had_other_line_ends(history: History) -> None:
    noted = {"c1": blob(CRLF.replace(b"\r\n", b"\n"))}
    place, evidence = place_of(history, run_of(used("Read", "c1", file_path="/src/r/d.txt"), read=noted))
    assert place is not None
    assert "d.txt" in evidence


def test_what_an_edit_prints_is_no_file_of_the_base(history: History) -> None:
    """Nor is anything shown after it; a script that may have written any file ends all evidence."""
    steps = (ran("sed -i s/0/3/ a.py && cat a.py", "a = 3\n"), ran("cat a.py", "a = 3\n"))
    assert sightings(run_of(*steps)).files == ()
    assert sightings(run_of(ran("git checkout v2"), ran("cat a.py", "a = 3\n"))).files == ()


def test_a_tree_that_was_dirty_is_told(history: History) -> None:
    patch = "".join(
        patch_of(path, data) for path, data in (("a.py", b"a = 2\n"), ("b.py", b"b = 1\n"), ("c.md", b"x\n"))
    )
    place, evidence = place_of(history, run_of(patch=patch))
    assert place == 4
    assert evidence.endswith("c.md differs there")


@pytest.mark.parametrize("patch", [None, "", "no patch", patch_of("a.py", b"a = 77\n"), patch_of("new.py", b"x\n")])
def test_without_support_there_is_no_base(history: History, patch: str | None) -> None:
    assert find_base(run_of(patch=patch), history.repository) is None


# -- ids that git printed ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "form"),
    [
        ("git log --oneline -3", "{short} Change\n0000000 Earlier\n"),
        ("git log -1", "commit {full}\nAuthor: A\n"),
        ("git rev-parse HEAD", "{full}\n"),
        ("cd /src/r && git rev-parse --short HEAD", "{short}\n"),
        ("git branch -v", "  old 1234567 x\n* main {short} y\n"),
        ("git --no-pager log -n 2 --oneline && git status", "{short} Change\n"),
    ],
)
def test_head_as_git_printed_it_is_the_base(history: History, command: str, form: str) -> None:
    full = history.commits[3]
    place, evidence = place_of(history, run_of(ran("ls"), ran(command, form.format(full=full, short=full[:7]))))
    assert (place, evidence) == (3, "found: step 2 shows it as HEAD")


@pytest.mark.parametrize(
    "command",
    ["git log --oneline -- a.py", "git log origin/main..main", "git show v1", "git log --all", "echo git log"],
)
def test_other_commits_that_git_printed_are_not(history: History, command: str) -> None:
    assert find_base(run_of(ran(command, f"{history.commits[3][:7]} Change\n")), history.repository) is None


def test_the_commit_a_run_makes_has_the_base_as_its_parent(history: History) -> None:
    said = f"[main {history.commits[4][:7]}] Second\n 1 file changed\n"
    place, evidence = place_of(history, run_of(ran("git add c.md"), ran("git commit -m Second", said)))
    assert (place, evidence) == (3, "found: it is the parent of the commit made in step 2")
    amended = run_of(ran("git commit --amend -m Second", said))
    assert find_base(amended, history.repository) is None


def test_files_speak_louder_than_a_commit_that_git_printed(history: History) -> None:
    """A human may have committed while the run waited."""
    head = ran("git log --oneline", f"{history.commits[5][:7]} Change\n")
    texts = ran("cat a.py", "a = 1\n"), ran("cat b.py", "b = 0\n")
    assert place_of(history, run_of(*texts, head))[0] == 1


# -- what recorders and task names tell -----------------------------------------------------------


def test_a_recorders_trailer_names_the_commit_made_of_a_session(history: History) -> None:
    run = run_of(ran("ls"), checkpoint="0123456789ab")
    place, evidence = place_of(history, run)
    assert place == 2
    assert "whose trailer names this session's checkpoint" in evidence
    assert find_result(run, history.repository) == history.commits[3]
    assert find_result(run_of(ran("ls"), checkpoint="ba9876543210"), history.repository) is None


def test_a_trailer_of_a_later_checkpoint_gives_way_to_the_files(history: History) -> None:
    shown = ran("cat a.py", "a = 0\n")
    assert place_of(history, run_of(shown, checkpoint="0123456789ab"))[0] == 0


def test_a_pull_request_decides_between_commits_that_fit(history: History) -> None:
    """It proves nothing: without a file that agrees, or against one, it counts for nothing."""
    patch = patch_of("b.py", b"b = 1\n")
    assert place_of(history, run_of(patch=patch))[0] == 6
    place, evidence = place_of(history, run_of(patch=patch, task="o__r-17"))
    assert (place, "the commit of pull request 17" in evidence) == (4, True)
    assert place_of(history, run_of(patch=patch_of("a.py", b"a = 0\n"), task="o__r-17"))[0] == 0
    assert find_base(run_of(task="o__r-17"), history.repository) is None


def test_time_decides_between_commits_that_fit(history: History) -> None:
    """2023-11-14T22:13:20Z is the time of the first commit; the fourth came 3,000 seconds later."""
    steps = ran("ls", time="2023-11-14T23:05:00.000Z"), ran("cat b.py", "b = 1\n")
    place, evidence = place_of(history, run_of(*steps))
    assert place == 3
    assert evidence.endswith("2 others fit equally; the last before the run began was taken")
    assert place_of(history, run_of(ran("ls", time="2023-11-14T23:05:00Z")))[0] is None


# -- a recorded commit that is doubted --------------------------------------------------------------


def test_a_recorded_commit_is_left_only_for_one_that_everything_fits(history: History) -> None:
    texts = ran("cat a.py", "a = 1\n"), ran("cat b.py", "b = 0\n")
    place, evidence = place_of(history, run_of(*texts, base=history.commits[4]))
    assert place == 1
    assert evidence.endswith(f"the recording names {history.commits[4][:12]}, but a.py, b.py differ there")
    place, evidence = place_of(history, run_of(texts[0], ran("cat b.py", "b = 7\n"), base=history.commits[4]))
    assert (place, evidence) == (4, "named by the recording; a.py, b.py differ there")


def test_a_hint_stands_in_for_a_recorded_commit_that_is_lacking(history: History) -> None:
    hint = Base(history.commits[2], "named by the instance file")
    assert place_of(history, run_of(), hint) == (2, "named by the instance file")
    lacking = place_of(history, run_of(base="ab" * 20), hint)
    assert lacking == (2, "named by the instance file; the recording names abababababab, which the repository lacks")
    place, evidence = place_of(history, run_of(base=history.commits[0]), hint)
    assert (place, evidence.startswith("named by the recording; named by the instance file names")) == (0, True)


# -- always --------------------------------------------------------------------------------------------


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    history_=st.lists(
        st.dictionaries(
            st.sampled_from(["a.py", "b.py", "sub/c.md"]), st.sampled_from([b"0\n", b"1\n", b"2\n"]), min_size=1
        ),
        min_size=1,
        max_size=7,
    ),
    data=st.data(),
)
def test_what_is_found_agrees_with_everything_shown(
    tmp_path_factory: pytest.TempPathFactory, history_: list[dict[str, bytes]], data: st.DataObject
) -> None:
    """Whatever commit a run began on: where one holds all files shown, such a one is found."""
    history = written(tmp_path_factory.mktemp("git") / "r.git", tuple(history_))
    try:
        truth = data.draw(st.integers(0, len(history_) - 1))
        files: dict[str, bytes] = {}
        for version in history_[: truth + 1]:
            files.update(version)
        named = data.draw(st.sets(st.sampled_from(sorted(files)), min_size=1))
        found = find_base(
            run_of(patch="".join(patch_of(path, files[path]) for path in sorted(named))), history.repository
        )
        assert found is not None
        tree = history.repository.tree_of(found.commit)
        assert {path: history.repository.read(tree, path) for path in named} == {path: files[path] for path in named}
        assert "differ" not in found.evidence
    finally:
        history.repository.close()


_WORDS = st.sampled_from(
    ["--all", "-n", "HEAD", "../../etc/passwd", "a.py\0", "*", "", "x" * 300, "0123456789ab", "é\ud800"]
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    facts=st.dictionaries(
        st.sampled_from(["branch", "checkpoint", "originals", "before", "read", "cwd", "hunks"]),
        st.one_of(_WORDS, st.none(), st.integers(), st.dictionaries(_WORDS, _WORDS, max_size=3)),
    ),
    task=_WORDS,
    time=_WORDS,
    path=_WORDS,
)
def test_hostile_facts_name_no_base_and_break_nothing(
    history: History, facts: dict[str, Any], task: str, time: str, path: str
) -> None:
    steps = (
        used("Edit", "c1", file_path=path, old_string="1", new_string="2"),
        ran("git log --oneline", f"{path} x\n", time=time),
        ran(f"cat {path!r}", "a = 1\n"),
    )
    run = run_of(*steps, base=path, task=task, patch=f"diff --git a/{path} b/{path}\nindex {path}..1 1\n")
    run = msgspec.structs.replace(run, source=json.dumps(facts))
    found = find_base(run, history.repository)
    assert found is None or found.commit in history.commits
