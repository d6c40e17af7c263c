"""One row with its mask: what is trained, what is context, in colours and in letters."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from handoff.exports.tokenised import Tokens
from handoff.lint.checks.masks import trained_tokens
from handoff.lint.pieces import Piece, pieces_of
from handoff.lint.shapes import Row

STYLES = {
    "action": ("T", "bold green", "#1a7f37"),
    "env_output": ("E", "bold blue", "#0550ae"),
    "handoff_state": ("S", "bold magenta", "#8250df"),
    "warning": ("w", "yellow", "#9a6700"),
    "handoff_context": ("h", "cyan", "#57606a"),
    "context": (".", "dim", "#8c959f"),
}
"""Role → letter, style in a terminal, colour on a page."""


class Block(NamedTuple):
    """One message, or a whole row of tokens."""

    heading: str
    pieces: tuple[Piece, ...]


def blocks(row: Row, tokens: Tokens | None = None) -> Iterator[Block]:
    """The row in the order in which a model reads it; of a pair both sides."""
    if row.tokens is not None:
        yield Block("tokens", tuple(_of_tokens(row, tokens)))
    for side, talk in enumerate(row.talks):
        name = ("chosen · ", "rejected · ")[side] if len(row.talks) == 2 else ""
        for turn in talk.turns:
            yield Block(f"{name}{turn.role or 'nobody'} · {turn.place}", tuple(pieces_of(row, turn)))


def _of_tokens(row: Row, tokens: Tokens | None) -> Iterator[Piece]:
    assert row.tokens is not None
    ids, flags = list(row.tokens.ids), trained_tokens(row)
    weights: Sequence[float] = row.tokens.weights or [float(flag) for flag in flags]
    decode = tokens.decode if tokens is not None else None
    at = 0
    for weight, group in itertools.groupby(weights):
        size = len(list(group))
        own = ids[at : at + size]
        at += size
        text = decode(own) if decode is not None else " ".join(map(str, own))
        yield Piece(text, "action" if weight >= 1 else "env_output" if weight > 0 else "context", float(weight))


def page(found: Sequence[Block], title: str) -> str:
    """A self-contained page; nothing of the row can be markup on it."""
    legend = " ".join(
        f'<span style="color:{colour}">{letter} {role}</span>' for role, (letter, _, colour) in STYLES.items()
    )
    parts = []
    for block in found:
        pieces = "".join(
            f'<span title="{html.escape(piece.role)} {piece.weight:g}" style="color:{_colour(piece)};'
            f'{"text-decoration:underline" if piece.weight else ""}">{_plain(piece.text)}</span>'
            for piece in block.pieces
        )
        parts.append(f"<h2>{html.escape(block.heading)}</h2><pre>{pieces}</pre>")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{html.escape(title)}</title><style>body{{font-family:system-ui;max-width:70rem;margin:2rem auto}}"
        "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f6f8fa;padding:.7rem;border-radius:6px}"
        "h2{font-size:.8rem;color:#57606a;margin-bottom:.2rem}</style>"
        f"<h1>{html.escape(title)}</h1><p>Underlined is trained. {legend}</p>{''.join(parts)}</html>\n"
    )


def _colour(piece: Piece) -> str:
    return STYLES.get(piece.role, STYLES["context"])[2]


def _plain(text: str) -> str:
    return html.escape("".join(c if c.isprintable() or c in "\n\t" else "·" for c in text))
