"""What a view tells a kata agent: the notes, summaries and traces of the predecessor, read from their text.

Only the text of the view is read, as any successor would, and only what can be recognised in any of the written
views: files said to be changed, put back or read, tests said to fail, whether the last validation passed. Rendering
views is in ``handoff/views``.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

_SOURCE = re.compile(r"\b([a-z_]+/[a-z_]+\.py)\b")
_TEST_ID = re.compile(r"\b(tests/\w+\.py::\w+)\b")


class Handed(msgspec.Struct, frozen=True, kw_only=True):
    """What a view said. Everything is empty for a view that says nothing."""

    has_notes: bool = False
    changed: tuple[str, ...] = ()
    """Source files said to be changed and not put back, sorted."""
    reverted: tuple[str, ...] = ()
    """Source files said to have had an edit put back."""
    read: tuple[str, ...] = ()
    """Source files said to have been read."""
    failing: tuple[str, ...] = ()
    """Tests said to fail when they last ran."""
    is_passing: bool | None = None
    """What the last validation said; ``None``: none was told."""
    is_stale: bool = False
    """Edits came after the last validation."""
    mentions: tuple[str, ...] = ()
    """Every source file named, sorted."""
    last_mentioned: str = ""


@lru_cache(maxsize=512)
def read_view(view: str, text: str) -> Handed:
    """Read a view's text."""
    kind = view.partition(":")[0]
    if not text or kind == "diff":  # a diff is read by ``mind.read_diff``
        return Handed()
    return _read_trace(text) if kind in ("trace", "window", "diet") else _read_notes(text)


def _read_notes(text: str) -> Handed:
    changed: dict[str, None] = {}
    reverted: dict[str, None] = {}
    read: dict[str, None] = {}
    failing: dict[str, None] = {}
    passing: bool | None = None
    stale = False
    for sentence in re.split(r"(?<=[.;!?])\s+|\n", text):
        words = sentence.lower()
        paths = [path for path in _SOURCE.findall(sentence) if not path.startswith("tests/")]
        if re.search(r"revert|put back|undone|restored|took back", words):
            reverted.update(dict.fromkeys(paths))
        elif re.search(r"chang|edit|modif", words) and not re.search(
            r"unchanged|no (file|change|edit)|\bnot (been )?(chang|edit)", words
        ):
            changed.update(dict.fromkeys(paths))
        elif re.search(r"\bread\b|looked at|inspected|viewed|opened", words):
            read.update(dict.fromkeys(paths))
        if re.search(r"fail", words):
            failing.update(dict.fromkeys(_TEST_ID.findall(sentence)))
        if re.search(r"valid|test|pytest", words):
            if re.search(r"[1-9]\d* failed|\bfailed\b|outcome: failed|did not pass", words):
                passing = False
            elif re.search(r"\bpassed\b|outcome: passed", words):
                passing = True
        if re.search(r"stale", words) and not re.search(r"not stale|is_stale: (no|false)|stale: (no|false)", words):
            stale = True
    mentions = [path for path in _SOURCE.findall(text) if not path.startswith("tests/")]
    return Handed(
        has_notes=True,
        changed=tuple(sorted(changed)),
        reverted=tuple(sorted(reverted)),
        read=tuple(sorted(read)),
        failing=tuple(sorted(failing)),
        is_passing=passing,
        is_stale=stale,
        mentions=tuple(sorted(set(mentions))),
        last_mentioned=mentions[-1] if mentions else "",
    )


_RESULT = re.compile(r"^(?:(\d+) failed(?:, )?)?(?:(\d+) passed)?[\w ,]*$", re.MULTILINE)


def _read_trace(text: str) -> Handed:
    """Edits, reads and test runs of a full trace, in their order."""
    changed: dict[str, None] = {}
    reverted: dict[str, None] = {}
    read: dict[str, None] = {}
    failing: tuple[str, ...] = ()
    passing: bool | None = None
    stale = False
    standing: dict[tuple[str, str, str], None] = {}
    events = re.split(r"(?=str_replace_editor|python -m pytest -q|\bcat [a-z_]+/|git checkout -- )", text)
    for event in events:
        if event.startswith("cat "):
            read.update(dict.fromkeys(_SOURCE.findall(event[:80])[:1]))
        elif event.startswith("git checkout"):
            for path in _SOURCE.findall(event[:100])[:1]:
                reverted[path] = None
                standing = {key: None for key in standing if key[0] != path}
            stale = True
        elif event.startswith("str_replace_editor"):
            strings = {
                name: match[1]
                for name in ("path", "old_str", "new_str")
                if (match := re.search(rf'"?{name}"?\W+"?((?:[^"\\]|\\.)*)"', event)) is not None
            }
            path = strings.get("path", "")
            if path.endswith(".py"):
                key = (path, strings.get("old_str", ""), strings.get("new_str", ""))
                inverse = (path, key[2], key[1])
                if inverse in standing:
                    del standing[inverse]
                    reverted[path] = None
                else:
                    standing[key] = None
                stale = True
        elif event.startswith("python -m pytest"):
            tests = tuple(sorted(dict.fromkeys(_TEST_ID.findall(event))))
            outcome = [m for m in _RESULT.finditer(event) if m[1] or m[2]]
            if outcome:
                passing = not outcome[-1][1]
                failing = tests if not passing else ()
                stale = False
    changed.update(dict.fromkeys(key[0] for key in standing))
    mentions = [path for path in _SOURCE.findall(text) if not path.startswith("tests/")]
    return Handed(
        has_notes=True,
        changed=tuple(sorted(changed)),
        reverted=tuple(sorted(reverted)),
        read=tuple(sorted(read)),
        failing=failing,
        is_passing=passing,
        is_stale=stale,
        mentions=tuple(sorted(set(mentions))),
        last_mentioned=mentions[-1] if mentions else "",
    )
