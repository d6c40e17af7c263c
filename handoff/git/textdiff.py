"""What ``git diff`` prints of one file, byte for byte: git itself compares the two."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from pathlib import Path

from handoff.errors import StateError
from handoff.git.importer import FileState
from handoff.git.objects import EXECUTABLE, SYMLINK
from handoff.git.program import git_environment, git_program

_OPTIONS = ("--no-index", "--full-index", "--no-prefix", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")


@functools.lru_cache(maxsize=64)
def text_diff(path: str, old: FileState, new: FileState) -> bytes:
    """The diff of a file with full ids; ``None`` for a side: there is no file. ``path``: relative, safe, without a
    letter that git would quote. ``StateError`` when git fails."""
    with tempfile.TemporaryDirectory(prefix="handoff-diff-") as folder:
        names = []
        for side, state in (("a", old), ("b", new)):
            names.append(f"{side}/{path}" if state is not None else os.devnull)
            if state is not None:
                _put(Path(folder, side, path), state)
        extra = {"GIT_CEILING_DIRECTORIES": folder, "GIT_ATTR_NOSYSTEM": "1"}
        done = subprocess.run(
            [git_program(), "diff", *_OPTIONS, "--", *names],
            cwd=folder,
            env=git_environment() | extra,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    if done.returncode not in (0, 1):
        raise StateError(f"git diff failed: {done.stderr.decode('utf-8', 'replace').strip()[-500:]}")
    head, end, rest = done.stdout.partition(b"\n")
    name = path.encode("utf-8", "surrogateescape")
    return b"diff --git a/" + name + b" b/" + name + end + rest if head else b""


def _put(place: Path, state: tuple[str, bytes]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    mode, data = state
    if mode == SYMLINK:
        place.symlink_to(os.fsdecode(data))
        return
    place.write_bytes(data)
    place.chmod(0o755 if mode == EXECUTABLE else 0o644)
