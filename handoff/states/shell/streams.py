"""What flows between commands: input, output, statuses; and what stands for those that are not known."""

from __future__ import annotations

from typing import NamedTuple

from handoff.states.shell.disk import MOST_BYTES, Disk, Place
from handoff.states.versions import UNSURE

Status = bool | None
"""Whether a command succeeded; ``None``: not known."""


class Unsupported(Exception):
    """The program's options are not carried out here; its static reading is used."""


class Refused(Exception):
    """The program refuses its arguments: it fails, and does nothing."""


class Leave(Exception):
    """The line ends here: ``exit``, or a command killed. ``args[0]``: the status."""


class Result(NamedTuple):
    """What a command left: whether it succeeded, what it printed, and whether it printed no error."""

    status: Status = True
    out: bytes | None = b""
    is_quiet: bool = True
    """Whether nothing went to its standard error, success given."""


class Unordered(bytes):
    """Lines whose order is not known: names of files as a program finds them in a folder."""


def ordered(data: bytes | None) -> bytes | None:
    """``data``, unless its order is not known."""
    return None if isinstance(data, Unordered) and data.count(b"\n") > 1 else data


class Sink:
    """Where output goes; this one drops it."""

    def write(self, data: bytes | None) -> None:
        """Take more output; ``None``: output that is not known."""


class Buffer(Sink):
    """Output that something else reads."""

    def __init__(self) -> None:
        self.data: bytes | None = b""

    def write(self, data: bytes | None) -> None:
        """Take more output."""
        if self.data == b"":
            self.data = data
        elif data != b"":
            self.data = None if data is None or self.data is None else (ordered(self.data) or b"") + data
            if ordered(data) is None or (self.data is not None and len(self.data) > MOST_BYTES):
                self.data = None


class FileSink(Sink):
    """Output that goes to a file at once."""

    def __init__(self, disk: Disk, place: Place, reason: str) -> None:
        self._disk, self.place, self._reason = disk, place, reason

    def write(self, data: bytes | None) -> None:
        """Add to the file."""
        if data == b"":
            return
        data = ordered(data)
        old = self._disk.read(self.place)
        is_known = data is not None and old is not UNSURE
        self._disk.write(self.place, (old or b"") + data if is_known and data is not None else None, self._reason)


class Streams(NamedTuple):
    """Input, output and errors of a command. Input ``None``: not known."""

    stdin: bytes | None
    out: Sink
    err: Sink
    source: Place | None = None
    """The file that the input comes from, when it is one."""
    is_piped: bool = False
    """Whether the input comes from another command."""
    written: str | None = None
    """The text of a here-document as written, where expansions in it are not known."""


class Use(NamedTuple):
    """What one command of a pipeline did with files. ``has_waited``: only after those before it had ended."""

    read: set[Place]
    written: set[Place]
    has_waited: bool


class Oracle:
    """Answers whether a command succeeded where that is not known: yes first; ``next_way`` turns the last yes."""

    def __init__(self) -> None:
        self._answers: list[bool] = []
        self._place = 0
        self.asked: list[str] = []

    def ask(self, about: str) -> bool:
        """The answer for this run."""
        if self._place == len(self._answers):
            self._answers.append(True)
            self.asked.append(about)
        self._place += 1
        return self._answers[self._place - 1]

    def next_way(self) -> bool:
        """Prepare another run; false when every way was tried."""
        while self._answers and not self._answers[-1]:
            self._answers.pop()
            self.asked.pop()
        if not self._answers:
            return False
        self._answers[-1] = False
        self._place = 0
        return True
