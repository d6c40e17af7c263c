"""Writers and readers of one mirror beside each other, and writers that are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from handoff.git import packs
from handoff.git.importer import Chain, write_chains
from handoff.git.locks import hold, locked, try_claim
from handoff.git.objects import write_loose
from handoff.git.packs import Pack, own_packs, quarantine, tidy, to_merge
from handoff.git.repositories import Repositories, Repository, run_git
from tests.states.conftest import FILES, commit

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def one(name: str, base: str, *texts: bytes) -> Chain:
    return Chain(name, base, [{"a": ("100644", text)} for text in texts])


# -- killed ---------------------------------------------------------------------------------------


def test_a_writer_killed_anywhere_leaves_a_usable_store(repository: Repository, base: str) -> None:
    """And the same work again gives the same states, with nothing left over. Here at some places."""
    assert int(run("tests.git.killed", str(repository.git_dir), base, "3", "29")) > 3


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 4, 7])
def test_a_writer_killed_at_every_third_place_leaves_a_usable_store(
    repository: Repository, base: str, first: int
) -> None:
    assert int(run("tests.git.killed", str(repository.git_dir), base, str(first), "9")) > 15


# -- beside each other ----------------------------------------------------------------------------

_WRITER = """
import sys
from pathlib import Path
from handoff.git import packs
from handoff.git.importer import Chain, write_chains
from handoff.git.repositories import Repository
packs.MOST_PACKS, packs.MOST_LOOSE, packs.MOST_LOOSE_REFS = 3, 64, 20
git_dir, base, name = sys.argv[1:]
with Repository(Path(git_dir)) as repository:
    for number in range(12):
        chains = [Chain(f"t_{name}{number}_{n}", base, [{f"f{k}": ("100644", f"{name}{number}{n}{k}".encode() * 50)}
                  for k in range(4)]) for n in range(4)]
        for chain, done in zip(chains, write_chains(repository, chains), strict=True):
            for change, (_, tree) in zip(chain.changes, done.states[1:], strict=True):
                for path, (_, data) in change.items():
                    assert repository.read(tree, path) == data, (path, tree)
        repository.write_tree(repository.tree_of(base), {f"{name}{number}{k}": b"%d" % k for k in range(9)})
"""


def test_four_writers_that_merge_packs_lose_nothing(repository: Repository, base: str) -> None:
    """Each reads back what it wrote while the others write, merge packs, pack loose objects and refs."""
    command = [sys.executable, "-c", _WRITER, str(repository.git_dir), base]
    writers = [subprocess.Popen([*command, f"w{n}"], cwd=ROOT, stderr=subprocess.PIPE) for n in range(4)]
    for writer in writers:
        _, said = writer.communicate()
        assert writer.returncode == 0, said.decode()[-2000:]
    repository.git("fsck", "--full", "--no-dangling")
    assert len(repository.git("for-each-ref", "--format=%(refname)", "refs/handoff").split()) == 4 * 12 * 4


_FETCHER = """
import sys
from pathlib import Path
from handoff.git import packs
from handoff.git.importer import Chain, write_chains
from handoff.git.repositories import Repositories
packs.MOST_PACKS = 2
root, source, base, name = sys.argv[1:]
with Repositories(Path(root), {"o/pager": "file://" + source}) as repositories:
    repository = repositories.open("o/pager", base)
    tree = repository.tree_of(base)
    for number, path in enumerate(repository.files(tree)):
        repository.read(tree, path)
        write_chains(repository, [Chain(f"t_{name}{number}", base, [{"a": ("100644", f"{name}{number}".encode())}])])
"""


def test_fetches_writes_and_merges_beside_each_other_lose_nothing(
    repository: Repository, base: str, tmp_path: Path
) -> None:
    """One partial clone, made, filled file by file and tidied by several processes at once."""
    repository.git("config", "uploadpack.allowFilter", "true")
    command = [sys.executable, "-c", _FETCHER, str(tmp_path / "mirrors"), str(repository.git_dir), base]
    fetchers = [subprocess.Popen([*command, f"w{n}"], cwd=ROOT, stderr=subprocess.PIPE) for n in range(3)]
    for fetcher in fetchers:
        _, said = fetcher.communicate()
        assert fetcher.returncode == 0, said.decode()[-2000:]
    with Repositories(tmp_path / "mirrors", {}) as repositories:
        mirror = repositories.open("o/pager", base)
        assert mirror.is_partial
        assert all(mirror.read(mirror.tree_of(base), path) == data for path, data in FILES.items())
        mirror.git("fsck", "--connectivity-only")
        assert len(mirror.git("for-each-ref", "refs/handoff").splitlines()) == 3 * len(FILES)


def test_one_mirror_is_made_by_many_at_once(repository: Repository, base: str, tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\nfrom handoff.git.repositories import Repositories\n"
        "with Repositories(pathlib.Path(sys.argv[1]), {'o/pager': sys.argv[2]}) as all_:\n"
        "    assert all_.open(sys.argv[3], sys.argv[4]).has(sys.argv[4])"
    )
    names = ("o/pager", "O/Pager", "https://github.com/o/pager.git", "git@github.com:o/pager")
    command = [sys.executable, "-c", program, str(tmp_path / "mirrors"), str(repository.git_dir)]
    makers = [subprocess.Popen([*command, name, base], cwd=ROOT) for name in names]
    assert [maker.wait() for maker in makers] == [0, 0, 0, 0]
    assert len(list((tmp_path / "mirrors").glob("*.git"))) == 1


def test_an_import_does_not_wait_for_the_lock(repository: Repository, base: str) -> None:
    """Only moving refs does: the pack is there while another process holds the lock."""
    program = (
        "import sys, pathlib\nfrom handoff.git.importer import Chain, write_chains\n"
        "from handoff.git.repositories import Repository\n"
        "write_chains(Repository(pathlib.Path(sys.argv[1])), [Chain('t_w', sys.argv[2], [{'a': ('100644', b'w')}])])"
    )
    with repository.lock():
        writer = subprocess.Popen([sys.executable, "-c", program, str(repository.git_dir), base], cwd=ROOT)
        while writer.poll() is None and not own_packs(repository.git_dir):
            pass
        assert writer.poll() is None and len(own_packs(repository.git_dir)) == 1
        assert repository.git("for-each-ref", "refs/handoff") == b""
    assert writer.wait() == 0
    assert repository.git("for-each-ref", "refs/handoff") != b""


# -- packs ----------------------------------------------------------------------------------------


def test_packs_stay_few_and_those_of_the_source_stay(
    repository: Repository, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "MOST_PACKS", 4)
    theirs = {path.name for path in (repository.git_dir / "objects/pack").iterdir()}
    trees = []
    for number in range(40):
        [done] = write_chains(repository, [one(f"t_{number}", base, b"%d" % number * 500)])
        trees.append(done.states[1][1])
        assert len(own_packs(repository.git_dir)) <= 4
    assert [repository.read(tree, "a") for tree in trees] == [b"%d" % number * 500 for number in range(40)]
    assert theirs <= {path.name for path in (repository.git_dir / "objects/pack").iterdir()}
    assert len(list((repository.git_dir / "objects/pack").glob("*.idx"))) <= 5
    repository.git("fsck", "--full", "--no-dangling")


def test_an_object_is_copied_only_a_few_times() -> None:
    """Merging takes small packs first: a thousand writes copy each byte about as often as the logarithm says."""
    present: list[Pack] = []
    copied = 0
    for number in range(1000):
        present = sorted([*present, Pack(f"pack-{number}", 100)], key=lambda pack: (pack.size, pack.name))
        if len(present) > packs.MOST_PACKS:
            merged = to_merge(present)
            size = sum(pack.size for pack in merged)
            copied += size
            present = sorted([*present[len(merged) :], Pack(f"pack-m{number}", size)], key=lambda pack: pack.size)
        assert len(present) <= packs.MOST_PACKS
    assert copied / (1000 * 100) < 10


def test_writing_the_same_again_stores_nothing(repository: Repository, base: str) -> None:
    first = write_chains(repository, [one("t_a", base, b"1", b"2")])
    before = own_packs(repository.git_dir)
    assert write_chains(repository, [one("t_a", base, b"1", b"2")]) == first
    assert own_packs(repository.git_dir) == before


def test_loose_objects_are_packed_and_still_there(
    repository: Repository, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "MOST_LOOSE", 100)
    ids = [write_loose(repository.git_dir, "blob", b"%d" % number) for number in range(600)]
    tidy(repository.git_dir)
    assert not list((repository.git_dir / "objects").glob("[0-9a-f][0-9a-f]/*"))
    assert repository.lacking(ids) == [] and repository.blob(ids[7]) == b"7"


def test_a_mirror_that_is_updated_keeps_the_states(repository: Repository, base: str, tmp_path: Path) -> None:
    with Repositories(tmp_path / "mirrors", {"o/pager": repository.git_dir}) as repositories:
        mirror = repositories.open("o/pager", base)
        write_chains(mirror, [one("t_a", base, b"1")])
        run_git("--git-dir", repository.git_dir, "update-ref", "-d", "refs/heads/main")
        rewritten = commit(repository.git_dir, {**FILES, "b": b"b"}, "Rewritten")
        assert repositories.open("o/pager", rewritten).has(base)
        assert mirror.git("for-each-ref", "refs/handoff/t_a") != b""


def test_what_a_killed_clone_left_is_replaced(repository: Repository, base: str, tmp_path: Path) -> None:
    left = tmp_path / "mirrors" / ".o__pager.git.partial"
    left.mkdir(parents=True)
    (left / "HEAD").write_text("half")
    with Repositories(tmp_path / "mirrors", {"o/pager": repository.git_dir}) as repositories:
        assert repositories.open("o/pager", base).has(base)
    assert not left.exists()


def test_what_a_killed_fetch_left_goes_and_what_a_running_one_writes_stays(repository: Repository) -> None:
    left = repository.git_dir / "objects/pack/tmp_pack_AbCdEf"
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"PACK")
    with locked(repository.git_dir / "handoff-source.lock"):
        tidy(repository.git_dir)
        assert left.exists()
    tidy(repository.git_dir)
    assert not left.exists()


def test_the_quarantine_of_a_living_writer_stays(repository: Repository) -> None:
    with quarantine(repository.git_dir) as aside:
        tidy(repository.git_dir)
        assert (aside / "objects/pack").is_dir()
    assert not aside.exists()


def test_only_what_nobody_holds_can_be_claimed(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    assert try_claim(path) is None and not path.exists()
    held, beside = hold(path), hold(path)
    assert try_claim(path) is None
    os.close(held)
    assert try_claim(path) is None
    os.close(beside)
    claimed = try_claim(path)
    assert claimed is not None
    path.unlink()
    os.close(claimed)
    again = hold(path)
    assert path.exists()
    os.close(again)
