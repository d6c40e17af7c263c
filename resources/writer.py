"""Who writes summaries and structured notes."""

from dagster import ConfigurableResource
from pydantic import Field, field_validator


class WriterResource(ConfigurableResource):  # type: ignore[type-arg]
    """The author of the views that someone has to write."""

    author: str = Field(
        default="extractive",
        description="extractive: assembled by rule from what the predecessor observed; no model, no network.",
    )

    @field_validator("author")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name != "extractive":
            raise ValueError(f"no writer {name!r}; the one there is writes by rule: extractive")
        return name
