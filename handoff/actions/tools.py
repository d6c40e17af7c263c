"""A recorded call read as operations: structured tools by name, everything in a shell by ``lines.py``.

Tool names differ between agents and drift between versions; what they do does not. A call that cannot be read
(no path, a line number that is no number) is ``Other``: it never becomes an edit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from handoff.actions import dialects, windowed
from handoff.actions.commits import file_changes
from handoff.actions.lines import Result, interpret_line
from handoff.actions.operations import (
    Commit,
    Opaque,
    Operation,
    Other,
    patch_paths,
)
from handoff.actions.paths import Context, is_outside, resolve, with_folder
from handoff.actions.programs.call import listed
from handoff.actions.programs.scripts import script_of
from handoff.actions.structured import LOOKS, TOOLS, Values, decoded, is_true, optional, patched
from handoff.actions.windowed import split
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
            values = decoded(action.arguments)
        except (ValueError, RecursionError):
            values = None
    if isinstance(values, dict):
        line = command_line(name, values) if name in SHELLS else None
        is_typed = is_true(values.get("is_input")) or ("keystrokes" in values and not (line or "").endswith("\n"))
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
        values = decoded(arguments) if arguments else {}
    except (ValueError, RecursionError):
        return _of_text(name, arguments, context)
    if not isinstance(values, dict):
        return _of_text(name, arguments, context)
    return _of_values(name, values, context)


# -- structured calls ---------------------------------------------------------------------------


def _of_values(name: str, values: Values, context: Context) -> Result:
    if name in SHELLS:
        return _shell(name, values, context)
    if name in _SILENT:
        return (), context
    try:
        reader = _stdin if name == "write_stdin" else TOOLS.get(name)
        if reader is not None:
            return reader(name, values, context)
    except (KeyError, TypeError, ValueError):
        return _unread(name, is_view=values.get("command") == "view"), context
    if name in _SUBAGENTS and values.get("subagent_type") in _READING_AGENTS:
        return (Other(tool=name),), context
    return _other(name), context


def _unread(name: str, *, is_view: bool = False) -> tuple[Operation, ...]:
    """A call of a known tool whose arguments are not as they should be. An editor that took them may have edited."""
    other = Other(tool=name)
    if name in LOOKS or is_view:
        return (other,)
    return other, Opaque(reason=f"a call of {name} that cannot be read", is_possible=True)


def _other(name: str) -> tuple[Operation, ...]:
    """A call of no kind of §4. Subagents and tools that nobody knows may edit the tree beside it."""
    other = Other(tool=name or "unnamed")
    if name in _HARMLESS or name.startswith("browser_") or _READING_MCP.fullmatch(name) is not None:
        return (other,)
    reason = f"subagent {name}" if name in _SUBAGENTS else f"unknown tool {name}".strip()
    return other, Opaque(reason=reason, is_possible=True)


def _shell(name: str, values: Values, context: Context) -> Result:
    line = command_line(name, values)
    if line is None:
        return _unread(name), context
    is_input = is_true(values.get("is_input"))
    if is_input or ("keystrokes" in values and not line.endswith("\n")):
        return _typed(name, line), context
    folder = _folder_of(values)
    if folder:
        inner = with_folder(context, folder)
        return interpret_line(line, inner)[0], msgspec.structs.replace(context, prefixes=inner.prefixes)
    return interpret_line(line, context)


def command_line(tool: str, values: Values) -> str | None:
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


def _stdin(name: str, values: Values, context: Context) -> Result:
    """Codex's ``write_stdin``: without characters it only waits for output."""
    return _typed(name, optional(values, "chars", "input")), context


# -- calls kept as text -------------------------------------------------------------------------

_OPTION = re.compile(r"--(\w+)\s+")


def _of_text(name: str, text: str, context: Context) -> Result:
    """A rendered command line: SWE-agent's own commands by first word, everything else as a shell line."""
    if name in ("apply_patch", "patch", "apply_diff"):
        return (patched(text, context),), context
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
        return _unread("str_replace_editor"), context
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
