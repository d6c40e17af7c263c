"""Token ids of a masked conversation, with the role and weight of each (``docs/science.md §11``).

A token that covers characters of two pieces gets the smaller weight, so that nothing is trained that should not be;
where both bear loss it counts to the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from handoff.errors import InputError
from handoff.masks.roles import Masked
from handoff.samples import ENV_WEIGHT, Role

Encode: TypeAlias = Callable[[str], "Encoded"]
"""A text → (token ids, [start, end) in characters of each). No token is added that is not in the text."""

LossMode: TypeAlias = Literal["action_only", "actobs", "echo"]
"""What bears loss beside the replies: nothing; output of tools like replies; or output of tools at λ1."""

ROLES: tuple[Role, ...] = get_args(Role)
"""Roles by their number in :class:`TokenMask`."""


Encoded: TypeAlias = tuple[list[int], list[tuple[int, int]]]
"""What a tokenizer gave of a text."""


class TokenMask(NamedTuple):
    """A conversation as a trainer reads it. All arrays have one entry a token."""

    ids: npt.NDArray[np.int32]
    roles: npt.NDArray[np.uint8]
    """Index into :data:`ROLES`."""
    weights: npt.NDArray[np.float32]
    """Weight of the loss; 0 is masked."""

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """The ids, and −100 where nothing is trained."""
        return np.where(self.weights > 0, self.ids, -100).astype(np.int64)

    def count(self, role: Role) -> int:
        """Trained tokens of one role."""
        return int(((self.roles == ROLES.index(role)) & (self.weights > 0)).sum())


def mask_tokens(
    masked: Masked, encode: Encode, *, mode: LossMode = "action_only", env_weight: float = ENV_WEIGHT
) -> TokenMask:
    """One tokenizer call. Otherwise as ``mask_encoded``."""
    return mask_encoded(masked, encode(masked.text), mode=mode, env_weight=env_weight)


def message_sizes(masked: Masked, encoded: Encoded, count: int) -> list[int]:
    """Tokens of each of ``count`` messages, with what the template puts before it; the end belongs to the last."""
    pieces = [piece for piece in masked.pieces if piece.message >= 0]
    if not pieces:
        return [len(encoded[0]), *[0] * (count - 1)]
    ends = np.array([piece.end for piece in pieces])
    owners = np.array([piece.message for piece in pieces])
    starts = np.array([start for start, _ in encoded[1]], dtype=np.int64)
    place = np.minimum(np.searchsorted(ends, starts, side="right"), len(ends) - 1)
    found: list[int] = np.bincount(owners[place], minlength=count).tolist()
    return found


def mask_encoded(
    masked: Masked, encoded: Encoded, *, mode: LossMode = "action_only", env_weight: float = ENV_WEIGHT
) -> TokenMask:
    """Role and weight of every token of a conversation that is encoded already.

    ``env_weight``: λ1 of mode ``echo``. The target of a prediction or reconstruction keeps its weight in every mode.
    """
    ids, offsets = encoded
    pieces = masked.pieces
    if not pieces or not ids:
        return TokenMask(np.array(ids, np.int32), np.zeros(len(ids), np.uint8), np.zeros(len(ids), np.float32))
    starts = np.array([piece.start for piece in pieces])
    weight = np.array([_weight(piece.role, piece.weight, mode, env_weight) for piece in pieces], np.float32)
    role = np.array([ROLES.index(piece.role) for piece in pieces], np.uint8)
    place = np.array(offsets)
    first = np.searchsorted(starts, place[:, 0], side="right") - 1
    last = np.searchsorted(starts, np.maximum(place[:, 1] - 1, place[:, 0]), side="right") - 1
    weights = weight[first]
    for token in np.flatnonzero(first != last):
        weights[token] = weight[first[token] : last[token] + 1].min()
    weights[place[:, 0] == place[:, 1]] = 0.0
    return TokenMask(np.array(ids, np.int32), role[first], weights)


def _weight(role: Role, stored: float, mode: LossMode, env_weight: float) -> float:
    if role != "env_output" or stored == 0.0 or stored == 1.0:
        return stored
    return {"action_only": 0.0, "actobs": 1.0, "echo": env_weight}[mode]


def load_encode(folder: Path) -> Encode:
    """The tokenizer of a folder that holds ``tokenizer.json``.

    ``InputError`` where there is none, or where the package ``tokenizers`` is missing.
    """
    tokenizer = _load(folder)

    def encode(text: str) -> Encoded:
        found = tokenizer.encode(text, add_special_tokens=False)
        return found.ids, found.offsets

    return encode


def load_decode(folder: Path) -> Callable[[Sequence[int]], str]:
    """Ids back to text, special tokens shown. Errors as ``load_encode``."""
    tokenizer = _load(folder)

    def decode(ids: Sequence[int]) -> str:
        return str(tokenizer.decode(list(ids), skip_special_tokens=False))

    return decode


def _load(folder: Path) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise InputError("token masks need the package tokenizers: pip install 'handoff-data[masks]'") from error
    try:
        return Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # the package raises the base class for a missing or broken file
        raise InputError(f"{folder / 'tokenizer.json'} is not a tokenizer: {error}") from error
