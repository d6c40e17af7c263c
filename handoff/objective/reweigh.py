"""Weights of samples by how well they agree with a few held-out real ones [ours, after BOOST-like reweighting].

Made or relabelled samples may teach what real ones do not. A sample whose gradient points as that of the held-out set
does gets a larger weight, one that points away a smaller. Weights are bounded and have mean 1, so that no sample is
silenced and the step size stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

Tensor = Any


def agreement(
    losses: Iterable[Callable[[], Tensor]], held_out: Callable[[], Tensor], parameters: Sequence[Tensor]
) -> Tensor:
    """Cosine of each sample's gradient with that of the held-out loss, in [−1, 1]; 0 for a gradient of 0.

    ``losses``: one function a sample that computes its loss. ``parameters``: those whose gradients are compared; the
    last layers do, at a fraction of the cost. No gradient of theirs is changed.
    """
    wanted = _gradient(held_out(), parameters)
    found = []
    for loss in losses:
        own = _gradient(loss(), parameters)
        size = own.norm() * wanted.norm()
        found.append((own @ wanted / size).clamp(-1.0, 1.0) if size > 0 else own.new_zeros(()))
    return torch.stack(found) if found else wanted.new_zeros(0)


def weights(agreements: Tensor, *, strength: float = 1.0, low: float = 0.2, high: float = 3.0) -> Tensor:
    """Weights with mean 1, from ``low`` to ``high`` before the mean is taken out. ``strength`` 0: all alike."""
    raw = torch.exp(strength * agreements).clamp(low, high)
    return raw / raw.mean() if len(raw) else raw


def _gradient(loss: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    flat = [torch.zeros_like(p) if g is None else g for g, p in zip(found, parameters, strict=True)]
    return torch.cat([gradient.detach().flatten() for gradient in flat])
