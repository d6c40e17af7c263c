"""Tables → trajectories."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from handoff.corpus.columns import read_heads, read_steps
from handoff.errors import LakeError
from handoff.lake import ROW_GROUP, Lake
from handoff.trajectory import Step, Trajectory


def trajectories(lake: Lake, shard: str, ids: Collection[str] | None = None) -> Iterator[tuple[str, Trajectory]]:
    """The trajectories of a shard in table order, rebuilt exactly: ``trajectory_id(t)`` is the id given."""
    wanted = None if ids is None else pa.array(sorted(ids), pa.string())
    steps = _step_stream(lake, shard, wanted)
    waiting: list[Step] = []
    for batch in _table(lake, "raw_trajectories", shard, wanted):
        for id_, count, fields in read_heads(batch):
            while len(waiting) < count:
                more = next(steps, None)
                if more is None:
                    raise LakeError(
                        f"steps of {id_} in shard {shard} are missing; delete the shard's tables and ingest it again"
                    )
                waiting.extend(more)
            yield id_, Trajectory(**fields, steps=tuple(waiting[:count]))
            del waiting[:count]


def _table(lake: Lake, table: str, shard: str, wanted: Any) -> Iterator[pa.RecordBatch]:
    path = lake.path(table, shard=shard)
    if not path.exists():
        raise LakeError(f"{table} has no shard {shard!r}; ingest it first")
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=ROW_GROUP):
            kept = batch if wanted is None else batch.filter(pc.is_in(batch.column("trajectory_id"), value_set=wanted))
            if kept.num_rows:
                yield kept


def _step_stream(lake: Lake, shard: str, wanted: Any) -> Iterator[list[Step]]:
    for batch in _table(lake, "steps", shard, wanted):
        yield read_steps(batch)
