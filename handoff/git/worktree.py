"""Laying a state out on disk for a successor, and storing what the successor leaves (``docs/science.md §2``).

The work tree is the exact content of the state's tree, with a ``.git`` that knows the base commit and its ancestors
and nothing else: a branch ``main`` at the base, no tag, remote, reflog, alternate or stray object. The predecessor's
changes are uncommitted. Per base commit a template (checkout and ``.git``) is made once beside the mirror
(``templates``); a layout mounts it as the lower layer of an overlay, or copies it where overlays cannot be mounted:
with shared blocks where the file system has them. An overlay in a user namespace of its own is not used: only processes
inside that namespace would see it, while the files of a work tree are also written and read from outside the sandbox.

What a sandboxed program did to its ``.git`` is never trusted: ``WorkTree.tree`` reads plain files and asks only
the mirror's own git (``readback``), and nothing here follows a symbolic link of the work tree.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from handoff import folders
from handoff.errors import StateError
from handoff.git.objects import EXECUTABLE, SUBMODULE, SYMLINK, byte_path
from handoff.git.program import git_environment
from handoff.git.readback import LARGEST_FILE, ignored, is_whiteout, read_all, read_upper
from handoff.git.repository import Repository
from handoff.git.templates import Template, take_template
from handoff.git.unheld import Unheld, unheld

__all__ = ["LARGEST_FILE", "WorkTree", "lay_out", "overlay_reason"]

_DETACH = 2


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
        return None if is_whiteout(whiteout) else "overlay mounts here mark removed files in an unknown way"
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
    template = take_template(repository, base_commit)
    try:
        _remove(destination)
        path = destination / "repo"
        destination.mkdir(mode=0o700, parents=True)  # closed to others: the agent may leave set-user-id programs
        path.mkdir()
        is_overlay = overlay_reason() is None and _lay_over(template.repo, destination, path)
        try:
            if not is_overlay:
                _copy(template.repo, path)
            _apply(repository, differences, path)
        except BaseException:
            _remove(destination)
            raise
    except BaseException:
        template.close()
        raise
    return WorkTree(repository, base_tree, tree, destination, template, is_overlay)


class WorkTree:
    """A state on disk. A context manager; ``close`` removes it."""

    def __init__(
        self,
        repository: Repository,
        base_tree: str,
        tree: str,
        destination: Path,
        template: Template,
        is_overlay: bool,
    ) -> None:
        self.path = destination / "repo"
        """The repository's root on disk: what the sandbox binds."""
        self.is_overlay = is_overlay
        self.lacking = template.lacking
        """Objects of earlier commits that are missing in its history, because the source does not give them."""
        self._repository = repository
        self._base_tree = base_tree
        self._tree = tree
        self._destination = destination
        self._template: Template | None = template

    def __enter__(self) -> WorkTree:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Unmount and remove. May be called twice."""
        _remove(self._destination)
        template, self._template = self._template, None
        if template is not None:
            template.close()

    @property
    def unheld(self) -> Unheld:
        """Submodules and LFS pointers of the state: there as an empty folder and as the pointer."""
        return unheld(self._repository, self._tree)

    def tree(self) -> str:
        """Store the present content in the mirror; its tree id.

        New files that the repository's own ignore rules name are left out; files of the base or of the state that was
        laid out are kept whatever the rules say. Sockets, pipes and devices are left out, and so is every ``.git``.
        """
        if self.is_overlay:
            changes = dict(read_upper(self._destination / "upper", self._repository, self._base_tree))
        else:
            changes = dict(read_all(self.path, self._repository, self._base_tree))
        known = {path for path, _, new in self._repository.differences(self._base_tree, self._tree) if new is not None}
        fresh = [
            path
            for path, entry in changes.items()
            if entry is not None and path not in known and self._repository.entry(self._base_tree, path) is None
        ]
        for path in ignored(changes, self._repository, self._base_tree, fresh):
            del changes[path]
        return self._repository.write_entries(self._base_tree, changes)


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
    folders.remove(destination)


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
