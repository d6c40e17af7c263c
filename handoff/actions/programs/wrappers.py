"""Programs that only run another one: ``timeout 60``, ``env A=1``, ``sudo``, ``uv run``, ``conda run -n x``."""

from __future__ import annotations

import re

from handoff.actions.programs.call import after_options
from handoff.shell import Word

_MOST = 8
"""Wrappers around one command that are looked through."""
_PLAIN: dict[str, frozenset[str]] = {
    "builtin": frozenset(),
    "catchsegv": frozenset(),
    "chronic": frozenset(),
    "command": frozenset(),
    "doas": frozenset(("-u",)),
    "env": frozenset(("-u", "-C", "-S", "--unset", "--chdir")),
    "exec": frozenset(("-a",)),
    "flock": frozenset(("-w", "--timeout", "-E", "--wait")),
    "gtimeout": frozenset(("-s", "-k", "--signal", "--kill-after")),
    "ionice": frozenset(("-c", "-n")),
    "nice": frozenset(("-n",)),
    "nohup": frozenset(),
    "setsid": frozenset(),
    "stdbuf": frozenset(("-i", "-o", "-e")),
    "strace": frozenset(("-e", "-o")),
    "sudo": frozenset(("-u", "-g", "-C", "--user")),
    "time": frozenset(("-f", "-o")),
    "timeout": frozenset(("-s", "-k", "--signal", "--kill-after")),
    "unbuffer": frozenset(),
    "xvfb-run": frozenset(("-e", "-f", "-n", "-p", "-s", "-w", "--server-args", "--server-num")),
}
"""Wrapper → its options that take a value."""
_UV = frozenset(
    ("--with", "--python", "-p", "--extra", "--group", "--directory", "--project", "--with-requirements", "--env-file")
)
_CONDA = frozenset(("-n", "-p", "--name", "--prefix", "--cwd"))
_SECOND: dict[tuple[str, str], frozenset[str]] = {
    **{(name, "run"): _UV for name in ("uv", "poetry", "pipenv", "pdm", "hatch", "rye", "pixi")},
    **{(name, "run"): _CONDA for name in ("conda", "mamba", "micromamba")},
    ("bundle", "exec"): frozenset(),
    ("mise", "exec"): frozenset(),
    ("pnpm", "exec"): frozenset(),
    ("npm", "exec"): frozenset(),
    ("poetry", "exec"): frozenset(),
}
"""(Program, subcommand) that runs another program → options that take a value."""
_NAMES = frozenset((*_PLAIN, *(name for name, _ in _SECOND), "coverage"))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def unwrapped(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The command without what only wraps it; ``words`` themselves when nothing is wrapped."""
    if not words or (words[0].text not in _NAMES and "/" not in words[0].text):
        return words
    for _ in range(_MOST):
        inner = _inner(words)
        if inner is None:
            break
        words = inner
    return words


def _inner(words: tuple[Word, ...]) -> tuple[Word, ...] | None:
    """The command that ``words`` run, when they are a wrapper with a command."""
    if len(words) < 2:
        return None
    name = words[0].text
    name = name.rsplit("/", 1)[-1] if "/" in name else name
    if name in _PLAIN:
        if name == "command" and words[1].text in ("-v", "-V"):
            return None
        rest = after_options(words[1:], _PLAIN[name])
        if name in ("timeout", "gtimeout", "flock"):
            rest = rest[1:]
        if name == "flock" and rest and rest[0].text == "-c":
            return None
        while rest and name in ("env", "sudo", "time") and _ASSIGNMENT.match(rest[0].text):
            rest = rest[1:]
        return rest or None
    if (valued := _SECOND.get((name, words[1].text))) is not None:
        return after_options(words[2:], valued) or None
    if name == "coverage" and words[1].text == "run":
        rest = words[2:]
        while rest and rest[0].text.startswith("-") and rest[0].text != "-m":
            rest = rest[1:]
        return (Word("python"), *rest) if rest else None
    return None
