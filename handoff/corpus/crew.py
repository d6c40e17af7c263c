"""Several processes that digest portions of an ingestion; the results come in the order of the portions.

The process that reads the files takes part: it digests what the others have no room for, so that without any others
everything is done here, by the same code. A result depends on its portion alone: how many processes there are changes
nothing but time.

Others are started as programs of their own: nothing is forked from a process that may have threads, and no main
module is imported twice. Portions and results lie in files without a name, in memory where the system has such; only
their descriptors are sent. A process that has lost its other side ends.
"""

from __future__ import annotations

import gc
import io
import mmap
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from handoff.corpus.digest import Digest, digest
from handoff.corpus.portions import PORTION, Portion
from handoff.errors import WorkerError
from handoff.framing import Record

_WAITING = 2
"""Portions that another process has at a time: the one it digests, and the next."""
_AHEAD = 16 * PORTION
"""Bytes of portions that may be digested before an earlier one is."""
_ALIGNED = 64
_PATIENCE = 5.0
"""Seconds in which a process that has closed its side should be over."""
_READY, _DONE, _FAILED = b"r", b"d", b"f"
_PROGRAM = "import sys; sys.path[:] = {path!r}; from handoff.corpus.crew import serve; serve({descriptor})"

_MOST = 4
"""Processes that one process can feed with files and whose results it can write."""


def usual_workers() -> int:
    """How many processes an ingestion takes: one a core that may be used, but no more than the files can be fed to."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, _MOST)


class _Ticket:
    """A portion on its way, and what came of it."""

    def __init__(self, portion: Portion) -> None:
        self.portion = portion
        self.digest: Digest | None = None


class Crew:
    """This process and ``others``: they are started with the context, and ended with it."""

    def __init__(self, others: int) -> None:
        self._count = others
        self._others: list[_Other] = []

    def __enter__(self) -> Crew:
        with suppress(OSError):  # where no process can be had, the work is done without
            for _ in range(self._count):
                self._others.append(_Other())
        return self

    def __exit__(self, *_: object) -> None:
        for other in self._others:
            other.end()

    def digests(self, portions: Iterable[Portion]) -> Iterator[tuple[Portion, Digest]]:
        """Each portion with its digest, in order. Few are held at a time.

        ``WorkerError`` when another process dies; what goes wrong in one is raised here.
        """
        due: deque[_Ticket] = deque()
        held = 0
        for portion in portions:
            ticket = _Ticket(portion)
            due.append(ticket)
            held += portion.size
            other = next((other for other in self._others if other.has_room), None)
            if other is not None:
                other.give(ticket)
            else:
                ticket.digest = digest(portion.records)
            portion.records.clear()
            self.collect(0)
            while due and (due[0].digest is not None or held > _AHEAD):
                held -= due[0].portion.size
                yield self._first(due)
        while due:
            yield self._first(due)

    def _first(self, due: deque[_Ticket]) -> tuple[Portion, Digest]:
        while (found := due[0].digest) is None:
            self.collect(None)
        return due.popleft().portion, found

    @property
    def ready(self) -> int:
        """How many others have started."""
        return sum(other.is_ready for other in self._others)

    def collect(self, timeout: float | None) -> None:
        """Take what the others have sent; without a timeout, wait until one has."""
        sockets = {other.socket: other for other in self._others if not other.is_gone}
        for ready in select.select(list(sockets), [], [], timeout)[0] if sockets else ():
            sockets[ready].take()


class _Other:
    """One other process."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        program = _PROGRAM.format(path=sys.path, descriptor=theirs.fileno())
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", program], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
                )
            except OSError:
                self.socket.close()
                raise
        self.is_ready = False
        self.is_gone = False
        """True when it died without a portion: the work goes on without it."""
        self._given: deque[tuple[_Ticket, io.BufferedRandom]] = deque()
        self._spare: list[io.BufferedRandom] = []
        """Files of portions that are done: written again, for new memory costs more than to fill it."""

    @property
    def has_room(self) -> bool:
        """Whether another portion may be given."""
        return self.is_ready and len(self._given) < _WAITING

    def give(self, ticket: _Ticket) -> None:
        """Send a portion; ``take`` brings its digest."""
        file = self._spare.pop() if self._spare else _nameless()
        self._given.append((ticket, file))
        file.seek(0)
        pickle.dump(ticket.portion.records, file, pickle.HIGHEST_PROTOCOL)
        file.flush()
        try:
            socket.send_fds(self.socket, [_READY], [file.fileno()])
        except OSError as error:
            raise self._death() from error

    def take(self) -> None:
        """One message, which is there."""
        try:
            kind, descriptors, _, _ = socket.recv_fds(self.socket, 1, 1)
        except OSError:
            kind, descriptors = b"", []
        if not kind and self._given:
            raise self._death()
        self.is_ready, self.is_gone = bool(kind), not kind
        for descriptor in descriptors:
            with os.fdopen(descriptor, "rb") as file:
                file.seek(0)
                if kind == _FAILED:
                    raise pickle.load(file)
                ticket, spare = self._given.popleft()
                ticket.digest = _loaded(file)
                if ticket.portion.size > 2 * PORTION:
                    spare.truncate(0)
                self._spare.append(spare)

    def end(self) -> None:
        """End the process: it holds nothing that is wanted."""
        self.socket.close()
        for file in (*self._spare, *(file for _, file in self._given)):
            file.close()
        self._process.kill()
        self._process.wait()

    def _death(self) -> WorkerError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        self.end()
        status = self._process.returncode
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return WorkerError(
            f"a process that helps to read files died ({how}), perhaps for lack of memory; "
            "run again, with ingest_workers = 1 in handoff.toml if it dies again"
        )


def serve(descriptor: int) -> None:
    """The life of another process: portions come and digests go through a socket, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one is told, and ends it
    gc.freeze()  # what was imported stays: the collector need not look at it again and again
    with socket.socket(fileno=descriptor) as theirs, suppress(ConnectionError):
        theirs.sendall(_READY)
        while True:
            kind, descriptors, _, _ = socket.recv_fds(theirs, 1, 1)
            if not kind:
                return
            with os.fdopen(descriptors[0], "rb") as file:
                file.seek(0)
                records: list[Record] = pickle.load(file)
            with _nameless() as out:
                try:
                    _store(digest(records), out)
                    kind = _DONE
                except Exception as error:  # noqa: BLE001 - any failure has to reach the process that asked
                    error.add_note(traceback.format_exc())
                    out.seek(0)
                    pickle.dump(error, out)
                    kind = _FAILED
                out.flush()
                socket.send_fds(theirs, [kind], [out.fileno()])


def _store(found: Digest, file: io.BufferedRandom) -> None:
    """A digest as bytes: where the pickled part begins, the steps as Arrow writes them, the rest pickled."""
    file.write(bytes(_ALIGNED))
    sink = pa.PythonFile(file, mode="w")
    with pa.ipc.new_stream(sink, found.steps.schema) as stream:
        stream.write_batch(found.steps)
    rest = file.tell()
    heads = io.BytesIO()
    with pa.ipc.new_stream(heads, found.heads.schema) as stream:
        stream.write_batch(found.heads)
    pickle.dump((found.readings, heads.getvalue()), file, pickle.HIGHEST_PROTOCOL)
    file.seek(0)
    file.write(rest.to_bytes(_ALIGNED))


def _loaded(file: io.BufferedReader) -> Digest:
    """The digest that a file holds. Its steps stay there, mapped; heads wait for long and are copied."""
    place = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    rest = int.from_bytes(place[:_ALIGNED])
    readings, heads = pickle.loads(memoryview(place)[rest:])
    return Digest(readings, _batch(heads), _batch(pa.py_buffer(place).slice(_ALIGNED, rest - _ALIGNED)))


def _batch(stream: Any) -> pa.RecordBatch:
    with pa.ipc.open_stream(stream) as batches:
        return batches.read_next_batch()


def _nameless() -> io.BufferedRandom:
    """A file without a name, in memory if that can be had."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("portion")
    else:
        descriptor, name = tempfile.mkstemp()
        Path(name).unlink()
    return os.fdopen(descriptor, "w+b")
