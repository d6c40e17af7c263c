"""What the jail keeps in."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handoff.errors import SandboxError
from handoff.sandbox import Limits, Sandbox, bubblewrap, open_sandbox, python_paths

pytestmark = pytest.mark.usefixtures("bubblewrap")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def sandbox(work: Path) -> Iterator[Sandbox]:
    reason = bubblewrap.missing()
    if reason is not None:
        pytest.skip(reason)
    opened = open_sandbox("bubblewrap", work, read_only=python_paths())
    yield opened
    opened.close()


def test_only_the_work_folder_can_be_written(sandbox: Sandbox, work: Path, tmp_path: Path) -> None:
    """Everything else of the host is read-only or not there; what is written to /tmp stays inside."""
    (tmp_path / "precious").write_text("safe")
    for place in ("/usr/x", "/etc/x", "/x", "/dev/x", "/bin/x", "/proc/x", f"{sys.prefix}/x", f"{tmp_path}/x"):
        assert sandbox.run(f"echo bad > {place}").exit_code != 0, place
    assert sandbox.run("echo fine > /tmp/inside && cat /tmp/inside").output == "fine\n"
    assert sandbox.run("echo fine > file; rm -rf /etc /dev /tmp /repo /repo/* 2>/dev/null; ls -A").output == ""
    assert (tmp_path / "precious").read_text() == "safe"
    assert not Path("/tmp/inside").exists()
    assert work.is_dir()


def test_a_link_out_leads_nowhere(sandbox: Sandbox, tmp_path: Path) -> None:
    """The host's files are not there to point to."""
    (tmp_path / "secret").write_text("swordfish")
    done = sandbox.run(f"ln -s {tmp_path}/secret a; ln -s ../secret b; cat a b; cat /proc/1/root/{tmp_path}/secret")
    assert "swordfish" not in done.output
    assert done.exit_code != 0


def test_no_home_no_account_and_no_key_is_there(sandbox: Sandbox) -> None:
    """The accounts are made up, and homes and settings of the host are absent."""
    assert sandbox.run("cut -d: -f1 /etc/passwd").output == "agent\nnobody\n"
    for place in ("/home", "/var", "/run", "/mnt", "/srv", "/opt", "/etc/ssh", "/etc/shadow", "/etc/gitconfig"):
        assert sandbox.run(f"test -e {place}").exit_code == 1, place
    assert sandbox.run("whoami; echo ~; hostname").output == "agent\n/tmp\nsandbox\n"


def test_the_network_is_closed(sandbox: Sandbox) -> None:
    """Not even a server on this machine's loopback can be reached."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = sandbox.run(f"exec 9<>/dev/tcp/127.0.0.1/{port}")
    assert "refused" in done.output
    assert "unreachable" in sandbox.run("exec 9<>/dev/tcp/192.0.2.1/80").output
    assert len(sandbox.run("tail -n +3 /proc/net/dev").output.splitlines()) == 1


def test_no_other_process_can_be_seen_or_stopped(sandbox: Sandbox) -> None:
    """Processes have their own numbers inside, and the list shows no path of the host."""
    done = sandbox.run(f"kill -9 {os.getpid()}; cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "No such process" in done.output
    assert str(Path.cwd()) not in done.output


def test_there_is_no_way_to_more_rights(sandbox: Sandbox) -> None:
    """No capability, no new user namespace, no effect of a set-user-id program, no raised limit."""
    assert set(sandbox.run("grep ^Cap /proc/self/status | cut -f2").output.split()) == {"0" * 16}
    assert sandbox.run("grep NoNewPrivs /proc/self/status | cut -f2").output == "1\n"
    assert sandbox.run("unshare -U true").exit_code != 0
    assert sandbox.run("mount -t tmpfs none /tmp").exit_code != 0
    assert sandbox.run("ulimit -f unlimited").exit_code != 0
    assert sandbox.run("echo 1 > /proc/sys/kernel/pid_max; echo c > /proc/sysrq-trigger").exit_code != 0


def test_temporary_memory_is_bounded(sandbox: Sandbox) -> None:
    """/tmp and /dev/shm live in memory, so they end before the machine's does."""
    for place in ("/tmp", "/dev/shm"):
        size = int(sandbox.run(f"df -k --output=size {place} | tail -1").output)
        assert size <= 512 << 10


def test_a_fork_bomb_is_stopped(work: Path) -> None:
    """Its processes hardly live long enough to be counted. (This one would end by itself, after 2,000 of them.)"""
    with contextlib.closing(open_sandbox("bubblewrap", work, limits=Limits(processes=60, wall_s=20))) as sandbox:
        bomb = "bomb() { [ $1 -le 0 ] || { bomb $(($1 - 1)) | bomb $(($1 - 1)) & }; sleep 0.5; }; bomb 9; sleep 3"
        done = sandbox.run(bomb)
        assert "more than 60 processes" in done.notice or "unavailable" in done.output
        assert sandbox.run("sleep 0.7; echo on; ls -d /proc/[0-9]* | wc -l").output.startswith("on\n")


def test_the_jail_dies_with_its_parent(work: Path) -> None:
    """A killed parent leaves no process behind, not even one that ignores signals."""
    code = (
        "import sys, time; from pathlib import Path; from handoff.sandbox import open_sandbox\n"
        "s = open_sandbox('bubblewrap', Path(sys.argv[1]))\n"
        "s.run(\"(trap '' HUP TERM; while :; do echo x >> beat; sleep 0.02; done) & sleep 0.1\")\n"
        "print('up', flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(work)], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"up\n"
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    time.sleep(0.3)
    beat = (work / "beat").stat().st_size
    assert beat > 0
    time.sleep(0.2)
    assert (work / "beat").stat().st_size == beat


def test_python_of_this_environment_works_inside(sandbox: Sandbox) -> None:
    """The interpreter's folders are shown read-only, and its programs come first on the path."""
    done = sandbox.run("python -c 'import pytest, sys; print(sys.prefix)'")
    assert done.output == f"{sys.prefix}\n"


def test_the_work_folder_cannot_be_shadowed(work: Path) -> None:
    """A read-only folder that would hide the jail's own is refused."""
    with pytest.raises(SandboxError, match="cannot be shown"):
        open_sandbox("bubblewrap", work, read_only=[Path("/")])


def test_the_reason_for_a_missing_bubblewrap_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """``handoff doctor`` shows it."""
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: None)
    reason = bubblewrap.missing.__wrapped__()
    assert reason is not None
    assert "apt install bubblewrap" in reason


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become an ordinary user")
def test_it_works_for_an_ordinary_user_too() -> None:
    """User namespaces are enough; a fork bomb runs into the kernel's own limit then."""
    limits = Limits(processes=20)
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        script = bubblewrap.limits_script(limits, processes=True)
        script += "; id -u; echo x > made; cat made; exec sh -c 'for i in $(seq 40); do sleep 3 & done'"
        done = subprocess.run(
            ["bwrap", *bubblewrap.jail(Path(name), limits=limits), "--", "bash", "-c", script],
            capture_output=True, text=True, check=False, user=65534, group=65534, extra_groups=[], cwd="/", timeout=20,
        )  # fmt: skip
    assert done.stdout.splitlines()[:2] == ["1000", "x"], done.stderr
    assert "annot fork" in done.stderr
