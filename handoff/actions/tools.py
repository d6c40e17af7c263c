"""A recorded call read as operations: structured tools by name, everything in a shell by ``lines.py``.

Tool names differ between agents and drift between versions; what they do does not. A call that cannot be read
(no path, a line number that is no number) is ``Other``: it never becomes an edit.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from handoff.actions.commits import file_changes
from handoff.actions.lines import Result, interpret_line
from handoff.actions.operations import (
    AppendFile,
    Commit,
    Delete,
    EditLines,
    InsertLines,
    ListFiles,
    Opaque,
    Operation,
    Other,
    Read,
    Replace,
    Search,
    Undo,
    WriteFile,
)
from handoff.actions.paths import Context, is_outside, resolve
from handoff.actions.programs import patch_of, script_of
from handoff.trajectory import Action

SHELLS = frozenset(
    [
        "bash",
        "shell",
        "execute_bash",
        "terminal",
        "run_terminal_cmd",
        "shell_command",
        "exec_command",
        "bash_command",
        "run_shell_command",
        "execute_command",
        "run_command",
        "run_commands",
        "run",
        "local_shell",
        "container.exec",
        "shell.exec",
        "sh",
        "cmd",
    ]
)
"""Names under which a shell is offered."""

_SILENT = frozenset(
    [
        "think",
        "finish",
        "submit",
        "exit_cost",
        "exit_format",
        "exit_context",
        "exit_error",
        "exit_forfeit",
        "message",
        "agent_message",
        "todowrite",
        "todo_write",
        "update_plan",
        "task_tracker",
        "exit",
        "exit_plan_mode",
        "ask_user",
        "attempt_completion",
        "task_complete",
        "skip",
        "mark_task_complete",
        "end_of_edit",
    ]
)
"""Thinking, messages, plans and finishing: no actions, no keys (§4)."""

_decode = msgspec.json.Decoder().decode


def interpret(action: Action, context: Context) -> Result:
    """What ``action`` does, in order, and the context for the next one. Never raises.

    What it does *if it succeeds*: whether it did is ``did_not_happen``.
    """
    if len(action.arguments) > 4_096:
        return _interpret(action.tool, action.arguments, action.is_text, context)
    return _remembered(action.tool, action.arguments, action.is_text, context)


@lru_cache(maxsize=16_384)
def _remembered(tool: str, arguments: str, is_text: bool, context: Context) -> Result:
    return _interpret(tool, arguments, is_text, context)


def _interpret(tool: str, arguments: str, is_text: bool, context: Context) -> Result:
    name = tool.lower()
    if is_text:
        return _of_text(name, arguments, context)
    try:
        values = _decoded(arguments) if arguments else {}
    except (ValueError, RecursionError):
        return _of_text(name, arguments, context)
    if not isinstance(values, dict):
        return _of_text(name, arguments, context)
    return _of_values(name, values, context)


def _decoded(text: str) -> Any:
    try:
        return _decode(text)
    except UnicodeEncodeError:  # a lone surrogate: slower, but it keeps it
        return json.loads(text)


def command_line(tool: str, values: Mapping[str, Any]) -> str | None:
    """The shell line of a structured call; ``None`` when it is none."""
    line = values.get("command", values.get("cmd", values.get("commands", values.get("keystrokes"))))
    if isinstance(line, str):
        return line
    if isinstance(line, list) and line and all(isinstance(part, str) for part in line):
        if tool == "run_commands":
            return "\n".join(line)
        if len(line) == 3 and line[0].rsplit("/", 1)[-1] in ("bash", "sh", "zsh") and line[1].startswith("-"):
            return str(line[2])
        return " ".join(part if re.fullmatch(r"[\w./:=@%+,-]+", part) else _quoted(part) for part in line)
    return None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# -- structured calls ---------------------------------------------------------------------------

_Values = Mapping[str, Any]


def _of_values(name: str, values: _Values, context: Context) -> Result:
    if name in SHELLS:
        line = command_line(name, values)
        if line is None or values.get("is_input") in (True, "true"):
            return (Other(tool=name),), context
        folder = values.get("workdir") or values.get("cwd")
        if isinstance(folder, str) and folder:
            inner = msgspec.structs.replace(context, cwd=_root_less(resolve(folder, context)))
            return interpret_line(line, inner)[0], context
        return interpret_line(line, context)
    if name in _SILENT:
        return (), context
    reader = _TOOLS.get(name)
    if reader is None:
        return (Other(tool=name or "unnamed"),), context
    try:
        return reader(name, values, context)
    except (KeyError, TypeError, ValueError):
        return (Other(tool=name),), context


def _root_less(path: str) -> str:
    return "" if path == "." else path


def _path(values: _Values, context: Context) -> str:
    for key in ("path", "file_path", "filePath", "file", "filename", "absolute_path", "target_file", "notebook_path"):
        value = values.get(key)
        if isinstance(value, str) and value:
            return resolve(value, context)
    raise KeyError("path")


def _text(values: _Values, *keys: str) -> str:
    for key in keys:
        if key in values:
            value = values[key]
            if value is None:
                return ""
            if not isinstance(value, str):
                raise TypeError(key)
            return value
    raise KeyError(keys[0])


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError("not a number")
    return int(value)


def _in_repository(path: str, tool: str, operation: Operation) -> tuple[Operation, ...]:
    """The operation, unless its path is outside: that is never an edit of the repository."""
    return (Other(tool=tool, target=path),) if is_outside(path) or path == "." else (operation,)


def _is_true(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _editor(name: str, values: _Values, context: Context) -> Result:
    """``str_replace_editor`` and its kin."""
    command = values.get("command")
    if command is None:
        command = next((c for c, key in (("str_replace", "old_str"), ("create", "file_text")) if key in values), "view")
    path = _path(values, context)
    operation: Operation
    match command:
        case "view":
            view_range = values.get("view_range")
            if isinstance(view_range, str) and view_range:
                view_range = _decode(view_range)
            if isinstance(view_range, list) and len(view_range) == 2:
                first, last = _number(view_range[0]), _number(view_range[1])
                read = Read(path=path, first=first, last=None if last == -1 else last, form="numbered", is_alone=True)
                return (read,), context
            if path == "." or not re.search(r"\.\w+\Z", path):
                return (ListFiles(path=path),), context
            return (Read(path=path, form="numbered", is_alone=True),), context
        case "create":
            text = _text(values, "file_text", "content", "contents")
            operation = WriteFile(path=path, text=text, must_be_new=True)
        case "str_replace":
            operation = Replace(
                path=path, old=_text(values, "old_str", "old_string"), new=_optional(values, "new_str", "new_string")
            )
        case "insert":
            operation = InsertLines(
                path=path, line=_number(values["insert_line"]), text=_text(values, "new_str", "insert_text", "text")
            )
        case "undo_edit":
            operation = Undo(path=path)
        case _:
            return (Other(tool=name),), context
    return _in_repository(path, name, operation), context


def _optional(values: _Values, *keys: str) -> str:
    return next((_text(values, key) for key in keys if key in values), "")


def _edit_file(name: str, values: _Values, context: Context) -> Result:
    """``Edit``, ``replace``, ``MultiEdit`` and a whole-file ``edit_file``."""
    path = _path(values, context)
    edits = values.get("edits")
    if isinstance(edits, list):
        made: list[Operation] = []
        for edit in edits:
            made += _edit_file(name, {**edit, "path": path, "edits": None}, context)[0]
        return tuple(made), context
    for old_key, new_key in (
        ("old_string", "new_string"),
        ("old_str", "new_str"),
        ("old_text", "new_text"),
        ("search", "replace"),
    ):
        if old_key in values:
            old, new = _text(values, old_key), _optional(values, new_key)
            if not old:
                return _in_repository(path, name, WriteFile(path=path, text=new, must_be_new=True)), context
            count = values.get("expected_replacements")
            every = _is_true(values.get("replace_all")) or (count is not None and _number(count) > 1)
            operation = Replace(path=path, old=old, new=new, count="all" if every else "one")
            return _in_repository(path, name, operation), context
    if "start" in values or "start_line" in values:
        first = _number(values.get("start", values.get("start_line")))
        last = _number(values.get("end", values.get("end_line", first)))
        text = _text(values, "content", "new_content", "replacement_text", "text")
        return _in_repository(path, name, EditLines(path=path, first=first, last=last, text=text)), context
    return _in_repository(path, name, Opaque(reason=name, paths=(path,))), context


def _write(name: str, values: _Values, context: Context) -> Result:
    path = _path(values, context)
    text = _text(values, "content", "contents", "file_text", "text", "code_edit")
    if name == "append" or _is_true(values.get("append")):
        return _in_repository(path, name, AppendFile(path=path, text=text)), context
    return _in_repository(path, name, WriteFile(path=path, text=text)), context


def _read(name: str, values: _Values, context: Context) -> Result:
    paths = values.get("paths", values.get("files", values.get("file_paths")))
    if isinstance(paths, list):
        named = [p if isinstance(p, str) else str(p.get("path", "")) for p in paths if isinstance(p, str | dict)]
        return tuple(Read(path=resolve(p, context)) for p in named if p), context
    path = _path(values, context)
    offset, limit = values.get("offset", values.get("start_line")), values.get("limit")
    first = max(_number(offset), 1) if offset is not None else None
    end = values.get("end_line")
    last = _number(end) if end is not None else (first or 1) + _number(limit) - 1 if limit is not None else None
    return (Read(path=path, first=first, last=last, form="numbered", is_alone=True),), context


def _search(name: str, values: _Values, context: Context) -> Result:
    where = next(
        (
            values[k]
            for k in ("path", "dir_path", "directory", "dir", "file", "search_path")
            if isinstance(values.get(k), str)
        ),
        "",
    )
    keys = ("pattern", "query", "search_term", "regex", "file_name", "search_string", "glob")
    pattern = next((values[k] for k in keys if isinstance(values.get(k), str)), "")
    return (Search(path=resolve(where, context) if where else ".", pattern=pattern),), context


def _list(name: str, values: _Values, context: Context) -> Result:
    where = next((values[k] for k in ("path", "dir_path", "directory") if isinstance(values.get(k), str)), "")
    return (ListFiles(path=resolve(where or ".", context)),), context


def _delete(name: str, values: _Values, context: Context) -> Result:
    path = _path(values, context)
    return _in_repository(path, name, Delete(path=path)), context


def _patch(name: str, values: _Values, context: Context) -> Result:
    text = _text(values, "patch", "input", "diff", "content")
    return (patch_of(text, 0 if "*** Begin Patch" in text else 1, context),), context


def _python(name: str, values: _Values, context: Context) -> Result:
    return tuple(script_of("python", _text(values, "code", "command", "script"), context)), context


def _windowed(name: str, values: _Values, context: Context) -> Result:
    """SWE-agent's viewer with named arguments."""
    match name:
        case "open":
            path = _path(values, context)
            return _opened(path, values.get("line_number"), context)
        case "goto":
            return _scrolled(_number(values["line_number"]), context)
        case "scroll_up" | "scroll_down":
            step = context.window if name == "scroll_down" else -context.window
            return _scrolled(context.line + step, context)
        case "create":
            path = resolve(_text(values, "filename", "path", "file_path"), context)
            text = _optional(values, "file_text", "content", "contents")
            opened = msgspec.structs.replace(context, open_file=path, line=1)
            return _in_repository(path, name, WriteFile(path=path, text=text or "\n", must_be_new=True)), opened
        case "insert":
            text = _text(values, "text", "content")
            line = values.get("line")
            if line is None:
                return _windowed_opaque(name, context)
            return _windowed_edit(context, name, InsertLines(path="", line=_number(line), text=text))
        case _:
            return _windowed_edit_values(name, values, context)


def _windowed_edit_values(name: str, values: _Values, context: Context) -> Result:
    if "command" in values or "path" in values or "file_path" in values or "edits" in values:
        return _editor(name, values, context) if "command" in values else _edit_file(name, values, context)
    if "search" in values:
        every = _is_true(values.get("replace_all", values.get("replace-all")))
        old, new = _text(values, "search"), _text(values, "replace")
        # Without replace_all the windowed editor looks only at what it shows; exact when it occurs once.
        return _windowed_edit(context, name, Replace(path="", old=old, new=new, count="all" if every else "one"))
    first = _number(values.get("start_line", values.get("line_number")))
    last = _number(values.get("end_line", first))
    text = _text(values, "replacement_text", "text", "content")
    return _windowed_edit(context, name, EditLines(path="", first=first, last=last, text=text))


def _windowed_edit(context: Context, tool: str, operation: Replace | EditLines | InsertLines) -> Result:
    if context.open_file is None:
        return (Other(tool=tool),), context
    placed = msgspec.structs.replace(operation, path=context.open_file)
    return _in_repository(context.open_file, tool, placed), context


def _windowed_opaque(tool: str, context: Context) -> Result:
    if context.open_file is None:
        return (Other(tool=tool),), context
    return _in_repository(context.open_file, tool, Opaque(reason=tool, paths=(context.open_file,))), context


def _opened(path: str, line: object, context: Context) -> Result:
    try:
        at = _number(line) if line not in (None, "") else 1
    except (TypeError, ValueError):
        at = 1
    return (Read(path=path, form="windowed"),), msgspec.structs.replace(context, open_file=path, line=max(at, 1))


def _scrolled(line: int, context: Context) -> Result:
    if context.open_file is None:
        return (), context
    return (Read(path=context.open_file, form="windowed"),), msgspec.structs.replace(context, line=max(line, 1))


_Reader = Callable[[str, _Values, Context], Result]

_TOOLS: dict[str, _Reader] = {
    **dict.fromkeys(
        ("str_replace_editor", "file_editor", "str_replace_based_edit_tool", "text_editor", "editor", "oh_editor"),
        _editor,
    ),
    **dict.fromkeys(
        ("edit_file", "multiedit", "replace", "str_replace", "search_replace", "replace_in_file"), _edit_file
    ),
    **dict.fromkeys(("write", "write_file", "write_to_file", "create_file", "append"), _write),
    **dict.fromkeys(("read", "read_file", "read_files", "read_many_files", "view", "view_file", "notebookread"), _read),
    **dict.fromkeys(
        (
            *("grep", "glob", "search_file", "search_dir", "find_file", "search", "search_file_content"),
            *("grep_search", "file_search", "codebase_search", "search_files", "find_files"),
        ),
        _search,
    ),
    **dict.fromkeys(("ls", "list_directory", "list_dir", "list_files"), _list),
    **dict.fromkeys(("delete_file", "remove_file"), _delete),
    **dict.fromkeys(("apply_patch", "patch", "apply_diff"), _patch),
    **dict.fromkeys(("execute_ipython_cell", "run_ipython", "python", "ipython", "run_python"), _python),
    **dict.fromkeys(("open", "goto", "scroll_up", "scroll_down", "create", "insert", "edit"), _windowed),
}

# -- calls kept as text -------------------------------------------------------------------------

_EDIT_RANGE = re.compile(r"edit\s+(\d+):(\d+)[ \t]*\n(.*)\Z", re.S)
_END_OF_EDIT = re.compile(r"(?:\A|\n)end_of_(?:edit|insert)\s*\Z")
_INSERT_LINE = re.compile(r"(?:insert|append)\s+(\d+)[ \t]*\n(.*)\Z", re.S)
_OPTION = re.compile(r"--(\w+)\s+")
_WINDOWED_WORDS = frozenset(
    ["open", "goto", "scroll_up", "scroll_down", "edit", "create", "insert", "search_file", "search_dir", "find_file"]
)


def _of_text(name: str, text: str, context: Context) -> Result:
    """A rendered command line: SWE-agent's own commands by first word, everything else as a shell line."""
    if name in ("apply_patch", "patch", "apply_diff"):
        return (patch_of(text, 0 if "*** Begin Patch" in text else 1, context),), context
    if name == "git_commit":
        return _commit(text), context
    stripped = text.strip()
    if not stripped:
        return (), context
    word = stripped.split(None, 1)[0]
    if word in _WINDOWED_WORDS and (name == word or name in SHELLS):
        return _command_text(word, stripped, context)
    if word in _SILENT or name in _SILENT:
        return (), context
    if word in ("str_replace_editor", "edit_anthropic") and (name == word or name in SHELLS):
        return _rendered_editor(stripped, context)
    if name in SHELLS or name == word:
        return interpret_line(text, context)
    return (Other(tool=name or "unnamed"),), context


def _command_text(word: str, text: str, context: Context) -> Result:
    if word == "edit":
        return _edit_text(text, context)
    if word == "insert":
        match = _INSERT_LINE.match(text)
        if match is None:
            return _windowed_opaque(word, context)
        body = _END_OF_EDIT.sub("", match[2])
        return _windowed_edit(context, word, InsertLines(path="", line=int(match[1]), text=body))
    parts = _split(text)
    if parts is None:
        return (Other(tool=word),), context
    rest = parts[1:]
    match word:
        case "open" if rest:
            return _opened(resolve(rest[0], context), rest[1] if len(rest) > 1 else None, context)
        case "goto" if rest and rest[0].isdigit():
            return _scrolled(int(rest[0]), context)
        case "scroll_up" | "scroll_down":
            return _windowed(word, {}, context)
        case "create" if rest:
            return _windowed(word, {"filename": rest[0]}, context)
        case "search_dir" if rest:
            where = resolve(rest[1], context) if len(rest) > 1 else "."
            return (Search(path=where, pattern=rest[0]),), context
        case "search_file" if rest:
            file = resolve(rest[1], context) if len(rest) > 1 else context.open_file or "."
            return (Search(path=file, pattern=rest[0]),), context
        case "find_file" if rest:
            where = resolve(rest[1], context) if len(rest) > 1 else "."
            return (Search(path=where, pattern=rest[0]),), context
        case _:
            return (Other(tool=word),), context


def _commit(diff: str) -> tuple[Operation, ...]:
    """One operation for all files of the diff: they changed at once."""
    named = ((change.kind, change.path.encode("utf-8", "replace").decode()) for change in file_changes(diff))
    changes = tuple((kind, path) for kind, path in named if not is_outside(path))
    return (Commit(changes=changes),) if changes else ()


def _edit_text(text: str, context: Context) -> Result:
    if match := _EDIT_RANGE.match(text):
        first, last = int(match[1]), int(match[2])
        body = _END_OF_EDIT.sub("", match[3])
        if first < 1 or last < first:
            return (Other(tool="edit"),), context
        return _windowed_edit(context, "edit", EditLines(path="", first=first, last=last, text=body))
    parts = _split(text)
    if parts is not None and len(parts) >= 3 and not parts[1].startswith("-"):
        every = len(parts) > 3 and parts[3].lower() in ("true", "--replace-all", "replace-all")
        operation = Replace(path="", old=parts[1], new=parts[2], count="all" if every else "one")
        return _windowed_edit(context, "edit", operation)
    return _windowed_opaque("edit", context)


def _rendered_editor(text: str, context: Context) -> Result:
    """``str_replace_editor str_replace /f --old_str '…' --new_str '…'`` as SWE-agent 1.x writes it."""
    parts = _split(text)
    if parts is None or len(parts) < 3:
        return (Other(tool="str_replace_editor"),), context
    values: dict[str, Any] = {"command": parts[1], "path": parts[2]}
    n = 3
    while n < len(parts):
        if parts[n].startswith("--"):
            key = parts[n][2:]
            n += 1
            given = []
            while n < len(parts) and not (parts[n].startswith("--") and _OPTION.match(parts[n] + " ")):
                given.append(parts[n])
                n += 1
            values[key] = [int(g) for g in given if g.lstrip("-").isdigit()] if key == "view_range" else " ".join(given)
        else:
            n += 1
    return _of_values("str_replace_editor", values, context)


def _split(text: str) -> list[str] | None:
    try:
        return shlex.split(text)
    except ValueError:
        return None
