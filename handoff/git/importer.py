"""Writing states into a mirror: one ``git fast-import`` for any number of trajectories.

A trajectory becomes a chain of commits under ``refs/handoff/<trajectory id>``, one for each step that changed
something, on top of its base commit. Author, date and message are constants, so the same edits give the same
commit ids everywhere. Each writer imports into a quarantine of its own (``packs``), then moves its pack in, then moves
refs; only the last takes a lock. A run that is killed leaves a quarantine, which a later writer removes, or a pack that
nothing refers to, which the same run writes again.
"""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, NamedTuple

from handoff.errors import StateError
from handoff.git.objects import EMPTY_TREE, byte_path
from handoff.git.packs import publish, quarantine, tidy
from handoff.git.program import git_environment, git_program
from handoff.git.repository import Repository

_PERSON = b"handoff <handoff@example.invalid> 0 +0000"
_REF = re.compile(r"[A-Za-z0-9_]{1,100}")

FileState = tuple[str, bytes] | None
"""(mode, content) of a file, or ``None`` for no file."""


class Chain(NamedTuple):
    """One trajectory's states: the base and, in order, the files that each changing step left different."""

    trajectory_id: str
    base_commit: str
    changes: list[Mapping[str, FileState]]


class Written(NamedTuple):
    """(commit, tree) after each change of a chain, the base first."""

    trajectory_id: str
    states: list[tuple[str, str]]


def write_chains(repository: Repository, chains: Iterable[Chain]) -> list[Written]:
    """Store chains; their ids. Writing a chain again changes nothing. ``StateError``: git refused, and no ref moved."""
    chains = list(chains)
    for chain in chains:
        if not _REF.fullmatch(chain.trajectory_id):
            raise StateError(f"{chain.trajectory_id!r} cannot name a state; use a trajectory id")
    if not chains:
        return []
    with quarantine(repository.git_dir) as aside:
        answers = _import(aside, chains, repository)
        publish(aside, repository.git_dir)
        written = list(_read_answers(chains, answers))
        with repository.lock():
            _move_refs(repository, written)
    tidy(repository.git_dir)
    return written


def _import(aside: Path, chains: list[Chain], repository: Repository) -> list[bytes]:
    """Run ``git fast-import`` in a quarantine; its answers, by line."""
    answers: list[bytes] = []
    process = subprocess.Popen(
        [
            *(git_program(), "--git-dir", str(aside)),
            *("-c", "fastimport.unpackLimit=0", "-c", "core.fsync=pack,pack-metadata"),
            *("fast-import", "--quiet", "--force", "--done", "--date-format=raw"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=git_environment(),
    )
    assert process.stdin and process.stdout and process.stderr
    said: list[bytes] = []
    readers = [
        threading.Thread(target=_collect, args=(process.stdout, answers)),
        threading.Thread(target=_collect, args=(process.stderr, said)),
    ]
    for reader in readers:
        reader.start()
    try:
        for command in _commands(chains):
            process.stdin.write(command)
        process.stdin.close()
    except BrokenPipeError:
        pass  # git's own words follow
    except BaseException:
        process.kill()
        raise
    finally:
        code = process.wait()
        for reader in readers:
            reader.join()
        process.stdout.close()
        process.stderr.close()
    if code:
        raise StateError(
            f"states could not be written into {repository.git_dir}: "
            f"{b''.join(said).decode('utf-8', 'replace').strip()[-300:]}; check free space and rights, then run again"
        )
    return b"".join(answers).split(b"\n")


def _move_refs(repository: Repository, written: list[Written]) -> None:
    """Let each trajectory's ref point to its last state. What they point to is on disk already."""
    moves = [f"update refs/handoff/{item.trajectory_id} {item.states[-1][0]}\n" for item in written]
    repository.git("-c", "core.fsync=none", "update-ref", "--stdin", stdin="".join(moves).encode("ascii"))


def _collect(stream: IO[bytes], into: list[bytes]) -> None:
    while block := stream.read1(65_536) if hasattr(stream, "read1") else stream.read(65_536):
        into.append(block)


def _commands(chains: list[Chain]) -> Iterator[bytes]:
    mark = 0
    for chain in chains:
        ref = b"refs/handoff/" + chain.trajectory_id.encode()
        base = chain.base_commit.encode()
        yield b'reset %s\nfrom %s\n\nls %s ""\n' % (ref, base, base)
        for number, change in enumerate(chain.changes):
            mark += 1
            message = b"state %d\n" % (number + 1)
            yield b"commit %s\nmark :%d\ncommitter %s\ndata %d\n%s" % (ref, mark, _PERSON, len(message), message)
            if number == 0:
                yield b"from %s\n" % base
            for path, state in sorted(change.items(), key=lambda item: (item[1] is not None, item[0])):
                quoted = _quoted(path)
                if state is None:
                    yield b"D %s\n" % quoted
                else:
                    mode, data = state
                    yield b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), quoted, len(data), data)
            yield b'\nget-mark :%d\nls :%d ""\n' % (mark, mark)
    yield b"done\n"


def _quoted(path: str) -> bytes:
    raw = byte_path(path)
    return (
        b'"'
        + b"".join(b"\\%03o" % byte if byte < 32 or byte in (34, 92) or byte > 126 else bytes([byte]) for byte in raw)
        + b'"'
    )


def _read_answers(chains: list[Chain], lines: list[bytes]) -> Iterator[Written]:
    at = 0
    for chain in chains:
        states = [(chain.base_commit, _tree(lines[at]))]
        at += 1
        for _ in chain.changes:
            states.append((lines[at].decode("ascii"), _tree(lines[at + 1])))
            at += 2
        yield Written(chain.trajectory_id, states)


def _tree(answer: bytes) -> str:
    """The id in ``040000 tree <id>\\t``; an empty root is reported as missing."""
    parts = answer.split()
    return EMPTY_TREE if parts[:1] == [b"missing"] else parts[2].decode("ascii")
