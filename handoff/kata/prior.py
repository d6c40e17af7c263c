"""The coding prior: a token trigram model of what ordinary code of this world looks like.

Fitted on the repositories of training runs as those runs left them. It says how much likelier a source becomes
by a single-token change, which is how kata agents tell a fix from a mistake. It knows nothing of tests.

A function is judged by the code of functions with other names only. Otherwise the prior would know training
repositories by heart, and a policy would learn there to trust it more than it deserves on code it has never seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from handoff.identity import canonical_json, identify
from handoff.kata.mutations import Change, Token, code_tokens, functions
from handoff.lake import write_file

_MIN_FILES = 3
"""A name is a word of its own when this many files use it, else it is ``NAME``."""
_WEIGHTS = (0.70, 0.22, 0.08)
"""Interpolation of trigram, bigram and unigram."""


class _Counts(msgspec.Struct, frozen=True):
    words: tuple[str, ...]
    grams: dict[str, dict[str, int]]
    """Function name → its n-grams (one to three words joined by a space) → how often."""


class Prior:
    """How ordinary a token is between its neighbours."""

    def __init__(self, counts: _Counts) -> None:
        self._counts = counts
        self._words = frozenset(counts.words)
        self._vocabulary = len(counts.words) + 3
        self._own = {name: _with_contexts(grams) for name, grams in sorted(counts.grams.items())}
        self._all: dict[str, int] = {}
        for grams in self._own.values():
            for gram, n in grams.items():
                self._all[gram] = self._all.get(gram, 0) + n
        self._gains = lru_cache(maxsize=65_536)(self._gain)

    @staticmethod
    def fit(texts: Iterable[str]) -> Prior:
        """The prior of a set of sources; their order does not matter."""
        sources = sorted(texts)
        files: dict[str, int] = {}
        for text in sources:
            for name in {token.text for token in code_tokens(text) if token.is_name}:
                files[name] = files.get(name, 0) + 1
        words = tuple(sorted(name for name, n in files.items() if n >= _MIN_FILES))
        known = frozenset(words)
        grams: dict[str, dict[str, int]] = {}
        for text in sources:
            tokens = code_tokens(text)
            for name, first, last in functions(text):
                line = ["^", "^", *(_word(token, known) for token in tokens if first <= token.line <= last)]
                own = grams.setdefault(name, {})
                for at in range(2, len(line)):
                    for start in (at - 2, at - 1, at):
                        gram = " ".join(line[start : at + 1])
                        own[gram] = own.get(gram, 0) + 1
        return Prior(_Counts(words, {name: dict(sorted(own.items())) for name, own in sorted(grams.items())}))

    @property
    def digest(self) -> str:
        """Content hash."""
        return identify("m", canonical_json(self._counts))

    def save(self, path: Path) -> None:
        """Write it as JSON, whole or not at all."""
        write_file(path, canonical_json(self._counts))

    @staticmethod
    def load(path: Path) -> Prior:
        """Read it back."""
        return Prior(msgspec.json.decode(path.read_bytes(), type=_Counts))

    def gain(self, text: str, change: Change) -> float:
        """How many nats likelier ``text`` becomes by ``change``; above zero speaks for it."""
        return self._gains(text, change)

    def _gain(self, text: str, change: Change) -> float:
        place = next(((n, f, e) for n, f, e in functions(text) if f <= change.line <= e), None)
        if place is None:
            return 0.0
        name, first, last = place
        tokens = [token for token in code_tokens(text) if first <= token.line <= last]
        words = ("^", "^", *(_word(token, self._words) for token in tokens), "^", "^")
        own = self._own.get(name, {})
        for at, token in enumerate(tokens, 2):
            if token.line == change.line and token.column == change.column:
                new = _word(Token(0, 0, change.new, token.is_name, token.is_number), self._words)
                after = (words[at - 2], words[at - 1], new, *words[at + 1 : at + 3])
                return self._score(after, own) - self._score(words[at - 2 : at + 3], own)
        return 0.0

    def _score(self, window: tuple[str, ...], own: Mapping[str, int]) -> float:
        return sum(math.log(self._probability(window[at - 2 : at + 1], own)) for at in range(2, 5))

    def _probability(self, gram: tuple[str, ...], own: Mapping[str, int]) -> float:
        total = 0.001 / self._vocabulary
        for weight, first in zip(_WEIGHTS, range(3), strict=True):
            context = _CONTEXT + " ".join(gram[first:2])
            seen = self._all.get(context, 0) - own.get(context, 0)
            if seen > 0:
                whole = " ".join(gram[first:])
                total += weight * (self._all.get(whole, 0) - own.get(whole, 0)) / seen
        return total


_CONTEXT = "\0"
"""Before a context in the tables: how often it was followed by anything."""


def _with_contexts(grams: Mapping[str, int]) -> dict[str, int]:
    found = dict(grams)
    for gram, n in grams.items():
        context = _CONTEXT + gram.rpartition(" ")[0]
        found[context] = found.get(context, 0) + n
    return found


def _word(token: Token, known: frozenset[str]) -> str:
    if token.is_number:
        return token.text if token.text in {"0", "1", "2"} else "N"
    if token.is_name:
        return token.text if token.text in known else "NAME"
    return token.text
