"""One bash that stays: the part that all back ends share.

A command is sent through a pipe and evaluated in the shell itself, so ``cd`` and variables last. Its output
comes through a second pipe, and the word that it has ended through a third, which the command does not hold:
nothing a command prints can be mistaken for its end. A shell that ended, hung or was stopped is started
again, in the folder it was last known to be in, when the next command comes.

Where no third pipe can be handed over (docker), standard error is the third one. What passes through an engine may
overtake there, so a mark of the same command in the output says that all before it has come.

What the shell is confined by is decided by the command line it is given (``bubblewrap.py``, ``docker.py``,
``host.py``).
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import re
import secrets
import select
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from handoff.errors import SandboxError
from handoff.sandbox.base import Completed, Limits
from handoff.sandbox.watch import Watch, Watched

FLOOD_MB = 64
"""A command that writes more output than this is stopped."""

PLAIN_ENVIRONMENT: dict[str, str] = {
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "agent",
    "GIT_AUTHOR_EMAIL": "agent@localhost",
    "GIT_COMMITTER_NAME": "agent",
    "GIT_COMMITTER_EMAIL": "agent@localhost",
    # The work folder may belong to another user id than the one seen inside.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    # Byte code would show up in the work folder as a change nobody made.
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""The whole environment of a command, but for PATH and HOME. Nothing of the host's own is passed on."""

_GONE_S = 0.05
_LOOK_S = 0.2
"""How often it is looked whether a command is to be stopped."""
_FENCE_S = 5.0
"""Seconds that output may lag behind the word that the command has ended."""
_HEADER = 10  # digits, twice: serial number and length in bytes
# $1: number of the channel, $2: folder to start in, $3: folder if that is gone. The length is in bytes, hence LC_ALL=C
# for that read. FENCE is left out or stands for the mark in the output.
_LOOP = (
    'exec 3<&0 4>&"$1" 5>&1 </dev/null; eval "exec $1>&-"; cd -- "$2" 2>/dev/null || cd -- "$3"; set --; '
    f"printf '%0{_HEADER}d 0 %s\\0' 0 \"$PWD\" >&4; "
    f"while IFS= read -r -u 3 -N {_HEADER} __serial && IFS= read -r -u 3 -N {_HEADER} __size"
    ' && IFS= LC_ALL=C read -r -u 3 -N "$((10#$__size))" __command; do '
    'eval "$__command" </dev/null >&5 2>&5 3<&- 4>&- 5>&-; __code=$?; FENCE'
    'builtin printf \'%s %d %s\\0\' "$__serial" "$__code" "$PWD" >&4; done'
)
_ENDED = re.compile(rb"(\d{10}) (\d{1,3}) (/.*)", re.DOTALL)


def limits_script(limits: Limits, *, processes: bool) -> str:
    """Shell commands that set this process's hard limits, for all it starts. They cannot be raised again.

    ``processes``: also bound their number, which the kernel counts per user and user namespace.
    """
    parts = [
        "ulimit -c 0",
        f"ulimit -f {limits.file_mb * 1024}",
        f"ulimit -d {limits.memory_mb * 1024}",
        "ulimit -n 1024 2>/dev/null",
    ]
    if processes:
        parts.append(f"ulimit -u {limits.processes}")
    return "; ".join(parts)


class PersistentShell:
    """Drives one bash.

    ``launch(argv, pass_fds)`` starts a process confined as the back end wants, with stdin and stdout as pipes
    and stderr into stdout; ``stop(process)`` kills it with all it started, and returns when they are gone.
    ``can_pass``: whether ``pass_fds`` reach it; where they do not, stderr is a pipe of its own.
    """

    def __init__(
        self,
        root: str,
        limits: Limits,
        watch: Watch,
        launch: Callable[[Sequence[str], Sequence[int]], subprocess.Popen[bytes]],
        stop: Callable[[subprocess.Popen[bytes]], None],
        prologue: str,
        *,
        can_pass: bool = True,
    ) -> None:
        self._root = root
        self._cwd = root
        self._limits = limits
        self._watch = watch
        self._launch = launch
        self._stop = stop
        self._prologue = prologue
        self._can_pass = can_pass
        self._fence = b""
        self._early = b""
        self._serial = 0
        self._is_ready = False
        self._is_closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._watched: Watched | None = None
        self._status = -1
        self._start()

    # -- one command ----------------------------------------------------------------------------

    def run(self, command: str, timeout_s: float | None, stop: threading.Event | None = None) -> Completed:
        """See ``Sandbox.run``."""
        started = time.monotonic()
        if self._is_closed:
            raise SandboxError("the sandbox is closed")
        if "\0" in command:
            return Completed(exit_code=None, output="", notice="[Not run: the command holds a NUL byte.]")
        wall_s = self._limits.wall_s if timeout_s is None else timeout_s
        script = command.encode("utf-8", "replace")
        kept = _Kept(self._limits.output_kb * 1024)
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._start()
        assert self._process is not None and self._watched is not None
        self._serial += 1
        request = b"%010d%010d%s" % (self._serial, len(script), script)
        self._watch.is_busy = True
        try:
            ended, reason = self._exchange(request, kept, started + wall_s, stop)
        except BaseException:  # an interrupt: what still runs must not answer for the next command
            self._end()
            raise
        finally:
            self._watch.is_busy = False
        exit_code: int | None = None
        notice = ""
        if ended is not None:
            exit_code, self._cwd = ended
        else:
            process = self._process
            if reason is None and self._watched.reason is None:  # it ended by itself: let it tell how
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(_GONE_S)
                    exit_code = code if code >= 0 else 128 - code
                if not self._is_ready:
                    self._end()
                    said = kept.text().strip() or "it gives no reason"
                    raise SandboxError(f"the sandbox's shell does not start: {said}")
            self._end()
            notice = self._explain(reason or self._watched.reason, wall_s)
        return Completed(
            exit_code=exit_code,
            output=kept.text(),
            timed_out=reason == "time",
            is_truncated=kept.left_out > 0,
            seconds=time.monotonic() - started,
            notice=notice,
        )

    def _exchange(
        self, request: bytes, kept: _Kept, deadline: float, stop: threading.Event | None
    ) -> tuple[tuple[int, str] | None, str | None]:
        """Send and listen. ((exit code, folder), None), or (None, why it was given up; None: the shell ended)."""
        assert self._process is not None and self._process.stdin is not None and self._process.stdout is not None
        to, out, status = self._process.stdin.fileno(), self._process.stdout.fileno(), self._status
        poll = select.poll()
        poll.register(out, select.POLLIN)
        poll.register(status, select.POLLIN)
        request = _send(to, request)
        if request:
            poll.register(to, select.POLLOUT)
        word = b""
        is_silent = False
        output = _Output(kept, b"%s%010d\0" % (self._fence, self._serial) if self._fence else b"")
        output.add(self._early)
        self._early = b""
        ended: tuple[int, str] | None = None
        while True:
            if ended is not None and output.is_complete:
                self._early = output.after
                return ended, None
            left = deadline - time.monotonic()
            if left <= 0:
                return None, "time" if ended is None else "protocol"
            if stop is not None:
                if stop.is_set():
                    return None, "stop"
                left = min(left, _LOOK_S)
            # Once the shell has let go of its channel it may still be anything: wait for it to end.
            ready = dict(poll.poll(min(left, _GONE_S if is_silent else left) * 1000 + 1))
            if is_silent and not ready and self._process.poll() is not None:
                output.end()
                return None, None
            if to in ready:
                request = _send(to, request)
                if not request:
                    poll.unregister(to)
            if status in ready:
                data = os.read(status, 4096)
                if not data:
                    poll.unregister(status)
                    is_silent = True
                word += data
                while b"\0" in word:
                    line, word = word.split(b"\0", 1)
                    found = _ENDED.fullmatch(line)
                    if found is None or int(found[1]) > self._serial:
                        return None, "protocol"
                    self._is_ready = True
                    if int(found[1]) == self._serial and ended is None:
                        ended = int(found[2]), os.fsdecode(found[3])
                        if not self._fence:
                            output.add(_waiting(out))
                            return ended, None
                        deadline = time.monotonic() + _FENCE_S
                if len(word) > 8192:
                    return None, "protocol"
            if out in ready:
                data = os.read(out, 65_536)
                if not data:  # nobody can write any more: all of them ended
                    output.end()
                    if not self._is_ready:
                        kept.add(word)
                    return None, None
                output.add(data)
                if output.is_complete:
                    poll.unregister(out)
                if kept.total > FLOOD_MB << 20:
                    return None, "output"

    def _explain(self, reason: str | None, wall_s: float) -> str:
        limits = self._limits
        why = {
            None: "The shell ended.",
            "stop": "Stopped from outside.",
            "time": f"Stopped after {wall_s:g} s: the command took too long.",
            "output": f"Stopped: more than {FLOOD_MB} MB of output.",
            "memory": f"Stopped: more than {limits.memory_mb} MB of memory in use.",
            "processes": f"Stopped: more than {limits.processes} processes.",
            "disk": f"Stopped: the work folder grew by more than {limits.disk_mb} MB or {limits.files} files.",
            "files": f"Stopped: more than {limits.files} temporary files.",
            "protocol": "Stopped: the command wrote to the sandbox's own channel.",
        }[reason]
        return f"[{why} A new shell starts in {self._cwd}; variables and background processes are gone.]"

    # -- the process ----------------------------------------------------------------------------

    def _start(self) -> None:
        process, status = self._launch_passing() if self._can_pass else self._launch_fenced()
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        self._process, self._status, self._is_ready = process, status, False
        self._watched = self._watch.add(process.pid, lambda: self._stop(process))

    def _launch_passing(self) -> tuple[subprocess.Popen[bytes], int]:
        """The process, and the channel that it was handed the other end of."""
        mine, low = os.pipe()
        theirs = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 64)  # clear of the numbers the script uses
        os.close(low)
        try:
            return self._launch(self._argv(str(theirs), ""), (theirs,)), mine
        except OSError as error:
            os.close(mine)
            raise SandboxError(f"the sandbox's shell does not start: {error}") from error
        finally:
            os.close(theirs)

    def _launch_fenced(self) -> tuple[subprocess.Popen[bytes], int]:
        """The process, and its standard error as the channel."""
        mark = f"mark-{secrets.token_hex(16)}"  # no digit first: printf would read it with the zero
        self._fence, self._early = b"\0%s " % mark.encode(), b""
        try:
            process = self._launch(self._argv("2", f"builtin printf '\\0{mark} %s\\0' \"$__serial\" >&5; "), ())
        except OSError as error:
            raise SandboxError(f"the sandbox's shell does not start: {error}") from error
        assert process.stderr is not None
        return process, os.dup(process.stderr.fileno())

    def _argv(self, channel: str, fence: str) -> list[str]:
        script = f"{self._prologue}; {_LOOP.replace('FENCE', fence)}"
        return ["bash", "--norc", "--noprofile", "-c", script, "bash", channel, self._cwd, self._root]

    def _end(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        if self._watched is not None:
            self._watch.remove(self._watched)
        self._stop(process)
        os.close(self._status)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def close(self) -> None:
        """End the shell and all it started; nothing can be run any more."""
        self._is_closed = True
        self._end()


class _Kept:
    """The beginning and the end of an output, in bounded memory."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 4 * self._half:
            del self._tail[: -self._half]

    @property
    def left_out(self) -> int:
        return max(0, self.total - 2 * self._half)

    def text(self) -> str:
        if not self.left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        # Cutting may have split a character: its remains are no part of the output.
        head = re.sub(rb"[\xc0-\xff][\x80-\xbf]{0,2}\Z", b"", bytes(self._head))
        tail = re.sub(rb"\A[\x80-\xbf]{1,3}", b"", bytes(self._tail[-self._half :]))
        gap = self.total - len(head) - len(tail)
        return f"{head.decode('utf-8', 'replace')}\n[... {gap} bytes left out ...]\n{tail.decode('utf-8', 'replace')}"


class _Output:
    """Output on its way into ``kept``, up to a mark. Without a mark it is never complete."""

    def __init__(self, kept: _Kept, mark: bytes) -> None:
        self._kept = kept
        self._mark = mark
        self._held = b""
        self.is_complete = False
        self.after = b""
        """What came behind the mark, of what runs on in the background."""

    def add(self, data: bytes) -> None:
        if self.is_complete:
            self.after += data
            return
        if not self._mark:
            self._kept.add(data)
            return
        data = self._held + data
        before, mark, after = data.partition(self._mark)
        if mark:
            self._kept.add(before)
            self._held, self.after, self.is_complete = b"", after, True
            return
        # The mark may be cut in two: what could be its beginning waits for the rest.
        start = data.rfind(b"\0", max(0, len(data) - len(self._mark) + 1))
        while start != -1 and not self._mark.startswith(data[start:]):
            start = data.rfind(b"\0", max(0, len(data) - len(self._mark) + 1), start)
        end = len(data) if start == -1 else start
        self._kept.add(data[:end])
        self._held = data[end:]

    def end(self) -> None:
        """No mark will come."""
        self._kept.add(self._held)
        self._held = b""


def _send(pipe: int, data: bytes) -> bytes:
    """Write what fits; the rest comes back. A shell that is gone shows up when it is read from."""
    try:
        return data[os.write(pipe, data) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:
        return b""


def _waiting(pipe: int) -> bytes:
    """What is in the pipe now: all that was written before the command's end, and never more than a pipeful."""
    size = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, size)
    return os.read(pipe, size[0]) if size[0] else b""


def command_environment(home: str, path: Sequence[str], extra: Mapping[str, str]) -> dict[str, str]:
    """All variables a command sees. ``path``: folders before the system's own."""
    system = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
    return {**PLAIN_ENVIRONMENT, "HOME": home, "PATH": ":".join([*path, *system]), **extra}
