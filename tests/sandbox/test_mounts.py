"""What a jail shows beside the work folder, and how a command is ended from outside."""

from __future__ import annotations

import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from handoff.errors import SandboxError
from handoff.sandbox import Limits, Mount, available, open_sandbox, python_paths

pytestmark = pytest.mark.usefixtures("bubblewrap")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    reason = available()["bubblewrap"]
    if reason is not None:
        pytest.skip(reason)
    for name in ("work", "given", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "given" / "prompt").write_text("Fix it.")
    return tmp_path / "work"


def test_mounts_are_shown_and_only_the_writable_one_can_be_changed(work: Path) -> None:
    given, out = work.parent / "given", work.parent / "out"
    mounts = (Mount(given, "/agent/given"), Mount(out, "/agent/out", is_writable=True))
    sandbox = open_sandbox("bubblewrap", work, mounts=mounts)
    try:
        assert sandbox.run("cat /agent/given/prompt").output == "Fix it."
        assert sandbox.run("echo > /agent/given/x").exit_code != 0
        assert sandbox.run("rm /agent/given/prompt").exit_code != 0
        assert sandbox.run("echo > /agent/x").exit_code != 0
        assert sandbox.run("echo done > /agent/out/x; ls").output == ""
    finally:
        sandbox.close()
    assert (out / "x").read_text() == "done\n"
    assert list(work.iterdir()) == []


def test_a_socket_in_a_mount_can_be_reached(work: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(work.parent / "given" / "s"))
    listener.listen()
    mounts = (Mount(work.parent / "given", "/agent/given"),)
    sandbox = open_sandbox("bubblewrap", work, mounts=mounts, read_only=python_paths())
    try:
        code = "import socket; socket.socket(socket.AF_UNIX).connect('/agent/given/s')"
        done = sandbox.run(f'{sys.executable} -I -c "{code}"')
        assert done.exit_code == 0, done.output
    finally:
        sandbox.close()
        listener.close()


@pytest.mark.parametrize("place", ["/usr/x", "/proc/x", "/repo/x", "/repo", "relative", "/a/../b", "/", "/agent/x y"])
def test_nothing_is_shown_over_the_system_or_the_work_folder(work: Path, place: str) -> None:
    with pytest.raises(SandboxError, match="can be shown"):
        open_sandbox("bubblewrap", work, mounts=(Mount(work.parent / "given", place),))


def test_the_host_has_no_places_of_ours(work: Path) -> None:
    with pytest.raises(SandboxError, match="host"):
        open_sandbox("host", work, mounts=(Mount(work.parent / "given", "/agent/given"),))


def test_what_a_writable_mount_grows_by_counts(work: Path) -> None:
    mounts = (Mount(work.parent / "out", "/agent/out", is_writable=True),)
    sandbox = open_sandbox("bubblewrap", work, limits=Limits(disk_mb=16), mounts=mounts)
    try:
        done = sandbox.run("head -c 60M /dev/urandom > /agent/out/big; sleep 5; echo alive")
        assert "grew by more than 16 MB" in done.notice
    finally:
        sandbox.close()


def test_a_command_is_ended_from_another_thread(work: Path) -> None:
    """The next one runs in a new shell."""
    sandbox = open_sandbox("bubblewrap", work)
    stop = threading.Event()
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    started = time.monotonic()
    try:
        done = sandbox.run("echo begun; sleep 60", 60.0, stop=stop)
        assert time.monotonic() - started < 20
        assert (done.output, done.exit_code, done.timed_out) == ("begun\n", None, False)
        assert "Stopped from outside" in done.notice
        assert sandbox.run("echo on", stop=threading.Event()).output == "on\n"
    finally:
        timer.join()
        sandbox.close()
