"""Identifiers depend on content alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from handoff.identity import canonical_json, identify


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_different_parts_give_different_identifiers(a: list[str], b: list[str]) -> None:
    assert (identify("x", *a) == identify("x", *b)) == (a == b)


def test_a_lone_surrogate_has_an_identifier() -> None:
    assert identify("x", "\ud800") != identify("x", "\ud801")


@given(st.dictionaries(st.text(max_size=3), st.integers(-(2**60), 2**60), max_size=5))
def test_key_order_does_not_change_canonical_json(value: dict[str, int]) -> None:
    assert canonical_json(value) == canonical_json(dict(reversed(value.items())))
