"""The work folder, handled from outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from handoff.errors import SandboxError
from handoff.sandbox.files import read_file, write_file


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Folders are made, permissions are kept, nothing else is left."""
    write_file(tmp_path, "a/b/run.sh", b"one")
    (tmp_path / "a/b/run.sh").chmod(0o755)
    write_file(tmp_path, "a/b/run.sh", b"two\0")
    assert read_file(tmp_path, "a/b/run.sh") == b"two\0"
    assert (tmp_path / "a/b/run.sh").stat().st_mode & 0o777 == 0o755
    assert [p.name for p in (tmp_path / "a/b").iterdir()] == ["run.sh"]


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../../x", "a\0b", "x" * 300, "link", "folder/x", "here"]
)
def test_a_path_cannot_leave_the_work_folder(tmp_path: Path, path: str) -> None:
    """Neither by its names nor through a link that an agent left there."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("safe")
    work = tmp_path / "work"
    (work / "here").mkdir(parents=True)
    (work / "link").symlink_to(outside / "x")
    (work / "folder").symlink_to(outside)
    with pytest.raises(SandboxError):
        read_file(work, path)
    with pytest.raises(SandboxError):
        write_file(work, path, b"bad")
    assert (outside / "x").read_text() == "safe"
    assert sorted(p.name for p in work.iterdir()) == ["folder", "here", "link"]


def test_a_pipe_does_not_make_the_reader_wait(tmp_path: Path) -> None:
    """Only regular files are read."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SandboxError, match="regular"):
        read_file(tmp_path, "pipe")
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path, "none")
    write_file(tmp_path, "long", b"12345")
    with pytest.raises(SandboxError, match="5 bytes"):
        read_file(tmp_path, "long", limit=4)
