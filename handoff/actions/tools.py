"""A recorded call read as operations: structured tools by name, everything in a shell by ``lines.py``.

Tool names differ between agents and drift between versions; what they do does not. A call that cannot be read
(no path, a line number that is no number) is ``Other``: it never becomes an edit.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec

from handoff.actions import dialects, windowed
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
    ReplaceEach,
    Search,
    Undo,
    WriteFile,
    patch_paths,
)
from handoff.actions.paths import Context, is_outside, resolve, with_folder
from handoff.actions.programs.call import listed
from handoff.actions.programs.editors import patch_of
from handoff.actions.programs.scripts import script_of
from handoff.actions.windowed import number, split
from handoff.trajectory import Action, Observation

SHELLS = listed(
    """
    bash shell execute_bash terminal run_terminal_cmd run_in_terminal shell_command exec_command bash_command
    run_shell_command execute_command run_command run_commands run local_shell local_shell_call container.exec
    shell.exec sh cmd
    """
)
"""Names under which a shell is offered."""

_SILENT = listed(
    """
    think finish submit message agent_message exit done skip exit_cost exit_format exit_context exit_error
    exit_forfeit todowrite todoread todo_write write_todos update_plan task_tracker taskcreate taskupdate
    tasklist taskget exit_plan_mode exitplanmode enterplanmode plan_mode_respond switch_mode ask_user
    askuserquestion ask_followup_question request_user_input attempt_completion task_complete mark_task_complete
    end_of_edit bashoutput taskoutput recall condensation condensation_request system change_agent_state
    """
)
"""Thinking, messages, plans, finishing, and looking at the output of what runs: no actions, no keys (§4)."""

_SUBAGENTS = listed(
    """
    task agent spawn_agent wait_agent send_input resume_agent delegate delegate_to_agent dispatch_agent new_task
    subagent
    """
)
"""Calls that let another agent work in the same tree."""

_READING_AGENTS = ("Explore", "Plan", "claude-code-guide")
"""Kinds of Claude Code's agents that have no tool to edit with. No set: a recording may name a list."""
_READING_MCP = re.compile(r"mcp__.+__(?:get|list|search|read|find|query|fetch|resolve|view|describe)(?:[_-].*)?")
"""Tools of other servers whose names say that they only look."""

_HARMLESS = listed(
    """
    webfetch web_fetch websearch web_search web_search_call google_web_search fetch browse browse_interactive
    browse_url browser browser_action goto_url view_image save_memory skill list_mcp_resources read_mcp_resource
    tool_search tool_search_call toolsearch get_diagnostics killshell kill_shell killbash close_agent
    listmcpresourcestool readmcpresourcetool lsp filemap
    """
)
"""Calls that are actions of no kind of §4 and change no file."""

_decode = msgspec.json.Decoder().decode


def interpret(action: Action, context: Context, observation: Observation | None = None) -> Result:
    """What ``action`` does, in order, and the context for the next one. Never raises.

    What it does *if it succeeds*: whether it did is ``did_not_happen``. ``observation`` adds what only the screen of a
    windowed editor tells (its lines, its cursors); keys never depend on it.
    """
    if len(action.arguments) > 4_096:
        found = _interpret(action.tool, action.arguments, action.is_text, context)
    else:
        found = _remembered(action.tool, action.arguments, action.is_text, context)
    if observation is None:
        return found
    return dialects.as_seen(*windowed.on_screen(*found, observation), observation)


def shell_line(action: Action, context: Context) -> tuple[str, Context] | None:
    """The shell line that ``action`` is, and the context it begins in; ``None`` for every other call.

    For those who carry lines out on files; keys come from ``interpret``.
    """
    name = action.tool.lower()
    values: Any = None
    if not action.is_text and action.arguments:
        try:
            values = _decoded(action.arguments)
        except (ValueError, RecursionError):
            values = None
    if isinstance(values, dict):
        line = command_line(name, values) if name in SHELLS else None
        is_typed = _is_true(values.get("is_input")) or ("keystrokes" in values and not (line or "").endswith("\n"))
        if line is None or is_typed:
            return None
        folder = _folder_of(values)
        return line, with_folder(context, folder) if folder else context
    text = action.arguments
    word = next(iter(text.split(None, 1)), "")
    is_own = word in windowed.COMMANDS or word in ("str_replace_editor", "edit_anthropic")
    if not word or is_own or word in _SILENT or name in _SILENT or name in _NOT_LINES:
        return None
    return (text, context) if name in SHELLS or name == word else None


_NOT_LINES = listed("apply_patch patch apply_diff udiff git_commit python ipython run_ipython")
"""Tools whose text is no shell line, even where it begins with the tool's name."""


def _folder_of(values: Mapping[str, Any]) -> str:
    """The folder that a call of a shell names for its line."""
    folder = values.get("workdir") or values.get("cwd") or values.get("dir_path") or values.get("directory")
    return folder if isinstance(folder, str) else ""


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


# -- structured calls ---------------------------------------------------------------------------

_Values = Mapping[str, Any]


def _of_values(name: str, values: _Values, context: Context) -> Result:
    if name in SHELLS:
        return _shell(name, values, context)
    if name in _SILENT:
        return (), context
    try:
        reader = _TOOLS.get(name)
        if reader is not None:
            return reader(name, values, context)
    except (KeyError, TypeError, ValueError):
        return (Other(tool=name),), context
    if name in _SUBAGENTS and values.get("subagent_type") in _READING_AGENTS:
        return (Other(tool=name),), context
    return _other(name), context


def _other(name: str) -> tuple[Operation, ...]:
    """A call of no kind of §4. Subagents and tools that nobody knows may edit the tree beside it."""
    other = Other(tool=name or "unnamed")
    if name in _HARMLESS or name.startswith("browser_") or _READING_MCP.fullmatch(name) is not None:
        return (other,)
    reason = f"subagent {name}" if name in _SUBAGENTS else f"unknown tool {name}".strip()
    return other, Opaque(reason=reason, is_possible=True)


def _shell(name: str, values: _Values, context: Context) -> Result:
    line = command_line(name, values)
    if line is None:
        return (Other(tool=name),), context
    is_input = _is_true(values.get("is_input"))
    if is_input or ("keystrokes" in values and not line.endswith("\n")):
        return _typed(name, line), context
    folder = _folder_of(values)
    if folder:
        inner = with_folder(context, folder)
        return interpret_line(line, inner)[0], msgspec.structs.replace(context, prefixes=inner.prefixes)
    return interpret_line(line, context)


def command_line(tool: str, values: _Values) -> str | None:
    """The shell line of a structured call; ``None`` when it is none."""
    line = next((values[key] for key in ("command", "cmd", "commands", "keystrokes", "script") if key in values), None)
    if isinstance(line, str):
        return line
    if isinstance(line, list) and line and all(isinstance(part, str) for part in line):
        if tool == "run_commands":
            return "\n".join(line)
        if len(line) == 3 and line[0].rsplit("/", 1)[-1] in ("bash", "sh", "zsh") and line[1].startswith("-"):
            return str(line[2])
        return " ".join(part if _PLAIN_WORD.fullmatch(part) else _quoted(part) for part in line)
    return None


_PLAIN_WORD = re.compile(r"[\w./:=@%+,-]+")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _typed(name: str, keys: str) -> tuple[Operation, ...]:
    """Keys sent to a program that runs: nothing to poll it, else beyond what the recording tells."""
    if not keys.strip() or keys.strip() in ("C-c", "C-d", "C-z", "\x03", "\x04"):
        return ()
    return Other(tool=name), Opaque(reason="keys typed into a program", is_possible=True)


def _stdin(name: str, values: _Values, context: Context) -> Result:
    """Codex's ``write_stdin``: without characters it only waits for output."""
    return _typed(name, _optional(values, "chars", "input")), context


# -- values -------------------------------------------------------------------------------------

_PATHS = ("path", "file_path", "filePath", "file", "filename", "absolute_path", "target_file", "notebook_path")


def _path(values: _Values, context: Context) -> str:
    for key in _PATHS:
        value = values.get(key)
        if isinstance(value, str) and value:
            return resolve(windowed.bare(value), context)
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


def _optional(values: _Values, *keys: str) -> str:
    return next((_text(values, key) for key in keys if key in values), "")


def _is_true(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _in_repository(path: str, tool: str, *operations: Operation) -> tuple[Operation, ...]:
    """The operations, unless their path is outside: that is never an edit of the repository."""
    return (Other(tool=tool, target=path),) if is_outside(path) or path == "." else operations


# -- editors ------------------------------------------------------------------------------------

_SHOWS_FILE = re.compile(r"\.\w+\Z|(?:\A|/)(?:\.\w[\w.-]*|[A-Z][A-Z0-9_-]+|[A-Z]\w*file)\Z")
"""Paths that a viewer of files and folders shows as a file."""


def _editor(name: str, values: _Values, context: Context) -> Result:
    """``str_replace_editor`` and its kin."""
    command = values.get("command")
    if command is None:
        if "old_text" in values or "new_text" in values:
            return _edit_file(name, values, context)
        command = next((c for c, key in (("str_replace", "old_str"), ("create", "file_text")) if key in values), "view")
    path = _path(values, context)
    dialect = dialects.str_replace_dialect(context)
    match command:
        case "view":
            return (_viewed(path, values.get("view_range")),), context
        case "create":
            text = _text(values, "file_text", "content", "contents")
            made = WriteFile(path=path, text=text, must_be_new=True, dialect=dialect)
            return _in_repository(path, name, made), context
        case "str_replace":
            old, new = _text(values, "old_str", "old_string"), _optional(values, "new_str", "new_string")
            return _in_repository(path, name, Replace(path=path, old=old, new=new, dialect=dialect)), context
        case "insert":
            return _inserted(name, values, context)
        case "undo_edit":
            return _in_repository(path, name, Undo(path=path, dialect=dialect)), context
        case _:
            return (Other(tool=name),), context


def _viewed(path: str, lines: object) -> Operation:
    if isinstance(lines, str) and lines:
        lines = _decode(lines)
    if isinstance(lines, list) and len(lines) == 2:
        first, last = number(lines[0]), number(lines[1])
        return Read(path=path, first=first, last=None if last == -1 else last, form="numbered", is_alone=True)
    if path == "." or _SHOWS_FILE.search(path) is None:
        return ListFiles(path=path)
    return Read(path=path, form="numbered", is_alone=True)


def _inserted(name: str, values: _Values, context: Context) -> Result:
    """``insert`` of the ``str_replace`` family: behind a line."""
    path, text = _path(values, context), _text(values, "new_str", "insert_text", "text", "content")
    line = number(values.get("insert_line", values.get("line")))
    inserted = InsertLines(path=path, line=line, text=text, dialect=dialects.str_replace_dialect(context))
    return _in_repository(path, name, inserted), context


_PAIRS = (
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("old_text", "new_text"),
    ("oldText", "newText"),
    ("search", "replace"),
)
"""Names of the old and the new text of a replacement."""


def _edit_file(name: str, values: _Values, context: Context) -> Result:
    """``Edit``, ``replace``, ``MultiEdit`` and other replacements of text in a file."""
    path = _path(values, context)
    edits = values.get("edits")
    if isinstance(edits, list):
        return _in_repository(path, name, *_several(path, edits, name, context)), context
    for old_key, new_key in _PAIRS:
        if old_key in values:
            dialect = dialects.edit_dialect(context, name, old_key)
            old, new = _text(values, old_key), _optional(values, new_key)
            if not old:
                made = WriteFile(path=path, text=new, must_be_new=True, dialect=dialect)
                return _in_repository(path, name, made), context
            count: Literal["all", "one"] = "all" if _is_every(values) else "one"
            replaced = Replace(path=path, old=old, new=new, count=count, dialect=dialect)
            return _in_repository(path, name, replaced), context
    if "new_text" in values:
        return _in_repository(path, name, WriteFile(path=path, text=_text(values, "new_text"))), context
    if "diff" in values:
        return _in_repository(path, name, *_blocks(path, _text(values, "diff"))), context
    if "start" in values or "start_line" in values:
        first = number(values.get("start", values.get("start_line")))
        last = number(values.get("end", values.get("end_line", first)))
        text = _text(values, "content", "new_content", "replacement_text", "text")
        return _in_repository(path, name, EditLines(path=path, first=first, last=last, text=text)), context
    return _in_repository(path, name, Opaque(reason=name, paths=(path,))), context


def _is_every(values: _Values) -> bool:
    expected = values.get("expected_replacements")
    return _is_true(values.get("replace_all", values.get("allow_multiple"))) or bool(expected and number(expected) > 1)


def _several(path: str, edits: list[Any], name: str, context: Context) -> tuple[Operation, ...]:
    """The edits of one call. Those that replace text alone are one operation for an editor that looks for all of them
    in the file as it was."""
    made: list[Operation] = []
    for edit in edits:
        made += _edit_file(name, {**edit, "path": path, "edits": None}, context)[0]
    pairs = tuple((edit.old, edit.new) for edit in made if isinstance(edit, Replace) and edit.dialect == "pi")
    return (ReplaceEach(path=path, pairs=pairs, dialect="pi"),) if len(pairs) == len(made) > 1 else tuple(made)


_SEARCH_MARK = re.compile(r"[<-]{3,9} ?SEARCH>?")
_DIVIDER = re.compile(r"={5,9}")
_REPLACE_MARK = re.compile(r"[>+]{3,9} ?REPLACE")
_ROO_HEAD = re.compile(r":(?:start|end)_line:.*|-{5,9}")
_A_BLOCK = re.compile(r"^[<-]{3,9} ?SEARCH>?[ \t\r]*$", re.M)


def _blocks(path: str, diff: str) -> tuple[Operation, ...]:
    """SEARCH/REPLACE blocks of one file, in order. A block that does not end is none."""
    pairs: list[tuple[str, str]] = []
    old: list[str] | None = None
    new: list[str] | None = None
    for line in diff.split("\n"):
        mark = line.rstrip()
        if _SEARCH_MARK.fullmatch(mark):
            old, new = [], None
        elif old is not None and new is None:
            if _DIVIDER.fullmatch(mark):
                new = []
            elif old or not _ROO_HEAD.fullmatch(mark):
                old.append(f"{line}\n")
        elif old is not None and new is not None:
            if not _REPLACE_MARK.fullmatch(mark):
                new.append(f"{line}\n")
                continue
            pairs.append(("".join(old), "".join(new)))
            old = new = None
    if not pairs:
        return (Opaque(reason="a diff of no known form", paths=(path,)),)
    return (ReplaceEach(path=path, pairs=tuple(pairs), dialect="cline"),)


def _edit_block(name: str, values: _Values, context: Context) -> Result:
    """Aider's block: an empty SEARCH makes a file or adds to it."""
    path, old, new = _path(values, context), _text(values, "search"), _text(values, "replace")
    if not old.strip():
        return _in_repository(path, name, AppendFile(path=path, text=new)), context
    return _in_repository(path, name, Replace(path=path, old=old, new=new, dialect="aider")), context


def _notebook(name: str, values: _Values, context: Context) -> Result:
    path = _path(values, context)
    return _in_repository(path, name, Opaque(reason="a cell of a notebook", paths=(path,))), context


def _write(name: str, values: _Values, context: Context) -> Result:
    path = _path(values, context)
    text = _text(values, "content", "contents", "file_text", "text")
    if name == "append" or _is_true(values.get("append")):
        return _in_repository(path, name, AppendFile(path=path, text=text)), context
    is_new = name in ("create", "create_file")
    dialect = dialects.edit_dialect(context, name)
    return _in_repository(path, name, WriteFile(path=path, text=text, must_be_new=is_new, dialect=dialect)), context


def _delete(name: str, values: _Values, context: Context) -> Result:
    path = _path(values, context)
    return _in_repository(path, name, Delete(path=path)), context


def _patch(name: str, values: _Values, context: Context) -> Result:
    text = _text(values, "patch", "input", "patchText", "diff", "content")
    if _A_BLOCK.search(text) is not None:
        return _edit_file(name, values, context)
    return (_patched(text, context),), context


def _patched(text: str, context: Context) -> Operation:
    return patch_of(text, 0 if "*** Begin Patch" in text else 1, context)


_TRANSLATED = re.compile(r"\Aprint\(file_editor\(\*\*(\{.*\})\)\)\Z", re.S)


def _openhands_edit(name: str, values: _Values, context: Context) -> Result:
    """OpenHands V0's ``read`` and ``edit``: the editor's own call is inside, as Python in older files."""
    code = values.get("translated_ipython_code")
    if isinstance(code, str) and (match := _TRANSLATED.match(code.strip())):
        try:
            inner = ast.literal_eval(match[1])
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise ValueError from error
        return _editor(name, {str(key): value for key, value in inner.items()}, context)
    if values.get("command"):
        return _editor(name, values, context)
    return _edit_file(name, values, context)


# -- looking ------------------------------------------------------------------------------------


def _read(name: str, values: _Values, context: Context) -> Result:
    if isinstance(values.get("translated_ipython_code"), str) and values["translated_ipython_code"]:
        return _openhands_edit(name, values, context)
    paths = next((values[key] for key in ("paths", "files", "file_paths", "include") if key in values), None)
    if isinstance(paths, list):
        named = [p if isinstance(p, str) else str(p.get("path", "")) for p in paths if isinstance(p, str | dict)]
        return tuple(Read(path=resolve(path, context)) for path in named if path), context
    path = _path(values, context)
    if values.get("view_range"):
        return (_viewed(path, values["view_range"]),), context
    offset = values.get("offset", values.get("start_line"))
    limit, end = values.get("limit"), values.get("end_line")
    first = max(number(offset), 1) if offset is not None else None
    last = number(end) if end is not None else (first or 1) + number(limit) - 1 if limit is not None else None
    return (Read(path=path, first=first, last=last, form="numbered", is_alone=True),), context


_WHERE = ("path", "dir_path", "directory", "dir", "file", "search_path", "target_directory")
_WHAT = ("pattern", "query", "search_term", "regex", "file_name", "search_string", "glob", "glob_pattern")


def _search(name: str, values: _Values, context: Context) -> Result:
    where = next((values[key] for key in _WHERE if isinstance(values.get(key), str)), "")
    pattern = next((values[key] for key in _WHAT if isinstance(values.get(key), str)), "")
    if not where and name == "search_file" and context.open_file is not None:
        return (Search(path=context.open_file, pattern=windowed.bare(pattern)),), context
    path = resolve(windowed.bare(where), context) if where else "."
    return (Search(path=path, pattern=windowed.bare(pattern)),), context


def _list(name: str, values: _Values, context: Context) -> Result:
    where = next((values[key] for key in _WHERE if isinstance(values.get(key), str)), "")
    return (ListFiles(path=resolve(where or ".", context)),), context


def _python(name: str, values: _Values, context: Context) -> Result:
    return tuple(script_of("python", _text(values, "code", "command", "script"), context)), context


def _windowed(name: str, values: _Values, context: Context) -> Result:
    """Names that SWE-agent's windowed editor shares with editors that name their file."""
    if name == "edit" and (values.get("command") or "translated_ipython_code" in values):
        return _openhands_edit(name, values, context)
    if (
        name in ("edit", "insert", "create")
        and any(key in values for key in (*_PATHS, "edits"))
        and (name != "create" or "filename" not in values)
    ):
        reader = {"edit": _edit_file, "insert": _inserted, "create": _write}[name]
        return reader(name, values, context)
    return windowed.call(name, values, context)


_Reader = Callable[[str, _Values, Context], Result]


def _named(reader: _Reader, names: str) -> dict[str, _Reader]:
    return dict.fromkeys(names.split(), reader)


_TOOLS: dict[str, _Reader] = {
    **_named(_editor, "str_replace_editor file_editor str_replace_based_edit_tool text_editor editor oh_editor"),
    **_named(
        _edit_file, "edit_file multiedit multi_edit replace str_replace search_replace replace_in_file apply_edit"
    ),
    **_named(_edit_block, "edit_block"),
    **_named(_notebook, "notebookedit notebook_edit edit_notebook_file"),
    **_named(_write, "write write_file write_to_file create_file append append_file save_file"),
    **_named(_read, "read read_file read_files read_many_files view view_file notebookread open_file"),
    **_named(
        _search,
        """grep glob search_file search_dir find_file search search_file_content grep_search file_search
        codebase_search search_files find_files list_code_definition_names""",
    ),
    **_named(_list, "ls list_directory list_dir list_files"),
    **_named(_delete, "delete_file remove_file"),
    **_named(_patch, "apply_patch patch apply_diff"),
    **_named(_python, "execute_ipython_cell run_ipython python ipython run_python"),
    **_named(_windowed, "open goto scroll_up scroll_down set_cursors create insert edit"),
    **_named(_stdin, "write_stdin"),
}

# -- calls kept as text -------------------------------------------------------------------------

_OPTION = re.compile(r"--(\w+)\s+")


def _of_text(name: str, text: str, context: Context) -> Result:
    """A rendered command line: SWE-agent's own commands by first word, everything else as a shell line."""
    if name in ("apply_patch", "patch", "apply_diff"):
        return (_patched(text, context),), context
    if name == "udiff":
        return _loose_diff(text, context), context
    if name == "git_commit":
        return _commit(text), context
    if name in ("python", "ipython", "run_ipython"):
        return tuple(script_of("python", text, context)), context
    stripped = text.strip()
    if not stripped:
        return (), context
    word = stripped.split(None, 1)[0]
    if word in windowed.COMMANDS and (name == word or name in SHELLS):
        return windowed.command(word, text.lstrip(), context)
    if word in _SILENT or name in _SILENT:
        return (), context
    if word in ("str_replace_editor", "edit_anthropic") and (name == word or name in SHELLS):
        return _rendered_editor(stripped, context)
    if name in SHELLS or name == word:
        return interpret_line(text, context)
    return _other(name), context


def _commit(diff: str) -> tuple[Operation, ...]:
    """One operation for all files of the diff: they changed at once."""
    named = ((change.kind, change.path.encode("utf-8", "replace").decode()) for change in file_changes(diff))
    changes = tuple((kind, path) for kind, path in named if not is_outside(path))
    return (Commit(changes=changes),) if changes else ()


def _loose_diff(text: str, context: Context) -> tuple[Operation, ...]:
    """A diff without line numbers, as Aider matches it: only its files are certain."""
    paths = [resolve(path, context) for path in patch_paths(text, 0)]
    inside = tuple(dict.fromkeys(path for path in paths if not is_outside(path)))
    return (Opaque(reason="udiff", paths=inside),) if inside else (Other(tool="udiff"),)


def _rendered_editor(text: str, context: Context) -> Result:
    """``str_replace_editor str_replace /f --old_str '…' --new_str '…'`` as SWE-agent 1.x writes it."""
    parts = split(text)
    if parts is None or len(parts) < 3:
        return (Other(tool="str_replace_editor"),), context
    values: dict[str, Any] = {"command": parts[1], "path": parts[2]}
    place = 3
    while place < len(parts):
        option = parts[place]
        place += 1
        if not option.startswith("--"):
            continue
        given = []
        while place < len(parts) and not (parts[place].startswith("--") and _OPTION.match(parts[place] + " ")):
            given.append(parts[place])
            place += 1
        numbers = [int(word[:10]) for word in given if word.lstrip("-").isdecimal()]
        values[option[2:]] = numbers if option == "--view_range" else " ".join(given)
    return _of_values("str_replace_editor", values, context)
