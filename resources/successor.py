"""What a successor may spend, and how many run at once."""

from pydantic import Field

from resources.overrides import Overrides


class SuccessorResource(Overrides):
    """Budgets of takeovers. Empty fields are as ``handoff.toml`` says."""

    step_budget: int | None = Field(default=None, description="Model calls one successor may make.")
    token_budget: int | None = Field(
        default=None, description="Prompt tokens one successor may spend, summed over its calls."
    )
    dollar_budget: float | None = Field(
        default=None, description="US dollars that one successor on an endpoint may spend on a takeover."
    )
    evaluate: list[str] | None = Field(
        default=None, description="Successors of `handoff.toml` that the round runs beside the trained arms."
    )
    collect: list[str] | None = Field(
        default=None, description="Successors of `handoff.toml` that the round runs on training points, for samples."
    )
    points_per_run: int | None = Field(
        default=None, description="Handoff points of one recorded run that successors start from."
    )
    workers: int | None = Field(default=None, description="Takeovers run at once.")
