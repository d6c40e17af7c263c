"""What only containers have: images, an engine, owners, and what a killed process leaves behind."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handoff.errors import SandboxError
from handoff.sandbox import Limits, Mount, available, docker, engine, open_sandbox
from tests.sandbox.conftest import Open

needs_engine = pytest.mark.docker


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def containers() -> list[str]:
    return sorted(engine.containers(engine.LABEL))


# -- without an engine ----------------------------------------------------------------------------


@pytest.fixture
def forgetful() -> Iterator[None]:
    engine.missing.cache_clear()
    yield
    engine.missing.cache_clear()


@pytest.mark.usefixtures("forgetful")
def test_the_reason_for_a_missing_docker_names_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine.shutil, "which", lambda name: None)
    reason = available()["docker"]
    assert reason is not None and "apt install docker.io" in reason
    with pytest.raises(SandboxError, match="not installed"):
        open_sandbox("docker", tmp_path, image="x")


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ({"ServerErrors": ["Cannot connect to the engine"]}, 1, "Cannot connect"),
        ({"ServerErrors": ["permission denied"]}, 0, "permission denied"),
        ({"ServerVersion": "27.0", "OSType": "windows"}, 0, "windows"),
        ("no JSON", 1, "group docker"),
        ({"ServerVersion": "27.0", "OSType": "linux", "NCPU": 4, "SecurityOptions": None}, 0, None),
    ],
)
def test_an_engine_that_does_not_answer_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, answer: object, code: int, said: str | None
) -> None:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    done = subprocess.CompletedProcess(["docker"], code, text.encode(), b"docker: no engine")
    monkeypatch.setattr(engine.shutil, "which", lambda name: "/usr/bin/docker")
    monkeypatch.setattr(engine, "ask", lambda *arguments, **more: done)
    reason = engine.missing()
    assert (reason is None) if said is None else (reason is not None and said in reason)


@pytest.mark.parametrize("image", ["", "-v/:/host", "a b", "--privileged", "x\ny", "a" * 300, "ü"])
def test_a_name_that_is_none_never_reaches_the_command_line(image: str) -> None:
    with pytest.raises(SandboxError, match="cannot be the name"):
        engine.image_facts(image)


@pytest.mark.parametrize(
    ("version", "is_open"), [("20.10.24+dfsg1", True), ("24.0.9", True), ("25.0.0", False), ("master", False)]
)
def test_an_engine_that_filters_too_little_is_said_to(version: str, is_open: bool) -> None:
    found = engine.Engine(version=version, cpus=1, is_rootless=False, is_remapped=False)
    assert bool(found.remark) == is_open


def test_only_containers_of_dead_processes_of_this_machine_are_leftovers() -> None:
    mine = engine.owner()
    machine = mine.rpartition("/")[0].rpartition("/")[0]
    assert not engine._is_dead(mine)
    assert engine._is_dead(f"{machine}/{os.getpid()}/1")
    assert engine._is_dead(f"{machine}/4194999/77")
    for other in (f"other/{os.getpid()}/1", "", "x", f"{machine}/abc/1", f"{machine}//"):
        assert not engine._is_dead(other)


def test_the_options_close_what_they_should(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also for an image that asks for the opposite."""
    known = engine.Engine(version="27", cpus=1, is_rootless=False, is_remapped=True)
    monkeypatch.setattr(engine, "engine", lambda: known)
    facts = engine.Image(
        Env=("PATH=/opt/env/bin:/bin", "LD_PRELOAD=/x"), Volumes={"/data": {}, "/a:b": {}, "x": {}, "/tmp": {}}
    )
    odd = tmp_path / 'with, "commas"'
    odd.mkdir()
    given = docker.container(
        odd, limits=Limits(), facts=facts, read_only=[], env={"A": "b"}, root="/testbed", mounts=[]
    )  # fmt: skip
    pairs = list(itertools.pairwise(given))
    for pair in (
        ("--network", "none"), ("--cap-drop", "ALL"), ("--security-opt", "no-new-privileges"), ("--pull", "never"),
        ("--log-driver", "none"), ("--entrypoint", "bash"), ("--userns", "host"), ("--cpus", "1"),
        ("--memory", "2048m"), ("--memory-swap", "2048m"), ("--pids-limit", "260"),
        ("--env", "PATH=/opt/env/bin:/bin"), ("--env", "HOME=/tmp"), ("--env", "HTTPS_PROXY="), ("--env", "A=b"),
    ):  # fmt: skip
        assert pair in pairs, pair
    assert "--read-only" in given and "--no-healthcheck" in given and "--privileged" not in given
    memory = [value for key, value in pairs if key == "--tmpfs"]
    assert [value.split(":")[0] for value in memory] == ["/tmp", "/var/tmp", "/run", "/data"]
    assert all("nosuid" in value and "size=" in value and "nr_inodes=" in value for value in memory)
    (bound,) = [value for key, value in pairs if key == "--mount"]
    assert bound == f'type=bind,"source={tmp_path}/with, ""commas""","target=/testbed"'


# -- with an engine -------------------------------------------------------------------------------


@needs_engine
@pytest.mark.usefixtures("docker_image")
def test_nothing_is_left_in_the_engine(opened: Open, work: Path) -> None:
    before = containers()
    sandbox = opened("docker", work)
    helper = sandbox.spawn(["sleep", "1000"])
    sandbox.run("sleep 1000 & sleep 0.05")
    sandbox.run("sleep 9", 0.1)
    assert len(containers()) > len(before)
    sandbox.close()
    sandbox.close()
    assert containers() == before
    assert helper.poll() is not None


@needs_engine
@pytest.mark.parametrize("command", ["sleep 1000", "trap '' TERM HUP; while :; do echo x >> beat; sleep 0.02; done"])
def test_a_container_dies_with_its_parent(command: str, docker_image: str, work: Path) -> None:
    """Killed in the middle of a command, of whatever kind."""
    before = containers()
    code = (
        "import sys; from pathlib import Path; from handoff.sandbox import open_sandbox\n"
        f"s = open_sandbox('docker', Path(sys.argv[1]), image={docker_image!r})\n"
        "print('up', flush=True); s.run(sys.argv[2])"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(work), command], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"up\n"
    time.sleep(0.3)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 15
    while containers() != before and time.monotonic() < until:
        time.sleep(0.2)
    assert containers() == before


@needs_engine
def test_what_a_killed_process_left_is_removed_by_the_next(docker_image: str, work: Path) -> None:
    """And what belongs to one that lives, here or elsewhere, is not."""
    machine = engine.owner().rpartition("/")[0].rpartition("/")[0]
    made = {}
    for name, owner in {"dead": f"{machine}/4194999/77", "alive": engine.owner(), "else": "other/1/1"}.items():
        labels = ["--label", f"{engine.LABEL}=test", "--label", f"{engine.OWNER}={owner}"]
        done = engine.ask("run", "-d", "--network", "none", *labels, docker_image, "sleep", "100")
        made[name] = done.stdout.decode().strip()
    try:
        assert engine.remove_leftovers() == 1
        assert set(containers()) >= {made["alive"], made["else"]}
        assert made["dead"] not in containers()
    finally:
        engine.remove(*made.values())


@needs_engine
def test_the_work_folder_is_given_back(opened: Open, work: Path) -> None:
    """Files made inside belong to whoever opened it, and no set-user-id bit is left on them."""
    (work / "old").write_text("x")
    sandbox = opened("docker", work)
    sandbox.run("id -u > who; mkdir -p a/b; cp /bin/true a/b/t; chmod 6777 a/b/t; echo y >> old; ln -s /etc/passwd l")
    assert (work / "who").read_text().strip() not in ("", "0")
    sandbox.close()
    for place in (work, *work.rglob("*")):
        found = place.lstat()
        assert (found.st_uid, found.st_gid) == (os.getuid(), work.parent.stat().st_gid)
        assert os.getuid() != 0 or found.st_mode & 0o6000 == 0 or place.is_symlink()
    assert (work / "old").read_text() == "xy\n"
    assert Path("/etc/passwd").stat().st_uid == 0


@needs_engine
def test_an_image_decides_where_and_with_which_programs(opened: Open, docker_image: str, work: Path) -> None:
    """Its own working folder and path, unless it is told; its volumes are no way to the disk."""
    image = "handoff-test:task"
    made = engine.ask("create", "--network", "none", docker_image, "true").stdout.decode().strip()
    try:
        changes = ("WORKDIR /testbed", "ENV PATH=/opt/env/bin:/usr/bin:/bin", "ENV MARK=image", "VOLUME /data",
                   "ENTRYPOINT false", "USER root", f"LABEL {engine.OWNER}=x")  # fmt: skip
        options = [part for change in changes for part in ("--change", change)]
        assert engine.ask("commit", *options, made, image).returncode == 0
        sandbox = opened("docker", work, image=image)
        assert sandbox.root == "/testbed"
        seen = sandbox.run("pwd; echo $PATH $MARK; id -u; df -k --output=size /data | tail -1").output.split()
        assert seen[:3] == ["/testbed", "/opt/env/bin:/usr/bin:/bin", "image"]
        assert seen[3] != "0" and int(seen[4]) <= 1 << 20
        sandbox.close()
        elsewhere = opened("docker", work, image=image, root="/workspace/x")
        assert elsewhere.run("pwd").output == "/workspace/x\n"
        elsewhere.close()
    finally:
        engine.remove(made)
        engine.ask("image", "rm", "--force", image)


@needs_engine
def test_no_proxy_of_the_user_is_handed_over(
    opened: Open, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker's own program would, with the password in it."""
    (tmp_path / "config.json").write_text(
        json.dumps({"proxies": {"default": {"httpProxy": "http://u:swordfish@p:1", "noProxy": "swordfish"}}})
    )
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    sandbox = opened("docker", work)
    assert "swordfish" not in sandbox.run("env; cat /proc/1/environ").output


@needs_engine
def test_an_image_that_is_not_here_is_not_fetched(docker_image: str, work: Path) -> None:
    with pytest.raises(SandboxError, match="docker pull nobody/has-this:1"):
        open_sandbox("docker", work, image="nobody/has-this:1")
    with pytest.raises(SandboxError, match="needs an image"):
        open_sandbox("docker", work)
    with pytest.raises(SandboxError, match="cannot be shown"):
        open_sandbox("docker", work, image=docker_image, root="/etc/x")
    assert list(work.iterdir()) == []


@needs_engine
def test_what_is_shown_beside_can_be_read_written_and_called(opened: Open, work: Path, tmp_path: Path) -> None:
    """As a program that acts by itself needs it: its settings, a folder for what it writes, a socket to its model."""
    given, out = tmp_path / "given", tmp_path / "out"
    given.mkdir()
    out.mkdir()
    (given / "prompt").write_text("Fix it.")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(out / "door"))
        listener.listen()
        mounts = (Mount(given, "/agent/given"), Mount(out, "/agent/out", is_writable=True))
        sandbox = opened("docker", work, mounts=mounts)
        assert sandbox.run("cat /agent/given/prompt").output == "Fix it."
        assert sandbox.run("echo > /agent/given/x").exit_code != 0
        assert sandbox.run("echo done > /agent/out/x").exit_code == 0
        code = "import socket; socket.socket(socket.AF_UNIX).connect('/agent/out/door')"
        assert sandbox.run(f'python3 -c "{code}"').exit_code == 0
        sandbox.close()
    assert (out / "x").read_text() == "done\n"
    assert {(p.stat().st_uid, p.stat().st_gid) for p in (out, out / "x")} == {(os.getuid(), out.parent.stat().st_gid)}
    for place in ("/etc/x", "/repo/x", "/proc"):
        with pytest.raises(SandboxError, match="nothing can be shown"):
            opened("docker", work, mounts=(Mount(given, place),))
