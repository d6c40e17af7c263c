"""Rows of one table kept on disk until that table's turn to be written.

One pass over the files feeds four tables, and the lake writes one table at a time: the rows of the other three
wait here, so that memory stays flat.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa

from handoff.errors import LakeError
from handoff.lake import ROW_GROUP, SCHEMAS, Lake


class Spill:
    """A table's rows in a file without a name, which dies with the process. A context manager."""

    def __init__(self, lake: Lake, table: str) -> None:
        self.table = table
        self._folder = lake.root
        self._rows: list[dict[str, Any]] = []
        self._file: IO[bytes]
        self._writer: Any

    def __enter__(self) -> Spill:
        self._file = tempfile.TemporaryFile(dir=self._folder)
        self._writer = pa.ipc.new_stream(
            self._file, SCHEMAS[self.table], options=pa.ipc.IpcWriteOptions(compression="lz4")
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep a batch."""
        try:
            self._writer.write_batch(batch)
        except OSError as error:
            raise self._failure(error) from error

    def add_row(self, **row: Any) -> None:
        """Keep one row."""
        self._rows.append(row)
        if len(self._rows) >= ROW_GROUP:
            self._flush()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Everything added, in order."""
        self._flush()
        try:
            self._writer.close()
            self._file.seek(0)
        except OSError as error:
            raise self._failure(error) from error
        yield from pa.ipc.open_stream(self._file)  # type: ignore[arg-type]

    def _failure(self, error: OSError) -> LakeError:
        why = error.strerror or error
        return LakeError(f"{self.table}: cannot write under {self._folder}: {why}; free space there and run again")

    def _flush(self) -> None:
        if self._rows:
            self.add(pa.RecordBatch.from_pylist(self._rows, schema=SCHEMAS[self.table]))
            self._rows = []
