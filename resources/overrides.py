"""What the settings-like resources share: a field that is set overrides ``handoff.toml``, one left empty does not."""

from typing import TYPE_CHECKING, Any

import msgspec
from dagster import ConfigurableResource

if TYPE_CHECKING:
    from handoff.project import Settings


class Overrides(ConfigurableResource):  # type: ignore[type-arg]
    """A resource whose fields are named after settings of ``handoff.project.Settings``."""

    def over(self, settings: "Settings") -> "Settings":
        """``settings`` with every field that this resource sets."""
        given: dict[str, Any] = {name: getattr(self, name) for name in sorted(type(self).model_fields)}
        return msgspec.structs.replace(
            settings, **{name: value for name, value in given.items() if value not in (None, {})}
        )
