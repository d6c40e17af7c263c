"""Laying a state out on disk for a successor, and storing what the successor leaves (``docs/science.md §2``).

The work tree is the exact content of the state's tree, with a ``.git`` that knows the base commit and its ancestors
and nothing else: a branch ``main`` at the base, no tag, remote, reflog, alternate or stray object. The predecessor's
changes are uncommitted. Per base commit a template (checkout and ``.git``) is made once beside the mirror; a
layout mounts it as the lower layer of an overlay, or copies it where overlays cannot be mounted.

What a sandboxed program did to its ``.git`` is never trusted: ``WorkTree.tree`` reads plain files and asks only
the mirror's own git, and nothing here follows a symbolic link of the work tree.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from handoff.errors import StateError
from handoff.states.objects import (
    EXECUTABLE,
    FILE,
    FOLDER,
    SUBMODULE,
    SYMLINK,
    Entries,
    byte_path,
    is_safe_name,
    object_id,
    text_path,
    write_loose,
)
from handoff.states.repositories import Repository, git_environment, git_program, run_git

LARGEST_FILE = 256 * 1024 * 1024
"""Bytes. A larger file in a work tree makes ``WorkTree.tree`` refuse."""

_DETACH = 2
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


@functools.cache
def overlay_reason() -> str | None:
    """Why overlay mounts cannot be used here; ``None`` when they work. Tried once, in a temporary folder."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "only root can mount an overlay that the sandbox sees"
    try:
        with tempfile.TemporaryDirectory(prefix="handoff-overlay-") as folder:
            return _try_overlay(Path(folder))
    except OSError as error:
        return f"overlay mounts do not work here ({error.strerror})"


def _try_overlay(folder: Path) -> str | None:
    for name in ("lower", "upper", "work", "merged"):
        (folder / name).mkdir()
    (folder / "lower" / "file").write_text("x")
    try:
        _mount_overlay(folder / "lower", folder / "upper", folder / "work", folder / "merged")
    except OSError as error:
        return f"overlay mounts are refused here ({error.strerror})"
    try:
        (folder / "merged" / "file").unlink()
        whiteout = (folder / "upper" / "file").lstat()
        return None if _is_whiteout(whiteout) else "overlay mounts here mark removed files in an unknown way"
    finally:
        _unmount(folder / "merged")


def lay_out(repository: Repository, base_commit: str, tree: str, destination: Path) -> WorkTree:
    """Lay ``tree`` out below ``destination``, a folder that is made here and removed by ``close``.

    The successor's folder is ``WorkTree.path``. What an interrupted layout left at ``destination`` is removed first.
    ``StateError``: the commit or tree is missing, or the tree holds names that cannot be laid out safely.
    """
    base_commit = repository.commit_id(base_commit)
    base_tree = repository.tree_of(base_commit)
    differences = list(repository.differences(base_tree, tree))  # also checks every name that differs
    template = _template(repository, base_commit, base_tree)
    _remove(destination)
    path = destination / "repo"
    path.mkdir(parents=True)
    is_overlay = overlay_reason() is None and _lay_over(template / "repo", destination, path)
    try:
        if not is_overlay:
            _copy(template / "repo", path)
        _apply(repository, differences, path)
    except BaseException:
        _remove(destination)
        raise
    return WorkTree(repository, base_tree, tree, destination, template, is_overlay)


class WorkTree:
    """A state on disk. A context manager; ``close`` removes it."""

    def __init__(
        self, repository: Repository, base_tree: str, tree: str, destination: Path, template: Path, is_overlay: bool
    ) -> None:
        self.path = destination / "repo"
        """The repository's root on disk: what the sandbox binds."""
        self.is_overlay = is_overlay
        self._repository = repository
        self._base_tree = base_tree
        self._tree = tree
        self._destination = destination
        self._template = template

    def __enter__(self) -> WorkTree:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Unmount and remove. May be called twice."""
        _remove(self._destination)

    def tree(self) -> str:
        """Store the present content in the mirror; its tree id.

        New files that the repository's own ignore rules name are left out; files of the base or of the state that was
        laid out are kept whatever the rules say. Sockets, pipes and devices are left out, and so is every ``.git``.
        """
        if self.is_overlay:
            changes = dict(_read_upper(self._destination / "upper", self._repository, self._base_tree))
        else:
            changes = dict(_read_all(self.path, self._repository, self._base_tree))
        known = {path for path, _, new in self._repository.differences(self._base_tree, self._tree) if new is not None}
        fresh = [
            path
            for path, entry in changes.items()
            if entry is not None and path not in known and self._repository.entry(self._base_tree, path) is None
        ]
        for path in _ignored(self.path, self._repository, fresh):
            del changes[path]
        return self._repository.write_entries(self._base_tree, changes)


# -- the template ---------------------------------------------------------------------------------


def _template(repository: Repository, base_commit: str, base_tree: str) -> Path:
    """The folder that holds ``repo``: a clean checkout of the base with its own ``.git``. Made once, under the lock."""
    template = repository.git_dir / "handoff-templates" / base_commit
    if template.is_dir():
        return template
    repository.files(base_tree)  # refuses unsafe names anywhere in the tree
    with repository.lock():
        if template.is_dir():
            return template
        aside = template.with_name(f".{base_commit}.partial")
        _remove(aside)
        repo = aside / "repo"
        repo.mkdir(parents=True)
        _make_git(repository, base_commit, repo / ".git")
        own = ["--git-dir", str(repo / ".git"), "--work-tree", str(repo)]
        run_git(*own, "read-tree", base_commit)
        run_git(*own, "checkout-index", "--all", "--force")
        run_git(*own, "update-index", "-q", "--refresh")
        aside.rename(template)
    return template


def _make_git(repository: Repository, base_commit: str, git_dir: Path) -> None:
    """A repository of the base commit and its ancestors. Objects are copied: an alternate would show later history."""
    for folder in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "info"):
        (git_dir / folder).mkdir(parents=True)
    (git_dir / "HEAD").write_text("ref: refs/heads/main\n")
    (git_dir / "refs/heads/main").write_text(base_commit + "\n")
    (git_dir / "config").write_text(_CONFIG)
    # Bytes on disk are the bytes of the state: no line end conversion, keyword or filter, whatever .gitattributes says.
    (git_dir / "info/attributes").write_text("* -text -ident -filter -working-tree-encoding\n")
    listed = subprocess.Popen(
        [
            *(git_program(), "--git-dir", str(repository.git_dir)),
            *("pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=git_environment(),
    )
    assert listed.stdin and listed.stdout
    listed.stdin.write(base_commit.encode() + b"\n")
    listed.stdin.close()
    stored = subprocess.run(
        [git_program(), "--git-dir", str(git_dir), "index-pack", "--stdin"],
        stdin=listed.stdout,
        capture_output=True,
        check=False,
        env=git_environment(),
    )
    listed.stdout.close()
    if listed.wait() or stored.returncode:
        raise StateError(
            f"the history of {base_commit} cannot be copied from {repository.git_dir} (is it a partial clone?): "
            f"{stored.stderr.decode('utf-8', 'replace').strip()[-300:]}"
        )


# -- laying out -----------------------------------------------------------------------------------


def _lay_over(lower: Path, destination: Path, path: Path) -> bool:
    """Mount the template below ``path``; ``False`` where this folder's file system cannot carry an upper layer."""
    upper, work = destination / "upper", destination / "work"
    upper.mkdir()
    work.mkdir()
    try:
        _mount_overlay(lower, upper, work, path)
    except OSError:
        upper.rmdir()
        shutil.rmtree(work, ignore_errors=True)
        return False
    return True


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mount_overlay(lower: Path, upper: Path, work: Path, target: Path) -> None:
    places = [str(p.resolve()) for p in (lower, upper, work)]
    if any(c in place for place in places for c in ',:\\"'):
        raise OSError(errno.EINVAL, "the path holds a character that mount options cannot carry")
    # Redirects let a folder of the base be renamed; metadata-only copies would leave the upper layer unreadable.
    options = f"lowerdir={places[0]},upperdir={places[1]},workdir={places[2]},redirect_dir=on,metacopy=off,index=off"
    if _libc().mount(b"overlay", os.fsencode(target.resolve()), b"overlay", 0, options.encode()) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _unmount(path: Path) -> None:
    _libc().umount2(os.fsencode(path), _DETACH)


def _remove(destination: Path) -> None:
    """Remove a layout whatever state it is in. Never descends into a mount."""
    path = destination / "repo"
    for _ in range(8):
        if not os.path.ismount(path):
            break
        _unmount(path)
    if os.path.ismount(path):
        raise StateError(f"{path} is still mounted; end the processes that use it, then unmount it")
    if destination.exists():
        shutil.rmtree(destination, onerror=_make_writable)


def _make_writable(function: object, path: str, _: object) -> None:
    """A sandboxed program may have taken write permission from its folders."""
    with suppress(OSError):
        parent = Path(path).parent
        parent.chmod(0o700)
        if Path(path).is_dir() and not Path(path).is_symlink():
            Path(path).chmod(0o700)
            shutil.rmtree(path)
        else:
            Path(path).unlink()


def _copy(source: Path, target: Path) -> None:
    """Copy a template, sharing blocks where the file system can (never inodes: a write would reach the template)."""
    program = shutil.which("cp")
    if program is not None:
        done = subprocess.run(
            [program, "-a", "--reflink=auto", f"{source}/.", str(target)],
            capture_output=True,
            check=False,
            env=git_environment(),
        )
        if done.returncode == 0:
            return
        shutil.rmtree(target)
        target.mkdir()
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)


def _apply(
    repository: Repository,
    differences: list[tuple[str, tuple[str, str] | None, tuple[str, str] | None]],
    root: Path,
) -> None:
    """Make the base checkout into the state. Removals come first, so that a file can give way to a folder."""
    anchor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for path, old, new in differences:
            if old is not None and (new is None or SYMLINK in (old[0], new[0]) or SUBMODULE in (old[0], new[0])):
                _unlink(anchor, byte_path(path), is_folder=old[0] == SUBMODULE)
        for path, _, new in differences:
            if new is not None:
                _write(anchor, byte_path(path), new[0], b"" if new[0] == SUBMODULE else repository.blob(new[1]))
    finally:
        os.close(anchor)


def _parent(anchor: int, path: bytes, *, make: bool) -> tuple[int, bytes]:
    """An open descriptor of the folder that holds ``path``, reached without following any link; and the last name."""
    *folders, name = path.split(b"/")
    here = os.dup(anchor)
    try:
        for folder in folders:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(folder, 0o755, dir_fd=here)
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
    except OSError:
        os.close(here)
        raise
    return here, name


def _unlink(anchor: int, path: bytes, *, is_folder: bool) -> None:
    here, name = _parent(anchor, path, make=False)
    try:
        if is_folder:
            os.rmdir(name, dir_fd=here)
            return
        os.unlink(name, dir_fd=here)
    finally:
        os.close(here)
    folders = path.split(b"/")[:-1]
    while folders:  # git keeps no empty folder
        here, name = _parent(anchor, b"/".join(folders), make=False)
        try:
            os.rmdir(name, dir_fd=here)
        except OSError:
            return
        finally:
            os.close(here)
        folders.pop()


def _write(anchor: int, path: bytes, mode: str, data: bytes) -> None:
    here, name = _parent(anchor, path, make=True)
    try:
        if mode == SUBMODULE:
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=here)
        elif mode == SYMLINK:
            os.symlink(data, name, dir_fd=here)
        else:
            bits = 0o755 if mode == EXECUTABLE else 0o644
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, bits, dir_fd=here)
            try:
                os.fchmod(file, bits)
                view = memoryview(data)
                while view:
                    view = view[os.write(file, view) :]
            finally:
                os.close(file)
    finally:
        os.close(here)


# -- reading back ---------------------------------------------------------------------------------

Change = tuple[str, tuple[str, str] | None]
"""(path, (mode, object id)) of one file that differs from the base; ``None``: it is gone."""


def _is_whiteout(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _read_upper(upper: Path, repository: Repository, base_tree: str) -> Iterator[Change]:
    """What the upper layer of an overlay says about the base."""
    yield from _read_upper_level(os.fsencode(upper), b"", repository, base_tree, base_tree, b"")


def _read_upper_level(
    folder: bytes, prefix: bytes, repository: Repository, tree: str | None, base_tree: str, origin: bytes
) -> Iterator[Change]:
    """One folder of the upper layer over ``tree``, the folder of the base that lies below it (``None``: nothing).

    ``origin``: that folder's path in the base, with a slash at its end.
    """
    below = repository.entries(tree) if tree else {}
    hides_base = bool(prefix) and _mark(folder, "opaque") == b"y"
    seen: set[bytes] = set()
    for name, status in _scan(folder):
        if not is_safe_name(name):
            continue
        seen.add(name)
        old = below.get(name)
        path = prefix + name
        if _is_whiteout(status):
            yield from _gone(path, old, repository)
        elif stat.S_ISDIR(status.st_mode):
            here = folder + b"/" + name
            moved = _moved_from(here, origin)
            if old and (moved is not None or old[0] not in (FOLDER, SUBMODULE)):
                yield from _gone(path, old, repository)
            if moved is not None:
                old = repository.entry(base_tree, text_path(moved))
                if old is not None:
                    yield from _came(path, old, repository)
            inside = old[1] if old and old[0] == FOLDER else None
            below_here = origin + name if moved is None else moved
            yield from _read_upper_level(here, path + b"/", repository, inside, base_tree, below_here + b"/")
        else:
            if old and old[0] == FOLDER:
                yield from _gone(path, old, repository)
            entry = _stored(folder + b"/" + name, status, repository)
            if entry is not None or old is not None:
                yield text_path(path), entry
    if hides_base:
        for name in sorted(below.keys() - seen):
            yield from _gone(prefix + name, below[name], repository)


def _mark(folder: bytes, name: str) -> bytes | None:
    """What the kernel noted on a folder of the upper layer; a sandboxed program cannot write these."""
    try:
        return os.getxattr(folder, f"trusted.overlay.{name}", follow_symlinks=False)
    except OSError:
        return None


def _moved_from(folder: bytes, origin: bytes) -> bytes | None:
    """Where in the base a renamed folder came from; ``None`` for a folder that was not renamed."""
    redirect = _mark(folder, "redirect")
    if redirect is None:
        return None
    return redirect.lstrip(b"/") if redirect.startswith(b"/") else origin + redirect


def _came(path: bytes, entry: tuple[str, str], repository: Repository) -> Iterator[Change]:
    if entry[0] != FOLDER:
        yield text_path(path), entry
        return
    for name, below in sorted(repository.entries(entry[1]).items()):
        yield from _came(path + b"/" + name, below, repository)


def _gone(path: bytes, old: tuple[str, str] | None, repository: Repository) -> Iterator[Change]:
    if old is None:
        return
    if old[0] != FOLDER:
        yield text_path(path), None
        return
    for name, entry in sorted(repository.entries(old[1]).items()):
        yield from _gone(path + b"/" + name, entry, repository)


def _read_all(root: Path, repository: Repository, base_tree: str) -> Iterator[Change]:
    """Every file of a copied work tree against the base. All content is hashed: times can be forged."""
    yield from _read_level(os.fsencode(root), b"", repository, base_tree)


def _read_level(folder: bytes, prefix: bytes, repository: Repository, tree: str | None) -> Iterator[Change]:
    below: Entries = repository.entries(tree) if tree else {}
    seen: set[bytes] = set()
    for name, status in _scan(folder):
        if not is_safe_name(name):
            continue
        old = below.get(name)
        path = prefix + name
        if stat.S_ISDIR(status.st_mode):
            if old and old[0] == SUBMODULE:
                seen.add(name)
                continue
            if old and old[0] == FOLDER:
                seen.add(name)
            yield from _read_level(
                folder + b"/" + name, path + b"/", repository, old[1] if old and old[0] == FOLDER else None
            )
            continue
        entry = _stored(folder + b"/" + name, status, repository, old)
        if entry is not None:
            if old is None or old[0] != FOLDER:
                seen.add(name)
            if entry != old:
                if old and old[0] == FOLDER:
                    seen.add(name)
                    yield from _gone(path, old, repository)
                yield text_path(path), entry
    for name in sorted(below.keys() - seen):
        yield from _gone(prefix + name, below[name], repository)


def _scan(folder: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    with os.scandir(folder) as found:
        listed = sorted((item.name, item.stat(follow_symlinks=False)) for item in found)
    yield from listed


def _stored(
    path: bytes, status: os.stat_result, repository: Repository, old: tuple[str, str] | None = None
) -> tuple[str, str] | None:
    """Store one file or link as a blob; ``None`` for anything that git does not keep."""
    if stat.S_ISLNK(status.st_mode):
        return SYMLINK, write_loose(repository.git_dir, "blob", os.readlink(path))  # noqa: PTH115 - a Path would not keep bytes
    if not stat.S_ISREG(status.st_mode):
        return None
    if status.st_size > LARGEST_FILE:
        raise StateError(f"{text_path(path)} has {status.st_size} bytes; a state stores files up to {LARGEST_FILE}")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(LARGEST_FILE + 1)
    mode = EXECUTABLE if status.st_mode & 0o100 else FILE
    if old is not None and old == (mode, object_id("blob", data)):
        return old
    return mode, write_loose(repository.git_dir, "blob", data)


def _ignored(root: Path, repository: Repository, paths: list[str]) -> list[str]:
    """Which of these new files the ignore rules in the work tree name. Git runs with the mirror's configuration."""
    if not paths:
        return []
    done = subprocess.run(
        [
            *(git_program(), "--git-dir", str(repository.git_dir), "--work-tree", str(root), "-c", "core.bare=false"),
            *("-c", "core.excludesFile=", "-c", "core.fsmonitor=false", "check-ignore", "--no-index", "-z", "--stdin"),
        ],
        input=b"\0".join(map(byte_path, paths)) + b"\0",
        capture_output=True,
        check=False,
        cwd=root,
        env=git_environment(),
    )
    if done.returncode not in (0, 1):  # 1: none is ignored
        said = done.stderr.decode("utf-8", "replace").strip()[-300:]
        raise StateError(f"the ignore rules of {root} cannot be read: {said}")
    asked: Mapping[str, None] = dict.fromkeys(paths)
    return [path for path in map(text_path, done.stdout.split(b"\0")) if path in asked]
