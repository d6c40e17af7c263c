"""Where the input and the output of one command go: files, other commands, nowhere."""

from __future__ import annotations

import re

from handoff.actions.paths import Context, is_outside, resolve
from handoff.editors.plain import encoded
from handoff.states.effects import Effects
from handoff.states.shell.disk import Disk, Place
from handoff.states.shell.streams import (
    FileSink,
    Oracle,
    Sink,
    Status,
    Streams,
)
from handoff.states.shell.tree import (
    Beyond,
    Heredoc,
    Redirect,
    Script,
)
from handoff.states.shell.words import Arg, Expander
from handoff.states.versions import UNSURE

_SINKS = frozenset(("/dev/null", "/dev/tty", "/dev/stdin"))


class NotOpened(Exception):
    """A redirection fails: the command does not run."""


class Redirecting:
    """The files and words of a machine, and its redirections."""

    def __init__(self, effects: Effects, context: Context, oracle: Oracle) -> None:
        self.effects = effects
        self.disk = Disk(effects)
        self.context = context
        self.oracle = oracle
        self.words = Expander(self.disk, self.substituted)

    def substituted(self, script: Script) -> bytes | None:
        """What a script prints; ``None``: not known."""
        raise NotImplementedError

    def place(self, text: str, *, follows: bool = True) -> Place:
        """Where a path as typed leads."""
        return self.disk.locate(text, self.context, follows=follows)

    def decided(self, status: Status, about: str) -> bool:
        """The status, where it must be known: one of the ways that are tried."""
        return self.oracle.ask(about) if status is None else status

    # -- redirections ---------------------------------------------------------------------------

    def opened(self, redirects: tuple[Redirect, ...], streams: Streams, command_name: str) -> Streams:
        """The streams after redirections, in order. ``NotOpened`` when one fails, and the command does not run."""
        source: Arg | None = None
        for redirect in redirects:
            operator, target = redirect.operator, redirect.target
            if isinstance(target, Heredoc):
                given = self.words.single(target.word)
                if redirect.fd not in (None, 0):
                    raise Beyond("a heredoc for another descriptor")
                known = encoded(given.text) if given.is_known else None
                streams = streams._replace(stdin=known, written=None if given.is_known else given.text)
                source = None
                continue
            arg = self.words.single(target) if operator == "<<<" else self._target(target)
            if operator == "<<<":
                streams = streams._replace(stdin=encoded(arg.text + "\n") if arg.is_known else None)
                source = None
            elif operator == "<":
                if redirect.fd not in (None, 0):
                    raise Beyond("another descriptor")
                is_doubtful = self._read(arg) is None and self.disk.kind(self.place(arg.text)) == "unknown"
                if is_doubtful and not self.decided(None, f"reading {arg.text}"):
                    raise NotOpened
                source = arg
            elif operator in (">&", "<&") and re.fullmatch(r"\d|-", arg.text):
                streams = self._copied(redirect.fd, operator, arg.text, streams)
            elif operator in (">", ">>", ">|", "&>", "&>>", ">&"):
                sink = self._file_sink(arg, operator in (">>", "&>>"), f"output of {command_name}", streams)
                if operator in ("&>", "&>>", ">&"):
                    streams = streams._replace(out=sink, err=sink)
                elif redirect.fd in (None, 1):
                    streams = streams._replace(out=sink)
                elif redirect.fd == 2:
                    streams = streams._replace(err=sink)
                else:
                    raise Beyond("another descriptor")
            else:
                raise Beyond(f"the redirection {operator}")
        # A file is read when the program runs: an output to the same file has emptied it by then.
        return streams if source is None else streams._replace(stdin=self._read(source), source=self.place(source.text))

    def _target(self, word: object) -> Arg:
        args = self.words.args((word,), self.context)  # type: ignore[arg-type]
        if len(args) != 1:
            raise Beyond("a redirection to several files")
        return args[0]

    def _copied(self, fd: int | None, operator: str, text: str, streams: Streams) -> Streams:
        if operator == "<&" or text not in ("1", "2", "-"):
            raise Beyond("another descriptor")
        sink = Sink() if text == "-" else streams.out if text == "1" else streams.err
        if fd in (None, 1):
            return streams._replace(out=sink)
        if fd == 2:
            return streams._replace(err=sink)
        raise Beyond("another descriptor")

    def _read(self, arg: Arg) -> bytes | None:
        if not arg.is_known:
            return None
        if arg.text == "/dev/null":
            return b""
        place = self.place(arg.text)
        data = self.disk.read(place)
        if self.disk.kind(place) == "folder":
            return None
        if data is None:
            raise NotOpened
        return None if data is UNSURE else data

    def _file_sink(self, arg: Arg, appends: bool, reason: str, streams: Streams) -> Sink:
        if arg.text.startswith(("/dev/std", "/dev/fd/")) and arg.text != "/dev/stdin":
            sink = streams.err if arg.text == "/dev/stderr" else streams.out
            if isinstance(sink, FileSink) or arg.text.startswith("/dev/fd/"):
                raise Beyond("a descriptor opened by its name")
            return sink
        if arg.text in _SINKS:
            return Sink()
        if arg.text.startswith("/dev/"):
            return Sink()
        place = self.place(arg.text)
        if not arg.is_known:
            if not is_outside(resolve(arg.text, self.context)) or arg.text.startswith("$"):
                self.effects.forget(f"{reason} to an unknown file", ())
            return Sink()
        if appends:
            old = self.disk.read(place)
            if self.disk.kind(place) == "folder":
                raise NotOpened
            data = None if old is UNSURE else old or b""
        else:
            data = b""
        if self.disk.write(place, data, reason) is False:
            raise NotOpened
        return FileSink(self.disk, place, reason)
