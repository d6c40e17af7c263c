"""A small repository made on the spot, and recordings in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from handoff.git.repositories import Repository, run_git
from handoff.trajectory import Action, Observation, Outcome, Step, Trajectory

FILES: dict[str, bytes] = {
    "README.md": b"A pager.\n",
    "src/pager.py": b"def page(items, size):\n    return items[0:size]\n\n\ndef last(items):\n    return items[-1]\n",
    "src/crlf.txt": b"one\r\ntwo\r\n",
    "src/deep/data.bin": bytes(range(256)),
    "run.sh": b"echo run\n",
    ".gitignore": b"*.pyc\nbuild/\n",
}


def commit(
    git_dir: Path, files: Mapping[str, bytes], message: str, parent: str | None = None, branch: str = "main"
) -> str:
    """One commit of exactly these files on a branch of a bare repository; its id."""
    lines = [b"commit refs/heads/%s\n" % branch.encode(), b"committer A <a@example.invalid> 1700000000 +0000\n"]
    lines.append(b"data %d\n%s\n" % (len(message), message.encode()))
    if parent:
        lines.append(b"from %s\n" % parent.encode())
    lines.append(b"deleteall\n")
    for path, data in files.items():
        lines.append(b'M 100644 inline "%s"\ndata %d\n%s\n' % (path.encode(), len(data), data))
    run_git("--git-dir", git_dir, "fast-import", "--quiet", "--force", stdin=b"".join(lines) + b"\n")
    return run_git("--git-dir", git_dir, "rev-parse", f"refs/heads/{branch}").decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    git_dir = tmp_path / "git" / "pager.git"
    run_git("init", "--quiet", "--bare", "--template=", "--initial-branch=main", git_dir)
    with Repository(git_dir, name="o/pager") as made:
        yield made


@pytest.fixture
def base(repository: Repository) -> str:
    return commit(repository.git_dir, FILES, "Base")


def bash(command: str, output: str = "", exit_code: int = 0) -> Step:
    return Step(
        actions=(Action(tool="bash", arguments=json.dumps({"command": command})),),
        observations=(Observation(text=output, exit_code=exit_code),),
    )


def editor(output: str = "The file has been edited.", **arguments: object) -> Step:
    return Step(
        actions=(Action(tool="str_replace_editor", arguments=json.dumps(arguments)),),
        observations=(Observation(text=output),),
    )


def recording(*steps: Step, base: str | None, patch: str | None = None) -> Trajectory:
    return Trajectory(
        format="chat",
        task="Fix the pager.",
        repo="o/pager",
        base_commit=base,
        steps=steps,
        outcome=Outcome(patch=patch),
    )
