"""Structured calls by the name of their tool: editors, viewers, searches, patches.

A value that cannot be read (no path, a line number that is no number) raises ``KeyError``, ``TypeError`` or
``ValueError``; ``tools`` makes that an action of no kind.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from handoff.actions import dialects, windowed
from handoff.actions.lines import Result
from handoff.actions.operations import (
    AppendFile,
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
)
from handoff.actions.paths import Context, is_outside, resolve
from handoff.actions.programs.editors import patch_of
from handoff.actions.programs.scripts import script_of
from handoff.actions.windowed import number

_decode = msgspec.json.Decoder().decode

Values = Mapping[str, Any]
"""The arguments of a structured call."""


def decoded(text: str) -> Any:
    """The JSON of a call's arguments."""
    try:
        return _decode(text)
    except UnicodeEncodeError:  # a lone surrogate: slower, but it keeps it
        return json.loads(text)


# -- values -------------------------------------------------------------------------------------

_PATHS = ("path", "file_path", "filePath", "file", "filename", "absolute_path", "target_file", "notebook_path")


def _path(values: Values, context: Context) -> str:
    for key in _PATHS:
        value = values.get(key)
        if isinstance(value, str) and value:
            return resolve(windowed.bare(value), context)
    raise KeyError("path")


def text_of(values: Values, *keys: str) -> str:
    """The text under the first of ``keys`` that is there."""
    for key in keys:
        if key in values:
            value = values[key]
            if value is None:
                return ""
            if not isinstance(value, str):
                raise TypeError(key)
            return value
    raise KeyError(keys[0])


def optional(values: Values, *keys: str) -> str:
    """The same, empty where there is none."""
    return next((text_of(values, key) for key in keys if key in values), "")


def is_true(value: object) -> bool:
    """Whether a flag is set, as JSON or as text."""
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _in_repository(path: str, tool: str, *operations: Operation) -> tuple[Operation, ...]:
    """The operations, unless their path is outside: that is never an edit of the repository."""
    return (Other(tool=tool, target=path),) if is_outside(path) or path == "." else operations


# -- editors ------------------------------------------------------------------------------------

_SHOWS_FILE = re.compile(r"\.\w+\Z|(?:\A|/)(?:\.\w[\w.-]*|[A-Z][A-Z0-9_-]+|[A-Z]\w*file)\Z")
"""Paths that a viewer of files and folders shows as a file."""


def _editor(name: str, values: Values, context: Context) -> Result:
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
            text = text_of(values, "file_text", "content", "contents")
            made = WriteFile(path=path, text=text, must_be_new=True, dialect=dialect)
            return _in_repository(path, name, made), context
        case "str_replace":
            old, new = text_of(values, "old_str", "old_string"), optional(values, "new_str", "new_string")
            return _in_repository(path, name, Replace(path=path, old=old, new=new, dialect=dialect)), context
        case "insert":
            return _inserted(name, values, context)
        case "undo_edit":
            return _in_repository(path, name, Undo(path=path, dialect=dialect)), context
        case _:
            raise ValueError(command)


def _viewed(path: str, lines: object) -> Operation:
    if isinstance(lines, str) and lines:
        lines = _decode(lines)
    if isinstance(lines, list) and len(lines) == 2:
        first, last = number(lines[0]), number(lines[1])
        return Read(path=path, first=first, last=None if last == -1 else last, form="numbered", is_alone=True)
    if path == "." or _SHOWS_FILE.search(path) is None:
        return ListFiles(path=path)
    return Read(path=path, form="numbered", is_alone=True)


def _inserted(name: str, values: Values, context: Context) -> Result:
    """``insert`` of the ``str_replace`` family: behind a line."""
    path, text = _path(values, context), text_of(values, "new_str", "insert_text", "text", "content")
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


def _edit_file(name: str, values: Values, context: Context) -> Result:
    """``Edit``, ``replace``, ``MultiEdit`` and other replacements of text in a file."""
    path = _path(values, context)
    edits = values.get("edits")
    if isinstance(edits, list):
        return _in_repository(path, name, *_several(path, edits, name, context)), context
    for old_key, new_key in _PAIRS:
        if old_key in values:
            dialect = dialects.edit_dialect(context, name, old_key)
            old, new = text_of(values, old_key), optional(values, new_key)
            if not old:
                made = WriteFile(path=path, text=new, must_be_new=True, dialect=dialect)
                return _in_repository(path, name, made), context
            count: Literal["all", "one"] = "all" if _is_every(values) else "one"
            replaced = Replace(path=path, old=old, new=new, count=count, dialect=dialect)
            return _in_repository(path, name, replaced), context
    if "new_text" in values:
        return _in_repository(path, name, WriteFile(path=path, text=text_of(values, "new_text"))), context
    if "diff" in values:
        return _in_repository(path, name, *_blocks(path, text_of(values, "diff"))), context
    if "start" in values or "start_line" in values:
        first = number(values.get("start", values.get("start_line")))
        last = number(values.get("end", values.get("end_line", first)))
        text = text_of(values, "content", "new_content", "replacement_text", "text")
        return _in_repository(path, name, EditLines(path=path, first=first, last=last, text=text)), context
    return _in_repository(path, name, Opaque(reason=name, paths=(path,))), context


def _is_every(values: Values) -> bool:
    expected = values.get("expected_replacements")
    return is_true(values.get("replace_all", values.get("allow_multiple"))) or bool(expected and number(expected) > 1)


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


def _edit_block(name: str, values: Values, context: Context) -> Result:
    """Aider's block: an empty SEARCH makes a file or adds to it."""
    path, old, new = _path(values, context), text_of(values, "search"), text_of(values, "replace")
    if not old.strip():
        return _in_repository(path, name, AppendFile(path=path, text=new)), context
    return _in_repository(path, name, Replace(path=path, old=old, new=new, dialect="aider")), context


def _notebook(name: str, values: Values, context: Context) -> Result:
    path = _path(values, context)
    return _in_repository(path, name, Opaque(reason="a cell of a notebook", paths=(path,))), context


def _write(name: str, values: Values, context: Context) -> Result:
    path = _path(values, context)
    text = text_of(values, "content", "contents", "file_text", "text")
    if name == "append" or is_true(values.get("append")):
        return _in_repository(path, name, AppendFile(path=path, text=text)), context
    is_new = name in ("create", "create_file")
    dialect = dialects.edit_dialect(context, name)
    return _in_repository(path, name, WriteFile(path=path, text=text, must_be_new=is_new, dialect=dialect)), context


def _delete(name: str, values: Values, context: Context) -> Result:
    path = _path(values, context)
    return _in_repository(path, name, Delete(path=path)), context


def _patch(name: str, values: Values, context: Context) -> Result:
    text = text_of(values, "patch", "input", "patchText", "diff", "content")
    if _A_BLOCK.search(text) is not None:
        return _edit_file(name, values, context)
    return (patched(text, context),), context


def patched(text: str, context: Context) -> Operation:
    """A patch, in either of the two forms that a tool takes."""
    return patch_of(text, 0 if "*** Begin Patch" in text else 1, context)


_TRANSLATED = re.compile(r"\Aprint\(file_editor\(\*\*(\{.*\})\)\)\Z", re.S)


def _openhands_edit(name: str, values: Values, context: Context) -> Result:
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


def _read(name: str, values: Values, context: Context) -> Result:
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


def _search(name: str, values: Values, context: Context) -> Result:
    where = next((values[key] for key in _WHERE if isinstance(values.get(key), str)), "")
    pattern = next((values[key] for key in _WHAT if isinstance(values.get(key), str)), "")
    if not where and name == "search_file" and context.open_file is not None:
        return (Search(path=context.open_file, pattern=windowed.bare(pattern)),), context
    path = resolve(windowed.bare(where), context) if where else "."
    return (Search(path=path, pattern=windowed.bare(pattern)),), context


def _list(name: str, values: Values, context: Context) -> Result:
    where = next((values[key] for key in _WHERE if isinstance(values.get(key), str)), "")
    return (ListFiles(path=resolve(where or ".", context)),), context


def _python(name: str, values: Values, context: Context) -> Result:
    return tuple(script_of("python", text_of(values, "code", "command", "script"), context)), context


def _windowed(name: str, values: Values, context: Context) -> Result:
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


_Reader = Callable[[str, Values, Context], Result]


def _named(reader: _Reader, names: str) -> dict[str, _Reader]:
    return dict.fromkeys(names.split(), reader)


TOOLS: dict[str, _Reader] = {
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
}
LOOKS = frozenset(name for name, reader in TOOLS.items() if reader in (_read, _search, _list)).union(
    ["open", "goto", "scroll_up", "scroll_down", "set_cursors"]
)
"""Those that only look."""
