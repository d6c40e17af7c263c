"""The coding prior: a token trigram model of what ordinary code of this world looks like.

Fitted on the repositories of training runs as those runs left them. It says how much likelier a source becomes
by a single-token change, which is how kata agents tell a fix from a mistake. It knows nothing of tests.

Beside the neighbours of a token it looks at the words of the function's docstring: which operators go with "above" or
"largest" is learned from other functions as well.

A function is judged by the code of functions with other names only. Otherwise the prior would know training
repositories by heart, and a policy would learn there to trust it more than it deserves on code it has never seen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from handoff.identity import canonical_json, identify
from handoff.kata.mutations import SWAPS, Change, Token, code_tokens, functions
from handoff.lake import write_file

_MIN_FILES = 3
"""A name is a word of its own when this many files use it, else it is ``NAME``."""
DOC_WEIGHT = 0.5
"""How much the docstring counts against the neighbours of a token."""
_BACK_OFF = 4.0
"""How many functions the shorter context counts for."""


class _Counts(msgspec.Struct, frozen=True):
    words: tuple[str, ...]
    tokens: dict[str, tuple[str, ...]]
    """Function name → the changeable tokens in its body."""
    doc: dict[str, tuple[str, ...]]
    """Function name → the words of its docstring."""
    grams: dict[str, dict[str, int]]
    """Function name → its n-grams (one to three words joined by a space) → 1."""


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
        self._words_of_token: dict[str, dict[str, list[str]]] = {}
        for name, tokens in sorted(counts.tokens.items()):
            for token in tokens:
                for word in (*counts.doc[name], _ANY):
                    self._words_of_token.setdefault(token, {}).setdefault(word, []).append(name)
        self._with_word: dict[str, list[str]] = {_ANY: sorted(counts.doc)}
        for name, doc in sorted(counts.doc.items()):
            for word in doc:
                self._with_word.setdefault(word, []).append(name)
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
        changeable: dict[str, tuple[str, ...]] = {}
        doc: dict[str, tuple[str, ...]] = {}
        for text in sources:
            tokens = code_tokens(text)
            for name, first, last in functions(text):
                changeable[name] = tuple(
                    sorted({t.text for t in tokens if first <= t.line <= last and t.text in SWAPS})
                )
                doc[name] = _doc_words(text, first, last)
                line = ["^", "^", *(_word(token, known) for token in tokens if first <= token.line <= last)]
                own = grams.setdefault(name, {})
                for at in range(2, len(line)):
                    for start in (at - 2, at - 1, at):
                        gram = " ".join(line[start : at + 1])
                        own[gram] = 1  # many copies of one function say no more than one
        own_grams = {name: dict(sorted(own.items())) for name, own in sorted(grams.items())}
        return Prior(_Counts(words, dict(sorted(changeable.items())), dict(sorted(doc.items())), own_grams))

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
                told = self._told(name, _doc_words(text, first, last), change)
                return self._score(after, own) - self._score(words[at - 2 : at + 3], own) + DOC_WEIGHT * told
        return 0.0

    def _told(self, name: str, doc: tuple[str, ...], change: Change) -> float:
        """How much the words of a docstring speak for the new token rather than the old one."""
        total = 0.0
        for word in doc:
            seen = sum(1 for other in self._with_word.get(word, ()) if other != name)
            if not seen:
                continue
            everyone = sum(1 for other in self._with_word[_ANY] if other != name)
            for token, sign in ((change.new, 1), (change.old, -1)):
                by_word = self._words_of_token.get(token, {})
                usual = sum(1 for other in by_word.get(_ANY, ()) if other != name) / max(1, everyone)
                times = sum(1 for other in by_word.get(word, ()) if other != name)
                total += sign * math.log((times + usual + 0.05) / (seen + 1) / (usual + 0.05))
        return total

    def _score(self, window: tuple[str, ...], own: Mapping[str, int]) -> float:
        return sum(math.log(self._probability(window[at - 2 : at + 1], own)) for at in range(2, 5))

    def _probability(self, gram: tuple[str, ...], own: Mapping[str, int]) -> float:
        """Of the last word after the two before it: orders backed off by how often their context was seen."""
        value = 1 / self._vocabulary
        for first in (2, 1, 0):
            context = _CONTEXT + " ".join(gram[first:2])
            seen = self._all.get(context, 0) - own.get(context, 0)
            if seen > 0:
                whole = " ".join(gram[first:])
                times = self._all.get(whole, 0) - own.get(whole, 0)
                value = (times + _BACK_OFF * value) / (seen + _BACK_OFF)
        return value


_ANY = ""
"""Stands for any word."""


@lru_cache(maxsize=16_384)
def _doc_words(text: str, first: int, last: int) -> tuple[str, ...]:
    """The words of the docstring of the function on these lines, sorted."""
    match = _DOC.search("\n".join(text.split("\n")[first - 1 : last]))
    return tuple(sorted(set(re.findall(r"[a-z]{3,}", match[1].lower())))) if match else ()


_DOC = re.compile(r'"""(.*?)"""', re.DOTALL)

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
