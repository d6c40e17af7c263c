"""Bare mirrors of the repositories that trajectories ran in, and reading and writing trees in them.

One mirror per repository under one folder, shared by all trajectories. A repository is looked up in the mirror
folder first, then in the caller's mapping (a local path or a URL); the network is used only for a URL that the
caller wrote there. Git runs without any user's or system's configuration. Writers to one mirror take turns through
a lock file. Which tree belongs to which step is in ``replay``; laying a tree out on disk in ``worktree``.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from handoff.errors import StateError
from handoff.states.objects import (
    EMPTY_TREE,
    EXECUTABLE,
    FILE,
    FOLDER,
    SUBMODULE,
    Entries,
    byte_path,
    format_tree,
    is_safe_path,
    parse_tree,
    text_path,
    write_loose,
)

_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_URL = re.compile(r"(https?|ssh|git|file)://|[\w.-]+@[\w.-]+:")
_CACHED_TREES = 65_536
_KEPT_BLOBS = 1_000
_KEPT_BLOB = 32_768
TRUSTED = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
"""For a folder that the caller named: its owner need not be the current user."""


@functools.cache
def git_program() -> str:
    """The git program. ``StateError`` where none is installed."""
    found = shutil.which("git")
    if found is None:
        raise StateError("git is not installed; install it with the system's package manager")
    return found


def git_environment() -> dict[str, str]:
    """What git may know of its surroundings: where programs are, and no configuration of any user."""
    folders = dict.fromkeys([str(Path(git_program()).parent), *os.defpath.split(os.pathsep)])
    return {
        "PATH": os.pathsep.join(folder for folder in folders if folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "HOME": os.devnull,
        "LC_ALL": "C",
    }


def run_git(*arguments: str | Path, stdin: bytes | None = None, extra: Mapping[str, str] | None = None) -> bytes:
    """Output of one git command without user configuration. ``StateError`` carries git's own words."""
    environment = git_environment() | dict(extra or {})
    done = subprocess.run(
        [git_program(), *map(str, arguments)], input=stdin, capture_output=True, check=False, env=environment
    )
    if done.returncode:
        verb = next((str(a) for a in arguments if not str(a).startswith("-") and "/" not in str(a)), "")
        raise StateError(f"git {verb} failed: {done.stderr.decode('utf-8', 'replace').strip()[-500:]}")
    return done.stdout


class Repositories:
    """Mirrors by repository name (``owner/name``). A context manager; ``close`` ends all git processes.

    ``root``: where mirrors live. ``mapping``: repository name → path of a local repository (bare or not), or a URL;
    ``owner/*`` stands for all repositories of an owner that share one store.
    A mapped bare repository that lies in ``root`` is used as it is; any other is mirrored first and never written to.
    """

    def __init__(self, root: Path, mapping: Mapping[str, str | Path]) -> None:
        self.root = root
        self.mapping = dict(mapping)
        self._open: dict[Path, Repository] = {}

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
        return repo not in self.mapping and _owner(repo) in self.mapping

    def open(self, repo: str, commit: str | None = None) -> Repository:
        """The mirror of ``repo``; made when it is mapped and not there yet.

        With ``commit``, the mapped source is asked again when the mirror lacks that commit. ``StateError`` says which
        mapping to add, or that the commit is not in the source.
        """
        mirror = self.root / f"{_folder_name(repo)}.git"
        source = self.mapping.get(repo, self.mapping.get(_owner(repo)))
        if source is not None and not is_url(source):
            local = Path(source)
            if local.parent.resolve() == self.root.resolve() and (local / "HEAD").is_file():
                mirror = local
        if not (mirror / "HEAD").is_file():
            if source is None:
                raise StateError(
                    f"no mirror of {repo!r} and no source for it; map it to a local path or a URL "
                    f"(--repository {repo}=PATH), or put a bare clone at {self.root.name}/{mirror.name} in the data "
                    "folder"
                )
            _make_mirror(repo, source, mirror)
        repository = self._open.setdefault(mirror, Repository(mirror, name=repo))
        if commit is not None and not repository.has(commit):
            if source is not None and mirror != Path(source):
                _update_mirror(repo, source, repository)
            if not repository.has(commit):
                raise StateError(
                    f"{repo!r} has no commit {commit!r}; the recording was made on another history, or the mirror "
                    f"{mirror.name} is older: map {repo!r} to a repository that has the commit"
                )
        return repository


def _owner(repo: str) -> str:
    return f"{repo.partition('/')[0]}/*"


def is_url(source: str | Path) -> bool:
    """Whether a repository is named by a URL, and not by a path."""
    return isinstance(source, str) and bool(_URL.match(source))


def _folder_name(repo: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "__", repo).strip(".-")
    if not name:
        raise StateError(f"{repo!r} cannot name a repository; use owner/name")
    return name


def _source_arguments(repo: str, source: str | Path) -> tuple[str, Mapping[str, str] | None]:
    """What to clone from, and the environment for it: a URL needs the user's own proxy and credentials."""
    if is_url(source):
        return str(source), None
    local = Path(source).resolve()
    if not local.is_dir():
        raise StateError(f"{repo!r} is mapped to {source}, which is not a folder; correct the mapping")
    return str(local), git_environment() | TRUSTED


def _make_mirror(repo: str, source: str | Path, mirror: Path) -> None:
    """Clone aside, then rename: a mirror is there whole or not at all."""
    where, environment = _source_arguments(repo, source)
    mirror.parent.mkdir(parents=True, exist_ok=True)
    aside = mirror.with_name(f".{mirror.name}.partial")
    with _locked(mirror.with_name(f".{mirror.name}.lock")):
        if (mirror / "HEAD").is_file():
            return
        shutil.rmtree(aside, ignore_errors=True)
        done = subprocess.run(
            [git_program(), "clone", "--quiet", "--mirror", "--template=", "--", where, str(aside)],
            capture_output=True,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            shutil.rmtree(aside, ignore_errors=True)
            said = done.stderr.decode("utf-8", "replace").replace(str(aside), mirror.name).strip()[-500:]
            raise StateError(f"{repo!r} cannot be mirrored from {source}: {said}; correct the mapping")
        for key, value in (("gc.auto", "0"), ("fastimport.unpackLimit", "0"), ("core.logAllRefUpdates", "false")):
            run_git("--git-dir", aside, "config", key, value)
        aside.rename(mirror)


def _update_mirror(repo: str, source: str | Path, repository: Repository) -> None:
    """Fetch what the source has now; refs under ``refs/handoff`` stay."""
    where, environment = _source_arguments(repo, source)
    with repository.lock():
        done = subprocess.run(
            [
                *(git_program(), "--git-dir", str(repository.git_dir), "fetch", "--quiet", "--", where),
                *("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"),
            ],
            capture_output=True,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()[-500:]
        raise StateError(f"{repo!r} cannot be updated from {source}: {said}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock; the kernel lets go when the process dies, so nothing stale is left behind."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class Repository:
    """One bare repository. Ids are full SHA-1 hex; paths are text with ``/`` and no leading slash.

    A context manager. ``close`` ends the helper processes; the next call starts them again.
    """

    def __init__(self, git_dir: Path, name: str | None = None) -> None:
        self.git_dir = git_dir
        self.name = name or git_dir.stem
        self._contents: subprocess.Popen[bytes] | None = None
        self._trees: dict[str, Entries] = {EMPTY_TREE: {}}
        self._blobs: dict[str, bytes] = {}

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the helper process."""
        process, self._contents = self._contents, None
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
            process.wait()

    def __del__(self) -> None:
        self.close()

    def git(self, *arguments: str | Path, stdin: bytes | None = None, extra: Mapping[str, str] | None = None) -> bytes:
        """Output of one git command on this repository."""
        return run_git("--git-dir", self.git_dir, *arguments, stdin=stdin, extra=extra)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Serialise writers of packs and refs. Readers, and writers of loose objects, need no lock."""
        with _locked(self.git_dir / "handoff.lock"):
            yield

    # -- objects --------------------------------------------------------------------------------

    def find(self, name: str) -> tuple[str, str, bytes] | None:
        """(id, kind, body) of one object by id, or ``<commit>^{tree}``; ``None`` when it is not here."""
        pipe_in, pipe_out = self._pipes()
        try:
            pipe_in.write(name.encode("ascii") + b"\n")
            pipe_in.flush()
            head = pipe_out.readline().split()
            if len(head) != 3 or not head[2].isdigit():
                if not head:
                    raise StateError(f"git stopped answering on {self.git_dir}; is it a git repository?")
                return None  # "<name> missing", "<name> ambiguous"
            size = int(head[2])
            body = pipe_out.read(size)
            pipe_out.read(1)
        except (BrokenPipeError, UnicodeEncodeError) as error:
            self.close()
            raise StateError(f"git cannot read {name!r} in {self.git_dir}; is it a git repository?") from error
        return head[0].decode(), head[1].decode(), body

    def blob(self, id_: str) -> bytes:
        """The content of one blob. Small ones are kept: the same files are read at every point of a run."""
        known = self._blobs.get(id_)
        if known is not None:
            return known
        found = self.find(id_)
        if found is None or found[1] != "blob":
            raise StateError(f"blob {id_} is missing in {self.git_dir}; fetch the repository again")
        body = found[2]
        if len(body) <= _KEPT_BLOB:
            if len(self._blobs) >= _KEPT_BLOBS:
                self._blobs.clear()
            self._blobs[id_] = body
        return body

    def entries(self, tree: str) -> Entries:
        """One level of a tree. ``StateError`` when it is missing or unsafe."""
        known = self._trees.get(tree)
        if known is None:
            found = self.find(tree)
            if found is None or found[1] != "tree":
                raise StateError(f"tree {tree} is missing in {self.git_dir}; run the replay of its shard again")
            known = parse_tree(found[2], tree)
            if len(self._trees) >= _CACHED_TREES:
                self._trees = {EMPTY_TREE: {}}
            self._trees[tree] = known
        return known

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._contents is None or self._contents.poll() is not None:
            self._contents = subprocess.Popen(
                [git_program(), "--git-dir", str(self.git_dir), "cat-file", "--batch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=git_environment(),
            )
        assert self._contents.stdin is not None and self._contents.stdout is not None
        return self._contents.stdin, self._contents.stdout

    # -- reading --------------------------------------------------------------------------------

    def has(self, commit: str) -> bool:
        """Whether ``commit`` (7 to 40 hex digits) is a commit in this repository. A branch name is not one."""
        if not _COMMIT.fullmatch(commit):
            return False
        found = self.find(f"{commit}^{{commit}}")
        return found is not None

    def commit_id(self, commit: str) -> str:
        """The full id of a commit given by a unique prefix. ``StateError`` when there is none."""
        found = self.find(f"{commit}^{{commit}}") if _COMMIT.fullmatch(commit) else None
        if found is None:
            raise StateError(
                f"{self.name!r} has no commit {commit!r}; check the recording's base commit (a branch name is none), "
                "or map the repository to one that has it"
            )
        return found[0]

    def version(self) -> str:
        """A hash of what the source's branches and tags point to: equal while its history is."""
        refs = self.git("for-each-ref", "--format=%(objectname) %(refname)")
        own = [line for line in refs.splitlines() if b" refs/handoff/" not in line]
        return hashlib.sha256(b"\n".join(own)).hexdigest()

    def tree_of(self, commit: str) -> str:
        """The tree id of a commit. ``StateError`` when the commit is not here."""
        found = self.find(f"{self.commit_id(commit)}^{{tree}}")
        if found is None:
            raise StateError(f"the tree of commit {commit} is missing in {self.git_dir}; fetch the repository again")
        return found[0]

    def entry(self, tree: str, path: str) -> tuple[str, str] | None:
        """(mode, object id) at a path, without following symbolic links; ``None`` when nothing is there."""
        parts = byte_path(path).split(b"/")
        for part in parts[:-1]:
            found = self.entries(tree).get(part)
            if found is None or found[0] != FOLDER:
                return None
            tree = found[1]
        return self.entries(tree).get(parts[-1])

    def read(self, tree: str, path: str) -> bytes | None:
        """The bytes of a file (a symbolic link's target text); ``None`` when no file is there."""
        found = self.entry(tree, path)
        return None if found is None or found[0] in (FOLDER, SUBMODULE) else self.blob(found[1])

    def files(self, tree: str) -> dict[str, tuple[str, str]]:
        """Every file, link and submodule of a tree: path → (mode, object id), sorted by path."""
        found: dict[bytes, tuple[str, str]] = {}
        waiting = [(b"", tree)]
        while waiting:
            prefix, at = waiting.pop()
            for name, (mode, id_) in self.entries(at).items():
                if mode == FOLDER:
                    waiting.append((prefix + name + b"/", id_))
                else:
                    found[prefix + name] = (mode, id_)
        return {text_path(path): found[path] for path in sorted(found)}

    def differences(
        self, tree_a: str, tree_b: str
    ) -> Iterator[tuple[str, tuple[str, str] | None, tuple[str, str] | None]]:
        """(path, entry in a, entry in b) of everything that differs, file by file, in path order."""
        return ((text_path(path), old, new) for path, old, new in sorted(self._differences(b"", tree_a, tree_b)))

    def _differences(
        self, prefix: bytes, tree_a: str | None, tree_b: str | None
    ) -> Iterator[tuple[bytes, tuple[str, str] | None, tuple[str, str] | None]]:
        if tree_a == tree_b:
            return
        level_a: Entries = self.entries(tree_a) if tree_a else {}
        level_b: Entries = self.entries(tree_b) if tree_b else {}
        for name in level_a.keys() | level_b.keys():
            a, b = level_a.get(name), level_b.get(name)
            if a == b:
                continue
            below_a = a[1] if a and a[0] == FOLDER else None
            below_b = b[1] if b and b[0] == FOLDER else None
            if below_a or below_b:
                yield from self._differences(prefix + name + b"/", below_a, below_b)
            file_a = None if below_a else a
            file_b = None if below_b else b
            if file_a or file_b:
                yield prefix + name, file_a, file_b

    def changed(self, tree_a: str, tree_b: str) -> tuple[str, ...]:
        """Paths whose content or mode differs between two trees, sorted."""
        return tuple(path for path, _, _ in self.differences(tree_a, tree_b))

    def diff(self, tree_a: str, tree_b: str, paths: tuple[str, ...] | None = None) -> str:
        """Unified diff from ``tree_a`` to ``tree_b``, of all files or of ``paths`` (taken literally)."""
        if tree_a == tree_b:
            return ""
        only = [] if paths is None else ["--", *paths]
        how = ("-p", "--no-ext-diff", "--no-textconv", "--no-renames")
        out = self.git("--literal-pathspecs", "diff-tree", *how, tree_a, tree_b, *only)
        return out.decode("utf-8", "replace")

    # -- writing --------------------------------------------------------------------------------

    def write_tree(self, base_tree: str, changes: Mapping[str, bytes | None]) -> str:
        """The id of ``base_tree`` with files replaced (bytes) or removed (``None``); new objects are stored.

        A file that exists keeps its mode. ``StateError`` for a path that climbs out, is absolute or names a ``.git``.
        """
        entries: dict[str, tuple[str, str] | None] = {}
        for path, data in changes.items():
            if data is None:
                entries[path] = None
                continue
            old = self.entry(base_tree, path) if is_safe_path(byte_path(path)) else None
            mode = old[0] if old and old[0] in (FILE, EXECUTABLE) else FILE
            entries[path] = (mode, write_loose(self.git_dir, "blob", data))
        return self.write_entries(base_tree, entries)

    def write_entries(self, base_tree: str, changes: Mapping[str, tuple[str, str] | None]) -> str:
        """Like ``write_tree`` for (mode, object id) of objects that are already stored."""
        nested: dict[bytes, object] = {}
        for path, entry in sorted(changes.items()):
            parts = byte_path(path).split(b"/")
            if not is_safe_path(byte_path(path)):
                raise StateError(f"{path!r} does not lie inside the repository; nothing is written for it")
            level = nested
            for part in parts[:-1]:
                below = level.setdefault(part, {})
                if not isinstance(below, dict):
                    below = level[part] = {}
                level = below
            level[parts[-1]] = entry
        return self._write_level(base_tree, nested) or EMPTY_TREE

    def _write_level(self, tree: str | None, changes: Mapping[bytes, object]) -> str | None:
        entries = dict(self.entries(tree)) if tree else {}
        for name, change in changes.items():
            if isinstance(change, dict):
                old = entries.get(name)
                below = self._write_level(old[1] if old and old[0] == FOLDER else None, change)
                if below is None:
                    if old and old[0] == FOLDER:
                        del entries[name]
                else:
                    entries[name] = (FOLDER, below)
            elif change is None:
                entries.pop(name, None)
            else:
                assert isinstance(change, tuple)
                entries[name] = change
        if not entries:
            return None
        tree = write_loose(self.git_dir, "tree", format_tree(entries))
        self._trees[tree] = entries
        return tree
