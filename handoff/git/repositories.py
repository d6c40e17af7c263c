"""Bare mirrors of the repositories that trajectories ran in, found by name.

One mirror per repository under one folder, shared by all trajectories; the many ways of writing its name lead to one
(``names``). A repository is looked up in the mirror folder first, then in the caller's mapping (a local path or a
URL); the network is used only for a URL that the caller wrote there, and not at all when told so. How objects get
into a mirror is in ``sources``, one repository's trees in ``repository``, laying a tree out on disk in ``worktree``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from handoff.errors import StateError
from handoff.git import sources
from handoff.git.names import canonical, folder_name, is_url, owner_pattern
from handoff.git.packs import adopt, present_packs
from handoff.git.program import TRUSTED, git_environment, git_program, run_git
from handoff.git.repository import KEPT_BYTES, Repository
from handoff.git.sources import Source

__all__ = [
    "TRUSTED",
    "Repositories",
    "Repository",
    "canonical",
    "git_environment",
    "git_program",
    "is_url",
    "run_git",
]


class Repositories:
    """Mirrors by repository name (``owner/name``). A context manager; ``close`` ends all git processes.

    ``root``: where mirrors live. ``mapping``: repository name → path of a local repository (bare or not), or a URL;
    ``owner/*`` stands for all repositories of an owner that share one store. ``is_offline``: URLs are never asked.
    ``kept_bytes``: disk that clean checkouts of unused bases may take. ``is_passing``: ``root`` is gone afterwards,
    and no message tells anyone to put a clone there.
    A mapped bare repository that lies in ``root`` is used as it is; any other is mirrored first and never written to.
    """

    def __init__(
        self,
        root: Path,
        mapping: Mapping[str, str | Path],
        *,
        is_offline: bool = False,
        kept_bytes: int = KEPT_BYTES,
        is_passing: bool = False,
    ) -> None:
        self.root = root
        self.mapping = dict(mapping)
        self._places = {
            owner_pattern(f"{name[:-2]}/x") if name.endswith("/*") else canonical(name): place
            for name, place in mapping.items()
        }
        self._is_offline = is_offline
        self._kept_bytes = kept_bytes
        self._is_passing = is_passing
        self._open: dict[Path, Repository] = {}
        self._updated: set[Path] = set()
        self._refused: set[tuple[Path, str]] = set()
        """Commits that a source was asked for and did not give."""

    def __enter__(self) -> Repositories:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the git processes of every repository opened here."""
        for repository in self._open.values():
            repository.close()

    def is_shared(self, repo: str) -> bool:
        """Whether ``repo`` lies in one store with all others of its owner."""
        return canonical(repo) not in self._places and owner_pattern(repo) in self._places

    def open(self, repo: str, commit: str | None = None) -> Repository:
        """The mirror of ``repo``; made when it is mapped and not there yet.

        With ``commit``, the mapped source is asked when the mirror lacks that commit: for what its branches and tags
        hold now, then for the commit itself. ``StateError`` says which mapping to add, or that the source lacks it.
        """
        source = self._source(repo)
        mirror = self._mirror(repo, source)
        if not (mirror / "HEAD").is_file():
            sources.clone(self._usable(repo, source, f"no mirror of {repo!r}", mirror), mirror)
        if mirror not in self._open:
            fetch = partial(self._bring, repo, mirror)
            self._open[mirror] = Repository(mirror, name=repo, fetch=fetch, kept_bytes=self._kept_bytes)
        repository = self._open[mirror]
        if commit is not None and not repository.has(commit):
            self._look_for(commit, source, repository)
            if not repository.has(commit):
                raise StateError(
                    f"{repo!r} has no commit {commit!r}; the recording was made on another history, or the mirror "
                    f"{mirror.name} is older: map {repo!r} to a repository that has the commit"
                )
        return repository

    def _source(self, repo: str) -> Source | None:
        place = self._places.get(canonical(repo), self._places.get(owner_pattern(repo)))
        return None if place is None else Source(repo, place)

    def _mirror(self, repo: str, source: Source | None) -> Path:
        """Where the mirror of ``repo`` is or will be."""
        if source is not None and not source.is_remote and self._is_own(Path(source.place)):
            return Path(source.place)
        name = f"{folder_name(repo)}.git"
        if self.root.is_dir() and not (self.root / name).exists():
            for other in sorted(self.root.glob("*.git")):  # put there by hand, in the spelling of its host
                if other.name.lower() == name:
                    return other
        return self.root / name

    def _is_own(self, place: Path) -> bool:
        return place.parent.resolve() == self.root.resolve() and (place / "HEAD").is_file()

    def _usable(self, repo: str, source: Source | None, problem: str, mirror: Path) -> Source:
        """The source, when it may be asked. ``StateError`` with the problem and the remedy when not."""
        if source is None:
            by_hand = f", or put a bare clone at {self.root.name}/{mirror.name} in the data folder"
            raise StateError(
                f"{problem} and no source for it; map it to a local path or a URL (--repository {repo}=PATH)"
                f"{'' if self._is_passing else by_hand}"
            )
        if source.is_remote and self._is_offline:
            raise StateError(
                f"{problem}, and {source} may not be asked (setting `offline`); map {repo!r} to a local clone, or "
                "allow the network"
            )
        return source

    def _look_for(self, commit: str, source: Source | None, repository: Repository) -> None:
        mirror = repository.git_dir
        if source is None or mirror == Path(source.place) or (source.is_remote and self._is_offline):
            return
        if mirror not in self._updated:
            sources.update(source, mirror)
            self._updated.add(mirror)
        if (
            not repository.has(commit)
            and (mirror, commit) not in self._refused
            and not sources.fetch_commit(source, mirror, commit)
        ):
            self._refused.add((mirror, commit))

    def _bring(self, repo: str, mirror: Path, ids: Sequence[str]) -> Sequence[str]:
        source = self._usable(repo, self._source(repo), f"{repo!r} lacks them", mirror)
        before = present_packs(mirror)
        refused = sources.fetch_objects(source, mirror, ids)
        adopt(mirror, before)
        return refused
