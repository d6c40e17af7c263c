"""A shell line as a tree that can be carried out: lists, pipelines, branches, loops, words with their parts.

Only what the machine beside it can carry out is read; anything else raises ``Beyond``, and the line's static reading
(``actions.lines``) is used. What a line means for keys is there too: that reading never needs the files.
"""

from __future__ import annotations

import re
from typing import Literal

from handoff.states.shell.quoting import NAME, WordReader, arithmetic_end
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
    Pipeline,
    Redirect,
    Script,
    Simple,
    While,
    Word,
)

LONGEST = 200_000
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


def read_line(line: str) -> Script:
    """The tree of a whole line. ``Beyond`` when some of it is not carried out here."""
    if len(line) > LONGEST or "\0" in line:
        raise Beyond("a line that is too long")
    reader = _Reader(line, 0)
    script = reader.script(frozenset())
    if reader.place < len(line):
        raise Beyond("a line that does not end where it should")
    return script


class _Reader(WordReader):
    """Reads one text from left to right."""

    def __init__(self, text: str, depth: int) -> None:
        super().__init__(text, depth)
        self._waiting: list[Heredoc] = []

    def is_waiting(self) -> bool:
        """Whether a here-document was named whose text did not come."""
        return bool(self._waiting)

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
                end = arithmetic_end(self.text, self.place - 1)
                if self.text[end - 2 : end] == "))":
                    raise Beyond("arithmetic")
            self._take("(")
            script = self.closed_script(")")
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

    def closed_script(self, closing: str) -> Script:
        """Chains up to and with a closing bracket."""
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
        name = NAME.match(self.text, self.place)
        if name is None:
            raise Beyond("a for loop that counts")
        self.place = name.end()
        self._newlines()
        if self._reserved() != "in":
            raise Beyond("a for loop over arguments")
        self.place += 2
        words: list[Word] = []
        while self._operator() == "" and self.place < len(self.text):
            words.append(self.word())
        if self._operator() in (";", "\n"):
            self._take(self._operator())
        return For(name[0], tuple(words), self._do(), self._redirects())

    def _case(self) -> Case:
        self.place += 4
        self._blanks()
        subject = self.word()
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
                patterns.append(self.word())
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
        name = NAME.match(self.text, self.place)
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
            word = self.word()
            if any(not isinstance(part, Literal_) for part in word.parts):
                raise Beyond("a heredoc whose end is no plain word")
            raw = self.text[start : self.place]
            delimiter = "".join(part.text for part in word.parts if isinstance(part, Literal_))
            heredoc = Heredoc(delimiter, any(mark in raw for mark in "'\"\\"), operator == "<<-")
            self._waiting.append(heredoc)
            return Redirect(fd, "<<", heredoc)
        if operator == "<>":
            raise Beyond("<>")
        return Redirect(fd, operator, self.word())

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
                heredoc.word = Word(self._inside(body).quoted(in_heredoc=True), body)

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
                if words and self.text[self.place - 1] == "}" and re.fullmatch(r"\{\w+\}", words[-1].text):
                    raise Beyond("a descriptor by the name of a variable")
                redirects.append(self._redirect(match))
                continue
            if self.place >= len(self.text):
                break
            operator = self._operator()
            if operator == "(" and len(words) == 1 and not assignments and not redirects:
                name = words[0].text
                if NAME.fullmatch(name) and self.text.startswith("()", self.place):
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
                assignments.append((found[1], Word((), "") if at_end else self.word()))
                continue
            word = self.word()
            if not words and re.match(r"[A-Za-z_]\w*(?:\+=|\[)", word.text):
                raise Beyond("an assignment to a part")
            words.append(word)
        if not (assignments or words or redirects):
            raise Beyond("an empty command")
        return Simple(tuple(assignments), tuple(words), tuple(redirects))


def _is_continued(line: str) -> bool:
    body = line.removesuffix("\n")
    return line.endswith("\n") and (len(body) - len(body.rstrip("\\"))) % 2 == 1
