"""Exports: rows a trainer reads as they are, in folders that account for themselves."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

from handoff.errors import LakeError
from handoff.exports import export, get_exporters
from handoff.exports.card import plain
from handoff.exports.folder import ExportFolder
from handoff.exports.trl import TrlExporter
from handoff.lake import SCHEMAS
from handoff.samples import (
    Origin,
    Sample,
    env_prediction_samples,
    preference_sample,
    rl_prompt_sample,
    sft_sample,
    state_reconstruction_sample,
)
from handoff.successors import Briefing
from handoff.trajectory import Action, Message, Observation, Step

TOOLS = json.dumps([{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}], indent=1)
BRIEFING = Briefing(task="Fix a.py", view="trace", view_text="# Trace", preamble="You take over.", tools=TOOLS)
ORIGIN = Origin(
    trajectory_id="t_1",
    point_id="p_1",
    view_id="v_1",
    view="trace",
    h=2,
    split="train",
    takeover_id="k_1",
    licence="MIT",
    repo="r",
)


def step(arguments: str, output: str = "ok", thought: str = "") -> Step:
    return Step(
        thought=thought, actions=(Action(tool="bash", arguments=arguments),), observations=(Observation(text=output),)
    )


RUN = [step('{"command": "git diff",\n "n": 1}', "+x", "look"), step('{"path": "a.py", "lines": [1, 2]}'), step("{}")]


def samples() -> list[Sample]:
    return [
        sft_sample(ORIGIN, BRIEFING, RUN),
        preference_sample(ORIGIN, BRIEFING, RUN, RUN[1:]),
        rl_prompt_sample(ORIGIN, BRIEFING),
        *env_prediction_samples(ORIGIN, BRIEFING, RUN),
        state_reconstruction_sample(ORIGIN, BRIEFING, {"changed": ["a.py"], "failing": None}),
    ]


def lines(path: Path) -> list[dict]:  # type: ignore[type-arg]
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def predecessor(_: str, h: int) -> list[Step]:
    lost = Observation(text="lost", is_orphan=True)
    action = Action(tool="bash", arguments="ls", is_text=True)
    harness = Message(role="harness", text="mind the format")
    return [Step(text="hm", actions=(action,), observations=(Observation(text="a.py"), lost), after=(harness,))] * h


def test_trl_rows_hold_objects_for_arguments_and_train_the_successor_alone(tmp_path: Path) -> None:
    """Prompt/completion: everything of the predecessor is in the prompt; no null, no argument filled in."""
    export(samples(), tmp_path / "r000")
    (row,) = lines(tmp_path / "r000/trl/sft-train-00000.jsonl")
    assert [m["role"] for m in row["prompt"]] == ["user"]
    assert [m["role"] for m in row["completion"]] == ["assistant", "tool", "assistant", "tool", "assistant"]
    calls = [c["function"]["arguments"] for m in row["completion"] for c in m.get("tool_calls", ())]
    assert calls == [{"command": "git diff", "n": 1}, {"path": "a.py", "lines": [1, 2]}, {}]
    assert row["tools"] == json.loads(TOOLS)
    assert row["completion"][0]["reasoning_content"] == "look"
    assert "null" not in (tmp_path / "r000/trl/sft-train-00000.jsonl").read_text()
    answers = [m["tool_call_id"] for m in row["completion"] if m["role"] == "tool"]
    assert answers == [m["tool_calls"][0]["id"] for m in row["completion"] if "tool_calls" in m][:2]


def test_trl_preferences_share_a_prompt_and_grpo_prompts_carry_their_start(tmp_path: Path) -> None:
    """The columns that DPO and GRPO trainers ask for."""
    export(samples(), tmp_path / "r000", exporters=[TrlExporter()])
    (pair,) = lines(tmp_path / "r000/trl/preference-train-00000.jsonl")
    assert set(pair) == {"prompt", "chosen", "rejected", "tools", "sample_id"}
    assert pair["chosen"] != pair["rejected"]
    (prompt,) = lines(tmp_path / "r000/trl/rl_prompt-train-00000.jsonl")
    assert prompt["environment"] == "handoff"
    assert prompt["prompt"] == pair["prompt"]
    assert all(isinstance(value, str) for name, value in prompt.items() if name not in ("prompt", "tools"))
    (state,) = lines(tmp_path / "r000/trl/state_reconstruction-train-00000.jsonl")
    assert json.loads(state["completion"][0]["content"]) == {"changed": ["a.py"], "failing": None}


def test_atif_marks_the_predecessor_as_copied_context(tmp_path: Path) -> None:
    """Consumers must leave such steps out of targets; ids run from 1 and results answer calls of their own step."""
    export(samples(), tmp_path / "r000", predecessors=predecessor)
    (document,) = lines(tmp_path / "r000/atif/sft-train-00000.jsonl")
    assert document["schema_version"] == "ATIF-v1.8"
    steps = document["steps"]
    assert [s["step_id"] for s in steps] == list(range(1, len(steps) + 1))
    assert [(s["source"], s.get("is_copied_context", False)) for s in steps] == [
        ("user", True),
        ("agent", True),
        ("user", True),
        ("agent", True),
        ("user", True),
        ("user", False),
        ("agent", False),
        ("agent", False),
        ("agent", False),
    ]
    assert steps[0]["message"] == "Fix a.py"
    allowed = {"step_id", "source", "message", "is_copied_context", "reasoning_content", "tool_calls", "observation"}
    for s in steps:
        assert set(s) <= allowed | {"model_name", "extra"}
        calls = [c["tool_call_id"] for c in s.get("tool_calls", ())]
        assert all(isinstance(c["arguments"], dict) for c in s.get("tool_calls", ()))
        for result in s.get("observation", {"results": ()})["results"]:
            assert result.get("source_call_id") in (*calls, None)
    assert set(document) <= {
        "schema_version",
        "session_id",
        "trajectory_id",
        "agent",
        "steps",
        "final_metrics",
        "extra",
    }


def test_a_folder_accounts_for_itself(tmp_path: Path) -> None:
    """Manifest, report and table rows agree with the bytes on disk."""
    rows = export(samples(), tmp_path / "r000", predecessors=predecessor, made_from="seed=1")
    assert all(list(row) == SCHEMAS["exports"].names for row in rows)
    for row in rows:
        data = (tmp_path / row["path"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == row["sha256"]
        assert (len(data), data.count(b"\n")) == (row["bytes"], row["rows"])
        assert len(row["sample_ids"]) == row["rows"]
    for exporter in get_exporters():
        folder = tmp_path / "r000" / exporter.name
        manifest = json.loads((folder / "MANIFEST.json").read_text())
        assert manifest["rows"] == sum(row["rows"] for row in rows if row["format"] == exporter.name)
        assert manifest["made_from"] == "seed=1"
        listed = {f["path"]: f["sha256"] for f in manifest["files"]} | manifest["other_files"]
        on_disk = {
            p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir() if p.name != "MANIFEST.json"
        }
        assert listed == on_disk
        assert manifest["files"][0]["licences"] == {"MIT": manifest["files"][0]["rows"]}
    report = json.loads((tmp_path / "r000/trl/export_report.json").read_text())
    assert report["lossy_changes"]["environment_weights_dropped"] > 0
    assert report["lossy_changes"]["masked_spans_trained"] == 1
    atif = json.loads((tmp_path / "r000/atif/export_report.json").read_text())["lossy_changes"]
    assert atif["preference_is_no_episode"] == 1
    assert atif["predecessor_text_arguments_wrapped"] == 2


def test_the_same_samples_give_the_same_bytes_and_old_shards_go(tmp_path: Path) -> None:
    """Exporting again is a no-op for the bytes; what no longer belongs is removed."""
    export(samples(), tmp_path / "r000")
    before = {p.relative_to(tmp_path): p.read_bytes() for p in sorted(tmp_path.rglob("*")) if p.is_file()}
    export(samples(), tmp_path / "r000")
    assert before == {p.relative_to(tmp_path): p.read_bytes() for p in sorted(tmp_path.rglob("*")) if p.is_file()}
    export(samples()[:1], tmp_path / "r000")
    assert [p.name for p in sorted((tmp_path / "r000/trl").glob("*.jsonl"))] == ["sft-train-00000.jsonl"]


def test_an_error_leaves_no_manifest_and_no_scratch_file(tmp_path: Path) -> None:
    """A folder without a manifest is incomplete."""
    export(samples(), tmp_path / "r000")

    def broken():  # type: ignore[no-untyped-def]
        yield samples()[0]
        raise LakeError("the lake is gone")

    with pytest.raises(LakeError):
        export(broken(), tmp_path / "r000")
    assert not (tmp_path / "r000/trl/MANIFEST.json").exists()
    assert not list(tmp_path.rglob("*.partial"))


def test_shards_are_cut_by_size(tmp_path: Path) -> None:
    """A shard holds whole rows and stays below its size."""
    folder = ExportFolder(TrlExporter(), tmp_path / "trl", shard_bytes=3_000)
    for number in range(9):
        folder.add(sft_sample(ORIGIN, BRIEFING, [*RUN, step(json.dumps({"n": number}))]), None)
    rows = folder.close(tmp_path)
    assert len(rows) > 2
    assert all(row["bytes"] <= 3_000 for row in rows)
    assert sum(row["rows"] for row in rows) == 9
    names = [row["path"] for row in rows]
    assert names == sorted(names)


def test_text_of_a_source_cannot_write_on_the_card() -> None:
    """Names in tables are escaped for Markdown and HTML."""
    text = plain("<script>|\n# [x](y) `c` \x1b[31m")
    assert "<" not in text
    assert "\n" not in text
    assert "\\|" in text
    assert "\\[x\\](y)" in text
    assert "\x1b" not in text


def test_an_exporter_counts_what_it_cannot_carry() -> None:
    """Losses are counted, never silent."""
    losses: Counter[str] = Counter()
    list(TrlExporter().rows(samples()[0], None, losses))
    assert losses["reasoning_left_to_the_template"] == 1
