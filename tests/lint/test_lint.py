"""Lint: planted faults are all found, clean rows of every format are all left in peace."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from formats import BRIEFING, ORIGIN, SAMPLES
from tiny_tokenizer import build
from typer.testing import CliRunner

from handoff import cli
from handoff.exports import FORMATS, Loss, Tokens, export, get_exporters
from handoff.lint import CODES, Options, Report, lint
from handoff.samples import Sample, preference_sample, rl_prompt_sample, sft_sample
from handoff.trajectory import Action, Observation, Step

Row = dict[str, Any]


def call(id_: str = "c1", name: str = "bash", arguments: Any = None) -> Row:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments or {"command": "ls"}}}


def result(id_: str = "c1", content: str = "a.py") -> Row:
    return {"role": "tool", "tool_call_id": id_, "content": content}


def said(content: str = "Look.", *calls: Row, **more: Any) -> Row:
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {}), **more}


TOOL = {
    "type": "function",
    "function": {
        "name": "bash",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}
TASK = {"role": "user", "content": "You are taking over a software task that another agent began. Fix a.py"}


def trl(**more: Any) -> Row:
    completion = [said("Look.", call()), result(), said("Mend.", call("c2")), result("c2", "ok"), said("Done.")]
    return {"prompt": [TASK], "completion": completion, "tools": [TOOL], "sample_id": "s_1", **more}


def openai() -> Row:
    first = call(arguments='{"command": "ls"}')
    messages = [TASK, {**said("", first), "content": None, "weight": 1}, result(), said("Done.", weight=1)]
    return {"messages": messages, "tools": [TOOL], "parallel_tool_calls": False}


def axolotl() -> Row:
    detail = [{"begin_offset": 0, "end_offset": 3, "train": True}]
    rows = [{**TASK, "train": False}, {**said("Look.", call()), "train": True}, {**result(), "train": True}]
    rows[2]["train_detail"] = detail
    return {"messages": [*rows, {**said("Done."), "train": True}], "tools": json.dumps([TOOL])}


def sharegpt() -> Row:
    turns = [("human", "Fix a.py"), ("function_call", json.dumps({"name": "bash", "arguments": {"command": "ls"}})),
             ("observation", "a.py"), ("gpt", "Done.")]  # fmt: skip
    tools = json.dumps([TOOL["function"]])
    return {"conversations": [{"from": role, "value": text} for role, text in turns], "tools": tools, "system": ""}


def pair() -> Row:
    return {"prompt": [TASK], "chosen": [said("Good.")], "rejected": [said("Bad.")], "tools": [TOOL]}


def tokens() -> Row:
    return {"input_ids": [5, 6, 7, 8], "labels": [-100, -100, 7, 8], "loss_weights": [0.0, 0.0, 1.0, 1.0]}


def canonical() -> Row:
    row: Row = json.loads(json.dumps(msgspec.to_builtins(SAMPLES[0])))
    return row


CLEAN: dict[str, Callable[[], Row]] = {
    "trl": trl, "openai": openai, "axolotl": axolotl, "sharegpt": sharegpt, "pair": pair, "tokens": tokens,
    "canonical": canonical,
}  # fmt: skip


def completion(change: Callable[[list[Row]], object]) -> Callable[[Row], object]:
    return lambda row: change(row["completion"])


def arguments(value: Any) -> Callable[[Row], object]:
    return completion(lambda turns: turns[0]["tool_calls"][0]["function"].update(arguments=value))


def first(**more: Any) -> Callable[[Row], object]:
    return completion(lambda turns: turns[0].update(more))


def weight(role: str, value: float) -> Callable[[Row], object]:
    def change(row: Row) -> None:
        next(span for span in row["spans"] if span["role"] == role)["weight"] = value

    return change


def span(**more: Any) -> Callable[[Row], object]:
    return lambda row: row["spans"][1].update(more)


FAULTS: list[tuple[str, str, Callable[[Row], object]]] = [
    ("C01", "trl", completion(lambda turns: turns[0]["tool_calls"][0].pop("id"))),
    ("C02", "trl", completion(lambda turns: turns[2]["tool_calls"][0].update(id="c1"))),
    ("C03", "trl", completion(lambda turns: turns.pop(1))),
    ("C03", "sharegpt", lambda row: row["conversations"].__setitem__(2, {"from": "human", "value": "Go on."})),
    ("C04", "trl", completion(lambda turns: turns[1].update(tool_call_id="c9"))),
    ("C04", "sharegpt", lambda row: row["conversations"].__setitem__(1, {"from": "gpt", "value": "Look."})),
    ("C05", "trl", completion(lambda turns: turns[1].pop("tool_call_id"))),
    ("C06", "trl", completion(lambda turns: turns[0]["tool_calls"][0]["function"].update(name="browser"))),
    ("C07", "trl", lambda row: row.pop("tools")),
    ("C07", "openai", lambda row: row.update(tools=[])),
    ("C08", "trl", lambda row: row["tools"][0]["function"]["parameters"].update(additionalProperties=None)),
    ("C09", "trl", lambda row: row.update(tools=[{"bash": {}}])),
    ("C09", "axolotl", lambda row: row.update(tools="bash")),
    ("A01", "openai", lambda row: row["messages"][1]["tool_calls"][0]["function"].update(arguments="{ls")),
    ("A01", "sharegpt", lambda row: row["conversations"][1].update(value="ls")),
    ("A02", "trl", arguments(["ls"])),
    ("A02", "openai", lambda row: row["messages"][1]["tool_calls"][0]["function"].update(arguments='["ls"]')),
    ("A03", "trl", arguments('{"command": "ls"}')),
    ("A04", "openai", lambda row: row["messages"][1]["tool_calls"][0]["function"].update(arguments={"a": 1})),
    ("A05", "openai", lambda row: row["messages"][1]["tool_calls"][0]["function"].update(arguments='"{\\"a\\":1}"')),
    ("A06", "trl", arguments({"command": "ls", "timeout": None})),
    ("A06", "axolotl", lambda row: row["messages"][1]["tool_calls"][0]["function"].update(arguments='{"n": null}')),
    ("R01", "trl", first(role="bot")),
    ("R01", "sharegpt", lambda row: row["conversations"][3].update({"from": "chatgpt"})),
    ("R02", "trl", completion(lambda turns: turns.insert(2, {"role": "system", "content": "Be quick."}))),
    ("R03", "trl", lambda row: row["prompt"].append({"role": "user", "content": "Now."})),
    ("R04", "trl", completion(lambda turns: turns.append(said("Bye.")))),
    ("R05", "trl", completion(lambda turns: turns.pop())),
    ("R05", "sharegpt", lambda row: row["conversations"].pop()),
    ("R06", "trl", lambda row: row["prompt"][0].update(role="system")),
    ("R07", "trl", completion(lambda turns: turns[-1].update(content=""))),
    ("R08", "trl", first(content=None)),
    ("R08", "openai", lambda row: row["messages"][3].update(content=None)),
    ("R09", "trl", completion(lambda turns: turns[-1].pop("content"))),
    ("R10", "trl", lambda row: row["prompt"].append(result("c0"))),
    ("M01", "openai", lambda row: [m.update(weight=0) for m in row["messages"] if m["role"] == "assistant"]),
    ("M01", "tokens", lambda row: row.update(labels=[-100] * 4, loss_weights=[0.0] * 4)),
    ("M01", "tokens", lambda row: (row.pop("labels"), row.pop("loss_weights"))),
    ("M02", "axolotl", lambda row: row["messages"][0].update(train=True)),
    ("M02", "openai", lambda row: row["messages"][0].update(weight=1)),
    ("M03", "trl", completion(lambda turns: turns[0].update(content=TASK["content"]))),
    ("M03", "trl", completion(lambda turns: turns[0].update(content="# Handoff note of the previous agent\n\n- a.py"))),
    ("M03", "trl", lambda row: row["prompt"].append(said("It edited a.py.", train=True))),
    ("M04", "tokens", lambda row: row["labels"].pop()),
    ("M05", "tokens", lambda row: row.update(labels=[-100, -100, 8, 7])),
    ("M06", "tokens", lambda row: row["loss_weights"].__setitem__(2, -1.0)),
    ("M06", "canonical", weight("action", -0.5)),
    ("M07", "tokens", lambda row: row.update(loss_weights=[0.0, 1.0, 1.0, 1.0])),
    ("M10", "axolotl", lambda row: row["messages"][2]["train_detail"][0].update(end_offset=4)),
    ("M10", "canonical", span(end=10_000)),
    ("M10", "canonical", span(field="thinking")),
    ("M11", "canonical", span(start=3)),
    ("M11", "axolotl", lambda row: row["messages"][2]["train_detail"].append({"begin_offset": 2, "end_offset": 3})),
    ("C03", "trl", completion(lambda turns: turns.insert(1, {"role": "user", "content": "Wait."}))),
    ("C10", "trl", lambda row: row["tools"].append(TOOL)),
    ("M04", "tokens", lambda row: row.update(attention_mask=[1, 1])),
    ("M06", "tokens", lambda row: row.update(loss_mask=[0, 0, 2, 1])),
    ("M06", "openai", lambda row: row["messages"][3].update(weight=0.5)),
    ("M06", "axolotl", lambda row: row["messages"][0].update(weight=-1)),
    ("M15", "tokens", lambda row: row["input_ids"].__setitem__(0, -5)),
    ("M15", "tokens", lambda row: row["input_ids"].__setitem__(0, "five")),
    ("T02", "trl", arguments({"command": "ls", "password": "correct-horse-battery-9"})),
    ("M12", "canonical", weight("handoff_context", 1.0)),
    ("M12", "canonical", weight("warning", 0.05)),
    ("M13", "trl", completion(lambda turns: turns[0].update(content="<think>\n\n</think>\n\nLook."))),
    ("M14", "axolotl", lambda row: row["messages"][1].update(weight=0)),
    ("T01", "trl", completion(lambda turns: turns[0].update(content="It says [output truncated: 40 lines left out]."))),
    ("T02", "trl", completion(lambda turns: turns[1].update(content="token ghp_" + "a1B2c3D4e5F6" * 3))),
    ("T04", "trl", completion(lambda turns: turns[1].update(content="x" * 9_000))),
    ("P01", "pair", lambda row: row.update(rejected=row["chosen"])),
    ("P03", "pair", lambda row: row.update(rejected=[{"role": "user", "content": "?"}])),
    ("F02", "trl", lambda row: (row.clear(), row.update(text="Fix a.py", label=1))),
]  # fmt: skip


def codes(report: Report) -> set[str]:
    return set(report.counts)


def looked_at(tmp_path: Path, *rows: Row, name: str = "set-train.jsonl") -> Report:
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return lint([path], Options(context=2_000))


@pytest.mark.parametrize("name", sorted(CLEAN))
def test_the_clean_rows_are_clean(name: str, tmp_path: Path) -> None:
    assert looked_at(tmp_path, CLEAN[name]()).counts == {}


@pytest.mark.parametrize(("code", "name", "change"), FAULTS, ids=[f"{c}-{n}-{i}" for i, (c, n, _) in enumerate(FAULTS)])
def test_a_planted_fault_is_found(code: str, name: str, change: Callable[[Row], object], tmp_path: Path) -> None:
    row = copy.deepcopy(CLEAN[name]())
    change(row)
    assert code in codes(looked_at(tmp_path, row))


def test_there_are_enough_faults_and_every_code_is_tested() -> None:
    assert len(FAULTS) >= 45
    elsewhere = {"R11", "M08", "M09", "T03", "T05", "T06", "P02", "D01", "D02", "D03", "D04"}
    assert {code for code, _, _ in FAULTS} | elsewhere | {"F01", "F03", "F04", "F05", "F06"} == set(CODES)


# -- clean rows ---------------------------------------------------------------------------------


def generated(count: int) -> list[Sample]:
    """Demonstrations, pairs and starts that differ, drawn by a seed."""
    rng = random.Random("lint")
    made: list[Sample] = []
    for number in range(count):
        steps = []
        for place in range(rng.randint(2, 5)):
            line = {"command": f"cat f{number}_{place}.py", **({"n": rng.randint(0, 9)} if rng.random() < 0.3 else {})}
            action = Action(tool="bash", arguments=json.dumps(line))
            output = "\n".join(f"line {rng.randint(0, 999)} ☃" for _ in range(rng.randint(0, 4)))
            thought = f"think {place}" if rng.random() < 0.4 else ""
            text = f"Step {place} of {number}." if rng.random() < 0.7 else ""
            steps.append(Step(text=text, thought=thought, actions=(action,), observations=(Observation(text=output),)))
        split = "train" if number % 5 else "validation"
        origin = msgspec.structs.replace(
            ORIGIN, takeover_id=f"k_{number}", task_id=f"t-{number}", repo=f"r-{number}", split=split
        )
        briefing = msgspec.structs.replace(BRIEFING, task=f"Fix number {number}")
        made.append(sft_sample(origin, briefing, steps))
        if number % 3 == 0:
            made.append(preference_sample(origin, briefing, steps, [*steps[:-1], Step(text="I give up.")]))
        if number % 4 == 0:
            made.append(rl_prompt_sample(origin, briefing))
    return made


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("tokenizer"), [json.dumps(m.content) for s in SAMPLES for m in s.messages])


def test_over_a_thousand_clean_rows_of_every_format_nothing_is_said(tmp_path: Path, tokenizer: Path) -> None:
    exporters = get_exporters(list(FORMATS), tokens=Tokens.of(tokenizer))
    export(generated(90), tmp_path / "r000", exporters=exporters)
    report = lint([tmp_path])
    assert report.rows > 1_000 and len(report.shapes) >= 12
    assert report.counts == {}, report.places
    again = lint([tmp_path], Options(tokens=Tokens.of(tokenizer)))
    assert again.counts == {}, again.places
    assert sum(report.coverage) > 500 and again.longest > 50


def test_echo_and_flags_are_no_faults(tmp_path: Path, tokenizer: Path) -> None:
    exporters = get_exporters(["axolotl", "trl-tokens"], loss=Loss(mode="echo"), tokens=Tokens.of(tokenizer))
    export(SAMPLES, tmp_path / "r000", exporters=exporters)
    assert lint([tmp_path], Options(tokens=Tokens.of(tokenizer))).counts == {}


# -- masks by tokens ----------------------------------------------------------------------------


@pytest.mark.parametrize(("shift", "code"), [(1, "M08"), (-1, "M09")])
def test_a_mask_that_is_off_by_one_is_found(shift: int, code: str, tmp_path: Path, tokenizer: Path) -> None:
    tokens = Tokens.of(tokenizer)
    export(SAMPLES[:1], tmp_path / "r000", exporters=get_exporters(["trl-tokens"], tokens=tokens))
    (path,) = (tmp_path / "r000/trl-tokens").glob("*.parquet")
    (row,) = pq.read_table(path).to_pylist()
    ids, weights = row["input_ids"], row["loss_weights"]
    moved = [0.0, *weights[:-1]] if shift == 1 else [*weights[1:], 0.0]
    labels = [i if w else -100 for i, w in zip(ids, moved, strict=True)]
    pq.write_table(pa.Table.from_pylist([{"input_ids": ids, "labels": labels}]), tmp_path / "moved.parquet")
    assert code in codes(lint([tmp_path / "moved.parquet"], Options(tokens=tokens)))


def test_a_template_that_drops_thoughts_or_refuses_is_told(tmp_path: Path, tokenizer: Path) -> None:
    path = tmp_path / "a.jsonl"
    thinking = trl()
    thinking["completion"][0]["reasoning_content"] = "Hm."
    path.write_text(json.dumps(thinking) + "\n")
    template = (tokenizer / "chat_template.jinja").read_text()
    other = build(tmp_path / "other", ["a"])
    start = template.index("{%- if message.reasoning_content %}")
    end = template.index("{% endif %}", start) + len("{% endif %}")
    (other / "chat_template.jinja").write_text(template[:start] + template[end:])
    report = lint([path], Options(tokens=Tokens.of(other)))
    assert codes(report) == {"T06"} and report.places["T06"][0].place == "completion[0].reasoning_content"
    (other / "chat_template.jinja").write_text("{{ raise_exception('no tools') }}")
    assert codes(lint([path], Options(tokens=Tokens.of(other)))) == {"T05"}


# -- sets, files --------------------------------------------------------------------------------


def test_repeats_and_splits_are_seen_inside_a_folder(tmp_path: Path) -> None:
    other = trl(sample_id="s_2", repo="acme/pager")
    other["completion"][-1]["content"] = "Finished."
    loud = trl(sample_id="s_3")
    loud["completion"][-1]["content"] = "DONE. "
    assert codes(looked_at(tmp_path, trl(), trl())) == {"D01"}
    assert codes(looked_at(tmp_path, trl(), loud)) == {"D02"}
    assert codes(looked_at(tmp_path, trl(), {**other, "sample_id": "s_1"})) == {"D03"}
    held = {**trl(repo="acme/pager"), "sample_id": "s_4"}
    (tmp_path / "set-test.jsonl").write_text(json.dumps(held) + "\n")
    (tmp_path / "set-train.jsonl").write_text(json.dumps(other) + "\n")
    report = lint([tmp_path])
    assert codes(report) == {"D04"} and "repository acme/pager: test, train" in report.places["D04"][0].detail


def test_sides_with_different_prompts_and_rows_without_turns(tmp_path: Path) -> None:
    swift = {
        "messages": [TASK, said("Good.", loss=True)],
        "rejected_messages": [{**TASK, "content": "?"}, said("Bad.", loss=True)],
    }
    assert "P02" in codes(looked_at(tmp_path, swift))
    assert "R11" in codes(looked_at(tmp_path, {"messages": [], "tools": []}))


def test_what_other_tools_write_is_read(tmp_path: Path) -> None:
    """Pairs with the prompt inside, another reply in place of the last, conversations as JSON text, masks with gaps."""
    inside = {"chosen": [TASK, said("Good.")], "rejected": [TASK, said("Bad.")]}
    same = {"messages": [TASK, said("Good.")], "rejected_response": "Good."}
    text = {"prompt": json.dumps([TASK]), "completion": json.dumps([said("Done.")]), "tools": "[]"}
    gap = axolotl()
    gap["messages"][2]["train_detail"] = [{"begin_offset": 1, "end_offset": 2, "train": True}]
    assert looked_at(tmp_path, inside, gap).counts == {"F06": 1}
    assert looked_at(tmp_path, text).counts == {}
    assert codes(looked_at(tmp_path, same)) == {"P01"}
    weighed = [
        {**TASK, "content": [{"type": "text", "value": "Fix."}], "loss_weight": 0.0},
        {"role": "assistant", "content": [{"type": "text", "value": "ok"}], "loss_weight": 1.0},
    ]
    assert looked_at(tmp_path, {"messages": weighed}).counts == {}


def test_a_split_is_seen_across_folders(tmp_path: Path) -> None:
    for side in ("train", "test"):
        (tmp_path / side).mkdir()
        row = trl(repo="acme/pager", sample_id=side)
        row["prompt"] = [{"role": "user", "content": f"Fix {side}"}]
        (tmp_path / side / "rows.jsonl").write_text(json.dumps(row) + "\n")
    assert codes(lint([tmp_path])) == {"D04"}


def test_a_manifest_is_held_against_its_files(tmp_path: Path) -> None:
    export(SAMPLES, tmp_path / "r000", exporters=get_exporters(["trl"]))
    folder = tmp_path / "r000/trl"
    assert lint([folder]).counts == {}
    (folder / "sft-train-00000.jsonl").write_bytes((folder / "sft-train-00000.jsonl").read_bytes() + b"{}\n")
    (folder / "pivot-train-00000.jsonl").unlink()
    assert {"F03", "F04", "F05", "F02"} <= codes(lint([folder]))


@pytest.mark.parametrize("kind", [".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".parquet"])
def test_every_kind_of_file_is_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"set{kind}"
    rows = [openai(), {**openai(), "messages": [TASK, said("Other.", weight=1)]}]
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    if kind == ".json":
        path.write_bytes(json.dumps(rows).encode())
    elif kind == ".parquet":
        pq.write_table(pa.Table.from_pylist([tokens(), {**tokens(), "input_ids": [1, 2, 7, 8]}]), path)
    else:
        packed = {".jsonl": bytes, ".jsonl.gz": gzip.compress, ".jsonl.zst": zstandard.compress}
        path.write_bytes(packed[kind](text))
    report = lint([path])
    assert (report.rows, report.counts) == (2, {})


def test_what_cannot_be_read_is_a_finding_and_the_rest_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    deep = "[" * 3_000
    path.write_bytes(json.dumps(trl()).encode() + b"\n{oops\n[1]\n" + deep.encode() + b'\n{"messages": [' + b"\n\n")
    report = lint([path])
    assert report.rows == 1 and report.counts == {"F01": 4}
    path.write_text(json.dumps(trl()).replace("Done.", "\\ud800") + "\n")
    assert codes(lint([path])) == {"T03"}
    path.write_text(json.dumps({**tokens(), "loss_weights": [0.0, 0.0, float("nan"), 1.0]}) + "\n")
    assert codes(lint([path])) == {"M06"}
    broken = pa.Table.from_arrays([pa.array([b"\xff\xfe"])], names=["prompt"])
    pq.write_table(broken.cast(pa.schema([("prompt", pa.string())]), safe=False), tmp_path / "odd.parquet")
    assert codes(lint([tmp_path / "odd.parquet"])) & {"F01", "F02"}
    (tmp_path / "b.jsonl.zst").write_bytes(b"no zstd")
    assert "F01" in codes(lint([tmp_path / "b.jsonl.zst"]))
    (tmp_path / "mixed.jsonl").write_text(json.dumps(trl()) + "\n" + json.dumps(sharegpt()) + "\n")
    assert codes(lint([tmp_path / "mixed.jsonl"])) == {"F06"}


@pytest.mark.parametrize("name", sorted(CLEAN))
def test_rows_of_any_damage_never_stop_it(name: str, tmp_path: Path) -> None:
    """Values of any kind in any place: findings, and no exception."""
    rng = random.Random(name)
    odd = [None, 0, -1.5, True, "", "x", [], [None], {}, {"a": None}, float("inf"), "\x1b[31m<b>", ["a", 1]]

    def damage(value: Any, depth: int = 0) -> Any:
        if rng.random() < 0.12 and depth:
            return copy.deepcopy(rng.choice(odd))
        if isinstance(value, dict):
            return {key: damage(inner, depth + 1) for key, inner in value.items() if rng.random() > 0.03}
        return [damage(inner, depth + 1) for inner in value] if isinstance(value, list) else value

    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(damage(CLEAN[name]())) + "\n" for _ in range(400)))
    report = lint([path])
    assert report.files == 1 and report.counts


# -- the command --------------------------------------------------------------------------------


def run(*arguments: object) -> Any:
    return CliRunner().invoke(cli.app, ["lint", *[str(a) for a in arguments]], env={"COLUMNS": "120"})


def test_the_exit_code_is_for_programs(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(trl()) + "\n")
    clean = run(path, "--json", tmp_path / "report.json")
    assert clean.exit_code == 0 and "0 errors, 0 warnings" in clean.stdout
    assert json.loads((tmp_path / "report.json").read_text())["rows"] == 1
    bad = trl()
    bad["completion"].pop()
    path.write_text(json.dumps(bad) + "\n")
    assert run(path).exit_code == 1 and "R05" in run(path).stdout
    noted = trl()
    noted["completion"][0]["content"] = "[output truncated: 3 lines left out]"
    path.write_text(json.dumps(noted) + "\n")
    assert (run(path).exit_code, run(path, "--strict").exit_code) == (0, 1)
    assert run(tmp_path / "gone").exit_code == 2
    assert run(tmp_path, "--tokenizer", tmp_path).exit_code == 2


def test_a_row_is_shown_with_its_mask_and_cannot_steer_terminal_or_page(tmp_path: Path) -> None:
    row = trl()
    row["completion"][0]["content"] = "\x1b[2J<script>alert(1)</script> [red]x[/red]"
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row) + "\n")
    shown = run(path, "--preview", 1)
    assert shown.exit_code == 0 and "\x1b[2J" not in shown.stdout and "[red]x[/red]" in shown.stdout
    assert any(line.strip().startswith("T") and "Done." in line for line in shown.stdout.splitlines())
    assert any(line.strip().startswith(".") and "Fix a.py" in line for line in shown.stdout.splitlines())
    assert run(path, "--preview", 1, "--html", tmp_path / "row.html").exit_code == 0
    page = (tmp_path / "row.html").read_text()
    assert "<script>" not in page and "&lt;script&gt;" in page and "\x1b" not in page
    assert run(path, "--preview", 2).exit_code == 2
    assert run(path, "--html", tmp_path / "row.html").exit_code == 2


@pytest.mark.parametrize("name", sorted(CLEAN))
def test_every_shape_can_be_shown(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(CLEAN[name]()) + "\n")
    assert run(path, "--preview", 1).exit_code == 0


def test_the_page_of_codes_is_that_of_the_registry() -> None:
    page = (Path(__file__).parents[2] / "docs" / "lint.md").read_text()
    rows = [line.split("|")[1:5] for line in page.splitlines() if line.startswith("| `")]
    told = {cells[0].strip(" `"): tuple(cell.strip() for cell in cells[1:]) for cells in rows}
    assert told == {name: tuple(code) for name, code in CODES.items()}
