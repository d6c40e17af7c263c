"""Every format beside its trainer's rules: what is said comes out, what cannot be said is counted."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
import zstandard
from chat_templates import PLAIN
from conversations import encode
from formats import BRIEFING, ORIGIN, SAMPLES, step

from handoff.errors import InputError
from handoff.exports import FORMATS, Loss, LossMode, Tokens, export, get_exporters
from handoff.masks.template import ChatTemplate
from handoff.samples import (
    Sample,
    sft_sample,
)
from handoff.trajectory import Action, Step

KINDS = [sample.kind for sample in SAMPLES]
TOKENS = Tokens(template=ChatTemplate(PLAIN), encode=encode, name="words")


def written(folder: Path, *names: str, mode: LossMode = "action_only", samples: list[Sample] = SAMPLES) -> Path:
    exporters = get_exporters(names, loss=Loss(mode=mode), tokens=TOKENS)
    export(samples, folder / "r000", exporters=exporters)
    return folder / "r000"


def rows_of(folder: Path, stem: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob(f"{stem}-train-*")):
        if path.suffix == ".parquet":
            found += pq.read_table(path).to_pylist()
        else:
            found += [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return found


def losses(folder: Path) -> dict[str, int]:
    counted: dict[str, int] = json.loads((folder / "export_report.json").read_text())["lossy_changes"]
    return counted


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_rows_or_is_counted(name: str, kind: str, tmp_path: Path) -> None:
    """Nothing disappears: a format that has no place for a kind says so by its name."""
    own = [sample for sample in SAMPLES if sample.kind == kind]
    folder = written(tmp_path, name, samples=own) / name
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    if not manifest["rows"]:
        assert any(change.startswith(kind) for change in losses(folder)), losses(folder)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_folder_says_how_to_train_and_its_settings_name_its_own_files(name: str, tmp_path: Path) -> None:
    folder = written(tmp_path, name) / name
    present = {path.name for path in folder.iterdir()}
    card = (folder / "README.md").read_text()
    assert "## How to" in card and all(f"({plot})" in card for plot in ("kinds.svg", "lengths.svg", "roles.svg"))
    for path in folder.iterdir():
        if path.suffix in (".py", ".yaml", ".toml", ".sh", ".json") and path.name not in ("MANIFEST.json",):
            named = set(re.findall(r"[a-z_]+(?:-[a-z]+)+-\d{5}\.(?:jsonl|parquet)", path.read_text()))
            assert named <= present, (path.name, named - present)
    for script in folder.glob("*.py"):
        compile(script.read_text(), script.name, "exec")
    if any(stem in name for stem in ("trl", "axolotl", "llama", "swift", "nemo-rl", "prime", "verl", "skyrl")):
        assert {path.suffix for path in folder.iterdir()} & {".py", ".yaml", ".toml", ".sh"}


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_the_same_samples_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in (written(tmp_path / "a", name) / name).iterdir()}
    assert first == {path.name: path.read_bytes() for path in (written(tmp_path / "b", name) / name).iterdir()}


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"nemo-gym", "trl-tokens", "skyrl", "verl"}))
def test_what_the_successor_said_and_did_comes_out_in_order(name: str, tmp_path: Path) -> None:
    """Its commands, in every form that holds texts of whole runs; the others have tests of their own."""
    (row,) = rows_of(written(tmp_path, name) / name, "sft")
    text = json.dumps(row)
    places = [text.index(word) for word in ("You take over.", "git diff", "submit")]
    assert places == sorted(places)


def test_openai_rows_hold_only_what_the_service_takes(tmp_path: Path) -> None:
    folder = written(tmp_path, "openai") / "openai"
    (row,) = rows_of(folder, "sft")
    assert set(row) == {"messages", "tools", "parallel_tool_calls"} and row["parallel_tool_calls"] is True
    replies = [message for message in row["messages"] if message["role"] == "assistant"]
    assert [reply["content"] for reply in replies] == ["Look first.", None, None]
    assert all(reply["weight"] == 1 and "reasoning_content" not in reply for reply in replies)
    assert all(isinstance(c["function"]["arguments"], str) for r in replies for c in r["tool_calls"])
    (pivot,) = rows_of(folder, "pivot")
    assert [m["weight"] for m in pivot["messages"] if m["role"] == "assistant"] == [0, 0, 1]
    (pair,) = rows_of(folder, "preference")
    assert set(pair) == {"input", "preferred_output", "non_preferred_output"}
    assert [len(pair[side]) for side in ("preferred_output", "non_preferred_output")] == [1, 1]
    assert [m["role"] for m in pair["input"]["messages"]] == ["system", "user", "assistant", "tool"]  # the shared step
    assert losses(folder)["thoughts_dropped"] > 0
    (start,) = rows_of(folder, "rl_prompt")
    assert start["task_id"] == "r-1" and start["messages"][-1]["role"] == "user"


def test_names_of_tools_are_made_fit_for_openai_everywhere(tmp_path: Path) -> None:
    action = Action(tool="fs.read", arguments="{}")
    tools = '[{"type":"function","function":{"name":"fs.read"}}]'
    sample = sft_sample(ORIGIN, msgspec.structs.replace(BRIEFING, tools=tools), [Step(actions=(action,))])
    folder = written(tmp_path, "openai", samples=[sample]) / "openai"
    (row,) = rows_of(folder, "sft")
    assert row["tools"][0]["function"]["name"] == "fs_read"
    assert row["messages"][-1]["tool_calls"][0]["function"]["name"] == "fs_read"
    assert losses(folder)["tool_names_changed"] == 2


def test_axolotl_trains_flagged_messages_and_inclusive_spans(tmp_path: Path) -> None:
    (row,) = rows_of(written(tmp_path / "a", "axolotl") / "axolotl", "sft")
    assert [(m["role"], m["train"]) for m in row["messages"]] == [
        ("system", False), ("user", False), ("assistant", True), ("tool", False), ("assistant", True),
        ("tool", False), ("tool", False), ("user", False), ("assistant", True),
    ]  # fmt: skip
    assert isinstance(row["tools"], str) and not any("train_detail" in m for m in row["messages"])
    folder = written(tmp_path / "b", "axolotl", mode="echo") / "axolotl"
    (row,) = rows_of(folder, "sft")
    tool = row["messages"][3]
    assert tool["train"] is True
    told = "".join(tool["content"][d["begin_offset"] : d["end_offset"] + 1] for d in tool["train_detail"])
    assert told == tool["content"] == "+x in 0.31s"
    assert [d["train"] for d in tool["train_detail"]] == [True, False]  # durations are not learned
    assert losses(folder)["environment_weight_as_one"] == 3


def test_llamafactory_turns_alternate_and_name_their_datasets(tmp_path: Path) -> None:
    folder = written(tmp_path, "llamafactory") / "llamafactory"
    (row,) = rows_of(folder, "sft")
    sides = ["human" if turn["from"] in ("human", "observation") else "gpt" for turn in row["conversations"]]
    assert sides == ["human", "gpt"] * (len(sides) // 2) and len(sides) % 2 == 0
    assert row["system"] == "You are in a shell."
    assert json.loads(row["conversations"][1]["value"]) == {"name": "bash", "arguments": {"command": "git diff"}}
    assert len(json.loads(row["conversations"][3]["value"])) == 2  # parallel calls
    assert row["conversations"][4]["value"] == "one\n</tool_response>\n<tool_response>\ntwo\n\nMind the time."
    info = json.loads((folder / "dataset_info.json").read_text())
    assert {entry["file_name"] for entry in info.values()} == {path.name for path in folder.glob("*.jsonl")}
    (pair,) = rows_of(folder, "preference")
    assert pair["chosen"]["from"] == pair["rejected"]["from"] == "function_call"
    assert len(pair["conversations"]) % 2 == 1
    counted = losses(folder)
    assert counted["thoughts_dropped"] and counted["texts_beside_calls_dropped"] and counted["pivot_has_no_rows"] == 1
    (native,) = rows_of(written(tmp_path, "llamafactory-v1") / "llamafactory-v1", "pivot")
    assert [m["loss_weight"] for m in native["messages"] if m["role"] == "assistant"] == [0.0, 0.0, 1.0]
    assert [part["type"] for part in native["messages"][2]["content"]] == ["reasoning", "text", "tool_call"]


def test_swift_marks_replies_and_calls(tmp_path: Path) -> None:
    (row,) = rows_of(written(tmp_path, "swift") / "swift", "pivot")
    flagged = [(turn["role"], turn["loss"]) for turn in row["messages"] if "loss" in turn]
    assert flagged == [
        ("assistant", False), ("tool_call", False), ("tool_call", False), ("tool_call", False), ("tool_call", True)
    ]  # fmt: skip
    assert row["messages"][2]["content"] == "<think>\nhm\n</think>\n\nLook first."
    (pair,) = rows_of(written(tmp_path, "swift") / "swift", "preference")
    assert pair["rejected_messages"][: len(BRIEFING.messages()) - 1] and pair["rejected_tools"] == pair["tools"]


def test_nemo_gym_expects_one_call_and_shows_what_came_before(tmp_path: Path) -> None:
    folder = written(tmp_path, "nemo-gym", "nemo-rl")
    (row,) = rows_of(folder / "nemo-gym", "pivot")
    assert row["expected_action"] == {"type": "function_call", "name": "bash", "arguments": '{"command": "submit"}'}
    request = row["responses_create_params"]
    assert request["tool_choice"] == "auto" and request["tools"][0]["name"] == "bash"
    kinds = [item.get("type", item.get("role")) for item in request["input"]]
    assert kinds == [
        "system", "user", "assistant", "function_call", "function_call_output", "function_call", "function_call",
        "function_call_output", "function_call_output", "user",
    ]  # fmt: skip
    assert row["pivot_tags"] == ["error", "structured"]
    (pair,) = rows_of(folder / "nemo-rl", "preference")
    assert [side["rank"] for side in pair["completions"]] == [0, 1]


def test_prime_rl_rows_are_text_where_arrow_would_fill_in_nulls(tmp_path: Path) -> None:
    folder = written(tmp_path, "prime-rl", mode="actobs") / "prime-rl"
    (row,) = rows_of(folder, "sft")
    assert isinstance(row["tools"], str)
    assert isinstance(row["completion"][0]["tool_calls"][0]["function"]["arguments"], str)
    assert "tool = true" in (folder / "sft.toml").read_text()


def test_verl_prompts_are_typed_and_its_tokens_come_with_their_reader(tmp_path: Path) -> None:
    folder = written(tmp_path, "verl") / "verl"
    (row,) = rows_of(folder, "rl_prompt")
    assert json.loads(row["reward_model"]["ground_truth"])["task_id"] == "r-1"
    more = row["extra_info"]
    assert more["index"] == 0 and more["tools_kwargs"]["bash"]["create_kwargs"]["tree"] == "def"
    (tokens,) = rows_of(folder, "sft")
    assert len(tokens["input_ids"]) == len(tokens["loss_mask"]) and set(tokens["loss_mask"]) == {0, 1}
    assert "class HandoffDataset" in (folder / "handoff_verl_dataset.py").read_text()
    without = get_exporters(["verl"])
    export(SAMPLES, tmp_path / "none", exporters=without)
    assert losses(tmp_path / "none/verl")["sft_has_no_rows_without_a_tokenizer"] == 1


@pytest.mark.parametrize(("mode", "weights"), [("action_only", {0.0, 1.0}), ("echo", {0.0, 0.05, 1.0})])
def test_token_rows_say_the_loss_exactly(mode: LossMode, weights: set[float], tmp_path: Path) -> None:
    folder = written(tmp_path, "trl-tokens", mode=mode) / "trl-tokens"
    (row,) = rows_of(folder, "sft")
    assert {round(weight, 3) for weight in row["loss_weights"]} == weights
    labels = [i if w > 0 else -100 for i, w in zip(row["input_ids"], row["loss_weights"], strict=True)]
    assert row["labels"] == labels


def test_a_long_demonstration_is_cut_to_the_context_and_each_reply_trained_once(tmp_path: Path) -> None:
    run = [step(f"echo {number}", "word " * 30, text="think " * 5) for number in range(12)]
    whole = sft_sample(ORIGIN, BRIEFING, run)
    (full,) = rows_of(written(tmp_path / "a", "trl-tokens", samples=[whole]) / "trl-tokens", "sft")
    tokens = msgspec.structs.replace(TOKENS, context=len(full["input_ids"]) // 2)
    export([whole], tmp_path / "b", exporters=get_exporters(["trl-tokens"], tokens=tokens))
    parts = rows_of(tmp_path / "b/trl-tokens", "sft")
    assert len(parts) > 1 and all(len(part["input_ids"]) <= (tokens.context or 0) for part in parts)
    trained = Counter(i for part in parts for i, w in zip(part["input_ids"], part["loss_weights"], strict=True) if w)
    assert trained == Counter(i for i, w in zip(full["input_ids"], full["loss_weights"], strict=True) if w)


def test_canonical_rows_lose_nothing(tmp_path: Path) -> None:
    folder = written(tmp_path, "huggingface") / "huggingface"
    for sample in SAMPLES:
        (row,) = rows_of(folder, sample.kind)
        assert msgspec.convert(row, Sample) == sample
    assert losses(folder) == {}


def test_lines_may_be_compressed(tmp_path: Path) -> None:
    export(SAMPLES, tmp_path / "r000", exporters=get_exporters(["trl"]), compress=True)
    (file,) = (tmp_path / "r000/trl").glob("sft-*.jsonl.zst")
    with file.open("rb") as raw:
        text = zstandard.ZstdDecompressor().stream_reader(raw).read()
    assert json.loads(text)["sample_id"] == SAMPLES[0].sample_id


def test_an_unknown_format_or_a_missing_tokenizer_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no export format 'trll'; formats are trl, trl-tokens"):
        get_exporters(["trll"])
    with pytest.raises(InputError, match="needs a tokenizer"):
        get_exporters(["trl-tokens"])
    with pytest.raises(InputError, match="is no folder"):
        Tokens.of(tmp_path / "gone")
