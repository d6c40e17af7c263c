"""Our files in trainers' own readers: verl's class that we ship, LLaMA-Factory's and Axolotl's from their sources.

``HANDOFF_LLAMAFACTORY`` and ``HANDOFF_AXOLOTL`` name folders of their sources; their packages pin other versions of
what TRL needs, so they are not installed beside it.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import runpy
import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"

torch = pytest.importorskip("torch", reason="torch is not installed: make train")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed: make train")
transformers = pytest.importorskip("transformers", reason="transformers is not installed: make train")

from formats import SAMPLES  # noqa: E402
from tiny_tokenizer import MARKED, build  # noqa: E402

from handoff.exports import Loss, LossMode, Tokens, export, get_exporters  # noqa: E402
from handoff.exports.tokenised import token_rows  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of libraries that are not ours


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("words"), [json.dumps(m.content) for s in SAMPLES for m in s.messages])


def written(folder: Path, words: Path, name: str, mode: LossMode = "action_only") -> Path:
    export(SAMPLES, folder / "r", exporters=get_exporters([name], loss=Loss(mode=mode), tokens=Tokens.of(words)))
    return folder / "r" / name


def ours(words: Path, kind: str, mode: LossMode = "action_only") -> tuple[list[int], list[bool]]:
    (sample,) = (one for one in SAMPLES if one.kind == kind)
    ((_, found),) = list(token_rows(sample, Tokens.of(words), Loss(mode=mode), Counter()))
    return found.ids.tolist(), (found.weights > 0).tolist()


def fast(words: Path) -> Any:
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_file(str(words / "tokenizer.json")), pad_token="<|pad|>",
        eos_token="<|im_end|>", chat_template=MARKED,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["sft", "pivot", "state_reconstruction", "note_writing"])
def test_verls_class_gives_our_masks(kind: str, words: Path, tmp_path: Path) -> None:
    """The class that its trainer loads by ``data.custom_cls``, called as it calls it."""
    folder = written(tmp_path, words, "verl")
    code = runpy.run_path(str(folder / "handoff_verl_dataset.py"))
    files = [str(path) for path in folder.glob(f"{kind}-train-*.parquet")]
    for mode in ("right", "no_padding"):
        data = code["HandoffDataset"](files, fast(words), {"max_length": 1024, "pad_mode": mode}, None, -1)
        item = data[0]
        ids, trained = ours(words, kind)
        assert len(data) == 1 and item["input_ids"][: len(ids)].tolist() == ids
        assert item["loss_mask"][: len(ids)].bool().tolist() == trained
        assert item["position_ids"][: len(ids)].tolist() == list(range(len(ids)))
        if mode == "right":
            assert item["input_ids"].shape == (1024,) and item["attention_mask"].sum() == len(ids)
            assert item["loss_mask"][len(ids) :].sum() == 0


# -- by their sources ---------------------------------------------------------------------------


@pytest.fixture
def llamafactory(monkeypatch: pytest.MonkeyPatch) -> Any:
    place = os.environ.get("HANDOFF_LLAMAFACTORY")
    if not place:
        pytest.skip("HANDOFF_LLAMAFACTORY names no folder with LLaMA-Factory's sources")
    monkeypatch.syspath_prepend(str(Path(place) / "src"))
    logger = types.ModuleType("llamafactory.extras.logging")
    for name in ("get_logger",):
        setattr(logger, name, lambda *_: logging.getLogger("llamafactory"))
    logging.Logger.warning_rank0 = logging.Logger.warning  # type: ignore[attr-defined]
    packages = {name: types.ModuleType(name) for name in ("llamafactory", "llamafactory.data", "llamafactory.extras")}
    for name, module in packages.items():
        module.__path__ = [str(Path(place) / "src" / name.replace(".", "/"))]
    packages["llamafactory.extras"].logging = logger  # type: ignore[attr-defined]
    for name, module in {**packages, "llamafactory.extras.logging": logger}.items():
        monkeypatch.setitem(sys.modules, name, module)
    return importlib.import_module("llamafactory.data.converter")


@pytest.mark.parametrize("kind", ["sft", "env_prediction", "preference", "note_writing"])
def test_llamafactorys_converter_keeps_every_row(kind: str, llamafactory: Any, words: Path, tmp_path: Path) -> None:
    folder = written(tmp_path, words, "llamafactory")
    info = json.loads((folder / "dataset_info.json").read_text())
    (entry,) = (own for own in info.values() if own["file_name"].startswith(f"{kind}-train"))
    columns, tags = entry["columns"], entry["tags"]
    attr = types.SimpleNamespace(
        **tags, ranking=entry.get("ranking", False), kto_tag=None, images=None, videos=None, audios=None,
        messages=columns["messages"], system=columns["system"], tools=columns["tools"],
        chosen=columns.get("chosen"), rejected=columns.get("rejected"),
    )  # fmt: skip
    converter = llamafactory.SharegptDatasetConverter(attr, types.SimpleNamespace(media_dir=""))
    (row,) = [json.loads(line) for line in (folder / entry["file_name"]).read_text().splitlines()]
    found = converter(row)
    assert found["_prompt"] and len(found["_response"]) == (2 if kind == "preference" else 1)
    assert [m["role"] for m in found["_prompt"]][::2] == [
        role for role in [m["role"] for m in found["_prompt"]][::2] if role in ("user", "observation")
    ]
    said = [m["content"] for m in (*found["_prompt"], *found["_response"])]
    sides = [row["chosen"]["value"], row["rejected"]["value"]] if kind == "preference" else []
    assert said == [turn["value"] for turn in row["conversations"]] + sides
    assert found["_tools"] == row["tools"] and found["_system"] == row["system"]


@pytest.fixture
def axolotl(monkeypatch: pytest.MonkeyPatch) -> Any:
    place = os.environ.get("HANDOFF_AXOLOTL")
    if not place:
        pytest.skip("HANDOFF_AXOLOTL names no folder with Axolotl's sources")
    monkeypatch.syspath_prepend(str(Path(place) / "src"))
    try:
        return importlib.import_module("axolotl.prompt_strategies.chat_template")
    except ImportError as error:
        pytest.skip(f"Axolotl's sources need more: {error}")


@pytest.mark.parametrize("kind", ["sft", "pivot", "env_prediction", "state_reconstruction", "note_writing"])
@pytest.mark.parametrize("mode", ["action_only", "actobs"])
def test_axolotls_strategy_trains_our_tokens(
    kind: str, mode: LossMode, axolotl: Any, words: Path, tmp_path: Path
) -> None:
    folder = written(tmp_path, words, "axolotl", mode)
    (row,) = [json.loads(line) for line in (folder / f"{kind}-train-00000.jsonl").read_text().splitlines()]
    tokenizer = fast(words)
    prompter = axolotl.ChatTemplatePrompter(
        tokenizer, chat_template=MARKED, max_length=4096, message_field_training="train",
        message_field_training_detail="train_detail", field_messages="messages",
    )  # fmt: skip
    strategy = axolotl.ChatTemplateStrategy(
        prompter, tokenizer, train_on_inputs=False, sequence_len=4096, roles_to_train=[], train_on_eos="turn"
    )
    found = strategy.tokenize_prompt(row)
    ids, trained = ours(words, kind, mode)
    assert found["input_ids"] == ids
    theirs = [label != -100 for label in found["labels"]]
    differ = [n for n, (one, other) in enumerate(zip(trained, theirs, strict=True)) if one != other]
    told = [(tokenizer.decode([ids[n]]), "ours" if trained[n] else "theirs") for n in differ]
    if (kind, mode) == ("sft", "actobs"):  # counted in the export's report
        assert told == [("<|im_end|>", "theirs")] * 3
    elif kind == "note_writing":  # it finds a reply by another text in its place, which ends with a bracket too
        assert told == [("]", "ours")]
        report = json.loads((folder / "export_report.json").read_text())["by_file"][f"{kind}-train"]
        assert report["bracket_at_an_edge_untrained"] == 1
    else:
        assert told == []
