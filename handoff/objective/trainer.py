"""TRL's GRPO trainer with the two further terms.

The environment's tokens are those that tools wrote into a rollout: the trainer knows them (``tool_mask``), keeps them
out of the policy's loss, and here they are predicted. Reconstruction has rows of its own, as the format ``trl-tokens``
writes them (``state_reconstruction-*.parquet``), taken in their order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from trl import GRPOTrainer

from handoff.objective.losses import Lambdas, env_loss, objective, reconstruction_loss, token_logprobs


class HandoffGRPOTrainer(GRPOTrainer):
    """L_GRPO + λ1·L_env + λ2·L_reconstruction. With both weights at 0 it is its parent to the bit."""

    def __init__(
        self,
        *args: Any,
        lambdas: Lambdas | None = None,
        reconstruction: Sequence[Mapping[str, Sequence[int]]] = (),
        rows_a_step: int = 1,
        **named: Any,
    ) -> None:
        """``reconstruction``: rows with ``input_ids`` and ``labels``; ``rows_a_step``: how many are read a step."""
        super().__init__(*args, **named)
        self.lambdas = (lambdas or Lambdas()).check()
        self._rows: Iterator[Mapping[str, Sequence[int]]] = itertools.cycle(reconstruction)
        self._has_rows = len(reconstruction) > 0
        self._rows_a_step = rows_a_step
        self._logprobs: Any = None

    def _get_per_token_logps_and_entropies(self, *args: Any, **named: Any) -> Any:
        found = super()._get_per_token_logps_and_entropies(*args, **named)
        self._logprobs = found[0]  # the last pass is that of the loss: the environment's tokens need no other
        return found

    def _compute_loss(self, model: Any, inputs: Mapping[str, Any]) -> Any:
        loss = super()._compute_loss(model, inputs)
        if not any(self.lambdas):
            return loss
        completions = inputs["completion_mask"]
        tools = inputs.get("tool_mask")
        observed = completions * (1 - tools) if tools is not None else torch.zeros_like(completions)
        env = env_loss(self._logprobs, observed.to(self._logprobs.dtype), observed)
        rebuilt = self._reconstruction(model) if self._has_rows and self.lambdas.reconstruction else loss.new_zeros(())
        steps = self.current_gradient_accumulation_steps if model.training else 1.0
        for name, term in (("env_loss", env), ("reconstruction_loss", rebuilt)):
            self._metrics["train" if model.training else "eval"][name].append(term.detach().item())
        return objective(loss, env / steps, rebuilt / steps, self.lambdas)

    def _reconstruction(self, model: Any) -> Any:
        device = self.accelerator.device
        total = torch.zeros((), device=device)
        for row in itertools.islice(self._rows, self._rows_a_step):
            ids = torch.tensor([list(row["input_ids"])], device=device)
            known = (torch.tensor([list(row["labels"])], device=device)[:, 1:] != -100).float()
            total = total + reconstruction_loss(token_logprobs(model(input_ids=ids).logits, ids), known)
        return total / self._rows_a_step
