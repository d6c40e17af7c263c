"""The groundedness gate: an action uses only what its actor could know."""

from __future__ import annotations

import json

import msgspec

from handoff.curation.groundedness import check_grounded, decide
from handoff.trajectory import Action, Observation, Step


class Key(msgspec.Struct, frozen=True):
    kind: str
    target: str


def step(output: str = "", tool: str = "bash", **arguments: str) -> Step:
    return Step(actions=(Action(tool=tool, arguments=json.dumps(arguments)),), observations=(Observation(text=output),))


def test_a_path_nobody_mentioned_is_ungrounded() -> None:
    """A suffix pasted under the repository view names files that only the history knew."""
    found = check_grounded(
        [step(command="cat pkg/deep/cache.py")], [[Key("read", "pkg/deep/cache.py")]], ["Fix the bug"]
    )
    assert [(u.step, u.what, u.text) for u in found.ungrounded] == [(1, "path", "pkg/deep/cache.py")]
    assert not found.is_grounded


def test_what_came_back_since_the_handoff_grounds_later_actions() -> None:
    """Listing a folder grounds reading its files; reading a file grounds the names in it."""
    steps = [
        step("pkg/deep/cache.py\n", command="git diff --name-only"),
        step("def evict_old(self): ...", command="cat pkg/deep/cache.py"),
        step(command="grep -n evict_old pkg/deep/cache.py"),
    ]
    keys = [[Key("vcs", "diff")], [Key("read", "pkg/deep/cache.py")], [Key("search", "evict_old")]]
    assert check_grounded(steps, keys, ["Fix"]).is_grounded
    assert not check_grounded(steps[2:], keys[2:], ["Fix"]).is_grounded


def test_an_edit_must_have_seen_what_it_replaces_but_may_write_what_is_new() -> None:
    """``old_str`` is a use, ``new_str`` is not; neither is a file that the action creates."""
    edit = step(tool="editor", path="a.py", old_str="return secret_helper(x)", new_str="return brand_new_helper(x)")
    found = check_grounded([edit], [[Key("edit", "a.py")]], ["Fix a.py"])
    assert [u.text for u in found.ungrounded] == ["secret_helper"]
    create = step(tool="editor", path="made_up_test.py", file_text="import unheard_of")
    run = step(command="python made_up_test.py")
    keys = [[Key("create", "made_up_test.py")], [Key("run", "python made_up_test.py")]]
    assert check_grounded([create, run], keys, ["Fix"]).is_grounded


def test_conventional_names_options_and_plain_words_are_free_to_guess() -> None:
    """Nobody needs to be told that a repository may have a README."""
    steps = [
        step(command="cat README.md"),
        step(command="python -m pytest -q --max-fail=1 tests"),
        step(command="grep -rn error src"),
    ]
    keys = [[Key("read", "README.md")], [Key("test", "tests")], [Key("search", "error")]]
    assert check_grounded(steps, keys, ["Fix"]).is_grounded


def test_an_ungrounded_suffix_moves_to_a_richer_view_or_is_dropped() -> None:
    """The decision is recorded with its evidence."""
    steps, keys = [step(command="cat deep/cache.py")], [[Key("read", "deep/cache.py")]]
    given = {"repo": ["Fix"], "summary": ["Fix", "changed deep/cache.py"], "trace": ["Fix", "cat deep/cache.py"]}
    assert decide("summary", steps, keys, given).verdict == "kept"
    moved = decide("repo", steps, keys, given)
    assert (moved.verdict, moved.view) == ("moved", "summary")
    assert moved.grounding.evidence()["ungrounded"] == 1
    assert decide("repo", steps, keys, {"repo": ["Fix"], "trace": ["Fix"]}).verdict == "dropped"
