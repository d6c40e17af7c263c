"""``git add``, ``commit``, ``rm`` and ``mv``: what they do to index, HEAD and files."""

from __future__ import annotations

import re

from handoff.git.objects import SYMLINK
from handoff.states.shell.attributes import is_stored_otherwise
from handoff.states.shell.gitcall import Git, is_in, is_magic, meets
from handoff.states.shell.ignored import is_ignored
from handoff.states.shell.streams import Result, Unsupported
from handoff.states.versions import EVERYTHING, UNSURE


def add(git: Git) -> Result:
    """``git add``."""
    given, before, after = git.options("-A --all -u --update -f --force -v --verbose --no-all --ignore-removal")
    specs = git.specs([*before, *(after or [])])
    updates = bool(given.keys() & {"-u", "--update"})
    takes_all = bool(given.keys() & {"-A", "--all"})
    if not specs:
        if not takes_all and not updates:
            return Result(True, b"", False)
        specs = [""]
    if git.effects.versions.doubt:
        return Result(None, b"", False)
    is_forced = bool(given.keys() & {"-f", "--force"})
    for spec in specs:
        if not git.matches(spec):
            return Result(False)
        if spec and not is_magic(spec) and not is_forced and not git.is_tracked(spec) and is_ignored(git.disk, spec):
            git.versions.lose("git add of an ignored file")
            return Result(None)
    stage(git, specs, is_forced=is_forced, updates=updates)
    return Result(True, b"", False)


def stage(git: Git, specs: list[str], *, is_forced: bool = False, updates: bool = False) -> None:
    """The index takes the files of the work tree."""
    index = git.versions.index
    for path in git.touched():
        if not meets(path, specs):
            continue
        state = git.work(path)
        if git.effects.files.is_folder(path) and state is not UNSURE:
            state, is_folder = None, False
        is_folder = path == EVERYTHING or git.effects.files.is_folder(path)
        if (
            not is_folder
            and git.is_tracked(path) is False
            and (updates or (not is_forced and is_ignored(git.disk, path)))
        ):
            continue
        if isinstance(state, tuple) and state[0] != SYMLINK and is_stored_otherwise(git.disk, path, state[1]):
            state = UNSURE
        index.put(path, state)


def commit(git: Git) -> Result:
    """``git commit``."""
    flags = "-a --all --amend --no-edit --allow-empty --allow-empty-message -q --quiet -n --no-verify -v -s --signoff"
    valued = "-m --message -F --file --author --date --no-gpg-sign -C --reuse-message"
    given, before, after = git.options(flags, valued)
    if before or after:
        raise Unsupported
    if git.versions.doubt:
        return Result(None, None, False)
    staged = git.versions.index.copy()
    if given.keys() & {"-a", "--all"}:
        stage(git, [""], updates=True)
    amends = "--amend" in given
    index, head = git.versions.index, git.head()
    same = [git.same(index.get(path), head.get(path)) for path in git.touched(head)]
    is_empty = not amends and "--allow-empty" not in given
    text = git.machine.text
    if is_empty and all(item is True for item in same):
        return Result(False, None, False)
    if re.search(r"tell me who you are|auto-detect email", text):
        status = False
    elif re.search(r"^ ?\[\S.{0,200} [0-9a-f]{5,40}\]", text, re.M):
        status = True
    else:
        status = git.machine.decided(None, "git commit")
    if not status:
        git.versions.index = staged
        return Result(False, None, False)
    git.versions.commit(amends=amends)
    return Result(True, None, False)


def rm(git: Git) -> Result:
    """``git rm``."""
    given, before, after = git.options("-r -f --force --cached -q --quiet --ignore-unmatch")
    specs = git.specs([*before, *(after or [])])
    git.need_index()
    index, head = git.versions.index, git.head()
    tracked = git.tracked(specs)
    for spec in specs:
        inside = [path for path in tracked if is_in(path, [spec])]
        if not inside and "--ignore-unmatch" not in given:
            return Result(False, None, False)
        if any(path != spec for path in inside) and not is_magic(spec) and "-r" not in given:
            return Result(False, None, False)
    if not given.keys() & {"-f", "--force"}:
        for path in tracked:
            state = index.get(path)
            is_clean = git.same(state, git.work(path)) if git.work(path) is not None else True
            is_base = git.same(state, head.get(path))
            if "--cached" in given and (is_clean or is_base):
                continue
            if is_clean is None or is_base is None:
                raise Unsupported
            if not is_clean or not is_base:
                return Result(False, None, False)
    for path in tracked:
        index.put(path, None)
        if "--cached" not in given and git.work(path) is not None:
            git.set_work(path, None)
    return Result(True, None, False)


def mv(git: Git) -> Result:
    """``git mv``."""
    given, before, after = git.options("-f --force -k -v --verbose")
    words = [*before, *(after or [])]
    git.need_index()
    if len(words) < 2 or "-k" in given:
        raise Unsupported
    *sources, target = git.specs(words)
    is_into = git.effects.files.is_folder(target)
    if len(sources) > 1 and not is_into:
        return Result(False, None, False)
    if words[-1].endswith("/") and not is_into:
        raise Unsupported
    moves: list[tuple[str, str]] = []
    for source in sources:
        end = f"{target}/{source.rsplit('/', 1)[-1]}".lstrip("/") if is_into else target
        tracked = git.tracked([source])
        if not tracked or not source:
            return Result(False, None, False)
        parent = end.rpartition("/")[0]
        if git.effects.is_unknown(end) or git.effects.is_unknown(source):
            raise Unsupported
        if parent and not git.effects.files.is_folder(parent):
            return Result(False, None, False)
        if end == source or end.startswith(f"{source}/"):
            return Result(False, None, False)
        if git.effects.files.is_folder(end) or (git.effects.files.exists(end) and source not in tracked):
            return Result(False, None, False)
        if git.effects.files.exists(end) and not given.keys() & {"-f", "--force"}:
            return Result(False, None, False)
        if not git.effects.files.exists(source) and not git.effects.files.is_folder(source):
            return Result(False, None, False)
        moves.append((source, end))
    if len({end for _, end in moves}) < len(moves):
        return Result(False, None, False)
    index = git.versions.index
    for source, end in moves:
        for path in git.tracked([source]):
            state = index.get(path)
            index.put(path, None)
            index.put(end + path[len(source) :], state)
        states = [(path, git.work(path)) for path in ([source] if git.effects.files.exists(source) else [])]
        states += [(path, git.work(path)) for path in git.disk.below(source)]
        folders = git.effects.files.folders_below(source)
        git.disk.remove(source)
        for folder in folders:
            git.effects.files.make_folder(end + folder[len(source) :])
        for path, state in states:
            git.disk.set_state(end + path[len(source) :], state, "git mv")
    return Result(True, None, False)
