"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import hypothesis
import pytest

# No test is about time, and CI draws the same examples every time.
hypothesis.settings.register_profile("project", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("project")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Real trajectory files that lie beside the checkout, where they exist."""
    folder = ROOT.parent / "shared" / "corpus"
    if not folder.is_dir():
        pytest.skip(f"the sample corpus is not beside this checkout ({folder.name}/ is missing)")
    return folder


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """Skips where the sandbox cannot run."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed on this machine")
