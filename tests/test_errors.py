"""Errors cross process boundaries and keep their four parts."""

from __future__ import annotations

import pickle

from handoff.errors import RecordError


def test_a_record_error_says_file_record_field_and_remedy() -> None:
    error = RecordError("no observation answers call c9.", field="$.steps[4]", remedy="Re-export it.").at("a.jsonl", 17)
    assert str(error) == "a.jsonl, record 17, $.steps[4]: no observation answers call c9. Re-export it."


def test_a_record_error_survives_pickling() -> None:
    error = RecordError("p", file="f", record=3, field="$.x", remedy="r")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.problem, copy.file, copy.record, copy.field, copy.remedy) == ("p", "f", 3, "$.x", "r")
