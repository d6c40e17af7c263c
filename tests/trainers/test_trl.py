"""Our files in TRL itself: they load, one step is taken, and exactly the tokens that we say are trained."""

from __future__ import annotations

import json
import os
import runpy
from collections import Counter
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

from formats import SAMPLES  # noqa: E402
from tiny_tokenizer import MARKED, build  # noqa: E402

from handoff.exports import Loss, LossMode, Tokens, export, get_exporters  # noqa: E402
from handoff.exports.tokenised import token_rows  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of libraries that are not ours
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model of random weights, its tokenizer and a template that marks replies."""
    folder = tmp_path_factory.mktemp("model")
    build(folder, [json.dumps(m.content) for s in SAMPLES for m in s.messages])
    bpe = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, pad_token="<|pad|>", eos_token="<|im_end|>", chat_template=MARKED
    )
    fast.save_pretrained(folder)
    config = transformers.LlamaConfig(
        vocab_size=len(fast), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=4096, pad_token_id=fast.pad_token_id, eos_token_id=fast.eos_token_id,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def written(folder: Path, model: Path, *names: str, mode: LossMode = "action_only") -> Path:
    exporters = get_exporters(names, loss=Loss(mode=mode), tokens=Tokens.of(model))
    export(SAMPLES, folder, exporters=exporters)
    return folder


def ours(model: Path, kind: str, mode: LossMode = "action_only") -> tuple[list[int], list[int]]:
    """(ids, those that are trained and −100) of the sample of a kind, by our own masks."""
    (sample,) = (one for one in SAMPLES if one.kind == kind)
    ((_, found),) = list(token_rows(sample, Tokens.of(model), Loss(mode=mode), Counter()))
    return found.ids.tolist(), found.labels.tolist()


def rows(folder: Path, stem: str, *columns: str) -> Any:
    features = datasets.Features(
        {
            **{column: datasets.List(datasets.Json()) for column in (*columns, "tools")},
            "sample_id": datasets.Value("string"),
        }
    )
    files = [str(path) for path in sorted(folder.glob(f"{stem}-train-*.jsonl"))]
    return datasets.load_dataset("json", data_files={"train": files}, features=features)["train"]


def sft_trainer(model: Path, out: Path, data: Any, **settings: Any) -> Any:
    from trl import SFTConfig, SFTTrainer

    config = SFTConfig(
        output_dir=str(out), max_steps=1, per_device_train_batch_size=1, report_to=[], use_cpu=True, **settings
    )
    return SFTTrainer(model=str(model), args=config, train_dataset=data)


@pytest.mark.parametrize("kind", ["sft", "pivot", "env_prediction", "state_reconstruction", "note_writing"])
def test_sft_trains_exactly_our_tokens(kind: str, model: Path, tmp_path: Path) -> None:
    folder = written(tmp_path / "r000", model, "trl") / "trl"
    data = rows(folder, kind, "prompt", "completion")
    trainer = sft_trainer(
        model, tmp_path / "out", data, completion_only_loss=True, assistant_only_loss=True, max_length=None
    )
    (batch,) = list(trainer.get_train_dataloader())
    ids, labels = ours(model, kind)
    theirs = batch["labels"][0].tolist()
    assert batch["input_ids"][0].tolist() == ids
    assert [own for own, trained in zip(labels, theirs, strict=True) if own != trained and own != -100] == []
    more = sum(own != trained for own, trained in zip(labels, theirs, strict=True))
    report = json.loads((folder / "export_report.json").read_text())["by_file"].get(f"{kind}-train", {})
    assert (more > 0) == ("masked_spans_trained" in report)  # what cannot be said there is counted, and nothing else
    assert kind in ("env_prediction", "state_reconstruction") or not more
    trainer.train()


@pytest.mark.parametrize("mode", ["action_only", "actobs", "echo"])
def test_the_weighted_trainer_of_the_folder_computes_our_loss(
    mode: LossMode, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script that lies in the folder, with only the model put in."""
    folder = written(tmp_path / "r000", model, "trl-tokens", mode=mode) / "trl-tokens"
    script = (folder / "train_weighted.py").read_text().replace("Qwen/Qwen3-0.6B", str(model))
    (folder / "train_weighted.py").write_text(script)
    monkeypatch.chdir(folder)
    code = runpy.run_path("train_weighted.py")
    data = datasets.load_dataset("parquet", data_files={"train": str(folder / "sft-train-00000.parquet")})["train"]
    from trl import SFTConfig

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    config = SFTConfig(
        output_dir=str(tmp_path / "out"), max_length=None, remove_unused_columns=False, max_steps=1, report_to=[],
        per_device_train_batch_size=2, use_cpu=True,
    )  # fmt: skip
    trainer = code["WeightedTrainer"](
        model=str(model), args=config, train_dataset=data, processing_class=tokenizer,
        data_collator=code["WeightedCollator"](pad_token_id=tokenizer.pad_token_id),
    )  # fmt: skip
    (batch,) = list(trainer.get_train_dataloader())
    ids, labels = ours(model, "sft", mode)
    assert batch["input_ids"][0].tolist() == ids and batch["labels"][0].tolist() == labels
    weights = torch.tensor(data[0]["loss_weights"])
    with torch.no_grad():
        logits = trainer.model(input_ids=torch.tensor([ids])).logits[0, :-1].float()
        expected = (
            torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none") * weights[1:]
        ).sum() / weights[1:].sum()
        assert torch.allclose(trainer.compute_loss(trainer.model, dict(batch)), expected, atol=1e-5)
    trainer.train()


@pytest.mark.parametrize("steps", [1, 2])
def test_a_step_is_the_same_however_it_is_cut_up(
    steps: int, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradient accumulation: the logged loss is that of all tokens together, by the sum of their weights."""
    folder = written(tmp_path / "r000", model, "trl-tokens", mode="echo") / "trl-tokens"
    monkeypatch.chdir(folder)
    code = runpy.run_path("train_weighted.py")
    files = [str(folder / f"{kind}-train-00000.parquet") for kind in ("sft", "pivot")]
    data = datasets.load_dataset("parquet", data_files={"train": files})["train"]
    from trl import SFTConfig

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    config = SFTConfig(
        output_dir=str(tmp_path / "out"), max_length=None, remove_unused_columns=False, max_steps=1, report_to=[],
        per_device_train_batch_size=2 // steps, gradient_accumulation_steps=steps, use_cpu=True, logging_steps=1,
        bf16=False,
    )  # fmt: skip
    trainer = code["WeightedTrainer"](
        model=str(model), args=config, train_dataset=data, processing_class=tokenizer,
        data_collator=code["WeightedCollator"](pad_token_id=tokenizer.pad_token_id),
    )  # fmt: skip
    total = weight = 0.0
    with torch.no_grad():
        for row in data:
            ids, own = torch.tensor([row["input_ids"]]), torch.tensor(row["loss_weights"])[1:]
            logits = trainer.model(input_ids=ids).logits[0, :-1].float()
            losses = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="none")
            total, weight = total + (losses * own).sum().item(), weight + own.sum().item()
    trainer.train()
    (logged,) = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert logged == pytest.approx(total / weight, abs=2e-3)


def test_labels_are_taken_as_they_are_without_the_class(model: Path, tmp_path: Path) -> None:
    folder = written(tmp_path / "r000", model, "trl-tokens", mode="actobs") / "trl-tokens"
    data = datasets.load_dataset("parquet", data_files={"train": str(folder / "sft-train-00000.parquet")})["train"]
    trainer = sft_trainer(model, tmp_path / "out", data, max_length=None)
    (batch,) = list(trainer.get_train_dataloader())
    assert batch["labels"][0].tolist() == ours(model, "sft", "actobs")[1]
    trainer.train()


def test_preferences_share_their_prompt_to_the_token_and_take_a_step(model: Path, tmp_path: Path) -> None:
    from trl import DPOConfig, DPOTrainer

    folder = written(tmp_path / "r000", model, "trl") / "trl"
    data = rows(folder, "preference", "prompt", "chosen", "rejected")
    config = DPOConfig(
        output_dir=str(tmp_path / "out"), max_steps=1, per_device_train_batch_size=1, report_to=[], use_cpu=True,
        max_length=None,
    )  # fmt: skip
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    trainer = DPOTrainer(model=str(model), args=config, train_dataset=data, processing_class=tokenizer)
    (batch,) = list(trainer.get_train_dataloader())
    mask = next(value for name, value in batch.items() if "completion_mask" in name)
    text = [tokenizer.decode(ids[keep.bool()]) for ids, keep in zip(batch["input_ids"], mask, strict=True)]
    (pair,) = (sample for sample in SAMPLES if sample.kind == "preference")
    for told, side in zip(text, (pair.chosen, pair.rejected), strict=True):
        assert all(call.function.name in told for message in side for call in message.tool_calls)
        assert "You take over" not in told
    trainer.train()


def test_starts_load_with_what_reward_functions_read(model: Path, tmp_path: Path) -> None:
    from trl import GRPOConfig, GRPOTrainer

    seen: list[dict[str, Any]] = []

    def reward(prompts: Any, completions: Any, **columns: Any) -> list[float]:
        seen.append(columns)
        return [float(place) for place, _ in enumerate(completions)]

    folder = written(tmp_path / "r000", model, "trl") / "trl"
    lines = [json.loads(line) for line in (folder / "rl_prompt-train-00000.jsonl").read_text().splitlines()]
    for line in lines:  # tools and environments are callables there, not data
        del line["environment"], line["tools"]
    config = GRPOConfig(
        output_dir=str(tmp_path / "out"), max_steps=1, per_device_train_batch_size=2, num_generations=2, report_to=[],
        use_cpu=True, max_completion_length=4,
    )  # fmt: skip
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    trainer = GRPOTrainer(
        model=str(model), reward_funcs=reward, args=config, train_dataset=datasets.Dataset.from_list(lines),
        processing_class=tokenizer,
    )  # fmt: skip
    trainer.train()
    assert seen[0]["task_id"] == ["r-1", "r-1"] and seen[0]["view_id"] == ["v_1", "v_1"]


def test_the_script_of_the_folder_trains(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the card says, with only the model put in and the run made short."""
    folder = written(tmp_path / "r000", model, "trl") / "trl"
    script = (folder / "train_sft.py").read_text().replace("Qwen/Qwen3-0.6B", str(model))
    short = 'output_dir="out", max_steps=1, report_to=[], use_cpu=True,'
    (folder / "run.py").write_text(script.replace('output_dir="out",', short).replace("32768", "4096"))
    monkeypatch.chdir(folder)
    assert runpy.run_path("run.py")["trainer"].state.global_step == 1
