"""A git branch as a predecessor's work: its commits, its states, and who is left out of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handoff.actions import trajectory_keys
from handoff.actions.commits import FileChange, file_changes
from handoff.adapters.git_branch import Branch, trajectory_of
from handoff.errors import InputError, StateError
from handoff.git.repositories import Repositories, run_git
from handoff.states import branches
from handoff.states.branches import look_at, read_branch, repository_name
from handoff.states.commits import commit_states
from handoff.trajectory import Trajectory
from tests.states.histories import HARD, PERSON, Made, make

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "git_branch"

A, B, C = ({b"a.py": ("100644", text)} for text in (b"a = 1\n", b"a = 2\n", b"a = 3\n"))


class Source:
    """A repository with its mirrors, as ``handoff ingest`` has them."""

    def __init__(self, folder: Path, commits: tuple[Made, ...], **heads: int) -> None:
        self.path = folder / "source.git"
        self.ids = make(self.path, commits, heads)
        self.repositories = Repositories(folder / "git", {"o/r": self.path})

    def read(self, branch: str, **options: Any) -> Branch:
        return read_branch(self.repositories, "o/r", self.path, branch, **options)

    def states(self, trajectory: Trajectory) -> list[dict[str, Any]]:
        return list(commit_states(trajectory, "t_1", self.repositories.open("o/r")))

    def tree(self, id_: str) -> str:
        return run_git("--git-dir", self.path, "rev-parse", f"{id_}^{{tree}}").decode().strip()


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Any]:
    opened: list[Source] = []

    def source(*commits: Made, **heads: int) -> Source:
        opened.append(Source(tmp_path / str(len(opened)), commits, **heads))
        return opened[-1]

    yield source
    for each in opened:
        each.repositories.close()


# -- states and keys --------------------------------------------------------------------------------------------


def test_the_state_of_every_step_is_the_tree_of_its_commit(made: Any) -> None:
    """Whatever a diff cannot carry as text, the tree has it."""
    source = made(*HARD, main=7, hard=9)
    branch = source.read("hard", base=source.ids[0])
    own = [source.ids[0], *(source.ids[place] for place in (1, 2, 3, 4, 5, 6, 8, 9))]
    rows = source.states(trajectory_of(branch))
    assert [row["commit"] for row in rows] == own
    assert [row["tree"] for row in rows] == [source.tree(id_) for id_ in own]
    assert {row["status"] for row in rows} == {"verified"}


def test_the_fixture_of_the_format_is_what_is_written(made: Any) -> None:
    """Byte for byte, whatever machine made it."""
    source = made(*HARD, main=7, hard=9)
    data = msgspec.json.format(msgspec.json.encode(source.read("hard", base=source.ids[0])))
    assert data + b"\n" == (FIXTURES / "every_kind.json").read_bytes()


def test_a_step_has_one_key_for_each_file_that_its_commit_touched(made: Any) -> None:
    """Created, edited, deleted; a rename is both; a change of mode or kind is an edit."""
    source = made(*HARD, main=7, hard=9)
    found = trajectory_keys(trajectory_of(source.read("hard", base=source.ids[0])).steps)
    assert [sorted(f"{kind} {path}" for kind, path in keys) for keys in found] == [
        ["create crlf.txt", "create logo.png"],
        ["create link", "create run.sh", "create vendor/lib"],
        [],
        ["create docs/new name.txt", "delete old.txt"],
        ['create sp"ec\tial.txt', "edit link", "edit run.sh"],
        ["create b?b?.txt", "delete logo.png", "edit vendor/lib"],
        ["create main.txt"],
        ["create diff --git a/x b/x"],
    ]


paths = st.sampled_from([b"a.py", b"b.txt", b"d/c.py", b"d/e/f", b"d", b"\xff\n"])
entries = st.none() | st.tuples(st.sampled_from(["100644", "100755", "120000"]), st.binary(max_size=12))
changes = st.dictionaries(paths, entries, max_size=3)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Made, ...]:
    """A root, a second line from it, and a branch that may merge that line."""
    commits = [Made(draw(changes)), Made(draw(changes))]
    last = 0
    for _ in range(draw(st.integers(1, 4))):
        merged = (1,) if draw(st.booleans()) else ()
        commits.append(Made(draw(changes), parents=(last, *merged), message=draw(st.binary(max_size=20)) + b"."))
        last = len(commits) - 1
    return tuple(commits)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_any_small_history_is_read_whole_and_twice_the_same(
    tmp_path_factory: pytest.TempPathFactory, history: tuple[Made, ...]
) -> None:
    """Every step's tree is git's own; the record's bytes repeat; what it says of files is what git says."""
    source = Source(tmp_path_factory.mktemp("history"), history, main=0, work=len(history) - 1)
    branch = source.read("work", base=source.ids[0])
    run = trajectory_of(branch)
    rows = source.states(run)
    assert [row["tree"] for row in rows] == [source.tree(id_) for id_ in (source.ids[0], *source.ids[2:])]
    assert {row["status"] for row in rows} == {"verified"}
    data = msgspec.json.encode(branch)
    assert msgspec.json.decode(data, type=Branch) == branch
    source.repositories.close()
    assert msgspec.json.encode(source.read("work", base=source.ids[0])) == data
    source.repositories.close()


# -- which commits ----------------------------------------------------------------------------------------------


def test_a_branch_begins_where_it_left_the_main_branch(made: Any) -> None:
    """By name, by id and by tag alike; ``--base`` may be any of these."""
    source = made(Made(A), Made(B), Made(B, parents=(0,)), Made(C), main=1, work=3)
    run_git("--git-dir", source.path, "-c", "user.name=x", "-c", "user.email=x", "tag", "-a", "-m", "x", "v1", "work")
    branch = source.read("work")
    assert (branch.base, [commit.id for commit in branch.commits]) == (source.ids[0], source.ids[2:])
    for name in ("refs/heads/work", "v1", source.ids[3], source.ids[3][:9]):
        assert source.read(name, base="main").commits == branch.commits
    assert source.read(source.ids[3][:9]).branch == source.ids[3]
    run_git("--git-dir", source.path, "update-ref", f"refs/heads/{source.ids[3][0]}", source.ids[3])
    assert source.read(source.ids[3][0]).branch == source.ids[3][0]


def test_a_branch_that_took_in_the_main_branch_is_one_line(made: Any) -> None:
    """Its base is where the line began, and the merge says what it brought in."""
    source = made(
        Made(A), Made({b"m": ("100644", b"m")}), Made(B, parents=(0,)), Made(parents=(2, 1)), Made(C), main=1, work=4
    )
    branch = source.read("work")
    assert (branch.base, [commit.id for commit in branch.commits]) == (source.ids[0], source.ids[2:])
    assert trajectory_of(branch).source.count(source.ids[1]) == 1


def test_a_merged_branch_is_found_by_its_merge_with_its_description(made: Any) -> None:
    """The base is what the merge was made on, also when later merges are on the main branch."""
    merge = b"Merge pull request #7 from ada/work\n\nPage the last items\n\nReviewed-by: Grace <grace@navy.example>\n"
    source = made(
        Made(A), Made(B), Made(C), Made(parents=(0, 2), message=merge), Made({b"o": ("100644", b"")}, parents=(0,)),
        Made(parents=(3, 4)), main=5, work=2,
    )  # fmt: skip
    branch = source.read("work")
    assert (branch.base, branch.merge) == (source.ids[0], source.ids[3])
    assert [commit.id for commit in branch.commits] == source.ids[1:3]
    assert (branch.task, branch.task_from) == ("Page the last items", "merge commit")


def test_a_line_without_a_common_root_begins_with_its_root(made: Any) -> None:
    """No commit is before it: the state before the first step is empty."""
    source = made(Made(A), Made(B, parents=()), Made(C), main=0, work=2)
    run = trajectory_of(source.read("work"))
    rows = source.states(run)
    assert run.base_commit is None
    assert (rows[0]["commit"], source.repositories.open("o/r").files(rows[0]["tree"])) == (None, {})
    assert [row["tree"] for row in rows[1:]] == [source.tree(id_) for id_ in source.ids[1:]]


@pytest.mark.parametrize(
    ("branch", "options", "said"),
    [
        ("nothing", {}, "there are main, old, work"),
        ("--upload-pack=touch x", {}, "no branch"),
        ("work", {"base": "nothing"}, "no branch 'nothing'"),
        ("work", {"base": "0" * 40}, "no commit"),
        ("main", {}, "say with --base"),
        ("old", {}, "own line of history"),
        ("main", {"base": "main"}, "own line of history"),
    ],
)
def test_what_cannot_be_read_as_a_branch_says_what_to_do(
    made: Any, branch: str, options: dict[str, str], said: str
) -> None:
    source = made(Made(A), Made(B), Made(C), Made(C, parents=(1,)), main=2, work=3, old=1)
    with pytest.raises(InputError, match=said):
        source.read(branch, **options)


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(InputError, match=path.name):
            look_at(path, "main")


def test_a_project_s_whole_history_is_no_piece_of_work(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "MOST_COMMITS", 1)
    source = made(Made(A), Made(B), Made(C), main=0, work=2)
    with pytest.raises(InputError, match="2 commits"):
        source.read("work")


def test_the_name_is_that_of_the_origin_without_what_is_secret_in_its_url(tmp_path: Path) -> None:
    make(tmp_path / "app", [Made(A)], {"main": 0}, bare=False)
    assert repository_name(tmp_path / "app") == repository_name(tmp_path / "app" / ".git") == "app"
    for url in (
        "https://user:token@host.example/acme/pager.git",
        "git@host.example:acme/pager",
        "ssh://h/x/acme/pager/",
    ):
        run_git("-C", tmp_path / "app", "config", "remote.origin.url", url)
        assert repository_name(tmp_path / "app") == "acme/pager"
    run_git("-C", tmp_path / "app", "config", "remote.origin.url", "/home/ada/pager")
    assert repository_name(tmp_path / "app") == "app"


# -- people -----------------------------------------------------------------------------------------------------


def test_no_name_and_no_address_of_a_person_is_kept(made: Any) -> None:
    """Neither git's author nor the trailers; an address in the text is masked, and all of it is counted."""
    message = (
        b"Page the last items\n\nReported by ada@byron.example, see git@host.example:a/b and pkg@1.2.3.\n\n"
        b"Signed-off-by: Ada Byron <ada@byron.example>\nReviewed-by: Grace Hopper\ncc: X <x@y.example>\nFixes: #3\n"
    )
    source = made(Made(A), Made(B, message=message), main=0, work=1)
    branch = source.read("work")
    (commit,) = branch.commits
    assert commit.message == (
        "Page the last items\n\nReported by [address], see git@host.example:a/b and pkg@1.2.3.\n\nFixes: #3"
    )
    assert commit.masked == 4
    data = msgspec.json.encode(branch).lower()
    assert not [word for word in (b"ada", b"byron", b"grace", b"hopper", b"navy") if word in data]


@pytest.mark.parametrize(
    ("authors", "author", "agent"),
    [
        ((PERSON, PERSON), "human", None),
        (("dependabot[bot] <1+dependabot[bot]@users.noreply.github.com>", PERSON), "human", None),
        (("Claude <noreply@anthropic.com>", "Claude <noreply@anthropic.com>"), "agent", "Claude"),
        (("Devin Ekins <devin@ekins.example>", "Claude Monet <claude@monet.example>"), "human", None),
    ],
)
def test_a_branch_that_programs_alone_wrote_is_an_agent_s(
    made: Any, authors: tuple[str, str], author: str, agent: str | None
) -> None:
    """Known by what git says, never by a name that a person may bear."""
    source = made(Made(A), Made(B, author=authors[0]), Made(C, author=authors[1]), main=0, work=2)
    run = trajectory_of(source.read("work"))
    assert (run.author, run.agent) == (author, agent)
    programs = ["[bot]" in name or "noreply@a" in name for name in authors]
    assert [step.model is not None for step in run.steps] == programs


def test_a_program_that_helped_is_named(made: Any) -> None:
    trailer = b"Change\n\nCo-Authored-By: Claude Opus <noreply@anthropic.com>"
    source = made(Made(A), Made(B, message=trailer), main=0, work=1)
    run = trajectory_of(source.read("work"))
    assert run.author == "human"
    assert msgspec.json.decode(run.source)["helpers"] == {source.ids[1]: ["Claude Opus"]}
    assert run.steps[0].text == "Change"  # the trailer is gone


# -- texts ------------------------------------------------------------------------------------------------------


def test_dates_and_messages_are_read_whatever_they_are(made: Any) -> None:
    """The author's date with its offset, where there is one; bytes of any encoding become text."""
    source = made(Made(A), Made(B, message=b"\xff\xfe caf\xe9\n\nbody"), Made(C, when="1 -0000"), main=0, work=2)
    first, second = trajectory_of(source.read("work")).steps
    assert first.text == "\ufffd\ufffd caf\ufffd\n\nbody"
    assert (first.timestamp, second.timestamp) == ("2023-11-14T23:43:20+01:30", "1970-01-01T00:00:01+00:00")


@pytest.mark.parametrize(
    ("author", "date"),
    [
        (b"", None),
        (b"<>", None),
        (b"A <a@b.example> 99999999999999999999 +0000", None),
        (b"A <a@b.example> 999999999999999999 +0000", None),
        (b"A <a@b.example> 0 +9999", None),
        (b"A > <B> <a@b.example> -1 -0130", "1969-12-31T22:29:59-01:30"),
        (b"<>" * 200_000 + b" 0 +0000", "1970-01-01T00:00:00+00:00"),
    ],
)
def test_an_author_line_of_any_kind_is_read(made: Any, author: bytes, date: str | None) -> None:
    """Git holds what old tools and bad hands wrote."""
    source = made(Made(A), Made(B), main=0, work=1)
    data = b"tree %s\nparent %s\nauthor %s\ncommitter C <c@d.example> 0 +0000\nencoding a\0b\n\nx" % (
        source.tree(source.ids[1]).encode(), source.ids[0].encode(), author,
    )  # fmt: skip
    command = ("hash-object", "-t", "commit", "-w", "--literally", "--stdin")
    id_ = run_git("--git-dir", source.path, *command, stdin=data).decode().strip()
    run_git("--git-dir", source.path, "update-ref", "refs/heads/work", id_)
    assert source.read("work").commits[0].date == date


@pytest.mark.parametrize("encoding", ["latin-1", "koi8-r", "punycode", "rot13", "no-such"])
def test_a_commit_s_encoding_is_heeded_where_it_is_one(made: Any, encoding: str) -> None:
    source = made(Made(A), Made(B), main=0, work=1)
    raw = run_git("--git-dir", source.path, "cat-file", "commit", "work")
    head, _, _ = raw.partition(b"\n\n")
    body = "caf\u0438" if encoding == "koi8-r" else "caf\u00e9"
    text = body.encode(encoding if encoding in ("latin-1", "koi8-r") else "utf-8")
    data = head + b"\nencoding " + encoding.encode() + b"\n\n" + text
    id_ = run_git("--git-dir", source.path, "hash-object", "-t", "commit", "-w", "--stdin", stdin=data).decode().strip()
    run_git("--git-dir", source.path, "update-ref", "refs/heads/work", id_)
    assert source.read("work").commits[0].message == body


def test_a_diff_that_is_too_long_names_its_files_and_says_so(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and states stay; the text goes, and the run says of which commit."""
    monkeypatch.setattr(branches, "_LONGEST_DIFF", 400)
    long = {b"long.txt": ("100644", b"line\n" * 200)}
    source = made(Made(A), Made(long), Made(B), main=0, work=2)
    run = trajectory_of(source.read("work"))
    assert trajectory_keys(run.steps) == [(("create", "long.txt"),), (("edit", "a.py"),)]
    assert "line" not in run.steps[0].actions[0].arguments
    assert msgspec.json.decode(run.source)["without_text"] == [source.ids[1]]
    assert {row["status"] for row in source.states(run)} == {"verified"}


@settings(max_examples=150)
@given(st.text(max_size=60) | st.text(alphabet='diff -git a/b"\\n0x\ud800\n', max_size=80))
def test_any_text_can_be_asked_for_its_files(text: str) -> None:
    """Nothing is raised, and what is found is a path."""
    for diff in (text, f"diff --git {text}", f"diff --git a/{text} b/{text}\nnew file mode 100644\n{text}"):
        assert all(change.path for change in file_changes(diff))


def test_only_headers_count() -> None:
    """A file's content that looks like a header is content."""
    header = "diff --git a/x b/x\nindex 1111111..2222222 100644\n--- a/x\n+++ b/x\n"
    diff = header + "@@ -1 +1,2 @@\n-a\n+b\n+diff --git a/y b/y\n"
    assert file_changes(diff) == (FileChange("x", "edit", "1111111", "2222222"),)


# -- records that are not to be trusted ---------------------------------------------------------------------------


def test_a_record_that_says_something_else_than_git_is_divergent_from_there(made: Any) -> None:
    """Another diff, another order, a commit of another branch."""
    source = made(Made(A), Made(B), Made(C), Made(A), main=0, work=3)
    branch = source.read("work")
    first, second, third = branch.commits

    def verdicts(*commits: Any) -> list[str]:
        changed = msgspec.structs.replace(branch, commits=commits)
        return [row["status"] for row in source.states(trajectory_of(changed))]

    other = msgspec.structs.replace(second, patch=third.patch)
    assert verdicts(first, other, third) == ["verified", "verified", "divergent", "divergent"]
    assert verdicts(second, third) == ["verified", "divergent", "divergent"]
    assert verdicts(first, msgspec.structs.replace(second, patch=""), third)[2] == "divergent"
    with pytest.raises(StateError, match="no commit"):
        verdicts(first, msgspec.structs.replace(second, id="1" * 40))


def test_a_tree_that_cannot_be_laid_out_safely_gives_no_state(made: Any) -> None:
    source = made(Made(A), Made(B), main=0, work=1)
    blob = run_git("--git-dir", source.path, "rev-parse", "work:a.py").decode().strip()
    tree = run_git("--git-dir", source.path, "mktree", stdin=f"100644 blob {blob}\t.git\n".encode()).decode().strip()
    head = run_git("--git-dir", source.path, "cat-file", "commit", "work")
    data = head.replace(source.tree(source.ids[1]).encode(), tree.encode())
    id_ = run_git("--git-dir", source.path, "hash-object", "-t", "commit", "-w", "--stdin", stdin=data).decode().strip()
    run_git("--git-dir", source.path, "update-ref", "refs/heads/work", id_)
    run = trajectory_of(source.read("work"))
    with pytest.raises(StateError, match="cannot be laid out safely"):
        source.states(run)


def test_nothing_that_a_repository_brings_along_is_run(tmp_path: Path) -> None:
    """Hooks, filters, external diffs and monitors of its configuration and attributes: its text is read as it is."""
    path = tmp_path / "hostile"
    marks = {b".gitattributes": ("100644", b"* diff=evil filter=evil\n")}
    ids = make(path, [Made({**A, **marks}), Made(B), Made(C)], {"main": 0, "work": 2}, bare=False)
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    for key in (
        *("core.fsmonitor", "core.pager", "core.editor", "diff.external", "diff.evil.command", "diff.evil.textconv"),
        *(
            "filter.evil.smudge",
            "filter.evil.clean",
            "uploadpack.packObjectsHook",
            "core.sshCommand",
            "alias.ls-remote",
        ),
    ):
        run_git("-C", path, "config", key, str(trap))
    run_git("-C", path, "config", "core.hooksPath", str(tmp_path))
    for name in ("post-checkout", "reference-transaction", "pre-receive", "post-update"):
        os.link(trap, tmp_path / name)
    run = look_at(path, "work", base=ids[0])
    assert [step.actions[0].arguments.count("+a = ") for step in run.steps] == [1, 1]
    assert not (tmp_path / "sprung").exists()
    run_git("-C", path, "diff", "main", "work")
    assert (tmp_path / "sprung").exists(), "the trap works"
