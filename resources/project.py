"""The project that every asset and sensor opens: one data folder, its lake and its settings.

The real thing on a temporary folder is its own fake (tests/shell/conftest.py).
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dagster import ConfigurableResource
from pydantic import Field

from resources.repositories import RepositoriesResource
from resources.sandbox import SandboxResource
from resources.successor import SuccessorResource
from resources.writer import WriterResource

if TYPE_CHECKING:
    from handoff.project import Project

CHECKOUT = Path(__file__).resolve().parent.parent

DEMONSTRATIONS = frozenset({"kata-expert"})
"""Shards of single sessions that arm B learns from: nobody takes these runs over."""


def default_root() -> Path:
    """``$HANDOFF_DATA``, or ``data/`` beside the code."""
    return Path(os.environ.get("HANDOFF_DATA") or CHECKOUT / "data").absolute()


class ProjectResource(ConfigurableResource):  # type: ignore[type-arg]
    """Opens the data folder. What the nested resources set overrides the folder's ``handoff.toml``."""

    root: str | None = Field(
        default=None, description="The data folder. Empty: $HANDOFF_DATA, or data/ beside the code."
    )
    repositories: RepositoriesResource = RepositoriesResource()
    sandbox: SandboxResource = SandboxResource()
    successor: SuccessorResource = SuccessorResource()
    writer: WriterResource = WriterResource()

    @property
    def folder(self) -> Path:
        """The data folder, whether it exists or not."""
        return Path(self.root).absolute() if self.root else default_root()

    def open(self) -> "Project":
        """The project as it is now. Raises ``InputError`` when ``handoff.toml`` cannot be used."""
        from handoff.project import Project

        project = Project(self.folder)
        settings = project.settings
        for overrides in (self.repositories, self.sandbox, self.successor):
            settings = overrides.over(settings)
        return Project(self.folder, settings)

    def content(self, shard: str) -> str:
        """The hash of a shard's files: what makes two drops the same, whatever they are called."""
        from handoff.stages.corpus import content_key

        return content_key(self.open().shard(shard).paths)
