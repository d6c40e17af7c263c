"""The terms of the objective, as functions of log-probabilities and masks.

Shapes: B sequences of T tokens. ``logprobs[b, t]`` is the log-probability of token t given all before it, in nats;
masks are 1 where a token counts and 0 elsewhere. All losses are scalars in nats per token. A term without tokens is
exactly 0 and has gradients of 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from handoff.errors import InputError

Tensor = Any
"""``torch.Tensor``: PyTorch may be missing where types are checked."""

MOST = 0.06
"""λ1 + λ2 at most: beyond it the policy pays for its predictions."""


class Lambdas(NamedTuple):
    """Weights of the two further terms."""

    env: float = 0.05
    """λ1; 0.02 after supervised training."""
    reconstruction: float = 0.01
    """λ2."""

    def check(self) -> Lambdas:
        """``InputError`` for weights outside 0 ≤ λ, λ1 + λ2 ≤ 0.06."""
        if not (min(self) >= 0 and sum(self) <= MOST + 1e-12):  # this way round it refuses what is no number, too
            raise InputError(
                f"λ1 = {self.env} and λ2 = {self.reconstruction}: they are 0 or more, and {MOST} together at most"
            )
        return self


def token_logprobs(logits: Tensor, ids: Tensor) -> Tensor:
    """Of each token after the first, by a causal model. ``logits``: (B, T, V); ``ids``: (B, T). Returns (B, T − 1)."""
    precise = logits if logits.dtype == torch.float64 else logits.float()
    logprobs = torch.log_softmax(precise[:, :-1], dim=-1)
    return logprobs.gather(2, ids[:, 1:].unsqueeze(2)).squeeze(2)


def group_advantages(rewards: Tensor, groups: Tensor, *, epsilon: float = 1e-4) -> Tensor:
    """Rewards less the mean of their group, by its standard deviation. A group shares task, h and view.

    ``rewards``: (B,); ``groups``: (B,) whole numbers. A group of one, or of equal rewards, has advantages of 0.
    """
    advantages = torch.zeros_like(rewards, dtype=torch.get_default_dtype())
    for group in torch.unique(groups):
        own = groups == group
        values = rewards[own].to(advantages.dtype)
        centred = values - values.mean()
        spread = centred.pow(2).sum().div(max(len(values) - 1, 1)).sqrt()
        advantages[own] = centred / (spread + epsilon)
    return advantages


def grpo_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    clip: float = 0.2,
    reference: Tensor | None = None,
    beta: float = 0.0,
) -> Tensor:
    """L_GRPO: the clipped surrogate over action tokens, averaged in each sequence and then over sequences.

    ``advantages``: (B,). ``reference``: log-probabilities of the reference policy, for the KL term at weight ``beta``;
    ``InputError`` where that is missing. As TRL's ``loss_type="grpo"``.
    """
    if beta and reference is None:
        raise InputError(f"beta = {beta} asks for log-probabilities of a reference policy, and there are none")
    zero = torch.zeros_like(logprobs)
    logprobs = torch.where(mask > 0, logprobs, zero)
    ratio = torch.exp(logprobs - torch.where(mask > 0, old_logprobs, zero))
    weighed = advantages.unsqueeze(1)
    loss = -torch.min(ratio * weighed, torch.clamp(ratio, 1 - clip, 1 + clip) * weighed)
    if reference is not None and beta:
        gap = torch.where(mask > 0, reference, zero) - logprobs
        loss = loss + beta * (torch.exp(gap) - gap - 1)
    return ((loss * mask).sum(1) / mask.sum(1).clamp(min=1.0)).mean()


def env_loss(logprobs: Tensor, trained: Tensor, observed: Tensor) -> Tensor:
    """L_env: −Σ log p over environment tokens that bear loss, by *all* observation tokens of the session; the mean over
    sessions.

    ``trained``: O′, or weights in its place; ``observed``: O, the observation tokens of the session, trained or not.
    """
    sums = -(torch.where(trained > 0, logprobs, torch.zeros_like(logprobs)) * trained).sum(1)
    return (sums / observed.sum(1).clamp(min=1.0)).mean()


def reconstruction_loss(logprobs: Tensor, known: Tensor) -> Tensor:
    """L_reconstruction: cross-entropy over the tokens of a state's record, those of unknown fields left out."""
    total = known.sum()
    picked = torch.where(known > 0, logprobs, torch.zeros_like(logprobs))
    return -(picked * known).sum() / total.clamp(min=1.0)


def weighted_loss(logprobs: Tensor, weights: Tensor) -> Tensor:
    """Supervised: −Σ w·log p by Σ w. What files of tokens ask for."""
    picked = torch.where(weights > 0, logprobs, torch.zeros_like(logprobs))
    return -(picked * weights).sum() / weights.sum().clamp(min=1e-8)


def objective(policy: Tensor, env: Tensor, reconstruction: Tensor, lambdas: Lambdas | None = None) -> Tensor:
    """L_GRPO + λ1·L_env + λ2·L_reconstruction. A term of weight 0 is not added at all, so that with both at 0 value and
    gradients are those of GRPO to the bit."""
    weights = (lambdas or Lambdas()).check()
    loss = policy
    for weight, term in zip(weights, (env, reconstruction), strict=True):
        if weight:
            loss = loss + weight * term
    return loss
