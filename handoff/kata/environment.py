"""The place a kata agent acts in: one work tree on disk, a shell in a sandbox, real tests.

``KataLab`` owns what is warm (test server, memo, git templates) and belongs to one process; it lives in
``lab.py``. Shell lines run in the sandbox's persistent shell, plain pytest lines through the warm test server,
edits are made by the editor tool on files of the work tree, never through a link out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

from handoff import folders
from handoff.errors import SandboxError
from handoff.kata import store, tools
from handoff.kata.testserver import TestRun
from handoff.kata.world import unified_diff
from handoff.sandbox import Limits, Mount, Sandbox, editor
from handoff.sandbox.files import read_file, write_file
from handoff.takeover import Verdict
from handoff.trajectory import Action, Observation

COMMAND_SECONDS = 20.0
_MAX_FILE = 4_000_000
"""Bytes: a larger file in the work tree is left out of states."""
_DEEPEST = 64
"""Folders below the first; those below are left out of states."""
_LEFT_OUT = {".git", "__pycache__"}


class OpenJail(Protocol):
    """Opens a sandbox over the work folder: see ``takeover.Environment.jail``."""

    def __call__(
        self, *, read_only: Sequence[Path], mounts: Sequence[Mount], env: Mapping[str, str], limits: Limits
    ) -> Sandbox:
        """The sandbox."""
        ...


class KataEnvironment:
    """One state of a kata repository, brought to life. Implements ``takeover.Environment``."""

    def __init__(
        self,
        *,
        work: Path,
        git_dir: Path,
        base: Mapping[str, str],
        annex: Path,
        open_shell: Callable[[], Sandbox],
        open_jail: OpenJail,
        run_tests: Callable[[str, str], TestRun],
    ) -> None:
        """``work``: laid out already; ``base``: the base commit's files; ``annex``: a folder beside ``work`` that does
        not exist; ``run_tests``: (tree, target) → run."""
        self._work = work
        self._git_dir = git_dir
        self._base = base
        self._annex = annex
        self._open_shell = open_shell
        self._open_jail = open_jail
        self._run_tests = run_tests
        self._shell: Sandbox | None = None
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """True once the agent has submitted."""
        return self._is_over

    def act(self, action: Action) -> Observation:
        """Carry out one action."""
        arguments = tools.arguments_of(action)
        match action.tool:
            case "bash" if isinstance(arguments.get("command"), str):
                return self._bash(action, arguments["command"])
            case "str_replace_editor" if _is_replacement(arguments):
                return self._replace(action, arguments["path"], arguments["old_str"], arguments["new_str"])
            case "str_replace_editor":
                return editor.edit(self._work, "/repo", arguments, action.call_id)
            case "submit":
                self._is_over = True
                return Observation(call_id=action.call_id, text="Submitted.", exit_code=0, error=False)
        return _failed(action, f"There is no tool {action.tool!r} with these arguments.")

    def _bash(self, action: Action, command: str) -> Observation:
        target = tools.pytest_target(command)
        if target is not None:
            run = self._run_tests(store.tree_id(self.files()), target)
            return Observation(
                call_id=action.call_id,
                text=run.output,
                exit_code=run.exit_code,
                error=None if run.exit_code == 0 else True,
            )
        if self._shell is None:
            self._shell = self._open_shell()
        return self._shell.run(command, COMMAND_SECONDS).observation(action.call_id)

    def _replace(self, action: Action, path: str, old: str, new: str) -> Observation:
        inside = path.removeprefix("/repo/")
        try:
            text = self._read(inside)
            count = text.count(old) if old else 0
            if count != 1:
                return _failed(action, f"old_str occurs {count} times in {path}; it must occur exactly once.")
            data = text.replace(old, new, 1).encode("utf-8", "surrogateescape")
            write_file(self._work, inside, data)
        except (OSError, SandboxError):
            return _failed(action, f"{path} is not a file of the repository.")
        return Observation(call_id=action.call_id, text=f"The file {path} has been edited.", exit_code=0, error=False)

    def _read(self, path: str) -> str:
        """A plain file of the work tree; ``SandboxError`` for git's own and for what lies elsewhere."""
        if PurePosixPath(path).parts[:1] == (".git",):
            raise SandboxError("files of git itself are not for the editor")
        return read_file(self._work, path, limit=_MAX_FILE).decode("utf-8", "surrogateescape")

    def files(self) -> dict[str, str]:
        """Path → text of the present work tree: plain files only, without ``.git`` and bytecode."""
        return {path: data.decode("utf-8", "surrogateescape") for path, data in sorted(_plain_files(self._work))}

    def patch(self) -> str:
        """What the present state changes against the base commit, as a unified diff."""
        present = self.files()
        paths = sorted({*present, *self._base})
        return "".join(unified_diff(path, self._base.get(path, ""), present.get(path, "")) for path in paths)

    def tree(self) -> str:
        """The git tree of the present state, written into the store."""
        return store.write_tree(self._git_dir, self.files())

    def annex(self) -> Path:
        """A new empty folder beside the work tree."""
        self._annex.mkdir()
        return self._annex

    def jail(
        self, *, read_only: Sequence[Path], mounts: Sequence[Mount], env: Mapping[str, str], limits: Limits
    ) -> Sandbox:
        """A sandbox of its own for an agent that acts by itself; pytest is there."""
        return self._open_jail(read_only=read_only, mounts=mounts, env=env, limits=limits)

    def verdict(self) -> Verdict:
        """All tests of the base commit on the present state."""
        run = self.judged()
        counts = run.counts
        return Verdict(solved=run.exit_code == 0, passed=counts.get("passed", 0), total=sum(counts.values()))

    def judged(self, target: str = "") -> TestRun:
        """The base commit's tests on the present state, all of them or those of one file."""
        present = self.files()
        judged = {path: text for path, text in present.items() if not _is_judging(path)}
        judged |= {path: text for path, text in self._base.items() if _is_judging(path)}
        if judged != present:
            self._lay_out(judged)
        run = self._run_tests(store.tree_id(judged), target)
        if judged != present:  # the state is the agent's again
            self._lay_out(present)
        return run

    def _lay_out(self, files: Mapping[str, str]) -> None:
        """Nothing but these files, beside git's own: a folder may be a link that leads out of the work tree."""
        self._end_shell()
        empty(self._work, keep=".git")
        write_files(self._work, files)

    def _end_shell(self) -> None:
        if self._shell is not None:
            self._shell.close()
            self._shell = None

    def close(self) -> None:
        """End the shell and what runs in it."""
        self._is_over = True
        self._end_shell()


def _is_replacement(arguments: Mapping[str, object]) -> bool:
    is_meant = arguments.get("command", "str_replace") == "str_replace"
    return is_meant and all(isinstance(arguments.get(key), str) for key in ("path", "old_str", "new_str"))


def _is_judging(path: str) -> bool:
    """Files that decide what the tests say: an agent's changes to them do not count."""
    name = path.rsplit("/", 1)[-1]
    return path.startswith("tests/") or name in ("conftest.py", "pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")


def _failed(action: Action, text: str) -> Observation:
    return Observation(call_id=action.call_id, text=text, exit_code=1, error=True)


def _plain_files(work: Path) -> Iterator[tuple[str, bytes]]:
    """Path → bytes; what is too deep, too large or no plain file is left out."""
    for path, found in folders.shallow(work, _DEEPEST, _LEFT_OUT):
        if not found.is_folder and found.status.st_size <= _MAX_FILE:
            data = folders.read(found, _MAX_FILE)
            if data is not None:
                yield path, data


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write plain text files into a folder that no agent runs in yet."""
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode("utf-8", "surrogateescape"))


def empty(folder: Path, keep: str = "") -> None:
    """Remove everything in a folder but ``keep``, links themselves and not what they point to."""
    folder.chmod(0o755)
    for entry in folder.iterdir():
        if entry.name == keep:
            continue
        if entry.is_dir() and not entry.is_symlink():
            folders.remove(entry)
        else:
            entry.unlink()
