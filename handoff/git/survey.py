"""What mirrors there are, how large they are, and what is wrong with them. Nothing is changed or fetched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from handoff.errors import StateError
from handoff.git.packs import MOST_LOOSE, MOST_PACKS, own_packs
from handoff.git.program import run_git
from handoff.git.sources import is_partial


class Mirror(NamedTuple):
    """One bare repository in the mirror folder."""

    name: str
    size: int
    """Bytes of its objects."""
    templates: int
    """Bytes of the checkouts of base commits beside them."""
    packs: int
    own_packs: int
    """Packs that hold rebuilt states."""
    loose: int
    """Objects that are in no pack."""
    is_partial: bool
    """Cloned without the content of files, which is fetched when needed."""
    problems: tuple[str, ...]
    """Each with its remedy."""


def survey(root: Path) -> Iterator[Mirror]:
    """Every mirror below ``root``, by name."""
    for git_dir in sorted(root.glob("*.git")) if root.is_dir() else []:
        if git_dir.is_dir():
            yield _look_at(git_dir)


def _look_at(git_dir: Path) -> Mirror:
    objects = git_dir / "objects"
    packs = list((objects / "pack").glob("*.pack"))
    loose = sum(1 for _ in objects.glob("[0-9a-f][0-9a-f]/" + "[0-9a-f]" * 38))
    own = own_packs(git_dir)
    return Mirror(
        name=git_dir.name.removesuffix(".git"),
        size=_bytes(objects),
        templates=sum(map(_template, (git_dir / "handoff-templates").glob("*/size"))),
        packs=len(packs),
        own_packs=len(own),
        loose=loose,
        is_partial=is_partial(git_dir),
        problems=tuple(_problems(git_dir, packs, len(own), loose)),
    )


def _problems(git_dir: Path, packs: list[Path], own: int, loose: int) -> Iterator[str]:
    again = "delete it, and it is mirrored again"
    try:
        run_git("--git-dir", git_dir, "rev-parse", "--git-dir")
    except StateError:
        yield f"git does not take it for a repository; {again}"
        return
    without = [pack for pack in packs if not pack.with_suffix(".idx").is_file()]
    if without:
        yield f"{len(without)} pack(s) without an index ({without[0].name} the first); {again}"
    try:
        refs = run_git(
            "--git-dir", git_dir, "for-each-ref", "--format=%(objectname)", "refs/heads", "refs/tags"
        ).split()
        ids = b"".join(id_ + b"\n" for id_ in dict.fromkeys(refs))
        listed = run_git("--git-dir", git_dir, "cat-file", "--batch-check", stdin=ids).splitlines()
        missing = [line for line in listed if line.endswith(b" missing")]
        if missing:
            yield f"{len(missing)} branch(es) or tag(s) point to commits that are not there; {again}"
        if not refs:
            yield "it has no branch or tag: map the repository to one that has its history"
    except StateError as error:
        yield f"it cannot be read ({error}); {again}"
    if (git_dir / "objects/info/alternates").is_file():
        yield "it borrows objects from another repository, and is lost when that goes: clone it with --dissociate"
    if (git_dir / "shallow").is_file():
        yield "its history is cut short (a shallow clone): successors see no more of it"
    if own > MOST_PACKS or loose > 2 * MOST_LOOSE:
        yield f"{own} packs and {loose} loose objects of states wait to be packed; the next replay does it"


def _template(size: Path) -> int:
    try:
        return int(size.read_bytes())
    except (OSError, ValueError):
        return 0


def _bytes(folder: Path) -> int:
    total = 0
    for at, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(at, name)).st_size  # noqa: PTH118 - many thousands of them
            except FileNotFoundError:  # packed or merged meanwhile
                continue
    return total
