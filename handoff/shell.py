"""A shell line as the simple commands it runs, by a real bash grammar (tree-sitter).

Here: splitting, quoting, redirections, heredocs, pipelines, subshells. What a command *means* (which file it
reads or edits) is in ``actions/``. Nothing is executed, and nothing is expanded but a variable whose value the line
itself says: ``f=a.py; cat $f``, or a loop over a list of plain words, which is read once for each. Any other word with
a variable, a glob or a substitution in it keeps its text and says that it is not literal.

Most recorded lines are plain words joined by ``&&``, ``;`` and ``|``; those take a path that needs no parser. It
gives the same result as the grammar (``tests/test_shell.py`` holds it to that) or declines.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec
import tree_sitter
import tree_sitter_bash

LONGEST = 200_000
"""Characters of a line that are looked at; a longer one is reported as one command that cannot be understood."""
_LONGEST_PARSED = 30_000
"""Characters of a line that the grammar is given: hostile text costs it some 30 µs for each."""
_MOST_HEREDOCS = 100
_MOST_OPEN = 60
_MOST_STRAY = 200
"""The grammar's own cost grows with the square of the heredocs and brackets that are open, and is high for brackets
that close nothing: lines with more of them are not looked at either."""


class Word(msgspec.Struct, frozen=True, gc=False):
    """One word with its quoting resolved."""

    text: str
    is_literal: bool = True
    """False when the shell would expand it: variable, glob, brace, tilde or substitution.
    ``text`` is then as written."""


class Redirect(msgspec.Struct, frozen=True, gc=False):
    """One redirection to or from a file."""

    operator: str
    """``>``, ``>>``, ``>|``, ``<``, ``&>``, ``&>>``, ``>&`` …"""
    target: Word
    fd: str = ""
    """The descriptor as written; empty for the operator's default."""
    is_of_group: bool = False
    """It redirects a whole subshell, loop or block, of which this command is the last."""


class Command(msgspec.Struct, frozen=True, gc=False):
    """One simple command."""

    words: tuple[Word, ...]
    """Program and arguments; empty when the command only assigns variables."""
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    stdin: Word | None = None
    """Text of a heredoc or here-string."""
    connector: str = ""
    """What stands between the command before and this one: ``&&``, ``||``, ``;``, ``|``; empty for the first."""
    position: int = 0
    """Place in its pipeline, from 0."""
    length: int = 1
    """Commands in its pipeline."""
    scope: tuple[int, ...] = ()
    """Subshells it runs in, outermost first: a ``cd`` in one does not reach outside."""
    is_conditional: bool = False
    """Inside a branch, loop or function, or after ``||``: it may have run not at all, or many times."""
    is_certain: bool = True
    """False when the grammar could not read the whole line."""
    owns_status: bool = True
    """False when it is negated or in the background: its exit code is then not that of the line."""


def commands(line: str) -> tuple[Command, ...]:
    """The simple commands of ``line`` in the order they are written; inner substitutions before the command that
    uses them. Never raises: what cannot be read comes back with ``is_certain`` false.
    """
    if len(line) <= 400:
        return _remembered(line)
    return _read(line)  # not worth a place in the memory


_BRACKET = re.compile(r"[(){}]")


def _is_tangled(line: str) -> bool:
    """Whether the line nests deeper than any that a person or a model writes."""
    if len(line) < _MOST_OPEN:
        return False
    if line.count("<<") > _MOST_HEREDOCS:
        return True
    if line.count("(") + line.count("{") <= _MOST_OPEN and line.count(")") + line.count("}") <= _MOST_STRAY:
        return False
    depth = stray = 0
    for bracket in _BRACKET.findall(line):
        if bracket in "({":
            depth += 1
        elif depth:
            depth -= 1
        else:
            stray += 1
        if depth > _MOST_OPEN or stray > _MOST_STRAY:
            return True
    return False


def _read(line: str) -> tuple[Command, ...]:
    found = _simple(line) if len(line) <= LONGEST else ()
    if found:
        return found
    if len(line) > _LONGEST_PARSED or "\0" in line or _is_tangled(line):
        return (Command(words=(Word(line[:80], False),), is_certain=False),)
    return parse(line)


_remembered = lru_cache(maxsize=16_384)(_read)


# -- plain lines --------------------------------------------------------------------------------

_PLAIN = re.compile(
    r"""[ \t]*(?:
      (?P<join>&&|\|\||;|\|(?!&))
    | (?P<redirect>2>&1|2>[ ]?/dev/null|(?P<to>>>?)[ ]?(?P<path>[A-Za-z_./][A-Za-z0-9_./-]*))(?=[ \t;|]|$)
    | (?P<word>(?:[A-Za-z0-9_./:@%+,=-]++|'[^'\n\0\ud800-\udfff]*+'
        |"(?:[^"\n\\$`!\0\ud800-\udfff]++|\\[^\n\0\ud800-\udfff])*+")++)(?=[ \t;|&]|$)
    )""",
    re.X,
)
_RESERVED = frozenset(
    [
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "function",
        "select",
        "time",
        "in",
        "coproc",
        "declare",
        "typeset",
        "export",
        "readonly",
        "local",
        "unset",
        "unsetenv",
        "{",
        "}",
        "!",
        "[",
        "[[",
    ]
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)\"""")


_HEREDOC = re.compile(
    r"\A(?P<head>[^\n<>]*)(?: (?P<op>>>?) ?(?P<path>[\w./-]+))? ?<< ?'(?P<end>[A-Za-z_]+)'"
    r"(?: (?P<op2>>>?) ?(?P<path2>[\w./-]+))?\n",
    re.A,
)


def _simple(line: str) -> tuple[Command, ...]:
    """The commands of a plain line; empty when the line is anything but plain."""
    if "<<" in line:
        return _written(line)
    return _words(line)


def _written(line: str) -> tuple[Command, ...]:
    """A plain line that ends in one quoted heredoc, the usual way of writing a file."""
    match = _HEREDOC.match(line)
    if match is None or (match["op"] is not None and match["op2"] is not None) or match["head"].rstrip().endswith(";"):
        return ()
    body = line[match.end() :].rstrip("\n")
    end = match["end"]
    text = body.removesuffix(end)
    if len(text) == len(body) or (text and text[-1] != "\n") or f"\n{end}\n" in f"\n{text}":
        return ()
    if "\0" in text or "\r" in text or (not text.isascii() and _SURROGATE.search(text) is not None):
        return ()
    found = _words(match["head"])
    if not found or found[-1].redirects or found[-1].words[-1].text.isdigit() or found[-1].words[-1].text == "-":
        return ()
    path = match["path"] or match["path2"]
    redirects = (Redirect(match["op"] or match["op2"], Word(path)),) if path else ()
    return (*found[:-1], msgspec.structs.replace(found[-1], redirects=redirects, stdin=Word(text)))


def _words(line: str) -> tuple[Command, ...]:
    """The commands of a plain line without a heredoc."""
    found: list[Command] = []
    words: list[Word] = []
    redirects: list[Redirect] = []
    connector, position, start = "", 0, 0
    end = len(line.rstrip(" \t\n"))
    if not end or line[0] in "\n#":
        return ()
    pipeline = 0

    def finish() -> None:
        found.append(
            Command(
                words=tuple(words),
                redirects=tuple(redirects),
                connector=connector,
                position=position,
                is_conditional=connector == "||" or (connector == "|" and found[-1].is_conditional),
            )
        )
        words.clear()
        redirects.clear()

    while start < end:
        match = _PLAIN.match(line, start, end)
        if match is None:
            return ()
        kind = match.lastgroup
        if kind == "word":
            text = match["word"]
            if "'" in text or '"' in text:
                if not words:
                    return ()
                text = _QUOTED.sub(lambda m: m[1] if m[1] is not None else _unquoted(m[2]), text)
            elif not words and (text in _RESERVED or "=" in text or text == "-"):
                return ()
            if redirects:
                return ()
            words.append(Word(text))
        elif kind == "redirect":
            if not words:
                return ()
            if match["to"]:
                if words[-1].text.isdigit() or words[-1].text == "-":
                    return ()
                redirects.append(Redirect(match["to"], Word(match["path"])))
            elif match["redirect"] == "2>&1":
                redirects.append(Redirect(">&", Word("1"), "2"))
            else:
                redirects.append(Redirect(">", Word("/dev/null"), "2"))
        else:
            if not words:
                return ()
            finish()
            join = match["join"]
            if join == "|":
                position += 1
            else:
                _close(found, pipeline)
                pipeline, position = len(found), 0
            connector = join
        start = match.end()
    if words:
        finish()
    elif connector != ";":
        return ()
    _close(found, pipeline)
    return tuple(found)


def _close(found: list[Command], first: int) -> None:
    """Write the pipeline's length into its commands."""
    length = len(found) - first
    if length > 1:
        for n in range(first, len(found)):
            found[n] = msgspec.structs.replace(found[n], length=length)


# -- the grammar --------------------------------------------------------------------------------

_PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
_GROUPS = frozenset(
    [
        "subshell",
        "compound_statement",
        "if_statement",
        "for_statement",
        "while_statement",
        "case_statement",
        "c_style_for_statement",
        "function_definition",
    ]
)
_DEEPEST = 120


_SURROGATE = re.compile("[\ud800-\udfff]")
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_FOREIGN_DELIMITER = re.compile(r"<<-?[ \t]*\S*[^\x00-\x7f]")


def parse(line: str) -> tuple[Command, ...]:
    """The commands of any line, by the grammar.

    The grammar is shown a full stop for every byte beyond ASCII: its scanner looks letters up in tables that end there,
    and dies of some texts. To a shell such a character is part of a word like any other; only the end of a heredoc can
    no longer be told from another one.
    """
    has_surrogates = not line.isascii() and _SURROGATE.search(line) is not None
    if has_surrogates:  # they have no UTF-8, so the grammar cannot see them
        line = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", line)
    source = line.encode()
    is_plain = line.isascii()
    tree = _PARSER.parse(source if is_plain else _BEYOND_ASCII.sub(b".", source))
    walk = _Walk(source)
    walk.visit(tree.root_node, connector="", scope=(), conditional=False)
    is_lost = walk.is_lost or has_surrogates or (not is_plain and _FOREIGN_DELIMITER.search(line) is not None)
    return walk.finished(is_certain=not (tree.root_node.has_error or is_lost))


class _Draft:
    __slots__ = (
        "assignments",
        "conditional",
        "connector",
        "owns_status",
        "pipeline",
        "redirects",
        "scope",
        "stdin",
        "words",
    )

    def __init__(self, connector: str, scope: tuple[int, ...], conditional: bool, pipeline: int) -> None:
        self.words: list[Word] = []
        self.assignments: list[tuple[str, Word]] = []
        self.redirects: list[Redirect] = []
        self.stdin: Word | None = None
        self.connector = connector
        self.scope = scope
        self.conditional = conditional
        self.pipeline = pipeline
        self.owns_status = True


_PLAIN_VALUE = re.compile(r"[\w./:@%+,=-]*")
"""Values of variables that the shell neither splits nor expands."""
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", re.A)
_SETTING = frozenset(("read", "mapfile", "readarray", "unset", "getopts", "source", ".", "eval", "let"))
"""Programs that may set any variable."""
_LEAVING = re.compile(rb"\b(?:break|continue|return|exit)\b")
_LONGEST_UNROLLED = 20_000
"""Bytes that a loop over plain words may come to when it is read once for each of them."""


class _Walk:
    """One walk over a syntax tree."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.drafts: list[_Draft] = []
        self.numbers = 0
        self.depth = 0
        self.is_lost = False
        self.values: dict[str, str] = {}
        """Variables whose value is known here."""
        self.unrolled = 1
        """How many times the code here is read, by the loops around it."""

    def finished(self, is_certain: bool) -> tuple[Command, ...]:
        length: dict[int, int] = {}
        for draft in self.drafts:
            length[draft.pipeline] = length.get(draft.pipeline, 0) + 1
        place: dict[int, int] = {}
        found: list[Command] = []
        for draft in self.drafts:
            position = place.get(draft.pipeline, 0)
            place[draft.pipeline] = position + 1
            found.append(
                Command(
                    words=tuple(draft.words),
                    assignments=tuple(draft.assignments),
                    redirects=tuple(draft.redirects),
                    stdin=draft.stdin,
                    connector=draft.connector if found else "",
                    position=position,
                    length=length[draft.pipeline],
                    scope=draft.scope,
                    is_conditional=draft.conditional,
                    is_certain=is_certain,
                    owns_status=draft.owns_status,
                )
            )
        return tuple(found)

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def text(self, node: tree_sitter.Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def visit(
        self,
        node: tree_sitter.Node,
        *,
        connector: str,
        scope: tuple[int, ...],
        conditional: bool,
        pipeline: int | None = None,
    ) -> None:
        """Emit the commands under ``node``."""
        self.depth += 1
        try:
            if self.depth > _DEEPEST:
                self.is_lost = True
                return
            self._visit(node, connector, scope, conditional, pipeline)
        finally:
            self.depth -= 1

    def _visit(
        self, node: tree_sitter.Node, connector: str, scope: tuple[int, ...], conditional: bool, pipeline: int | None
    ) -> None:
        match node.type:
            case "command" | "declaration_command" | "unset_command":
                self._command(node, connector, scope, conditional, pipeline)
            case "variable_assignment" | "variable_assignments":
                draft = self._draft(connector, scope, conditional, pipeline)
                parts = node.named_children if node.type == "variable_assignments" else [node]
                self._substitutions(node, scope, conditional)
                for part in parts:
                    self._assignment(part, draft)
                self._bind(draft)
                self.drafts.append(draft)
            case "redirected_statement":
                self._redirected(node, connector, scope, conditional, pipeline)
            case "pipeline":
                self._pipeline(node, connector, scope, conditional, pipeline)
            case "list" | "program":
                self._sequence(node, connector, scope, conditional, pipeline)
            case "negated_command":
                before = len(self.drafts)
                for child in node.named_children:
                    self.visit(child, connector=connector, scope=scope, conditional=conditional, pipeline=pipeline)
                self._disown(before)
            case "subshell" | "command_substitution" | "process_substitution":
                outside = dict(self.values)
                self._sequence(node, connector, (*scope, self.number()), conditional, None)
                self.values = outside
            case "compound_statement":
                self._sequence(node, connector, scope, conditional, None)
            case "test_command" | "comment":
                self._substitutions(node, scope, conditional)
            case "heredoc_body" | "heredoc_start" | "heredoc_end":
                pass
            case "for_statement":
                self._for(node, connector, scope, conditional)
            case _:
                if node.type in ("while_statement", "c_style_for_statement", "function_definition"):
                    self.values.clear()
                is_branch = node.type.endswith(("_statement", "_definition", "_clause", "_group", "_item"))
                self._sequence(node, connector, scope, conditional or is_branch, None)

    def _for(self, node: tree_sitter.Node, connector: str, scope: tuple[int, ...], conditional: bool) -> None:
        """A loop: once for each word of a plain list, else as something that runs on a condition."""
        name, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        values = node.children_by_field_name("value")
        words = [self.word(child) for child in values]
        for child in values:
            self._substitution(child, scope, conditional)
        if name is None or body is None:
            return
        times = self.unrolled * len(words)
        is_plain = bool(words) and all(word.is_literal and _PLAIN_VALUE.fullmatch(word.text) for word in words)
        text = self.source[body.start_byte : body.end_byte]
        if is_plain and len(text) * times <= _LONGEST_UNROLLED and _LEAVING.search(text) is None:
            before, self.unrolled = self.unrolled, times
            for word in words:
                self.values[self.text(name)] = word.text
                self._sequence(body, connector, scope, conditional, None)
                connector = ";"
            self.unrolled = before
        else:
            self.values.clear()
            self._sequence(body, connector, scope, True, None)

    def _disown(self, first: int) -> None:
        """The exit code of the commands from ``first`` on is not that of the line."""
        for draft in self.drafts[first:]:
            draft.owns_status = False

    def _sequence(
        self, node: tree_sitter.Node, connector: str, scope: tuple[int, ...], conditional: bool, pipeline: int | None
    ) -> None:
        between, maybe = connector, conditional
        children = node.children
        start = len(self.drafts)
        for child in children:
            kind = child.type
            if kind == "&":
                self._disown(start)
            if kind in ("&&", "||", ";", "&", "\n", ";;"):
                between = kind if kind in ("&&", "||") else ";"
                maybe = conditional or kind == "||"
            elif child.is_named and kind not in _WORDS:
                start = len(self.drafts)
                self.visit(child, connector=between, scope=scope, conditional=maybe, pipeline=pipeline)
                if len(self.drafts) > start:
                    between, pipeline = ";", None
                if node.type != "list":
                    maybe = conditional
            elif child.is_named:
                self._substitutions(child, scope, conditional)

    def _pipeline(
        self, node: tree_sitter.Node, connector: str, scope: tuple[int, ...], conditional: bool, pipeline: int | None
    ) -> None:
        inner = pipeline if pipeline is not None else self.number()
        between = connector
        for child in node.named_children:
            if child.type == "comment":
                continue
            # `a && b 2>&1 | c` reads as a pipeline with the member `a && b`. To the shell the pipe before it reaches
            # `a` alone, and the pipe after it starts from `b`.
            before = len(self.drafts)
            self.visit(child, connector=between, scope=scope, conditional=conditional, pipeline=inner)
            if _unredirected(child).type == "list" and len(self.drafts) > before:
                inner, conditional = self.drafts[-1].pipeline, self.drafts[-1].conditional
            between = "|"

    def _draft(self, connector: str, scope: tuple[int, ...], conditional: bool, pipeline: int | None) -> _Draft:
        return _Draft(connector, scope, conditional, pipeline if pipeline is not None else self.number())

    def _command(
        self, node: tree_sitter.Node, connector: str, scope: tuple[int, ...], conditional: bool, pipeline: int | None
    ) -> None:
        draft = self._draft(connector, scope, conditional, pipeline)
        self._substitutions(node, scope, conditional)
        start = end = -1
        for child in node.children:
            if child.start_byte == end and draft.words:  # the grammar cuts `$a/$b.py` in two
                draft.words[-1] = self._glued(start, child.end_byte)
                end = child.end_byte
                continue
            start, end = child.start_byte, child.end_byte
            match child.type:
                case "variable_assignment" if node.type == "command":
                    self._assignment(child, draft)
                case "file_redirect" | "heredoc_redirect" | "herestring_redirect":
                    self._redirect(child, draft, False)
                case "command_name":
                    draft.words.append(self.word(child.children[0]) if child.children else Word(self.text(child)))
                case "comment":
                    pass
                case _:
                    draft.words.append(self.word(child))
        if draft.words and draft.words[0].text in _SETTING:
            self.values.clear()
        elif node.type == "declaration_command":
            declared = self._draft(connector, scope, conditional, pipeline)
            for child in node.named_children:
                if child.type == "variable_assignment":
                    self._assignment(child, declared)
            self._bind(declared)
        self.drafts.append(draft)

    def _bind(self, draft: _Draft) -> None:
        """Remember what a command of nothing but assignments sets."""
        for name, word in draft.assignments:
            if word.is_literal and not draft.conditional and _PLAIN_VALUE.fullmatch(word.text):
                self.values[name] = word.text
            else:
                self.values.pop(name, None)

    def _assignment(self, node: tree_sitter.Node, draft: _Draft) -> None:
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        word = self.word(value) if value is not None else Word("")
        if any(child.type == "+=" for child in node.children):
            word = Word(word.text, False)  # a part of the value
        draft.assignments.append((self.text(name) if name is not None else "", word))

    def _redirected(
        self, node: tree_sitter.Node, connector: str, scope: tuple[int, ...], conditional: bool, pipeline: int | None
    ) -> None:
        body = node.child_by_field_name("body")
        before = len(self.drafts)
        inner = pipeline if pipeline is not None else self.number()
        if body is not None:
            own = inner if body.type not in _GROUPS else None
            self.visit(body, connector=connector, scope=scope, conditional=conditional, pipeline=own)
        if len(self.drafts) == before:
            self.drafts.append(_Draft(connector, scope, conditional, inner))
        draft = self.drafts[-1]
        is_group = body is not None and body.type in _GROUPS
        if body is not None and not is_group:
            # The grammar drops a lone `-` before a heredoc.
            after = min((c.start_byte for c in node.children if c.start_byte >= body.end_byte), default=body.end_byte)
            gap = self.source[body.end_byte : after].decode("utf-8", "replace").replace("\\\n", " ")
            draft.words.extend(Word(text) for text in gap.split())
        for child in node.children:
            if child.type in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                self._redirect(child, draft, is_group)
        # A heredoc's node swallows the rest of its line.
        for child in node.children:
            if child.type == "heredoc_redirect":
                self._rest_of_line(child, draft)

    def _rest_of_line(self, node: tree_sitter.Node, draft: _Draft) -> None:
        between, end = ";", self._line_end(node.start_byte)
        for child in node.children:
            if child.start_byte >= end:
                break
            if child.type in ("&&", "||", ";"):
                between = child.type
            elif child.type == "pipeline":
                for part in child.named_children:
                    self.visit(
                        part,
                        connector="|",
                        scope=draft.scope,
                        conditional=draft.conditional,
                        pipeline=draft.pipeline,
                    )
            elif child.is_named and not child.type.startswith(("heredoc", "file_redirect", "herestring", "comment")):
                if child.type in _WORDS:
                    draft.words.append(self.word(child))
                else:
                    self.visit(
                        child,
                        connector=between,
                        scope=draft.scope,
                        conditional=draft.conditional or between == "||",
                    )

    def _line_end(self, start: int) -> int:
        """Where the line that holds byte ``start`` ends. What the grammar finds behind it is a piece of a heredoc's
        text."""
        end = self.source.find(b"\n", start)
        while end > 0 and self.source[end - 1] == ord("\\"):
            end = self.source.find(b"\n", end + 1)
        return end if end >= 0 else len(self.source)

    def _redirect(self, node: tree_sitter.Node, draft: _Draft, is_group: bool) -> None:
        if node.type == "herestring_redirect":
            word = self.word(node.children[-1])
            draft.stdin = Word(word.text + "\n", word.is_literal)
            return
        if node.type == "heredoc_redirect":
            draft.stdin, end = self._heredoc(node), self._line_end(node.start_byte)
            for child in node.children:
                if child.type in ("file_redirect", "herestring_redirect") and child.start_byte < end:
                    self._redirect(child, draft, is_group)
            return
        descriptor = node.child_by_field_name("descriptor")
        operator = next((c.type for c in node.children if not c.is_named), ">")
        destinations = node.children_by_field_name("destination")
        if not destinations:
            return
        self._substitutions(node, draft.scope, draft.conditional)
        fd = self.text(descriptor) if descriptor is not None else ""
        draft.redirects.append(Redirect(operator, self.word(destinations[0]), fd, is_group))
        # The grammar takes words after a redirection's target for further targets; to the shell they are arguments.
        end = self._line_end(node.start_byte)
        draft.words.extend(self.word(extra) for extra in destinations[1:] if extra.start_byte < end)

    def _heredoc(self, node: tree_sitter.Node) -> Word:
        start = next((c for c in node.children if c.type == "heredoc_start"), None)
        body = next((c for c in node.children if c.type == "heredoc_body"), None)
        end = next((c for c in node.children if c.type == "heredoc_end"), None)
        if start is None or end is None:
            self.is_lost = True
            return Word("", False)
        # The grammar's own body drops leading blanks, so the text is cut from the source by lines.
        delimiter = self.text(start)
        first = self.source.find(b"\n", start.end_byte) + 1
        last = self.source.rfind(b"\n", 0, end.start_byte) + 1
        if self.source.count(b"<<", self.source.rfind(b"\n", 0, start.start_byte) + 1, first) > 1 and body is not None:
            first = body.start_byte
        text = self.source[first : max(first, last)].decode("utf-8", "replace")
        if node.children[0].type == "<<-" or any(c.type == "<<-" for c in node.children):
            text = re.sub(r"(?m)^\t+", "", text)
        if delimiter[:1] in "'\"\\":
            return Word(text)
        is_literal = re.search(r"(?<!\\)(?:\\\\)*(?:\$[\w({@*#?$!-]|`)", text) is None
        return Word(re.sub(r"\\([$`\\]|\n)", lambda m: "" if m[1] == "\n" else m[1], text), is_literal)

    def _substitutions(self, node: tree_sitter.Node, scope: tuple[int, ...], conditional: bool) -> None:
        """Emit the commands of substitutions inside words."""
        for child in node.children:
            self._substitution(child, scope, conditional)

    def _substitution(self, node: tree_sitter.Node, scope: tuple[int, ...], conditional: bool) -> None:
        if node.type in ("command_substitution", "process_substitution"):
            self.visit(node, connector=";", scope=scope, conditional=conditional)
        elif node.child_count and node.type != "heredoc_redirect":
            self.depth += 1
            if self.depth > _DEEPEST:
                self.is_lost = True
            else:
                self._substitutions(node, scope, conditional)
            self.depth -= 1

    # -- words ----------------------------------------------------------------------------------

    def word(self, node: tree_sitter.Node) -> Word:
        """One word of the tree, unquoted."""
        text = self.text(node)
        match node.type:
            case "number":
                return Word(text)
            case "word" | "variable_name" | "test_operator" | "extglob_pattern" | "regex":
                return unescaped(text)
            case "raw_string":
                return Word(text[1:-1])
            case "ansi_c_string":
                return Word(_ansi_c(text[2:-1]))
            case "string" | "translated_string":
                return self._string(node, text)
            case "simple_expansion" | "expansion" if (value := self._value(node)) is not None:
                return Word(value)
            case "concatenation":
                parts = [self.word(child) for child in node.children]
                bare = "".join(self.text(c) if c.type == "word" or not c.is_named else "x" for c in node.children)
                is_literal = all(p.is_literal for p in parts) and _GLOB.search(bare) is None
                return Word("".join(p.text for p in parts), is_literal)
            case "command_name":
                return self.word(node.children[0]) if node.children else Word(text)
            case _ if not node.is_named:
                return unescaped(text)
            case _:
                return Word(text, False)

    def _value(self, node: tree_sitter.Node) -> str | None:
        """The value of ``$x`` or ``${x}``, when the line says it."""
        names = node.named_children
        if not self.values or len(names) != 1 or names[0].type != "variable_name" or node.child_count > 3:
            return None
        return self.values.get(self.text(names[0]))

    def _glued(self, start: int, end: int) -> Word:
        """A word that the grammar took for several."""
        text = self.source[start:end].decode("utf-8", "replace")
        names = [match[1] or match[2] for match in _VARIABLE.finditer(text)]
        if _PLAIN_VALUE.fullmatch(_VARIABLE.sub("", text)) and all(name in self.values for name in names):
            return Word(_VARIABLE.sub(lambda match: self.values[match[1] or match[2]], text))
        return Word(text, False)

    def _string(self, node: tree_sitter.Node, text: str) -> Word:
        """A word in double quotes."""
        if all(child.type in _STRING_PARTS for child in node.children):
            return Word(_unquoted(text[text.index('"') + 1 : -1] if '"' in text else text))
        parts: list[str] = []
        start = node.start_byte + 1
        for child in node.children:
            if child.type in _STRING_PARTS:
                continue
            value = self._value(child)
            if value is None or node.type != "string":
                return Word(_unquoted(text[text.index('"') + 1 : -1]), False)
            parts += _unquoted(self.source[start : child.start_byte].decode("utf-8", "replace")), value
            start = child.end_byte
        return Word("".join(parts) + _unquoted(self.source[start : node.end_byte - 1].decode("utf-8", "replace")))


def _unquoted(text: str) -> str:
    """The inside of double quotes, its backslashes resolved."""
    return _DOUBLE_QUOTED.sub(lambda m: "" if m[1] == "\n" else m[1], text)


def _unredirected(node: tree_sitter.Node) -> tree_sitter.Node:
    while node.type == "redirected_statement":
        body = node.child_by_field_name("body")
        if body is None:
            break
        node = body
    return node


_WORDS = frozenset(
    [
        "word",
        "number",
        "string",
        "raw_string",
        "ansi_c_string",
        "translated_string",
        "concatenation",
        "simple_expansion",
        "expansion",
        "variable_name",
        "arithmetic_expansion",
        "brace_expression",
        "extglob_pattern",
        "file_descriptor",
    ]
)
_STRING_PARTS = frozenset(("string_content", '"', "$", "string"))
_DOUBLE_QUOTED = re.compile(r'\\(["\\$`]|\n)')
_ESCAPED = re.compile(r"\\(.|\n)", re.S)
_GLOB = re.compile(r"(?<!\\)[*?\[]|(?<!\\)\{[^}]*(?:,|\.\.)[^}]*\}|\A~")


def unescaped(text: str) -> Word:
    """An unquoted word: backslashes resolved, globs noticed."""
    is_literal = text == "[" or _GLOB.search(text) is None
    if "\\" not in text:
        return Word(text, is_literal)
    return Word(_ESCAPED.sub(lambda m: "" if m[1] == "\n" else m[1], text), is_literal)


_ANSI_C = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,6}|[0-7]{1,3}|.)", re.S)
_ANSI_C_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}


def _ansi_c(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "xuU" and len(code) > 1:
            number = int(code[1:], 16)
            return chr(number) if number < 0x110000 else match[0]
        if code[0] in "01234567":
            return chr(int(code, 8))
        return _ANSI_C_NAMED.get(code, code)

    return _ANSI_C.sub(one, text)
