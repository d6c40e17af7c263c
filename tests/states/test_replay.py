"""Replay: one tree per step, and a verdict that is never a guess."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from handoff.errors import StateError
from handoff.git.importer import Chain, Written, write_chains
from handoff.git.repositories import Repositories, Repository
from handoff.states.reader import StoredStates
from handoff.states.replay import replay, replay_all
from handoff.trajectory import Trajectory
from tests.states.conftest import FILES, bash, commit, editor, recording

FIXED = FILES["src/pager.py"].replace(b"items[0:size]", b"items[:size]")


def fix() -> object:
    return editor(command="str_replace", path="/testbed/src/pager.py", old_str="items[0:size]", new_str="items[:size]")


def patch_of(repository: Repository, base: str, files: dict[str, bytes | None]) -> str:
    tree = repository.tree_of(base)
    return repository.diff(tree, repository.write_tree(tree, files))


def test_every_step_has_the_tree_the_predecessor_left(repository: Repository, base: str) -> None:
    """Step 0 is the base; a step that changes nothing shares tree and commit with the one before it."""
    patch = patch_of(repository, base, {"src/pager.py": FIXED, "notes.txt": b"a\n"})
    run = recording(
        bash("ls", "README.md"), fix(), bash("echo a > notes.txt"), bash("pwd", "/testbed"), base=base, patch=patch
    )
    done = replay(run, "t_1", repository)
    assert done.status == "verified", done.reason
    assert done.trees[0] == done.trees[1] == repository.tree_of(base)
    assert done.commits[0] == base
    assert done.trees[3] == done.trees[4] and done.commits[3] == done.commits[4]
    assert done.trees[2] == repository.write_tree(repository.tree_of(base), {"src/pager.py": FIXED})
    states = StoredStates(repository, list(done.rows()))
    assert states.final() == 4
    assert states.read(2, "src/pager.py") == FIXED and states.read(1, "src/pager.py") == FILES["src/pager.py"]
    assert states.changed(3) == ("notes.txt", "src/pager.py") and states.status(3) == "verified"


def test_an_edit_that_the_observation_says_failed_did_not_happen(repository: Repository, base: str) -> None:
    failed = editor(
        "No replacement was performed, old_str `zzz` did not appear verbatim in /testbed/src/pager.py.",
        command="str_replace",
        path="/testbed/src/pager.py",
        old_str="zzz",
        new_str="y",
    )
    run = recording(failed, fix(), base=base, patch=patch_of(repository, base, {"src/pager.py": FIXED}))
    done = replay(run, "t_2", repository)
    assert done.status == "verified" and done.trees[1] == done.trees[0]


def test_an_edit_that_does_not_fit_is_a_divergence_at_its_step(repository: Repository, base: str) -> None:
    wrong = editor(command="str_replace", path="/testbed/src/pager.py", old_str="not there", new_str="y")
    done = replay(recording(bash("ls"), wrong, base=base), "t_3", repository)
    assert done.status == "divergent" and done.divergence is not None
    assert (done.divergence.step, done.divergence.path) == (2, "src/pager.py")


def test_a_read_that_shows_something_else_is_a_divergence_even_if_the_end_matches(
    repository: Repository, base: str
) -> None:
    patch = patch_of(repository, base, {"src/pager.py": FIXED})
    steps = (bash("cat README.md", "Another pager.\n"), fix())
    done = replay(recording(*steps, base=base, patch=patch), "t_4", repository)
    assert done.status == "divergent" and done.divergence is not None and done.divergence.path == "README.md"
    assert done.divergence.step == 0
    assert not done.is_derivable  # it began amid changes that nobody recorded


def test_an_opaque_step_makes_the_state_partial_from_there(repository: Repository, base: str) -> None:
    """The unknown files are listed; without an end that confirms them, nothing is."""
    opaque = bash("sed -i -E 's/^(A|C) /B /' README.md")
    done = replay(recording(fix(), opaque, bash("ls"), base=base), "t_5", repository)
    assert done.status == "partial" and "README.md" in done.reason and not done.is_derivable
    assert done.statuses == ("unverifiable", "unverifiable", "partial", "partial")
    assert done.opaque[0].step == 2 and done.opaque[0].paths == ("README.md",)
    assert done.category == "opaque_step" and done.verdict_row()["opaque_steps"] == [2]


def test_without_patch_or_read_nothing_is_verified(repository: Repository, base: str) -> None:
    done = replay(recording(fix(), base=base), "t_7", repository)
    assert done.status == "unverifiable" and done.trees[1] is not None


def test_a_full_read_of_every_changed_file_verifies_without_a_patch(repository: Repository, base: str) -> None:
    run = recording(fix(), bash("cat src/pager.py", FIXED.decode()), base=base)
    assert replay(run, "t_8", repository).status == "verified"


def test_edits_outside_the_repository_change_nothing(repository: Repository, base: str) -> None:
    """``..``, absolute paths, ``.git`` and links that lead out are not part of the state."""
    run = recording(
        bash("echo x > ../../etc/passwd"),
        bash("echo x > /etc/passwd"),
        bash("echo x > .git/config"),
        bash("echo x > src/../../y"),
        base=base,
    )
    done = replay(run, "t_9", repository)
    assert set(done.trees) == {repository.tree_of(base)}


def test_a_missing_commit_says_what_to_do_and_stops_no_other(repository: Repository, base: str) -> None:
    with pytest.raises(StateError, match="map the repository"):
        replay(recording(fix(), base=None), "t_10", repository, "deadbeef" * 5)
    good = recording(fix(), bash("cat src/pager.py", FIXED.decode()), base=base)
    bad = recording(fix(), base="main")
    first, second = replay_all([("t_a", bad), ("t_b", good)], repository)
    assert first.status == "unverifiable" and first.trees == (None, None) and "main" in first.reason
    assert second.status == "verified"


def test_the_base_commit_is_found_by_the_blobs_of_the_patch(repository: Repository, base: str) -> None:
    commit(repository.git_dir, {**FILES, "src/pager.py": FIXED}, "fix off-by-one in pager", parent=base)
    run = recording(fix(), base=None, patch=patch_of(repository, base, {"src/pager.py": FIXED}))
    done = replay(run, "t_11", repository)
    assert done.base == base and done.status == "verified" and "found" in done.reason


def test_the_patch_of_another_task_proves_nothing(repository: Repository, base: str) -> None:
    run = recording(fix(), base=base, patch=patch_of(repository, base, {"README.md": b"other\n"}))
    assert replay(run, "t_12", repository).status == "unverifiable"


def test_a_run_that_cannot_be_stored_stops_no_other(
    repository: Repository, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = write_chains

    def refusing(where: Repository, chains: Iterable[Chain]) -> list[Written]:
        chains = list(chains)
        if any(chain.trajectory_id == "t_bad" and chain.changes for chain in chains):
            raise StateError("git refused")
        return real(where, chains)

    monkeypatch.setattr("handoff.states.replay.write_chains", refusing)
    good = recording(fix(), bash("cat src/pager.py", FIXED.decode()), base=base)
    first, second = replay_all([("t_bad", good), ("t_good", good)], repository)
    assert first.status == "unverifiable" and "git refused" in first.reason and first.trees == (None,) * 3
    assert second.status == "verified"


def test_runs_are_written_in_batches_and_come_out_in_order(
    repository: Repository, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more than a few are held in memory at a time."""
    monkeypatch.setattr("handoff.states.replay._BATCH_RUNS", 3)
    taken: list[str] = []

    def runs() -> Iterator[tuple[str, Trajectory]]:
        for number in range(8):
            taken.append(f"t_{number}")
            yield f"t_{number}", recording(fix(), base=base if number != 4 else "main")

    found = []
    for done in replay_all(runs(), repository):
        found.append(done.trajectory_id)
        assert len(taken) - len(found) < 3
    assert found == taken


def test_writing_again_gives_the_same_commits(repository: Repository, base: str) -> None:
    run = recording(fix(), bash("rm README.md"), base=base)
    assert replay(run, "t_13", repository) == replay(run, "t_13", repository)


def _edits(rng: random.Random) -> list[tuple[str, bytes]]:
    """A few whole-file edits of distinct files, in order."""
    names = [f"f{n}.txt" for n in range(rng.randint(1, 4))]
    return [(name, "".join(rng.choice("abcd\n") for _ in range(rng.randint(2, 12))).encode() + b"\n") for name in names]


def test_no_corrupted_edit_is_ever_called_verified(repository: Repository, base: str) -> None:
    """200 runs, one edit of each changed by a character: the divergence is at that edit's step."""
    rng = random.Random(7)
    pairs: list[tuple[str, Trajectory]] = []
    wanted: dict[str, int] = {}
    for number in range(200):
        edits = _edits(rng)
        patch = patch_of(repository, base, dict(edits))
        at = rng.randrange(len(edits))
        steps = []
        for step, (name, data) in enumerate(edits):
            text = data.decode()
            if step == at:
                place = rng.randrange(len(text) - 1)
                text = text[:place] + ("x" if text[place] != "x" else "y") + text[place + 1 :]
            steps.append(editor(command="create", path=f"/testbed/{name}", file_text=text))
        pairs.append((f"t_c{number}", recording(*steps, base=base, patch=patch)))
        wanted[f"t_c{number}"] = at + 1
    for done in replay_all(pairs, repository):
        assert done.divergence is not None and done.divergence.step == wanted[done.trajectory_id], done.reason
        assert "verified" not in done.statuses[done.divergence.step :]


def test_a_store_is_mirrored_and_never_written_to(repository: Repository, base: str, tmp_path: Path) -> None:
    before = sorted(repository.git_dir.rglob("*"))
    with Repositories(tmp_path / "mirrors", {"o/pager": repository.git_dir}) as repositories:
        mirror = repositories.open("o/pager", base)
        assert mirror.git_dir.parent == tmp_path / "mirrors"
        replay(recording(fix(), base=base), "t_14", mirror)
        with pytest.raises(StateError, match="--repository"):
            repositories.open("o/unknown")
        with pytest.raises(StateError, match="no commit"):
            repositories.open("o/pager", "0123456789" * 4)
        later = commit(repository.git_dir, FILES, "Later", parent=base)
        assert repositories.open("o/pager", later).has(later)
    assert [p for p in sorted(repository.git_dir.rglob("*")) if "handoff" in p.name] == [
        p for p in before if "handoff" in p.name
    ]


def test_real_runs_of_a_public_repository(corpus: Path) -> None:
    """The recordings themselves are read; their repository is not here, and that is said plainly."""
    from handoff.adapters import convert
    from handoff.framing import Record, SourceFile

    for file in sorted((corpus / "sweagent_v1").glob("marshmallow-*")):
        for record in SourceFile(file):
            assert isinstance(record, Record) and all(run.steps for run in convert(record))
