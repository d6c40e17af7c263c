"""The words of a shell line: quotes, escapes, and what a dollar sign or a backquote begins.

Lists, commands and redirections are read in ``syntax``, whose reader builds on this one.
"""

from __future__ import annotations

import re
from typing import Self

from handoff.states.shell.arithmetic import assigns
from handoff.states.shell.tree import Arithmetic, Beyond, Literal_, Part, Script, Substitution, Unread, Variable, Word

_DEEPEST = 40
NAME = re.compile(r"[A-Za-z_]\w*", re.A)
_PLAIN = re.compile(r"[^\s;&|()<>'\"\\$`~*?\[{#!]+")
_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.S)
_ANSI_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}


class WordReader:
    """Reads one text from left to right: its words."""

    def __init__(self, text: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise Beyond("a line that nests too deeply")
        self.text = text
        self.place = 0
        self.depth = depth

    def _inside(self, text: str) -> Self:
        """A reader for a text that this one holds."""
        return type(self)(text, self.depth + 1)

    def script(self, stops: frozenset[str]) -> Script:
        """Chains up to a closing word of ``stops``, a closing bracket, or the end."""
        raise NotImplementedError

    def closed_script(self, closing: str) -> Script:
        """Chains up to and with a closing bracket."""
        raise NotImplementedError

    def is_waiting(self) -> bool:
        """Whether a here-document was named whose text did not come."""
        raise NotImplementedError

    def word(self) -> Word:
        """The next word."""
        start = self.place
        parts: list[Part] = []
        text = self.text
        while self.place < len(text):
            plain = _PLAIN.match(text, self.place)
            if plain is not None:
                parts.append(Literal_(plain[0], False))
                self.place = plain.end()
                continue
            character = text[self.place]
            if character in " \t\n;&|)<>":
                if character in "<>" and text.startswith("(", self.place + 1):
                    raise Beyond("a process as a file")
                break
            if character == "(":
                if self.place == start or parts:
                    if self.place > start and text.startswith("()", self.place):
                        break
                    raise Beyond("a pattern with brackets")
                break
            if character == "'":
                end = text.find("'", self.place + 1)
                if end < 0:
                    raise Beyond("a quote that does not end")
                parts.append(Literal_(text[self.place + 1 : end], True))
                self.place = end + 1
            elif character == '"':
                self.place += 1
                parts += self._double()
            elif character == "\\":
                following = text[self.place + 1 : self.place + 2]
                self.place += 2
                if following != "\n":
                    parts.append(Literal_(following or "\\", True))
            elif character == "$":
                parts.append(self._dollar(is_quoted=False))
            elif character == "`":
                parts.append(self._backquoted(False))
            else:
                parts.append(Literal_(character, False))
                self.place += 1
        if self.place == start:
            raise Beyond("a word that is missing")
        return Word(tuple(parts), text[start : self.place])

    def _double(self) -> list[Part]:
        """The inside of double quotes, which were opened."""
        start = self.place
        end = self._double_end()
        inner = self._inside(self.text[start:end])
        self.place = end + 1
        return [*inner.quoted(in_heredoc=False)] or [Literal_("", True)]

    def _double_end(self) -> int:
        """Where the closing quote is, substitutions skipped."""
        text, place = self.text, self.place
        while place < len(text):
            character = text[place]
            if character == "\\":
                place += 2
            elif character == '"':
                return place
            elif text.startswith("$(", place):
                inner = self._inside(text)
                inner.place = place + 2
                if text.startswith("$((", place):
                    place = arithmetic_end(text, place)
                    continue
                inner.closed_script(")")
                place = inner.place
            elif character == "`":
                end = _backquote_end(text, place)
                place = end + 1
            elif text.startswith("${", place):
                place = _brace_end(text, place)
            else:
                place += 1
        raise Beyond("a quote that does not end")

    def quoted(self, *, in_heredoc: bool) -> tuple[Part, ...]:
        """The whole text as the shell reads it between double quotes, or in a here-document."""
        parts: list[Part] = []
        literal: list[str] = []
        text = self.text
        while self.place < len(text):
            character = text[self.place]
            if character == "\\":
                following = text[self.place + 1 : self.place + 2]
                self.place += 2
                if following == "\n":
                    continue
                is_escape = following in ("$", "`", "\\") or (following == '"' and not in_heredoc)
                literal.append(following if is_escape and following else "\\" + following)
            elif character in "$`":
                part = self._dollar(is_quoted=True) if character == "$" else self._backquoted(True, in_heredoc)
                if isinstance(part, Literal_):
                    literal.append(part.text)
                    continue
                if literal:
                    parts.append(Literal_("".join(literal), True))
                    literal = []
                parts.append(part)
            else:
                literal.append(character)
                self.place += 1
        if literal:
            parts.append(Literal_("".join(literal), True))
        return tuple(parts)

    def _dollar(self, *, is_quoted: bool) -> Part:
        """What a dollar sign begins."""
        text, start = self.text, self.place
        following = text[start + 1 : start + 2]
        if following == "'" and not is_quoted:
            end = start + 2
            while end < len(text) and text[end] != "'":
                end += 2 if text[end] == "\\" else 1
            if end >= len(text):
                raise Beyond("a quote that does not end")
            self.place = end + 1
            return Literal_(_ansi_c(text[start + 2 : end]), True)
        if following == '"' and not is_quoted:
            self.place += 1
            return Literal_("", False)
        if text.startswith("$((", start):
            self.place = arithmetic_end(text, start)
            inside = text[start + 3 : self.place - 2]
            if assigns(inside):
                raise Beyond("arithmetic that sets a variable")
            return Arithmetic(inside) if text[self.place - 2 : self.place] == "))" else Unread(text[start : self.place])
        if following == "(":
            inner = self._inside(text)
            inner.place = start + 2
            script = inner.closed_script(")")
            if inner.is_waiting():
                raise Beyond("a heredoc inside a substitution")
            self.place = inner.place
            return Substitution(script, is_quoted)
        if following == "{":
            self.place = _brace_end(text, start)
            return self._braced(text[start + 2 : self.place - 1], is_quoted)
        if (name := NAME.match(text, start + 1)) is not None:
            self.place = name.end()
            return Variable(name[0], is_quoted)
        if following and (following.isdigit() or following in "?$@*#!-"):
            self.place += 2
            return Variable("?", is_quoted) if following == "?" else Unread(text[start : self.place])
        self.place += 1
        return Literal_("$", is_quoted)

    def _braced(self, inside: str, is_quoted: bool) -> Part:
        name = NAME.match(inside)
        if name is None:
            return Unread("${" + inside + "}")
        rest = inside[name.end() :]
        if not rest:
            return Variable(name[0], is_quoted)
        if rest.startswith(":-") and not set(rest) & set("$`'\"\\{}"):
            return Variable(name[0], is_quoted, Word((Literal_(rest[2:], True),), rest[2:]))
        if rest.startswith((":?", "?", ":=", "=")):
            raise Beyond("an expansion that sets a variable, or ends the line")
        if (trim := re.fullmatch(r"(%%?|##?)([\w.*/-]+)", rest)) is not None:
            return Variable(name[0], is_quoted, trim=(trim[1], trim[2]))
        return Unread("${" + inside + "}")

    def _backquoted(self, is_quoted: bool, in_heredoc: bool = False) -> Part:
        end = _backquote_end(self.text, self.place)
        escaped = r"\\([$`\\\"])" if is_quoted and not in_heredoc else r"\\([$`\\])"
        inside = re.sub(escaped, r"\1", self.text[self.place + 1 : end])
        self.place = end + 1
        inner = self._inside(inside)
        script = inner.script(frozenset())
        if inner.place < len(inside) or inner.is_waiting():
            raise Beyond("a substitution that cannot be read")
        return Substitution(script, is_quoted)


def _backquote_end(text: str, start: int) -> int:
    place = start + 1
    while place < len(text) and text[place] != "`":
        place += 2 if text[place] == "\\" else 1
    if place >= len(text):
        raise Beyond("a substitution that does not end")
    return place


def arithmetic_end(text: str, start: int) -> int:
    """Where the brackets that follow ``start`` are closed."""
    depth, place = 0, start + 1
    while place < len(text):
        depth += (text[place] == "(") - (text[place] == ")")
        place += 1
        if not depth:
            return place
    raise Beyond("arithmetic that does not end")


def _brace_end(text: str, start: int) -> int:
    place, depth = start + 1, 0
    while place < len(text):
        character = text[place]
        if character == "\\":
            place += 1
        elif character in "'\"`":
            raise Beyond("quotes in an expansion")
        depth += (character == "{") - (character == "}")
        place += 1
        if not depth:
            return place
    raise Beyond("an expansion that does not end")


def _ansi_c(text: str) -> str:
    """The text of ``$'…'``; bytes that are no UTF-8 come as the surrogates that stand for them."""

    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "c" and len(code) == 2:
            raise Beyond("a control character by name")
        if code[0] in "uU" and len(code) > 1:
            number = int(code[1:], 16)
            if not 0 < number < 0x110000 or 0xD800 <= number < 0xE000:
                raise Beyond("a character that is none")
            return chr(number)
        if (code[0] == "x" and len(code) > 1) or code[0] in "01234567":
            number = int(code[1:], 16) if code[0] == "x" else int(code, 8) & 255
            if not number:
                raise Beyond("a NUL in a word")
            return chr(number) if number < 128 else chr(0xDC00 + number)
        if code in "\\'\"?":
            return code
        return _ANSI_NAMED.get(code, "\\" + code)

    found = _ANSI.sub(one, text)
    try:
        return found.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise Beyond("half a character") from error
