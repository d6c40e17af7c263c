"""Clean checkouts of base commits, made once and shared by all layouts of that base.

A template is ``handoff-templates/<base>/repo`` beside the mirror's objects: the files of the base and a ``.git`` that
knows the base and its ancestors and nothing else. Objects are copied, for an alternate would show later history. A
layout holds its template (``locks``); together templates may take a number of bytes, over all mirrors of one folder,
and those not used for longest go first, never one that is held. Made aside and renamed, renamed and then removed: one
that is there is whole.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from handoff.errors import StateError
from handoff.git.locks import hold, locked, try_claim, try_locked
from handoff.git.program import run_git
from handoff.git.repository import Repository

_FOLDER = "handoff-templates"
_CONFIG = """[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
\tcheckStat = minimal
\ttrustctime = false
[gc]
\tauto = 0
"""


class Template(NamedTuple):
    """A template that is held; ``close``, once, lets go."""

    repo: Path
    """The checkout. It must not be changed."""
    held: int
    """Descriptor of its lock."""

    @property
    def lacking(self) -> int:
        """Objects of earlier commits that the mirror lacks and could not get: git fails where it needs one."""
        return int((self.repo.parent / "lacking").read_bytes())

    def close(self) -> None:
        """Let others remove it."""
        os.close(self.held)


def take_template(repository: Repository, base_commit: str) -> Template:
    """The template of a base commit (full id), made when there is none; held until ``close``.

    ``StateError``: the tree holds names that cannot be laid out safely, or the files of a partial clone cannot be had.
    """
    folder = repository.git_dir / _FOLDER
    folder.mkdir(exist_ok=True)
    lock = folder / f"{base_commit}.lock"
    is_new = False
    while True:
        held = hold(lock)
        if (folder / base_commit).is_dir():
            os.utime(held)
            break
        os.close(held)
        is_new = True
        with locked(folder / f"{base_commit}.build"):
            if not (folder / base_commit).is_dir():
                _make(repository, base_commit, folder)
    if is_new:
        trim(repository.git_dir.parent, repository.kept_bytes)
    return Template(folder / base_commit / "repo", held)


def trim(root: Path, kept_bytes: int) -> int:
    """Remove templates of all mirrors in ``root``, the longest unused first, until they fit; bytes that are left.

    Processes take turns at it.
    """
    with locked(root / ".handoff-templates.lock"):
        _remove_leftovers(root)
        present = []
        for lock in root.glob(f"*/{_FOLDER}/*.lock"):
            template = lock.with_suffix("")
            try:
                present.append((lock.stat().st_mtime_ns, lock, template, int((template / "size").read_bytes())))
            except (FileNotFoundError, ValueError):
                continue  # being made
        total = sum(size for *_, size in present)
        for _, lock, template, size in sorted(present):
            if total <= kept_bytes:
                break
            if _evict(lock, template):
                total -= size
    return total


def _remove_leftovers(root: Path) -> None:
    """What was killed while it made or removed a template."""
    for left in root.glob(f"*/{_FOLDER}/.*.evicted"):
        _remove(left)
    for left in root.glob(f"*/{_FOLDER}/.*.partial"):
        with try_locked(left.with_name(left.name[1:].replace(".partial", ".build"))) as nobody_makes_it:
            if nobody_makes_it:
                _remove(left)


def _evict(lock: Path, template: Path) -> bool:
    """Remove a template, unless somebody holds it."""
    claimed = try_claim(lock)
    if claimed is None:
        return False
    evicted = template.with_name(f".{template.name}.evicted")
    try:
        template.rename(evicted)
    finally:
        lock.unlink(missing_ok=True)
        os.close(claimed)
    _remove(evicted)
    return True


def _make(repository: Repository, base_commit: str, folder: Path) -> None:
    with suppress(StateError):  # without the files of earlier commits the base itself is still exact
        repository.ensure_history(base_commit)
    repository.ensure(repository.tree_of(base_commit))
    repository.files(repository.tree_of(base_commit))  # refuses unsafe names anywhere in the tree
    aside = folder / f".{base_commit}.partial"
    _remove(aside)
    repo = aside / "repo"
    repo.mkdir(parents=True)
    lacking = _make_git(repository, base_commit, repo / ".git")
    own = ["--git-dir", str(repo / ".git"), "--work-tree", str(repo)]
    run_git(*own, "read-tree", "--reset", "-u", base_commit)
    run_git(*own, "update-index", "-q", "--refresh")
    (aside / "lacking").write_text(str(lacking))
    (aside / "size").write_text(str(_size(repo)))
    aside.rename(folder / base_commit)


def _make_git(repository: Repository, base_commit: str, git_dir: Path) -> int:
    """A repository of the base commit and its ancestors, as far back as the mirror goes; how many objects it lacks."""
    for below in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "info"):
        (git_dir / below).mkdir(parents=True)
    (git_dir / "HEAD").write_text("ref: refs/heads/main\n")
    (git_dir / "refs/heads/main").write_text(base_commit + "\n")
    (git_dir / "config").write_text(_CONFIG)
    # Bytes on disk are the bytes of the state: no line end conversion, keyword or filter, whatever .gitattributes says.
    (git_dir / "info/attributes").write_text("* -text -ident -filter -working-tree-encoding\n")
    lacking = 0
    how = ("--revs", "--quiet", "--delta-base-offset", "--threads=1", git_dir / "objects" / "pack" / "pack")
    wanted = f"{base_commit}\n".encode()
    try:
        repository.git("pack-objects", *how, stdin=wanted)
    except StateError:
        lacking = len(repository.history_lacking(base_commit))
        repository.git("pack-objects", "--missing=allow-any", *how, stdin=wanted)
    cut = repository.git_dir / "shallow"
    if cut.is_file():
        history = set(repository.git("rev-list", base_commit).split())
        ends = [line for line in cut.read_bytes().split() if line in history]
        if ends:
            (git_dir / "shallow").write_bytes(b"".join(line + b"\n" for line in ends))
    return lacking


def _size(folder: Path) -> int:
    """Bytes on disk."""
    return sum(
        os.lstat(os.path.join(at, name)).st_blocks * 512  # noqa: PTH118 - tens of thousands of them
        for at, folders, files in os.walk(folder)
        for name in (*folders, *files)
    )


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
