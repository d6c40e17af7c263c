"""One bare repository: reading its objects and trees, and writing new ones.

Which repository a name means is in ``repositories``; states of whole trajectories are written by ``importer``.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from handoff.errors import StateError
from handoff.git.locks import locked
from handoff.git.objects import (
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
from handoff.git.program import git_environment, git_program, run_git
from handoff.git.sources import is_partial

_COMMIT = re.compile(r"[0-9a-f]{7,40}")
KEPT_BYTES = 20_000_000_000
"""Bytes that checkouts of bases may take unless told otherwise."""
_CACHED_TREES = 65_536
_KEPT_BLOBS = 1_000
_KEPT_BLOB = 32_768

Fetch = Callable[[Sequence[str]], Sequence[str]]
"""Brings missing objects, by full id; those that the source lacks. ``StateError`` with a remedy: it cannot be asked."""


class Repository:
    """One bare repository. Ids are full SHA-1 hex; paths are text with ``/`` and no leading slash.

    A context manager. ``close`` ends the helper processes; the next call starts them again.
    ``fetch``: how to get objects that a partial clone lacks; without it, they are missing. ``kept_bytes``: disk that
    clean checkouts of unused bases may take (``templates``).
    """

    def __init__(
        self,
        git_dir: Path,
        name: str | None = None,
        fetch: Fetch | None = None,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self.git_dir = git_dir
        self.name = name or git_dir.stem
        self.kept_bytes = kept_bytes
        self.is_partial = is_partial(git_dir)
        """Whether the content of some files may not be here yet."""
        self._fetch = fetch
        self._whole: set[str] = set()
        """Trees and commits whose files were seen to be here."""
        self._refused: dict[str, str] = {}
        """Objects that cannot be had → why, so that no source is asked for one twice."""
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
        """Serialise writers of refs. Readers, and writers of objects, need no lock."""
        with locked(self.git_dir / "handoff.lock"):
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
        if found is None and self.is_partial:
            self._bring([id_])
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

    # -- partial clones -------------------------------------------------------------------------

    def lacking(self, ids: Sequence[str]) -> list[str]:
        """Those of these objects (full ids) that are not here, in the order given."""
        asked = "".join(f"{id_}\n" for id_ in ids).encode("ascii")
        answers = self.git("cat-file", "--batch-check=%(objectname)", "--buffer", stdin=asked).split(b"\n")
        return [id_ for id_, answer in zip(ids, answers, strict=False) if answer.endswith(b" missing")]

    def ensure(self, tree: str) -> None:
        """See that every file of a tree is here: in a partial clone, what is missing is fetched in one request.

        ``StateError`` names the mapping when files cannot be fetched.
        """
        if self.is_partial and tree not in self._whole:
            blobs = dict.fromkeys(id_ for mode, id_ in self.files(tree).values() if mode != SUBMODULE)
            self._bring(self.lacking(list(blobs)))
            self._whole.add(tree)

    def prefetch(self, tree: str) -> None:
        """``ensure`` as far as it goes: for who reads some of the files, and is told by ``blob`` which are missing."""
        with suppress(StateError):
            self.ensure(tree)

    def ensure_history(self, commit: str) -> None:
        """See that every file of a commit and of its ancestors is here (``ensure``)."""
        if self.is_partial and commit not in self._whole:
            self._bring(self.history_lacking(commit))
            self._whole.add(commit)

    def history_lacking(self, commit: str) -> list[str]:
        """Objects of a commit and its ancestors that are not here."""
        listed = self.git("rev-list", "--quiet", "--objects", "--missing=print", commit).decode("utf-8", "replace")
        return [line[1:] for line in listed.split("\n") if line.startswith("?")]

    def _bring(self, ids: Sequence[str]) -> None:
        """Fetch missing objects. ``StateError`` when one cannot be had; the others are here then, where possible."""
        wanted = [id_ for id_ in ids if id_ not in self._refused]
        if wanted:
            try:
                lacked = self._fetch(wanted) if self._fetch else wanted
                why = "its source does not have them either"
                if self._fetch is None:
                    why = f"map {self.name!r} to the URL it was cloned from, or to a whole local clone"
            except StateError as error:
                lacked, why = wanted, str(error)
            self._refused.update(dict.fromkeys(lacked, why))
        missing = [id_ for id_ in ids if id_ in self._refused]
        if missing:
            raise StateError(
                f"{len(missing)} file(s) of {self.name!r} are missing ({missing[0]} the first), the mirror being a "
                f"partial clone: {self._refused[missing[0]]}"
            )

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

    def parents(self, commit: str) -> list[str]:
        """The parents that a commit names, be they here or not. ``StateError`` when the commit is not here."""
        found = self.find(f"{self.commit_id(commit)}^{{commit}}")
        head = (b"" if found is None else found[2]).split(b"\n\n", 1)[0]
        return [line[7:].decode("ascii") for line in head.split(b"\n") if line.startswith(b"parent ")]

    def branch(self, name: str) -> str | None:
        """The commit that a branch points to; ``None`` when there is no such branch."""
        asked = f"refs/heads/{name}^{{commit}}"
        found = self.find(asked) if name.isascii() and not re.search(r"[\s~^:?*\[\\]|\.\.|@\{", name) else None
        return None if found is None else found[0]

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
