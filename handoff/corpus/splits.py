"""Which split a trajectory belongs to when its source does not say."""

from __future__ import annotations

import hashlib

from handoff.git.names import canonical


def split_of(repo: str | None, task_id: str | None) -> str:
    """``train`` (80 %), ``validation`` or ``test`` (10 % each) by a hash of the repository, so that no repository
    is on two sides, however its name is written; by task where the repository is unknown, and ``train`` where both
    are."""
    name = canonical(repo or "") or (task_id or "")
    if not name:
        return "train"
    place = int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:8], "big") % 10
    return "validation" if place == 8 else "test" if place == 9 else "train"
