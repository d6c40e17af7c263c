"""A shell line as a tree that can be carried out: lists, pipelines, branches, loops, words with their parts.

Only what the machine beside it can carry out is read; anything else raises ``Beyond``, and the line's static reading
(``actions.lines``) is used. What a line means for keys is there too: that reading never needs the files.
"""

from __future__ import annotations

import re
from typing import Literal

from handoff.states.shell.tree import (
    Beyond,
    Block,
    Case,
    Chain,
    Command,
    For,
    Function,
    Heredoc,
    If,
    Literal_,
    Part,
    Pipeline,
    Redirect,
    Script,
    Simple,
    Substitution,
    Unread,
    Variable,
    While,
    Word,
)

LONGEST = 200_000
_DEEPEST = 40
_NAME = re.compile(r"[A-Za-z_]\w*", re.A)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=", re.A)
_OPERATOR = re.compile(r"&&|\|\||;;|\|&|[;&|()\n]")
_REDIRECT = re.compile(r"(\d*)(<<<|<<-|<<|>>|>\||>&|<&|<>|&>>|&>|[<>])")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)*(?:#[^\n]*)?")
_ENDS = frozenset(("then", "else", "elif", "fi", "do", "done", "esac", "}"))
_RESERVED = _ENDS | {
    "if",
    "for",
    "while",
    "until",
    "case",
    "{",
    "function",
    "select",
    "time",
    "coproc",
    "[[",
    "!",
    "in",
}
_PLAIN = re.compile(r"[^\s;&|()<>'\"\\$`~*?\[{#!]+")
_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.S)
_ANSI_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}


def read_line(line: str) -> Script:
    """The tree of a whole line. ``Beyond`` when some of it is not carried out here."""
    if len(line) > LONGEST or "\0" in line:
        raise Beyond("a line that is too long")
    reader = _Reader(line, 0)
    script = reader.script(frozenset())
    if reader.place < len(line):
        raise Beyond("a line that does not end where it should")
    return script


class _Reader:
    """Reads one text from left to right."""

    def __init__(self, text: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise Beyond("a line that nests too deeply")
        self.text = text
        self.place = 0
        self.depth = depth
        self._waiting: list[Heredoc] = []

    # -- tokens ---------------------------------------------------------------------------------

    def _blanks(self) -> None:
        match = _BLANKS.match(self.text, self.place)
        assert match is not None
        self.place = match.end()

    def _operator(self) -> str:
        """The operator that comes next, or nothing."""
        self._blanks()
        match = _OPERATOR.match(self.text, self.place)
        if match is None or _REDIRECT.match(self.text, self.place):
            return ""
        return match[0]

    def _take(self, operator: str) -> None:
        self.place += len(operator)
        if operator == "\n":
            self._bodies()

    def _newlines(self) -> None:
        while self._operator() == "\n":
            self._take("\n")

    def _reserved(self) -> str:
        """The reserved word that comes next, or nothing."""
        self._blanks()
        end = self.place
        while end < len(self.text) and self.text[end] not in " \t\n;&|()<>":
            end += 1
        word = self.text[self.place : end]
        return word if word in _RESERVED else ""

    def _expect(self, word: str) -> None:
        self._newlines()
        if self._reserved() != word:
            raise Beyond(f"a line without its {word}")
        self.place += len(word)

    # -- lists ----------------------------------------------------------------------------------

    def script(self, stops: frozenset[str]) -> Script:
        """Chains up to a closing word of ``stops``, a closing bracket, or the end."""
        chains: list[Chain] = []
        while True:
            self._newlines()
            word = self._reserved()
            if self.place >= len(self.text) or self._operator() in (")", ";;") or word in stops:
                return tuple(chains)
            if word in _ENDS:
                raise Beyond(f"an unexpected {word}")
            start = self.place
            chain = self._chain()
            operator = self._operator()
            shown = self.text[start : self.place].strip()[:80]
            chains.append(chain._replace(is_background=operator == "&", text=shown))
            if operator in (";", "&", "\n"):
                self._take(operator)
            elif operator not in ("", ")", ";;") or (operator == "" and self.place < len(self.text)):
                raise Beyond(f"an unexpected {operator or self.text[self.place]!r}")

    def _chain(self) -> Chain:
        items: list[tuple[Literal["", "&&", "||"], Pipeline]] = [("", self._pipeline())]
        while (operator := self._operator()) in ("&&", "||"):
            self._take(operator)
            self._newlines()
            items.append(("&&" if operator == "&&" else "||", self._pipeline()))
        return Chain(tuple(items), False, "")

    def _pipeline(self) -> Pipeline:
        is_negated = False
        while (word := self._reserved()) in ("!", "time"):
            self.place += len(word)
            is_negated = is_negated != (word == "!")
            self._blanks()
            if word == "time" and self.text.startswith("-p ", self.place):
                self.place += 3
        found = [self._command()]
        while self._operator() == "|":
            self._take("|")
            self._newlines()
            found.append(self._command())
        if self._operator() == "|&":
            raise Beyond("|&")
        return Pipeline(tuple(found), is_negated)

    # -- commands -------------------------------------------------------------------------------

    def _command(self) -> Command:
        word = self._reserved()
        if self._operator() == "(":
            if self.text.startswith("((", self.place):
                end = _arithmetic_end(self.text, self.place - 1)
                if self.text[end - 2 : end] == "))":
                    raise Beyond("arithmetic")
            self._take("(")
            script = self._inner(")")
            return Block(script, True, self._redirects())
        match word:
            case "":
                return self._simple()
            case "{":
                self.place += 1
                script = self.script(frozenset(("}",)))
                self._expect("}")
                return Block(script, False, self._redirects())
            case "if":
                return self._if()
            case "for":
                return self._for()
            case "while" | "until":
                self.place += len(word)
                condition = self.script(frozenset(("do",)))
                body = self._do()
                return While(condition, body, word == "until", self._redirects())
            case "case":
                return self._case()
            case "function":
                self.place += len(word)
                return self._function()
            case "in":
                return self._simple()
            case _:
                raise Beyond(word)

    def _inner(self, closing: str) -> Script:
        inner = self.script(frozenset())
        if self._operator() != closing:
            raise Beyond(f"a line without its {closing}")
        self._take(closing)
        return inner

    def _if(self) -> If:
        branches: list[tuple[Script, Script]] = []
        while True:
            self.place += len(self._reserved())  # if, elif
            condition = self.script(frozenset(("then",)))
            self._expect("then")
            branches.append((condition, self.script(frozenset(("elif", "else", "fi")))))
            word = self._reserved()
            if word == "else":
                self.place += 4
                branches.append(((), self.script(frozenset(("fi",)))))
            if word != "elif":
                break
        self._expect("fi")
        return If(tuple(branches), self._redirects())

    def _do(self) -> Script:
        self._expect("do")
        body = self.script(frozenset(("done",)))
        self._expect("done")
        return body

    def _for(self) -> For:
        self.place += 3
        self._blanks()
        name = _NAME.match(self.text, self.place)
        if name is None:
            raise Beyond("a for loop that counts")
        self.place = name.end()
        self._newlines()
        if self._reserved() != "in":
            raise Beyond("a for loop over arguments")
        self.place += 2
        words: list[Word] = []
        while self._operator() == "" and self.place < len(self.text):
            words.append(self._word())
        if self._operator() in (";", "\n"):
            self._take(self._operator())
        return For(name[0], tuple(words), self._do(), self._redirects())

    def _case(self) -> Case:
        self.place += 4
        self._blanks()
        subject = self._word()
        self._expect("in")
        items: list[tuple[tuple[Word, ...], Script]] = []
        while True:
            self._newlines()
            if self._reserved() == "esac":
                self.place += 4
                return Case(subject, tuple(items), self._redirects())
            if self._operator() == "(":
                self._take("(")
            patterns: list[Word] = []
            while True:
                self._blanks()
                patterns.append(self._word())
                operator = self._operator()
                self._take(operator)
                if operator == ")":
                    break
                if operator != "|":
                    raise Beyond("a case that cannot be read")
            script = self.script(frozenset(("esac",)))
            items.append((tuple(patterns), script))
            if self._operator() == ";;":
                self._take(";;")

    def _function(self) -> Function:
        self._blanks()
        name = _NAME.match(self.text, self.place)
        if name is None:
            raise Beyond("a function that cannot be read")
        self.place = name.end()
        if self._operator() == "(":
            self._take("(")
            if self._operator() != ")":
                raise Beyond("a function that cannot be read")
            self._take(")")
        self._newlines()
        return Function(name[0], self._command())

    def _redirects(self) -> tuple[Redirect, ...]:
        found: list[Redirect] = []
        while True:
            self._blanks()
            match = _REDIRECT.match(self.text, self.place)
            if match is None:
                return tuple(found)
            found.append(self._redirect(match))

    def _redirect(self, match: re.Match[str]) -> Redirect:
        self.place = match.end()
        self._blanks()
        fd = int(match[1][:4]) if match[1] else None
        operator = match[2]
        if operator in ("<<", "<<-"):
            start = self.place
            word = self._word()
            if any(not isinstance(part, Literal_) for part in word.parts):
                raise Beyond("a heredoc whose end is no plain word")
            raw = self.text[start : self.place]
            delimiter = "".join(part.text for part in word.parts if isinstance(part, Literal_))
            heredoc = Heredoc(delimiter, any(mark in raw for mark in "'\"\\"), operator == "<<-")
            self._waiting.append(heredoc)
            return Redirect(fd, "<<", heredoc)
        if operator == "<>":
            raise Beyond("<>")
        return Redirect(fd, operator, self._word())

    def _bodies(self) -> None:
        """The here-documents that begin after the line just ended."""
        waiting, self._waiting = self._waiting, []
        for heredoc in waiting:
            lines: list[str] = []
            while self.place < len(self.text):  # else the shell warns, and takes what there is
                line = self._logical_line(joins=not heredoc.is_raw)
                bare = line.lstrip("\t") if heredoc.strips_tabs else line
                if bare.removesuffix("\n") == heredoc.delimiter:
                    break
                lines.append(bare if bare.endswith("\n") else bare + "\n")
            body = "".join(lines)
            if heredoc.is_raw:
                heredoc.word = Word((Literal_(body, True),), body)
            else:
                heredoc.word = Word(_Reader(body, self.depth + 1).quoted(in_heredoc=True), body)

    def _logical_line(self, *, joins: bool) -> str:
        """The next line of a here-document; with ``joins`` a backslash at its end brings the one after it along."""
        parts: list[str] = []
        while True:
            end = self.text.find("\n", self.place)
            line = self.text[self.place : end + 1] if end >= 0 else self.text[self.place :]
            self.place += len(line)
            if not joins or not _is_continued(line):
                return "".join([*parts, line])
            parts.append(line[:-2])

    def _simple(self) -> Command:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            self._blanks()
            if (match := _REDIRECT.match(self.text, self.place)) is not None:
                redirects.append(self._redirect(match))
                continue
            if self.place >= len(self.text):
                break
            operator = self._operator()
            if operator == "(" and len(words) == 1 and not assignments and not redirects:
                name = words[0].text
                if _NAME.fullmatch(name) and self.text.startswith("()", self.place):
                    self.place += 2
                    self._newlines()
                    return Function(name, self._command())
            if operator:
                if operator == "(":
                    raise Beyond("an unexpected bracket")
                break
            if not words and (found := _ASSIGNMENT.match(self.text, self.place)) is not None:
                self.place = found.end()
                if self.text.startswith("(", self.place):
                    raise Beyond("an array")
                at_end = self.place >= len(self.text) or self.text[self.place] in " \t\n;&|)<>"
                assignments.append((found[1], Word((), "") if at_end else self._word()))
                continue
            word = self._word()
            if not words and re.match(r"[A-Za-z_]\w*(?:\+=|\[)", word.text):
                raise Beyond("an assignment to a part")
            words.append(word)
        if not (assignments or words or redirects):
            raise Beyond("an empty command")
        return Simple(tuple(assignments), tuple(words), tuple(redirects))

    # -- words ----------------------------------------------------------------------------------

    def _word(self) -> Word:
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
                parts.append(self._backquoted(is_quoted=False))
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
        inner = _Reader(self.text[start:end], self.depth + 1)
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
                inner = _Reader(text, self.depth + 1)
                inner.place = place + 2
                if text.startswith("$((", place):
                    place = _arithmetic_end(text, place)
                    continue
                inner._inner(")")
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
                part = self._dollar(is_quoted=True) if character == "$" else self._backquoted(is_quoted=True)
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
            self.place = _arithmetic_end(text, start)
            return Unread(text[start : self.place])
        if following == "(":
            inner = _Reader(text, self.depth + 1)
            inner.place = start + 2
            script = inner._inner(")")
            if inner._waiting:
                raise Beyond("a heredoc inside a substitution")
            self.place = inner.place
            return Substitution(script, is_quoted)
        if following == "{":
            self.place = _brace_end(text, start)
            return self._braced(text[start + 2 : self.place - 1], is_quoted)
        if (name := _NAME.match(text, start + 1)) is not None:
            self.place = name.end()
            return Variable(name[0], is_quoted)
        if following and (following.isdigit() or following in "?$@*#!-"):
            self.place += 2
            return Variable("?", is_quoted) if following == "?" else Unread(text[start : self.place])
        self.place += 1
        return Literal_("$", is_quoted)

    def _braced(self, inside: str, is_quoted: bool) -> Part:
        name = _NAME.match(inside)
        if name is None:
            return Unread("${" + inside + "}")
        rest = inside[name.end() :]
        if not rest:
            return Variable(name[0], is_quoted)
        if rest.startswith(":-") and not set(rest) & set("$`'\"\\{}"):
            return Variable(name[0], is_quoted, Word((Literal_(rest[2:], True),), rest[2:]))
        if (trim := re.fullmatch(r"(%%?|##?)([\w.*/-]+)", rest)) is not None:
            return Variable(name[0], is_quoted, trim=(trim[1], trim[2]))
        return Unread("${" + inside + "}")

    def _backquoted(self, *, is_quoted: bool) -> Part:
        end = _backquote_end(self.text, self.place)
        inside = re.sub(r"\\([$`\\])", r"\1", self.text[self.place + 1 : end])
        self.place = end + 1
        inner = _Reader(inside, self.depth + 1)
        script = inner.script(frozenset())
        if inner.place < len(inside) or inner._waiting:
            raise Beyond("a substitution that cannot be read")
        return Substitution(script, is_quoted)


def _is_continued(line: str) -> bool:
    body = line.removesuffix("\n")
    return line.endswith("\n") and (len(body) - len(body.rstrip("\\"))) % 2 == 1


def _backquote_end(text: str, start: int) -> int:
    place = start + 1
    while place < len(text) and text[place] != "`":
        place += 2 if text[place] == "\\" else 1
    if place >= len(text):
        raise Beyond("a substitution that does not end")
    return place


def _arithmetic_end(text: str, start: int) -> int:
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
    return found.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
