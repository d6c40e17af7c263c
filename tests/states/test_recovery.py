"""What no text tells of a file is taken from later evidence, exactly as far back as that holds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from handoff.git.repositories import Repository
from handoff.sandbox import available
from handoff.sandbox.base import Completed
from handoff.sandbox.rerun import answers_alike, reruns, root_of
from handoff.states.replay import replay
from handoff.trajectory import Action, Observation, Step
from tests.states.conftest import FILES, bash, commit, editor, recording
from tests.states.test_corruption import wrong_steps
from tests.states.truths import KINDS, make

PAGER = "src/pager.py"
FIXED = FILES[PAGER].replace(b"items[0:size]", b"items[:size]")
FORMATTED = FIXED.replace(b"\n\n\n", b"\n\n")

OPAQUE = {
    "a formatter": bash("black src/pager.py", "reformatted src/pager.py\n1 file reformatted.\n"),
    "a downloaded script": bash("curl -s https://example.invalid/fix.sh | sh"),
    "an unknown tool": Step(
        actions=(Action(tool="magic_refactor", arguments=json.dumps({"path": f"/testbed/{PAGER}"})),),
        observations=(Observation(text="Refactored."),),
    ),
    "an unreadable sed": bash(f"sed -i -E 's/(a|b)+?/c/' {PAGER}"),
    "a generator": bash("make generate", "generated\n"),
    "a module of its own": bash(f"python -m tools.rewrite {PAGER}", ""),
}


def fix() -> Step:
    return editor(command="str_replace", path=f"/testbed/{PAGER}", old_str="items[0:size]", new_str="items[:size]")


def rename() -> Step:
    return editor(command="str_replace", path=f"/testbed/{PAGER}", old_str="def page(", new_str="def pages(")


def shows(data: bytes) -> Step:
    return bash(f"cat {PAGER}", data.decode())


def patch_of(repository: Repository, base: str, files: dict[str, bytes | None]) -> str:
    tree = repository.tree_of(base)
    return repository.diff(tree, repository.write_tree(tree, files))


def content(repository: Repository, tree: str | None) -> bytes | None:
    assert tree is not None
    return repository.read(tree, PAGER)


def test_what_follows_from_the_recording_is_derived_also_where_nothing_shows_it(
    repository: Repository, base: str
) -> None:
    """A scratch file that comes and goes unseen leaves the steps between unproven, and derived all the same."""
    scratch = bash("cat > reproduce.py <<'EOF'\nimport pager\nEOF")
    steps = (scratch, bash("python reproduce.py", "boom"), fix(), shows(FIXED), bash("rm reproduce.py"))
    patch = patch_of(repository, base, {PAGER: FIXED})
    done = replay(recording(*steps, base=base, patch=patch), "t_1", repository)
    assert done.status == "verified" and done.statuses[1:5] == ("partial",) * 4
    assert done.derived == (True,) * 6

    rewritten = (scratch, OPAQUE["a formatter"], fix(), bash("ls"))
    done = replay(recording(*rewritten, base=base), "t_2", repository)
    assert done.statuses[2:] == ("partial",) * 3 and done.derived[2:] == (False,) * 3


@pytest.mark.parametrize("name", sorted(OPAQUE))
def test_an_opaque_step_is_never_guessed(repository: Repository, base: str, name: str) -> None:
    """From it on nothing is verified, with an end that tells nothing, and the reason names what it is."""
    steps = (fix(), shows(FIXED), OPAQUE[name], bash("ls", "README.md\n"))
    done = replay(recording(*steps, base=base), "t_1", repository)
    if done.opaque:
        assert done.status == "partial" and "verified" not in done.statuses[3:]
        assert [item.step for item in done.opaque] == [3] and not done.is_derivable
    else:  # it may have changed nothing: then only what contradicts it says that it did
        steps = (*steps, shows(FORMATTED))
        done = replay(recording(*steps, base=base), "t_1", repository)
        assert done.status in ("partial", "verified") and done.divergence is None and done.opaque
        assert "verified" not in done.statuses[3:5]
    assert "verified" in done.statuses[:3] or done.statuses[1] == "unverifiable"


def test_a_whole_read_tells_the_file_from_the_opaque_step_on(repository: Repository, base: str) -> None:
    steps = (fix(), shows(FIXED), OPAQUE["a formatter"], bash("ls"), shows(FORMATTED), bash("pwd"))
    done = replay(recording(*steps, base=base), "t_1", repository)
    assert done.status == "verified", done.reason
    assert set(done.statuses) == {"verified"}
    assert [(r.step, r.path, r.how, r.at) for r in done.recoveries] == [(3, PAGER, "read", 5)]
    assert content(repository, done.trees[2]) == FIXED and content(repository, done.trees[3]) == FORMATTED


def test_what_came_between_is_taken_back(repository: Repository, base: str) -> None:
    """An edit after the opaque step that can be undone in one way does not hide what that step left."""
    after = FORMATTED.replace(b"def page(", b"def pages(")
    steps = (fix(), shows(FIXED), OPAQUE["a formatter"], rename(), shows(after))
    done = replay(recording(*steps, base=base), "t_1", repository)
    assert done.status == "verified", done.reason
    assert content(repository, done.trees[3]) == FORMATTED and content(repository, done.trees[4]) == after
    assert done.recoveries[0].step == 3


def test_a_program_that_ran_between_is_not_stepped_over(repository: Repository, base: str) -> None:
    """Either of the two may have changed the file, so it is known only after the second."""
    steps = (fix(), shows(FIXED), OPAQUE["a formatter"], bash("python tools/gen.py", "ok\n"), shows(FORMATTED))
    done = replay(recording(*steps, base=base), "t_1", repository)
    assert done.statuses[3] == "partial" and content(repository, done.trees[5]) == FORMATTED
    assert min(item.step for item in done.recoveries) >= 4


def test_an_edit_that_cannot_be_undone_ends_the_way_back(repository: Repository, base: str) -> None:
    """A whole write hides what was there before it: the step between stays unknown."""
    steps = (fix(), OPAQUE["a formatter"], bash(f"cat > {PAGER} <<'EOF'\nx = 1\nEOF"), shows(b"x = 1\n"))
    done = replay(recording(*steps, base=base), "t_1", repository)
    assert done.status == "verified" and done.statuses[2] == "partial"
    assert content(repository, done.trees[3]) == b"x = 1\n"


def test_a_diff_with_blob_ids_is_proof(repository: Repository, base: str) -> None:
    """``git diff`` against the base gives the file whole, held against the id that git printed."""
    shown = patch_of(repository, base, {PAGER: FORMATTED})
    steps = (fix(), OPAQUE["a formatter"], bash("git diff", shown))
    done = replay(recording(*steps, base=base), "t_1", repository)
    assert done.status == "verified" and done.recoveries[0].how == "diff"
    assert content(repository, done.trees[2]) == FORMATTED
    damaged = shown.replace("+    return items[:size]", "+    return items[:sise]")
    done = replay(recording(fix(), OPAQUE["a formatter"], bash("git diff", damaged), base=base), "t_2", repository)
    assert done.status == "partial" and not done.recoveries


@pytest.mark.parametrize(
    "command",
    [
        "git diff --cached",
        "git show HEAD",
        "git log -p",
        "cat saved.patch",
        "git -C /other diff",
        "cd ../other && git diff",
    ],
)
def test_a_diff_of_something_else_proves_nothing(repository: Repository, base: str, command: str) -> None:
    shown = patch_of(repository, base, {PAGER: FORMATTED})
    done = replay(recording(fix(), bash(command, shown), base=base), "t_1", repository)
    assert done.divergence is None and done.status == "unverifiable"


def test_the_final_patch_tells_the_files_that_nothing_touched_since(repository: Repository, base: str) -> None:
    patch = patch_of(repository, base, {PAGER: FORMATTED, "README.md": b"B pager.\n"})
    readme = bash("sed -i -E 's/^(A|C) /B /' README.md")
    done = replay(
        recording(fix(), shows(FIXED), OPAQUE["a formatter"], readme, bash("ls"), base=base, patch=patch),
        "t_1",
        repository,
    )
    assert done.status == "verified" and [r.how for r in done.recoveries] == ["patch"] * len(done.recoveries)
    assert content(repository, done.trees[3]) == FORMATTED
    assert repository.read(done.trees[3] or "", "README.md") == FILES["README.md"]
    assert repository.read(done.trees[4] or "", "README.md") == b"B pager.\n"


def test_evidence_that_contradicts_the_rest_is_not_used(repository: Repository, base: str) -> None:
    """The end shows one content; an editor's look in between shows another."""
    window = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(FIXED.decode().split("\n"), 1))
    look = Step(
        actions=(
            Action(tool="str_replace_editor", arguments=json.dumps({"command": "view", "path": f"/testbed/{PAGER}"})),
        ),
        observations=(Observation(text=f"Here's the result of running `cat -n` on /testbed/{PAGER}:\n{window}\n"),),
    )
    steps = (fix(), OPAQUE["a formatter"], look, bash("ls"), shows(FORMATTED))
    done = replay(recording(*steps, base=base), "t_1", repository)
    assert "verified" not in done.statuses[2:4]


def test_a_read_without_its_last_line_feed_is_not_enough(repository: Repository, base: str) -> None:
    """A recorder that trims does not say how the file ends; the patch does."""
    trimmed = bash(f"cat {PAGER}", FORMATTED.decode().strip())
    run = recording(fix(), OPAQUE["a formatter"], trimmed, base=base)
    assert replay(run, "t_1", repository).status != "verified"
    with_patch = recording(
        fix(), OPAQUE["a formatter"], trimmed, base=base, patch=patch_of(repository, base, {PAGER: FORMATTED})
    )
    assert replay(with_patch, "t_2", repository).status == "verified"


@pytest.mark.parametrize("text", ["key = [REDACTED]\n", "a = 1\n\nREDACTED\nb = 2\n", "REDACTED\n", "\tREDACTED\n"])
def test_a_text_that_a_publisher_redacted_is_unknown(repository: Repository, base: str, text: str) -> None:
    steps = (editor(command="create", path="/testbed/key.txt", file_text=text), bash("cat key.txt", text))
    done = replay(recording(*steps, base=base), "t_1", repository)
    assert done.status == "partial" and "publisher" in done.reason


def test_a_commit_of_the_run_proves_its_files(repository: Repository, base: str) -> None:
    made = commit(repository.git_dir, {**FILES, PAGER: FIXED}, "Fix", parent=base, branch="fix")
    line = bash("git commit -am Fix", f"[main {made[:7]}] Fix\n 1 file changed, 1 insertion(+), 1 deletion(-)\n")
    done = replay(recording(fix(), line, base=base), "t_1", repository)
    assert done.status == "verified" and done.full_reads == 1
    other = bash("git commit -am Fix", f"[main {base[:7]}] Fix\n 1 file changed, 1 insertion(+), 1 deletion(-)\n")
    assert replay(recording(fix(), other, base=base), "t_2", repository).status != "verified"


# -- executing again ------------------------------------------------------------------------------

SCRIPT = """cat > fix.py <<'EOF'
import glob
for name in glob.glob('src/*.py'):
    text = open(name).read()
    open(name, 'w').write(text.upper())
print('done in 0.1 s')
EOF"""


@pytest.mark.skipif(available()["bubblewrap"] is not None or shutil.which("python3") is None, reason="no jail here")
def test_a_step_that_runs_again_as_recorded_is_known(repository: Repository, base: str, tmp_path: Path) -> None:
    again = reruns(tmp_path / "work")
    run = recording(bash(SCRIPT), bash("cd /testbed && python3 fix.py", "done in 7.25 s\n"), base=base)
    assert replay(run, "t_1", repository).status == "partial"
    done = replay(run, "t_2", repository, reruns=again)
    assert done.statuses[2] != "partial" and content(repository, done.trees[2]) == FILES[PAGER].upper()
    assert [(r.step, r.path, r.how) for r in done.recoveries] == [(2, PAGER, "rerun")]
    assert not done.is_derivable


@pytest.mark.skipif(available()["bubblewrap"] is not None or shutil.which("python3") is None, reason="no jail here")
@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("python3 fix.py", "done in 0.1 s\nand more\n", 0),
        ("python3 fix.py", "done in 0.1 s\n", 1),
        ("python3 fix.py; date +%s%N > src/pager.py", "done in 0.1 s\n", 0),
        ("python3 fix.py; cat /proc/sys/kernel/random/uuid > src/pager.py", "done in 0.1 s\n", 0),
    ],
    ids=["another answer", "another exit code", "a clock", "chance"],
)
def test_a_step_that_runs_differently_stays_opaque(
    repository: Repository, base: str, tmp_path: Path, command: str, output: str, code: int
) -> None:
    run = recording(bash(SCRIPT), bash(command, output, code), base=base)
    done = replay(run, "t_1", repository, reruns=reruns(tmp_path / "work"))
    assert done.status == "partial" and not done.recoveries


def test_nothing_runs_again_where_the_recording_tells(repository: Repository, base: str) -> None:
    """Later evidence comes first; only a step that it leaves open is executed."""
    asked: list[str] = []

    def never(before: object, line: str, context: object, seen: object) -> None:
        asked.append(line)

    steps = (fix(), OPAQUE["a formatter"], shows(FORMATTED), bash("make generate", "generated\n"))
    done = replay(recording(*steps, base=base), "t_1", repository, reruns=lambda *_: never)
    assert set(asked) == {"make generate"} and done.statuses[2] == "verified" and done.statuses[4] == "partial"


def test_answers_are_alike_but_for_times_and_addresses() -> None:
    def alike(now: str, then: str) -> bool:
        return answers_alike(Completed(exit_code=0, output=now), Observation(text=then, exit_code=0))

    assert alike("3 passed in 0.12s\n", "3 passed in 1.9s")
    assert alike("<f at 0x7f0a1b2c>\n", "<f at 0x55d0ffee>\n")
    assert alike("12:00:01 ok  \n", "09:30:59 ok\n")
    assert not alike("3 passed in 0.12s", "2 passed in 0.12s")
    assert not answers_alike(Completed(exit_code=1, output=""), Observation(text=""))


def test_the_root_is_where_the_recording_had_it(base: str) -> None:
    assert root_of(recording(bash("cd /workspace/pager && make"), base=base)) == "/workspace/pager"
    assert root_of(recording(bash("ls"), base=base)) == "/repo"


# -- always ---------------------------------------------------------------------------------------


def _holds(repository: Repository, seed: int, kind: str, with_patch: bool, place: int) -> None:
    """One random run in which one edit is told as something opaque: what is verified is the truth."""
    run = make(seed, kind, shows=0.7, with_patch=with_patch)
    base = commit(repository.git_dir, {path: text.encode() for path, text in run.truths[0].items()}, "Base")
    steps = list(run.trajectory.steps)
    if place < len(run.edits):
        before, after = run.truths[run.edits[place]], run.truths[run.edits[place] + 1]
        touched = sorted(path for path in before | after if before.get(path) != after.get(path))
        path = touched[0] if len(touched) == 1 and touched[0] in before and touched[0] in after else "."
        hidden = json.dumps({"command": f"black {path}"})
        seen = Observation(text="1 file reformatted.\n", exit_code=0)
        steps[run.edits[place]] = Step(actions=(Action(tool="bash", arguments=hidden),), observations=(seen,))
    told = changed(run.trajectory, steps=tuple(steps), base_commit=base)
    done = replay(told, f"t_{seed}", repository)
    wrong = wrong_steps(repository, done, run)
    false = [step for step in wrong if done.statuses[step] == "verified"]
    assert not false, (false, [wrong[step] for step in false], done.reasons)
    assert not [step for step in wrong if done.derived[step]], (sorted(wrong), done.derived)
    assert all(done.derived[step] for step, status in enumerate(done.statuses) if status == "verified")


_CASES = (st.integers(0, 10_000), st.sampled_from(KINDS), st.booleans(), st.integers(0, 6))
_SHARED = [HealthCheck.function_scoped_fixture]


@given(*_CASES)
@settings(max_examples=40, deadline=None, suppress_health_check=_SHARED)
def test_what_is_verified_is_the_truth(
    repository: Repository, seed: int, kind: str, with_patch: bool, place: int
) -> None:
    _holds(repository, seed, kind, with_patch, place)


@pytest.mark.slow
@given(*_CASES)
@settings(max_examples=500, deadline=None, suppress_health_check=_SHARED)
def test_what_is_verified_is_the_truth_in_many_runs(
    repository: Repository, seed: int, kind: str, with_patch: bool, place: int
) -> None:
    _holds(repository, seed, kind, with_patch, place)
