"""The packs of a mirror that this project wrote: publishing them, and keeping them few.

Packs are written aside, each writer in a folder of its own (``quarantine``), and moved in when they are whole, so
that nobody waits for another's import. A pack of ours is known by an empty file of its name in ``handoff-packs``; packs
that came from the source are never touched. When there are many, small ones are merged into one that is no
smaller than half of the next (so that each object is copied only a few times in a mirror's life), and loose objects
are packed. A merged pack is in place before those it replaces go: whoever is killed leaves the same objects.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from handoff.errors import StateError
from handoff.git.locks import hold, locked, try_claim, try_locked
from handoff.git.program import run_git
from handoff.git.sources import no_fetch_runs

MOST_PACKS = 16
"""Packs of ours before small ones are merged."""
MOST_LOOSE = 4_096
"""Loose objects, about, before they are packed."""
MOST_LOOSE_REFS = 1_000

_PARTS = (".pack", ".rev", ".promisor", ".idx")
"""In the order of publication: a pack is there when its index is."""


class Pack(NamedTuple):
    """One pack of ours."""

    name: str
    """``pack-<hash>``."""
    size: int
    """Bytes."""


@contextmanager
def quarantine(git_dir: Path) -> Iterator[Path]:
    """A bare repository of one writer that sees all objects of ``git_dir`` and whose own objects nobody sees.

    It is removed afterwards. What a killed writer left is removed by ``tidy``.
    """
    folder = git_dir / "handoff-incoming"
    folder.mkdir(exist_ok=True)
    descriptor, name = tempfile.mkstemp(suffix=".lock", dir=folder)
    os.close(descriptor)
    lock = Path(name)
    held = hold(lock)
    aside = lock.with_suffix("")
    try:
        for below in ("objects/info", "objects/pack", "refs/heads"):
            (aside / below).mkdir(parents=True)
        (aside / "HEAD").write_text("ref: refs/heads/none\n")
        (aside / "objects/info/alternates").write_text("../../../objects\n")
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        lock.unlink(missing_ok=True)
        os.close(held)


def publish(aside: Path, git_dir: Path) -> None:
    """Move the whole packs of a quarantine into the repository; on disk when this returns."""
    target, marks = git_dir / "objects" / "pack", git_dir / "handoff-packs"
    target.mkdir(parents=True, exist_ok=True)
    marks.mkdir(exist_ok=True)
    found = sorted((aside / "objects" / "pack").glob("pack-*.idx"))
    for index in found:
        if (target / index.name).exists():
            continue
        (marks / index.stem).touch()
        for part in _PARTS:
            with suppress(FileNotFoundError):
                index.with_suffix(part).replace(target / f"{index.stem}{part}")
        (marks / index.stem).touch()  # again: a sweeper may have taken it for one of a killed writer
    if found:
        for folder in (target, marks):
            _sync(folder)


def adopt(git_dir: Path, before: Collection[str]) -> None:
    """Take the packs that were not there ``before`` for ours: small ones that a fetch brought are merged too."""
    marks = git_dir / "handoff-packs"
    marks.mkdir(exist_ok=True)
    for name in present_packs(git_dir) - set(before):
        (marks / name).touch()


def present_packs(git_dir: Path) -> set[str]:
    """The names of all packs."""
    return {index.stem for index in (git_dir / "objects" / "pack").glob("pack-*.idx")}


def own_packs(git_dir: Path) -> list[Pack]:
    """The packs of ours, the smallest first."""
    found = []
    for mark in (git_dir / "handoff-packs").glob("pack-*"):
        place = git_dir / "objects" / "pack" / mark.name
        with suppress(FileNotFoundError):
            place.with_suffix(".idx").stat()
            found.append(Pack(mark.name, place.with_suffix(".pack").stat().st_size))
    return sorted(found, key=lambda pack: (pack.size, pack.name))


def tidy(git_dir: Path) -> None:
    """Remove what killed writers left; merge packs, pack loose objects and refs where there are many.

    Nobody waits for it: when another process is at it, there is nothing to do.
    """
    with try_locked(git_dir / "handoff-tidy.lock") as is_held:
        if not is_held:
            return
        _sweep(git_dir)
        own = own_packs(git_dir)
        if len(own) > MOST_PACKS:
            _merge(git_dir, to_merge(own))
        if _loose_count(git_dir) > MOST_LOOSE:
            _pack_loose(git_dir)
        if _has_many(git_dir / "refs" / "handoff", MOST_LOOSE_REFS):
            with locked(git_dir / "handoff.lock"):
                run_git("--git-dir", git_dir, "pack-refs", "--all")


def to_merge(packs: Sequence[Pack]) -> list[Pack]:
    """Which of these packs, the smallest first, become one: until the next is more than twice their sum."""
    total = 0
    for count, pack in enumerate(packs):
        if count > 1 and pack.size > 2 * total and len(packs) - count < MOST_PACKS:
            return list(packs[:count])
        total += pack.size
    return list(packs)


def _merge(git_dir: Path, packs: Sequence[Pack]) -> None:
    place = git_dir / "objects" / "pack"
    listed = [run_git("show-index", stdin=(place / f"{pack.name}.idx").read_bytes()) for pack in packs]
    ids = {line.split(b" ")[1] for text in listed for line in text.splitlines()}
    is_promised = any((place / f"{pack.name}.promisor").exists() for pack in packs)
    made = _write_pack(git_dir, sorted(ids), is_promised=is_promised)
    for pack in packs:
        if pack.name != made:
            for part in reversed(_PARTS):  # a reader must not find an index without its pack
                (place / f"{pack.name}{part}").unlink(missing_ok=True)
            (git_dir / "handoff-packs" / pack.name).unlink(missing_ok=True)


def _pack_loose(git_dir: Path) -> None:
    ids = [
        f"{folder.name}{file.name}".encode()
        for folder in sorted((git_dir / "objects").glob("[0-9a-f][0-9a-f]"))
        for file in sorted(folder.glob("[0-9a-f]" * 38))
    ]
    _write_pack(git_dir, ids)
    run_git("--git-dir", git_dir, "prune-packed", "--quiet")


def _write_pack(git_dir: Path, ids: Sequence[bytes], *, is_promised: bool = False) -> str:
    """A new pack of exactly these objects, ours; its name. ``is_promised``: what they refer to may be missing."""
    with quarantine(git_dir) as aside:
        where = aside / "objects" / "pack" / "pack"
        how = ("--quiet", "--delta-base-offset", "--threads=1", where)
        said = run_git(
            *("--git-dir", git_dir, "-c", "core.fsync=pack,pack-metadata", "pack-objects", *how),
            stdin=b"\n".join(ids) + b"\n",
        )
        if is_promised:
            for index in where.parent.glob("pack-*.idx"):
                index.with_suffix(".promisor").touch()
        publish(aside, git_dir)
    return f"pack-{said.decode('ascii').strip()}"


def _sweep(git_dir: Path) -> None:
    """Remove what killed writers left. Temporary packs only while nobody fetches, for a fetch writes such."""
    for lock in sorted((git_dir / "handoff-incoming").glob("*.lock")):
        claimed = try_claim(lock)
        if claimed is not None:
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink(missing_ok=True)
            os.close(claimed)
    with no_fetch_runs(git_dir) as nobody_fetches:
        if nobody_fetches:
            for pattern in ("objects/pack/tmp_*", "fast_import_crash_*"):
                for path in git_dir.glob(pattern):
                    path.unlink(missing_ok=True)
    for mark in (git_dir / "handoff-packs").glob("pack-*"):
        is_there = (git_dir / "objects" / "pack" / f"{mark.name}.idx").exists()
        if not is_there and not any((git_dir / "handoff-incoming").glob("*.lock")):
            mark.unlink(missing_ok=True)


def _loose_count(git_dir: Path) -> int:
    """About how many loose objects there are: ids are spread evenly, so a few folders tell."""
    folders = [git_dir / "objects" / name for name in ("17", "5a", "93", "ce")]
    return sum(len(os.listdir(folder)) for folder in folders if folder.is_dir()) * 64  # noqa: PTH208 - only counted


def _has_many(folder: Path, most: int) -> bool:
    if not folder.is_dir():
        return False
    with os.scandir(folder) as found:
        return sum(1 for _ in found) > most


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise StateError(f"cannot write into the git store {folder.parent}: {error.strerror}") from error
    finally:
        os.close(descriptor)
