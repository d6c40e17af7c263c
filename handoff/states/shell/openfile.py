"""Files that an interpreted program has open."""

from __future__ import annotations

import re
from typing import Any

from handoff.states.shell.disk import Disk, Place
from handoff.states.shell.machine import Machine
from handoff.states.shell.values import (
    Failed,
    NotUnderstood,
    OpenedFile,
    PathValue,
    checked,
)
from handoff.states.shell.work import Work
from handoff.states.versions import UNSURE


class Files:
    """The files of a program, as it reads and writes them."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.disk: Disk = machine.disk
        self.work = Work()
        """What the program may still cost."""
        self.waiting: set[str] = set()
        """Files with writes that have not reached them yet."""

    def place(self, path: Any) -> Place:
        """Where a path leads."""
        text = path.text if isinstance(path, PathValue) else path
        if not isinstance(text, str) or not text or "\0" in text:
            raise NotUnderstood
        if text.startswith(("~", "$")):
            raise NotUnderstood
        place = self.machine.place(text)
        if not place.is_certain:
            raise NotUnderstood
        return place

    def read(self, place: Place, *, must_exist: bool = True) -> bytes:
        """The bytes of a file."""
        data = self.disk.read(place)
        if data is UNSURE or place.path in self.waiting:
            raise NotUnderstood
        if data is None and (must_exist or self.disk.kind(place) == "folder"):
            raise Failed
        return data if isinstance(data, bytes) else b""

    def write(self, place: Place, data: bytes) -> None:
        """Set the bytes of a file."""
        status = self.disk.write(place, data, "a program")
        if status is None:
            raise NotUnderstood
        if not status:
            raise Failed


class OpenFile(OpenedFile):
    """An open file. Every write reaches the state at once; ``Program.read`` minds those that in truth wait."""

    def __init__(self, program: Files, place: Place, mode: str, newline: str | None) -> None:
        self.is_text = "b" not in mode
        self._translates = self.is_text and newline is None
        self._program, self._place = program, place
        self.kind = mode.replace("b", "").replace("t", "")
        self.data = b""
        self.position = 0
        self.is_held = False
        """Whether a name holds it: what is written waits then until it is closed."""
        self._has_read = False
        if self.kind in ("r", "r+", "a", "a+"):
            self.data = program.read(place, must_exist=self.kind[0] == "r")
            self.position = len(self.data) if self.kind[0] == "a" else 0
            if self.kind[0] == "a" and program.disk.kind(place) == "none":
                program.write(place, b"")
        elif self.kind == "x" and program.disk.kind(place) != "none":
            raise Failed
        else:
            program.write(place, b"")

    def read(self) -> str | bytes:
        """The rest of the file."""
        if self.kind not in ("r", "r+"):
            raise NotUnderstood
        if not self._has_read and self._program.read(self._place) != self.data:
            raise NotUnderstood  # changed between opening and reading it
        self._has_read = True
        rest, self.position = self.data[self.position :], len(self.data)
        if not self.is_text:
            return rest
        text = decoded(rest)
        return text.replace("\r\n", "\n").replace("\r", "\n") if self._translates else text

    def lines(self) -> list[str] | list[bytes]:
        """The rest of the file, line by line."""
        text = self.read()
        if isinstance(text, bytes):
            return re.findall(rb"[^\n]*\n|[^\n]+", text)
        if not self._translates and "\r" in text:
            raise NotUnderstood
        return re.findall(r"[^\n]*\n|[^\n]+", text)

    def write(self, text: Any) -> int:
        """Write here."""
        if self.kind == "r" or not isinstance(text, str if self.is_text else bytes):
            raise Failed
        raw = utf8(text) if isinstance(text, str) else text
        at = len(self.data) if self.kind[0] == "a" else self.position
        self.data = checked(self.data[:at] + raw + self.data[at + len(raw) :])
        self.position = at + len(raw)
        self._program.work.spend(4 * len(raw) + len(self.data) // 8)
        self._program.write(self._place, self.data)
        self._has_read = True
        if self.is_held:
            self._program.waiting.add(self._place.path)
        return len(text)

    def close(self) -> None:
        """Nothing waits any longer."""
        self._program.waiting.discard(self._place.path)

    def truncate(self) -> None:
        """End the file here."""
        self.data = self.data[: self.position]
        self._program.write(self._place, self.data)


def decoded(data: bytes) -> str:
    """A text as Python reads it: UTF-8, or the program fails."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Failed from error


def utf8(text: str) -> bytes:
    """A text as Python writes it."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Failed from error
