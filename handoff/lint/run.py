"""All checks over all rows: findings by code, a histogram of what is trained, and whether a program should stop."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from handoff.errors import RecordError
from handoff.exports.tokenised import Tokens
from handoff.lint.checks import check_row
from handoff.lint.checks.masks import trained_tokens
from handoff.lint.codes import CODES, Finding
from handoff.lint.reading import find, rows
from handoff.lint.shapes import Row, Talk, recognise
from handoff.lint.templates import ends_of_turns, shown_of

PLACES = 5
"""Places that are kept of each code."""
BINS = 10
_SPLIT = re.compile(r"(?:^|[-_./])(train|validation|valid|val|dev|test|eval)(?=[-_./]|$)")
_SIDES = {"valid": "validation", "val": "validation", "dev": "validation", "eval": "validation"}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for beside what rows tell of themselves."""

    tokens: Tokens | None = None
    """Tokenizer and chat template of the model that is trained."""
    context: int | None = None
    """Tokens of its context; without a tokenizer four characters count as one."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where something was found."""

    file: str
    row: int
    place: str
    detail: str


class Report(msgspec.Struct, kw_only=True):
    """What lint found."""

    files: int = 0
    rows: int = 0
    shapes: dict[str, int] = {}
    counts: dict[str, int] = {}
    """Findings by code."""
    places: dict[str, list[Place]] = {}
    """The first few of each code."""
    coverage: list[int] = []
    """Rows by the share of their characters or tokens that is trained, in ten bins."""
    longest: int = 0
    """Tokens of the longest row, as far as they are known."""

    @property
    def errors(self) -> int:
        """Findings that are errors."""
        return sum(n for code, n in self.counts.items() if CODES[code].severity == "error")

    @property
    def warnings(self) -> int:
        """Findings that are warnings."""
        return sum(n for code, n in self.counts.items() if CODES[code].severity == "warning")


def lint(
    paths: Sequence[Path], options: Options | None = None, progress: Callable[[int, int], None] | None = None
) -> Report:
    """Look at every row of these files and folders. ``progress``: told (files done, files).

    ``InputError`` where there is nothing to read. What a row holds never stops it.
    """
    files = find(paths)
    linter = _Linter(options or Options())
    done = 0
    for folder, own in itertools.groupby(sorted(files, key=lambda path: (path.parent, path.name)), lambda p: p.parent):
        for path in own:
            linter.file(path)
            done += 1
            if progress is not None:
                progress(done, len(files))
        linter.close(folder)
    return linter.finish()


class _Linter:
    """A folder is one set, in which repeats are looked for; splits are held against each other over all of them."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._ends = options.tokens.ends if options.tokens is not None else None
        self.report = Report(coverage=[0] * BINS)
        self._seen: dict[bytes, tuple[str, int]] = {}
        self._alike: set[bytes] = set()  # only asked for membership
        self._ids: dict[str, bytes] = {}
        self._sides: dict[tuple[str, str], set[str]] = {}
        self._counted: dict[Path, int] = {}

    def file(self, path: Path) -> None:
        """Every row of one file."""
        self.report.files += 1
        shapes: Counter[str] = Counter()
        split = _SPLIT.search(path.name) or _SPLIT.search(path.parent.name)
        side = _SIDES.get(split[1], split[1]) if split else ""
        for read in rows(path):
            self._counted[path] = self._counted.get(path, 0) + (read.number > 0)
            if read.row is None:
                self._note(path, read.number, Finding("F01", "", read.problem))
                continue
            self.report.rows += 1
            try:
                row = recognise(read.row)
                found = [] if row is None else list(self._row(row, side or str(read.row.get("split") or "")))
                found += [] if row is None else list(self._repeats(path, read.number, row))
            except (
                TypeError,
                ValueError,
                KeyError,
                AttributeError,
                LookupError,
                ArithmeticError,
                RecursionError,
            ) as error:
                row, found = None, [Finding("F02", "", f"a value of another type than its shape has: {error}"[:200])]
            else:
                if row is None:
                    found = [Finding("F02", "", f"its keys are {', '.join(list(read.row)[:12])}")]
            for finding in found:
                self._note(path, read.number, finding)
            if row is not None:
                shapes[row.shape] += 1
        for shape, count in shapes.items():
            self.report.shapes[shape] = self.report.shapes.get(shape, 0) + count
        if len(shapes) > 1:
            self._note(path, 0, Finding("F06", "", ", ".join(sorted(shapes))))

    def _row(self, row: Row, side: str) -> Iterator[Finding]:
        yield from check_row(row)
        for value in row.source:
            if value and side:
                self._sides.setdefault((("repository", "task")[row.source.index(value)], value), set()).add(side)
        if row.tokens is not None:
            yield from self._of_tokens(row)
        for talk in row.talks:
            yield from self._of_talk(row, talk)

    def _of_tokens(self, row: Row) -> Iterator[Finding]:
        flags = trained_tokens(row)
        self._cover(sum(flags), len(flags))
        yield from self._length(len(flags))
        if self._ends is not None and row.tokens is not None and len(flags) == len(row.tokens.ids):
            yield from ends_of_turns(row.tokens.ids, flags, self._ends)

    def _of_talk(self, row: Row, talk: Talk) -> Iterator[Finding]:
        sizes = [
            _size(turn.text) + len(turn.thought) + sum(_size(c.arguments) for c in turn.calls) for turn in talk.turns
        ]
        learned = sum(size for size, turn in zip(sizes, talk.turns, strict=True) if turn.trained)
        if talk.ends_with_reply:
            self._cover(learned, sum(sizes))
        if self._options.tokens is None:
            yield from self._length(sum(sizes) // 4)
            return
        try:
            found = shown_of(row, talk, self._options.tokens)
        except RecordError as error:
            yield Finding("T05", "", error.problem)
            return
        yield from self._length(found.tokens)
        yield from (Finding("T06", place, "") for place in found.left_out)

    def _length(self, tokens: int) -> Iterator[Finding]:
        self.report.longest = max(self.report.longest, tokens)
        if self._options.context is not None and tokens > self._options.context:
            yield Finding("T04", "", f"{tokens:,} tokens of {self._options.context:,}")

    def _cover(self, learned: int, whole: int) -> None:
        if whole:
            self.report.coverage[min(learned * BINS // whole, BINS - 1)] += 1

    def _repeats(self, path: Path, number: int, row: Row) -> Iterator[Finding]:
        said = _said(row) if row.tokens is None else repr((row.tokens.ids, trained_tokens(row)))
        exact = hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=12).digest()
        loose = re.sub(r"\s+", "", said).casefold()
        alike = hashlib.blake2b(loose.encode("utf-8", "surrogatepass"), digest_size=12).digest()
        if exact in self._seen:
            file, first = self._seen[exact]
            yield Finding("D01", "", f"as row {first} of {file}")
        elif alike in self._alike:
            yield Finding("D02", "", "")
        self._seen.setdefault(exact, (path.name, number))
        self._alike.add(alike)
        if row.id and row.tokens is None and self._ids.setdefault(row.id, exact) != exact:
            yield Finding("D03", "", row.id[:60])

    def _note(self, path: Path, row: int, finding: Finding) -> None:
        code = finding.code
        self.report.counts[code] = self.report.counts.get(code, 0) + 1
        places = self.report.places.setdefault(code, [])
        if len(places) < PLACES:
            places.append(Place(file=str(path), row=row, place=finding.place, detail=finding.detail[:200]))

    def _manifest(self, folder: Path) -> None:
        """Hold the files of a folder against its manifest, where it has one of ours."""
        place = folder / "MANIFEST.json"
        try:
            listed = msgspec.json.decode(place.read_bytes())["files"]
            entries = [(folder / str(entry["path"]), str(entry["sha256"]), int(entry["rows"])) for entry in listed]
        except (OSError, msgspec.DecodeError, KeyError, TypeError, ValueError):
            return
        for path, digest, count in entries:
            if path.parent != folder or not path.is_file():
                self._note(place, 0, Finding("F05", "", path.name))
                continue
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                    self._note(path, 0, Finding("F03", "", ""))
            if path in self._counted and self._counted[path] != count:
                self._note(path, 0, Finding("F04", "", f"{self._counted[path]:,} of {count:,}"))

    def close(self, folder: Path) -> None:
        """A folder was read to its end."""
        self._manifest(folder)
        for kept in (self._seen, self._alike, self._ids, self._counted):
            kept.clear()

    def finish(self) -> Report:
        """The report: what is on both sides of a split is known when all was read."""
        for (kind, name), sides in sorted(self._sides.items()):
            if "train" in sides and len(sides) > 1:
                self._note(Path(), 0, Finding("D04", "", f"{kind} {name[:100]}: {', '.join(sorted(sides))}"))
        self.report.counts = dict(sorted(self.report.counts.items()))
        return self.report


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(repr(value)) if value is not None else 0


def _said(row: Row) -> str:
    """Everything that a row says to a model."""
    return repr([[(t.role, t.text, t.thought, t.trained, [(c.name, c.arguments) for c in t.calls]) for t in talk.turns]
                 for talk in row.talks])  # fmt: skip
