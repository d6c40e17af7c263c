"""What a recording shows of a file is compared with the state, and proves what it shows and no more."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.actions import Context, Read, Search
from handoff.git.objects import object_id
from handoff.git.repositories import Repository
from handoff.states.proof.checkpoints import Shown, compare, shown, text_of
from handoff.states.proof.gitshown import commits_made, diffs, patched, status
from handoff.states.replay import replay
from handoff.trajectory import Action, Observation, Step
from tests.states.conftest import FILES, bash, editor, recording

DATA = b"one\n\ttwo\n\nfour\n"
PAGER = "src/pager.py"
FIXED = FILES[PAGER].replace(b"items[0:size]", b"items[:size]")


def fix() -> Step:
    return editor(command="str_replace", path=f"/testbed/{PAGER}", old_str="items[0:size]", new_str="items[:size]")


def one(text: str, **read: object) -> Shown:
    found = shown([Read(path="a", is_alone=True, **read)], text)  # type: ignore[arg-type]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("seen", "data", "whole", "exact"),
    [
        (one("one\n\ttwo\n\nfour\n"), DATA, True, True),
        (one("one\n\ttwo\n\nfour"), DATA, True, False),
        (one("one\n\ttwo\n\nfour\n"), DATA.replace(b"\n", b"\r\n"), True, False),
        (one("one\r\n\ttwo\r\n\r\nfour\r\n"), DATA, True, False),
        (one("one\n\ttwo\n", first=1, last=2), DATA, False, False),
        (one("one\n\ttwo\n\nfour\n", first=1, last=50), DATA, True, True),
        (one("\ttwo\n\nfour\n", first=2, last=4), DATA, False, False),
        (one("     1\tone\n     2\t\ttwo\n     3\t\n     4\tfour\n     5\t", form="numbered"), DATA, True, True),
        (one("     1→one\n     2→\ttwo\n     3→\n     4→four", form="numbered"), DATA, True, False),
        (one("     1→one\n<system-reminder>\nNo malware.\n</system-reminder>", form="numbered"), b"one\n", True, False),
        (one("     2\t\ttwo\n     3\t", form="numbered", first=2, last=3), DATA, False, False),
    ],
)
def test_a_text_that_agrees_proves_what_it_shows(seen: Shown, data: bytes, whole: bool, exact: bool) -> None:
    """Whole: every line; exact: every byte, the last line feed and the line ends too."""
    found = compare(seen, data)
    assert found is not None and found.holds
    assert (found.is_whole, found.is_exact) == (whole, exact)


@pytest.mark.parametrize(
    "seen",
    [
        one("one\n\ttwo\n\nfive\n"),
        one("one\n\ttwo\n"),
        one("one\n\ttwo\n\nfour\nfive\n"),
        one("two\n\nfour\n", first=1, last=3),
        one("     1→one\n     2→\ttwo\n     3→\n     4→five", form="numbered"),
        one("     1→one\n     2→\ttwo", form="numbered"),
        one("     9→nine", form="numbered", first=9),
    ],
)
def test_a_text_that_differs_is_a_contradiction_with_a_hunk(seen: Shown) -> None:
    found = compare(seen, DATA)
    assert found is not None and not found.holds and found.hunk.startswith("@@ line ")


@pytest.mark.parametrize(
    "text",
    [
        "Wasted call — file unchanged since your last Read. Refer to that earlier tool_result instead.",
        "File unchanged since last read. The content from the earlier result is still current.\n",
        "The file has not changed since the last read.",
    ],
)
def test_a_tool_that_says_that_it_showed_a_file_before_shows_none(text: str) -> None:
    assert shown([Read(path="a", is_alone=True, form="numbered")], text) == []


@pytest.mark.parametrize(
    "text",
    ["one\n... [12 lines truncated] ...\nfour\n", "one\n<response clipped>\n", "one\n[Output truncated]\nfour\n"],
)
def test_clipped_output_proves_nothing(text: str) -> None:
    assert shown([Read(path="a", is_alone=True)], text) == []


def test_a_long_read_of_a_tool_that_stops_at_its_limit_is_not_whole() -> None:
    text = "\n".join(f"{number:6}→x" for number in range(1, 2001))
    seen = one(text, form="numbered")
    found = compare(seen, b"x\n" * 3000)
    assert found is not None and found.holds and not found.is_whole


def test_hits_of_grep_are_lines_of_their_files() -> None:
    hits = shown(
        [Search(path="src", pattern="def")], "src/a.py:3:def page():\nsrc/b.py:9:    def last():\nbin/x:1:def\n"
    )
    assert [(seen.path, seen.numbered) for seen in hits] == [
        ("src/a.py", ((3, "def page():"),)),
        ("src/b.py", ((9, "    def last():"),)),
    ]
    alone = shown([Search(path="src/a.py", pattern="def")], "3:def page():\nsome text\n")
    assert [(seen.path, seen.numbered) for seen in alone] == [("src/a.py", ((3, "def page():"),))]


@given(st.binary(max_size=60), st.integers(1, 6), st.integers(0, 6))
def test_what_cat_and_sed_print_of_a_file_agrees_with_it(data: bytes, first: int, more: int) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    whole = compare(Shown("a", text, is_whole=True), data)
    assert whole is None or (whole.holds and whole.is_exact)
    stretch = "".join(text.splitlines(keepends=True)[first - 1 : first + more]) if "\r" not in text else ""
    if stretch and text.count("\n") == len(text.splitlines()) - (not text.endswith("\n")):
        part = compare(Shown("a", stretch, first, first + more), data)
        assert part is None or part.holds


@given(st.text("ab\n", min_size=1, max_size=30), st.text("ab\n", min_size=1, max_size=30))
def test_only_equal_bytes_are_exact(shown_text: str, real: str) -> None:
    found = compare(Shown("a", shown_text, is_whole=True), real.encode())
    assert found is not None and found.is_exact == (shown_text == real)
    if (whole := text_of(Shown("a", shown_text, is_whole=True))) and whole[1]:
        assert whole[0] == shown_text.encode()


DIFF = (
    "diff --git a/a b/a\nindex {before}..{after} 100644\n--- a/a\n+++ b/a\n"
    "@@ -1,4 +1,4 @@\n-one\n+ONE\n \ttwo\n \n four\n"
)


def test_a_diff_is_read_only_where_it_is_of_the_work_tree() -> None:
    after = object_id("blob", DATA.replace(b"one", b"ONE"))
    text = DIFF.format(before=object_id("blob", DATA)[:7], after=after[:7])
    for line in ("git diff", "git --no-pager diff HEAD", "git diff -- a && git status", "cd src && git diff | cat"):
        found = diffs(line, Context(), text, lambda name: name == "a")
        assert [(item.path, item.blob) for item in found] == [("a", after[:7])], line
        assert patched(found[0].patch, lambda _: DATA) == DATA.replace(b"one", b"ONE")
        assert patched(found[0].patch, lambda _: DATA + b"x") is None
    for line in ("git diff --cached", "git diff HEAD~2..HEAD", "git diff main dev", "git diff && rm a", "git diff > f"):
        assert diffs(line, Context(), text, lambda name: name == "a") == [], line


def test_a_diff_that_is_cut_off_still_names_its_blobs() -> None:
    text = DIFF.format(before="1234567", after="7654321")[:-12]
    assert [item.blob for item in diffs("git diff", Context(), text, lambda _: False)] == ["7654321"]


def test_commits_are_read_where_git_commit_printed_them() -> None:
    said = "[main 1a2b3c4] Fix the pager\n 1 file changed\n"
    assert commits_made("git add -A && git commit -m 'Fix'", said) == ["1a2b3c4"]
    assert commits_made("cat commit.log", said) == []
    assert commits_made("git commit -m x", "[fix/a (root-commit) 1a2b3c4d] x\n") == ["1a2b3c4d"]


def test_git_status_is_read_where_it_is_all_there_is() -> None:
    said = " M src/a.py\nR  old.txt -> new.txt\n?? notes/\n"
    wanted = {"src/a.py": " M", "old.txt": "R ", "new.txt": "R ", "notes/": "??"}
    for line in ("git status --short", "cd /testbed && git status --porcelain", "git -C . status -s"):
        assert status(line, Context(), said) == wanted, line
    for line in ("git status", "git status -s | head", "cd src && git status -s", "git status -s && ls", "cat status"):
        assert status(line, Context(), said) is None, line
    assert status("git status -s", Context(), "fatal: not a git repository\n") is None


# -- in a run -------------------------------------------------------------------------------------


def test_a_contradiction_names_step_file_and_hunk(repository: Repository, base: str) -> None:
    wrong = FIXED.replace(b"return items[-1]", b"return items[1]")
    done = replay(recording(fix(), bash("pwd"), bash(f"cat {PAGER}", wrong.decode()), base=base), "t_1", repository)
    found = done.divergence
    assert found is not None and (found.path, found.seen_at, found.category) == (PAGER, 3, "read_mismatch")
    assert "-    return items[-1]" in found.hunk and "+    return items[1]" in found.hunk
    row = done.verdict_row()
    assert (row["status"], row["category"], row["step"], row["path"]) == (
        "divergent",
        "read_mismatch",
        found.step,
        PAGER,
    )
    assert row["hunk"] == found.hunk and row["seen_at"] == 3 and row["checkpoints"] == len(row["checked_steps"])


def test_partial_reads_count_and_prove_only_their_lines(repository: Repository, base: str) -> None:
    head = "".join(FIXED.decode().splitlines(keepends=True)[:2])
    done = replay(recording(fix(), bash(f"sed -n '1,2p' {PAGER}", head), base=base), "t_1", repository)
    assert done.status != "verified" and (done.checkpoints, done.full_reads) == (1, 0)


def test_a_file_that_is_shown_and_was_never_made_is_not_passed_over(repository: Repository, base: str) -> None:
    """Unless it is ignored: then it is no part of a state."""
    steps = (fix(), bash(f"cat {PAGER}", FIXED.decode()), bash("cat notes.txt", "mine\n"))
    done = replay(recording(*steps, base=base), "t_1", repository)
    assert done.statuses[1:3] == ("partial", "partial") and "notes.txt" in done.reasons[1]
    ignored = (*steps[:2], bash("cat build/log.txt", "built\n"))
    assert replay(recording(*ignored, base=base), "t_2", repository).status == "verified"
    gone = (bash("rm README.md"), bash("cat README.md", "A pager.\n"))
    assert replay(recording(*gone, base=base), "t_3", repository).status == "divergent"


def test_a_look_from_a_folder_is_of_the_file_there(repository: Repository, base: str) -> None:
    """A path of the line is where the line went; it is not looked up from there again."""
    steps = (
        fix(),
        bash("cd /testbed/src && cat pager.py", FIXED.decode()),
        bash("grep -n last pager.py", "5:def last(items):\n"),
    )
    done = replay(recording(*steps, base=base), "t_1", repository)
    assert done.status == "verified" and done.checked_steps == (2, 3)


def test_what_git_lists_as_changed_is_held_against_the_files(repository: Repository, base: str) -> None:
    """A changed file must be listed and an unchanged one not; one that nothing changed, and is, is not known."""
    listed = bash("git status --short", f" M {PAGER}\n")
    assert replay(recording(fix(), listed, base=base), "t_1", repository).divergence is None
    found = replay(recording(fix(), bash("git status --short", ""), base=base), "t_2", repository).divergence
    assert found is not None and (found.step, found.path) == (1, PAGER)
    undone = editor(command="str_replace", path=f"/testbed/{PAGER}", old_str="items[:size]", new_str="items[0:size]")
    clean = (fix(), bash(f"cat {PAGER}", FIXED.decode()), undone, bash("git status --porcelain", ""))
    assert replay(recording(*clean, base=base), "t_3", repository).status == "verified"
    dirty = replay(recording(fix(), bash("git status -s", f" M {PAGER}\n M README.md\n"), base=base), "t_4", repository)
    assert dirty.status == "partial" and "README.md" in dirty.reason
    moved = (fix(), bash("git commit -qam Fix"), bash("git status --short", ""))
    assert replay(recording(*moved, base=base), "t_5", repository).divergence is None


def test_what_the_harness_noted_of_a_file_is_held_against_it(repository: Repository, base: str) -> None:
    """Blob ids before and after an edit prove it; another id is a contradiction at the right step."""
    arguments = {"file_path": f"/testbed/{PAGER}", "old_string": "items[0:size]", "new_string": "items[:size]"}
    step = Step(
        actions=(Action(call_id="c1", tool="Edit", arguments=json.dumps(arguments)),),
        observations=(Observation(call_id="c1", text="The file has been updated successfully."),),
    )
    ids = {name: object_id("blob", data) for name, data in (("old", FILES[PAGER]), ("new", FIXED), ("other", b"x"))}

    def verdict(**facts: str) -> tuple[str, int | None]:
        run = recording(step, base=base)
        source = json.dumps({name: {"c1": blob} for name, blob in facts.items()})
        done = replay(type(run)(**{**_fields(run), "source": source}), "t_1", repository)
        return done.status, None if done.divergence is None else done.divergence.step

    assert verdict(before=ids["old"], after=ids["new"]) == ("verified", None)
    assert verdict(before=ids["old"])[0] != "verified"
    assert verdict(before=ids["old"], after=ids["other"]) == ("divergent", 1)
    assert verdict(before=ids["other"]) == ("divergent", 0)


def _fields(run: object) -> dict[str, object]:
    return {name: getattr(run, name) for name in run.__struct_fields__}  # type: ignore[attr-defined]
