"""What a line leaves of a shell that lives on: functions, aliases and modes that change how later lines are read.

Variables of earlier lines are not known in later ones, and so need no note here.
"""

from __future__ import annotations

import re

from handoff.shell import Command, commands

ODD = "*"
"""Stands for a mode under which lines are not carried out."""
ODD_GIT = "*git"
"""Stands for variables that point git elsewhere."""
ERREXIT, NOUNSET, PIPEFAIL = "set -e", "set -u", "set -o pipefail"
"""Modes that are carried out."""

STRANGE_VARIABLES = frozenset(("IFS", "CDPATH", "GLOBIGNORE", "POSIXLY_CORRECT", "BASH_ENV", "SHELLOPTS", "BASHOPTS"))
"""Variables that change how the rest is read."""
_STRANGE_GIT = re.compile(
    r"GIT_(?:DIR|WORK_TREE|INDEX_FILE|COMMON_DIR|NAMESPACE|CONFIG\w*|OBJECT_DIRECTORY|ALTERNATE\w*|\w*PATHSPECS|ATTR\w*)"
)
_MAY_LAST = re.compile(
    r"\b(?:alias|shopt|set|trap|enable|exec|function|export|declare|typeset|readonly|IFS|CDPATH|GLOBIGNORE)\b|"
    r"POSIXLY_CORRECT|GIT_|\(\s*\)"
)
_FUNCTION = re.compile(r"(?:^|[;&|\n{(]|\bthen\b|\bdo\b)\s*(?:function\s+([\w.:-]+)|([\w.:-]+)\s*\(\s*\))")
_QUIET_OPTIONS = frozenset(("expand_aliases", "histappend", "checkwinsize", "cmdhist", "autocd", "cdspell"))
_SETS = {"e": ERREXIT, "u": NOUNSET, "errexit": ERREXIT, "nounset": NOUNSET, "pipefail": PIPEFAIL}
_HARMLESS = frozenset("xvhbm")


def is_strange(variable: str) -> str | None:
    """The mode that assigning a variable brings; ``None`` for almost every variable."""
    if variable in STRANGE_VARIABLES:
        return ODD
    return ODD_GIT if _STRANGE_GIT.fullmatch(variable) is not None else None


def after(line: str, before: frozenset[str]) -> frozenset[str]:
    """What lasts after a line, given what lasted before it: names of functions and aliases, and modes."""
    if _MAY_LAST.search(line) is None:
        return before
    found = set(before)
    found |= {name for match in _FUNCTION.finditer(line) for name in match.groups() if name}
    for command in commands(line):
        _note(command, found)
    return frozenset(found)


def _note(command: Command, found: set[str]) -> None:
    words = [word.text for word in command.words]
    names = [name for name, _ in command.assignments] if not words else []
    match words[:1]:
        case ["alias"]:
            found |= {text.partition("=")[0] for text in words[1:] if "=" in text}
        case ["shopt"] if not _QUIET_OPTIONS.issuperset(text for text in words[1:] if not text.startswith("-")):
            found.add(ODD)
        case ["enable"]:
            found.add(ODD)
        case ["exec"] if len(words) == 1:
            found.add(ODD)
        case ["trap"] if {"ERR", "DEBUG", "RETURN"} & set(words):
            found.add(ODD)
        case ["set"]:
            _note_modes(words[1:], found)
        case [("export" | "declare" | "typeset" | "readonly")]:
            names = [text.partition("=")[0] for text in words[1:]]
    found |= {mode for mode in map(is_strange, names) if mode is not None}


def _note_modes(words: list[str], found: set[str]) -> None:
    for place, text in enumerate(words):
        if text in ("--", "-") or not text.startswith(("-", "+")):
            break
        options = list(text[1:].removesuffix("o"))
        if text.endswith("o"):
            options += words[place + 1 : place + 2]
            del words[place + 1 : place + 2]
        for option in options:
            mode = _SETS.get(option, None if option in _HARMLESS or option in ("xtrace", "verbose") else ODD)
            if mode is not None and text[0] == "-":
                found.add(mode)
            elif mode is not None:
                found.discard(mode)
