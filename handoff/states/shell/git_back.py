"""``git checkout``, ``restore``, ``switch`` and ``reset``: files, index and HEAD set to what they were."""

from __future__ import annotations

import re

from handoff.actions.paths import is_outside, resolve
from handoff.states.shell.disk import Place
from handoff.states.shell.gitcall import Git, is_magic
from handoff.states.shell.ignored import is_ignored
from handoff.states.shell.machine import Result, Status, Unsupported
from handoff.states.versions import UNSURE, Known, Layer


def checkout(git: Git) -> Result:
    """``git checkout``."""
    flags = "-f --force -q --quiet --detach --no-track -t --track --progress --no-progress --ours --theirs"
    given, before, after = git.options(flags, "-b -B --orphan")
    if given.keys() & {"--orphan", "-B", "--ours", "--theirs", "-t", "--track"}:
        raise Unsupported
    is_forced = bool(given.keys() & {"-f", "--force"})
    if "-b" in given:
        if len(before) > 1 or after:
            raise Unsupported
        return _switch(git, before[0] if before else "HEAD", given["-b"], is_forced)
    if after is not None and after:
        if len(before) > 1:
            raise Unsupported
        return _paths_from(git, before[0] if before else None, git.specs(after))
    if not before:
        if is_forced:
            git.need_index()
            git.reset_hard(git.head())
        return Result(True, None, False)
    first = before[0]
    is_ref = _is_ref(git, first)
    if is_ref is None:
        raise Unsupported
    if is_ref and (after is None or len(before) == 1) and len(before) == 1:
        return _switch(git, first, None, is_forced)
    if is_ref:
        return _paths_from(git, first, git.specs(before[1:]))
    return _paths_from(git, None, git.specs(before))


def _is_ref(git: Git, text: str) -> bool | None:
    """Whether git takes a word for a commit rather than a path."""
    if text in ("HEAD", "-", "@") or git.versions.resolve(text) is not None:
        return True
    if re.fullmatch(r"(?:HEAD|@)[~^].*|[0-9a-f]{7,40}(?:[~^].*)?|.*@\{.*", text):
        return None
    path = resolve(text, git.context)
    is_path = path == "." or is_outside(path) or git.matches(path) or is_magic(path)
    return False if is_path else None


def _paths_from(git: Git, ref: str | None, specs: list[str]) -> Result:
    """``git checkout [ref] -- paths``."""
    if ref is None:
        if git.versions.doubt:
            git.forget(specs, "restored from an index that is not known")
            return Result(None, None, False)
        status = git.restore_from(git.versions.index.copy(), specs, index=False, work=True, removes=False)
        return Result(status, None, False)
    commit = git.versions.resolve(ref)
    if commit is None:
        git.forget(specs, f"restored from {ref}, whose content is not known")
        for spec in specs:
            git.versions.index.put(spec, UNSURE)
        return Result(None, None, False)
    layer = git.versions.layer(commit)
    return Result(git.restore_from(layer, specs, index=True, work=True, removes=False), None, False)


def restore(git: Git) -> Result:
    """``git restore``."""
    given, before, after = git.options("-S --staged -W --worktree -q --quiet", "-s --source")
    specs = git.specs([*before, *(after or [])])
    staged = bool(given.keys() & {"-S", "--staged"})
    work = bool(given.keys() & {"-W", "--worktree"}) or not staged
    ref = given.get("-s", given.get("--source"))
    if not specs:
        return Result(False)
    if ref is None and not staged:
        layer: Layer | None = None if git.versions.doubt else git.versions.index.copy()
    else:
        commit = git.versions.resolve(ref or "HEAD")
        layer = None if commit is None else git.versions.layer(commit)
    if layer is None:
        if work:
            git.forget(specs, "restored from what is not known")
        if staged:
            git.versions.lose("restored from what is not known")
        return Result(None, None, False)
    return Result(git.restore_from(layer, specs, index=staged, work=work, removes=True), None, False)


def switch(git: Git) -> Result:
    """``git switch``."""
    given, before, after = git.options("-f --force --discard-changes -q --quiet -d --detach", "-c --create")
    name = given.get("-c", given.get("--create"))
    if after or len(before) > 1 or (not before and name is None):
        raise Unsupported
    ref = before[0] if before else "HEAD"
    return _switch(git, ref, name, bool(given.keys() & {"-f", "--force", "--discard-changes"}))


def _switch(git: Git, ref: str, new_branch: str | None, is_forced: bool) -> Result:
    """Another commit, local changes kept where it is the same."""
    if new_branch is not None and new_branch in git.versions.branches:
        return Result(False, None, False)
    before = (git.versions.head, git.versions.branch)
    branch = new_branch
    if ref == "-":
        if git.versions.previous is None:
            raise Unsupported
        commit, branch = git.versions.previous
        commit = git.versions.branches.get(branch, commit) if branch else commit
    else:
        found = git.versions.resolve(ref)
        if found is None:
            raise Unsupported
        commit = found
        if ref in git.versions.branches and new_branch is None:
            branch = ref
    if ref in ("HEAD", "@") and new_branch is None and not is_forced:
        return Result(True, None, False)
    if not (ref == "HEAD" and new_branch is not None):
        status = _move_tree(git, git.versions.layer(commit), is_forced)
        if status is not True:
            return Result(status, None, False)
    git.versions.previous = before
    git.versions.head, git.versions.branch = commit, branch
    if new_branch is not None:
        git.versions.branches[new_branch] = commit
    return Result(True, None, False)


def _move_tree(git: Git, target: Layer, is_forced: bool) -> Status:
    """Work tree and index from HEAD to another commit; False: local changes are in the way, nothing happens."""
    head, index = git.head(), git.versions.index
    if git.versions.doubt or target.unsure or head.unsure:
        raise Unsupported
    if is_forced:
        git.reset_hard(target)
        return True
    todo: list[tuple[str, Known]] = []
    for path in git.touched(head, target):
        old, new = head.get(path), target.get(path)
        if old == new:
            continue
        staged, work = index.get(path), git.work(path)
        if staged is UNSURE or work is UNSURE:
            raise Unsupported
        if staged == new:
            continue  # the index already has it, and the file is left alone
        if staged != old:
            return False
        if work not in (staged, None):  # a file that is not there is no change that git minds
            if staged is None and work is not None and is_ignored(git.disk, path):
                raise Unsupported
            if not (staged is None and work == new):
                return False
        todo.append((path, new))
    for path, state in todo:
        if isinstance(state, tuple) and git.effects.files.is_folder(path):
            raise Unsupported
    for path, state in sorted(todo, key=lambda item: item[1] is not None):
        index.put(path, state)
        git.set_work(path, state)
    return True


def reset(git: Git) -> Result:
    """``git reset``."""
    given, before, after = git.options("--soft --mixed --hard -q --quiet -N")
    ref, specs = "HEAD", list(after or [])
    if before and (_is_ref(git, before[0]) or after is not None):
        ref, before = before[0], before[1:]
    elif before and _is_ref(git, before[0]) is None and len(before) == 1:
        ref, before = before[0], []
    if after is None:  # a word that is neither a commit nor a file that is there is refused
        for path in git.specs(before):
            kind = git.disk.kind(Place(path))
            if kind == "unknown":
                raise Unsupported
            if kind == "none" and not is_magic(path):
                return Result(False, None, False)
    specs = git.specs([*before, *specs])
    commit = git.versions.resolve(ref)
    modes = given.keys() & {"--soft", "--mixed", "--hard"}
    if commit is None:
        if specs:
            for spec in specs:
                git.versions.index.put(spec, UNSURE)
            return Result(None, None, False)
        if "--hard" in modes:
            git.forget([""], f"reset to {ref}, whose content is not known")
        git.versions.lose(f"reset to {ref}")
        return Result(None, None, False)
    layer = git.versions.layer(commit)
    if specs:
        if modes:
            return Result(False, None, False)
        status = git.restore_from(layer, specs, index=True, work=False, removes=True)
        return Result(True if status is False and after is not None else status, None, False)
    if "--hard" in modes:
        git.reset_hard(layer)
    elif "--soft" not in modes:
        git.versions.index = layer.copy()
    git.versions.move_head(commit)
    return Result(True, None, False)
