"""Kata repositories in git: object ids, and one bare store written by one ``git fast-import``.

Each repository is one root commit (its buggy state) under ``refs/heads/<name>``; identities do not depend on when
or where they are written. Trees that takeovers end in are added as loose objects. States of recorded runs are
written by ``handoff/states``.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from handoff.errors import StateError
from handoff.git.locks import locked
from handoff.git.objects import write_loose
from handoff.git.repository import Repository
from handoff.kata.world import Task, World

_PERSON = "kata <kata@example.invalid> 1700000000 +0000"
_MESSAGE = "Base\n"


def _object_id(kind: str, body: bytes) -> str:
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(body)) + body, usedforsecurity=False).hexdigest()


@lru_cache(maxsize=65_536)
def _blob_id(text: str) -> str:
    return _object_id("blob", text.encode("utf-8", "surrogateescape"))


def _tree_objects(files: Mapping[str, str]) -> list[tuple[str, bytes]]:
    """(id, body) of every tree of ``files``, the root last. File modes are all 100644."""
    made: list[tuple[str, bytes]] = []
    blobs = [(name, text) for name, text in files.items() if "/" not in name]
    folders: dict[str, dict[str, str]] = {}
    for path, text in files.items():
        folder, _, rest = path.partition("/")
        if rest:
            folders.setdefault(folder, {})[rest] = text
    entries = [(name.encode(), b"100644 %s\0%s" % (name.encode(), bytes.fromhex(_blob_id(t)))) for name, t in blobs]
    for folder, inside in sorted(folders.items()):
        below = _tree_objects(inside)
        made += below
        # git orders a folder as if its name ended in a slash
        entries.append((folder.encode() + b"/", b"40000 %s\0%s" % (folder.encode(), bytes.fromhex(below[-1][0]))))
    body = b"".join(entry for _, entry in sorted(entries))
    return [*made, (_object_id("tree", body), body)]


def tree_id(files: Mapping[str, str]) -> str:
    """The git tree id of a folder of plain text files (path → text)."""
    return _tree_objects(files)[-1][0]


def commit_id(files: Mapping[str, str]) -> str:
    """The id of the root commit that ``write_repositories`` makes of these files."""
    body = f"tree {tree_id(files)}\nauthor {_PERSON}\ncommitter {_PERSON}\n\n{_MESSAGE}"
    return _object_id("commit", body.encode())


def base_commit(task: Task) -> str:
    """The commit a task starts from."""
    return commit_id(task.files)


def git(git_dir: Path, *arguments: str, stdin: bytes | None = None) -> bytes:
    """Output of one git command on a bare repository. ``StateError`` says what git said."""
    done = subprocess.run(
        ["git", "--git-dir", str(git_dir), *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        env=git_environment(),
    )
    if done.returncode:
        raise StateError(f"git {arguments[0]} on {git_dir.name}: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout


def git_environment() -> dict[str, str]:
    """What git may know of its surroundings: the path of programs, no configuration of any user."""
    return {
        "PATH": os.defpath,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "HOME": os.devnull,
        "LC_ALL": "C",
    }


def write_repositories(world: World, git_dir: Path) -> None:
    """Write every repository of a world into one bare store. Writing again changes nothing."""
    if not (git_dir / "HEAD").exists():
        git_dir.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["git", "init", "--quiet", "--bare", "--template=", "--initial-branch=none", str(git_dir)],
            check=True,
            env=git_environment(),
        )
    refs = git(git_dir, "for-each-ref", "--format=%(objectname) %(refname:strip=2)", "refs/heads").decode().split("\n")
    present = {line for line in refs if line}
    missing = [task for task in world.tasks if f"{base_commit(task)} {task.name}" not in present]
    if missing:
        stream = b"".join(_import_commands(task) for task in missing) + b"done\n"
        with locked(git_dir / "handoff-source.lock"):  # while it is held, nobody takes a new pack for one left over
            git(git_dir, "fast-import", "--quiet", "--done", "--force", stdin=stream)


def _import_commands(task: Task) -> bytes:
    lines = [
        f"reset refs/heads/{task.name}\n".encode(),
        f"commit refs/heads/{task.name}\n".encode(),
        f"author {_PERSON}\ncommitter {_PERSON}\n".encode(),
        b"data %d\n%s" % (len(_MESSAGE), _MESSAGE.encode()),
    ]
    for path, text in sorted(task.files.items()):
        data = text.encode()
        lines.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(data), data))
    return b"".join(lines) + b"\n"


def write_tree(git_dir: Path, files: Mapping[str, str]) -> str:
    """Write a folder of plain text files as loose objects; the tree id. Safe beside other writers."""
    for _, text in sorted(files.items()):
        write_loose(git_dir, "blob", text.encode("utf-8", "surrogateescape"))
    trees = _tree_objects(files)
    for _, body in trees:
        write_loose(git_dir, "tree", body)
    return trees[-1][0]


def read_tree(repository: Repository, tree: str) -> dict[str, str]:
    """Path → text of every file of a tree or commit. ``StateError`` when it is missing."""
    found = repository.find(f"{tree}^{{tree}}")
    if found is None:
        raise StateError(f"no state {tree} in {repository.git_dir.name}; record the world again")
    entries = repository.files(found[0]).items()
    return {path: repository.blob(id_).decode("utf-8", "surrogateescape") for path, (_, id_) in entries}
