"""``git`` commands carried out on work tree, index, HEAD and stash (``states.versions``).

A command line that is not understood, or that merges texts, leaves HEAD and index unknown, and forgets the files that
it may have written. Nothing here asks for more of the repository's history than a run could name: commits by their id,
and the ancestors of the base.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from handoff.actions.operations import ApplyPatch
from handoff.actions.paths import Context, is_outside, resolve
from handoff.actions.programs.editors import patch_of
from handoff.states.editors import Misfit
from handoff.states.objects import EXECUTABLE, FILE
from handoff.states.patches import Change, apply_patch
from handoff.states.shell.disk import Place
from handoff.states.shell.ignored import glob_pattern, is_ignored
from handoff.states.shell.machine import Builtin, Machine, Result, Status, Streams, Unsupported
from handoff.states.shell.words import Arg
from handoff.states.versions import EVERYTHING, UNSURE, Known, Layer, Stash

_READING = frozenset(
    """status log diff show branch tag remote config rev-parse ls-files ls-tree grep blame shortlog describe reflog
    cat-file rev-list name-rev show-ref for-each-ref merge-base check-ignore version help fsck count-objects
    diff-tree diff-index diff-files whatchanged archive bundle format-patch var symbolic-ref hash-object fetch
    difftool notes gc prune update-index push init worktree""".split()
)
"""Commands that leave the files, the index and HEAD alone, or as good as."""
_WRITING_FORMS = {
    "branch": ("-m", "-M", "-f", "--force"),
    "reflog": ("expire", "delete"),
    "update-index": (),
    "init": (),
    "worktree": (),
    "archive": ("-o", "--output"),
    "format-patch": (),
}


class Git:
    """One command, its folder known."""

    def __init__(self, machine: Machine, context: Context, words: list[str], stdin: bytes | None) -> None:
        self.machine = machine
        self.disk = machine.disk
        self.effects = machine.effects
        self.versions = machine.effects.versions
        self.context = context
        self.words = words
        """The words after the command's name."""
        self.stdin = stdin

    # -- arguments ------------------------------------------------------------------------------

    def options(self, flags: str, valued: str = "") -> tuple[dict[str, str], list[str], list[str] | None]:
        """Options (with values), the other words before ``--``, and those after it. ``Unsupported``: another one."""
        known, with_value = flags.split(), valued.split()
        given: dict[str, str] = {}
        before: list[str] = []
        after: list[str] | None = None
        rest = list(self.words)
        while rest:
            text = rest.pop(0)
            if text == "--":
                after = rest
                break
            name, equals, value = text.partition("=")
            if not text.startswith("-") or text == "-":
                before.append(text)
            elif text in known:
                given[text] = ""
            elif name in with_value and equals:
                given[name] = value
            elif text in with_value and rest:
                given[text] = rest.pop(0)
            elif text[:2] in with_value and text[:2] != "--":
                given[text[:2]] = text[2:]
            elif re.fullmatch(r"-[A-Za-z]{2,}", text) and all(f"-{c}" in known for c in text[1:-1]):
                given |= {f"-{c}": "" for c in text[1:-1]}
                rest.insert(0, f"-{text[-1]}")
            else:
                raise Unsupported
        return given, before, after

    def specs(self, texts: Iterable[str]) -> list[str]:
        """Path specifications, relative to the repository."""
        found: list[str] = []
        for text in texts:
            if text.startswith(":") or not text:
                raise Unsupported
            path = resolve(text, self.context)
            folder = path.rpartition("/")[0]
            if is_outside(path) or (folder and self.effects.files.locate(folder) != folder):
                raise Unsupported
            found.append("" if path == "." else path)
        return found

    def touched(self, *layers: Layer) -> list[str]:
        """Every path where work tree, index or one of ``layers`` may differ from the base; folders first."""
        found = {*self.effects.files.differing, *self.effects.unknown, *self.versions.index.touched()}
        for layer in layers:
            found |= layer.touched()
        return sorted(found)

    def work(self, path: str) -> Known:
        """The file in the work tree."""
        return self.disk.state(path)

    def set_work(self, path: str, state: Known) -> None:
        """What git leaves of a file in the work tree."""
        if path == EVERYTHING or (state is UNSURE and self.effects.files.is_folder(path)):
            self.effects.forget_place(path, "set to what is not known")
            return
        if isinstance(state, tuple) and self.effects.files.is_folder(path):
            self.disk.remove(path)
        if isinstance(state, tuple):
            parts = path.split("/")
            for length in range(1, len(parts)):
                above = "/".join(parts[:length])
                if self.effects.files.exists(above):
                    self.disk.remove(above)
        self.disk.set_state(path, state, "set to what is not known")
        if state is None:
            self.effects.files.prune(path)

    def head(self) -> Layer:
        """The tree of HEAD."""
        return self.versions.head_layer()

    def is_tracked(self, path: str) -> bool | None:
        """Whether the index holds the file."""
        state = self.versions.index.get(path)
        return None if state is UNSURE else state is not None

    def same(self, a: Known, b: Known) -> bool | None:
        """Whether two files are the same; ``None``: one is not known."""
        return None if a is UNSURE or b is UNSURE else a == b

    def matches(self, spec: str) -> bool:
        """Whether a tracked file, or one that could be, matches; wrong only for what nothing touched."""
        if spec == "" or self.effects.files.exists(spec) or self.effects.files.is_folder(spec):
            return True
        if self.is_tracked(spec) is not False or any(path.startswith(f"{spec}/") for path in self.touched()):
            return True
        return _is_magic(spec) and any(_in(path, [spec]) for path in self.every_file())

    def every_file(self) -> list[str]:
        """Every file of the work tree or the index."""
        inside = {path for path in self.versions.index.states if self.versions.index.states[path] is not None}
        return sorted({*self.disk.below(""), *inside})

    # -- add, commit ----------------------------------------------------------------------------

    def add(self) -> Result:
        """``git add``."""
        given, before, after = self.options("-A --all -u --update -f --force -v --verbose --no-all --ignore-removal")
        specs = self.specs([*before, *(after or [])])
        updates = bool(given.keys() & {"-u", "--update"})
        takes_all = bool(given.keys() & {"-A", "--all"})
        if not specs:
            if not takes_all and not updates:
                return Result(True, b"", False)
            specs = [""]
        if self.effects.versions.doubt:
            return Result(None, b"", False)
        is_forced = bool(given.keys() & {"-f", "--force"})
        for spec in specs:
            if not self.matches(spec):
                return Result(False)
            if (
                spec
                and not _is_magic(spec)
                and not is_forced
                and not self.is_tracked(spec)
                and is_ignored(self.disk, spec)
            ):
                self.versions.lose("git add of an ignored file")
                return Result(None)
        self.stage(specs, is_forced=is_forced, updates=updates)
        return Result(True, b"", False)

    def stage(self, specs: list[str], *, is_forced: bool = False, updates: bool = False) -> None:
        """The index takes the files of the work tree."""
        index = self.versions.index
        for path in self.touched():
            if path != EVERYTHING and not _in(path, specs) and not any(spec.startswith(f"{path}/") for spec in specs):
                continue
            state = self.work(path)
            if self.effects.files.is_folder(path) and state is not UNSURE:
                state, is_folder = None, False
            is_folder = path == EVERYTHING or self.effects.files.is_folder(path)
            if (
                not is_folder
                and self.is_tracked(path) is False
                and (updates or (not is_forced and is_ignored(self.disk, path)))
            ):
                continue
            index.put(path, state)

    def commit(self) -> Result:
        """``git commit``."""
        flags = (
            "-a --all --amend --no-edit --allow-empty --allow-empty-message -q --quiet -n --no-verify -v -s --signoff"
        )
        valued = "-m --message -F --file --author --date --no-gpg-sign -C --reuse-message"
        given, before, after = self.options(flags, valued)
        if before or after:
            raise Unsupported
        if self.versions.doubt:
            return Result(None, None, False)
        staged = self.versions.index.copy()
        if given.keys() & {"-a", "--all"}:
            self.stage([""], updates=True)
        amends = "--amend" in given
        index, head = self.versions.index, self.head()
        same = [self.same(index.get(path), head.get(path)) for path in self.touched(head)]
        is_empty = not amends and "--allow-empty" not in given
        text = self.machine.text
        if is_empty and all(item is True for item in same):
            return Result(False, None, False)
        if re.search(r"tell me who you are|auto-detect email", text):
            status = False
        elif re.search(r"^ ?\[\S.{0,200} [0-9a-f]{5,40}\]", text, re.M):
            status = True
        else:
            status = self.machine.decided(None, "git commit")
        if not status:
            self.versions.index = staged
            return Result(False, None, False)
        self.versions.commit(amends=amends)
        return Result(True, None, False)

    # -- removing, moving -----------------------------------------------------------------------

    def rm(self) -> Result:
        """``git rm``."""
        given, before, after = self.options("-r -f --force --cached -q --quiet --ignore-unmatch")
        specs = self.specs([*before, *(after or [])])
        self._need_index()
        index, head = self.versions.index, self.head()
        tracked = self._tracked(specs)
        for spec in specs:
            inside = [path for path in tracked if _in(path, [spec])]
            if not inside and "--ignore-unmatch" not in given:
                return Result(False, None, False)
            if any(path != spec for path in inside) and not _is_magic(spec) and "-r" not in given:
                return Result(False, None, False)
        if not given.keys() & {"-f", "--force"}:
            for path in tracked:
                state = index.get(path)
                is_clean = self.same(state, self.work(path)) if self.work(path) is not None else True
                is_base = self.same(state, head.get(path))
                if "--cached" in given and (is_clean or is_base):
                    continue
                if is_clean is None or is_base is None:
                    raise Unsupported
                if not is_clean or not is_base:
                    return Result(False, None, False)
        for path in tracked:
            index.put(path, None)
            if "--cached" not in given and self.work(path) is not None:
                self.set_work(path, None)
        return Result(True, None, False)

    def _tracked(self, specs: list[str]) -> list[str]:
        """Tracked files in a scope."""
        base = (path for path in self._base_files(specs) if self.versions.index.get(path) is not None)
        own = (path for path in self.versions.index.states if self.versions.index.states[path] is not None)
        return sorted({*base, *(path for path in own if _in(path, specs))})

    def _base_files(self, specs: list[str]) -> list[str]:
        repository = self.versions.repository
        found = repository.files(self.effects.files.base_tree)
        return [path for path, entry in found.items() if _in(path, specs) and entry[0] != "160000"]

    def _need_index(self) -> None:
        if self.versions.doubt or EVERYTHING in self.versions.index.unsure:
            raise Unsupported

    def mv(self) -> Result:
        """``git mv``."""
        given, before, after = self.options("-f --force -k -v --verbose")
        words = [*before, *(after or [])]
        self._need_index()
        if len(words) < 2 or "-k" in given:
            raise Unsupported
        *sources, target = self.specs(words)
        is_into = self.effects.files.is_folder(target)
        if len(sources) > 1 and not is_into:
            return Result(False, None, False)
        if words[-1].endswith("/") and not is_into:
            raise Unsupported
        moves: list[tuple[str, str]] = []
        for source in sources:
            end = f"{target}/{source.rsplit('/', 1)[-1]}".lstrip("/") if is_into else target
            tracked = self._tracked([source])
            if not tracked or not source:
                return Result(False, None, False)
            parent = end.rpartition("/")[0]
            if self.effects.is_unknown(end) or self.effects.is_unknown(source):
                raise Unsupported
            if parent and not self.effects.files.is_folder(parent):
                return Result(False, None, False)
            if end == source or end.startswith(f"{source}/"):
                return Result(False, None, False)
            if self.effects.files.is_folder(end) or (self.effects.files.exists(end) and source not in tracked):
                return Result(False, None, False)
            if self.effects.files.exists(end) and not given.keys() & {"-f", "--force"}:
                return Result(False, None, False)
            if not self.effects.files.exists(source) and not self.effects.files.is_folder(source):
                return Result(False, None, False)
            moves.append((source, end))
        if len({end for _, end in moves}) < len(moves):
            return Result(False, None, False)
        index = self.versions.index
        for source, end in moves:
            for path in self._tracked([source]):
                state = index.get(path)
                index.put(path, None)
                index.put(end + path[len(source) :], state)
            states = [(path, self.work(path)) for path in ([source] if self.effects.files.exists(source) else [])]
            states += [(path, self.work(path)) for path in self.disk.below(source)]
            folders = self.effects.files.folders_below(source)
            self.disk.remove(source)
            for folder in folders:
                self.effects.files.make_folder(end + folder[len(source) :])
            for path, state in states:
                self.disk.set_state(end + path[len(source) :], state, "git mv")
        return Result(True, None, False)

    # -- going back -----------------------------------------------------------------------------

    def restore_from(self, layer: Layer, specs: list[str], *, index: bool, work: bool, removes: bool) -> Status:
        """Set files of a scope to ``layer``. ``removes``: tracked files that it lacks go. False: nothing matched."""
        if not all(self._holds(layer, spec) or (removes and self._holds(self.versions.index, spec)) for spec in specs):
            return False
        paths = [path for path in self.touched(layer) if path == EVERYTHING or _in(path, specs)]
        is_all_sure = not layer.unsure
        for path in paths:
            state = layer.get(path) if path != EVERYTHING else (None if is_all_sure else UNSURE)
            is_known_folder = path != EVERYTHING and self._is_base_folder(path)
            if path == EVERYTHING or is_known_folder:
                self._restore_folder(path, layer, index=index, work=work)
                continue
            if state is None and not removes:
                continue
            tracked = self.is_tracked(path)
            if state is None and tracked is False:
                continue
            if work:
                self.set_work(path, state)
            if index:
                self.versions.index.put(path, state)
        return True

    def _holds(self, layer: Layer, spec: str) -> bool:
        """Whether a tree holds, or may hold, a file of a scope."""
        if spec == "":
            return True
        own = (path for path in layer.touched() if _in(path, [spec]))
        return any(layer.get(path) is not None for path in own) or any(
            layer.get(path) is not None for path in self._base_files([spec])
        )

    def _is_base_folder(self, path: str) -> bool:
        entry = self.versions.repository.entry(self.effects.files.base_tree, path)
        return entry is not None and entry[0] == "40000"

    def _restore_folder(self, folder: str, layer: Layer, *, index: bool, work: bool) -> None:
        """A folder of which nothing is known: its tracked files are those of ``layer`` again."""
        for path in self._base_files([folder]):
            state = layer.get(path)
            if work and state is not None and self.effects.is_unknown(path):
                self.set_work(path, state)
            if index and state is not UNSURE:
                self.versions.index.states[path] = state
        if index and self.versions.index.unsure and not layer.unsure:
            self.versions.index = Layer(self.effects.files, dict(layer.states), set())

    def checkout(self) -> Result:
        """``git checkout``."""
        flags = "-f --force -q --quiet --detach --no-track -t --track --progress --no-progress --ours --theirs"
        given, before, after = self.options(flags, "-b -B --orphan")
        if given.keys() & {"--orphan", "-B", "--ours", "--theirs", "-t", "--track"}:
            raise Unsupported
        is_forced = bool(given.keys() & {"-f", "--force"})
        if "-b" in given:
            if len(before) > 1 or after:
                raise Unsupported
            return self._switch(before[0] if before else "HEAD", given["-b"], is_forced)
        if after is not None and after:
            if len(before) > 1:
                raise Unsupported
            return self._paths_from(before[0] if before else None, self.specs(after))
        if not before:
            if is_forced:
                self._need_index()
                self._reset_hard(self.head())
            return Result(True, None, False)
        first = before[0]
        is_ref = self._is_ref(first)
        if is_ref is None:
            raise Unsupported
        if is_ref and (after is None or len(before) == 1) and len(before) == 1:
            return self._switch(first, None, is_forced)
        if is_ref:
            return self._paths_from(first, self.specs(before[1:]))
        return self._paths_from(None, self.specs(before))

    def _is_ref(self, text: str) -> bool | None:
        """Whether git takes a word for a commit rather than a path."""
        if text in ("HEAD", "-", "@") or self.versions.resolve(text) is not None:
            return True
        if re.fullmatch(r"(?:HEAD|@)[~^].*|[0-9a-f]{7,40}(?:[~^].*)?|.*@\{.*", text):
            return None
        path = resolve(text, self.context)
        is_path = path == "." or is_outside(path) or self.matches(path) or _is_magic(path)
        return False if is_path else None

    def _paths_from(self, ref: str | None, specs: list[str]) -> Result:
        """``git checkout [ref] -- paths``."""
        if ref is None:
            if self.versions.doubt:
                self._forget(specs, "restored from an index that is not known")
                return Result(None, None, False)
            status = self.restore_from(self.versions.index.copy(), specs, index=False, work=True, removes=False)
            return Result(status, None, False)
        commit = self.versions.resolve(ref)
        if commit is None:
            self._forget(specs, f"restored from {ref}, whose content is not known")
            for spec in specs:
                self.versions.index.put(spec, UNSURE)
            return Result(None, None, False)
        layer = self.versions.layer(commit)
        return Result(self.restore_from(layer, specs, index=True, work=True, removes=False), None, False)

    def _forget(self, specs: list[str], reason: str) -> None:
        for spec in specs:
            if spec == "":
                for path in self.touched():
                    if path and self.is_tracked(path) is not False:
                        self.effects.forget_place(path, reason)
                self.effects.forget_place("", reason)
            else:
                self.effects.forget_place("" if _is_magic(spec) else spec, reason)

    def restore(self) -> Result:
        """``git restore``."""
        given, before, after = self.options("-S --staged -W --worktree -q --quiet", "-s --source")
        specs = self.specs([*before, *(after or [])])
        staged = bool(given.keys() & {"-S", "--staged"})
        work = bool(given.keys() & {"-W", "--worktree"}) or not staged
        ref = given.get("-s", given.get("--source"))
        if not specs:
            return Result(False)
        if ref is None and not staged:
            layer: Layer | None = None if self.versions.doubt else self.versions.index.copy()
        else:
            commit = self.versions.resolve(ref or "HEAD")
            layer = None if commit is None else self.versions.layer(commit)
        if layer is None:
            if work:
                self._forget(specs, "restored from what is not known")
            if staged:
                self.versions.lose("restored from what is not known")
            return Result(None, None, False)
        return Result(self.restore_from(layer, specs, index=staged, work=work, removes=True), None, False)

    def switch(self) -> Result:
        """``git switch``."""
        given, before, after = self.options("-f --force --discard-changes -q --quiet -d --detach", "-c --create")
        name = given.get("-c", given.get("--create"))
        if after or len(before) > 1 or (not before and name is None):
            raise Unsupported
        ref = before[0] if before else "HEAD"
        return self._switch(ref, name, bool(given.keys() & {"-f", "--force", "--discard-changes"}))

    def _switch(self, ref: str, new_branch: str | None, is_forced: bool) -> Result:
        """Another commit, local changes kept where it is the same."""
        if new_branch is not None and new_branch in self.versions.branches:
            return Result(False, None, False)
        before = (self.versions.head, self.versions.branch)
        branch = new_branch
        if ref == "-":
            if self.versions.previous is None:
                raise Unsupported
            commit, branch = self.versions.previous
            commit = self.versions.branches.get(branch, commit) if branch else commit
        else:
            found = self.versions.resolve(ref)
            if found is None:
                raise Unsupported
            commit = found
            if ref in self.versions.branches and new_branch is None:
                branch = ref
        if ref in ("HEAD", "@") and new_branch is None and not is_forced:
            return Result(True, None, False)
        if not (ref == "HEAD" and new_branch is not None):
            status = self._move_tree(self.versions.layer(commit), is_forced)
            if status is not True:
                return Result(status, None, False)
        self.versions.previous = before
        self.versions.head, self.versions.branch = commit, branch
        if new_branch is not None:
            self.versions.branches[new_branch] = commit
        return Result(True, None, False)

    def _move_tree(self, target: Layer, is_forced: bool) -> Status:
        """Work tree and index from HEAD to another commit; False: local changes are in the way, nothing happens."""
        head, index = self.head(), self.versions.index
        if self.versions.doubt or target.unsure or head.unsure:
            raise Unsupported
        if is_forced:
            self._reset_hard(target)
            return True
        todo: list[tuple[str, Known]] = []
        for path in self.touched(head, target):
            old, new = head.get(path), target.get(path)
            if old == new:
                continue
            staged, work = index.get(path), self.work(path)
            if staged is UNSURE or work is UNSURE:
                raise Unsupported
            if staged == new:
                continue  # the index already has it, and the file is left alone
            if staged != old:
                return False
            if work != staged and not (new is None and work is None):
                if staged is None and work is not None and is_ignored(self.disk, path):
                    raise Unsupported
                if not (staged is None and work == new):
                    return False
            todo.append((path, new))
        for path, state in todo:
            if isinstance(state, tuple) and self.effects.files.is_folder(path):
                raise Unsupported
        for path, state in sorted(todo, key=lambda item: item[1] is not None):
            index.put(path, state)
            self.set_work(path, state)
        return True

    def reset(self) -> Result:
        """``git reset``."""
        given, before, after = self.options("--soft --mixed --hard -q --quiet -N")
        ref, specs = "HEAD", list(after or [])
        if before and (self._is_ref(before[0]) or after is not None):
            ref, before = before[0], before[1:]
        elif before and self._is_ref(before[0]) is None and len(before) == 1:
            ref, before = before[0], []
        specs = self.specs([*before, *specs])
        commit = self.versions.resolve(ref)
        modes = given.keys() & {"--soft", "--mixed", "--hard"}
        if commit is None:
            if specs:
                for spec in specs:
                    self.versions.index.put(spec, UNSURE)
                return Result(None, None, False)
            if "--hard" in modes:
                self._forget([""], f"reset to {ref}, whose content is not known")
            self.versions.lose(f"reset to {ref}")
            return Result(None, None, False)
        layer = self.versions.layer(commit)
        if specs:
            if modes:
                return Result(False, None, False)
            status = self.restore_from(layer, specs, index=True, work=False, removes=True)
            return Result(True if status is False and after is not None else status, None, False)
        if "--hard" in modes:
            self._reset_hard(layer)
        elif "--soft" not in modes:
            self.versions.index = layer.copy()
        self.versions.move_head(commit)
        return Result(True, None, False)

    def _reset_hard(self, layer: Layer) -> None:
        index, head = self.versions.index, self.head()
        for path in self.touched(layer, head):
            if path == EVERYTHING or self._is_base_folder(path):
                self._restore_folder(path, layer, index=False, work=True)
                continue
            state = layer.get(path)
            if state is None and index.get(path) is None:
                continue  # an untracked file stays
            if state is None and index.get(path) is UNSURE:
                self.set_work(path, UNSURE)
            else:
                self.set_work(path, state)
        self.versions.index = layer.copy()

    # -- stash ----------------------------------------------------------------------------------

    def stash(self) -> Result:
        """``git stash``."""
        action = self.words[0] if self.words and not self.words[0].startswith("-") else "push"
        if self.words and not self.words[0].startswith("-"):
            self.words = self.words[1:]
        match action:
            case "list" | "show":
                return Result(True, None, False)
            case "push" | "save":
                return self._push(action == "save")
            case "pop" | "apply":
                return self._pop(action == "pop")
            case "drop":
                if self.words[:1] not in ([], ["stash@{0}"]) or not self._has_stash():
                    raise Unsupported
                self.versions.stash = self.versions.stash[:-1]
                return Result(True, None, False)
            case "clear":
                self.versions.stash = []
                return Result(True, None, False)
            case _:
                raise Unsupported

    def _has_stash(self) -> bool:
        return bool(self.versions.stash)

    def _push(self, is_save: bool) -> Result:
        flags = "-u --include-untracked -k --keep-index -q --quiet"
        given, before, after = self.options(flags, "-m --message")
        if (before and not is_save) or after or given.keys() & {"-k", "--keep-index"}:
            raise Unsupported
        self._need_index()
        index, head = self.versions.index, self.head()
        takes_untracked = bool(given.keys() & {"-u", "--include-untracked"})
        tracked = Layer(self.effects.files, dict(index.states), set(index.unsure))
        untracked: dict[str, object] = {}
        is_changed = False
        for path in self.touched(head):
            work, staged, old = self.work(path), index.get(path), head.get(path)
            if work is UNSURE or staged is UNSURE or old is UNSURE:
                raise Unsupported
            if staged is None and work is not None and old is not None:
                raise Unsupported  # removed from the index alone
            if staged is None and old is None:
                if work is not None and takes_untracked and not is_ignored(self.disk, path):
                    untracked[path] = work
                    is_changed = True
                continue
            is_changed = is_changed or staged != old or work != staged
            tracked.put(path, work)
        if not is_changed:
            return Result(True, None, False)
        entry = Stash(head.copy(), index.copy(), tracked, untracked, True)  # type: ignore[arg-type]
        self._reset_hard(head)
        for path in untracked:
            self.set_work(path, None)
        self.versions.stash = [*self.versions.stash, entry]
        return Result(True, None, False)

    def _pop(self, drops: bool) -> Result:
        _, before, after = self.options("-q --quiet")
        if before not in ([], ["stash@{0}"]) or after:
            raise Unsupported
        if not self._has_stash():
            if self.effects.has_run_programs:
                raise Unsupported
            return Result(False, None, False)
        self._need_index()
        entry = self.versions.stash[-1]
        index = self.versions.index
        if not entry.is_certain:
            raise Unsupported
        todo: list[tuple[str, Known]] = []
        for path in self.touched(entry.base, entry.tracked, entry.staged, self.head()):
            old, new = entry.base.get(path), entry.tracked.get(path)
            if old == new:
                continue
            staged, work = index.get(path), self.work(path)
            if staged is UNSURE or work is UNSURE or staged != self.head().get(path):
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
        for path in self.touched(self.head()):
            if index.get(path) != self.head().get(path):
                raise Unsupported
        for path in entry.untracked:
            if self.work(path) is not None or self.effects.files.is_folder(path):
                raise Unsupported
        for path, state in todo:
            if isinstance(state, tuple) and self.effects.files.is_folder(path):
                raise Unsupported
        for path, state in todo:
            is_new = index.get(path) is None
            self.set_work(path, state)
            if is_new:
                index.put(path, state)
        for path, made in sorted(entry.untracked.items()):
            self.set_work(path, made)
        if drops:
            self.versions.stash = self.versions.stash[:-1]
        return Result(True, None, False)

    # -- clean, apply, revert -------------------------------------------------------------------

    def clean(self) -> Result:
        """``git clean``."""
        given, before, after = self.options("-f --force -d -x -X -q --quiet -n --dry-run")
        specs = self.specs([*before, *(after or [])]) or self.specs(["."])
        if given.keys() & {"-n", "--dry-run"}:
            return Result(True, None, False)
        if not given.keys() & {"-f", "--force"}:
            return Result(False, None, False)
        self._need_index()
        tracked_folders = {""}
        for path in self._tracked([""]):
            while "/" in path:
                path = path.rpartition("/")[0]
                tracked_folders.add(path)
        for path in self.touched():
            if path == EVERYTHING or not _in(path, specs):
                continue
            tracked = self.is_tracked(path)
            folder = path.rpartition("/")[0]
            if tracked is not False or (folder not in tracked_folders and "-d" not in given and folder not in specs):
                continue
            if path in self.effects.unknown and self.effects.files.is_folder(path):
                continue
            ignored = is_ignored(self.disk, path)
            if ("-X" in given and not ignored) or (ignored and not given.keys() & {"-x", "-X"}):
                continue
            self.set_work(path, None)
        if "-d" in given and "-X" not in given:
            for folder in sorted(self.effects.files.folders_below(""), reverse=True):
                is_empty = folder and folder not in tracked_folders and not self.effects.files.names(folder)
                if is_empty and _in(folder, specs):
                    self.disk.remove(folder)
        if {"-d", "-x"} <= given.keys() and specs == [""] and self.effects.unknown.get(EVERYTHING):
            if not any(self.effects.is_unknown(path) for path in self._tracked([""])):
                del self.effects.unknown[EVERYTHING]
        return Result(True, None, False)

    def apply(self) -> Result:
        """``git apply``."""
        flags = "-R --reverse --check --stat --numstat --summary --cached --index --3way -3 -v --verbose -q"
        flags += " --whitespace=nowarn --whitespace=warn --allow-empty"
        given, before, after = self.options(flags, "-p --whitespace")
        if given.get("--whitespace", "nowarn") not in ("nowarn", "warn"):
            raise Unsupported
        if given.keys() & {"--check", "--stat", "--numstat", "--summary"}:
            return Result(None, None, False)
        files = [*before, *(after or [])]
        if len(files) > 1 or not given.get("-p", "1").isdecimal():
            raise Unsupported
        data: object = self.stdin
        if files and files != ["-"]:
            data = self.disk.read(self.machine.disk.locate(files[0], self.context))
            if data is None:
                return Result(False, None, False)
        if not isinstance(data, bytes):
            raise Unsupported
        strip = int(given.get("-p", "1"))
        root = msgspec.structs.replace(self.context, cwd="")
        text = data.decode("utf-8", "surrogateescape")
        patch = patch_of(text, strip, root, bool(given.keys() & {"-R", "--reverse"}))
        if not isinstance(patch, ApplyPatch) or self.context.cwd:
            raise Unsupported
        in_index = bool(given.keys() & {"--cached", "--index", "--3way", "-3"})
        if in_index:
            self._need_index()
        return self._apply(
            patch, in_index=in_index, in_work="--cached" not in given, merges=bool(given.keys() & {"--3way", "-3"})
        )

    def _apply(self, patch: ApplyPatch, *, in_index: bool, in_work: bool, merges: bool) -> Result:
        places = {path: self.effects.files.locate(path, follow_last=False) for path in patch.paths}
        if None in places.values() or any(self.work(path) is UNSURE for path in patch.paths if in_work):
            raise Unsupported
        index = self.versions.index
        if in_index and any(index.get(path) is UNSURE for path in patch.paths):
            raise Unsupported
        if in_index and in_work and any(index.get(path) != self.work(path) for path in patch.paths):
            return Result(None if merges else False, None, False)

        def read(path: str) -> bytes | None:
            state = index.get(path) if in_index else self.work(path)
            return state[1] if isinstance(state, tuple) else None

        try:
            changes = list(apply_patch(patch.text, read, patch.strip, is_reversed=patch.is_reversed))
        except Misfit as misfit:
            if merges:
                raise Unsupported from misfit
            if not re.search(r"error:|fatal:|patch failed", self.machine.text):
                self.machine.misfit = misfit
            return Result(False, None, False)
        for change in sorted(changes, key=lambda change: change.data is not None):
            state = self._changed(change, index.get(change.path) if in_index else self.work(change.path))
            if in_index:
                index.put(change.path, state)
            if in_work:
                self.set_work(change.path, state)
        return Result(True, None, False)

    def _changed(self, change: Change, old: Known) -> Known:
        if change.data is None:
            return None
        kept = old[0] if isinstance(old, tuple) else FILE
        mode = change.mode or kept
        return (mode if mode in (FILE, EXECUTABLE, "120000") else kept, change.data)

    def replay(self, *, reverses: bool) -> Result:
        """``git revert`` and ``git cherry-pick`` of known commits, where no texts are merged."""
        given, before, after = self.options("--no-edit -n --no-commit -x --allow-empty")
        if len(before) != 1 or after or ".." in before[0]:
            raise Unsupported
        self._need_index()
        commit = self.versions.resolve(before[0])
        parent = self.versions.parent(commit) if commit is not None else None
        if commit is None or parent is None:
            raise Unsupported
        old, new = self.versions.layer(parent), self.versions.layer(commit)
        if reverses:
            old, new = new, old
        index, head = self.versions.index, self.head()
        if any(index.get(path) != head.get(path) for path in self.touched(head)):
            raise Unsupported
        todo: list[tuple[str, Known]] = []
        for path in self.touched(old, new, head):
            if old.get(path) == new.get(path):
                continue
            if UNSURE in (old.get(path), new.get(path)) or index.get(path) != old.get(path):
                raise Unsupported
            if self.work(path) != index.get(path):
                raise Unsupported
            todo.append((path, new.get(path)))
        if not todo:
            raise Unsupported
        for path, state in sorted(todo, key=lambda item: item[1] is not None):
            index.put(path, state)
            self.set_work(path, state)
        if not given.keys() & {"-n", "--no-commit"}:
            self.versions.commit(amends=False)
        return Result(True, None, False)

    def show(self) -> Result:
        """``git show ref:path``: the file's bytes."""
        if len(self.words) != 1 or ":" not in self.words[0]:
            return Result(True, None, False)
        ref, _, path = self.words[0].partition(":")
        if not ref or path.startswith("./") or is_outside(path):
            return Result(None, None, False)
        commit = self.versions.resolve(ref)
        if commit is None:
            return Result(None, None, False)
        state = self.versions.layer(commit).get(path)
        if state is UNSURE:
            return Result(None, None, False)
        return Result(True, state[1]) if isinstance(state, tuple) else Result(None, None, False)

    def branch(self) -> Result:
        """``git branch``: a name made here has a place that is known."""
        plain = [word for word in self.words if not word.startswith("-")]
        if any(word in ("-m", "-M", "-f", "--force") for word in self.words):
            raise Unsupported
        if any(word in ("-d", "-D", "--delete") for word in self.words):
            for name in plain:
                self.versions.branches.pop(name, None)
            return Result(None, None, False)
        if len(plain) == len(self.words) and 1 <= len(plain) <= 2:
            commit = self.versions.resolve(plain[1] if len(plain) == 2 else "HEAD")
            if commit is not None and plain[0] not in self.versions.branches:
                self.versions.branches[plain[0]] = commit
            return Result(None, b"", False)
        return Result(True, None, False)


_COMMANDS: dict[str, Callable[[Git], Result]] = {
    "add": Git.add,
    "stage": Git.add,
    "commit": Git.commit,
    "rm": Git.rm,
    "mv": Git.mv,
    "checkout": Git.checkout,
    "switch": Git.switch,
    "restore": Git.restore,
    "reset": Git.reset,
    "stash": Git.stash,
    "clean": Git.clean,
    "apply": Git.apply,
    "revert": lambda git: git.replay(reverses=True),
    "cherry-pick": lambda git: git.replay(reverses=False),
    "show": Git.show,
    "branch": Git.branch,
    "tag": Git.branch,
}


def git(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """One git command."""
    words = [arg.text for arg in args[1:]]
    context = machine.context
    if any(not arg.is_known for arg in args):
        return _unread(machine, words)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in ("-c", "-C") and words:
            value = words.pop(0)
            if option == "-C":
                folder = resolve(value, context)
                context = msgspec.structs.replace(context, cwd="" if folder == "." else folder)
            elif value.partition("=")[0].lower() not in _HARMLESS_SETTINGS:
                return _unread(machine, words)
        elif option in ("--git-dir", "--work-tree") or option.startswith(("--git-dir=", "--work-tree=")):
            return _unread(machine, words)
    if not words:
        return Result(True, None)
    if context.cwd and is_outside(context.cwd):
        return Result(None, None, False)
    command = Git(machine, context, words[1:], streams.stdin)
    made = _COMMANDS.get(words[0])
    if made is not None:
        before = machine.effects.versions.index.copy()
        try:
            return made(command)
        except Unsupported:
            machine.effects.versions.index = before
            return _unread(machine, words)
    if words[0] in _READING:
        return Result(True if words[0] != "diff" or "--exit-code" not in words else None, None, False)
    return _unread(machine, words)


_HARMLESS_SETTINGS = frozenset(
    ("user.name", "user.email", "core.pager", "color.ui", "advice.detachedhead", "safe.directory", "core.editor")
)


def _unread(machine: Machine, words: list[str]) -> Result:
    """A command that is not carried out: what it may have changed is not known."""
    verb = words[0] if words else ""
    effects = machine.effects
    if verb in _READING and not any(word.startswith(("-o", "--output")) for word in words):
        return Result(None, None, False)
    effects.versions.lose(f"git {verb}")
    if verb in ("add", "commit", "reset") and "--hard" not in words:
        return Result(None, None, False)
    if verb == "stash" and words[1:2] in (["list"], ["show"], ["drop"], ["clear"]):
        return Result(None, None, False)
    if verb in ("rm", "mv", "restore", "checkout") and "--" in words:
        named = [resolve(word, machine.context) for word in words[words.index("--") + 1 :]]
        if named and not any(is_outside(path) or _is_magic(path) for path in named):
            for path in named:
                effects.forget_place("" if path == "." else path, f"git {verb} that is not carried out")
            return Result(None, None, False)
    effects.forget_place(EVERYTHING, f"git {verb} that is not carried out")
    return Result(None, None, False)


def _is_magic(spec: str) -> bool:
    return any(mark in spec for mark in "*?[")


def _in(path: str, specs: list[str]) -> bool:
    """Whether a path lies in one of the scopes."""
    for spec in specs:
        if spec == "" or path == spec or path.startswith(f"{spec}/"):
            return True
        if _is_magic(spec) and re.match(glob_pattern(spec, crosses=True), path):
            return True
    return False


def _place(path: str) -> Place:
    return Place(path)


PROGRAMS: dict[str, Builtin] = {"git": git}
"""Programs by name."""
