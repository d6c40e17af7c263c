"""Where a mirror's objects come from: cloning, updating, and asking for single commits or files.

A source is a path or a URL that the user wrote; the network is used for nothing else. A URL is cloned without the
content of files where its server allows (a partial clone): commits and folders come at once, contents when a replay
or a layout needs them, many at a time. The mirror itself does not remember its source: git cannot fetch on its
own, and no credential of a URL is stored.

Fetching into one mirror goes through a lock of its own, so that who writes states does not wait for a network.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from handoff.errors import StateError
from handoff.git.locks import locked, try_locked
from handoff.git.names import is_url
from handoff.git.program import TRUSTED, git_environment, git_program, run_git

FETCHED_REFS = "refs/handoff/base"
"""Commits that no branch holds, fetched by id, are kept alive below this."""
_SETTINGS = (
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("fastimport.unpackLimit", "0"),
    ("core.logAllRefUpdates", "false"),
)
_AT_ONCE = 50_000
"""Objects asked for in one request."""
_MOST_REFUSED = 50
"""Objects that a source may lack before asking for the rest ends: each costs a request."""
_LACKED = re.compile(r"not our ref ([0-9a-f]{40})")
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]+@")


class Source(NamedTuple):
    """Where one repository can be had."""

    repo: str
    """Its name, for messages."""
    place: str | Path
    """A local repository, bare or not, or a URL."""

    @property
    def is_remote(self) -> bool:
        """Whether the network is needed."""
        return is_url(self.place)

    def __str__(self) -> str:
        return _without_credentials(str(self.place))


def clone(source: Source, mirror: Path) -> None:
    """Make a mirror: aside, then renamed, so that it is there whole or not at all."""
    mirror.parent.mkdir(parents=True, exist_ok=True)
    aside = mirror.with_name(f".{mirror.name}.partial")
    with locked(mirror.with_name(f".{mirror.name}.lock")):
        if (mirror / "HEAD").is_file():
            return
        shutil.rmtree(aside, ignore_errors=True)
        how = ["--filter=blob:none"] if source.is_remote else ["--no-local"] if _borrows(source.place) else []
        place = _location(source)
        try:
            _run(source, ["clone", "--quiet", "--mirror", "--template=", *how, "--", place, str(aside)])
        except StateError as error:
            shutil.rmtree(aside, ignore_errors=True)
            said = str(error).replace(str(aside), mirror.name)
            raise StateError(f"{source.repo!r} cannot be mirrored from {source}: {said}; correct the mapping") from None
        run_git("--git-dir", aside, "config", "--remove-section", "remote.origin")
        for key, value in _SETTINGS:
            run_git("--git-dir", aside, "config", key, value)
        _write_graph(aside)
        aside.rename(mirror)


def update(source: Source, git_dir: Path) -> None:
    """Fetch the branches and tags that the source has now; refs under ``refs/handoff`` stay."""
    refs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    with _fetching(git_dir):
        try:
            _fetch(source, git_dir, refs)
        except StateError as error:
            raise StateError(f"{source.repo!r} cannot be updated from {source}: {error}") from None
        _write_graph(git_dir)


def fetch_commit(source: Source, git_dir: Path, commit: str) -> bool:
    """Fetch one commit by its full id, on a branch or not, with its history. ``False``: the source does not give it."""
    if re.fullmatch(r"[0-9a-f]{40}", commit) is None:
        return False
    with _fetching(git_dir):
        try:
            _fetch(source, git_dir, ("--no-tags", f"+{commit}:{FETCHED_REFS}/{commit}"))
        except StateError:
            return False
    return True


def fetch_objects(source: Source, git_dir: Path, ids: Sequence[str]) -> list[str]:
    """Fetch objects by id into a partial clone, many in one request; those that the source does not have.

    ``StateError`` when it cannot be asked, or lacks more than a few.
    """
    refused: list[str] = []
    waiting = list(ids)
    with _fetching(git_dir):
        while waiting:
            some = waiting[:_AT_ONCE]
            try:
                _fetch(source, git_dir, ("--no-tags", "--stdin"), "".join(f"{id_}\n" for id_ in some))
                del waiting[: len(some)]
            except StateError as error:
                lacked = set(_LACKED.findall(str(error))) & set(some)
                if not lacked or len(refused) >= _MOST_REFUSED:
                    raise StateError(
                        f"{len(ids)} file(s) of {source.repo!r} cannot be fetched from {source}: {error}"
                    ) from None
                refused += sorted(lacked)
                waiting = [id_ for id_ in waiting if id_ not in lacked]
    return refused


def is_partial(git_dir: Path) -> bool:
    """Whether a mirror was cloned without the content of files."""
    return next((git_dir / "objects" / "pack").glob("*.promisor"), None) is not None


def _write_graph(git_dir: Path) -> None:
    """What lets git walk histories fast; nothing but speed hangs on it."""
    with suppress(StateError):
        run_git("--git-dir", git_dir, "commit-graph", "write", "--reachable", "--no-progress")


@contextmanager
def no_fetch_runs(git_dir: Path) -> Iterator[bool]:
    """Keep fetches out if none is running; tells whether that is so."""
    with try_locked(git_dir / "handoff-source.lock") as is_held:
        yield is_held


@contextmanager
def _fetching(git_dir: Path) -> Iterator[None]:
    with locked(git_dir / "handoff-source.lock"):
        yield


def _fetch(source: Source, git_dir: Path, what: Sequence[str], stdin: str = "") -> None:
    """One ``git fetch``. That objects of a partial clone are promised is said for this command alone."""
    options = [part for part in what if part.startswith("--")]
    refs = [part for part in what if not part.startswith("--")]
    settings = ["gc.auto=0", "maintenance.auto=false", "fetch.writeCommitGraph=false"]
    settings += ["fetch.prune=false", "fetch.pruneTags=false"]  # whatever the user's own configuration says
    place = _location(source)
    if is_partial(git_dir):
        settings += [f"remote.origin.url={place}", "remote.origin.promisor=true"]
        settings += ["remote.origin.partialclonefilter=blob:none", "fetch.negotiationAlgorithm=noop"]
        place = "origin"
    known = ["--git-dir", str(git_dir), *(part for setting in settings for part in ("-c", setting))]
    _run(source, [*known, "fetch", "--quiet", "--no-write-fetch-head", *options, "--", place, *refs], stdin)


def _run(source: Source, arguments: Sequence[str], stdin: str = "") -> None:
    environment: Mapping[str, str] | None = None if source.is_remote else git_environment() | TRUSTED
    done = subprocess.run(
        [git_program(), *arguments], input=stdin.encode("ascii"), capture_output=True, check=False, env=environment
    )
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        said = [line for line in lines if line.startswith(("fatal: ", "error: "))] or lines
        text = " ".join(dict.fromkeys(said)).replace(str(source.place), str(source))
        raise StateError(_without_credentials(text)[-500:])


def _location(source: Source) -> str:
    """What git is to clone or fetch from."""
    if source.is_remote:
        return str(source.place)
    local = Path(source.place).resolve()
    if not local.is_dir():
        raise StateError(f"{source.repo!r} is mapped to {source}, which is not a folder; correct the mapping")
    return str(local)


def _borrows(place: str | Path) -> bool:
    """Whether a local repository keeps objects in another one, which a mirror must not depend on."""
    return any((Path(place) / at / "objects/info/alternates").is_file() for at in ("", ".git"))


def _without_credentials(text: str) -> str:
    return _CREDENTIALS.sub("", text)
