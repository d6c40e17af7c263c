"""The small repository of ``tests/states``, for these tests too."""

from tests.states.conftest import base, repository

__all__ = ["base", "repository"]
