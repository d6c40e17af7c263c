"""The objective: exact zeros, exact GRPO, gradients that are right."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make train")

from handoff.errors import InputError  # noqa: E402
from handoff.objective.losses import (  # noqa: E402
    Lambdas,
    env_loss,
    group_advantages,
    grpo_loss,
    objective,
    reconstruction_loss,
    token_logprobs,
    weighted_loss,
)
from handoff.objective.reweigh import agreement, weights  # noqa: E402

pytestmark = pytest.mark.slow


def batch(seed: int = 0, shape: tuple[int, int] = (3, 5)) -> dict[str, object]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(*shape, 7, generator=generator, dtype=torch.float64, requires_grad=True)
    ids = torch.randint(0, 7, shape, generator=generator)
    actions = torch.tensor([[0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.float64)
    return {"logits": logits, "ids": ids, "actions": actions, "advantages": torch.tensor([1.0, -0.5, 2.0]).double()}


def test_log_probabilities_are_those_of_the_next_token() -> None:
    found = batch()
    expected = torch.stack(
        [
            torch.stack([torch.log_softmax(found["logits"][b, t], -1)[found["ids"][b, t + 1]] for t in range(4)])
            for b in range(3)
        ]
    )
    assert torch.equal(token_logprobs(found["logits"], found["ids"]), expected)


def test_advantages_are_by_group_and_equal_rewards_have_none() -> None:
    rewards = torch.tensor([1.0, 0.0, 1.0, 1.0, 5.0])
    found = group_advantages(rewards, torch.tensor([0, 0, 1, 1, 2]))
    assert torch.allclose(found, torch.tensor([0.7070, -0.7070, 0.0, 0.0, 0.0]), atol=1e-3)


def test_both_weights_at_zero_are_grpo_to_the_bit() -> None:
    """Value and gradients; the other terms are not even looked at, be they infinite."""
    values = []
    for with_terms in (False, True):
        own = batch()
        logprobs = token_logprobs(own["logits"], own["ids"])
        loss = grpo_loss(logprobs, logprobs.detach() - 0.1, own["advantages"], own["actions"])
        if with_terms:
            loss = objective(loss, logprobs.sum() * float("inf"), logprobs.sum() * float("nan"), Lambdas(0.0, 0.0))
        loss.backward()
        values.append((loss.detach(), own["logits"].grad))
    assert torch.equal(values[0][0], values[1][0]) and torch.equal(values[0][1], values[1][1])


def test_empty_masks_are_exactly_zero_with_finite_gradients() -> None:
    own = batch()
    logprobs = token_logprobs(own["logits"], own["ids"])
    none = torch.zeros_like(logprobs)
    for loss in (
        env_loss(logprobs, none, none),
        reconstruction_loss(logprobs, none),
        weighted_loss(logprobs, none),
        grpo_loss(logprobs, logprobs.detach(), own["advantages"], none),
    ):
        assert loss.item() == 0.0
        (gradient,) = torch.autograd.grad(loss, own["logits"], retain_graph=True)
        assert torch.equal(gradient, torch.zeros_like(gradient))


def test_a_masked_token_of_probability_zero_does_no_harm() -> None:
    logprobs = torch.tensor([[-1.0, float("-inf")]], requires_grad=True)
    mask = torch.tensor([[1.0, 0.0]])
    for loss in (env_loss(logprobs, mask, mask), reconstruction_loss(logprobs, mask), weighted_loss(logprobs, mask)):
        assert loss.item() == pytest.approx(1.0)
        (gradient,) = torch.autograd.grad(loss, logprobs)
        assert torch.isfinite(gradient).all()
    old = logprobs.detach()
    loss = grpo_loss(logprobs, old, torch.ones(1), mask, reference=old, beta=0.1)
    (gradient,) = torch.autograd.grad(loss, logprobs)
    assert loss.item() == -1.0 and torch.isfinite(gradient).all()
    with pytest.raises(InputError, match="reference policy"):
        grpo_loss(logprobs, old, torch.ones(1), mask, beta=0.1)


def test_the_environment_is_divided_by_all_that_was_observed() -> None:
    logprobs = torch.log(torch.tensor([[0.5, 0.25, 0.5], [0.5, 0.5, 0.5]]))
    trained = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    observed = torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    expected = (-(logprobs[0, 0] + logprobs[0, 1]) / 3 + 0.0) / 2
    assert env_loss(logprobs, trained, observed).item() == pytest.approx(expected.item())


def test_gradients_are_those_of_the_formulas() -> None:
    """Against finite differences, in double precision."""
    own = batch()
    mask = own["actions"]
    old = token_logprobs(own["logits"], own["ids"]).detach().double() + 0.05

    def logprobs(logits: object) -> object:
        return token_logprobs(logits, own["ids"])

    def whole(logits: object) -> object:
        found = logprobs(logits)
        policy = grpo_loss(found, old, own["advantages"], mask, reference=old, beta=0.04)
        return objective(policy, env_loss(found, 1 - mask, torch.ones_like(mask)), reconstruction_loss(found, mask))

    assert torch.autograd.gradcheck(whole, (own["logits"],))
    assert torch.autograd.gradcheck(lambda x: weighted_loss(logprobs(x), mask), (own["logits"],))


def test_clipping_stops_the_gradient_beyond_its_bounds() -> None:
    logprobs = torch.tensor([[0.0, 0.0]], requires_grad=True)
    old = torch.tensor([[-1.0, 0.0]])  # ratio e, and 1
    grpo_loss(logprobs, old, torch.tensor([1.0]), torch.ones(1, 2)).backward()
    assert logprobs.grad.tolist() == [[0.0, -0.5]]


@pytest.mark.parametrize("wrong", [(-0.01, 0.0), (0.05, 0.02), (0.0, 0.07), (float("nan"), 0.0)])
def test_weights_that_would_outweigh_the_policy_are_refused(wrong: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="together at most"):
        Lambdas(*wrong).check()
    assert Lambdas().check() == (0.05, 0.01) and Lambdas(0.02, 0.01).check()


# -- weights of samples -------------------------------------------------------------------------


def test_samples_that_disagree_with_real_ones_weigh_less() -> None:
    """Planted: half of the samples have their labels turned round."""
    generator = torch.Generator().manual_seed(3)
    truth = torch.randn(6, generator=generator)
    inputs = torch.randn(40, 6, generator=generator)
    labels = (inputs @ truth > 0).float()
    wrong = torch.arange(40) < 20
    noisy = torch.where(wrong, 1 - labels, labels)
    model = torch.zeros(6, requires_grad=True)
    real = torch.randn(16, 6, generator=generator)

    def loss(x: object, y: object) -> object:
        return torch.nn.functional.binary_cross_entropy_with_logits(x @ model, y)

    found = agreement(
        [lambda n=n: loss(inputs[n : n + 1], noisy[n : n + 1]) for n in range(40)],
        lambda: loss(real, (real @ truth > 0).float()),
        [model],
    )
    own = weights(found)
    assert own.mean().item() == pytest.approx(1.0)
    assert own[wrong].mean() < 0.8 < 1.2 < own[~wrong].mean()
    assert model.grad is None

    def learned(each: object) -> float:
        """Cosine of what is learned with the truth."""
        found = torch.zeros(6, requires_grad=True)
        for _ in range(200):
            losses = torch.nn.functional.binary_cross_entropy_with_logits(inputs @ found, noisy, reduction="none")
            (gradient,) = torch.autograd.grad((losses * each).mean(), found)
            found = (found - 0.5 * gradient).detach().requires_grad_()
        return torch.nn.functional.cosine_similarity(found, truth, dim=0).item()

    assert learned(own) > 0.5 > learned(torch.ones(40)) + 0.2
    assert torch.equal(weights(found, strength=0.0), torch.ones(40))


def test_weights_are_bounded_and_no_sample_is_silenced() -> None:
    own = weights(torch.tensor([-1.0, 1.0, 0.0]), strength=50.0)
    assert own.min() > 0 and (own.max() / own.min()).item() == pytest.approx(15.0)
