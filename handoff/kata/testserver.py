"""Running the tests of a kata repository: a warm fork server in the sandbox, and a memo in front of it.

The server is ``fork_server.py``, started once per worker inside the sandbox. Equal trees give equal results, so each
(tree, target) runs once and is remembered: in memory and in an append-only file that other workers read. Durations are
taken out of pytest's output, so that its bytes repeat; pytest itself is never imitated.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import subprocess
import time
from pathlib import Path

import msgspec

from handoff.errors import SandboxError

RUN_SECONDS = 20.0
OUTPUT_BYTES = 200_000
_DURATION = re.compile(r" in \d+\.\d+s(?: \(\d+:\d+:\d+\))?(?= ?=*$)", re.MULTILINE)


class TestRun(msgspec.Struct, frozen=True):
    """One run of pytest."""

    __test__ = False

    exit_code: int | None
    """pytest's own; ``None`` when it was stopped because its time was over."""
    output: str

    @property
    def counts(self) -> dict[str, int]:
        """``passed``, ``failed``, ``error`` from pytest's last line."""
        lines = [line for line in self.output.split("\n") if re.search(r"\b\d+ (passed|failed|error)", line)]
        found = re.findall(r"(\d+) (passed|failed|error)", lines[-1]) if lines else []
        return {word: int(number) for number, word in found}


class _Remembered(msgspec.Struct, frozen=True):
    tree: str
    target: str
    run: TestRun


class Memo:
    """(tree, target) → run, in memory and in one append-only file per worker of a shared folder.

    Each line is written by one call, so that readers see whole lines; a torn last line (a kill) is skipped. What other
    workers have written since is read before a run is said to be unknown: they work on the same tasks.
    """

    def __init__(self, folder: Path, worker: str) -> None:
        self._known: dict[tuple[str, str], TestRun] = {}
        self._folder = folder
        self._own = folder / f"{worker}.jsonl"
        self._decoder = msgspec.json.Decoder(_Remembered)
        self._read: dict[Path, int] = {}
        """Bytes read so far of each worker's file."""
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.iterdir()):
            self._catch_up(path)
        self._file = os.open(self._own, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        if os.fstat(self._file).st_size:
            os.write(self._file, b"\n")  # after a torn line

    def __len__(self) -> int:
        return len(self._known)

    def get(self, tree: str, target: str) -> TestRun | None:
        """The remembered run."""
        if (tree, target) not in self._known:
            for path in sorted(self._folder.iterdir()):
                if path != self._own:
                    self._catch_up(path)
        return self._known.get((tree, target))

    def _catch_up(self, path: Path) -> None:
        """Read what was added to a file: its whole lines."""
        start = self._read.get(path, 0)
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size <= start:
                return
            file.seek(start)
            lines, newline, _ = file.read().rpartition(b"\n")
        self._read[path] = start + len(lines) + len(newline)
        for line in lines.split(b"\n"):
            with contextlib.suppress(msgspec.DecodeError):
                entry = self._decoder.decode(line)
                self._known[entry.tree, entry.target] = entry.run

    def put(self, tree: str, target: str, run: TestRun) -> None:
        """Remember a run."""
        self._known[tree, target] = run
        os.write(self._file, msgspec.json.encode(_Remembered(tree, target, run)) + b"\n")

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class TestServer:
    """The client of one fork server. Not safe for use by two threads at once."""

    __test__ = False

    def __init__(self, process: subprocess.Popen[bytes], root: str) -> None:
        self._process = process
        self._root = root
        self._buffer = b""
        self.runs = 0
        self._answer(60.0)  # it says once that it is ready

    def run(self, target: str) -> TestRun:
        """Run one test file, or all tests for ``""``, on the work folder as it is."""
        self.runs += 1
        arguments = ["-q", target] if target else ["-q"]
        request = {"folder": self._root, "arguments": arguments, "seconds": RUN_SECONDS, "bytes": OUTPUT_BYTES}
        stdin = self._process.stdin
        if stdin is None:
            raise SandboxError("the test server has no standard input")
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
        except OSError as error:
            raise SandboxError(f"the test server is gone ({error}); run again") from error
        answer = self._answer(RUN_SECONDS + 20.0)
        output = str(answer["output"])
        if answer["exit_code"] is None:
            output += f"\nstopped after {RUN_SECONDS:.0f} seconds\n"
        code = answer["exit_code"]
        return TestRun(exit_code=code if isinstance(code, int) else None, output=_DURATION.sub("", output))

    def _answer(self, seconds: float) -> dict[str, int | str | None]:
        stdout = self._process.stdout
        if stdout is None:
            raise SandboxError("the test server has no standard output")
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                left = deadline - time.monotonic()
                chunk = os.read(stdout.fileno(), 1 << 20) if left > 0 and selector.select(left) else b""
                if not chunk:
                    raise SandboxError("the test server does not answer; is pytest installed for this Python?")
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, int | str | None] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the server."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
