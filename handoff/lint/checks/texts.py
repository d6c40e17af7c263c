"""What must not be in a text: secrets, notices of the harness where they are learned, halves of characters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from handoff.lint.codes import Finding
from handoff.lint.pieces import pieces_of
from handoff.lint.shapes import Row, Talk, Turn
from handoff.secrets import Redactor

_NOTICE = re.compile(
    r"\[[^\[\]\n]{0,80}\b(?:output truncated|lines? left out|truncated:)[^\[\]\n]{0,80}\]|<response clipped>"
    r"|Your (?:last )?(?:response|command) (?:was|has been) (?:too long|truncated)",
    re.IGNORECASE,
)
_HALF = re.compile("[\ud800-\udfff]")


def check_texts(row: Row, talk: Talk) -> Iterator[Finding]:
    """T01 to T03."""
    redactor = Redactor()
    for turn in talk.turns:
        if turn.trained and any(_NOTICE.search(text) for text in _texts(turn)):
            learned = (piece.text for piece in pieces_of(row, turn) if piece.weight)
            found = next((match for text in learned if (match := _NOTICE.search(text))), None)
            if found is not None:
                yield Finding("T01", turn.place, found.group()[:80])
        for text in _texts(turn):
            if _HALF.search(text):
                yield Finding("T03", turn.place, "")
                continue
            before = redactor.count
            redactor.json(text) if text.lstrip()[:1] in ("{", "[") else redactor.text(text)
            if redactor.count > before:
                yield Finding("T02", turn.place, ", ".join(sorted(redactor.found)))


def _texts(turn: Turn) -> Iterator[str]:
    if isinstance(turn.text, str):
        yield turn.text
    if turn.thought:
        yield turn.thought
    for call in turn.calls:
        yield call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, default=str)
