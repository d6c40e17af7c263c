"""The objective inside TRL's GRPO trainer: without weights its parent to the bit, with them the terms of our own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

torch = pytest.importorskip("torch", reason="torch is not installed: make train")
pytest.importorskip("trl", reason="trl is not installed: make train")
datasets = pytest.importorskip("datasets", reason="datasets is not installed: make train")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed: make train")
transformers = pytest.importorskip("transformers", reason="transformers is not installed: make train")

from tiny_tokenizer import MARKED, build  # noqa: E402

from handoff.objective.losses import Lambdas, env_loss, reconstruction_loss, token_logprobs  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of libraries that are not ours


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = build(tmp_path_factory.mktemp("model"), ["Fix the pager. git diff"])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")), pad_token="<|pad|>",
        eos_token="<|im_end|>", chat_template=MARKED,
    )  # fmt: skip
    fast.save_pretrained(folder)
    config = transformers.LlamaConfig(
        vocab_size=len(fast), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=512, pad_token_id=fast.pad_token_id, eos_token_id=fast.eos_token_id,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


ROW = {"input_ids": [5, 6, 7, 8, 9], "labels": [-100, -100, 7, -100, 9]}


def trainer(model: Path, out: Path, kind: Any = None, **more: Any) -> Any:
    from trl import GRPOConfig

    from handoff.objective.trainer import HandoffGRPOTrainer

    config = GRPOConfig(
        output_dir=str(out), max_steps=1, per_device_train_batch_size=2, num_generations=2, report_to=[], use_cpu=True,
        max_completion_length=4, seed=0,
    )  # fmt: skip
    return (kind or HandoffGRPOTrainer)(
        model=str(model), args=config,
        reward_funcs=lambda completions, **_: [float(n) for n, _ in enumerate(completions)],
        train_dataset=datasets.Dataset.from_list([{"prompt": [{"role": "user", "content": "Fix."}]}]),
        processing_class=transformers.AutoTokenizer.from_pretrained(model), **more,
    )  # fmt: skip


def rollouts() -> dict[str, Any]:
    """Two completions of six tokens, of which the third and fourth came from a tool."""
    ids = torch.arange(10, 22).reshape(2, 6)
    return {
        "prompt_ids": torch.tensor([[3, 4], [3, 4]]), "prompt_mask": torch.ones(2, 2, dtype=torch.long),
        "completion_ids": ids, "completion_mask": torch.ones_like(ids),
        "tool_mask": torch.tensor([[1, 1, 0, 0, 1, 1], [1, 1, 1, 1, 1, 1]]),
        "advantages": torch.tensor([0.7, -0.7]), "num_items_in_batch": torch.tensor(10),
    }  # fmt: skip


def test_without_weights_it_is_its_parent_to_the_bit(model: Path, tmp_path: Path) -> None:
    from trl import GRPOTrainer

    found = []
    for kind, more in ((GRPOTrainer, {}), (None, {"lambdas": Lambdas(0.0, 0.0), "reconstruction": [ROW]})):
        own = trainer(model, tmp_path / str(len(found)), kind, **more)
        own.model.train()
        own.current_gradient_accumulation_steps = 1
        loss = own._compute_loss(own.model, rollouts())
        loss.backward()
        gradients = torch.cat([p.grad.flatten() for p in own.model.parameters() if p.grad is not None])
        found.append((loss.detach(), gradients))
    assert torch.equal(found[0][0], found[1][0]) and torch.equal(found[0][1], found[1][1])


def test_the_terms_are_ours(model: Path, tmp_path: Path) -> None:
    """Against the functions, computed by hand on the same model."""
    own = trainer(model, tmp_path / "a", lambdas=Lambdas(0.05, 0.01), reconstruction=[ROW])
    bare = trainer(model, tmp_path / "b", lambdas=Lambdas(0.0, 0.0))
    for one in (own, bare):
        one.model.eval()
    inputs = rollouts()
    whole = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
    logprobs = token_logprobs(own.model(input_ids=whole).logits, whole)[:, 1:]
    observed = 1 - inputs["tool_mask"]
    env = env_loss(logprobs, observed.float(), observed)
    row = torch.tensor([ROW["input_ids"]])
    known = torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    rebuilt = reconstruction_loss(token_logprobs(own.model(input_ids=row).logits, row), known)
    expected = bare._compute_loss(bare.model, rollouts()) + 0.05 * env + 0.01 * rebuilt
    assert torch.allclose(own._compute_loss(own.model, inputs), expected, atol=1e-5)
    assert env > 1 and rebuilt > 1


def test_the_terms_are_of_the_batch_that_is_looked_at_without_gradients_too(model: Path, tmp_path: Path) -> None:
    own = trainer(model, tmp_path / "a", lambdas=Lambdas(0.05, 0.0))
    own.model.eval()
    with torch.no_grad():
        fresh = own._compute_loss(own.model, rollouts())
        other = rollouts()
        other["completion_ids"] = other["completion_ids"] + 3
        own._compute_loss(own.model, other)
        assert torch.equal(own._compute_loss(own.model, rollouts()), fresh)


def test_it_trains(model: Path, tmp_path: Path) -> None:
    own = trainer(model, tmp_path / "out", lambdas=Lambdas(), reconstruction=[ROW])
    own.train()
    logged = [entry for entry in own.state.log_history if "reconstruction_loss" in entry]
    assert own.state.global_step == 1 and logged[0]["reconstruction_loss"] > 0 and logged[0]["env_loss"] == 0.0
