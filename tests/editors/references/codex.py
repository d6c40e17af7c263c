"""Codex's ``apply_patch`` on real files, in the two generations that are known."""

from __future__ import annotations

from pathlib import Path

from tests.editors.references.editors import Call, Refused

SAME = (
    lambda line: line,
    lambda line: line.rstrip(),
    lambda line: line.strip(),
    lambda line: "".join({"–": "-", "“": '"', "”": '"'}.get(character, character) for character in line.strip()),
)


class ApplyPatch:
    """Patches that change, make and remove files; every file is worked out before any is written."""

    def __init__(self, folder: Path, *, is_newer: bool) -> None:
        self.folder = folder
        self.is_newer = is_newer

    def call(self, arguments: Call) -> str:
        """One patch."""
        lines = arguments["input"].split("\n")[1:-1]
        made: list[tuple[str, str | None]] = []
        while lines:
            head = lines.pop(0)
            name = head.split(": ", 1)[1]
            body = []
            while (lines and not lines[0].startswith("*** ")) or (lines and lines[0] == "*** End of File"):
                body.append(lines.pop(0))
            path = self.folder / name
            if head.startswith("*** Add"):
                made.append((name, "".join(line[1:] + "\n" for line in body)))
            elif not path.exists():
                raise Refused(f"Failed to read file to update {name}")
            elif head.startswith("*** Delete"):
                made.append((name, None))
            else:
                made.append((name, self.updated(path.read_text(), body)))
        for name, text in made:
            if text is None:
                (self.folder / name).unlink()
            else:
                (self.folder / name).write_text(text)
        return "Success. Updated the following files:"

    def updated(self, text: str, body: list[str]) -> str:
        lines = text.split("\n")
        if not lines[-1]:
            del lines[-1]
        edits: list[tuple[int, int, list[str]]] = []
        place = 0
        for number, (anchor, hunk, is_last) in enumerate(self.hunks(body)):
            if anchor is not None:
                place = self.find(lines, [anchor], place, False) + 1
            old = [line[1:] for line in hunk if line[0] != "+"]
            if not old:
                end = len(lines) - (not self.is_newer and bool(lines) and not lines[-1])
                edits.append((end, number, [f"+{line[1:]}" for line in hunk]))
                continue
            at = self.find(lines, old, place, is_last)
            place = at + len(old)
            edits += [(at + offset, number, run) for offset, run in (self.runs(hunk) if self.is_newer else [(0, hunk)])]
        for at, _, hunk in sorted(edits, key=lambda edit: edit[:2], reverse=True):
            count = sum(line[0] != "+" for line in hunk)
            kept = iter(lines[at : at + count])
            new = []
            for line in hunk:
                if line[0] == "+":
                    new.append(line[1:])
                elif line[0] == "-":
                    next(kept)
                else:
                    new.append(next(kept) if self.is_newer else [line[1:], next(kept)][0])
            lines[at : at + count] = new
        if self.is_newer or not lines or lines[-1]:
            lines.append("")
        return "\n".join(lines)

    @staticmethod
    def runs(hunk: list[str]) -> list[tuple[int, list[str]]]:
        """The stretches of a hunk that change something, and how many old lines are before each."""
        found: list[tuple[int, list[str]]] = []
        offset = 0
        is_inside = False
        for line in hunk:
            if line[0] != " ":
                if not is_inside:
                    found.append((offset, []))
                found[-1][1].append(line)
            is_inside = line[0] != " "
            offset += line[0] != "+"
        return found

    @staticmethod
    def hunks(body: list[str]) -> list[tuple[str | None, list[str], bool]]:
        found: list[tuple[str | None, list[str], bool]] = []
        for line in body:
            if line.startswith("@@"):
                found.append((line[3:] or None, [], False))
            elif line == "*** End of File":
                found[-1] = (*found[-1][:2], True)
            else:
                found[-1][1].append(line)
        return found

    @staticmethod
    def find(lines: list[str], old: list[str], start: int, is_last: bool) -> int:
        last = len(lines) - len(old)
        for same in SAME:
            wanted = [same(line) for line in old]
            for at in range(last if is_last else start, last + 1):
                if at >= 0 and [same(line) for line in lines[at : at + len(old)]] == wanted:
                    return at
        raise Refused("Failed to find expected lines in the file")
