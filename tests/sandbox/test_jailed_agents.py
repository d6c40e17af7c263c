"""An agent that is a command, in a container: the door to its model works there too, and what it wrote can be read."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import tiny_agent
from fault_server import message
from scripted_endpoint import Scripted, client

from handoff.endpoints import Ledger
from handoff.sandbox import Limits, Mount, Sandbox, open_sandbox
from handoff.successors import Briefing, Budget
from handoff.successors.command import CommandSuccessor
from handoff.successors.settings import Command


class Container:
    """A folder, worked on in a container. Implements ``successors.acting.Ground``."""

    def __init__(self, folder: Path, image: str) -> None:
        self.path = folder / "work"
        self.path.mkdir()
        self._annex = folder / "annex"
        self._image = image

    def annex(self) -> Path:
        self._annex.mkdir()
        return self._annex

    def jail(
        self, *, read_only: Sequence[Path], mounts: Sequence[Mount], env: Mapping[str, str], limits: Limits
    ) -> Sandbox:
        more = {"read_only": read_only, "mounts": mounts, "env": env, "limits": limits}
        return open_sandbox("docker", self.path, image=self._image, **more)  # type: ignore[arg-type]


@pytest.mark.docker
def test_an_agent_reaches_its_model_from_a_container_and_nothing_else(tmp_path: Path, docker_image: str) -> None:
    shutil.copytree(
        Path(tiny_agent.__file__).parent, tmp_path / "agent", ignore=lambda _, names: {*names} - {"tiny_agent.py"}
    )
    line = "id -u > who; (exec 3<>/dev/tcp/1.1.1.1/80) 2>/dev/null && echo > reached; "
    line += f"python3 {tmp_path}/agent/tiny_agent.py"
    own = Command(command=f"{line} {{prompt}} {{trajectory}} {{base_url}}", programs=(str(tmp_path / "agent"),))
    transport = Scripted([message("", ("bash", {"command": "echo x > made"}))])
    successor = CommandSuccessor(own, name="tiny", client=client(transport))
    briefing = Briefing(task="Mend it.", view="repo", view_text="", preamble="You take over.")
    ground = Container(tmp_path, docker_image)
    ledger = Ledger("run", lambda entry: None)
    acted = successor.act(briefing, ground, ledger, Budget(steps=9, prompt_tokens=9999), 1, None)
    assert (acted.status, acted.steps, acted.notes) == ("submitted", 2, ())
    assert len(acted.transcript) == 2, "its trajectory is read, though another user wrote it"
    assert sorted(p.name for p in ground.path.iterdir()) == ["made", "who"]
    assert (ground.path / "who").read_text() != "0\n"
