"""Bad input that must be survived, through the real stages: files → runs → states → points → views.

Each test runs the four stages of ``handoff ingest`` on one kind of bad input, with a good record beside it.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from handoff.errors import LakeError
from handoff.git.repositories import run_git
from handoff.project import Project
from handoff.report.tables import markdown
from handoff.stages import corpus, environment, handoffs

EDIT = ("cat pager.py", "echo two > pager.py")


def row(number: int = 1, commands: Sequence[str] = EDIT, **fields: Any) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Fix the pager."}]
    for n, command in enumerate((*commands, "python -m pytest")):
        call = {"id": f"c{n}", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}
        messages.append({"role": "assistant", "content": f"Step {n}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": ""})
    return {"instance_id": f"acme__pager-{number}", "messages": messages, **fields}


def line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


GOOD = line(row(99))


def run_stages(data: Path, *files: Path, repositories: dict[str, str] | None = None) -> Project:
    """What ``handoff ingest`` does."""
    project = Project(data)
    project.add_shard("s", tuple(map(str, files)), repositories or {})
    corpus.raw_trajectories(project, "s")
    environment.environment_facts(project, "s")
    corpus.repository_states(project, "s")
    handoffs.injected_handoffs(project, "s")
    handoffs.view_renderings(project, "s")
    return project


def base_repository(folder: Path) -> tuple[Path, str]:
    """A repository with one file, and a link that leads out of it; its commit."""
    git_dir = folder / "pager.git"
    run_git("init", "--quiet", "--bare", "--template=", "--initial-branch=main", git_dir)
    out = str(folder / "outside")
    stream = "commit refs/heads/main\ncommitter A <a@example.invalid> 1700000000 +0000\ndata 1\nx\n"
    stream += "M 100644 inline pager.py\ndata 4\none\n\n"
    stream += f"M 120000 inline link\ndata {len(out)}\n{out}\n\n"
    run_git("--git-dir", git_dir, "fast-import", "--quiet", stdin=stream.encode())
    return git_dir, run_git("--git-dir", git_dir, "rev-parse", "main").decode().strip()


# -- bytes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("empty", b"", "empty"),
        ("truncated", GOOD[: len(GOOD) // 2], "Not valid JSON"),
        ("truncated-array", b"[" + GOOD.strip() + b"," + GOOD[:50], "breaks off"),
        ("utf-16", GOOD.decode().encode("utf-16"), "UTF-16"),
        ("binary", bytes(range(256)) * 4, "not JSON"),
        ("nul", b"\0" * 1000, "not JSON"),
        ("number", b"17\n", "not JSON"),
        ("null-message", line({"messages": [None]}), ""),
        ("deep", b"[" * 100_000, ""),
    ],
)
def test_bad_bytes_are_set_aside_and_the_rest_is_read(tmp_path: Path, name: str, data: bytes, problem: str) -> None:
    """File, record, field, problem and remedy are in quarantine; the good file beside it is read."""
    (tmp_path / f"bad-{name}.jsonl").write_bytes(data)
    (tmp_path / "good.jsonl").write_bytes(GOOD)
    project = run_stages(tmp_path / "data", tmp_path / f"bad-{name}.jsonl", tmp_path / "good.jsonl")
    found = project.lake.rows("quarantine")
    assert found and problem in found[-1]["problem"]
    assert all(q["file"] and q["record"] >= 1 and q["field"].startswith("$") and q["remedy"] for q in found)
    assert project.lake.count("raw_trajectories") == 1
    assert project.lake.count("view_renderings") == 4 * project.lake.count("injected_handoffs") > 0


def test_latin_1_text_is_read_with_replacements(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(json.dumps(row()).replace("Fix", "Fïx").encode("latin-1"))
    project = run_stages(tmp_path / "data", tmp_path / "a.json")
    assert project.lake.rows("raw_trajectories")[0]["task"] == "F\ufffdx the pager."


def test_a_line_over_the_limit_is_set_aside_and_a_raised_limit_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD + line(row(1, padding="x" * 200_000)) + line(row(2)))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "handoff.toml").write_text("record_limit = 50_000\n")
    project = run_stages(tmp_path / "data", path)
    assert project.lake.count("raw_trajectories") == 2
    (found,) = project.lake.rows("quarantine")
    assert found["record"] == 2
    assert "record_limit in handoff.toml" in found["remedy"]
    (tmp_path / "data" / "handoff.toml").unlink()
    assert run_stages(tmp_path / "data", path).lake.count("raw_trajectories") == 3


@pytest.mark.slow
def test_a_line_of_one_gigabyte_takes_no_gigabyte_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.write(GOOD + b'{"messages": "')
        for _ in range(1024):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n' + line(row(2)))
    # A process inherits the peak of the one that started it, and this one may have been large: a small one measures.
    command = [sys.executable, "-c", MEASURED, *ingest(path, tmp_path / "data")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    said = " ".join(run.stdout.split())
    assert run.returncode == 0, said + run.stderr
    assert "2 trajectories with 6 steps, 0 repeated, 1 quarantined" in said
    peak = int(run.stderr.split()[-1])
    assert peak < 600 * 1024, f"{peak} KiB"


MEASURED = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:])
_, status, used = os.wait4(process.pid, 0)
print(used.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


# -- records ----------------------------------------------------------------------------------------------------


def test_duplicate_ids_and_results_without_calls_are_kept_apart(tmp_path: Path) -> None:
    """Equal records are kept once; two runs of one task are two runs; two calls of one id keep their order."""
    orphan = row(1)
    orphan["messages"].insert(2, {"role": "tool", "tool_call_id": "never", "content": "?"})
    twice = row(2)
    for message in twice["messages"]:
        for call in message.get("tool_calls", ()):
            call["id"] = "same"
        if message["role"] == "tool":
            message["tool_call_id"] = "same"
    (tmp_path / "a.jsonl").write_bytes(line(orphan) + line(orphan) + line(row(1)) + line(twice))
    project = run_stages(tmp_path / "data", tmp_path / "a.jsonl")
    assert project.lake.count("raw_trajectories") == 3
    seen = [o for r in project.lake.rows("steps") for o in r["observations"]]
    assert sum(o["is_orphan"] for o in seen) == 1
    points = [p["point_id"] for p in project.lake.rows("injected_handoffs")]
    assert len(set(points)) == len(points) > 0


def test_nul_ansi_and_html_are_kept_in_tables_and_shown_as_text(tmp_path: Path) -> None:
    """Unchanged in the lake; escaped in Markdown and on the page."""
    from handoff.report.page import visible

    nasty = "\x00 \x1b[31m <script>alert(1)</script> | `x` \u202e\n# heading"
    hostile = row(1)
    hostile["messages"][0]["content"] = nasty
    hostile["messages"][2]["content"] = nasty
    (tmp_path / "a.jsonl").write_bytes(line(hostile) + line({"messages": nasty}))
    project = run_stages(tmp_path / "data", tmp_path / "a.jsonl")
    assert project.lake.rows("raw_trajectories")[0]["task"] == nasty
    cell = markdown(["text"], [[nasty]])
    assert "<script>" not in cell and "\x00" not in cell and len(cell.splitlines()) == 3
    assert not {"\x00", "\x1b", "\u202e"} & set(visible(nasty))


def test_edits_that_leave_the_repository_are_never_made(tmp_path: Path) -> None:
    """Upwards, absolute, home, through a link in the tree, by patch: nothing outside changes, no tree holds them."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("safe")
    git_dir, commit = base_repository(tmp_path)
    patch = "*** Begin Patch\n*** Add File: ../../patched\n+x\n*** End Patch\n"
    commands = [
        f"echo evil > {outside}/x",
        f"echo evil > ../../../../../../{outside}/x",
        "echo evil > ../../etc/passwd",
        "echo evil > ~/.bashrc",
        "echo evil > link/x",
        "echo evil > .git/hooks/post-checkout",
        "mv pager.py ../../stolen",
        f"cp pager.py {outside}/copied",
        f"rm -rf {outside}",
        f"apply_patch <<'E'\n{patch}E",
        "echo fine > new.py",
    ]
    (tmp_path / "a.jsonl").write_bytes(line(row(1, commands, base_commit=commit)))
    project = run_stages(tmp_path / "data", tmp_path / "a.jsonl", repositories={"acme/pager": str(git_dir)})
    assert {p.name: p.read_text() for p in outside.iterdir()} == {"x": "safe"}
    assert not (tmp_path / "stolen").exists()
    states = project.lake.rows("repository_states")
    assert len(states) == len(commands) + 2
    with project.repositories("s") as repositories:
        repository = repositories.open("acme/pager")
        named = {path for state in states for path in repository.files(state["tree"])}
    assert named <= {"pager.py", "link", "new.py"}
    assert "new.py" in named


# -- repositories -----------------------------------------------------------------------------------------------


def test_a_repository_that_is_missing_is_said_and_a_mended_one_is_replayed(tmp_path: Path) -> None:
    """Unverifiable with the remedy; giving the repository later replays the shard, and nothing else is asked."""
    git_dir, commit = base_repository(tmp_path)
    (tmp_path / "a.jsonl").write_bytes(line(row(1, base_commit=commit)))
    project = run_stages(tmp_path / "data", tmp_path / "a.jsonl")
    states = project.lake.rows("repository_states")
    assert {s["status"] for s in states} == {"unverifiable"}
    assert "--repository acme/pager=PATH" in states[0]["reason"]
    assert str(tmp_path) not in states[0]["reason"]
    assert project.lake.count("injected_handoffs") > 0
    run_git("clone", "--quiet", "--mirror", git_dir, project.git / "acme__pager.git")
    run_stages(tmp_path / "data", tmp_path / "a.jsonl")
    assert all(s["tree"] for s in project.lake.rows("repository_states"))


@pytest.mark.parametrize("commit", ["0" * 40, "main", "../../etc/passwd", "--upload-pack=touch x", ""])
def test_a_wrong_commit_is_said(tmp_path: Path, commit: str) -> None:
    git_dir, _ = base_repository(tmp_path)
    (tmp_path / "a.jsonl").write_bytes(line(row(1, base_commit=commit)))
    project = run_stages(tmp_path / "data", tmp_path / "a.jsonl", repositories={"acme/pager": str(git_dir)})
    states = project.lake.rows("repository_states")
    assert {s["status"] for s in states} == {"unverifiable"}
    assert "commit" in states[0]["reason"]


# -- disk and signals -------------------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own; skips where mounting is not allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def many(path: Path, count: int) -> Path:
    """Rows that do not compress."""
    with path.open("wb") as file:
        for n in range(count):
            file.write(line(row(n, [f"echo {os.urandom(2_000).hex()} > pager.py"])))
    return path


def test_a_full_disk_is_a_clear_error_and_no_half_table(tmp_path: Path) -> None:
    """The same run finishes once there is space."""
    path = many(tmp_path / "a.jsonl", 400)
    with small_disk(tmp_path / "disk", "400k") as disk:
        with pytest.raises(LakeError, match=r"full|No space left"):
            run_stages(disk / "data", path)
        for file in disk.rglob("*.parquet"):
            assert pq.read_metadata(file).num_rows >= 0
        assert not (disk / "data" / "lake" / "raw_trajectories" / "shard=s" / "part.parquet").exists()
        assert not list(disk.rglob("*.partial"))
        subprocess.run(["mount", "-o", "remount,size=100m", str(disk)], check=True)
        project = run_stages(disk / "data", path)
        assert project.lake.count("raw_trajectories") == 400


def test_a_full_disk_at_the_last_moment_leaves_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "a.jsonl").write_bytes(GOOD)
    project = Project(tmp_path / "data")
    project.add_shard("s", (str(tmp_path / "a.jsonl"),), {})
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(LakeError, match="full; free space and run again"):
        corpus.raw_trajectories(project, "s")
    assert not list((tmp_path / "data" / "lake").rglob("*.p*"))


def ingest(path: Path, data: Path) -> list[str]:
    program = "from handoff.cli import main; main()"
    return [sys.executable, "-c", program, "ingest", str(path), "--shard", "s", "--data", str(data)]


def everything(data: Path) -> dict[str, bytes]:
    """Every byte in the data folder, hidden files included."""
    return {str(p.relative_to(data)): p.read_bytes() for p in sorted(data.rglob("*")) if p.is_file()}


def test_what_killed_writers_left_is_removed_and_a_living_one_is_let_alone(tmp_path: Path) -> None:
    from handoff.lake import scratch_file

    (tmp_path / ".dead.partial").write_bytes(b"half")
    with scratch_file(tmp_path) as mine, scratch_file(tmp_path) as other:
        assert sorted(tmp_path.iterdir()) == sorted([mine, other])
    assert not list(tmp_path.iterdir())


def test_a_killed_ingestion_run_again_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """By kill -9 while the first table is written, by Ctrl-C at a later one; no byte differs, no scratch file stays."""
    path = many(tmp_path / "a.jsonl", 200)
    calm = run_stages(tmp_path / "calm", path)
    for n, table in enumerate(("steps", "repository_states")):
        data = tmp_path / f"data{n}"
        process = subprocess.Popen(ingest(path, data), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        folder = data / "lake" / table / "shard=s"
        while process.poll() is None and not folder.exists():
            time.sleep(0.002)
        process.send_signal(signal.SIGINT if table == "repository_states" else signal.SIGKILL)
        said = process.communicate()[1].decode()
        if process.returncode == 130:
            assert "run the same command again" in said
        assert "Traceback" not in said
        run_stages(data, path)
        assert everything(data) == everything(calm.root)
