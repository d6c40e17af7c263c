"""From a walk to verdicts: the end against the recorded patch, then each step (``docs/science.md §2``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from handoff.actions import Vcs
from handoff.editors.patches import FilePatch, apply_file, parse_unified, stripped
from handoff.editors.plain import Misfit
from handoff.git.importer import FileState
from handoff.states.effects import EVERYTHING
from handoff.states.proof import checkpoints
from handoff.states.proof.gitshown import is_blob
from handoff.states.proof.verdict import Category, Status, StepState
from handoff.states.shell.disk import Disk
from handoff.states.shell.ignored import is_ignored
from handoff.states.walk import NOT_TOLD, Walk

_LISTED = 5
"""Files named in a reason."""
_PICKED_PATHS = re.compile(r"git diff\b[^|;&\n>]{0,400}?(?: -- |\s[\w./-]{1,200}\.\w)")
_OF_INDEX = re.compile(r"git diff\b[^|;&\n]{0,400}?--(?:cached|staged)\b")
_ADDS_SOME = re.compile(r"git (?:add|stage) (?:-[fNv] )?(?!\.(?:[\s\"\\;&|]|\Z))[^-\s;&|]")
"""Files added by their names."""
_ADDS_NEW = re.compile(r"git (?:add\b|diff\b[^;&|\n]{0,200}--(?:cached|staged)|stage\b)")
_ADDING_ALL = ("sweagent", "mini", "openhands")
"""Harnesses that add every file before they make the patch."""


class Ending(NamedTuple):
    """What the recorded patch says of the last state."""

    has_patch: bool
    """Whether there is one, and of these files."""
    is_complete: bool
    """Whether new files would be in it."""
    contents: Mapping[str, FileState]
    """Files that it names, as they are after it; those that cannot be had from it are left out."""


class Judgement(NamedTuple):
    """The verdicts of one run."""

    states: tuple[StepState, ...]
    status: Status
    category: Category
    reason: str
    is_watched: bool
    """Whether something answers for every program of unknown effect that ran."""


def ending(walk: Walk) -> Ending:
    """The recorded patch, applied to the base."""
    files = patch_files(walk)
    contents: dict[str, FileState] = {}
    for file in files:
        try:
            for change in apply_file(file, walk.base_bytes):
                base = walk.files.base(change.path)
                mode = change.mode or (base[0] if base else "100644")
                is_redacted = change.data is not None and _is_redacted(file, change.data)
                if not is_redacted:
                    contents[change.path] = None if change.data is None else (mode, change.data)
        except Misfit:
            continue
    named = {path for file in files for path in _paths(file)}
    final = walk.files.changed()
    touched = final.keys() | walk.effects.unknown.keys()
    has_patch = bool(named) and (not touched or EVERYTHING in touched or not named.isdisjoint(touched))
    picked = is_picked(walk)
    is_new = any(file.old_path is None for file in files)
    has_left = any(walk.files.base(path) is None for path in final if path not in named)
    adds_all = walk.trajectory.format.startswith(_ADDING_ALL) and not _leaves_new_files_out(walk)
    is_complete = not picked and not has_left and (is_new or adds_all)
    return Ending(has_patch, is_complete, contents)


def _is_redacted(file: FilePatch, data: bytes) -> bool:
    """Whether a publisher may have replaced something in the patched text, and no blob id says otherwise."""
    return _has_redactions(file) and (file.after is None or not is_blob(data, file.after))


def _has_redactions(file: FilePatch) -> bool:
    lines = (line for hunk in file.hunks for line in (*hunk.old, *hunk.new))
    return any(checkpoints.REDACTED.search(line.decode("utf-8", "replace")) for line in lines)


def patch_files(walk: Walk) -> list[FilePatch]:
    """The files of the recorded patch; none when it is cut or absent."""
    patch = walk.trajectory.outcome.patch or ""
    try:
        return parse_unified(patch) if patch.strip() else []
    except Misfit:
        return []


def is_picked(walk: Walk) -> bool:
    """Whether the run chose which files go into its patch."""
    lines = [action.arguments for step in walk.trajectory.steps for action in step.actions if "git" in action.arguments]
    is_staged = any(_OF_INDEX.search(line) for line in lines) and any(_ADDS_SOME.search(line) for line in lines)
    return is_staged or any(_PICKED_PATHS.search(line) for line in lines)


def _leaves_new_files_out(walk: Walk) -> bool:
    """Whether the run made its patch itself, by a ``git diff`` that does not see files which git does not track."""
    patch = (walk.trajectory.outcome.patch or "").strip()
    lines = [action.arguments for step in walk.trajectory.steps for action in step.actions]
    if not patch or any(_ADDS_NEW.search(line) for line in lines) or not any("git diff" in line for line in lines):
        return False
    return any(patch in seen.text for step in walk.trajectory.steps for seen in step.observations)


def judge(walk: Walk, result_tree: str | None = None) -> Judgement:
    """Hold the end against the recording and give every step its verdict. ``result_tree``: of the commit that the run
    led to, where it is known; files that are the same there are proven, others may have been changed by people."""
    end = ending(walk)
    if end.has_patch:
        _compare_end(walk, end)
    if result_tree is not None:
        commits = [m.step for m in walk.moments if any(isinstance(o, Vcs) and o.verb == "commit" for o in m.operations)]
        for path in walk.histories.paths():
            version = walk.histories.current(path)
            if commits and version is not None and version.step > commits[-1]:
                continue  # touched after the commit was made
            is_same = walk.confirm_from(result_tree, path)
            if not is_same and commits and commits[-1] > walk.shown_at(path):  # a hook may have changed it
                walk.histories.doubt(path, walk.shown_at(path) + 1)
    is_whole = end.has_patch or (result_tree is not None and _is_result(walk, result_tree))
    _blame_suspicions(walk)
    walk.histories.settle()
    states = tuple(_verdicts(walk, end.has_patch, is_whole))
    status: Status = "divergent" if walk.divergence else states[-1].status
    reason = states[-1].reason
    _, programs = walk.unseen.open(len(walk.positions) - 1, is_whole=is_whole)
    if status == "partial" and end.has_patch and (scratch := _scratch(walk, states[-1])) and not programs[-1]:
        status = "verified"
        reason = (
            f"the recorded patch is reproduced; it does not speak of {_listed(scratch)}, which git did not track; "
            f"{len(walk.checked_steps)} texts of files agree, {walk.full_reads} of whole files"
        )
    return Judgement(states, status, _category(walk, status), reason, is_watched=not any(programs))


def _scratch(walk: Walk, last: StepState) -> list[str]:
    """Files of which the last state is derived and nothing shows it, if none of them is one that the recorded patch
    would show: new ones that were removed again, or that the run's own ``git diff`` does not see."""
    unproven = sorted(walk.histories.unproven(len(walk.positions) - 1)[-1])
    named = {path for file in patch_files(walk) for path in _paths(file)}
    is_seen = not _leaves_new_files_out(walk) and not is_picked(walk)
    if not last.is_derived or any(
        path in named or walk.files.base(path) is not None or (is_seen and walk.files.get(path) is not None)
        for path in unproven
    ):
        return []
    return unproven


def _is_result(walk: Walk, tree: str) -> bool:
    """Whether the last state is exactly ``tree``."""
    final = walk.files.changed()
    for path, _, entry in walk.repository.differences(walk.files.base_tree, tree):
        state = final.pop(path, walk.files.base(path))
        if (state is None) != (entry is None):
            return False
        if state is not None and entry is not None and not (state[0] == entry[0] and is_blob(state[1], entry[1])):
            return False
    return not final


def _compare_end(walk: Walk, end: Ending) -> None:
    files = patch_files(walk)
    named = {path for file in files for path in _paths(file)}
    for file in files:
        _compare(walk, file, end)
    picked = is_picked(walk)
    left = any(walk.files.base(path) is None for path in walk.files.changed() if path not in named)
    leaves_new = _leaves_new_files_out(walk)
    for path in walk.histories.paths():
        if path in named or walk.effects.is_unknown(path):
            continue
        version = walk.histories.current(path)
        base = walk.files.base(path)
        if walk.files.get(path) == base:
            if version is not None and not picked and (base is not None or not left):
                version.is_shown = True  # back to what the base holds, as the patch says
        elif base is None:
            if version is not None and not picked and not leaves_new and not is_ignored(Disk(walk.effects), path):
                # Removed unseen, or left out of the patch as git's untracked files are: the patch does not say which.
                walk.histories.doubt(path, walk.shown_at(path) + 1)
        elif not picked:
            problem = "the recorded patch leaves this file as it was"
            hunk = _hunk(walk.files.get(path), base)
            walk.diverge(walk.blamed(path, base[1]), path, problem, "patch_mismatch", hunk)


def _compare(walk: Walk, file: FilePatch, end: Ending) -> None:
    """Hold one file of the recorded patch against the final state."""
    paths = _paths(file)
    if not paths or any(walk.effects.is_unknown(path) for path in paths):
        return
    path = paths[-1]
    before = walk.base_bytes(paths[0])
    if file.before and set(file.before) != {"0"} and not (before is not None and is_blob(before, file.before)):
        problem = "the base commit holds another version of this file than the recorded patch"
        walk.diverge(0, paths[0], problem, "patch_mismatch")
        return
    state = walk.files.get(path)
    has_id = file.after is not None and set(file.after) != {"0"}
    if path not in end.contents and not has_id and file.new_path is not None and _has_redactions(file):
        return
    if path not in end.contents and not has_id:
        walk.diverge(0, path, "the recorded patch does not fit the base commit", "patch_mismatch")
        return
    wanted = end.contents.get(path)
    if has_id and state is not None and file.after is not None:
        same = is_blob(state[1], file.after)
    else:
        same = path in end.contents and (wanted and wanted[1]) == (state and state[1])
    if same and state is not None:
        base = walk.files.base(paths[0])
        mode = file.mode or (base[0] if base else None)
        same = mode is None or state[0] == mode
    if not same:
        real = wanted[1] if wanted is not None else None
        step = walk.blamed(path, real) or len(walk.trajectory.steps)
        hunk = _hunk(state, wanted) if path in end.contents else ""
        problem = "the final content is not that of the recorded patch"
        walk.diverge(step, path, problem, "patch_mismatch", hunk)
        return
    for each in paths:
        if version := walk.histories.current(each):
            version.is_shown = True


def _hunk(derived: FileState, real: FileState) -> str:
    if derived is None or real is None:
        return ""
    texts = [state[1].decode("utf-8", "replace").split("\n") for state in (derived, real)]
    return checkpoints.excerpt_of(*texts) if texts[0] != texts[1] else f"mode {derived[0]} → {real[0]}"


def _blame_suspicions(walk: Walk) -> None:
    """A contradiction after a step that may have changed files says that it did: nothing is known from there on."""
    found = walk.divergence
    earlier = [step for step in sorted(walk.unseen.suspicions) if found and step <= found.seen_at]
    if found is None or not earlier:
        return
    walk.divergence = None
    first = earlier[0]
    reason = f"{walk.unseen.suspicions[first]} at step {first}; later {found.path} is not what was derived"
    for step in range(first, len(walk.unknown)):
        walk.unknown[step].setdefault(EVERYTHING, reason)
    walk.note_late(first, EVERYTHING, reason)


def _verdicts(walk: Walk, has_patch: bool, is_whole: bool) -> Iterator[StepState]:
    """One verdict per step, 0 to n. ``is_whole``: the end is known of every file, and not only of those changed."""
    last = len(walk.positions) - 1
    suspicions, programs = walk.unseen.open(last, is_whole=is_whole)
    unproven = walk.histories.unproven(last)
    is_untouched = not walk.histories.paths() and bool(walk.checked_steps)
    has_evidence = has_patch or walk.full_reads > 0 or is_untouched
    proof = "the recorded patch is reproduced" if has_patch else "the recording shows every changed file whole"
    if is_untouched and not has_patch:
        proof = "nothing was changed"
    found = walk.divergence
    for step, position in enumerate(walk.positions):
        unknown = walk.unknown[step]
        suspicion, program = suspicions[step], programs[step]
        if found and step >= found.step:
            yield StepState(
                position, "divergent", f"step {found.step}, {found.path or 'no file named'}: {found.problem}"
            )
        elif unknown:
            yield StepState(position, "partial", _unknown_reason(unknown))
        elif found:
            reason = f"the run diverges at step {found.step} ({found.path}); nothing proves the steps before it"
            yield StepState(position, "unverifiable", reason)
        elif not has_evidence:
            reason = "the recording offers neither a patch of these files nor a full read"
            yield StepState(position, "unverifiable", reason)
        elif open_files := unproven[step]:
            reason = f"nothing in the recording confirms {_listed(open_files)}"
            yield StepState(position, "partial", reason, is_derived=suspicion is None)
        elif suspicion is not None:
            reason = f"{suspicion.reason} at step {suspicion.step} may have changed files; nothing says that it did not"
            yield StepState(position, "partial", reason)
        elif program is not None:
            reason = f"{program.reason!r} ran at step {program.step}; nothing shows that it changed no other file"
            yield StepState(position, "partial", reason, is_derived=True)
        else:
            reason = f"{proof}; {len(walk.checked_steps)} texts of files agree, {walk.full_reads} of whole files"
            yield StepState(position, "verified", reason, is_derived=True)


def _category(walk: Walk, status: Status) -> Category:
    if status == "verified":
        return "verified"
    if walk.divergence:
        return walk.divergence.category
    if status != "partial":
        return "no_evidence"
    last = walk.unknown[-1]
    if not last:
        return "unconfirmed"
    return "not_told" if all(reason == NOT_TOLD for reason in last.values()) else "opaque_step"


def _paths(file: FilePatch) -> list[str]:
    """The old and new path of a patched file, without ``a/`` and ``b/``; the last one is where it ends."""
    found: list[str] = []
    for path in (None if file.is_copy else file.old_path, file.new_path):
        if path is not None and "/" in path:
            plain = stripped(path, 1)
            if plain and plain not in found:
                found.append(plain)
    return found


def _unknown_reason(unknown: Mapping[str, str]) -> str:
    why = unknown[min(unknown)]
    if EVERYTHING in unknown:
        return f"any file may have changed: {unknown[EVERYTHING]}"
    return f"content not known of {_listed(sorted(unknown))}: {why}"


def _listed(paths: list[str]) -> str:
    more = len(paths) - _LISTED
    return ", ".join(paths[:_LISTED]) + (f" and {more} more" if more > 0 else "")
