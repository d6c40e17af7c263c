"""The place an agent acts in on a real repository: the frozen tree on disk, a shell in bubblewrap, the editor.

Any state that was rebuilt can be brought to life so, with whatever programs this machine has; there is no network, so
nothing can be installed. Whether the task is solved is not judged here: the tests that decide are not known, and those
of the base commit are not the task's. The embedded world's place, with its tests, is ``kata/environment.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from handoff.git.repositories import Repository
from handoff.git.worktree import WorkTree, lay_out
from handoff.sandbox import Limits, Sandbox, editor, open_sandbox
from handoff.takeover import Verdict
from handoff.trajectory import Action, Observation

COMMAND_SECONDS = 300.0
LIMITS = Limits(memory_mb=4096, disk_mb=4096)


class Workplace:
    """One state of a repository, brought to life. Implements ``takeover.Environment``."""

    def __init__(self, work: WorkTree, open_shell: Callable[[Path], Sandbox]) -> None:
        """``work``: closed with this object; ``open_shell``: called with its folder when the first command comes."""
        self._work = work
        self._open_shell = open_shell
        self._shell: Sandbox | None = None
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """True once the agent has submitted."""
        return self._is_over

    def act(self, action: Action) -> Observation:
        """Carry out one action: a shell line, a call of the editor, or the submission."""
        arguments = _arguments(action)
        match action.tool:
            case "bash" if isinstance(command := arguments.get("command"), str):
                if self._shell is None:
                    self._shell = self._open_shell(self._work.path)
                return self._shell.run(command, COMMAND_SECONDS).observation(action.call_id)
            case "str_replace_editor":
                root = "/repo" if self._shell is None else self._shell.root
                return editor.edit(self._work.path, root, arguments, action.call_id)
            case "submit":
                self._is_over = True
                return Observation(call_id=action.call_id, text="Submitted.", exit_code=0, error=False)
        text = f"There is no tool {action.tool!r} with these arguments."
        return Observation(call_id=action.call_id, text=text, exit_code=1, error=True)

    def tree(self) -> str:
        """The git tree of the present state, written into the repository's store."""
        return self._work.tree()

    def verdict(self) -> Verdict:
        """Unknown: see above."""
        return Verdict(solved=None)

    def close(self) -> None:
        """End the shell and what runs in it, and remove the work tree."""
        self._is_over = True
        if self._shell is not None:
            self._shell.close()
            self._shell = None
        self._work.close()


def open_workplace(repository: Repository, base_commit: str, tree: str, folder: Path) -> Workplace:
    """The state ``tree`` laid out below ``folder``. ``StateError`` when it cannot be had.

    Commands run in bubblewrap and nowhere else: code of a real repository is nobody's own. ``SandboxError`` when the
    first one comes and bubblewrap does not work here.
    """
    work = lay_out(repository, base_commit, tree, folder)
    return Workplace(work, lambda path: open_sandbox("bubblewrap", path, limits=LIMITS))


def _arguments(action: Action) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(action.arguments)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
