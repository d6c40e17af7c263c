"""One ``git`` command before what it does: its arguments, and what several commands do to files and index."""

from __future__ import annotations

import re
from collections.abc import Iterable

from handoff.actions.paths import Context, is_outside, resolve
from handoff.git.objects import SYMLINK
from handoff.states.shell.attributes import is_written_otherwise
from handoff.states.shell.ignored import glob_pattern
from handoff.states.shell.machine import Machine
from handoff.states.shell.streams import Status, Unsupported
from handoff.states.versions import EVERYTHING, UNSURE, Known, Layer


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
        if isinstance(state, tuple) and state[0] != SYMLINK and is_written_otherwise(self.disk, path):
            self.effects.forget_place(path, "git converts it as it writes it")
            return
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
        return is_magic(spec) and any(is_in(path, [spec]) for path in self.every_file())

    def every_file(self) -> list[str]:
        """Every file of the work tree or the index."""
        inside = {path for path in self.versions.index.states if self.versions.index.states[path] is not None}
        return sorted({*self.disk.below(""), *inside})

    def tracked(self, specs: list[str]) -> list[str]:
        """Tracked files in a scope."""
        base = (path for path in self.base_files(specs) if self.versions.index.get(path) is not None)
        own = (path for path in self.versions.index.states if self.versions.index.states[path] is not None)
        return sorted({*base, *(path for path in own if is_in(path, specs))})

    def base_files(self, specs: list[str]) -> list[str]:
        """Files of the base commit in a scope."""
        repository = self.versions.repository
        found = repository.files(self.effects.files.base_tree)
        return [path for path, entry in found.items() if is_in(path, specs) and entry[0] != "160000"]

    def need_index(self) -> None:
        """``Unsupported`` while the index is not known."""
        if self.versions.doubt or EVERYTHING in self.versions.index.unsure:
            raise Unsupported

    def restore_from(self, layer: Layer, specs: list[str], *, index: bool, work: bool, removes: bool) -> Status:
        """Set files of a scope to ``layer``. ``removes``: tracked files that it lacks go. False: nothing matched."""
        if not all(self.holds(layer, spec) or (removes and self.holds(self.versions.index, spec)) for spec in specs):
            return False
        paths = [path for path in self.touched(layer) if meets(path, specs)]
        is_all_sure = not layer.unsure
        for path in paths:
            state = layer.get(path) if path != EVERYTHING else (None if is_all_sure else UNSURE)
            is_known_folder = path != EVERYTHING and self.is_base_folder(path)
            if path == EVERYTHING or is_known_folder:
                self.restore_folder(path, specs, layer, index=index, work=work)
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

    def holds(self, layer: Layer, spec: str) -> bool:
        """Whether a tree holds, or may hold, a file of a scope."""
        if spec == "":
            return True
        own = (path for path in layer.touched() if is_in(path, [spec]))
        return any(layer.get(path) is not None for path in own) or any(
            layer.get(path) is not None for path in self.base_files([spec])
        )

    def is_base_folder(self, path: str) -> bool:
        """Whether the base commit holds a folder there."""
        entry = self.versions.repository.entry(self.effects.files.base_tree, path)
        return entry is not None and entry[0] == "40000"

    def restore_folder(self, folder: str, specs: list[str], layer: Layer, *, index: bool, work: bool) -> None:
        """A folder of which nothing is known: its tracked files in a scope are those of ``layer`` again."""
        for path in self.base_files([folder]):
            if not is_in(path, specs):
                continue
            state = layer.get(path)
            if work and state is not None and self.effects.is_unknown(path):
                self.set_work(path, state)
            if index and state is not UNSURE:
                self.versions.index.states[path] = state
        if index and specs == [""] and self.versions.index.unsure and not layer.unsure:
            self.versions.index = Layer(self.effects.files, dict(layer.states), set())

    def forget(self, specs: list[str], reason: str) -> None:
        """Files of a scope are not known any more."""
        for spec in specs:
            if spec == "":
                for path in self.touched():
                    if path and self.is_tracked(path) is not False:
                        self.effects.forget_place(path, reason)
                self.effects.forget_place("", reason)
            else:
                self.effects.forget_place("" if is_magic(spec) else spec, reason)

    def reset_hard(self, layer: Layer) -> None:
        """Work tree and index become a tree; untracked files stay."""
        index, head = self.versions.index, self.head()
        for path in self.touched(layer, head):
            if path == EVERYTHING or self.is_base_folder(path):
                self.restore_folder(path, [""], layer, index=False, work=True)
                continue
            state = layer.get(path)
            if state is None and index.get(path) is None:
                continue  # an untracked file stays
            if state is None and index.get(path) is UNSURE:
                self.set_work(path, UNSURE)
            else:
                self.set_work(path, state)
        self.versions.index = layer.copy()


def is_magic(spec: str) -> bool:
    """Whether a scope is a pattern."""
    return any(mark in spec for mark in "*?[")


def is_in(path: str, specs: list[str]) -> bool:
    """Whether a path lies in one of the scopes."""
    for spec in specs:
        if spec == "" or path == spec or path.startswith(f"{spec}/"):
            return True
        if is_magic(spec) and re.match(glob_pattern(spec, crosses=True), path):
            return True
    return False


def meets(path: str, specs: list[str]) -> bool:
    """Whether a file or folder lies in one of the scopes, or holds one."""
    return path == EVERYTHING or is_in(path, specs) or any(spec.startswith(f"{path}/") for spec in specs)
