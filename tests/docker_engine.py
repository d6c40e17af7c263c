"""A docker engine and an image for the tests that need one: the machine's own, or a private one where we are root.

No registry is asked. The image is a minimal Debian with Python and git, made once by ``debootstrap`` and kept in the
user's cache folder. Where nothing of this can be had the tests skip, with the reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

IMAGE = "handoff-test:base"


class Unavailable(Exception):
    """No engine or no image; the message says why."""


@contextmanager
def engine() -> Iterator[str]:
    """The name of an image; ``DOCKER_HOST`` names its engine meanwhile."""
    if shutil.which("docker") is None:
        raise Unavailable("docker is not installed")
    if _answers():
        yield _image()
        return
    if os.getuid() != 0 or shutil.which("dockerd") is None:
        raise Unavailable("no docker engine answers, and none can be started here (that needs root and dockerd)")
    with tempfile.TemporaryDirectory(prefix="handoff-docker-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        before = os.environ.get("DOCKER_HOST")
        os.environ["DOCKER_HOST"] = f"unix://{folder}/engine.sock"
        daemon = _start(folder)
        try:
            yield _image()
        finally:
            daemon.terminate()
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(timeout=30)
            daemon.kill()
            daemon.wait()
            if before is None:
                del os.environ["DOCKER_HOST"]
            else:
                os.environ["DOCKER_HOST"] = before


def _answers() -> bool:
    done = subprocess.run(["docker", "version", "--format", "{{.Server.Version}}"], capture_output=True, check=False)
    return done.returncode == 0 and bool(done.stdout.strip())


def _start(folder: Path) -> subprocess.Popen[bytes]:
    for network in (["--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false"],):
        with (folder / "log").open("wb") as log:
            daemon = subprocess.Popen(
                ["dockerd", "--host", os.environ["DOCKER_HOST"], "--pidfile", str(folder / "pid"),
                 "--data-root", str(folder / "data"), "--exec-root", str(folder / "exec"), *network],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        for _ in range(300):
            if daemon.poll() is not None:
                break
            if _answers():
                return daemon
            time.sleep(0.1)
        daemon.kill()
        daemon.wait()
    said = (folder / "log").read_text("utf-8", "replace").strip().splitlines()
    raise Unavailable(f"dockerd does not start here: {said[-1] if said else 'it gives no reason'}")


def _image() -> str:
    named = os.environ.get("HANDOFF_TEST_IMAGE")
    if named:
        return named
    if subprocess.run(["docker", "image", "inspect", IMAGE], capture_output=True, check=False).returncode != 0:
        subprocess.run(["docker", "import", str(_archive()), IMAGE], check=True, capture_output=True)
    return IMAGE


def _archive() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "handoff-data"
    kept = cache / "docker-base.tar"
    if kept.exists():
        return kept
    if os.getuid() != 0 or shutil.which("debootstrap") is None:
        raise Unavailable(f"there is no image {IMAGE}; name one with bash, python3 and git in HANDOFF_TEST_IMAGE")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="handoff-image-") as name:
        root = Path(name) / "root"
        argv = ["debootstrap", "--variant=minbase", "--include=git,python3", "bookworm", str(root)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"debootstrap cannot make an image here: {done.stdout.strip()[-200:]}")
        for place in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
            shutil.rmtree(root / place, ignore_errors=True)
        aside = kept.with_suffix(".partial")
        subprocess.run(["tar", "-C", str(root), "--exclude=./dev/*", "-cf", str(aside), "."], check=True)
        aside.rename(kept)
    return kept
