"""What a harness noted of a patch is held against what was derived, file by file, and proves it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from handoff.actions import ApplyPatch
from handoff.adapters.claude_files import blob_id
from handoff.adapters.codex_files import changes
from handoff.git.repositories import Repository
from handoff.states.effects import EVERYTHING, Effects
from handoff.states.proof.verdict import Replay
from handoff.states.replay import replay
from handoff.states.working import WorkingFiles
from handoff.trajectory import Action, Observation, Step, Trajectory
from tests.states.conftest import FILES, bash, commit, editor, recording

PAGER = FILES["src/pager.py"].decode()
PATCH = """*** Begin Patch
*** Update File: src/pager.py
@@
-    return items[-1]
+    return items[-1] if items else None
*** Add File: src/notes.txt
+one
*** End Patch"""
DIFF = "@@ -5,2 +5,2 @@\n def last(items):\n-    return items[-1]\n+    return items[-1] if items else None\n"
FIRST = """*** Begin Patch
*** Update File: src/pager.py
@@
+import os
+
 def page(items, size):
*** End Patch"""
FIRST_DIFF = "@@ -1 +1,3 @@\n+import os\n+\n def page(items, size):\n"
NOTED = {
    "/r/src/pager.py": {"type": "update", "unified_diff": DIFF, "move_path": None},
    "/r/src/notes.txt": {"type": "add", "content": "one\n"},
}


def patched(call_id: str, text: str = PATCH) -> Step:
    return Step(
        actions=(Action(call_id=call_id, tool="apply_patch", arguments=text, is_text=True),),
        observations=(Observation(call_id=call_id, text="Success. Updated the following files:\nM x\n", exit_code=0),),
    )


def session(base: str, *steps: Step, **noted: Any) -> Trajectory:
    known = {call: changes(json.dumps(each).encode()) for call, each in noted.items()}
    source = msgspec.json.encode({"cwd": "/r", "changes": known}).decode()
    return Trajectory(format="codex", task="Mend it.", steps=steps, base_commit=base, source=source)


def replayed(repository: Repository, base: str, *steps: Step, **noted: Any) -> Replay:
    return replay(session(base, *steps, **noted), "t", repository)


def test_a_patch_is_proven_by_what_the_harness_noted(repository: Repository, base: str) -> None:
    assert replayed(repository, base, patched("p")).status == "unverifiable"
    found = replayed(repository, base, patched("p"), p=NOTED)
    assert (found.status, found.checkpoints) == ("verified", 2)


def test_a_file_that_a_patch_removes_is_held_against_the_text_it_had(repository: Repository, base: str) -> None:
    gone = "*** Begin Patch\n*** Delete File: src/pager.py\n*** End Patch"
    right = {"/r/src/pager.py": {"type": "delete", "content": PAGER}}
    wrong = {"/r/src/pager.py": {"type": "delete", "content": PAGER + "# more\n"}}
    assert replayed(repository, base, patched("p", gone), p=right).status == "verified"
    assert replayed(repository, base, patched("p", gone), p=wrong).status == "divergent"


def test_another_change_than_the_one_derived_contradicts_it(repository: Repository, base: str) -> None:
    for path, change in {
        "/r/src/pager.py": {"type": "update", "unified_diff": DIFF.replace("None", "0"), "move_path": None},
        "/r/src/notes.txt": {"type": "add", "content": "one"},
    }.items():
        found = replayed(repository, base, patched("p"), p={**NOTED, path: change})
        assert found.status == "divergent"
        assert found.divergence is not None
        assert (found.divergence.step, found.divergence.path) == (1, path.removeprefix("/r/"))


def test_an_edit_that_is_left_out_is_seen_in_the_places_of_a_later_one(repository: Repository, base: str) -> None:
    later = {**NOTED, "/r/src/pager.py": {**NOTED["/r/src/pager.py"], "unified_diff": DIFF.replace("5,2", "7,2")}}
    first = {"/r/src/pager.py": {"type": "update", "unified_diff": FIRST_DIFF, "move_path": None}}
    assert replayed(repository, base, patched("f", FIRST), patched("p"), f=first, p=later).status == "verified"
    assert replayed(repository, base, patched("p"), p=later).status == "divergent"


def test_paths_outside_the_repository_say_nothing(repository: Repository, base: str) -> None:
    more = {"/etc/passwd": {"type": "add", "content": "x"}, "../up": {"type": "add", "content": "x"}}
    assert replayed(repository, base, patched("p"), p={**NOTED, **more}).status == "verified"


def test_a_patch_changes_a_file_that_is_known_among_unknown_ones(repository: Repository, base: str) -> None:
    files = WorkingFiles(repository, repository.tree_of(base), base)
    effects = Effects(files)
    effects.forget("a program", ())
    known = files.get("src/pager.py")
    effects.settle("src/pager.py", known)
    effects.carry_out(ApplyPatch(text=FIRST, paths=("src/pager.py",)))
    assert EVERYTHING in effects.unknown
    assert effects.is_unknown("src/pager.py") is False
    assert blob_id((files.read("src/pager.py") or b"").decode()) == blob_id("import os\n\n" + PAGER)
    effects.carry_out(ApplyPatch(text=PATCH, paths=("src/pager.py", "src/notes.txt")))
    assert effects.is_unknown("src/pager.py"), "one of the two is unknown, so what the patch did is"


def test_what_nobody_tells_of_a_subagent_is_not_derivable(repository: Repository, base: str) -> None:
    def did(tool: str, **arguments: Any) -> Step:
        action = Action(call_id=tool, tool=tool, arguments=json.dumps(arguments))
        return Step(actions=(action,), observations=(Observation(call_id=tool, text="done"),))

    for tool, is_derivable in (("Task", False), ("mcp__unheard__of", False), ("TodoWrite", True)):
        run = msgspec.structs.replace(session(base, patched("p"), did(tool), p=NOTED), format="claude_code")
        found = replay(run, "t", repository)
        assert found.is_derivable is is_derivable, tool
        assert [step.step for step in found.opaque] == ([] if is_derivable else [2])


def test_a_commit_that_holds_more_than_the_run_changed_shows_what_is_left_out(
    repository: Repository, base: str
) -> None:
    """Its edit of one file is in the recording, that of another is not."""
    both = {**FILES, "src/pager.py": PAGER.replace("items[-1]", "items[-2]").encode(), "README.md": b"More.\n"}
    made = commit(repository.git_dir, both, "Both", parent=base, branch="later")
    edit = editor(command="str_replace", path="/r/src/pager.py", old_str="items[-1]", new_str="items[-2]")
    more = bash("echo More. > README.md")
    end = bash("git commit -am Both", f"[main {made[:9]}] Both\n 2 files changed\n")
    whole, lacking = ([bash("cd /r && pwd", "/r\n"), *steps, end] for steps in ((edit, more), (edit,)))
    assert replay(recording(*whole, base=base), "t", repository).status == "verified"
    found = replay(recording(*lacking, base=base), "t", repository)
    assert found.status == "partial"
    assert "README.md" in found.reason
