"""Where a recording worked, when it names files by absolute paths and no folder.

Some clients keep no working directory. The deepest folder that holds every file named by a structured call is taken
for the root then, and said to be inferred: it decides what counts as inside, and nothing else. A recording that names
its repository is left alone, for there a folder too deep would contradict the replay.
"""

from __future__ import annotations

import posixpath
import re

import msgspec

from handoff.identity import canonical_json
from handoff.trajectory import Trajectory

_KNOWN = re.compile(r"/(?:(?:testbed|repo|app/repo|[^/]+__[^/]+)(?:/|\Z)|workspaces?/[^/]+/)")
"""Where sandboxes put a repository: these are understood without a root."""
_SYSTEM = re.compile(r"/(?:tmp|private|usr|etc|var|opt|proc|sys|dev|bin|lib|lib64|sbin|boot|run|mnt|srv|root)(?:/|\Z)")
_NO_ROOT = re.compile(r"/(?:home|Users)(?:/[^/]+)?\Z|/\Z")
_MOST = 2_000
"""Paths looked at: a root is known after a few."""


class _Named(msgspec.Struct, gc=False):
    """The fields in which tools name a file."""

    path: str | None = None
    file_path: str | None = None
    absolute_path: str | None = None
    filename: str | None = None


_named = msgspec.json.Decoder(_Named).decode
_source = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def rooted(trajectory: Trajectory) -> Trajectory:
    """The run, with the fact ``inferred_root`` where its folder had to be inferred."""
    if trajectory.repo is not None or trajectory.author == "human":
        return trajectory
    facts = _source(trajectory.source)
    if "cwd" in facts or "cwds" in facts:
        return trajectory
    root = _common_folder(trajectory)
    if root is None:
        return trajectory
    source = canonical_json({**facts, "inferred_root": root}).decode()
    return msgspec.structs.replace(trajectory, source=source)


def _common_folder(trajectory: Trajectory) -> str | None:
    folders: list[str] = []
    for step in trajectory.steps:
        for action in step.actions:
            if '"/' not in action.arguments or action.is_text:
                continue
            try:
                named = _named(action.arguments)
            except (msgspec.DecodeError, RecursionError):
                continue
            path = named.path or named.file_path or named.absolute_path or named.filename or ""
            if path.startswith("/") and len(path) < 1_000 and "\0" not in path and not _KNOWN.match(path):
                full = posixpath.normpath("/" + path.lstrip("/"))
                if _SYSTEM.match(full) is None:
                    # Without a suffix it may be a folder; a file is then one level too deep, and others mend that.
                    folders.append(posixpath.dirname(full) if "." in posixpath.basename(full) else full)
        if len(folders) >= _MOST:
            break
    root = posixpath.commonpath(folders) if folders else "/"
    return None if _NO_ROOT.match(root) is not None else root
