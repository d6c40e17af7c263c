"""The root of a recording that names files by absolute paths and no folder."""

from __future__ import annotations

import json

import msgspec
import pytest

from handoff.actions import context_of, trajectory_keys
from handoff.adapters.roots import rooted
from handoff.trajectory import Action, Step, Trajectory


def run(*paths: str, source: str = "{}", repo: str | None = None) -> Trajectory:
    steps = [
        Step(actions=(Action(tool="write_file", arguments=json.dumps({"file_path": path, "content": "x"})),))
        for path in paths
    ]
    return Trajectory(format="gemini_cli", task="Fix it.", steps=tuple(steps), source=source, repo=repo)


def root_of(trajectory: Trajectory) -> str | None:
    found: str | None = json.loads(rooted(trajectory).source).get("inferred_root")
    return found


@pytest.mark.parametrize(
    ("paths", "root"),
    [
        (["/Users/me/shop/src/a.py", "/Users/me/shop/README.md"], "/Users/me/shop"),
        (["/project/math_utils.py", "/project/tests/test_math.py", "/project"], "/project"),
        (["/app/hello.txt"], "/app"),
        (["/workspace/game.py", "/workspace"], "/workspace"),
        (["/home/me/a/x.py", "/tmp/notes.txt"], "/home/me/a"),
        # No folder could be meant, or none is needed.
        (["/Users/me/a.py", "/Users/you/b.py"], None),
        (["/home/me/a.py"], None),
        (["/tmp/a.py", "/etc/passwd"], None),
        (["/testbed/a.py", "/workspace/repo/b.py", "/django__django/c.py"], None),
        (["src/a.py"], None),
    ],
)
def test_the_deepest_folder_of_all_named_files(paths: list[str], root: str | None) -> None:
    assert root_of(run(*paths)) == root


def test_edits_below_an_inferred_root_are_edits() -> None:
    found = rooted(run("/Users/me/shop/src/a.py", "/Users/me/shop/README.md"))
    keys = trajectory_keys(found.steps, context=context_of(found.format, found.source))
    assert keys == [(("edit", "src/a.py"),), (("edit", "README.md"),)]


@pytest.mark.parametrize(("source", "repo"), [('{"cwd":"/elsewhere"}', None), ('{"cwds":["/a"]}', None), ("{}", "o/n")])
def test_what_the_recording_says_is_not_overruled(source: str, repo: str | None) -> None:
    before = run("/Users/me/shop/src/a.py", source=source, repo=repo)
    assert rooted(before) is before


@pytest.mark.parametrize(
    "arguments", ['{"path": 3, "x": "/"}', '["/a"]', '"/a"', '{"path": "/\\u0000/a.py"}', "{broken"]
)
def test_odd_arguments_name_nothing(arguments: str) -> None:
    step = Step(actions=(Action(tool="read", arguments=arguments),))
    assert root_of(msgspec.structs.replace(run("/app/a.py"), steps=(step,))) is None
