"""The text of a view and of a task: cut where parts of it may get lost, and where something may be said in it.

A view's text comes from a recording and is hostile, and a model may have written it: what is looked for in it may be
missing. What is put into it names only paths and commands that are ``plain``.
"""

from __future__ import annotations

import re

_STEP = re.compile(r"^(?=## Step )", re.MULTILINE)
_SECTION = re.compile(r"^(?=## )", re.MULTILINE)
_CLAUSE = re.compile(r"(?<=[.!?;])(?=\s)|(?<=\n)")
_SENTENCE = re.compile(r"(?<=[.!?])(?=\s)|(?<=\n)(?=\S)")
_NOTHING = re.compile(r"^- (?:NONE OBSERVED|UNKNOWN)\b.*\n?", re.MULTILINE)
_PLAIN = re.compile(r"(?=.*\w)[\w.][\w./+-]{0,199}", re.ASCII)
_BULLET = re.compile(r"^- .*\n?", re.MULTILINE)
_SILENT = frozenset(("repo", "drop", "diff"))


def pieces(view: str, text: str) -> list[str]:
    """A view's text cut where parts of it may get lost; joined, the pieces are the text again."""
    if view == "structured" or is_of_steps(view):
        first, *rest = (_STEP if is_of_steps(view) else _SECTION).split(text)
        if rest:
            return [first, *rest]
    return [piece for piece in _CLAUSE.split(text) if piece]


def is_of_steps(view: str) -> bool:
    """Whether a view tells steps in their order."""
    return view in ("trace", "diet") or view.startswith("window:")


def takes_claims(view: str, text: str) -> bool:
    """Whether somebody speaks in a view, so that something untrue could be said there."""
    return bool(text.strip()) and view not in _SILENT


def sentences(text: str) -> list[str]:
    """A statement cut between sentences and before lines; joined, the pieces are the statement again."""
    return [piece for piece in _SENTENCE.split(text) if piece]


def is_plain(path: str) -> bool:
    """Whether a path or name can stand in a text as it is: letters, digits and ``._/+-``, at most 200."""
    return _PLAIN.fullmatch(path) is not None


def with_claim(view: str, text: str, section: str, claim: str) -> str:
    """The text with one more claim: a bullet in a note's section, a trace's last remark, a last sentence of prose."""
    if view == "structured":
        return _with_bullet(text, section, claim)
    if is_of_steps(view):
        return f"{text.rstrip()}\n\nSaid:\n```\n{claim}\n```\n\n"
    return f"{text.rstrip()} {claim}\n"


def _with_bullet(text: str, section: str, claim: str) -> str:
    first, *rest = _SECTION.split(text)
    for place, piece in enumerate(rest):
        if piece.partition("\n")[0].strip() == f"## {section}":
            kept = _NOTHING.sub("", piece)
            own = kept.rstrip()
            joint = "\n" if own.rpartition("\n")[2].startswith("- ") else "\n\n"
            rest[place] = f"{own}{joint}- {claim}\n{kept[len(own) :].removeprefix(chr(10)) or chr(10)}"
            return first + "".join(rest)
    return f"{text.rstrip()}\n\n## {section}\n\n- {claim}\n"


def without_bullets(text: str, *, naming: str, sections: tuple[str, ...]) -> str:
    """A note without the bullets of some sections that hold ``naming``."""
    parts = _SECTION.split(text)
    for place, piece in enumerate(parts):
        if piece.partition("\n")[0].strip().removeprefix("## ") in sections:
            parts[place] = _BULLET.sub(lambda bullet: "" if naming in bullet[0] else bullet[0], piece)
    return "".join(parts)


def without_clauses(text: str, *, holding: tuple[str, ...]) -> str:
    """Prose without the clauses that hold one of some words."""
    return "".join(piece for piece in _CLAUSE.split(text) if not any(word in piece for word in holding))
