"""``git stash``, ``clean``, ``apply``, ``revert``, ``show`` and ``branch``."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from handoff.actions.operations import ApplyPatch
from handoff.actions.paths import is_outside
from handoff.actions.programs.editors import patch_of
from handoff.editors.patches import Change, apply_patch
from handoff.editors.plain import Misfit, Unknowable
from handoff.git.importer import FileState
from handoff.git.objects import EXECUTABLE, FILE, SYMLINK
from handoff.states.shell.gitcall import Git, is_in
from handoff.states.shell.ignored import is_ignored
from handoff.states.shell.streams import Result, Unsupported
from handoff.states.versions import EVERYTHING, UNSURE, Known, Layer, Stash


def stash(git: Git) -> Result:
    """``git stash``."""
    action = git.words[0] if git.words and not git.words[0].startswith("-") else "push"
    if git.words and not git.words[0].startswith("-"):
        git.words = git.words[1:]
    match action:
        case "list" | "show":
            return Result(True, None, False)
        case "push" | "save":
            return _push(git, action == "save")
        case "pop" | "apply":
            return _pop(git, action == "pop")
        case "drop":
            if git.words[:1] not in ([], ["stash@{0}"]) or not _has_stash(git):
                raise Unsupported
            git.versions.stash = git.versions.stash[:-1]
            return Result(True, None, False)
        case "clear":
            git.versions.stash = []
            return Result(True, None, False)
        case _:
            raise Unsupported


def _has_stash(git: Git) -> bool:
    return bool(git.versions.stash)


def _push(git: Git, is_save: bool) -> Result:
    flags = "-u --include-untracked -k --keep-index -q --quiet"
    given, before, after = git.options(flags, "-m --message")
    if (before and not is_save) or after or given.keys() & {"-k", "--keep-index"}:
        raise Unsupported
    git.need_index()
    index, head = git.versions.index, git.head()
    takes_untracked = bool(given.keys() & {"-u", "--include-untracked"})
    tracked = Layer(git.effects.files, dict(index.states), set(index.unsure))
    untracked: dict[str, FileState] = {}
    is_changed = False
    for path in git.touched(head):
        work, staged, old = git.work(path), index.get(path), head.get(path)
        if work is UNSURE or staged is UNSURE or old is UNSURE:
            raise Unsupported
        if staged is None and work is not None and old is not None:
            raise Unsupported  # removed from the index alone
        if staged is None and old is None:
            if work is not None and takes_untracked and not is_ignored(git.disk, path):
                untracked[path] = work
                is_changed = True
            continue
        is_changed = is_changed or staged != old or work != staged
        tracked.put(path, work)
    if not is_changed:
        return Result(True, None, False)
    entry = Stash(head.copy(), index.copy(), tracked, untracked, True)
    git.reset_hard(head)
    for path in untracked:
        git.set_work(path, None)
    if takes_untracked:
        _remove_empty(git, _tracked_folders(git), [""])
    git.versions.stash = [*git.versions.stash, entry]
    return Result(True, None, False)


def _pop(git: Git, drops: bool) -> Result:
    _, before, after = git.options("-q --quiet")
    if before not in ([], ["stash@{0}"]) or after:
        raise Unsupported
    if not _has_stash(git):
        if git.effects.has_run_programs:
            raise Unsupported
        return Result(False, None, False)
    git.need_index()
    entry = git.versions.stash[-1]
    index = git.versions.index
    if not entry.is_certain:
        raise Unsupported
    todo: list[tuple[str, Known]] = []
    for path in git.touched(entry.base, entry.tracked, entry.staged, git.head()):
        old, new = entry.base.get(path), entry.tracked.get(path)
        if old == new:
            continue
        staged, work = index.get(path), git.work(path)
        if staged is UNSURE or work is UNSURE or staged != git.head().get(path):
            raise Unsupported
        if staged == new:
            if work != staged:
                raise Unsupported
            continue  # the change is there already
        if staged != old:
            raise Unsupported  # texts are merged
        if work != staged:
            raise Unsupported
        todo.append((path, new))
    for path in git.touched(git.head()):
        if index.get(path) != git.head().get(path):
            raise Unsupported
    for path in entry.untracked:
        if git.work(path) is not None or git.effects.files.is_folder(path):
            raise Unsupported
    for path, state in todo:
        if isinstance(state, tuple) and git.effects.files.is_folder(path):
            raise Unsupported
    for path, state in todo:
        is_new = index.get(path) is None
        git.set_work(path, state)
        if is_new:
            index.put(path, state)
    for path, made in sorted(entry.untracked.items()):
        git.set_work(path, made)
    if drops:
        git.versions.stash = git.versions.stash[:-1]
    return Result(True, None, False)


def _tracked_folders(git: Git) -> set[str]:
    """The folders that hold tracked files."""
    found = {""}
    for path in git.tracked([""]):
        while "/" in path:
            path = path.rpartition("/")[0]
            found.add(path)
    return found


def _remove_empty(git: Git, tracked_folders: set[str], specs: list[str]) -> None:
    """Folders in a scope that hold nothing, and never held a tracked file, go."""
    for folder in sorted(git.effects.files.folders_below(""), reverse=True):
        is_empty = folder and folder not in tracked_folders and not git.effects.files.names(folder)
        if is_empty and is_in(folder, specs):
            git.disk.remove(folder)


def clean(git: Git) -> Result:
    """``git clean``."""
    given, before, after = git.options("-f --force -d -x -X -q --quiet -n --dry-run")
    named = git.specs([*before, *(after or [])])
    specs = named or git.specs(["."])
    if named:
        given["-d"] = ""  # files of a named folder go, however deep they lie
    if given.keys() & {"-n", "--dry-run"}:
        return Result(True, None, False)
    if not given.keys() & {"-f", "--force"}:
        return Result(False, None, False)
    git.need_index()
    tracked_folders = _tracked_folders(git)
    for path in git.touched():
        if path == EVERYTHING or not is_in(path, specs):
            continue
        tracked = git.is_tracked(path)
        folder = path.rpartition("/")[0]
        if tracked is not False or (folder not in tracked_folders and "-d" not in given and folder not in specs):
            continue
        if path in git.effects.unknown and git.effects.files.is_folder(path):
            continue
        ignored = is_ignored(git.disk, path)
        if ("-X" in given and not ignored) or (ignored and not given.keys() & {"-x", "-X"}):
            continue
        git.set_work(path, None)
    if "-d" in given and "-X" not in given:
        _remove_empty(git, tracked_folders, specs)
    is_all = {"-d", "-x"} <= given.keys() and specs == [""] and EVERYTHING in git.effects.unknown
    if is_all and not any(git.effects.is_unknown(path) for path in git.tracked([""])):
        del git.effects.unknown[EVERYTHING]
    return Result(True, None, False)


def apply(git: Git) -> Result:
    """``git apply``."""
    flags = "-R --reverse --check --stat --numstat --summary --cached --index --3way -3 -v --verbose -q"
    flags += " --whitespace=nowarn --whitespace=warn --allow-empty"
    given, before, after = git.options(flags, "-p --whitespace")
    if given.get("--whitespace", "nowarn") not in ("nowarn", "warn"):
        raise Unsupported
    if given.keys() & {"--check", "--stat", "--numstat", "--summary"}:
        return Result(None, None, False)
    files = [*before, *(after or [])]
    if len(files) > 1 or not given.get("-p", "1").isdecimal():
        raise Unsupported
    data: object = git.stdin
    if files and files != ["-"]:
        data = git.disk.read(git.machine.disk.locate(files[0], git.context))
        if data is None:
            return Result(False, None, False)
    if not isinstance(data, bytes):
        raise Unsupported
    strip = int(given.get("-p", "1"))
    root = msgspec.structs.replace(git.context, cwd="")
    text = data.decode("utf-8", "surrogateescape")
    patch = patch_of(text, strip, root, bool(given.keys() & {"-R", "--reverse"}))
    if not isinstance(patch, ApplyPatch) or git.context.cwd:
        raise Unsupported
    in_index = bool(given.keys() & {"--cached", "--index", "--3way", "-3"})
    if in_index:
        git.need_index()
    return _apply(
        git, patch, in_index=in_index, in_work="--cached" not in given, merges=bool(given.keys() & {"--3way", "-3"})
    )


def _apply(git: Git, patch: ApplyPatch, *, in_index: bool, in_work: bool, merges: bool) -> Result:
    places = {path: git.effects.files.locate(path, follow_last=False) for path in patch.paths}
    if None in places.values() or any(git.work(path) is UNSURE for path in patch.paths if in_work):
        raise Unsupported
    index = git.versions.index
    if in_index and any(index.get(path) is UNSURE for path in patch.paths):
        raise Unsupported
    if in_index and in_work and any(path in git.effects.files.differing for path in patch.paths):
        raise Unsupported  # git may take a file that was written for a changed one, whatever its text
    if in_index and in_work and any(index.get(path) != git.work(path) for path in patch.paths):
        return Result(None if merges else False, None, False)

    def read(path: str) -> bytes | None:
        state = index.get(path) if in_index else git.work(path)
        return state[1] if isinstance(state, tuple) else None

    try:
        changes = list(apply_patch(patch.text, read, patch.strip, is_reversed=patch.is_reversed))
    except Unknowable as reason:
        raise Unsupported from reason
    except Misfit as misfit:
        if merges:
            raise Unsupported from misfit
        if not re.search(r"error:|fatal:|patch failed", git.machine.text):
            git.machine.misfit = misfit
        return Result(False, None, False)
    last = {change.path: change for change in changes}
    made = {path: _changed(change, index.get if in_index else git.work) for path, change in last.items()}
    for path, state in sorted(made.items(), key=lambda item: item[1] is not None):
        if in_index:
            index.put(path, state)
        if in_work:
            git.set_work(path, state)
    return Result(True, None, False)


def _changed(change: Change, get: Callable[[str], Known]) -> Known:
    """The file after a change; its mode is the patch's, its own, or that of the file it was moved or copied from."""
    if change.data is None:
        return None
    old = get(change.path)
    origin = get(change.origin) if change.origin is not None else old
    kept = next((state[0] for state in (origin, old) if isinstance(state, tuple)), FILE)
    mode = change.mode or kept
    return (mode if mode in (FILE, EXECUTABLE, SYMLINK) else kept, change.data)


def replay(git: Git, *, reverses: bool) -> Result:
    """``git revert`` and ``git cherry-pick`` of known commits, where no texts are merged."""
    given, before, after = git.options("--no-edit -n --no-commit -x --allow-empty")
    if len(before) != 1 or after or ".." in before[0]:
        raise Unsupported
    git.need_index()
    commit = git.versions.resolve(before[0])
    parent = git.versions.parent(commit) if commit is not None else None
    if commit is None or parent is None:
        raise Unsupported
    old, new = git.versions.layer(parent), git.versions.layer(commit)
    if reverses:
        old, new = new, old
    index, head = git.versions.index, git.head()
    if any(index.get(path) != head.get(path) for path in git.touched(head)):
        raise Unsupported
    todo: list[tuple[str, Known]] = []
    for path in git.touched(old, new, head):
        if old.get(path) == new.get(path):
            continue
        if UNSURE in (old.get(path), new.get(path)) or index.get(path) != old.get(path):
            raise Unsupported
        if git.work(path) != index.get(path):
            raise Unsupported
        todo.append((path, new.get(path)))
    if not todo:
        raise Unsupported
    for path, state in sorted(todo, key=lambda item: item[1] is not None):
        index.put(path, state)
        git.set_work(path, state)
    if not given.keys() & {"-n", "--no-commit"}:
        git.versions.commit(amends=False)
    return Result(True, None, False)


def show(git: Git) -> Result:
    """``git show ref:path``: the file's bytes."""
    if len(git.words) != 1 or ":" not in git.words[0]:
        return Result(True, None, False)
    ref, _, path = git.words[0].partition(":")
    if not ref or path.startswith("./") or is_outside(path):
        return Result(None, None, False)
    commit = git.versions.resolve(ref)
    if commit is None:
        return Result(None, None, False)
    state = git.versions.layer(commit).get(path)
    if state is UNSURE:
        return Result(None, None, False)
    return Result(True, state[1]) if isinstance(state, tuple) else Result(None, None, False)


def branch(git: Git) -> Result:
    """``git branch``: a name made here has a place that is known."""
    plain = [word for word in git.words if not word.startswith("-")]
    if any(word in ("-m", "-M", "-f", "--force") for word in git.words):
        raise Unsupported
    if any(word in ("-d", "-D", "--delete") for word in git.words):
        for name in plain:
            git.versions.branches.pop(name, None)
        return Result(None, None, False)
    if len(plain) == len(git.words) and 1 <= len(plain) <= 2:
        commit = git.versions.resolve(plain[1] if len(plain) == 2 else "HEAD")
        if commit is not None and plain[0] not in git.versions.branches:
            git.versions.branches[plain[0]] = commit
        return Result(None, b"", False)
    return Result(True, None, False)
