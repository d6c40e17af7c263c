"""Fixtures shared by all tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

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
