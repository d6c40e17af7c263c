"""Running git: the program, and what it may know of its surroundings.

Git runs without any user's or system's configuration, asks nothing, and fetches nothing on its own. What needs the
user's proxy and credentials is in ``sources``.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from handoff.errors import StateError

TRUSTED = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
"""For a folder that the caller named: its owner need not be the current user."""


@functools.cache
def git_program() -> str:
    """The git program. ``StateError`` where none is installed."""
    found = shutil.which("git")
    if found is None:
        raise StateError("git is not installed; install it with the system's package manager")
    return found


def git_environment() -> dict[str, str]:
    """What git may know of its surroundings: where programs are, and no configuration of any user."""
    folders = dict.fromkeys([str(Path(git_program()).parent), *os.defpath.split(os.pathsep)])
    return {
        "PATH": os.pathsep.join(folder for folder in folders if folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "HOME": os.devnull,
        "LC_ALL": "C",
    }


def run_git(*arguments: str | Path, stdin: bytes | None = None, extra: Mapping[str, str] | None = None) -> bytes:
    """Output of one git command without user configuration. ``StateError`` carries git's own words."""
    environment = git_environment() | dict(extra or {})
    done = subprocess.run(
        [git_program(), *map(str, arguments)], input=stdin, capture_output=True, check=False, env=environment
    )
    if done.returncode:
        verb = next((str(a) for a in arguments if not str(a).startswith("-") and "/" not in str(a)), "")
        raise StateError(f"git {verb} failed: {done.stderr.decode('utf-8', 'replace').strip()[-500:]}")
    return done.stdout
