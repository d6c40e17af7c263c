"""A shell line read as operations: wrappers, ``cd``, redirections, pipelines.

What one program does is in ``programs.py``.

Redirections and heredocs write files when their text is known, and are ``Opaque`` with the file's path when it is not.
A command that may have run not at all, or many times (branches, loops, after ``||``) changes files opaquely.
"""

from __future__ import annotations

import msgspec

from handoff.actions.operations import (
    AppendFile,
    Opaque,
    Operation,
    Other,
    Read,
    Validate,
    WriteFile,
    changed_paths,
)
from handoff.actions.paths import Context, is_outside, is_unknown, resolve, with_folder
from handoff.actions.programs import Call, operations_of, unwrapped
from handoff.shell import Command, Word, commands

Result = tuple[tuple[Operation, ...], Context]
_DEEPEST = 6
_NO_EFFECT = frozenset(
    [
        "cd",
        "pushd",
        "popd",
        "export",
        "set",
        "unset",
        "true",
        "false",
        ":",
        "exit",
        "return",
        "echo",
        "printf",
        "sleep",
        "wait",
        "source",
        ".",
        "alias",
        "shopt",
        "ulimit",
        "trap",
        "test",
        "[",
        "[[",
        "local",
        "declare",
        "readonly",
        "typeset",
        "read",
        "clear",
        "break",
        "continue",
        "umask",
        "hash",
        "type",
        "which",
        "command",
    ]
)
_TAILS = frozenset(
    ("head", "tail", "less", "more", "cat", "tee", "sort", "uniq", "wc", "cut", "tr", "nl", "column", "fold")
)


def interpret_line(line: str, context: Context) -> Result:
    """The operations of a shell line in order, and the context after it (its folder only where the shell persists)."""
    found, after = _interpret(line, context, 0)
    if not context.shell_persists:
        after = msgspec.structs.replace(after, cwd=context.cwd)
    return found, after


def _interpret(line: str, context: Context, depth: int) -> Result:
    parts = commands(line)
    found: list[Operation] = []
    folders: dict[tuple[int, ...], Context] = {(): context}
    last = len(parts) - 1
    for number, part in enumerate(parts):
        here = _folder(folders, part.scope)
        words = unwrapped(part.words)
        program = _program(words)
        if program == "cd" or program == "pushd":
            if part.length == 1 and not part.is_conditional:
                folders[part.scope] = _changed_folder(words, here)
            continue
        inner = _inner_line(words, part)
        if inner is not None and depth < _DEEPEST:
            operations, _ = _interpret(inner, here, depth + 1)
            made = list(operations)
        else:
            made = _of_command(part, words, program, here, parts)
        if part.is_conditional or not part.is_certain:
            made = [_clouded(operation, part) for operation in made]
        if number != last or part.position != part.length - 1:
            made = [_without_code(o) if isinstance(o, Validate) else o for o in made]
        if part.position + 1 < part.length and program not in ("echo", "printf", "cat"):
            made = [o for o in made if not (isinstance(o, Read) and o.is_alone)] + [
                msgspec.structs.replace(o, is_alone=False) for o in made if isinstance(o, Read) and o.is_alone
            ]
        found += made
    if len(parts) > 1 and sum(_speaks(p) for p in parts) != 1:
        found = [msgspec.structs.replace(o, is_alone=False) if isinstance(o, Read) and o.is_alone else o for o in found]
    return tuple(found), folders[()]


def _speaks(part: Command) -> bool:
    """Whether the command may print into the observation."""
    return bool(part.words) and part.words[0].text not in ("cd", "export", "set", "true", ":", "source", ".")


def _folder(folders: dict[tuple[int, ...], Context], scope: tuple[int, ...]) -> Context:
    while scope not in folders:
        scope = scope[:-1]
    return folders[scope]


def _program(words: tuple[Word, ...]) -> str:
    if not words:
        return ""
    name = words[0].text
    return name.rsplit("/", 1)[-1] if "/" in name and not name.startswith("./") else name


def _changed_folder(words: tuple[Word, ...], here: Context) -> Context:
    arguments = [w for w in words[1:] if w.text not in ("-P", "-L", "--")]
    if not arguments:
        return msgspec.structs.replace(here, cwd="~")
    if not arguments[0].is_literal or arguments[0].text == "-":
        return msgspec.structs.replace(here, cwd="$unknown")
    return with_folder(here, arguments[0].text)


_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ash"))


def _inner_line(words: tuple[Word, ...], part: Command) -> str | None:
    """The line that ``bash -c`` or ``eval`` would run."""
    if not words:
        return None
    name = _program(words)
    if name == "eval" and all(w.is_literal for w in words):
        return " ".join(w.text for w in words[1:])
    if name not in _SHELLS:
        return None
    for n, word in enumerate(words[1:], start=1):
        text = word.text
        if text.startswith("-") and not text.startswith("--") and "c" in text:
            if n + 1 < len(words) and words[n + 1].is_literal:
                return words[n + 1].text
            return None
        if not text.startswith(("-", "+")):
            return None
    if part.stdin is not None and part.stdin.is_literal:
        return part.stdin.text
    return None


def _of_command(
    part: Command, words: tuple[Word, ...], program: str, here: Context, parts: tuple[Command, ...]
) -> list[Operation]:
    """One simple command: what its program does, then what its redirections write."""
    outputs = [r for r in part.redirects if r.operator in (">", ">>", ">|", "&>", "&>>") and r.fd in ("", "1")]
    outputs = [r for r in outputs if r.target.text not in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")]
    made: list[Operation] = []
    if program and (program not in _NO_EFFECT or program in ("source", ".")):
        is_tail = part.position > 0 and program in _TAILS and program != "tee"
        is_source = outputs and program == "cat" and part.stdin is not None
        if not is_tail and not is_source:
            alone = not outputs and part.length == 1
            call = Call(words=words, stdin=_input(part, parts), context=here, is_alone=alone)
            made += operations_of(program, call)
    if program == "tee":
        return made
    for redirect in outputs:
        is_append = redirect.operator in (">>", "&>>")
        text = None if redirect.is_of_group else _output(part, words, program, parts)
        made.append(write_of(redirect.target, text, is_append, here, f"output of {program or 'nothing'}"))
    return made


def write_of(target: Word, text: str | None, is_append: bool, here: Context, reason: str) -> Operation:
    """A write of ``text`` (``None``: not known) to a file."""
    path = resolve(target.text, here)
    if not target.is_literal:
        if is_outside(path) and not is_unknown(path):
            return Other(tool="write", target=path)
        return Opaque(reason=f"{reason} to an unknown file", paths=(".",))
    if is_unknown(path):  # a literal name in a folder that is not known
        return Opaque(reason=f"{reason} to an unknown file", paths=(".",))
    if is_outside(path) or path == ".":
        return Other(tool="write", target=path)
    if text is None:
        return Opaque(reason=reason, paths=(path,))
    return AppendFile(path=path, text=text) if is_append else WriteFile(path=path, text=text)


def _input(part: Command, parts: tuple[Command, ...]) -> str | None:
    """What the command reads, when the line itself says it: a literal heredoc, or an ``echo`` before the pipe."""
    if part.stdin is not None:
        return part.stdin.text if part.stdin.is_literal else None
    if part.position > 0 and not any(r.operator == "<" for r in part.redirects):
        index = next((n for n, other in enumerate(parts) if other is part), 0)
        before = parts[index - 1] if index else None
        if before is not None and before.position == part.position - 1 and not before.redirects:
            return _printed(before, _program(before.words), before.words, parts)
    return None


def _output(part: Command, words: tuple[Word, ...], program: str, parts: tuple[Command, ...]) -> str | None:
    if not words and not part.assignments:
        return ""  # `> file` alone empties it
    return _printed(part, program, words, parts)


def _printed(part: Command, program: str, words: tuple[Word, ...], parts: tuple[Command, ...]) -> str | None:
    """What ``cat``, ``echo`` or ``printf`` print, when the line says it in full."""
    arguments = words[1:]
    if program == "cat" and all(w.text == "-" for w in arguments):
        return _input(part, parts) if part.stdin is None or part.stdin.is_literal else None
    if program == "true" or program == ":":
        return ""
    if not all(w.is_literal for w in arguments):
        return None
    if program == "echo":
        texts = [w.text for w in arguments]
        newline = "\n"
        while texts and texts[0] in ("-n", "-e", "-E", "-ne", "-en"):
            if "e" in texts[0] and any("\\" in t for t in texts):
                return None
            if "n" in texts[0]:
                newline = ""
            texts.pop(0)
        return " ".join(texts) + newline
    if program == "printf" and arguments:
        form = arguments[0].text
        if "%" not in form and len(arguments) == 1:
            simple = form.replace("\\n", "\n").replace("\\t", "\t")
            return simple if "\\" not in simple else None
        if form in ("%s", "%s\\n", "%s\n") and len(arguments) == 2:
            return arguments[1].text + ("\n" if len(form) > 2 else "")
    return None


def _clouded(operation: Operation, part: Command) -> Operation:
    """An operation that may not have happened as written."""
    changed = changed_paths(operation)
    if not changed or isinstance(operation, Opaque):
        return operation
    why = "runs only on a condition" if part.is_conditional else "the line could not be read in full"
    return Opaque(reason=why, paths=changed, is_possible=True)


def _without_code(operation: Validate) -> Validate:
    return msgspec.structs.replace(operation, owns_exit_code=False)
