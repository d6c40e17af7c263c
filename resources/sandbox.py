"""Where commands of successors run, and who says what a task's tests say.

``FakeSandboxResource``, for tests, judges every state alike and starts nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from resources.overrides import Overrides

if TYPE_CHECKING:
    from handoff.project import Project

BACK_ENDS = ("auto", "bubblewrap", "host")

Judge = Callable[[str, str, str], tuple[int, int] | None]
"""(repo, base commit, tree) → (passed, total) of the task's tests, or ``None`` where they cannot be run."""


class SandboxResource(Overrides):
    """The jail that takeovers run in."""

    sandbox: str | None = Field(
        default=None,
        description="bubblewrap: no network, nothing writable but the work tree. host: a plain process with resource "
        "limits, for the embedded world's own code only. auto: bubblewrap where it works. Empty: as handoff.toml says.",
    )

    @field_validator("sandbox")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        if name is not None and name not in BACK_ENDS:
            raise ValueError(f"no sandbox {name!r}; choose one of {', '.join(BACK_ENDS)}")
        return name

    @contextmanager
    def judge(self, project: "Project") -> Iterator[Judge]:
        """Runs the tests of the embedded world's tasks; the test server starts with the first state that needs it."""
        from handoff.kata.lab import KataLab

        labs: list[KataLab] = []

        def run_tests(repo: str, base_commit: str, tree: str) -> tuple[int, int] | None:
            if not repo.startswith("kata/"):
                return None
            if not labs:
                labs.append(KataLab(project.root, sandbox=self.over(project.settings).sandbox, worker="judge"))
            return labs[0].test(repo, base_commit, tree)

        try:
            yield run_tests
        finally:
            for lab in labs:
                lab.close()


class FakeSandboxResource(SandboxResource):
    """Says of every state that one of two tests passes."""

    @contextmanager
    def judge(self, project: "Project") -> Iterator[Judge]:
        """Starts nothing."""
        yield lambda repo, base_commit, tree: (1, 2)
