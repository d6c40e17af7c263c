"""A two-layer perceptron with a softmax over groups of rows, and its training. numpy only.

Used twice by ``policy.py``: to choose among candidate moves (one group per decision) and to judge files. Training
is deterministic for a seed: fixed order of additions, float64, no threads that could change a sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

Matrix = npt.NDArray[np.float64]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """Size of a network and how it is trained."""

    inputs: int
    hidden: int = 32
    outputs: int = 1
    epochs: int = 24
    batch: int = 64
    """Decisions (groups) per update."""
    rate: float = 4e-3
    decay: float = 1e-4


Weights = Mapping[str, Matrix]


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra on one thread: how sums are split over threads would change their last bits."""
    with threadpool_limits(1, user_api="blas"):
        yield


def initial(shape: Shape, rng: np.random.Generator) -> dict[str, Matrix]:
    """Fresh weights."""
    return {
        "b1": np.zeros(shape.hidden),
        "b2": np.zeros(shape.outputs),
        "w1": rng.standard_normal((shape.inputs, shape.hidden)) / np.sqrt(shape.inputs),
        "w2": rng.standard_normal((shape.hidden, shape.outputs)) / np.sqrt(shape.hidden),
    }


def scores(weights: Weights, rows: Matrix) -> Matrix:
    """Raw scores, one row of ``outputs`` per row of input."""
    hidden = np.tanh(rows @ weights["w1"] + weights["b1"])
    result: Matrix = hidden @ weights["w2"] + weights["b2"]
    return result


def softmax(values: Matrix) -> Matrix:
    """Along the last axis."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    result: Matrix = powers / powers.sum(axis=-1, keepdims=True)
    return result


def fit_choices(
    shape: Shape, groups: Sequence[Matrix], chosen: Sequence[int], importance: Sequence[float], rng: np.random.Generator
) -> dict[str, Matrix]:
    """Weights that make each group's chosen row likely (cross-entropy, Adam)."""
    weights = initial(shape, rng)
    adam = _Adam(weights, shape)
    for _ in range(shape.epochs if groups else 0):
        order = rng.permutation(len(groups))
        for start in range(0, len(order), shape.batch):
            batch = [int(i) for i in order[start : start + shape.batch]]
            rows = np.concatenate([groups[i] for i in batch])
            sizes = np.array([len(groups[i]) for i in batch])
            offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
            hidden = np.tanh(rows @ weights["w1"] + weights["b1"])
            raw = (hidden @ weights["w2"] + weights["b2"])[:, 0]
            raw = raw - np.repeat(np.maximum.reduceat(raw, offsets), sizes)
            powers = np.exp(raw)
            gradient = powers / np.repeat(np.add.reduceat(powers, offsets), sizes)
            gradient[offsets + np.array([chosen[i] for i in batch])] -= 1.0
            weight = np.array([importance[i] for i in batch])
            gradient = (gradient * np.repeat(weight, sizes) / weight.sum())[:, None]
            adam.step(weights, _backward(weights, rows, hidden, gradient))
    return _silenced(weights, np.concatenate(groups)) if groups else weights


def fit_classes(shape: Shape, rows: Matrix, classes: Sequence[int], rng: np.random.Generator) -> dict[str, Matrix]:
    """Weights that make each row's class likely."""
    weights = initial(shape, rng)
    adam = _Adam(weights, shape)
    targets = np.eye(shape.outputs)[np.array(classes, dtype=np.int64)] if len(rows) else np.zeros((0, shape.outputs))
    for _ in range(shape.epochs if len(rows) else 0):
        order = rng.permutation(len(rows))
        for start in range(0, len(order), shape.batch):
            batch = order[start : start + shape.batch]
            inputs = rows[batch]
            hidden = np.tanh(inputs @ weights["w1"] + weights["b1"])
            gradient = (softmax(hidden @ weights["w2"] + weights["b2"]) - targets[batch]) / len(batch)
            adam.step(weights, _backward(weights, inputs, hidden, gradient))
    return _silenced(weights, rows) if len(rows) else weights


def _silenced(weights: dict[str, Matrix], rows: Matrix) -> dict[str, Matrix]:
    """An input that never varied in training has no say: its weights would be the random ones it began with.

    What a constant input did contribute is moved into the bias, so that training rows score the same.
    """
    constant = rows.max(axis=0) == rows.min(axis=0)
    moved = np.where(constant, rows[0], 0.0) @ weights["w1"]
    kept = np.where(constant[:, None], 0.0, weights["w1"])
    return {**weights, "b1": weights["b1"] + moved, "w1": kept}


def _backward(weights: Weights, rows: Matrix, hidden: Matrix, gradient: Matrix) -> dict[str, Matrix]:
    inner = (gradient @ weights["w2"].T) * (1 - hidden * hidden)
    return {
        "b1": inner.sum(axis=0),
        "b2": gradient.sum(axis=0),
        "w1": rows.T @ inner,
        "w2": hidden.T @ gradient,
    }


class _Adam:
    def __init__(self, weights: Weights, shape: Shape) -> None:
        self._shape = shape
        self._mean = {name: np.zeros_like(value) for name, value in weights.items()}
        self._square = {name: np.zeros_like(value) for name, value in weights.items()}
        self._steps = 0

    def step(self, weights: dict[str, Matrix], gradients: Weights) -> None:
        self._steps += 1
        for name in sorted(gradients):
            gradient = gradients[name] + self._shape.decay * weights[name]
            self._mean[name] = 0.9 * self._mean[name] + 0.1 * gradient
            self._square[name] = 0.999 * self._square[name] + 0.001 * gradient * gradient
            mean = self._mean[name] / (1 - 0.9**self._steps)
            square = self._square[name] / (1 - 0.999**self._steps)
            weights[name] = weights[name] - self._shape.rate * mean / (np.sqrt(square) + 1e-8)
