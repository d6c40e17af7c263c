"""One mirror per repository, whatever it is called; nothing is asked of a network that the user did not name."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.errors import StateError
from handoff.git import packs, sources
from handoff.git.importer import Chain, write_chains
from handoff.git.names import canonical, folder_name
from handoff.git.repositories import Repositories, Repository, run_git
from handoff.git.sources import Source
from handoff.git.worktree import lay_out
from tests.states.conftest import FILES, commit

SPELLINGS = (
    *("Owner/Pager", "owner/pager", "owner/pager.git", "owner/pager/", "github.com/owner/pager"),
    *("https://github.com/Owner/Pager.git", "http://www.github.com/owner/pager", "git@github.com:owner/pager.git"),
    *(
        "ssh://git@github.com:22/owner/pager.git",
        "git://github.com/owner/pager",
        "https://u:secret@github.com/owner/pager",
    ),
    *("git+https://github.com/owner/pager", "https://github.com/owner/pager?tab=readme#top"),
)


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_of_one_repository_have_one_name(name: str) -> None:
    assert canonical(name) == "owner/pager" and folder_name(name) == "owner__pager"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("owner/pager", "https://gitlab.com/owner/pager"),
        ("a__b/c", "a/b__c"),
        ("a/b", "a-b"),
        ("a/b c", "a/b__c"),
        ("o/" + "x" * 300, "o/" + "x" * 299 + "y"),
        ("o/é", "o/è"),
        ("a_/b", "a/_b"),
        ("a/b", "a__b"),
        ("/a", "__a"),
    ],
)
def test_different_repositories_never_share_a_folder(one: str, other: str) -> None:
    assert folder_name(one) != folder_name(other)


@given(st.lists(st.text(alphabet="/_-.ab", min_size=1, max_size=6), min_size=2, max_size=9))
def test_no_two_names_share_a_folder(names: list[str]) -> None:
    found: dict[str, str] = {}
    for name in names:
        with suppress(StateError):
            assert found.setdefault(folder_name(name), canonical(name)) == canonical(name)


@given(st.text(min_size=1, max_size=400))
def test_a_hostile_name_stays_in_its_folder(name: str) -> None:
    """Names come from recordings: a folder name is plain, short, and no path; or the name is refused with a remedy."""
    try:
        folder = folder_name(name)
    except StateError as error:
        assert "owner/name" in str(error)
        return
    assert len(folder) < 140 and "/" not in folder and not folder.startswith((".", "-")) and folder.isascii()


@pytest.fixture
def source(repository: Repository, base: str) -> Path:
    repository.git("config", "uploadpack.allowFilter", "true")
    return repository.git_dir


@pytest.fixture
def mirrors(tmp_path: Path) -> Path:
    return tmp_path / "mirrors"


def opened(mirrors: Path, place: str | Path, **how: bool) -> Repositories:
    return Repositories(mirrors, {"o/pager": place}, **how)


def test_all_spellings_open_one_mirror(mirrors: Path, source: Path) -> None:
    with opened(mirrors, source) as repositories:
        names = ("o/pager", "O/Pager", "https://github.com/o/pager.git", "git@github.com:O/pager.git")
        assert len({id(repositories.open(name)) for name in names}) == 1
    assert [p.name for p in mirrors.iterdir() if not p.name.startswith(".")] == ["o__pager.git"]


def test_a_place_that_is_no_folder_is_said_once(mirrors: Path, tmp_path: Path) -> None:
    places = {"o/pager": tmp_path / "gone"}
    with Repositories(mirrors, places) as repositories, pytest.raises(StateError, match="not a folder") as caught:
        repositories.open("o/pager")
    assert str(caught.value).count("correct the mapping") == 1


def test_a_mirror_put_there_in_its_hosts_spelling_is_found(mirrors: Path, source: Path) -> None:
    run_git("clone", "--quiet", "--mirror", "--template=", source, mirrors / "O__Pager.git")
    with Repositories(mirrors, {}) as repositories:
        assert repositories.open("o/pager").git_dir.name == "O__Pager.git"


def test_an_unmapped_repository_says_what_to_map(mirrors: Path) -> None:
    with Repositories(mirrors, {}) as repositories, pytest.raises(StateError, match="--repository o/x=PATH"):
        repositories.open("o/x")


def test_a_mirror_remembers_no_source(mirrors: Path, source: Path) -> None:
    """Its configuration names no remote, so git can fetch nothing on its own, and no credential is stored."""
    with opened(mirrors, f"file://{source}") as repositories:
        mirror = repositories.open("o/pager").git_dir
    assert str(source) not in (mirror / "config").read_text()
    assert not (mirror / "FETCH_HEAD").exists()


def test_credentials_of_a_url_are_in_no_message(mirrors: Path) -> None:
    with opened(mirrors, "https://me:token@127.0.0.1:9/o/pager") as repositories, pytest.raises(StateError) as caught:
        repositories.open("o/pager")
    assert "token" not in str(caught.value) and "127.0.0.1" in str(caught.value)


# -- commits --------------------------------------------------------------------------------------


def test_a_commit_made_later_is_fetched(mirrors: Path, source: Path, base: str) -> None:
    with opened(mirrors, source) as repositories:
        repositories.open("o/pager")
        later = commit(source, {"a": b"a"}, "Later", parent=base)
        assert repositories.open("o/pager", later).has(later)


def test_what_the_source_forgot_stays(mirrors: Path, source: Path, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the user's own configuration prunes: recordings were made on branches that are gone."""
    for name, value in (("COUNT", "1"), ("KEY_0", "fetch.prune"), ("VALUE_0", "true")):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    old = commit(source, {"a": b"a"}, "Old", parent=base, branch="old")
    with opened(mirrors, f"file://{source}") as repositories:
        repositories.open("o/pager")
        run_git("--git-dir", source, "update-ref", "-d", "refs/heads/old")
        repository = repositories.open("o/pager", commit(source, {"b": b"b"}, "New", parent=base))
        assert old in repository.git("for-each-ref", "refs/heads/old").decode()


@pytest.mark.parametrize("how", ["path", "url"])
def test_a_commit_on_no_branch_is_fetched_by_id(mirrors: Path, source: Path, base: str, how: str) -> None:
    """Pull requests that were never merged, and branches that were rewritten."""
    dangling = commit(source, {**FILES, "a": b"a"}, "Rewritten", parent=base, branch="gone")
    run_git("--git-dir", source, "update-ref", "-d", "refs/heads/gone")
    with opened(mirrors, source if how == "path" else f"file://{source}") as repositories:
        repository = repositories.open("o/pager", dangling)
        before = repository.version()
        assert repository.read(repository.tree_of(dangling), "a") == b"a"
        assert repository.read(repository.tree_of(dangling), "src/pager.py") == FILES["src/pager.py"]
        assert dangling not in repository.git("for-each-ref", "refs/heads", "refs/tags").decode()
        assert repository.version() == before
    with opened(mirrors, source) as again:  # it stays, whatever becomes of the source
        assert again.open("o/pager").has(dangling)


def test_a_commit_that_no_source_has_is_asked_for_once(
    mirrors: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = sources.fetch_commit
    monkeypatch.setattr(sources, "fetch_commit", lambda s, g, c: bool(asked.append(c)) or real(s, g, c))
    with opened(mirrors, source) as repositories:
        for _ in range(3):
            with pytest.raises(StateError, match="map 'o/pager' to a repository that has the commit"):
                repositories.open("o/pager", "0" * 39 + "1")
    assert asked == ["0" * 39 + "1"]


@pytest.mark.parametrize("name", ["none", "main~0", "main^{tree}", "a b", "..", "@{-1}", "\n", "é", "", "main:src"])
def test_only_a_branch_by_its_name_is_a_branch(repository: Repository, base: str, name: str) -> None:
    assert repository.branch("main") == base
    assert repository.branch(name) is None
    assert repository.branch("main") == base  # the helper still answers in step


def test_a_branch_name_is_no_commit(mirrors: Path, source: Path) -> None:
    with opened(mirrors, source) as repositories, pytest.raises(StateError):
        repositories.open("o/pager", "main")


# -- partial clones -------------------------------------------------------------------------------


@pytest.fixture
def partial(mirrors: Path, source: Path, base: str) -> Iterator[Repository]:
    with opened(mirrors, f"file://{source}") as repositories:
        yield repositories.open("o/pager", base)


def blobs_here(repository: Repository) -> int:
    listed = repository.git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
    return listed.count(b"blob")


def fetches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many objects each request asked for."""
    counted: list[int] = []
    real = sources.fetch_objects
    monkeypatch.setattr(sources, "fetch_objects", lambda s, g, ids: (counted.append(len(ids)), real(s, g, ids))[1])
    return counted


def test_a_url_is_cloned_without_the_content_of_files(partial: Repository, base: str) -> None:
    assert partial.is_partial and blobs_here(partial) == 0
    assert sorted(partial.files(partial.tree_of(base))) == sorted(FILES)


def test_missing_files_come_in_one_request(partial: Repository, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = fetches(monkeypatch)
    tree = partial.tree_of(base)
    partial.ensure(tree)
    partial.ensure(tree)
    assert all(partial.read(tree, path) == data for path, data in FILES.items())
    assert counted == [len(FILES)]


def test_a_file_that_is_missing_is_fetched_when_it_is_read(partial: Repository, base: str) -> None:
    assert partial.read(partial.tree_of(base), "src/pager.py") == FILES["src/pager.py"]
    assert blobs_here(partial) == 1


def test_files_fetched_one_by_one_do_not_pile_up_packs(
    partial: Repository, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "MOST_PACKS", 2)
    tree = partial.tree_of(base)
    for path in FILES:
        partial.read(tree, path)
    write_chains(partial, [Chain("t_a", base, [{"a": ("100644", b"a")}])])
    assert len(packs.own_packs(partial.git_dir)) <= 2
    with Repositories(partial.git_dir.parent, {}) as repositories:
        again = repositories.open("o/pager", base)
        assert again.is_partial and all(again.read(tree, path) == data for path, data in FILES.items())
    partial.git("fsck", "--connectivity-only")


def test_a_layout_of_a_partial_clone_has_its_whole_history(
    partial: Repository, source: Path, base: str, tmp_path: Path
) -> None:
    later = commit(source, {**FILES, "src/pager.py": b"2\n"}, "Second", parent=base)
    with opened(partial.git_dir.parent, f"file://{source}") as repositories:
        repository = repositories.open("o/pager", later)
        with lay_out(repository, later, repository.tree_of(later), tmp_path / "wt") as laid:
            assert laid.lacking == 0
            said = subprocess.run(
                ["git", "log", "-p"], cwd=laid.path, capture_output=True, text=True, check=True
            ).stdout
            assert "-def page" in said and "+2" in said
            assert subprocess.run(["git", "fsck"], cwd=laid.path, capture_output=True, check=False).returncode == 0


def test_a_history_with_gaps_is_laid_out_and_said_to_have_them(
    partial: Repository, source: Path, base: str, tmp_path: Path
) -> None:
    """A source that lost, or never had, the content of an old file: the state itself is exact."""
    old = commit(source, {**FILES, "big.bin": b"gone"}, "Big", parent=base)
    new = commit(source, FILES, "Small", parent=old)
    entry = Repository(source).entry(
        run_git("--git-dir", source, "rev-parse", f"{old}^{{tree}}").decode().strip(), "big.bin"
    )
    assert entry is not None
    with opened(partial.git_dir.parent, f"file://{source}") as repositories:
        repository = repositories.open("o/pager", new)
        _lose(source, entry[1])
        with lay_out(repository, new, repository.tree_of(new), tmp_path / "wt") as laid:
            assert laid.lacking == 1
            assert laid.tree() == repository.tree_of(new)
            said = subprocess.run(["git", "log", "--oneline"], cwd=laid.path, capture_output=True, check=True).stdout
            assert len(said.splitlines()) == 3


def test_what_a_source_lost_is_missing_alone_and_asked_for_once(
    partial: Repository, source: Path, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot without its largest files, say: a replay that reads another file does not notice."""
    lost = partial.entry(partial.tree_of(base), "src/deep/data.bin")
    assert lost is not None
    _lose(source, lost[1])
    counted = fetches(monkeypatch)
    partial.prefetch(partial.tree_of(base))
    assert partial.read(partial.tree_of(base), "README.md") == FILES["README.md"]
    for _ in range(2):
        with pytest.raises(StateError, match=r"1 file\(s\) of 'o/pager' are missing.*does not have them") as caught:
            partial.read(partial.tree_of(base), "src/deep/data.bin")
        assert "\n" not in str(caught.value)
    with pytest.raises(StateError):
        partial.ensure(partial.tree_of(base))
    assert counted == [len(FILES)]


def _lose(git_dir: Path, blob: str) -> None:
    """Take one object out of a repository, whether it is packed or not."""
    ids = [
        id_
        for id_ in run_git(
            "--git-dir", git_dir, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"
        ).split()
        if id_ != blob.encode()
    ]
    made = run_git("--git-dir", git_dir, "pack-objects", git_dir / "objects/pack/kept", stdin=b"\n".join(ids) + b"\n")
    kept = f"kept-{made.decode().strip()}"
    for pack in (git_dir / "objects/pack").glob("pack-*"):
        pack.unlink()
    for suffix in ("pack", "idx"):
        path = git_dir / f"objects/pack/{kept}.{suffix}"
        path.rename(path.with_name(path.name.replace("kept-", "pack-")))
    (git_dir / "objects" / blob[:2] / blob[2:]).unlink(missing_ok=True)


@pytest.mark.parametrize("how", ["unmapped", "offline"])
def test_a_missing_file_that_may_not_be_fetched_names_the_mapping(
    partial: Repository, source: Path, base: str, how: str
) -> None:
    mapping = {} if how == "unmapped" else {"o/pager": f"file://{source}"}
    with Repositories(partial.git_dir.parent, mapping, is_offline=True) as repositories:
        repository = repositories.open("o/pager", base)
        for read in (
            lambda: repository.ensure(repository.tree_of(base)),
            lambda: repository.read(repository.tree_of(base), "src/pager.py"),
        ):
            with pytest.raises(StateError, match=r"o/pager.*partial clone") as caught:
                read()
            assert ("--repository o/pager=PATH" if how == "unmapped" else "`offline`") in str(caught.value)


def test_offline_uses_the_mirror_that_is_there_and_no_url(partial: Repository, source: Path, base: str) -> None:
    later = commit(source, {"a": b"a"}, "Later", parent=base)
    with Repositories(partial.git_dir.parent, {"o/pager": f"file://{source}"}, is_offline=True) as repositories:
        assert repositories.open("o/pager", base).has(base)
        with pytest.raises(StateError, match="has no commit"):
            repositories.open("o/pager", later)
    with (
        Repositories(partial.git_dir.parent, {"o/x": f"file://{source}"}, is_offline=True) as repositories,
        pytest.raises(StateError, match="may not be asked"),
    ):
        repositories.open("o/x")


def test_a_server_that_cannot_filter_gives_everything(mirrors: Path, source: Path, base: str) -> None:
    run_git("--git-dir", source, "config", "uploadpack.allowFilter", "false")
    with opened(mirrors, f"file://{source}") as repositories:
        repository = repositories.open("o/pager")
        assert repository.lacking([id_ for _, id_ in repository.files(repository.tree_of(base)).values()]) == []


# -- other shapes of sources ----------------------------------------------------------------------


def test_a_mirror_of_a_borrowing_clone_borrows_nothing(mirrors: Path, source: Path, base: str, tmp_path: Path) -> None:
    run_git("clone", "--quiet", "--shared", "--bare", "--template=", source, tmp_path / "borrowing")
    with opened(mirrors, tmp_path / "borrowing") as repositories:
        mirror = repositories.open("o/pager", base).git_dir
    assert not (mirror / "objects/info/alternates").exists()


def test_a_shallow_source_gives_states_with_a_short_history(
    mirrors: Path, source: Path, base: str, tmp_path: Path
) -> None:
    later = commit(source, {**FILES, "a": b"a"}, "Second", parent=base)
    run_git("clone", "--quiet", "--bare", "--depth=1", "--template=", f"file://{source}", tmp_path / "shallow")
    with opened(mirrors, tmp_path / "shallow") as repositories:
        repository = repositories.open("o/pager", later)
        with lay_out(repository, later, repository.tree_of(later), tmp_path / "wt") as laid:
            assert laid.tree() == repository.tree_of(later)
            for command, said in (("log --format=%H", later), ("fsck", ""), ("status --porcelain", "")):
                done = subprocess.run(
                    ["git", *command.split()], cwd=laid.path, capture_output=True, text=True, check=False
                )
                assert (done.returncode, done.stdout.strip()) == (0, said), command


@pytest.mark.parametrize("secret", ["me:token@", "token@", "me:p@ss:word@", ""])
def test_a_source_is_named_without_its_credentials(secret: str) -> None:
    assert str(Source("o/r", f"https://{secret}host/o/r.git")) == "https://host/o/r.git"
