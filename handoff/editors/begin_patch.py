"""Patches in the ``*** Begin Patch`` form, applied as Codex's ``apply_patch`` does it.

Lines are looked for as they are, then without white space at their ends, then without any around them, then with
typographic characters made plain; the search begins behind the place found before. A section without old lines adds
at the file's end, whatever its ``@@`` line says. The file ends in a line feed afterwards.

Generations differ. The older one writes the patch's own form of a line that it found loosely, takes carriage returns
for text, and drops an empty line at the file's end; the newer one leaves lines that stay as they are, with their ends.
Where the two leave different bytes the result is ``Unknowable``. Facts: codex 0.1 to 0.171.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from handoff.editors.plain import Misfit, Unknowable, encoded

_WHITE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("‘’‚‛", "'"),
        **dict.fromkeys("“”„‟", '"'),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "
_HEADS = (_ADD, _DELETE, _UPDATE, "*** End Patch")
_END_OF_FILE = "*** End of File"


class Chunk(NamedTuple):
    """One hunk of a file's update."""

    anchor: str | None
    lines: list[tuple[str, str]]
    """(sign, text): `` `` stays, ``-`` goes, ``+`` comes."""
    is_at_end: bool

    @property
    def old(self) -> list[str]:
        """The lines that it looks for."""
        return [text for sign, text in self.lines if sign != "+"]


class Section(NamedTuple):
    """What the patch says of one file. ``text``: of a new one; ``lines``: of a changed one; neither: it goes."""

    path: str
    text: str | None = None
    lines: list[str] | None = None
    target: str | None = None


def is_begin_patch(text: str) -> bool:
    """Whether a patch is in this form. It may be wrapped in the marks of a here-document."""
    return text.lstrip().startswith(("*** Begin Patch", "<<EOF\n", "<<'EOF'\n", '<<"EOF"\n'))


def changes(text: str, read: Callable[[str], bytes | None]) -> Iterator[tuple[str, bytes | None]]:
    """(path, content or ``None`` when it goes) for each file, in the patch's order."""
    for section in _sections(text):
        if section.text is not None:
            yield section.path, encoded(section.text)
            continue
        data = read(section.path)
        if data is None:
            raise Misfit(f"{section.path}: the patch changes or removes a file that does not exist")
        if section.lines is None:
            yield section.path, None
            continue
        after = _updated(data, section.path, section.lines)
        if section.target == section.path:
            raise Unknowable(f"{section.path}: the patch moves the file to itself")
        if section.target is not None:
            yield section.path, None
        yield section.target or section.path, after


def _sections(text: str) -> Iterator[Section]:
    lines = [line.rstrip("\r") for line in text.strip(_WHITE).split("\n")]
    if lines[0].startswith("<<"):
        lines = lines[1:-1]
    at = 1
    while at < len(lines):
        head = lines[at].strip(_WHITE)
        at += 1
        if head == "*** End Patch":
            return
        if head.startswith(_ADD):
            body = []
            while at < len(lines) and lines[at].startswith("+"):
                body.append(f"{lines[at][1:]}\n")
                at += 1
            yield Section(head[len(_ADD) :], text="".join(body))
        elif head.startswith(_DELETE):
            yield Section(head[len(_DELETE) :])
        elif head.startswith(_UPDATE):
            target = None
            if at < len(lines) and lines[at].startswith(_MOVE):
                target = lines[at][len(_MOVE) :].strip(_WHITE)
                at += 1
            end = at
            while end < len(lines) and not lines[end].startswith(_HEADS):
                end += 1
            yield Section(head[len(_UPDATE) :], lines=lines[at:end], target=target)
            at = end
        elif head:
            raise Misfit("the patch has a line outside any file")


def _chunks(lines: list[str], *, is_newer: bool) -> list[Chunk]:
    found: list[Chunk] = []
    anchor: str | None = None
    body: list[tuple[str, str]] = []
    is_open = False

    def close(is_at_end: bool = False) -> None:
        nonlocal anchor, is_open
        if is_open and not body:
            raise Misfit("a hunk of the patch has no lines")
        if is_open:
            found.append(Chunk(anchor, body.copy(), is_at_end))
        anchor, is_open = None, False
        body.clear()

    for line in lines:
        if line.rstrip(_WHITE) == "@@" or line.startswith("@@ "):
            close()
            anchor = line[3:].strip(_WHITE) or None
            is_open = True
        elif line.strip(_WHITE) == _END_OF_FILE:
            close(is_at_end=True)
        elif line[:1] in ("+", "-", " ", ""):
            if not (is_open or is_newer or line.strip(_WHITE)):
                continue  # blank lines between hunks
            is_open = True
            body.append((line[:1] or " ", line[1:]))
        else:
            raise Misfit("the patch has a line that neither adds, removes nor stays")
    close()
    if not found:
        raise Misfit("the patch changes a file and does not say how")
    return found


def _updated(data: bytes, path: str, lines: list[str]) -> bytes:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Unknowable(f"{path}: the editor reads UTF-8, and the file is not") from None
    results: dict[str, None] = {}
    refusal: Misfit | None = None
    for update in (_older, _newer):
        try:
            results[update(text, path, lines)] = None
        except Misfit as misfit:
            refusal = refusal or misfit
    if len(results) > 1:
        raise Unknowable(f"{path}: releases of the editor differ in what they do to white space that the patch lacks")
    if refusal is not None and not results:
        raise refusal
    return encoded(next(iter(results)))


def _older(text: str, path: str, lines: list[str]) -> str:
    pieces = text.split("\n")
    if not pieces[-1]:
        pieces.pop()
    after = pieces.copy()
    places = sorted(_places(pieces, path, lines, is_newer=False), key=lambda item: item[0])
    for start, found in reversed(places):
        after[start : start + len(found.old)] = [line for sign, line in found.lines if sign != "-"]
    return "\n".join(after if after and not after[-1] else [*after, ""])


def _newer(text: str, path: str, lines: list[str]) -> str:
    ends = [piece[-1:] == "\r" for piece in text.split("\n")[:-1]]
    pieces = [line.removesuffix("\r") for line in text.split("\n")[:-1]]
    if rest := text.rsplit("\n", 1)[-1]:
        pieces.append(rest)
    first = "\r\n" if ends and ends[0] else "\n"
    whole = [
        line + ("\r\n" if place < len(ends) and ends[place] else first if place >= len(ends) else "\n")
        for place, line in enumerate(pieces)
    ]
    runs: list[tuple[int, int, list[str]]] = []
    for start, chunk in _places(pieces, path, lines, is_newer=True):
        runs += _runs(start, chunk, first)
    runs.sort(key=lambda run: run[0])
    for start, end, made in reversed(runs):
        whole[start:end] = made
    return "".join(whole)


def _runs(start: int, chunk: Chunk, end: str) -> Iterator[tuple[int, int, list[str]]]:
    """(first line, line behind the last, the new ones) for each stretch of lines that go or come."""
    place = begun = start
    made: list[str] = []
    for sign, line in [*chunk.lines, (" ", "")]:
        if sign == " ":
            if place > begun or made:
                yield begun, place, made
            place = begun = place + 1
            made = []
        elif sign == "+":
            made.append(line + end)
        else:
            place += 1


def _places(lines: list[str], path: str, patch: list[str], *, is_newer: bool) -> list[tuple[int, Chunk]]:
    """(first line, the hunk as it was found) for each, in the patch's order."""
    found: list[tuple[int, Chunk]] = []
    place = 0
    for chunk in _chunks(patch, is_newer=is_newer):
        if chunk.anchor is not None:
            at = _seek(lines, [chunk.anchor], place, False)
            if at is None:
                raise Misfit(f"{path}: the anchor {chunk.anchor!r} does not occur")
            place = at + 1
        old = chunk.old
        if not old:
            is_before_last = not is_newer and bool(lines) and not lines[-1]
            found.append((len(lines) - is_before_last, chunk))
            continue
        at = _seek(lines, old, place, chunk.is_at_end)
        if at is None and not old[-1]:
            chunk = _without_last(chunk)
            old = old[:-1]
            at = _seek(lines, old, place, chunk.is_at_end)
        if at is None:
            raise Misfit(f"{path}: a hunk of the patch does not fit")
        found.append((at, chunk))
        place = at + len(old)
    return found


def _without_last(chunk: Chunk) -> Chunk:
    """Without the empty line that is last of the old ones, and of the new ones if it is last there too."""
    lines = chunk.lines.copy()
    last = max(place for place, (sign, _) in enumerate(lines) if sign != "+")
    sign = lines[last][0]
    if sign == " " and last != len(lines) - 1:
        lines[last] = ("+", "")
        if not lines[-1][1]:
            lines.pop()
    else:
        lines.pop(last)
        if sign == "-" and lines and lines[-1] == ("+", ""):
            lines.pop()
    return chunk._replace(lines=lines)


def _as_is(line: str) -> str:
    return line


def _without_end(line: str) -> str:
    return line.rstrip(_WHITE)


def _bare(line: str) -> str:
    return line.strip(_WHITE)


def _made_plain(line: str) -> str:
    return line.strip(_WHITE).translate(_PLAIN)


def _seek(lines: list[str], wanted: list[str], start: int, is_at_end: bool) -> int | None:
    if not wanted:
        return start
    last = len(lines) - len(wanted)
    if last < 0:
        return None
    first = last if is_at_end else start
    for same in (_as_is, _without_end, _bare, _made_plain):
        shown, trimmed = [same(line) for line in lines], [same(line) for line in wanted]
        for at in range(first, last + 1):
            if shown[at] == trimmed[0] and shown[at : at + len(trimmed)] == trimmed:
                return at
    return None
