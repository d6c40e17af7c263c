"""Where a path of a recording lies: in the repository, as a relative POSIX path, or outside of it.

A recording names its repository by where the sandbox put it (``/testbed``, ``/workspace/x``, ``/repo``,
``/owner__name``); those prefixes are stripped. A path that climbs out, or is absolute and elsewhere, stays visibly
outside: ``/etc/passwd`` or ``../x``. Nothing here looks at a disk, so symbolic links are followed nowhere.
"""

from __future__ import annotations

import posixpath
import re
from typing import Literal

import msgspec

_SANDBOX = re.compile(r"/(?:testbed|repo|app/repo|workspaces?/[^/]+|[^/]+__[^/]+)(?=/|\Z)")
_NOT_A_REPOSITORY = re.compile(
    r"/(?:(?:tmp|usr|etc|var|opt|proc|sys|dev|bin|lib|lib64|sbin|boot|run|mnt|srv)(?:/.*)?"
    r"|root|home|home/[^/]+|Users|Users/[^/]+|workspaces?|)\Z"
)

_NOT_A_ROOT = re.compile(r"/(?:tmp|usr|etc|var|opt|root|home|home/[^/]+|Users|Users/[^/]+|workspaces?)?\Z")
"""Folders that are no checkout, even when a run began there."""
_BESIDE = re.compile(
    r"/workspaces?/(?![^/]*__)[^/]+\.(?:py|md|txt|html|css|json|ya?ml|toml|sh|tsx?|c|h|cpp|go|rs|java|rb|csv)\Z"
)
"""A file beside the checkout that a workspace holds."""

_WORKSPACE = re.compile(r"/workspaces?/")
_NAMED_ROOT = re.compile(r"(?<![\w./~$-])/(?:testbed|repo|app/repo|workspaces?/[\w.@+-]{1,200})(?=[/\s\"'\\;&|)]|\Z)")
"""A sandbox's folder, as a call names it."""


NOWHERE = "$unknown"
"""Stands for a folder that is not known; it may lie in the repository."""


class Context(msgspec.Struct, frozen=True, gc=False):
    """What earlier actions decided about how later ones are read. Changes only through ``interpret``."""

    cwd: str = ""
    """Folder of the shell: repo-relative, empty for the repository's root; absolute when outside."""
    open_file: str | None = None
    """The file a windowed editor shows."""
    shown: tuple[int, int | None] | None = None
    """First and last line of it on the screen (last ``None``: to the end); ``None``: no screen was seen."""
    cursors: tuple[int, int] | None = None
    """First and last line selected by its cursors, where an editor has them; ``None``: no screen was seen."""
    prefixes: tuple[str, ...] = ()
    """Absolute folders that are this repository's root, beside the usual ones."""
    workspace: str = ""
    """The one of the workspaces' folders that is this repository; empty: any of them may be."""
    shell_persists: bool = True
    """Whether ``cd`` outlives its line."""
    harness: str = ""
    """The format of the recording, where it tells whose editors ran."""
    tabs: Literal["", "keeps", "expands"] = ""
    """What an editor of several versions was seen to do to tabs."""


class _Facts(msgspec.Struct):
    """Where the run worked, as its recording says."""

    cwd: str | None = None
    cwds: list[str] = []
    inferred_root: str | None = None


_facts = msgspec.json.Decoder(_Facts).decode
_FRESH_SHELLS = ("mini", "codex", "gemini", "pi", "inspect")
"""Formats whose every command begins in the same folder."""


def context_of(format: str, source: str = "{}") -> Context:
    """The context at the start of a run in this format (``Trajectory.format``, ``Trajectory.source``)."""
    context = Context(shell_persists=not format.startswith(_FRESH_SHELLS), harness=format)
    try:
        facts = _facts(source)
    except msgspec.DecodeError:  # facts of other types
        return context
    folder = posixpath.normpath(facts.cwd or (facts.cwds[0] if len(facts.cwds) == 1 else "") or "/")
    if facts.inferred_root:
        return msgspec.structs.replace(context, prefixes=(facts.inferred_root,))
    if not folder.startswith("/") or _NOT_A_ROOT.match(folder) is not None or resolve(folder, context) != folder:
        return context
    return msgspec.structs.replace(context, prefixes=(folder,))


def resolve(path: str, context: Context, cwd: str | None = None) -> str:
    """``path`` as seen from ``cwd``: repo-relative (``.`` for the root), else absolute or beginning with ``..``."""
    base = context.cwd if cwd is None else cwd
    if path.startswith("/"):
        full = posixpath.normpath("/" + path.lstrip("/"))
    elif path.startswith(("~", "$")):
        return path.rstrip("/") or path
    elif not base:
        if "/" not in path and path not in ("", ".", ".."):
            return path
        return posixpath.normpath(path) if path else "."
    else:
        full = posixpath.normpath(f"{base}/{path}")
        if base.startswith(("~", "$")) and not full.startswith(base):
            return f"{base}/{path}"  # above a folder whose own place is not known
        if not full.startswith("/"):
            return full
    for prefix in context.prefixes:
        if full == prefix:
            return "."
        if full.startswith(prefix + "/"):
            return full[len(prefix) + 1 :]
    match = _SANDBOX.match(full)
    if match is None or _BESIDE.match(full) is not None:
        return full
    if context.workspace and match[0] != context.workspace and _WORKSPACE.match(full) is not None:
        return full
    return full[match.end() + 1 :] or "."


def settled(context: Context, text: str) -> Context:
    """The context after ``text``, a call's arguments, named a folder: the first one that a sandbox gives to a
    repository is this one's, and neither another workspace nor another checkout is."""
    if context.workspace or "/" not in text:
        return context
    for found in _NAMED_ROOT.finditer(text):
        root = found[0]
        if _BESIDE.match(root) is not None:
            continue
        prefixes = context.prefixes or (root,)
        workspace = root if _WORKSPACE.match(root) is not None else ""
        if workspace or not context.prefixes:
            return msgspec.structs.replace(context, prefixes=prefixes, workspace=workspace)
    return context


def is_outside(path: str) -> bool:
    """True for what ``resolve`` could not place in the repository's work tree, its ``.git`` folder included."""
    return path.startswith(("/", "../", "~", "$", ".git/")) or path in ("..", ".git") or "\0" in path


_OUTSIDE_VARIABLE = re.compile(r"\$\{?(?:HOME|TMPDIR|TMP|TEMP)\b")


def is_unknown(path: str) -> bool:
    """True for a path that begins with a variable: it may lie in the repository."""
    return path.startswith("$") and _OUTSIDE_VARIABLE.match(path) is None


def with_folder(context: Context, path: str) -> Context:
    """The context after ``cd path``. The first absolute folder that could be a checkout is the repository."""
    if not context.prefixes and path.startswith("/") and _SANDBOX.match(path) is None:
        full = posixpath.normpath(path)
        if _NOT_A_REPOSITORY.match(full) is None:
            return msgspec.structs.replace(context, cwd="", prefixes=(full,))
    target = resolve(path, context)
    return msgspec.structs.replace(context, cwd="" if target == "." else target)
