"""Runs whose truth is known: a small reference edits files, and the recording tells what a tool would have shown.

The reference works on text in a dictionary and knows nothing of the code that is tested.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from handoff.trajectory import Action, Observation, Outcome, Step, Trajectory

Files = dict[str, str]

_WORDS = ["alpha", "beta", "gamma", "delta", "item", "value", "total", "index", "name", "size", "page", "last"]


class Run(NamedTuple):
    """A recording, and the files after each step, the base first."""

    trajectory: Trajectory
    truths: list[Files]
    edits: list[int]
    """Places of the steps that edit."""


def start(rng: random.Random) -> Files:
    """Some files of a repository."""
    return {f"src/{name}.py": _body(rng, rng.randint(6, 20)) for name in ("pager", "views", "store")} | {
        "README.md": "A pager.\n\nIt pages.\n"
    }


def _body(rng: random.Random, lines: int) -> str:
    return "".join(f"{_line(rng)}\n" for _ in range(lines))


def _line(rng: random.Random) -> str:
    indent = "    " * rng.randint(0, 2)
    return f"{indent}{rng.choice(_WORDS)}_{rng.randint(0, 99)} = {rng.choice(_WORDS)}({rng.randint(0, 99)})"


class _Maker:
    """Makes one run, step by step."""

    def __init__(self, rng: random.Random, base: Files, shows: float) -> None:
        self.rng = rng
        self.files = dict(base)
        self.base = base
        self.shows = shows
        self.steps: list[Step] = []
        self.truths = [dict(base)]
        self.edits: list[int] = []
        self._made = 0

    def step(self, tool: str, arguments: dict[str, object], text: str, *, code: int | None = 0, edits: bool) -> None:
        if edits:
            self.edits.append(len(self.steps))
        self.steps.append(
            Step(
                actions=(Action(tool=tool, arguments=json.dumps(arguments)),),
                observations=(Observation(text=text, exit_code=code),),
            )
        )
        self.truths.append(dict(self.files))

    def bash(self, command: str, text: str = "", *, code: int = 0, edits: bool = True) -> None:
        self.step("bash", {"command": command}, text, code=code, edits=edits)

    # -- edits ------------------------------------------------------------------------------------

    def some_path(self) -> str:
        return self.rng.choice(sorted(self.files))

    def replace(self, tool: str) -> None:
        path = self.some_path()
        text = self.files[path]
        lines = [line for line in text.split("\n") if line.strip() and text.count(line) == 1]
        if not lines:
            return
        old = self.rng.choice(lines)
        new = "\n".join(_line(self.rng) for _ in range(self.rng.randint(1, 3)))
        self.files[path] = text.replace(old, new)
        if tool == "Edit":
            arguments: dict[str, object] = {"file_path": f"/testbed/{path}", "old_string": old, "new_string": new}
            self.step(tool, arguments, "The file has been updated successfully.", code=None, edits=True)
        else:
            arguments = {"command": "str_replace", "path": f"/testbed/{path}", "old_str": old, "new_str": new}
            self.step(tool, arguments, self._snippet(path, new), code=None, edits=True)

    def _snippet(self, path: str, new: str) -> str:
        lines = self.files[path].split("\n")
        first = max(1, self.files[path][: self.files[path].index(new)].count("\n") + 1 - 4)
        last = min(len(lines), first + 8 + new.count("\n"))
        shown = "\n".join(f"{number:6}\t{lines[number - 1]}" for number in range(first, last + 1))
        head = f"The file /testbed/{path} has been edited. Here's the result of running `cat -n` on a snippet of"
        return f"{head} /testbed/{path}:\n{shown}\nReview the changes."

    def insert(self) -> None:
        path = self.some_path()
        lines = self.files[path].split("\n")
        line, new = self.rng.randint(0, len(lines) - 1), _line(self.rng)
        self.files[path] = "\n".join([*lines[:line], new, *lines[line:]])
        arguments: dict[str, object] = {
            "command": "insert",
            "path": f"/testbed/{path}",
            "insert_line": line,
            "new_str": new,
        }
        self.step("str_replace_editor", arguments, f"The file /testbed/{path} has been edited.", code=None, edits=True)

    def create(self, tool: str) -> None:
        self._made += 1
        path, text = f"src/new{self._made}.py", _body(self.rng, self.rng.randint(2, 6))
        self.files[path] = text
        if tool == "Write":
            arguments: dict[str, object] = {"file_path": f"/testbed/{path}", "content": text}
            self.step(tool, arguments, f"File created successfully at: /testbed/{path}", code=None, edits=True)
        elif tool == "bash":
            self.bash(f"cat > {path} <<'EOF'\n{text}EOF")
        else:
            arguments = {"command": "create", "path": f"/testbed/{path}", "file_text": text}
            self.step(tool, arguments, f"File created successfully at: /testbed/{path}", code=None, edits=True)

    def rewrite(self) -> None:
        path = self.some_path()
        text = _body(self.rng, self.rng.randint(2, 8))
        self.files[path] = text
        self.bash(f"cat > {path} <<'EOF'\n{text}EOF")

    def append(self) -> None:
        path, text = self.some_path(), _line(self.rng) + "\n"
        self.files[path] += text
        self.bash(f"cat >> {path} <<'EOF'\n{text}EOF")

    def sed(self) -> None:
        path = self.some_path()
        lines = self.files[path].split("\n")
        number = self.rng.randint(1, max(1, len(lines) - 1))
        new = _line(self.rng)
        lines[number - 1] = new
        self.files[path] = "\n".join(lines)
        self.bash(f"sed -i '{number}c\\{new}' {path}")

    def sed_words(self) -> None:
        path = self.some_path()
        old, new = self.rng.sample(_WORDS, 2)
        self.files[path] = self.files[path].replace(old, new)
        self.bash(f"sed -i 's/{old}/{new}/g' {path}")

    def apply_patch(self) -> None:
        path = self.some_path()
        lines = self.files[path].split("\n")[:-1]
        if len(lines) < 4 or len(set(lines)) < len(lines):
            return
        at, new = self.rng.randint(1, len(lines) - 2), _line(self.rng)
        body = f" {lines[at - 1]}\n-{lines[at]}\n+{new}\n {lines[at + 1]}\n"
        lines[at] = new
        self.files[path] = "\n".join(lines) + "\n"
        patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n{body}*** End Patch\n"
        self.step("apply_patch", {"input": patch}, f"Success. Updated the following files:\nM {path}\n", edits=True)

    def remove(self) -> None:
        made = [path for path in self.files if path not in self.base]
        if not made:
            return
        path = self.rng.choice(sorted(made))
        del self.files[path]
        self.bash(f"rm {path}")

    def move(self) -> None:
        path = self.some_path()
        self._made += 1
        target = f"src/moved{self._made}.py"
        self.files[target] = self.files.pop(path)
        self.bash(f"mv {path} {target}")

    def refused(self) -> None:
        path = self.some_path()
        old = f"never_{self.rng.randint(0, 9)} = here"
        arguments: dict[str, object] = {
            "command": "str_replace",
            "path": f"/testbed/{path}",
            "old_str": old,
            "new_str": _line(self.rng),
        }
        said = f"No replacement was performed, old_str `{old}` did not appear verbatim in /testbed/{path}."
        self.step("str_replace_editor", arguments, said, code=None, edits=True)

    # -- looks ------------------------------------------------------------------------------------

    def look(self) -> None:
        path = self.some_path()
        text = self.files[path]
        match self.rng.randrange(5):
            case 0:
                self.bash(f"cat {path}", text, edits=False)
            case 1:
                lines = text.splitlines(keepends=True)
                first = self.rng.randint(1, max(1, len(lines) - 3))
                shown = "".join(lines[first - 1 : first + 3])
                self.bash(f"sed -n '{first},{first + 3}p' {path}", shown, edits=False)
            case 2:
                numbered = "\n".join(f"{n:6}→{line}" for n, line in enumerate(text.split("\n"), 1))
                self.step("Read", {"file_path": f"/testbed/{path}"}, numbered, code=None, edits=False)
            case 3:
                tracked = {path: text for path, text in self.files.items() if path in self.base}
                self.bash("git diff", diff(self.base, tracked), edits=False)
            case _:
                word = self.rng.choice(_WORDS)
                hits = [f"{n}:{line}" for n, line in enumerate(text.split("\n"), 1) if word in line]
                self.bash(f"grep -n {word} {path}", "".join(f"{hit}\n" for hit in hits), edits=False)


KINDS = ("editor", "claude", "shell", "codex", "mixed")


def make(seed: int, kind: str = "mixed", *, shows: float = 0.5, edits: int = 6, with_patch: bool = True) -> Run:
    """One run. ``shows``: how often the agent looks after an edit; ``kind``: whose tools it has."""
    rng = random.Random(f"{seed} {kind}")
    base = start(rng)
    maker = _Maker(rng, base, shows)
    moves = {
        "editor": [
            lambda: maker.replace("str_replace_editor"),
            maker.insert,
            lambda: maker.create("str_replace_editor"),
            maker.refused,
        ],
        "claude": [lambda: maker.replace("Edit"), lambda: maker.create("Write"), maker.remove],
        "shell": [maker.sed, maker.sed_words, maker.append, maker.rewrite, lambda: maker.create("bash"), maker.remove],
        "codex": [maker.apply_patch, maker.append, maker.move],
    }
    moves["mixed"] = [move for known in list(moves.values()) for move in known]
    while len(maker.edits) < edits:
        before = len(maker.edits)
        rng.choice(moves[kind])()
        while len(maker.edits) > before and rng.random() < maker.shows:
            before = len(maker.edits)
            maker.look()
            if rng.random() < 0.5:
                break
    maker.bash("pwd", "/testbed\n", edits=False)
    patch = diff(base, maker.files) if with_patch else None
    trajectory = Trajectory(
        format="chat",
        task="Fix the pager.",
        repo="o/pager",
        steps=tuple(maker.steps),
        outcome=Outcome(patch=patch),
    )
    return Run(trajectory, maker.truths, maker.edits)


def diff(before: Files, after: Files) -> str:
    """What ``git diff`` prints between two sets of files."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for side, files in (("a", before), ("b", after)):
            (root / side).mkdir()
            for path, text in files.items():
                (root / side / path).parent.mkdir(parents=True, exist_ok=True)
                (root / side / path).write_bytes(text.encode())
        command = ["git", "diff", "--no-index", "--no-prefix", "--no-renames", "--no-color", "a", "b"]
        environment = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        done = subprocess.run(command, cwd=root, capture_output=True, check=False, env=environment)
    return done.stdout.decode()
