"""Reading and writing a work folder from outside the jail, after an agent has had its hands on it.

An agent may leave a symbolic link where a file was, or swap a folder for a link at any moment. So a path is
walked one name at a time, each opened relative to the last and never through a link: nothing outside the
work folder can be read or written, whatever happens meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from handoff.errors import SandboxError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_file(workdir: Path, path: str, *, limit: int = 64 << 20) -> bytes:
    """A regular file's bytes. ``FileNotFoundError`` when there is none; ``SandboxError`` for a path that climbs
    out or crosses a link, for anything that is no regular file, and beyond ``limit`` bytes."""
    with _parent(workdir, path) as (folder, name):
        try:
            # A pipe must not make us wait for its other end.
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            raise _explain(error, path) from error
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise SandboxError(f"{path} is not a regular file")
            if found.st_size > limit:
                raise SandboxError(f"{path} has {found.st_size} bytes; more than {limit} are not read")
            with os.fdopen(file, "rb", closefd=False) as stream:
                return stream.read(limit)
        finally:
            os.close(file)


def write_file(workdir: Path, path: str, data: bytes) -> None:
    """Write a regular file, whole or not at all, and the folders above it. It keeps its permissions.

    ``SandboxError`` for a path that climbs out or crosses a link, and where a folder is in the way.
    """
    with _parent(workdir, path, create=True) as (folder, name):
        mode = 0o644
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode):
                raise SandboxError(f"{path} is not a regular file")
            mode = stat.S_IMODE(found.st_mode) & 0o777
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _explain(error, path) from error
        scratch = f".{secrets.token_hex(8)}.partial"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(scratch, flags, mode, dir_fd=folder), "wb") as stream:
                os.fchmod(stream.fileno(), mode)
                stream.write(data)
            os.rename(scratch, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(scratch, dir_fd=folder)
            raise _explain(error, path) from error


def list_folder(workdir: Path, path: str) -> list[str] | None:
    """The names in a folder, sorted, those of folders with a ``/`` behind; ``None`` when it is no folder.

    ``path`` empty or ``.`` is the work folder itself. ``SandboxError`` for a path that climbs out or crosses a link.
    """
    if path in ("", "."):
        return _names(os.open(workdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    with _parent(workdir, path) as (folder, name):
        try:
            return _names(os.open(name, _FOLDER, dir_fd=folder))
        except OSError as error:
            if error.errno == errno.ENOTDIR and not _is_link(name, folder):
                return None
            raise _explain(error, path) from error


def _is_link(name: str, folder: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _names(folder: int) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(f"{e.name}/" if e.is_dir(follow_symlinks=False) else e.name for e in entries)
    finally:
        os.close(folder)


@contextlib.contextmanager
def _parent(workdir: Path, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """The open folder that holds ``path``, and its last name."""
    names = PurePosixPath(path).parts
    if not names or "\0" in path or names[0].startswith("/") or ".." in names:
        raise SandboxError(f"{path!r} does not name a file inside the work folder")
    folder = os.open(workdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names[:-1]:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
            try:
                deeper = os.open(name, _FOLDER, dir_fd=folder)
            except OSError as error:
                raise _explain(error, path) from error
            os.close(folder)
            folder = deeper
        yield folder, names[-1]
    finally:
        os.close(folder)


def _explain(error: OSError, path: str) -> OSError | SandboxError:
    match error.errno:
        case errno.ENOENT:
            return FileNotFoundError(errno.ENOENT, "no such file", path)
        case errno.ELOOP:
            return SandboxError(f"{path} is a symbolic link; use the file it points to")
        case errno.ENOTDIR:
            return SandboxError(f"{path} leads through a file or a symbolic link")
        case errno.EISDIR:
            return SandboxError(f"{path} is a folder")
        case errno.ENAMETOOLONG:
            return SandboxError("the path is too long")
        case _:
            return error
