"""A jail shows its work folder where it is asked to, and never over the system's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from handoff.errors import SandboxError
from handoff.sandbox import available, open_sandbox

pytestmark = pytest.mark.skipif(available()["bubblewrap"] is not None, reason="no jail here")


@pytest.mark.parametrize("root", ["/testbed", "/workspace/owner__name-1.0", "/home/user/project"])
def test_the_work_folder_is_where_it_was_recorded(tmp_path: Path, root: str) -> None:
    (tmp_path / "here.txt").write_text("x\n")
    sandbox = open_sandbox("bubblewrap", tmp_path, root=root)
    try:
        assert sandbox.root == root
        assert sandbox.run(f"pwd; cat {root}/here.txt; echo y > there.txt").output == f"{root}\nx\n"
    finally:
        sandbox.close()
    assert (tmp_path / "there.txt").read_text() == "y\n"


@pytest.mark.parametrize(
    "root", ["/", "repo", "/usr/lib", "/etc", "/proc/self", "/a/../etc", "/dev/shm", "/a b", "/a\n"]
)
def test_places_of_the_system_are_refused(tmp_path: Path, root: str) -> None:
    with pytest.raises(SandboxError):
        open_sandbox("bubblewrap", tmp_path, root=root)
