"""The lake: whole or nothing, same rows same bytes, nothing climbs out."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.errors import LakeError
from handoff.lake import SCHEMAS, Lake, write_file

ROWS = [
    {
        "takeover_id": f"k_{n}",
        "metric": "steps",
        "value": float(n),
        "numerator": None,
        "denominator": None,
        "reason": None,
    }
    for n in range(5)
]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    written = lake.write("diagnostics", ROWS, inputs="i_1", round="r000", shard="a")
    assert written.rows == 5
    assert [r["value"] for r in lake.rows("diagnostics", round="r000")] == [0, 1, 2, 3, 4]


def test_partition_keys_are_columns_and_filters(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.write("diagnostics", ROWS[:2], inputs="i", round="r000", shard="a")
    lake.write("diagnostics", ROWS[2:], inputs="i", round="r001", shard="a")
    assert {r["round"] for r in lake.rows("diagnostics")} == {"r000", "r001"}
    assert len(lake.rows("diagnostics", round="r001")) == 3
    assert len(lake.rows("diagnostics", where=pc.field("value") > 3)) == 1


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    first = Lake(tmp_path / "a").write("diagnostics", ROWS, inputs="i", round="r", shard="s")
    second = Lake(tmp_path / "b").write("diagnostics", iter(ROWS), inputs="i", round="r", shard="s")
    assert first.digest == second.digest


def test_a_partition_is_current_only_for_its_own_inputs(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert lake.current("diagnostics", inputs="i_1", round="r", shard="s") is None
    lake.write("diagnostics", ROWS, inputs="i_1", round="r", shard="s")
    found = lake.current("diagnostics", inputs="i_1", round="r", shard="s")
    assert found is not None
    assert not found.is_new
    assert lake.current("diagnostics", inputs="i_2", round="r", shard="s") is None


def test_a_writer_that_fails_leaves_the_old_rows_and_nothing_else(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    before = lake.write("diagnostics", ROWS, inputs="i", round="r", shard="s")

    def broken():  # type: ignore[no-untyped-def]
        yield from ROWS * 1000
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        lake.write("diagnostics", broken(), inputs="j", round="r", shard="s")
    assert lake.digest("diagnostics", round="r", shard="s") == before.digest
    assert [p.name for p in Path(before.path).parent.iterdir()] == ["part.parquet"]


def test_a_full_disk_is_one_clear_error_and_no_half_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", full)
    with pytest.raises(LakeError, match="full; free space and run again"):
        lake.write("diagnostics", ROWS, inputs="i", round="r", shard="s")
    assert not list(tmp_path.rglob("*.parquet"))
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "x\n", "a" * 200, "a\0b"])
def test_a_partition_value_cannot_leave_the_lake(tmp_path: Path, name: str) -> None:
    with pytest.raises(LakeError):
        Lake(tmp_path).write("diagnostics", [], inputs="i", round="r", shard=name)


def test_a_table_that_does_not_exist_is_named_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="raw_trajectories"):
        Lake(tmp_path).path("nonsense")


def test_a_row_that_does_not_fit_says_which_table(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="diagnostics"):
        Lake(tmp_path).write("diagnostics", [{**ROWS[0], "value": "text"}], inputs="i", round="r", shard="s")


def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    path = Path(lake.write("diagnostics", ROWS, inputs="i", round="r", shard="s").path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(LakeError, match=r"part\.parquet"):
        lake.inputs("diagnostics", round="r", shard="s")


@given(st.lists(st.integers(0, 50), max_size=20))
def test_batches_and_rows_are_interchangeable(tmp_path_factory: pytest.TempPathFactory, values: list[int]) -> None:
    folder = tmp_path_factory.mktemp("lake")
    rows = [{**ROWS[0], "value": float(v)} for v in values]
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMAS["diagnostics"])
    one = Lake(folder / "a").write("diagnostics", rows, inputs="i", round="r", shard="s")
    two = Lake(folder / "b").write("diagnostics", iter([batch]), inputs="i", round="r", shard="s")
    assert one.rows == two.rows == len(values)


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    write_file(tmp_path / "deep" / "x.txt", b"hello")
    assert (tmp_path / "deep" / "x.txt").read_bytes() == b"hello"
    assert len(list((tmp_path / "deep").iterdir())) == 1
