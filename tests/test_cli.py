"""The command line, as a user meets it: readable output, and errors of one line that say what to do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from handoff import cli
from handoff.doctor import examine
from handoff.lake import Lake
from handoff.report.tables import VIEWS
from tests.states.histories import Made, make

COMMANDS = (
    "demo",
    "dev",
    "ingest",
    "inspect",
    "states",
    "view",
    "takeover",
    "worst-point",
    "branch",
    "tiers",
    "disturb",
    "export",
    "lint",
    "audit",
    "report",
    "doctor",
)


def row(number: int = 1, **fields: Any) -> dict[str, Any]:
    """A chat row of three steps: read, edit, run the tests."""
    commands = ("cat pager.py", "sed -i 's/one/two/' pager.py", "python -m pytest")
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Fix the pager."}]
    for n, command in enumerate(commands):
        call = {"id": f"c{n}", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}
        messages.append({"role": "assistant", "content": f"Step {n}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": "one"})
    return {"instance_id": f"acme__pager-{number}", "messages": messages, **fields}


def write(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(a) for a in arguments], env={"COLUMNS": "100"})


def refused(*arguments: object) -> str:
    """The one line of an error; exit code 2, and no traceback."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error ")]
    assert "Traceback" not in result.output
    return line


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A project with one ingested shard."""
    file = write(tmp_path / "runs" / "a.jsonl", row(1), row(1), row(2), 17)
    result = run("ingest", file, "--data", tmp_path / "data")
    assert result.exit_code == 0, result.output
    return tmp_path / "data"


def points(data: Path) -> list[dict[str, Any]]:
    return Lake(data / "lake").rows("injected_handoffs")


# -- help -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: handoff {command}" in " ".join(result.output.split())


def test_every_command_is_tested_here() -> None:
    assert sorted(COMMANDS) == sorted(c.name or c.callback.__name__ for c in cli.app.registered_commands if c.callback)


# -- ingest -----------------------------------------------------------------------------------------------------


def test_ingest_says_what_was_read_and_what_is_next(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", row(1), row(1), row(2), 17)
    result = run("ingest", file, "--data", tmp_path / "data")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "shard a: 1 file, 4 records: 2 trajectories with 6 steps, 1 repeated, 1 quarantined" in said
    assert "unverifiable 2 no mirror of 'acme/pager'" in said
    assert "--repository acme/pager=PATH" in said
    assert "first_meaningful_modification 2" in said
    problem = Lake(tmp_path / "data" / "lake").rows("quarantine")[0]["problem"]
    # Long lines are folded wherever the path makes them long, so blanks say nothing.
    assert "".join(f"a.jsonl, record 4, $: {problem}".split()) in "".join(said.split())
    assert max(len(line) for line in result.stdout.splitlines() if "See one" not in line) <= 100
    assert f"handoff view {points(tmp_path / 'data')[0]['point_id']}" in result.stdout


def test_a_shard_is_not_replaced_by_other_files_of_the_same_name(tmp_path: Path) -> None:
    data = tmp_path / "data"
    first, other = (
        write(tmp_path / "a" / "runs" / "x.jsonl", row(1)),
        write(tmp_path / "b" / "runs" / "x.jsonl", row(2)),
    )
    assert run("ingest", first.parent, "--data", data).exit_code == 0
    said = refused("ingest", other.parent, "--data", data)
    assert f"'runs' is read from {first.parent}" in said and "--shard NAME" in said
    assert [r["file"] for r in Lake(data / "lake").rows("raw_trajectories")] == [str(first)]
    assert run("ingest", other.parent, "--data", data, "--shard", "more").exit_code == 0
    assert run("ingest", first.parent, other.parent, "--data", data).exit_code == 0
    assert run("ingest", other.parent, "--data", data, "--shard", "runs").exit_code == 0
    assert {r["file"] for r in Lake(data / "lake").rows("raw_trajectories", shard="runs")} == {str(other)}


def test_a_second_ingest_changes_nothing(data: Path) -> None:
    before = {p: p.read_bytes() for p in sorted(data.rglob("*")) if p.is_file()}
    assert run("ingest", data.parent / "runs" / "a.jsonl", "--data", data).exit_code == 0
    assert {p: p.read_bytes() for p in sorted(data.rglob("*")) if p.is_file()} == before


def test_files_of_the_data_folder_are_named_from_it_and_move_with_it(tmp_path: Path) -> None:
    """The same inbox in two places gives the same bytes; audit finds the file by any of its names."""
    found = []
    for place in ("here", "there/deeper"):
        data = tmp_path / place
        file = write(data / "inbox" / "a.jsonl", row(1), 17)
        assert run("ingest", file, "--shard", "a", "--data", data).exit_code == 0
        lake = Lake(data / "lake")
        assert [r["file"] for r in lake.rows("raw_trajectories")] == ["inbox/a.jsonl"]
        assert [r["file"] for r in lake.rows("quarantine")] == ["inbox/a.jsonl"]
        assert [r["path"] for r in lake.rows("sources")] == ["inbox/a.jsonl"]
        found.append({p.relative_to(data): p.read_bytes() for p in sorted(data.rglob("*")) if p.is_file()})
        for name in (file, "inbox/a.jsonl", "a.jsonl"):
            assert "raw_trajectories      1" in run("audit", "--source", name, "--data", data).stdout
    assert found[0] == found[1]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A branch of three commits, beside the main one."""
    commits = [
        Made({b"pager.py": ("100644", b"%d\n" % number)}, message=b"Step %d\n\nwhy" % number) for number in range(4)
    ]
    make(tmp_path / "pager", commits, {"main": 0, "fix/last.page": 3}, bare=False)
    return tmp_path / "pager"


def test_a_branch_is_ingested_and_looked_at(tmp_path: Path, repository: Path) -> None:
    """What was taken is said; the notes of a point are the commit messages so far."""
    data = tmp_path / "data"
    (tmp_path / "task.md").write_text("Page the last items.\n")
    arguments = ("ingest", repository, "--branch", "fix/last.page", "--task", tmp_path / "task.md", "--data", data)
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "fix/last.page: 3 commits beyond" in said
    assert "task from the user: Page the last items." in said
    assert "shard pager-fix-last-page: 1 file, 1 record: 1 trajectory with 3 steps" in said
    assert "states after each step: verified 4" in said
    assert "natural 2" in said
    first = points(data)[0]["point_id"]
    shown = run("view", first, "--view", "recorded", "--data", data).stdout
    assert "Step 1" in shown
    assert "Step 2" not in shown
    before = {p: p.read_bytes() for p in sorted(data.rglob("*")) if p.is_file()}
    assert run(*arguments).exit_code == 0
    assert {p: p.read_bytes() for p in sorted(data.rglob("*")) if p.is_file()} == before


def test_a_branch_can_be_inspected_without_writing_anything(repository: Path) -> None:
    result = run("inspect", repository, "--branch", "fix/last.page", "--base", "main")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "author human" in said
    assert "edit pager.py" in said
    assert said.count("natural") == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ingest", "{repo}", "{repo}", "--branch", "main"), "one repository at a time"),
        (("ingest", "{repo}", "--branch", "none"), "no branch 'none'; there are fix/last.page, main"),
        (("ingest", "{repo}", "--branch", "main"), "say with --base"),
        (("ingest", "{repo}/pager.py", "--branch", "main"), "no folder"),
        (("ingest", "{repo}", "--branch", "fix/last.page", "--shard", "../up"), "cannot name a shard"),
        (("inspect", "{repo}/..", "--branch", "main"), "name the folder of a git repository"),
    ],
)
def test_a_branch_that_cannot_be_read_is_one_line(
    tmp_path: Path, repository: Path, arguments: Sequence[str], words: str
) -> None:
    data = ("--data", tmp_path / "data") if arguments[0] == "ingest" else ()
    assert words in refused(*(argument.format(repo=repository) for argument in arguments), *data)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("{tmp}/nothing",), "nothing: No such file"),
        (("{tmp}/empty",), "no files in it"),
        (("{tmp}/docs",), "no trajectory in it"),
        (("{tmp}/a.jsonl", "--repository", "acme"), "write NAME=PATH or NAME=URL"),
        (("{tmp}/a.jsonl", "--repository", "acme/pager=/nowhere"), "/nowhere is no folder"),
        (("{tmp}/a.jsonl", "--shard", "../up"), "cannot name a shard"),
        (("{tmp}/a.jsonl", "--data", "{tmp}/a.jsonl"), "Not a directory"),
    ],
)
def test_what_cannot_be_ingested_is_one_line(tmp_path: Path, arguments: Sequence[str], words: str) -> None:
    write(tmp_path / "a.jsonl", row())
    (tmp_path / "empty").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text("# Read me\n")
    given = [a.replace("{tmp}", str(tmp_path)) for a in arguments]
    assert words in refused("ingest", "--data", tmp_path / "data", *given)


# -- looking ----------------------------------------------------------------------------------------------------


def test_one_name_has_one_repository(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", row())
    places = [tmp_path / "one", tmp_path / "two"]
    for place in places:
        place.mkdir()
    options = [word for place in places for word in ("--repository", f"acme/pager={place}")]
    assert "given twice" in refused("ingest", file, *options, "--data", tmp_path / "data")
    same = ["--repository", f"acme/pager={places[0]}"] * 2
    assert run("ingest", file, *same, "--data", tmp_path / "data").exit_code == 0


def test_help_keeps_what_stands_in_brackets() -> None:
    assert "[successors.NAME]" in " ".join(run("takeover", "--help").output.split())


def test_inspect_shows_format_steps_keys_and_points(tmp_path: Path) -> None:
    result = run("inspect", write(tmp_path / "a.jsonl", row(1), row(2, exit_status="exit_cost")), "--record", 2)
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert "format chat" in said and "repository acme/pager" in said
    assert "exit status exit_cost" in said and "ended cost_limit" in said
    assert "read pager.py" in said and "edit pager.py" in said
    assert "first_meaningful_modification" in said


def test_what_cannot_be_inspected_is_one_line(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", row(1), 17)
    assert "no such file" in refused("inspect", tmp_path / "nothing")
    assert "a folder" in refused("inspect", tmp_path)
    assert "holds 2 records; there is no record 7" in refused("inspect", file, "--record", 7)
    assert "a.jsonl, record 2, $" in refused("inspect", file, "--record", 2)


def test_inspect_counts_records_as_the_tables_do(tmp_path: Path) -> None:
    """Blank lines are counted, so that the record named in quarantine is the record that is looked at."""
    file = tmp_path / "a.jsonl"
    file.write_text(f"{json.dumps(row(1))}\n\n17\n{json.dumps(row(4))}\n")
    assert run("ingest", file, "--data", tmp_path / "data").exit_code == 0
    (bad,) = Lake(tmp_path / "data" / "lake").rows("quarantine")
    assert f"record {bad['record']}, $" in refused("inspect", file, "--record", bad["record"])
    assert "acme__pager-4" in run("inspect", file, "--record", 4).stdout
    assert "holds 3 records, the last in line 4; there is no record 2" in refused("inspect", file, "--record", 2)


def test_inspect_says_what_of_a_record_is_not_in_its_runs(tmp_path: Path) -> None:
    """Fields without a home, the same as ingest counts them; lines that cannot be read; how many runs share it."""
    said = run("inspect", write(tmp_path / "a.jsonl", row(1, colour="blue", **{"a\nb": 1}))).stdout
    assert "fields without a home: $.a␊b 1, $.colour 1" in said
    lines = [
        {
            "type": "user",
            "sessionId": "s",
            "uuid": "1",
            "parentUuid": None,
            "message": {"role": "user", "content": "x"},
        },
        {
            "type": "assistant",
            "sessionId": "s",
            "uuid": "2",
            "parentUuid": "1",
            "message": {"role": "assistant", "id": "m", "content": [{"type": "text", "text": "I look."}]},
        },
    ]
    file = write(tmp_path / "session.jsonl", *lines)
    file.write_text(file.read_text() + '{"type": "assistant", "sess')
    said = run("inspect", file).stdout
    assert "left out: " in said and "record 3" in said and "Not valid JSON" in said


@pytest.mark.parametrize("view", (*VIEWS, "drop", "window:1", "diet", "compact_pre"))
def test_view_prints_what_a_successor_gets(data: Path, view: str) -> None:
    result = run("view", points(data)[0]["point_id"], "--view", view, "--data", data)
    assert result.exit_code == 0
    assert "Fix the pager." in result.stdout


def test_a_point_must_be_known_and_one(data: Path) -> None:
    assert "no handoff point begins with 'zz'" in refused("view", "zz", "--data", data)
    assert "give more of the id" in refused("view", "p_", "--data", data)
    assert "views are repo, trace, summary, structured" in refused("view", "p_", "--view", "all", "--data", data)
    first = points(data)[0]["point_id"]
    run_id = points(data)[0]["trajectory_id"]
    assert f"the points of that run are {first} (step " in refused("view", run_id, "--data", data)
    assert "no point in" in refused("view", "p_1", "--data", data / "elsewhere")
    assert "--repository" in refused("view", first, "--view", "diff", "--data", data)


def test_text_of_a_run_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """Escape sequences, carriage returns and markup come out as text, from view, inspect, ingest and errors."""
    bad = "\x1b[31m\x1b]0;owned\x07 [bold red]x[/bold red] \u202e <script>alert(1)</script>"
    hostile = row(1)
    hostile["messages"][0]["content"] = bad
    hostile["messages"][1]["tool_calls"][0]["function"]["arguments"] = json.dumps({"command": f"cat 'a{bad}'"})
    file = write(tmp_path / "x\x1b[31m.jsonl", hostile, 17)
    said = run("ingest", file, "--data", tmp_path / "data").output
    said += run("inspect", file).output
    for point in points(tmp_path / "data"):
        for view in VIEWS:
            said += run("view", point["point_id"], "--view", view, "--data", tmp_path / "data").output
    said += refused("inspect", file, "--record", 2)
    said += run("audit", "--source", file, "--data", tmp_path / "data").output
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
    assert "[bold red]x[/bold red]" in said
    assert "<script>" in said


def test_recordings_become_training_files_and_rows_lead_back(tmp_path: Path) -> None:
    """One command from a folder of rows to a set that says what it holds; a second one does nothing new."""
    rows = write(tmp_path / "runs" / "a.jsonl", *(row(number, resolved=True) for number in range(6)))
    data = tmp_path / "data"
    result = run("export", rows.parent, "--to", "trl", "--to", "openai", "--data", data)
    assert result.exit_code == 0, result.output
    files = sorted(path.relative_to(data).as_posix() for path in data.glob("exports/r000/*/*.jsonl"))
    assert any(name.startswith("exports/r000/trl/sft-recorded-") for name in files), files
    assert "selected kept" in " ".join(result.stdout.split())
    before = {path: path.stat().st_mtime_ns for path in data.glob("exports/**/*") if path.is_file()}
    assert run("export", "--to", "trl", "--data", data).exit_code == 0
    assert before == {path: path.stat().st_mtime_ns for path in before}
    line = json.loads(next(data.glob("exports/r000/trl/sft-*")).read_text().splitlines()[0])
    traced = run("audit", line["sample_id"], "--data", data)
    assert traced.exit_code == 0 and "recorded_samples" in traced.stdout
    assert "raw_trajectories" in traced.stdout and "sources" in traced.stdout
    out = tmp_path / "elsewhere"
    assert run("export", "--to", "axolotl", "--out", out, "--data", data).exit_code == 0
    assert (out / "axolotl" / "MANIFEST.json").exists()
    listed = {r["format"] for r in Lake(data / "lake").rows("exports")}
    assert listed == {"trl", "openai", "axolotl"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--to", "trll"], "no export format 'trll'"),
        (["--to", "trl-tokens"], "needs a tokenizer"),
        (["--to", "trl", "--loss", "all"], "Invalid enum value 'all'"),
        (["--to", "trl", "--round", "r007"], "no samples of r007"),
        (["--to", "skyrl", "--tokenizer", "gone"], "is no folder"),
        (["--to", "trl"], "there is no sample"),
    ],
)
def test_what_cannot_be_exported_is_one_line(data: Path, arguments: Sequence[str], words: str) -> None:
    assert words in refused("export", *arguments, "--data", data)


def test_files_without_a_run_say_what_they_lack(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("no json\n")
    (tmp_path / "empty").mkdir()
    result = run("export", tmp_path / "bad.jsonl", "--to", "trl", "--data", tmp_path / "data")
    assert result.exit_code == 2 and "record 1" in result.stdout and "no trajectory in it" in result.stderr
    assert "no files in it" in refused("export", tmp_path / "empty", "--data", tmp_path / "data")


def test_audit_and_report_say_what_is_missing(data: Path) -> None:
    assert "a sample id, or --source FILE" in refused("audit", "--data", data)
    assert "in no curated set" in refused("audit", "s_1", "--data", data)
    assert "no trajectory in the lake comes from" in refused("audit", "--source", "b.jsonl", "--data", data)
    assert "no round is reported" in refused("report", "--data", data)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wrokers = 3", "unknown field `wrokers`; the settings are seed, "),
        ("workers = 0", "$.workers"),
        ('sandbox = "none"', "$.sandbox"),
        ("workers = ", "Invalid value"),
        ("[kata]\ntest = 0", "$.kata.test"),
        ("[successors.m]\nmodel = 'm'", "[successors.m]: Object missing required field `base_url`"),
        ("[successors.m]\nkind = 'comand'", "[successors.m]: Invalid value 'comand'"),
        ("[studies.mine]\nkind = 'tax'\nlo = 'A'", "[studies.mine]: Object contains unknown field `lo`"),
        ("[tests.'a/b']\ncomand = 'x'", "[tests.a/b]: Object contains unknown field `comand`"),
    ],
)
def test_a_wrong_setting_names_file_and_field(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "handoff.toml").write_text(text)
    line = refused("report", "--data", tmp_path)
    assert words in line and "handoff.toml" in line


def test_doctor_looks_at_the_rules_of_tests(tmp_path: Path, bubblewrap: None) -> None:
    """What a rule names is there, or it is said what to do."""
    rules = f'[tests."acme/*"]\nprograms = ["{tmp_path}"]\n[tests."acme/gone"]\nprograms = ["/no/such"]\n'
    (tmp_path / "handoff.toml").write_text(rules + '[tests."acme/image"]\nimage = "acme/{id}"\n')
    found = {finding.what: finding for finding in examine(tmp_path, {}) if finding.what.startswith("tests ")}
    assert {what: finding.state for what, finding in found.items()} == {
        "tests acme/*": "ok",
        "tests acme/gone": "limited",
        "tests acme/image": "limited",
    }
    assert "no folder /no/such" in found["tests acme/gone"].detail
    assert "docker" in found["tests acme/image"].detail


def test_doctor_names_what_this_machine_can_do(tmp_path: Path) -> None:
    result = run("doctor", "--data", tmp_path)
    assert result.exit_code == 0
    assert all(what in result.stdout for what in ("python", "git", "bubblewrap", "overlay", "docker", "tokenizer"))
