"""The small repository of ``tests/states``, for these tests too."""

from tests.states.conftest import repository

__all__ = ["repository"]
