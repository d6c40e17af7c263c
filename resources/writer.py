"""Who writes summaries and structured notes."""

from pydantic import Field

from resources.overrides import Overrides


class WriterResource(Overrides):
    """The author of the views that someone has to write, beside the rules."""

    writer: str | None = Field(
        default=None,
        description="A NAME of [successors.NAME] in handoff.toml, instead of its `writer`. Empty there and here: only "
        "rules write, with no model and no network.",
    )
