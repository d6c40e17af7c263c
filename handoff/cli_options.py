"""What several commands share: the data folder, and a warning before anything runs outside a sandbox."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from handoff.terminal import err

Data = Annotated[
    Path | None,
    typer.Option("--data", help="The project's data folder. Default: $HANDOFF_DATA, else ./data.", show_default=False),
]


def data_folder(data: Path | None) -> Path:
    """The folder meant by ``--data``, the environment or the default, in this order."""
    return data or Path(os.environ.get("HANDOFF_DATA") or "data")


def warn_about_sandbox(project: Any, point: str | None = None) -> None:
    """Say so when commands will run outside a sandbox. ``point``: where, as a user wrote it; at those of real
    repositories nothing runs outside one."""
    from handoff.sandbox import HOST_WARNING, missing

    if point is not None and project.settings.sandbox in ("auto", "host"):
        from handoff.stages import is_embedded
        from handoff.stages.handoffs import find_point

        if not is_embedded(find_point(project, point)["repo"]):
            if project.settings.sandbox == "host":
                err.print("[yellow]note[/yellow] the code of a real repository never runs on the host: bubblewrap does")
            return
    if project.settings.sandbox == "host" or (project.settings.sandbox in ("auto", "docker") and missing("bubblewrap")):
        err.print(f"[yellow]warning[/yellow] {escape(HOST_WARNING)}")
