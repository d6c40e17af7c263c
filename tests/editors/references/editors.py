"""The structured editors. Each takes a call's arguments, changes files below a folder and says what the tool would;
a refusal is ``Refused``, and changes nothing."""

from __future__ import annotations

import subprocess
import unicodedata
from collections import defaultdict
from pathlib import Path
from typing import Any, Literal, Protocol

Call = dict[str, Any]


class Refused(Exception):
    """The tool says no. ``str`` is what it says."""


class Editor(Protocol):
    """One tool, one run long."""

    def call(self, arguments: Call) -> str:
        """Carries a call out; the answer. Raises ``Refused``."""
        ...


def read_text(path: Path) -> str:
    """As Python's text mode: every line end becomes a line feed."""
    with path.open(encoding="utf-8") as file:
        return file.read()


def write_text(path: Path, text: str) -> None:
    """As Python's text mode on Linux: line feeds stay."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)


class StrReplace:
    """``str_replace_editor`` and its descendants."""

    def __init__(
        self,
        folder: Path,
        *,
        expands: bool,
        whole_lines: bool,
        strips: Literal["", "both", "old"] = "",
        undoes: bool = True,
    ) -> None:
        self.folder = folder
        self.expands = expands
        self.whole_lines = whole_lines
        self.strips = strips
        self.undoes = undoes
        self.kept: dict[Path, list[str]] = defaultdict(list)

    def call(self, arguments: Call) -> str:
        """One command."""
        path = self.folder / arguments["path"]
        shown = f"/testbed/{arguments['path']}"
        if arguments["command"] == "create":
            return self.create(path, shown, arguments["file_text"])
        if not path.exists():
            raise Refused(f"The path {shown} does not exist. Please provide a valid path.")
        if arguments["command"] == "str_replace":
            return self.replace(path, shown, arguments["old_str"], arguments["new_str"])
        if arguments["command"] == "insert":
            return self.insert(path, shown, arguments["insert_line"], arguments["new_str"])
        return self.undo(path, shown)

    def tabs(self, text: str) -> str:
        return text.expandtabs() if self.expands else text

    def create(self, path: Path, shown: str, text: str) -> str:
        if path.exists():
            raise Refused(f"File already exists at: {shown}. Cannot overwrite files using command `create`.")
        write_text(path, text)
        self.kept[path].append(text)
        return f"File created successfully at: {shown}"

    def replace(self, path: Path, shown: str, old: str, new: str) -> str:
        content = self.tabs(read_text(path))
        old, new = self.tabs(old), self.tabs(new)
        if self.strips and old not in content:
            old = old.strip()
            if self.strips == "both":
                new = new.strip()
        parts = content.split(old) if old else [""] * (len(content) + 2)
        if len(parts) == 1:
            raise Refused(f"No replacement was performed, old_str `{old}` did not appear verbatim in {shown}.")
        if len(parts) > 2:
            raise Refused(f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines [1].")
        if old == new:
            raise Refused("No replacement was performed, the texts are the same.")
        write_text(path, new.join(parts))
        self.kept[path].append(content)
        return self.answer(shown, new.join(parts))

    def insert(self, path: Path, shown: str, line: int, new: str) -> str:
        content = read_text(path)
        if self.whole_lines:
            with path.open(encoding="utf-8") as file:
                lines = list(file)
            if line > len(lines):
                raise Refused(f"Invalid `insert_line` parameter: {line}.")
            added = "".join(part + "\n" for part in self.tabs(new).split("\n"))
            made = self.tabs("".join(lines[:line])) + added + self.tabs("".join(lines[line:]))
            self.kept[path].append(content)
        else:
            pieces = self.tabs(content).split("\n")
            if line > len(pieces):
                raise Refused(f"Invalid `insert_line` parameter: {line}.")
            pieces[line:line] = self.tabs(new).split("\n")
            made = "\n".join(pieces)
            self.kept[path].append(self.tabs(content))
        write_text(path, made)
        return self.answer(shown, made)

    def undo(self, path: Path, shown: str) -> str:
        if not self.kept[path] or not self.undoes:
            raise Refused(f"No edit history found for {shown}.")
        write_text(path, self.kept[path].pop())
        return f"Last edit to {shown} undone successfully."

    def answer(self, shown: str, content: str) -> str:
        lines = (f"{number:6}\t{line}" for number, line in enumerate(self.tabs(content).split("\n"), 1))
        listing = "\n".join(lines)
        return f"The file {shown} has been edited. Here's the result of running `cat -n` on {shown}:\n{listing}\n"


_SHELL_EDIT = """\
added=(); while IFS= read -r line; do added+=("$line"); done
mapfile -t lines < "$1"
printf '%s\\n' "${lines[@]:0:$(($2 - 1))}" "${added[@]}" "${lines[@]:$3}" > "$1.new"
mv "$1.new" "$1"
"""
"""Lines are read into an array and printed again; without any, ``printf`` prints one line feed."""


class Window:
    """SWE-agent 1.x: one file, a window of lines of it."""

    def __init__(self, path: Path, size: int, *, inserts_before: bool = False) -> None:
        self.path = path
        self.size = size
        self.first = 0
        self.inserts_before = inserts_before

    def call(self, arguments: Call) -> str:
        """``open``, ``range``, ``search``, ``insert``, ``rewrite``, by the arguments that are there."""
        if "goto" in arguments:
            self.go(arguments["goto"] - 1)
            return self.screen()
        text = read_text(self.path)
        pieces = text.split("\n")
        self.first = max(0, min(self.first, len(text.splitlines()) - self.size))
        if "start" in arguments:
            start, stop = arguments["start"] - 1, arguments["end"] - 1
            new = arguments["text"]
            pieces[start : stop + 1] = new.split("\n") if new else []
            write_text(self.path, "\n".join(pieces))
            self.go(start)
            return f"File updated. Please review the changes\n{self.screen()}"
        if "insert" in arguments:
            return self.insert(text, pieces, arguments["insert"], arguments.get("line"))
        stop = min(self.first + self.size - 1, len(text.splitlines()) - 1)
        shown = "\n".join(pieces[self.first : stop + 1])
        if "rewrite" in arguments:
            new = arguments["rewrite"]
            pieces[self.first : stop + 1] = new.split("\n") if new else []
            write_text(self.path, "\n".join(pieces))
            return "Edit successful."
        old, new = arguments["search"], arguments["replace"]
        if old == new:
            raise Refused("Your search and replace strings are the same. No changes were made.")
        if arguments.get("all"):
            if old not in text:
                raise Refused(
                    f"Your edit was not applied (file not modified): Text {old!r} not found in displayed lines"
                )
            write_text(self.path, text.replace(old, new))
            self.go(len(text[: text.index(old)].split("\n")))
            return f"Replaced 1 occurrences.\n{self.screen()}"
        if shown.count(old) != 1:
            raise Refused("Your edit was not applied (file not modified): Found more than one occurrence")
        line = self.first + len(shown[: shown.index(old)].split("\n")) - 1
        made = shown.replace(old, new)
        pieces[self.first : stop + 1] = made.split("\n") if made else []
        write_text(self.path, "\n".join(pieces))
        self.go(line)
        return f"Text replaced.\n{self.screen()}"

    def insert(self, text: str, pieces: list[str], new: str, line: int | None) -> str:
        new = new[:-1] if new.endswith("\n") else new
        if line is None:
            stem = text[:-1] if text.endswith("\n") else text
            made = f"{stem}\n{new}" if text else new
            place = len(text.splitlines())
        else:
            place = line - 1 if self.inserts_before else line
            if place < 0:
                made = new + "\n" + (text[1:] if text.startswith("\n") else text) if text else new
            else:
                pieces.insert(place, new)
                made = "\n".join(pieces)
        write_text(self.path, made)
        self.go(max(place, 0))
        return self.screen()

    def go(self, line: int) -> None:
        wanted = int(line - self.size / 6)
        self.first = max(0, min(wanted, len(read_text(self.path).splitlines()) - self.size))

    def screen(self) -> str:
        text = read_text(self.path)
        total = len(text.splitlines())
        stop = min(self.first + self.size, total)
        lines = text.split("\n")[self.first : stop]
        numbered = [f"{self.first + place}:{line}" for place, line in enumerate(lines, 1)]
        above = [f"({self.first} more lines above)"] if self.first else []
        below = [f"({total - stop} more lines below)"] if stop < total else []
        return "\n".join([f"[File: /testbed/{self.path.name} ({total} lines total)]", *above, *numbered, *below])


class ShellWindow:
    """SWE-agent 0.x: ranges of lines, by the shell itself."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def call(self, arguments: Call) -> str:
        """A range of lines becomes what is typed."""
        subprocess.run(
            ["bash", "-c", _SHELL_EDIT, "edit", self.path, str(arguments["start"]), str(arguments["end"])],
            input=arguments["typed"].encode(),
            check=True,
        )
        total = self.path.read_bytes().count(b"\n")
        return f"[File: /testbed/{self.path.name} ({total} lines total)]\n1:\nFile updated. Please review the changes"


class Exact:
    """Claude Code's ``Edit`` and ``Write``, and Gemini CLI's ``replace``, for what they find exactly."""

    def __init__(self, folder: Path, *, takes_line: bool, keeps_end: bool = False) -> None:
        self.folder = folder
        self.takes_line = takes_line
        self.keeps_end = keeps_end

    def call(self, arguments: Call) -> str:
        """One replacement, or with ``content`` a whole file."""
        path = self.folder / arguments["file_path"]
        if "content" in arguments:
            path.write_bytes(arguments["content"].encode())
            return "File created successfully"
        old, new = arguments["old_string"], arguments["new_string"]
        text = path.read_bytes().decode()
        if old not in text:
            raise Refused("String to replace not found in file.")
        is_every = arguments.get("replace_all") or arguments.get("allow_multiple")
        if len(text.split(old)) > 2 and not is_every:
            raise Refused("Found 2 matches of the string to replace, but replace_all is false.")
        if self.takes_line and new == "" and old[-1] != "\n" and old + "\n" in text:
            old = old + "\n"
        made = new.join(text.split(old))
        if self.keeps_end and made.endswith("\n") != text.endswith("\n"):
            made = made.removesuffix("\n") if made.endswith("\n") else made + "\n"
        path.write_bytes(made.encode())
        return "The file has been updated successfully."


class Pi:
    """pi's ``edit``: all old texts are looked for in the file as it was."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def call(self, arguments: Call) -> str:
        """Several replacements at once."""
        path = self.folder / arguments["path"]
        raw = path.read_bytes().decode()
        mark = "\ufeff" if raw[:1] == "\ufeff" else ""
        body = raw[len(mark) :]
        ending = "\r\n" if 0 <= body.find("\r\n") < body.find("\n") else "\n"
        text = body.replace("\r\n", "\n").replace("\r", "\n")
        edits = [
            (edit["oldText"].replace("\r\n", "\n").replace("\r", "\n"), edit["newText"]) for edit in arguments["edits"]
        ]
        if any(not old for old, _ in edits):
            raise Refused(f"oldText must not be empty in {path.name}.")
        if not all(old in text for old, _ in edits):
            text = self.plain(text)
        spans = []
        for old, new in edits:
            wanted = old if old in text else self.plain(old)
            if wanted not in text:
                raise Refused(f"Could not find the exact text in {path.name}.")
            plain = self.plain(old)
            if len(self.plain(text).split(plain) if plain else []) > 2:
                raise Refused(f"Found 2 occurrences of the text in {path.name}.")
            spans.append((text.index(wanted), len(wanted), new.replace("\r\n", "\n").replace("\r", "\n")))
        made, behind = "", 0
        for start, length, new in sorted(spans, key=lambda span: span[0]):
            if start < behind:
                raise Refused("edits[0] and edits[1] overlap")
            made += text[behind:start] + new
            behind = start + length
        made += text[behind:]
        if made == text:
            raise Refused("No changes made to the file. The replacement produced identical content.")
        path.write_bytes((mark + made.replace("\n", ending)).encode())
        return "Successfully replaced text."

    @staticmethod
    def plain(text: str) -> str:
        lines = [line.rstrip() for line in unicodedata.normalize("NFKC", text).split("\n")]
        made = "\n".join(lines)
        for odd, even in (("‘’‚‛", "'"), ("“”„‟", '"'), ("‐‑‒–—―−", "-"), ("\u00a0\u2002\u2003\u202f\u3000", " ")):
            for character in odd:
                made = made.replace(character, even)
        return made


class Aider:
    """Aider's SEARCH/REPLACE block: whole lines, or the same lines at another indentation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def call(self, arguments: Call) -> str:
        """One block."""
        path = self.folder / arguments["path"]
        text = path.read_bytes().decode()
        whole = text.splitlines()
        old, new = self.block(arguments["search"]), self.block(arguments["replace"])
        found = self.exact(whole, old, new) or self.indented(whole, old, new)
        if found is None and len(old) > 2 and not old[0].strip():
            found = self.exact(whole, old[1:], new) or self.indented(whole, old[1:], new)
        if not found:
            raise Refused(f"This SEARCH block failed to exactly match lines in {path.name}")
        path.write_bytes("".join(line + "\n" for line in found).encode())
        return "Applied edit"

    @staticmethod
    def block(text: str) -> list[str]:
        lines = text.splitlines()
        joined = "\n".join(lines)
        return joined.removesuffix("\n").split("\n") if joined else []

    @staticmethod
    def exact(whole: list[str], old: list[str], new: list[str]) -> list[str] | None:
        for at in range(len(whole) - len(old) + 1):
            if whole[at : at + len(old)] == old:
                return whole[:at] + new + whole[at + len(old) :]
        return None

    @staticmethod
    def indented(whole: list[str], old: list[str], new: list[str]) -> list[str] | None:
        depth = min((len(line) - len(line.lstrip()) for line in old + new if line.strip()), default=0)
        old = [line[depth:] if line.strip() else line for line in old]
        new = [line[depth:] if line.strip() else line for line in new]
        for at in range(len(whole) - len(old) + 1):
            part = whole[at : at + len(old)]
            if [line.lstrip() for line in part] != [line.lstrip() for line in old]:
                continue
            indents = {line[: len(line) - len(bare)] for line, bare in zip(part, old, strict=True) if line.strip()}
            if len(indents) == 1:
                (indent,) = indents
                return whole[:at] + [indent + line if line.strip() else line for line in new] + whole[at + len(old) :]
        return None
