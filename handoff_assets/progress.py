"""Progress of long stages: into the event log for people in the UI, and to the terminal driver when there is one.

The driver (``driver.py``) listens while it executes a job in its own process; a run started by Dagster has no
listener and only logs.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from dagster import AssetExecutionContext

from handoff.lake import Written

LOG_EVERY_S = 15.0
"""Seconds between two lines in the event log: a shard has thousands of records."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """Where one stage stands. ``written`` is set when it is finished."""

    table: str
    partition: str
    done: int
    total: int
    written: Written | None = None


Listener = Callable[[Step], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send every step of this thread's stages to ``listener``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def of(context: AssetExecutionContext) -> Callable[[int, int], None]:
    """The ``progress(done, total)`` that a stage of the core calls."""
    table, partition, listener = context.asset_key.path[-1], str(context.partition_key), _listener.get()
    last = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal last
        if listener is not None:
            listener(Step(table=table, partition=partition, done=done, total=total))
        if time.monotonic() - last >= LOG_EVERY_S:
            last = time.monotonic()
            context.log.info(f"{table} {partition}: {done} of {total}")

    return report


def finished(written: Written) -> None:
    """Tell the listener that a stage has written, or found, its partition."""
    listener = _listener.get()
    if listener is not None:
        partition = "|".join(value for _, value in sorted(written.partition.items()))
        listener(Step(table=written.table, partition=partition, done=written.rows, total=written.rows, written=written))
