"""The project that every asset and sensor opens: one data folder, its lake and its settings.

The real thing on a temporary folder is its own fake (tests/shell/conftest.py).
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dagster import ConfigurableResource
from pydantic import Field

from resources.overrides import Overrides

if TYPE_CHECKING:
    from handoff.project import Project

CHECKOUT = Path(__file__).resolve().parent.parent

DEMONSTRATIONS = frozenset({"kata-expert"})
"""Shards of single sessions that arm B learns from: nobody takes these runs over."""


def default_root() -> Path:
    """``$HANDOFF_DATA``, or ``data/`` beside the code."""
    return Path(os.environ.get("HANDOFF_DATA") or CHECKOUT / "data").absolute()


class ProjectResource(ConfigurableResource):  # type: ignore[type-arg]
    """Opens the data folder."""

    root: str | None = Field(
        default=None, description="The data folder. Empty: $HANDOFF_DATA, or data/ beside the code."
    )

    @property
    def folder(self) -> Path:
        """The data folder, whether it exists or not."""
        return Path(self.root).absolute() if self.root else default_root()

    def open(self, *overrides: Overrides) -> "Project":
        """The project as it is now, with the settings that ``overrides`` set. Raises ``InputError`` when
        ``handoff.toml`` cannot be used."""
        from handoff.project import Project

        settings = Project(self.folder).settings
        for resource in overrides:
            settings = resource.over(settings)
        return Project(self.folder, settings)

    def content(self, shard: str) -> str:
        """The hash of a shard's files: what makes two drops the same, whatever they are called."""
        from handoff.stages.corpus import content_key

        return content_key(self.open().shard(shard).paths)
