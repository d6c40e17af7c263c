"""Content hashes: the only identifiers in this project.

An identifier is ``<prefix>_<24 hex digits>`` of SHA-256 over the parts, each preceded by its length, so
that ``("ab", "c")`` and ``("a", "bc")`` differ. The prefixes: ``t`` trajectory, ``p`` point, ``v`` view,
``d`` variant (disturbance), ``k`` takeover, ``s`` sample, ``m`` policy (model), ``i`` a stage's inputs.
"""

from __future__ import annotations

import hashlib

import msgspec


def identify(prefix: str, *parts: str | bytes | int) -> str:
    """The identifier of ``parts``; same parts, same identifier, on every machine."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return f"{prefix}_{digest.hexdigest()[:24]}"


def canonical_json(value: object) -> bytes:
    """JSON with sorted keys and no spaces: equal values give equal bytes."""
    return msgspec.json.encode(value, order="deterministic")
