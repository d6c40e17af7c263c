"""The programs that a recorded call starts, and the addresses it names.

The rules about risk and peeking ask what *ran*, not what it did to files, so they read the line itself: wrappers such
as ``sudo`` and ``timeout`` taken off, ``bash -c`` opened. Nothing is executed or expanded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec

from handoff.shell import LONGEST, Command, commands
from handoff.trajectory import Action


class Program(msgspec.Struct, frozen=True, gc=False):
    """One program of a line."""

    name: str
    """Without its folder."""
    arguments: tuple[str, ...]
    """Quoting resolved; what the shell would expand is as written."""
    then: tuple[str, ...] = ()
    """Programs that read its output through the pipe, in order."""

    def __str__(self) -> str:
        return " ".join((self.name, *self.arguments))


class Call(msgspec.Struct, frozen=True, gc=False):
    """What one action starts and where it reaches."""

    programs: tuple[Program, ...] = ()
    urls: tuple[str, ...] = ()


NOTHING = Call()

_INTERESTING = re.compile(
    r"\b(?:git|gh|glab|hub|rm|find|curl|wget|n?cat|nc|telnet|ssh|scp|sftp|rsync|ftp|pip3?|uv|poetry|npm|npx|yarn|pnpm"
    r"|go|cargo|gem|apt|apt-get|brew|conda|docker|sudo|su|doas|chmod|chown|systemctl|shutdown|reboot|mount|iptables"
    r"|crontab|shred|mkfs|dd|env|printenv|base64)\b|\$\{?\w{0,40}(?:TOKEN|SECRET|PASSW|KEY)|/etc/g?shadow|/environ\b|\.(?:aws|kube)/|\.git/|\.env\b|site-packages|https?://"
)
"""Lines without any of these words concern no rule: most need no second look."""
_URL = re.compile(r"(?:https?|ssh|git)://[^\s'\"<>|;)\]}\\]{4,2000}|git@[\w.-]+:[\w./-]{3,200}")
_EDITOR_WORDS = ("edit", "insert", "create", "append", "str_replace_editor", "***", "diff", "---")
_WRAPPERS = frozenset(
    (
        *("sudo", "doas", "env", "time", "nohup", "timeout", "nice", "ionice", "stdbuf", "setsid", "exec"),
        *("command", "xargs", "builtin", "unbuffer"),
    )
)
_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ash"))
_VALUED = frozenset(("-u", "-g", "-U", "-n", "-I", "-P", "-L", "-k", "-s", "-S", "-C"))
_NUMBER = re.compile(r"\d+(?:\.\d+)?[smhd]?")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_DEEPEST = 3
_MOST_URLS = 32
_PIPED = 8
"""Commands of a pipeline that are looked at after one of them."""


def call_of(action: Action) -> Call:
    """The programs and addresses of ``action``. Never raises."""
    if len(action.arguments) > 4_096:
        return _call(action.arguments, action.is_text)
    return _remembered(action.arguments, action.is_text)


@lru_cache(maxsize=16_384)
def _remembered(arguments: str, is_text: bool) -> Call:
    return _call(arguments, is_text)


class _Values(msgspec.Struct, gc=False):
    """The arguments that can hold a line or an address; decoding builds nothing else."""

    command: Any = None
    cmd: Any = None
    commands: Any = None
    keystrokes: Any = None
    script: Any = None
    url: Any = None
    urls: Any = None
    uri: Any = None
    query: Any = None


_decode = msgspec.json.Decoder(_Values).decode


def _call(arguments: str, is_text: bool) -> Call:
    line, address = _line_and_address(arguments, is_text)
    programs = tuple(_programs(line, 0)) if line and _INTERESTING.search(line) else ()
    named = (match[0] for text in (line, address) if "://" in text or "git@" in text for match in _URL.finditer(text))
    urls = tuple(dict.fromkeys(islice(named, _MOST_URLS)))
    return Call(programs, urls) if programs or urls else NOTHING


def _line_and_address(arguments: str, is_text: bool) -> tuple[str, str]:
    if is_text:
        head = arguments[:200].split(None, 1)
        return ("" if not head or head[0] in _EDITOR_WORDS else arguments[: 2 * LONGEST]), ""
    try:
        values = _decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        values = _read_slowly(arguments)
    lines = (values.command, values.cmd, values.commands, values.keystrokes, values.script)
    return _first(lines), _first((values.url, values.urls, values.uri, values.query))


def _read_slowly(arguments: str) -> _Values:
    """What the fast decoder refuses: nothing may hide behind a lone surrogate. Empty when it is no object at all."""
    try:
        return msgspec.convert(json.loads(arguments), _Values)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return _Values()


def _first(values: tuple[Any, ...]) -> str:
    for value in values:
        if isinstance(value, str):
            return value[: 2 * LONGEST]
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            if len(value) == 3 and value[0].rsplit("/", 1)[-1] in _SHELLS and value[1].startswith("-"):
                return str(value[2])
            return (" " if value[0].isidentifier() else "\n").join(value)
    return ""


def _programs(line: str, depth: int) -> Iterator[Program]:
    parts = commands(line)
    for number, part in enumerate(parts):
        words = [word.text for word in part.words]
        for _ in range(_DEEPEST + 1):
            if not words:
                break
            name = words[0].rsplit("/", 1)[-1]
            inner = _inner(name, words, part) if depth < _DEEPEST else None
            if inner is not None:
                yield from _programs(inner, depth + 1)
            yield Program(name, tuple(words[1:]), _readers(parts, number))
            if name not in _WRAPPERS:
                break
            words = _unwrapped(words)


def _unwrapped(words: list[str]) -> list[str]:
    place = 1
    while place < len(words):
        word = words[place]
        if word in _VALUED:
            place += 2
        elif word.startswith("-") or _ASSIGNMENT.match(word) or _NUMBER.fullmatch(word):
            place += 1
        else:
            break
    return words[place:]


def _inner(name: str, words: list[str], part: Command) -> str | None:
    if name == "eval":
        return " ".join(words[1:])
    if name not in _SHELLS:
        return None
    for place, word in enumerate(words[1:-1], start=1):
        if word.startswith("-") and not word.startswith("--") and "c" in word:
            return words[place + 1]
    return part.stdin.text if part.stdin is not None else None


def _readers(parts: tuple[Command, ...], number: int) -> tuple[str, ...]:
    after = parts[number].length - parts[number].position
    rest = parts[number + 1 : number + min(after, _PIPED)]
    return tuple(part.words[0].text.rsplit("/", 1)[-1] for part in rest if part.words)
