"""``$((…))``: whole numbers, the four operations, remainders and brackets."""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOKEN = re.compile(r"\s*(?:(\d{1,15})|\$?\{?([A-Za-z_]\w*)\}?|([-+*/%()]))", re.A)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})", re.A)
_ASSIGNS = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|<<=|>>=")
_MOST = 10**15
_DEEPEST = 30


class _Untold(Exception):
    """The value is not known, or the expression is beyond what is read here."""


def assigns(text: str) -> bool:
    """Whether an expression sets a variable."""
    return _ASSIGNS.search(text) is not None


def evaluated(text: str, values: Mapping[str, str | None]) -> str | None:
    """The value of an expression as text; ``None``: not known."""
    if len(text) > 500:
        return None
    try:
        return str(_Reader(text, values).whole())
    except _Untold:
        return None


class _Reader:
    def __init__(self, text: str, values: Mapping[str, str | None]) -> None:
        self._text = text.strip()
        self._values = values
        self._place = 0
        self._depth = 0

    def whole(self) -> int:
        found = self._sum()
        if self._place < len(self._text):
            raise _Untold
        return found

    def _take(self, signs: str) -> str:
        match = _TOKEN.match(self._text, self._place)
        if match is None or match[3] is None or match[3] not in signs:
            return ""
        self._place = match.end()
        return match[3]

    def _sum(self) -> int:
        found = self._product()
        while sign := self._take("+-"):
            other = self._product()
            found = self._small(found + other if sign == "+" else found - other)
        return found

    def _product(self) -> int:
        found = self._one()
        while sign := self._take("*/%"):
            other = self._one()
            if sign != "*" and other == 0:
                raise _Untold
            quotient = 0 if sign == "*" else abs(found) // abs(other) * (1 if (found < 0) == (other < 0) else -1)
            found = self._small(found * other if sign == "*" else quotient if sign == "/" else found - quotient * other)
        return found

    def _one(self) -> int:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Untold
        try:
            if self._take("-"):
                return -self._one()
            if self._take("("):
                found = self._sum()
                if not self._take(")"):
                    raise _Untold
                return found
            match = _TOKEN.match(self._text, self._place)
            if match is None or match[3] is not None:
                raise _Untold
            self._place = match.end()
            text = match[1] if match[1] is not None else self._values.get(match[2])
            if text is None or not _NUMBER.fullmatch(text):
                raise _Untold
            return int(text)
        finally:
            self._depth -= 1

    @staticmethod
    def _small(number: int) -> int:
        if abs(number) > _MOST:
            raise _Untold
        return number
