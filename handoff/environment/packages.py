"""Packages: what an installation names and what its output says, and what a listing shows.

A name carries its manager, ``pip requests`` or ``apt curl``: the same word means different things to each. An
installation without a word in its output counts only when its exit code says that it succeeded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from handoff.actions.programs.call import listed as listed_words
from handoff.environment.facts import Basis

_MOST = 500
"""Packages taken from one output."""
_LONGEST = 200_000
"""Characters of an output that are looked at."""


class Package(NamedTuple):
    """One package that is there, or no longer."""

    name: str
    version: str | None
    basis: Basis
    is_there: bool = True


class Request(NamedTuple):
    """A package manager's command."""

    manager: str
    """One name for a family: pip, conda, npm, apt, …"""
    verb: str
    """``install``, ``remove``, ``list`` or ``show``."""
    arguments: tuple[str, ...]


_FAMILY = {
    "pip": "pip", "pip3": "pip", "conda": "conda", "mamba": "conda", "micromamba": "conda", "apt": "apt",
    "apt-get": "apt", "aptitude": "apt", "dpkg": "apt", "apk": "apk", "yum": "yum", "dnf": "yum", "brew": "brew",
    "npm": "npm", "yarn": "npm", "pnpm": "npm", "bun": "npm", "gem": "gem", "cargo": "cargo", "go": "go",
    "poetry": "pip", "pdm": "pip", "uv": "pip",
}  # fmt: skip
_VERBS = {
    **dict.fromkeys(("install", "i", "add", "get", "reinstall"), "install"),
    **dict.fromkeys(("uninstall", "remove", "rm", "un", "purge", "del", "erase", "autoremove"), "remove"),
    **dict.fromkeys(("list", "ls", "freeze", "-l"), "list"),
    "show": "show",
}
_VALUED = listed_words(
    """
    -r -i -c -n -f -p -t -e --requirement --index-url --extra-index-url --constraint --name --find-links --prefix
    --target --editable --python --root --timeout --retries --no-binary --only-binary --channel --version --index
    --source --features --git --branch --tag --path --registry -v
    """
)
"""Options that take the next word. ``-v`` is gem's; pip's takes none and is rare."""
_PIP_FLAGS = frozenset(("-v",))


def request_of(words: Sequence[str]) -> Request | None:
    """The command as one of a package manager; ``None`` when it is none that adds, removes or shows packages."""
    if not words:
        return None
    name = words[0].rsplit("/", 1)[-1]
    rest = list(words[1:])
    if name.startswith(("python", "pypy")) and len(rest) >= 2 and rest[0] == "-m" and rest[1] in ("pip", "uv"):
        name, rest = rest[1], rest[2:]
    if name.startswith("pip") and name[3:].replace(".", "").isdigit():
        name = "pip"
    family = _FAMILY.get(name)
    if family is None or not rest:
        return None
    if name == "uv" and rest[0] == "pip":
        rest = rest[1:]
    while rest and rest[0].startswith("-") and not (name == "dpkg" and rest[0] == "-l"):
        rest = rest[1:]
    if name == "yarn" and rest[:1] == ["global"]:
        rest = rest[1:]
    verb = _VERBS.get(rest[0]) if rest else None
    if verb is None or (family in ("cargo", "go") and verb not in ("install", "remove")):
        return None
    return Request(family, verb, tuple(rest[1:]))


# -- installations ------------------------------------------------------------------------------

_INSTALLED = re.compile(
    r"^[ \t]*(?:"
    r"Successfully (?P<state>installed|uninstalled)[: ]+(?P<many>\S.*)"
    r"|Requirement already satisfied: (?P<satisfied>[A-Za-z0-9][\w.-]*)[^\r\n]*?\((?P<at>\d[\w.+!-]*)\)[ \t]*"
    r"|(?P<sign>[+~-]) (?P<uv>[A-Za-z0-9][\w.-]*)==(?P<uv_at>[\w.+!-]+)[^\r\n]*"
    r"|Setting up (?P<set_up>[\w.+-]+)(?::\w+)? \((?P<set_up_at>[^)\s]+)\) \.\.\..*"
    r"|(?P<newest>[\w.+-]+) is already the newest version \((?P<newest_at>[^)\s]+)\)\.?"
    r"|Removing (?P<removed>[\w.+-]+)(?::\w+)? \([^)\s]+\) \.\.\..*"
    r"|\(\d+/\d+\) Installing (?P<apk>[\w.+-]+) \((?P<apk_at>[^)\s]+)\)"
    r"|(?:[+├└]─*) ?(?P<npm>(?:@[\w.-]+/)?[\w.-]+)[@ ](?P<npm_at>\d[\w.+-]*)(?: .*)?"
    r"|go: (?:added|upgraded|downgraded) (?P<go>\S+) (?:v\S+ => )?v(?P<go_at>\S+)"
    r"|Installed package `(?P<crate>[\w-]+) v(?P<crate_at>\S+?)`.*"
    r"|Adding (?P<added>[\w-]+) v(?P<added_at>\S+) to .*"
    r")\r?$",
    re.M,
)
_MARKS = ("nstall", "satisfied", "newest", "Setting up ", "Removing ", "Adding ", "go: ", "==", "─", "+ ")
_SPECIFIED = re.compile(r"(?P<name>@?[A-Za-z0-9][\w.+/-]*)(?:\[[^\]]*\])?(?P<rest>.*)", re.S)
_PINNED = re.compile(r"(?:===?|@|=)v?(?P<version>\d[\w.+!-]*)\Z")


def installed(request: Request, text: str, succeeded: bool) -> Iterator[Package]:
    """What an ``install`` or ``remove`` did: as its output says, else as it asked, if it succeeded."""
    told: set[str] = set()
    if any(mark in text for mark in _MARKS):
        for package in _told(request.manager, text):
            told.add(package.name)
            yield package
    if not succeeded:
        return
    for name, version in _pinned(request):
        if name not in told:
            yield Package(name, version, "inferred", request.verb == "install")


def named(request: Request) -> list[str]:
    """Names of the packages that a command asks for."""
    return [name for name, _ in _pinned(request)]


def _told(manager: str, text: str) -> Iterator[Package]:
    for count, match in enumerate(_INSTALLED.finditer(text, 0, _LONGEST)):
        if count == _MOST:
            return
        found = match.groupdict()
        if found["state"]:
            for item in found["many"].split()[:_MOST]:
                name, _, version = item.rpartition("-")
                if name and version[:1].isdigit():
                    is_there = found["state"] == "installed"
                    yield Package(_full(manager, name), version if is_there else None, "observed", is_there)
            continue
        if found["removed"]:
            yield Package(_full(manager, found["removed"]), None, "observed", False)
            continue
        for key in ("satisfied", "uv", "set_up", "newest", "apk", "npm", "go", "crate", "added"):
            if found[key]:
                version = found["at" if key == "satisfied" else f"{key}_at"]
                is_there = found["sign"] != "-"
                yield Package(_full(manager, found[key]), version if is_there else None, "observed", is_there)


def _pinned(request: Request) -> Iterator[tuple[str, str | None]]:
    """Packages that a command names, with the version where it pins one."""
    skips = False
    for text in request.arguments:
        if skips:
            skips = False
            continue
        if text.startswith("-"):
            skips = text in _VALUED and not (request.manager == "pip" and text in _PIP_FLAGS)
            continue
        if text.startswith((".", "/", "~", "$")) or "://" in text or text.endswith((".whl", ".deb", ".tar.gz", ".tgz")):
            continue
        match = _SPECIFIED.fullmatch(text)
        if match is None:
            continue
        pinned = _PINNED.match(match["rest"].strip())
        yield _full(request.manager, match["name"]), pinned["version"] if pinned else None


def _full(manager: str, name: str) -> str:
    if manager == "pip":
        name = re.sub(r"[-_.]+", "-", name).lower()
    return f"{manager} {name}"


# -- listings -----------------------------------------------------------------------------------

_FROZEN = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)(?:==(?P<version>[\w.+!-]+)| @ \S+)\r?$", re.M)
_ROW = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)[ \t]+(?P<version>\d[\w.+!-]*)(?:[ \t].*)?\r?$", re.M)
_DPKG = re.compile(r"^ii[ \t]+(?P<name>[\w.+-]+)(?::\w+)?[ \t]+(?P<version>\S+)", re.M)
_TREE = re.compile(r"^[ │]*[├└]─[─┬]? (?P<name>(?:@[\w.-]+/)?[\w.-]+)@(?P<version>\d[\w.+-]*)", re.M)
_GEMS = re.compile(r"^(?P<name>[\w.-]+) \((?:default: )?(?P<version>\d[\w.]*)[^)]*\)\r?$", re.M)
_SHOWN = re.compile(r"^Name: (?P<name>\S+)\r?\nVersion: (?P<version>\S+)", re.M)
_LISTINGS: dict[str, tuple[re.Pattern[str], ...]] = {
    "pip": (_FROZEN, _ROW),
    "conda": (_ROW,),
    "apt": (_DPKG,),
    "npm": (_TREE,),
    "gem": (_GEMS,),
}


def listed(request: Request, text: str) -> Iterator[Package]:
    """What a ``list`` or ``show`` shows."""
    patterns: Iterable[re.Pattern[str]] = _LISTINGS.get(request.manager, ())
    if request.verb == "show":
        patterns = (_SHOWN,) if request.manager == "pip" else ()
    for pattern in patterns:
        for count, match in enumerate(pattern.finditer(text, 0, _LONGEST)):
            if count == _MOST:
                break
            version = match["version"]
            yield Package(_full(request.manager, match["name"]), version, "observed")
