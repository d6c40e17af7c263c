"""A shell line read as operations: wrappers, ``cd``, redirections, pipelines.

What one program does is in ``programs/``.

Redirections and heredocs write files when their text is known, and are ``Opaque`` with the file's path when it is not.
A command that may have run not at all, or many times (branches, loops, after ``||``) changes files opaquely.
"""

from __future__ import annotations

import re

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
from handoff.actions.paths import NOWHERE, Context, is_outside, is_unknown, resolve, with_folder
from handoff.actions.programs import NO_EFFECT, operations_of
from handoff.actions.programs.call import Call
from handoff.actions.programs.wrappers import unwrapped
from handoff.shell import Command, Word, commands

Result = tuple[tuple[Operation, ...], Context]
_DEEPEST = 6
"""Lines inside lines (``bash -c``) that are followed."""
_INNER = frozenset(("bash", "sh", "zsh", "dash", "ash", "eval"))
_SINKS = frozenset(("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"))
_QUIET = frozenset(
    ("cd", "pushd", "popd", "export", "set", "true", ":", "source", ".", "sleep", "mkdir", "rm", "touch")
)
"""Programs that print nothing, as a rule."""
_SURE = frozenset(("echo", "printf", "true", ":", "pwd", "date"))
"""Programs that succeed, whatever happened before."""
_PASSING_ON = frozenset(("cat", "tail", "tee"))
"""Ends of a pipe that read all of it and succeed."""


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
    left: list[Context] = []
    pipes_fail = False
    last = len(parts) - 1
    for number, part in enumerate(parts):
        here = _folder(folders, part.scope)
        words = unwrapped(part.words)
        program = _program(words)
        if program in ("cd", "pushd", "popd"):
            if part.length == 1 and not part.is_conditional:
                left += [here] if program == "pushd" else []
                is_back = program == "popd" and bool(left)
                folders[part.scope] = left.pop() if is_back else changed_folder(words, here)
            continue
        if program == "set" and any(word.text == "pipefail" for word in words):
            pipes_fail = True
        inner = _inner_line(words, program, part) if program in _INNER and depth < _DEEPEST else None
        if inner is not None:
            made = list(_interpret(inner, here, depth + 1)[0])
            made += _redirected(part, words, program, here, parts)
        else:
            made = _of_command(part, words, program, here, parts)
        if part.is_conditional or not part.is_certain:
            made = [_clouded(operation, part) for operation in made]
        if number < last or not part.owns_status:
            made = [_in_place(operation, parts, number, pipes_fail) for operation in made]
        found += made
    if last > 0 and sum(_speaks(part) for part in parts) != 1:
        found = [_not_alone(operation) for operation in found]
    return tuple(found), folders[()]


def _speaks(part: Command) -> bool:
    """Whether the command may print into the observation."""
    return bool(part.words) and part.words[0].text not in _QUIET


def _in_place(operation: Operation, parts: tuple[Command, ...], number: int, pipes_fail: bool) -> Operation:
    """What others of the line take from an operation: its exit code, or its output."""
    if isinstance(operation, Validate) and not _decides(parts, number, pipes_fail):
        return msgspec.structs.replace(operation, owns_exit_code=False)
    return _not_alone(operation) if parts[number].position + 1 < parts[number].length else operation


def _folder(folders: dict[tuple[int, ...], Context], scope: tuple[int, ...]) -> Context:
    while scope not in folders:
        scope = scope[:-1]
    return folders[scope]


def _program(words: tuple[Word, ...]) -> str:
    """The program's name, without the folder of a system's program."""
    if not words:
        return ""
    name = words[0].text
    return name.rsplit("/", 1)[-1] if "/" in name and not name.startswith("./") else name


_TOP_LEVEL = re.compile(r"\$\(git rev-parse --show-toplevel\)")


def changed_folder(words: tuple[Word, ...], here: Context) -> Context:
    """The context after ``cd`` with these words, given that it succeeds."""
    arguments = [word for word in words[1:] if word.text not in ("-P", "-L", "--")]
    if words[0].text == "popd":
        return msgspec.structs.replace(here, cwd=NOWHERE)
    if not arguments:
        return msgspec.structs.replace(here, cwd="~" if words[0].text == "cd" else NOWHERE)
    if _TOP_LEVEL.fullmatch(arguments[0].text):
        return msgspec.structs.replace(here, cwd="")
    if not arguments[0].is_literal or arguments[0].text == "-":
        return msgspec.structs.replace(here, cwd=NOWHERE)
    return with_folder(here, arguments[0].text)


def _decides(parts: tuple[Command, ...], number: int, pipes_fail: bool) -> bool:
    """Whether the exit code of the line is that of command ``number``."""
    part = parts[number]
    if not part.owns_status:
        return False
    end = number + part.length - part.position
    if part.position != part.length - 1:
        rest = parts[number + 1 : end]
        if not pipes_fail or any(_program(other.words) not in _PASSING_ON for other in rest):
            return False
    return all(other.connector == "&&" and _program(other.words) in _SURE for other in parts[end:])


def _inner_line(words: tuple[Word, ...], program: str, part: Command) -> str | None:
    """The line that ``bash -c`` or ``eval`` would run."""
    if program == "eval":
        return " ".join(word.text for word in words[1:]) if all(word.is_literal for word in words) else None
    for place, word in enumerate(words[1:], start=1):
        text = word.text
        if text.startswith("-") and not text.startswith("--") and "c" in text:
            if place + 1 < len(words) and words[place + 1].is_literal:
                return words[place + 1].text
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
    outputs = _outputs(part) if part.redirects else []
    made: list[Operation] = []
    is_filter = part.position > 0 and program in _FILTERS
    is_written = bool(outputs) and program == "cat" and part.stdin is not None
    if words and program not in NO_EFFECT and not is_filter and not is_written:
        stdin = _input(part, parts) if part.stdin is not None or part.position else None
        made = operations_of(Call(words, stdin, here, is_alone=not outputs and part.length == 1))
        if not outputs and not part.position and program in _READING_INPUT and not made:
            made = [Read(path=resolve(r.target.text, here)) for r in part.redirects if r.operator == "<"]
    if part.redirects and program != "tee":
        made += _redirected(part, words, program, here, parts)
    return made


_FILTERS = frozenset(("head", "tail", "less", "more", "sort", "uniq", "wc", "cut", "nl", "column", "fold"))
"""Programs that only pass on what a pipe brings them."""
_READING_INPUT = frozenset(("cat", "head", "tail", "wc", "grep", "sed", "awk", "sort", "jq", "nl", "tr", "cut", "less"))


_WRITING = frozenset((">", ">>", ">|", "&>", "&>>"))


def _outputs(part: Command) -> list[Word]:
    """Files that the command's standard output goes to."""
    return [
        redirect.target
        for redirect in part.redirects
        if redirect.operator in _WRITING and redirect.fd in ("", "1") and redirect.target.text not in _SINKS
    ]


def _redirected(
    part: Command, words: tuple[Word, ...], program: str, here: Context, parts: tuple[Command, ...]
) -> list[Operation]:
    """What the redirections of a command write."""
    made: list[Operation] = []
    for redirect in part.redirects:
        is_copy = redirect.operator == ">&" and redirect.target.text.strip("0123456789-") == ""
        if is_copy or redirect.operator[:1] == "<" or redirect.target.text in _SINKS:
            continue
        is_output = redirect.fd in ("", "1")
        is_append = redirect.operator in (">>", "&>>")
        text = _printed(part, program, words, parts) if is_output and not redirect.is_of_group else None
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
    if part.position > 0 and not any(redirect.operator == "<" for redirect in part.redirects):
        index = next((n for n, other in enumerate(parts) if other is part), 0)
        before = parts[index - 1] if index else None
        if before is not None and before.position == part.position - 1 and not before.redirects:
            return _printed(before, _program(before.words), before.words, parts)
    return None


def _printed(part: Command, program: str, words: tuple[Word, ...], parts: tuple[Command, ...]) -> str | None:
    """What the command prints, when the line says it in full: nothing, ``cat``, ``echo`` or ``printf``."""
    if not words:
        return None if part.assignments else ""  # `> file` alone empties it
    arguments = words[1:]
    if program == "cat" and all(word.text == "-" for word in arguments):
        return _input(part, parts) if part.stdin is None or part.stdin.is_literal else None
    if program == "true" or program == ":":
        return ""
    if not all(word.is_literal for word in arguments):
        return None
    if program == "echo":
        return _echoed([word.text for word in arguments])
    if program == "printf" and arguments:
        form = arguments[0].text
        if "%" not in form and len(arguments) == 1:
            simple = form.replace("\\n", "\n").replace("\\t", "\t")
            return simple if "\\" not in simple else None
        if form in ("%s", "%s\\n", "%s\n") and len(arguments) == 2:
            return arguments[1].text + ("\n" if len(form) > 2 else "")
    return None


def _echoed(texts: list[str]) -> str | None:
    newline = "\n"
    while texts and texts[0] in ("-n", "-e", "-E", "-ne", "-en"):
        if "e" in texts[0] and any("\\" in text for text in texts):
            return None
        if "n" in texts[0]:
            newline = ""
        texts = texts[1:]
    return " ".join(texts) + newline


def _clouded(operation: Operation, part: Command) -> Operation:
    """An operation that may not have happened as written."""
    changed = changed_paths(operation)
    if not changed or isinstance(operation, Opaque):
        return operation
    why = "runs only on a condition" if part.is_conditional else "the line could not be read in full"
    return Opaque(reason=why, paths=changed, is_possible=True)


def _not_alone(operation: Operation) -> Operation:
    is_alone = isinstance(operation, Read) and operation.is_alone
    return msgspec.structs.replace(operation, is_alone=False) if is_alone else operation
