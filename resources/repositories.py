"""Where the repositories that recordings name can be had."""

from typing import TYPE_CHECKING

from pydantic import Field

from resources.overrides import Overrides

if TYPE_CHECKING:
    from handoff.project import Settings


class RepositoriesResource(Overrides):
    """Repository names with their local mirrors or URLs. The network is used only for a URL that is written here."""

    repositories: dict[str, str] = Field(
        default_factory=dict,
        description="Repository name → local mirror or URL, added to those in handoff.toml and before them.",
    )
    offline: bool = Field(
        default=False, description="Ask no URL, whatever handoff.toml says: only what is on this machine is used."
    )

    def over(self, settings: "Settings") -> "Settings":
        """Both sources together."""
        import msgspec

        return msgspec.structs.replace(
            settings,
            repositories={**settings.repositories, **self.repositories},
            offline=settings.offline or self.offline,
        )
