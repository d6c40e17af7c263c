"""Rows taken from batches of others, collected until they are a batch of their own."""

from __future__ import annotations

import pyarrow as pa


class Slices:
    """Consecutive rows of one table that lie in several batches."""

    def __init__(self) -> None:
        self.rows = 0
        self.size = 0
        """As its rows were said to be."""
        self._slices: list[tuple[pa.RecordBatch, int, int]] = []

    def add(self, batch: pa.RecordBatch, start: int, count: int, size: int) -> None:
        """``count`` rows of a batch."""
        self.rows += count
        self.size += size
        if self._slices:
            last, begun, length = self._slices[-1]
            if last is batch and begun + length == start:
                self._slices.pop()
                start, count = begun, length + count
        self._slices.append((batch, start, count))

    def batch(self) -> pa.RecordBatch:
        """The rows added since the last call, at least one."""
        taken = [batch.slice(start, count) for batch, start, count in self._slices]
        self.rows = self.size = 0
        self._slices = []
        return taken[0] if len(taken) == 1 else pa.Table.from_batches(taken).combine_chunks().to_batches()[0]
