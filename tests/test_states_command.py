"""``handoff states`` and ``handoff report --corpus``: what was rebuilt of a run and of a corpus, as a user sees it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from handoff import cli
from handoff.lake import Lake
from handoff.sandbox import available
from tests.states.histories import Made, make

OLD = "def page(items, size):\n    return items[0:size]\n"
NEW = "def page(items, size):\n    return items[:size]\n"
PATCH = (
    "diff --git a/pager.py b/pager.py\n--- a/pager.py\n+++ b/pager.py\n@@ -1,2 +1,2 @@\n def page(items, size):\n"
    "-    return items[0:size]\n+    return items[:size]\n"
)
STEPS = (
    ("cat pager.py", OLD),
    ("sed -i 's/0:size/:size/' pager.py && touch /tmp/scratch.py", ""),
    ("pip install left==1.0", "Successfully installed left-1.0\n"),
    ("cat pager.py", NEW),
)


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, str]:
    """A bare repository with one commit, and that commit."""
    return made(tmp_path / "acme")


def made(folder: Path) -> tuple[Path, str]:
    (commit,) = make(folder, [Made({b"pager.py": ("100644", OLD.encode())})], {"main": 0})
    return folder, commit


def recording(path: Path, commit: str | None, steps: Any = STEPS, **fields: Any) -> Path:
    """A mini-SWE-agent file."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "s"}, {"role": "user", "content": "Fix the pager."}]
    for command, output in steps:
        messages.append({"role": "assistant", "content": f"THOUGHT: go\n\n```bash\n{command}\n```"})
        messages.append({"role": "user", "content": f"<returncode>0</returncode>\n<output>\n{output}</output>"})
    record = {
        "info": {"submission": PATCH, "exit_status": "Submitted"},
        "messages": messages,
        "trajectory_format": "mini-swe-agent-1",
        "instance_id": "acme__pager-1",
        **({"repo": "acme/pager", "base_commit": commit} if commit else {}),
        **fields,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))
    return path


def run(*arguments: object, environment: Mapping[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli.app, [str(a) for a in arguments], env={"COLUMNS": "140", **(environment or {})})


def shown(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error ")]
    assert "Traceback" not in result.output
    return line


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one run that has its repository, and one that has none."""
    tmp_path = tmp_path_factory.mktemp("project")
    folder, commit = made(tmp_path / "acme")
    recording(tmp_path / "runs" / "a.traj.json", commit)
    recording(tmp_path / "runs" / "b.traj.json", None, steps=STEPS[:2], instance_id="b")
    shown("ingest", tmp_path / "runs", "--repository", f"acme__pager={folder}", "--repository", f"acme/pager={folder}",
          "--data", tmp_path / "data")  # fmt: skip
    return tmp_path / "data"


def id_of(data: Path, status: str) -> str:
    rows = {row["status"]: row for row in Lake(data / "lake").rows("state_verdicts")}
    return str(rows[status]["trajectory_id"])


def test_an_instance_tells_of_a_file_what_it_does_not_say_itself(tmp_path: Path) -> None:
    """Its repository and its commit; what the recording says itself is believed before that."""
    folder, commit = made(tmp_path / "acme")
    file = recording(tmp_path / "run.traj.json", None)
    instances = tmp_path / "instances.jsonl"
    instances.write_text(json.dumps({"instance_id": "acme__pager-1", "repo": "acme/pager", "base_commit": commit}))
    options = ("--instances", instances, "--repository", f"acme/pager={folder}", "--data", tmp_path / "data")
    told = json.loads(shown("states", file, "--json", *options))
    assert told["steps"][-1]["status"] == "verified"
    assert "instances.jsonl" in json.dumps(told)
    assert "no such file" in refused("states", file, "--instances", tmp_path / "none.jsonl", *options[2:])
    assert "--instances" in refused("states", "t_1", "--instances", instances, "--data", tmp_path / "data")


def test_every_step_is_told_with_its_tree_and_what_it_changed(data: Path) -> None:
    id_ = id_of(data, "verified")
    text = shown("states", id_[:8], "--data", data)
    assert id_ in text
    assert "acme" in text
    lines = [line for line in text.splitlines() if "pager.py" in line]
    assert any(line.split()[0] == "2" for line in lines)
    listed = re.findall(r"^ *(\d+) +(?:verified|partial|divergent|unverifiable) +[0-9a-f]{10}", text, re.M)
    assert listed == ["0", "1", "2", "3", "4"]


def test_a_step_is_told_by_its_diff_and_by_what_lies_outside(data: Path) -> None:
    id_ = id_of(data, "verified")
    second = shown("states", id_, "--step", 2, "--data", data)
    assert "-    return items[0:size]" in second
    assert "/tmp/scratch.py" in second
    assert "left" not in second  # installed a step later
    assert "pip left: 1.0" in shown("states", id_, "--step", 3, "--data", data)
    assert "no file changed" in shown("states", id_, "--step", 3, "--data", data)
    assert shown("states", id_, "--diff", "--data", data).count("diff --git") == 1
    assert "steps 0 to 4" in refused("states", id_, "--step", 5, "--data", data)


def test_the_same_as_json(data: Path) -> None:
    id_ = id_of(data, "verified")
    told = json.loads(shown("states", id_, "--json", "--data", data))
    assert told["trajectory_id"] == id_
    assert [step["files"] for step in told["steps"]] == [[], [], ["pager.py"], [], []]
    assert len({step["tree"] for step in told["steps"]}) == 2
    (step,) = json.loads(shown("states", id_, "--json", "--step", 2, "--data", data))["steps"]
    assert step["diff"].startswith("diff --git a/pager.py")
    assert [item["name"] for item in step["outside"] if item["kind"] == "file"] == ["/tmp/scratch.py"]
    assert "process" in step["unknown_outside"]


def test_a_file_is_replayed_and_nothing_is_kept(tmp_path: Path, repository: tuple[Path, str]) -> None:
    folder, commit = repository
    file = recording(tmp_path / "a.traj.json", commit)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    text = shown("states", f"{file}:1", "--repository", f"acme/pager={folder}", "--data", tmp_path / "none")
    assert "pager.py" in text
    assert not (tmp_path / "none").exists()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_what_the_repository_does_not_hold_is_said(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"1" * 64 + b"\nsize 12345\n"
    changes = {
        b".gitattributes": ("100644", b"big filter=lfs\n"),
        b"big": ("100644", pointer),
        b"lib": ("160000", b"a" * 40),
        b"pager.py": ("100644", OLD.encode()),
    }
    (commit,) = make(tmp_path / "acme", [Made(changes)], {"main": 0})
    file = recording(tmp_path / "a.traj.json", commit)
    text = shown("states", file, "--repository", f"acme/pager={tmp_path / 'acme'}", "--data", tmp_path / "data")
    assert "not held" in text and "1 submodule and 1 LFS pointer" in text


def test_a_run_without_a_repository_is_still_told(data: Path) -> None:
    text = shown("states", id_of(data, "unverifiable"), "--data", data)
    assert "unverifiable" in text
    assert "its repository is not at hand" in shown("states", id_of(data, "unverifiable"), "--step", 1, "--data", data)


def test_what_cannot_be_shown_is_one_line_with_a_remedy(data: Path, tmp_path: Path) -> None:
    id_ = id_of(data, "verified")
    assert id_ in refused("states", id_[:-1] + "_", "--data", data)
    assert "begins 2 ids" in refused("states", "t_", "--data", data)
    assert "no such file" in refused("states", "gone.json", "--data", data)
    assert "ingest some first" in refused("states", "t_1", "--data", tmp_path / "empty")
    file = recording(tmp_path / "c.traj.json", None, instance_id="c")
    assert "--repository NAME=PATH" in refused("states", file, "--data", data)
    named = recording(tmp_path / "d.traj.json", "0" * 40, repo="some/where")
    assert "--repository" in refused("states", named, "--data", tmp_path / "empty")
    assert refused("states", named, "--data", tmp_path / "empty").count("--repository") == 1  # one remedy, said once
    assert "in the data folder" not in refused("states", named, "--data", tmp_path / "empty")
    assert "holds 1 record; " in refused("states", f"{file}:2", "--data", data)


@pytest.mark.parametrize("given", [("--repository", "a/b={}"), ("--base", "abc"), ("--part", "2"), ("--rerun",)])
def test_what_is_said_of_a_file_is_not_ignored_for_a_stored_run(
    data: Path, tmp_path: Path, given: tuple[str, ...]
) -> None:
    id_ = id_of(data, "verified")
    said = refused("states", id_, *(word.format(tmp_path) for word in given), "--data", data)
    assert given[0] in said and "ingest its file again" in said


def test_text_of_a_repository_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """File names, contents and reasons are shown with their control characters as symbols."""
    folder = tmp_path / "acme"
    (commit,) = make(folder, [Made({b"a\x1b[31m.py": ("100644", b"x\x1b]0;evil\x07\n")})], {"main": 0})
    steps = ((r"printf 'y\033[2J\n' > b.py", ""), ("rm -f a*.py", ""))
    file = recording(tmp_path / "a.traj.json", commit, steps=steps)
    for more in ((), ("--diff",), ("--step", 2), ("--json", "--diff")):
        text = shown("states", file, "--repository", f"acme/pager={folder}", "--data", tmp_path / "none", *more)
        assert "\x1b" not in text
        assert "\x07" not in text


def test_the_corpus_report_is_printed_and_its_page_is_written(data: Path) -> None:
    text = shown("report", "--corpus", "--data", data)
    assert "2 recorded runs" in text
    assert str(data / "reports" / "corpus" / "index.html") in text.replace("\n", "")
    page = (data / "reports" / "corpus" / "index.html").read_text()
    assert "mini_swe_agent" in page
    rows = Lake(data / "lake").rows("corpus_report")
    assert sum(row["trajectories"] for row in rows) == 2
    before = (data / "lake" / "corpus_report" / "part.parquet").read_bytes()
    shown("report", "--corpus", "--data", data)
    assert (data / "lake" / "corpus_report" / "part.parquet").read_bytes() == before


def test_a_corpus_without_verdicts_says_what_to_do(tmp_path: Path) -> None:
    assert "handoff ingest" in refused("report", "--corpus", "--data", tmp_path)


def test_inspect_tells_what_is_known_outside(tmp_path: Path) -> None:
    text = shown("inspect", recording(tmp_path / "a.traj.json", None))
    assert "pip left: 1.0" in text
    assert "/tmp/scratch.py" in text
    assert "nothing is known of:" in text


FIX = """cat > fix.py <<'EOF'
import glob
for name in glob.glob('p*.py'):
    text = open(name).read()
    open(name, 'w').write(text.upper())
print('done')
EOF"""


@pytest.mark.skipif(available()["bubblewrap"] is not None or shutil.which("python3") is None, reason="no jail here")
def test_a_step_that_no_text_tells_is_executed_again_only_when_asked(
    tmp_path: Path, repository: tuple[Path, str]
) -> None:
    """By option, of a file and of a shard."""
    folder, commit = repository
    steps = (STEPS[0], (FIX, ""), ("cd /testbed && python3 fix.py", "done\n"), ("ls", "fix.py\npager.py\n"))
    file = recording(tmp_path / "runs" / "a.traj.json", commit, steps=steps, info={"exit_status": "Submitted"})
    mapped = ("--repository", f"acme/pager={folder}")

    def told(*more: str) -> list[Any]:
        text = shown("states", file, *mapped, "--json", "--data", tmp_path / "none", *more)
        return [recovery["how"] for recovery in json.loads(text)["verdict"]["recoveries"]]

    assert told() == []
    assert told("--rerun") == ["rerun"]
    for more, expected in (((), []), (("--rerun",), ["rerun"])):
        shown("ingest", file, *mapped, "--data", tmp_path / "data", *more)
        (row,) = Lake(tmp_path / "data" / "lake").rows("state_verdicts")
        assert [recovery["how"] for recovery in row["recoveries"]] == expected
    assert not [path for path in (tmp_path / "data" / "sandboxes").iterdir() if path.name.startswith("rerun-")]
