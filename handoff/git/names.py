"""Names of repositories: the many ways in which one is written, and the folder of its mirror.

``Owner/Name``, ``owner/name.git``, ``https://github.com/owner/name`` and ``git@github.com:owner/name.git`` are one
repository. A repository of another host keeps the host in its name.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from handoff.errors import StateError

_URL = re.compile(r"(https?|ssh|git|file)://|[\w.-]+@[\w.-]+:")
_PARTS = re.compile(
    r"(?:(?:https?|ssh|git|git\+https|git\+ssh)://(?:[^/@]*@)?([^/:@]+)(?::\d+)?/|[\w.-]+@([\w.-]+):(?:\d+/)?)(.*)",
    re.S,
)
_HOST = re.compile(r"((?:[\w-]+\.)+[a-z]{2,})/([^/]+/.+)", re.S)
_HOME = ("github.com", "www.github.com", "ssh.github.com")
"""Where a name without a host belongs."""
_LONGEST = 120


def is_url(source: str | Path) -> bool:
    """Whether a repository is named by a URL, and not by a path."""
    return isinstance(source, str) and bool(_URL.match(source))


def canonical(repo: str) -> str:
    """The one name of a repository: lower case, no scheme, user, port, ``.git`` or GitHub's host."""
    text = repo.strip().lower()
    found = _PARTS.fullmatch(text)
    if found:
        host, path = found[1] or found[2], found[3]
    elif (found := _HOST.fullmatch(text)) is not None:
        host, path = found[1], found[2]
    else:
        host, path = "", text
    path = path.split("?")[0].split("#")[0].strip("/").removesuffix(".git").rstrip("/") if host else path
    path = path.rstrip("/").removesuffix(".git")
    return path if not host or host in _HOME else f"{host}/{path}"


def owner_pattern(repo: str) -> str:
    """``owner/*``: the mapping key for all repositories of an owner that share one store."""
    return f"{canonical(repo).rpartition('/')[0] or canonical(repo)}/*"


def folder_name(repo: str) -> str:
    """The folder of a mirror, without ``.git``: ``owner__name``. Different repositories never share one.

    ``StateError`` for a name that holds nothing a folder could be named by.
    """
    name = canonical(repo)
    folder = re.sub(r"[^a-z0-9._-]+", "__", name).strip(".-")
    if not re.search(r"[a-z0-9]", folder):
        raise StateError(f"{repo[:100]!r} cannot name a repository; use owner/name")
    parts = name.split("/")
    # Only such parts can be told apart again in `a__b`.
    is_plain = all(part and "__" not in part and part[0] != "_" != part[-1] for part in parts)
    if is_plain and folder == "__".join(parts) and len(folder) <= _LONGEST:
        return folder
    check = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{folder[:_LONGEST]}-{check}"
