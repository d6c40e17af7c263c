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


def warn_about_sandbox(project: Any) -> None:
    """Say so when commands will run outside a sandbox."""
    from handoff.sandbox import HOST_WARNING, missing

    if project.settings.sandbox == "host" or (project.settings.sandbox in ("auto", "docker") and missing("bubblewrap")):
        err.print(f"[yellow]warning[/yellow] {escape(HOST_WARNING)}")
