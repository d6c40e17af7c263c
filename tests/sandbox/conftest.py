"""Sandboxes of every kind for the tests of this folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handoff.sandbox import Sandbox, docker, engine, missing, open_sandbox
from tests import docker_engine

BACK_ENDS = ("bubblewrap", "host", pytest.param("docker", marks=pytest.mark.docker))
JAILS = ("bubblewrap", pytest.param("docker", marks=pytest.mark.docker))

Open = Callable[..., Sandbox]


def _forget() -> None:
    for known in (engine.missing, engine.engine, docker._remove_leftovers):
        known.cache_clear()


@pytest.fixture(scope="session")
def docker_image() -> Iterator[str]:
    """The name of an image, and an engine that has it."""
    with contextlib.ExitStack() as stack:
        try:
            image = stack.enter_context(docker_engine.engine())
        except docker_engine.Unavailable as reason:
            pytest.skip(str(reason))
        _forget()
        yield image
    _forget()


@pytest.fixture
def opened(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens sandboxes by name, and closes them after the test. Skips where the back end does not work."""
    with contextlib.ExitStack() as stack:

        def open_one(name: str, workdir: Path, **more: Any) -> Sandbox:
            if name == "docker":
                more = {"image": request.getfixturevalue("docker_image")} | more
            reason = missing(name)
            if reason is not None:
                pytest.skip(f"{name}: {reason}")
            sandbox = open_sandbox(name, workdir, **more)
            stack.callback(sandbox.close)
            return sandbox

        yield open_one
