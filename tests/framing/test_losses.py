"""The account of what was read: exact paths, counts and reasons, whatever way a record is read."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, REPEATED, SEALED, UPKEEP, Repeated, Sealed, Unhoused, Upkeep


class Part(msgspec.Struct, gc=False):
    text: str | None = None
    inner: str | list[Part] | None = None
    old: Repeated = NOTHING


class Turn(msgspec.Struct, gc=False):
    role: str
    parts: list[Part] | str | None = None
    by_name: dict[str, Part] | None = None
    gold: Sealed = NOTHING
    whole: Any = None


class First(msgspec.Struct, tag="first", tag_field="type", gc=False):
    a: int


class Second(msgspec.Struct, tag="second", tag_field="type", gc=False):
    b: int
    noise: Upkeep = NOTHING
    took: Unhoused = NOTHING


class Run(msgspec.Struct, gc=False):
    turns: list[Turn]
    one_or_more: Part | list[Part] | None = None
    either: First | Second | None = None


def losses_of(value: object, kind: Any = Run) -> dict[tuple[str, str | None], int]:
    record = Record(json.dumps(value).encode())
    record.decode(kind)
    return dict(record.losses())


def test_a_record_in_a_known_shape_loses_nothing() -> None:
    value = {"turns": [{"role": "a", "parts": [{"text": "x", "inner": [{"text": "y"}]}], "whole": {"z": 1}}]}
    assert losses_of(value) == {}


def test_every_field_without_a_home_is_counted_by_its_path() -> None:
    value = {
        "turns": [
            {"role": "a", "new": 1, "parts": [{"odd": 1, "inner": [{"odd": 2}, {"odd": 3}]}, {"text": "x"}]},
            {"role": "b", "new": 1, "by_name": {"k": {"odd": 1}, "l": {}}, "parts": "text"},
        ],
        "either": {"type": "second", "b": 1, "c": 1},
        "one_or_more": [{"odd": 1}, {"text": "x"}],
        "top": True,
    }
    assert losses_of(value) == {
        ("$.turns[].new", None): 2,
        ("$.turns[].parts[].odd", None): 1,
        ("$.turns[].parts[].inner[].odd", None): 2,
        ("$.turns[].by_name.*.odd", None): 1,
        ("$.either.c", None): 1,
        ("$.one_or_more[].odd", None): 1,
        ("$.top", None): 1,
    }


@pytest.mark.parametrize("extra", [{}, {"unknown": 1}])
def test_what_is_set_aside_is_counted_with_its_reason_on_both_ways(extra: dict[str, int]) -> None:
    """Alone it is counted from the typed values, beside an unknown field by walking the record.

    A field without a home has no reason, though the struct names it.
    """
    value = {
        "turns": [{"role": "a", "gold": "diff", "parts": [{"old": [1], "inner": [{"old": {"x": 1}}]}]}],
        "either": {"type": "second", "b": 1, "noise": 5, "took": 0.2},
        **extra,
    }
    found = losses_of(value)
    assert found.pop(("$.unknown", None), None) == extra.get("unknown")
    assert found == {
        ("$.turns[].gold", SEALED): 1,
        ("$.turns[].parts[].old", REPEATED): 1,
        ("$.turns[].parts[].inner[].old", REPEATED): 1,
        ("$.either.noise", UPKEEP): 1,
        ("$.either.took", None): 1,
    }


@pytest.mark.parametrize("empty", [None, "", [], {}])
def test_empty_values_carry_nothing(empty: object) -> None:
    assert losses_of({"turns": [{"role": "a", "gold": empty, "x": empty}], "y": empty}) == {}


def test_fields_read_one_by_one_and_those_left_on_purpose() -> None:
    record = Record(json.dumps({"a": "x", "b": 2, "c": [{"role": "r", "n": 1}], "gold": "p", "other": 1}).encode())
    record.text("a")
    record.field("b", str)  # a number is no text: it was not read
    record.decode_under("c", list[Turn])
    record.leave("gold", "absent", reason=SEALED)
    assert dict(record.losses()) == {
        ("$.b", None): 1,
        ("$.c[].n", None): 1,
        ("$.gold", SEALED): 1,
        ("$.other", None): 1,
    }


def test_a_column_that_holds_its_list_as_text_is_accounted_for() -> None:
    record = Record(json.dumps({"c": json.dumps([{"role": "r", "n": 1}])}).encode())
    assert record.decode_under("c", list[Turn])[0].role == "r"
    assert dict(record.losses()) == {("$.c[].n", None): 1}


def test_looks_are_no_reading() -> None:
    record = Record(b'{"a": "x", "c": [{"role": "r"}]}')
    assert record.peek("a") == "x"
    assert record.first("c") == {"role": "r"}
    record.text("a")
    record.forget()
    assert dict(record.losses()) == {("$.a", None): 1, ("$.c", None): 1}


def test_lines_are_read_one_by_one_and_a_broken_one_is_a_problem() -> None:
    data = b'{"role": "a", "n": 1}\n\n{"role": 3}\n{"role": "b", "n": \xff"x"}\n{"role": "c", "n": "\\ud800"}\n{"ro'
    record = Record(data, file="f", form="lines")
    turns = [record.part(row, Turn, "$") for row in record.rows()]
    assert [turn.role for turn in turns if turn is not None] == ["a", "c"]
    assert [(p.file, p.record, p.field) for p in record.problems] == [("f", 3, "$.role"), ("f", 4, "$"), ("f", 6, "$")]
    assert dict(record.losses()) == {("$.n", None): 2}
    assert record.repairs == 1


def test_a_kept_value_that_does_not_fit_is_lost_and_said_so() -> None:
    record = Record(b"{}", form="lines")
    assert record.under(msgspec.Raw(b'{"role": 1}'), Turn, "$.payload") is None
    assert dict(record.losses()) == {("$.payload", None): 1}


def test_endless_field_names_end_in_one_line() -> None:
    found = losses_of({"turns": [], **{f"k{n}" * 100: 1 for n in range(500)}})
    assert sum(found.values()) == 500
    assert len(found) <= 201


def test_a_misfit_is_still_named_when_a_field_is_unknown_as_well() -> None:
    with pytest.raises(RecordError) as caught:
        losses_of({"turns": [{"new": 1, "role": 3}]})
    assert caught.value.field == "$.turns[0].role"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "x", "inner"]), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "turns", "either"]), json_values, max_size=4))
def test_what_is_counted_is_there(value: dict[str, Any]) -> None:
    """Whatever the shape: a typed reading succeeds or says why, and names only fields that exist."""
    record = Record(json.dumps(value).encode())
    try:
        record.decode(Run)
    except RecordError:
        return
    for (path, _), times in record.losses().items():
        assert times > 0
        assert path.removeprefix("$.").split(".")[0].removesuffix("[]") in value
