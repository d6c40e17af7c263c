"""Where the outside begins: one module, and only when it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import handoff

HOUSE = Path(handoff.__file__).parent
EDGES = {"cli.py", "cli_options.py", "terminal.py", "kata/fork_server.py", "endpoints/sdk.py"}
"""The command line and what it prints on, a program that runs in a jail, and the seam to endpoints."""


def test_keys_and_the_network_are_the_business_of_one_module() -> None:
    """Nobody else reads the environment or knows the SDK."""
    found = set()
    for path in HOUSE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_sdk = isinstance(node, ast.Import) and any(name.name.split(".")[0] == "openai" for name in node.names)
            is_sdk = is_sdk or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "openai")
            is_environment = isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
            if is_sdk or is_environment:
                found.add(path.relative_to(HOUSE).as_posix())
    assert found == EDGES


def test_the_sdk_is_loaded_with_the_first_call() -> None:
    """It takes a second, which nobody without an endpoint should wait for."""
    program = "import sys, handoff.stages.takeovers, handoff.cli; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
