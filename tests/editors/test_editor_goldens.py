"""Cases recorded from the real editors (``tests/fixtures/editors``): the replay leaves what they left, and so do the
plain references with which it is compared in ``test_editor_programs``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from handoff.actions import Context
from handoff.git.repositories import Repository
from tests.editors.references.codex import ApplyPatch
from tests.editors.references.editors import Aider, Call, Editor, Exact, Pi, Refused, ShellWindow, StrReplace, Window
from tests.editors.references.replaying import Replayed

FOLDER = Path(__file__).parents[1] / "fixtures" / "editors"


class Golden(NamedTuple):
    """One fixture file: the context of its calls, and the reference that plays the tool in all of its cases, if any."""

    context: Context
    reference: Callable[[Path], Editor] | None = None


GOLDENS = {
    "sweagent_str_replace": Golden(
        Context(harness="sweagent"), lambda p: StrReplace(p, expands=True, whole_lines=False, undoes=False)
    ),
    "openhands_0_1": Golden(
        Context(harness="openhands_events", tabs="expands"), lambda p: StrReplace(p, expands=True, whole_lines=False)
    ),
    "openhands_0_2": Golden(
        Context(harness="openhands_events", tabs="expands"), lambda p: StrReplace(p, expands=True, whole_lines=True)
    ),
    "openhands_0_2_14": Golden(
        Context(harness="openhands_events", tabs="keeps"), lambda p: StrReplace(p, expands=False, whole_lines=True)
    ),
    "openhands_0_3": Golden(
        Context(harness="openhands_events", tabs="keeps"),
        lambda p: StrReplace(p, expands=False, whole_lines=True, strips="both"),
    ),
    "sweagent_windowed": Golden(Context(harness="sweagent"), lambda p: Window(p / "g.txt", 6)),
    "sweagent_0_windowed": Golden(Context(harness="sweagent"), lambda p: ShellWindow(p / "g.txt")),
    "pi_edit": Golden(Context(harness="pi"), Pi),
    "gemini_replace": Golden(Context(harness="gemini_cli"), lambda p: Exact(p, takes_line=False, keeps_end=True)),
    "aider_edit_block": Golden(Context(harness="aider"), Aider),
    "codex_apply_patch": Golden(Context(harness="codex")),
    "codex_apply_patch_plain": Golden(Context(harness="codex"), lambda p: ApplyPatch(p, is_newer=True)),
}
UNSURE = {
    "openhands_0_1": 12,
    "openhands_0_2": 12,
    "openhands_0_2_14": 3,
    "openhands_0_3": 3,
    "gemini_replace": 8,
    "codex_apply_patch": 14,
    "codex_apply_patch_plain": 8,
}
"""Files that may come out as unknown, since releases differ and nothing in the case tells them apart."""


def recorded(name: str) -> tuple[str, list[dict[str, Any]]]:
    """The tool's name and its cases."""
    golden = json.loads((FOLDER / f"{name}.json").read_bytes())
    return golden["tool"], golden["cases"]


def files_of(case: dict[str, Any], key: str) -> dict[str, bytes]:
    """Files are kept as Latin-1 text, one character a byte."""
    return {path: text.encode("latin-1") for path, text in case[key].items()}


@pytest.mark.parametrize("name", GOLDENS)
def test_the_replay_leaves_what_the_real_editor_left(name: str, repository: Repository) -> None:
    tool, cases = recorded(name)
    unsure = 0
    for case in cases:
        run = Replayed(repository, files_of(case, "files"), GOLDENS[name].context)
        for call, has_happened, answer in zip(case["calls"], case["ok"], case["answers"], strict=True):
            named = call.pop("tool", tool) if isinstance(call, dict) else call.split(None, 1)[0]
            run.call(named, call, answer, has_happened=has_happened)
        after = files_of(case, "after")
        for path, data in run.left().items():
            unsure += data is None
            assert data is None or data == after[path], (case, data)
        assert set(after) <= set(run.left())
    assert unsure <= UNSURE.get(name, 0), f"{unsure} files are unknown"


def plain_call(name: str, call: Any) -> Call:
    """A recorded call in the terms of its reference."""
    if isinstance(call, str):
        words = call.split("\n")[0].split()
        if words[0] == "open":
            return {"goto": int(words[2])} if len(words) > 2 else {}
        first, last = map(int, words[1].split(":"))
        body = call.split("\n", 1)[1].removesuffix("end_of_edit")
        if name == "sweagent_0_windowed":
            return {"start": first, "end": last, "typed": body}
        return {"start": first, "end": last, "text": body.removesuffix("\n")}
    if name == "sweagent_windowed":
        if "search" in call:
            return {"search": call["search"], "replace": call["replace"], "all": "replace-all" in call}
        if call.get("tool") == "insert":
            return {"insert": call["text"], **({"line": call["line"]} if "line" in call else {})}
        return {"rewrite": call["text"]}
    return dict(call)


@pytest.mark.parametrize("name", [name for name, golden in GOLDENS.items() if golden.reference is not None])
def test_the_references_leave_what_the_real_editors_left(name: str, tmp_path: Path) -> None:
    """So that what the property tests compare with is itself right."""
    make = GOLDENS[name].reference
    assert make is not None
    for number, case in enumerate(recorded(name)[1]):
        folder = tmp_path / str(number)
        folder.mkdir()
        for path, data in files_of(case, "files").items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_bytes(data)
        reference = make(folder)
        for call, has_happened in zip(case["calls"], case["ok"], strict=True):
            arguments = plain_call(name, call)
            if not arguments:
                continue
            try:
                reference.call(arguments)
            except Refused:
                if has_happened and name == "gemini_replace":
                    break  # a near miss, which the reference does not play
                assert not has_happened, (case, call)
            else:
                if name == "gemini_replace" and b"\r" in files_of(case, "files")["f"]:
                    break
                assert has_happened, (case, call)
        else:
            left = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            assert left == files_of(case, "after"), case
