"""The ``repo`` view: the frozen repository and nothing else. That the successor takes over is in the preamble."""

from __future__ import annotations


def render() -> str:
    """Nothing."""
    return ""
