"""What a model wrote, made safe to print in the form of the written views.

A model may have been talked into anything by the text that it read. So a claim is one line, without control
characters, marks that a reader could take for ours, links or fences; it opens no section and cites only through us. A
text that is kept whole stands in a code fence that nothing inside it can end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from handoff.evidence import Evidence
from handoff.writers.claims import SECTIONS, Claim
from handoff.writers.extractive import cite, lay_out_note

_SPACE = re.compile(r"\s+")
_CITED = re.compile(r"\s*[\[(]\s*(?:cf\. )?steps?\b[\d\s,;–—and-]*[\])]", re.I)
_LONGEST_CLAIM = 1_000
_LONGEST_TEXT = 60_000
"""Characters."""


def note_of(claims: Sequence[Claim], evidence: Evidence) -> str:
    """The body of a note, of claims that went through ``line``. Ends with a newline."""
    lists = [[f"{claim.text} [{cite(claim.steps)}]" for claim in claims if claim.section == name] for name in SECTIONS]
    return lay_out_note(lists, evidence)


def prose_of(claims: Iterable[Claim]) -> str:
    """The body of a summary, of claims that went through ``line``, each with its steps. Ends with a newline."""
    return " ".join(_sentence(claim) for claim in claims) + "\n"


def _sentence(claim: Claim) -> str:
    text = claim.text
    end = text[-1] if text[-1] in ".!?" else "."
    return f"{text.rstrip('.!?')} ({cite(claim.steps)}){end}"


def line(text: str) -> str:
    """A text on one line that is only words: no control character, link, fence, heading or citation of its own."""
    text = _SPACE.sub(" ", _CITED.sub("", text[:_LONGEST_CLAIM])).strip()
    text = printable(text).replace("](", "] (").replace("```", "'''")
    return text.lstrip("#>*+-|=~ ") or "(nothing)"


def whole(text: str) -> str:
    """A text that is kept as it was written, less control characters. Cut where it is absurdly long."""
    return printable(text[:_LONGEST_TEXT].strip("\n"), kept="\n\t")


def printable(text: str, kept: str = "") -> str:
    """``text`` with the replacement mark for every character that does not print."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else "\N{REPLACEMENT CHARACTER}" for c in text)
