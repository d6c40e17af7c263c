"""Where commands of successors run."""

from pydantic import Field, field_validator

from resources.overrides import Overrides

BACK_ENDS = ("auto", "bubblewrap", "docker", "host")


class SandboxResource(Overrides):
    """The jail that takeovers run in."""

    sandbox: str | None = Field(
        default=None,
        description="bubblewrap: no network, nothing writable but the work tree. host: a plain process with resource "
        "limits, for the embedded world's own code only. docker: a container in the task's image, for real "
        "repositories; the embedded world takes bubblewrap. auto: bubblewrap where it works. "
        "Empty: as handoff.toml says.",
    )

    @field_validator("sandbox")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        if name is not None and name not in BACK_ENDS:
            raise ValueError(f"no sandbox {name!r}; choose one of {', '.join(BACK_ENDS)}")
        return name
