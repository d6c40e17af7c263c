"""The place an agent acts in on a real repository: the frozen tree on disk, a shell in bubblewrap, the editor.

Any state that was rebuilt can be brought to life so, with whatever programs this machine or an image has; there is no
network, so nothing can be installed. Whether the task is solved is judged elsewhere, on the tree that is left
(``judging``): the tests that decide are never where an agent works. The embedded world's place, with its tests, is
``kata/environment.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from handoff.errors import InputError
from handoff.git.repositories import Repository
from handoff.git.worktree import WorkTree, lay_out
from handoff.identity import identify
from handoff.sandbox import Limits, Mount, Sandbox, editor, open_sandbox, shown_folders
from handoff.sandbox.base import ROOT
from handoff.takeover import Verdict
from handoff.trajectory import Action, Observation

COMMAND_SECONDS = 300.0
LIMITS = Limits(memory_mb=4096, disk_mb=4096)


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """Where commands of a real repository run: a successor's, and its task's tests."""

    sandbox: str = "bubblewrap"
    image: str | None = None
    """Of docker: what has the task's programs."""
    programs: tuple[str, ...] = ()
    """Of bubblewrap: folders of this machine that are shown read-only."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables of every shell, by name."""

    @property
    def digest(self) -> str:
        """What tells these surroundings from others; empty for the plain ones."""
        plain = self.sandbox == "bubblewrap" and not self.programs and not self.env
        variables = [f"{name}={value}" for name, value in self.env]
        return "" if plain else identify("i", self.sandbox, self.image or "", *self.programs, "", *variables)

    def open(
        self,
        folder: Path,
        limits: Limits,
        *,
        read_only: Sequence[Path] = (),
        mounts: Sequence[Mount] = (),
        env: Mapping[str, str] | None = None,
    ) -> Sandbox:
        """A sandbox over a folder, with further places shown to an agent that acts by itself (``open_sandbox``).

        ``SandboxError`` when it does not work here, ``InputError`` when it must not be.
        """
        if self.sandbox == "host":
            raise InputError("code of a real repository never runs on the host; choose another `sandbox`")
        return open_sandbox(
            self.sandbox,
            folder,
            limits=limits,
            read_only=[*shown_folders(self.programs), *read_only],
            mounts=mounts,
            env={**dict(self.env), **(env or {})},
            image=self.image,
        )

    @property
    def root(self) -> str | None:
        """Where commands see the repository; ``None``: the image decides, and an open sandbox says."""
        return None if self.sandbox == "docker" else ROOT


class Workplace:
    """One state of a repository, brought to life. Implements ``takeover.Environment``."""

    def __init__(self, work: WorkTree, surroundings: Surroundings) -> None:
        """``work``: closed with this object; ``surroundings``: opened when the first command comes."""
        self._work = work
        self._surroundings = surroundings
        self._shell: Sandbox | None = None
        self._is_over = False

    @property
    def path(self) -> Path:
        """The work tree on disk. What lies there after a command is an agent's: no link in it is to be followed."""
        return self._work.path

    @property
    def is_over(self) -> bool:
        """True once the agent has submitted."""
        return self._is_over

    def act(self, action: Action) -> Observation:
        """Carry out one action: a shell line, a call of the editor, or the submission."""
        arguments = _arguments(action)
        match action.tool:
            case "bash" if isinstance(command := arguments.get("command"), str):
                return self._opened().run(command, COMMAND_SECONDS).observation(action.call_id)
            case "str_replace_editor":
                root = self._surroundings.root or self._opened().root
                return editor.edit(self._work.path, root, arguments, action.call_id)
            case "submit":
                self._is_over = True
                return Observation(call_id=action.call_id, text="Submitted.", exit_code=0, error=False)
        text = f"There is no tool {action.tool!r} with these arguments."
        return Observation(call_id=action.call_id, text=text, exit_code=1, error=True)

    def _opened(self) -> Sandbox:
        if self._shell is None:
            self._shell = self._surroundings.open(self._work.path, LIMITS)
        return self._shell

    def tree(self) -> str:
        """The git tree of the present state, written into the repository's store. It ends what the agent left running:
        what still writes has no state. ``StateError`` when what was left is none."""
        self._end_shell()
        return self._work.tree()

    def annex(self) -> Path:
        """A new empty folder beside the work tree."""
        folder = self._work.path.parent / "annex"
        folder.mkdir()
        return folder

    def jail(
        self, *, read_only: Sequence[Path], mounts: Sequence[Mount], env: Mapping[str, str], limits: Limits
    ) -> Sandbox:
        """A sandbox of its own for an agent that acts by itself."""
        return self._surroundings.open(self._work.path, limits, read_only=read_only, mounts=mounts, env=env)

    def verdict(self) -> Verdict:
        """Unknown here: see above."""
        return Verdict(solved=None)

    def close(self) -> None:
        """End the shell and what runs in it, and remove the work tree."""
        self._is_over = True
        self._end_shell()
        self._work.close()

    def _end_shell(self) -> None:
        if self._shell is not None:
            self._shell.close()
            self._shell = None


def open_workplace(
    repository: Repository, base_commit: str, tree: str, folder: Path, surroundings: Surroundings | None = None
) -> Workplace:
    """The state ``tree`` laid out below ``folder``. ``StateError`` when it cannot be had.

    ``SandboxError`` when the first command comes and its sandbox does not work here.
    """
    work = lay_out(repository, base_commit, tree, folder)
    return Workplace(work, surroundings if surroundings is not None else Surroundings())


def _arguments(action: Action) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(action.arguments)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
