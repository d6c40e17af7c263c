"""What came of an action: did the edit happen, did the validation pass.

Only exit codes, the editors' own answers and the runners' own summaries (``summaries.py``) count. Words such as
"error" in any text prove nothing (``docs/science.md §1``: "10 passed, 0 failed" passed).
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

from handoff.actions.operations import Operation, Validate
from handoff.actions.summaries import summary_of
from handoff.actions.tools import SHELLS
from handoff.trajectory import Action, Observation

Passing: TypeAlias = Literal["passed", "failed"]

_NOT_RUN = r"""<tool_use_error> | Sibling\ tool\ call\ errored | The\ user\ doesn't\ want\ to\ (?:proceed|take)
      | (?:The\ )?(?:user|User)\ (?:denied|rejected|cancelled) | \[Request\ interrupted\ by\ user\ for\ tool\ use\]
      | (?:Action|Command|Execution|Tool\ call|Operation|patch|exec\ command)\ (?:was\ |has\ been\ )?
        (?:denied|rejected|blocked|cancelled) | \[Operation\ Cancelled\]
      | (?:PreToolUse|BeforeTool)[:\w\ ]{0,80}hook | Operation\ stopped\ by\ hook | Blocked\ by\ hook
      | Permission\ to\ use\ \w+ | Claude\ requested\ permissions | This\ command\ requires\ approval
      | InputValidationError | Error\ validating\ (?:args|tool) | Parameter\ `\w+`\ is\ required
      | (?:Tool|Function)\ \S{1,80}\ (?:not\ found|does\ not\ exist)"""
"""Answers of a harness that did not carry the call out."""

_REFUSED = rf"""{_NOT_RUN}
      | No\ replacement\ (?:was\ )?performed | Editor\ operation\ failed | aborted\ by\ user
      | Invalid\ `?(?:insert_line|path|view_range|old_str|new_str|file_text)\b
      | The\ path\ .{{0,300}}\ (?:does\ not\ exist|is\ a\ directory|is\ not\ an\ absolute|points\ to\ a\ binary)
      | The\ parent\ directory\ .{{0,300}}\ does\ not\ exist | File\ already\ exists | File\ validation\ failed
      | Unrecognized\ command | Cannot\ create\ new\ file | File\ is\ a\ Jupyter\ Notebook
      | Could\ not\ find\ (?:an\ exact\ match|edits\[) | No\ changes\ to\ apply | Edit\ failed:
      | Attempted\ to\ create\ a\ file\ that\ already\ exists | A\ secondary\ check\ by\ an\ LLM
      | (?:edits\[\d+\]\.)?oldText\ must\ not\ be\ empty | edits\[\d+\]\ and\ edits\[\d+\]\ overlap
      | oldString\ (?:not\ found|and\ newString\ must) | Found\ multiple\ matches\ for\ oldString
      | [Ii]nvalid\ (?:patch|hunk) | No\ files\ were\ modified | patch\ detected\ without\ explicit
      | (?:Error:\ |Warning:\ )?File\ '[^'\n]{{1,300}}'\ already\ exists | File\ \S{{1,300}}\ not\ found
      | File\ does\ not\ exist
      | Your\ proposed\ edit\ has\ introduced\ new\ syntax\ error | Your\ changes\ have\ NOT\ been\ applied
      | Your\ edit\ was\ not\ applied | Your\ search\ and\ replace\ strings\ are\ the\ same
      | Text\ (?:to\ replace\ )?not\ found | No\ file\ open | No\ edit\ history | No\ edits? \ ?to\ undo
      | String\ to\ replace\ not\ found | Found\ \d+\ (?:matches|occurrences)\ of\ | No\ changes\ (?:to\ make|made)
      | Could\ not\ find\ (?:the\ (?:exact\ )?text|oldText) | Multiple\ occurrences\ of\ old_str
      | File\ has\ not\ been\ read\ yet | File\ has\ been\ (?:modified|unexpectedly)
      | Failed\ to\ (?:edit|read|write|delete|remove|create|find|apply)
      | The\ tool\ execution\ failed\ with\ the\ following\ error
      | Ran\ into\ .{{1,300}}\ while\ trying\ to\ (?:read|write) | writing\ outside\ of\ the\ project
      | File\ must\ be\ within | Path\ must\ be\ within | Error\ (?:writing|reading|editing|creating)\b
      | Th(?:e|is)\ SEARCH\ block | The\ LLM\ did\ not\ conform\ to\ the\ edit\ format
      | Unable\ to\ (?:find|read|apply) | EISDIR | ENOENT | EACCES | No\ such\ file
      | Permission\ denied | (?:error:\ )?patch\ (?:failed|does\ not\ apply)
      | apply_patch\ verification\ failed | (?:start_line|end_line|line)\ must\ be
      | [Uu]sage:\ (?:edit|open|insert|goto|set_cursors|create|str_replace_editor)\b | end_line\ must\ be"""
"""Answers of an editor that changed nothing."""

_PREFIX = r"\A\s*(?:(?:ERROR|Error|error|OBSERVATION):?\s*|<error>\s*){0,4}"
_NOT_RUN_ANSWER = re.compile(f"{_PREFIX}(?:{_NOT_RUN})", re.X)
_REFUSAL = re.compile(f"{_PREFIX}(?:{_REFUSED})", re.X)
_FAILED_RESULT = re.compile(r'\A\s*\[?\{[^{}]{0,2000}"success":\s*false\b')
_DONE = re.compile(
    r"\A\s*(?:OBSERVATION:\s*)?(?:The file .{1,500} has been (?:edited|updated|created)"
    r"|File (?:created|updated|written)|Success\. Updated|Text replaced|Replaced \d+ occ|Successfully |Edit applied"
    r"|Applied edit)",
    re.S,
)
_LATER_REFUSAL = re.compile(
    r"^(?:Your proposed edit has introduced new syntax error|Your changes have NOT been applied"
    r"|No replacement was performed|The edit (?:was|has been) (?:not applied|reverted))",
    re.M,
)
_HEAD = 1_000
_SCREEN = 8_000


def did_not_happen(action: Action, observation: Observation) -> bool:
    """Positive evidence that the action had no effect: refused, not run, or rolled back (FORMATS T11).

    For a shell line only evidence about the whole line counts: a failing exit code does not say which part failed.
    """
    if observation.missing in ("not_executed", "aborted"):
        return True
    text = observation.text
    head = text[:_HEAD]
    if action.tool.lower() in SHELLS:
        return _line_did_not_run(action, observation, head)
    if observation.error is True or observation.exit_code not in (None, 0):
        return True
    if _DONE.match(head) is not None:
        return False
    return (
        _REFUSAL.match(head) is not None
        or _FAILED_RESULT.match(text[: _HEAD * 3]) is not None
        or _LATER_REFUSAL.search(text[:_SCREEN]) is not None
    )


def was_carried_out(action: Action, observation: Observation) -> bool:
    """Positive evidence that the whole action was done: exit code 0, or the editor's own word."""
    if observation.missing is not None or observation.error is True or did_not_happen(action, observation):
        return False
    if observation.exit_code is not None:
        return observation.exit_code == 0
    return action.tool.lower() not in SHELLS and _DONE.match(observation.text[:_HEAD]) is not None


def may_have_begun(observation: Observation) -> bool:
    """Whether a call that ended badly may have done a part of its work: no harness says that it did not run it."""
    if observation.missing == "not_executed":
        return False
    head = observation.text[:_HEAD]
    return _INTERRUPTED in head or _NOT_RUN_ANSWER.match(head) is None


_INTERRUPTED = "[Request interrupted by user"
_JOINTS = ("\n", "\\n", ";", "&", "|", "$(", "`")
"""What makes more than one command of a line, as text or in JSON."""
_NOT_FOUND = re.compile(
    r"(?:\A|: |\n)([^\s:'\"]{1,200}): "
    r"(?:command not found|not found|No such file or directory|Permission denied|cannot execute)"
)


def _line_did_not_run(action: Action, observation: Observation, head: str) -> bool:
    if _NOT_RUN_ANSWER.match(head) is not None:
        return True
    if observation.exit_code in (126, 127) and not any(mark in action.arguments for mark in _JOINTS):
        found = _NOT_FOUND.search(head)  # of the line's own command, not of one in a script that it ran
        if not head.strip() or (found is not None and found[1] in action.arguments):
            return True
    start = head.lstrip()
    return start.startswith(("bash: syntax error", "/bin/bash: -c: line", "sh: 1: Syntax error")) and (
        "syntax error" in start.lower()
    )


class Validation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of one validation run."""

    kind: Literal["test", "build", "lint"]
    target: str
    command: str = ""
    outcome: Passing | None = None
    """``None``: the recording does not say."""
    passed: int | None = None
    failed: int | None = None
    """Failures and errors together."""
    failing: tuple[str, ...] = ()
    """Names of failing tests as the runner printed them, in its order, each once."""


_NEVER_A_VERDICT = frozenset((124, 126, 127, 130, 137, 143))
"""Exit codes that say that nothing was judged: not found, killed, timed out."""
_NO_VERDICT = {"pytest": frozenset((3, 4, 5)), "unittest": frozenset((5,))}
"""The same for one runner: an internal error, wrong usage, no tests."""


def validation(operation: Operation, observation: Observation) -> Validation | None:
    """What a ``Validate`` found; ``None`` for other operations and for a run with no answer at all."""
    if not isinstance(operation, Validate) or observation.missing in ("not_executed", "aborted"):
        return None
    summary = summary_of(observation.text, operation.kind, operation.runner)
    code = observation.exit_code if operation.owns_exit_code else None
    outcome: Passing | None
    if code is not None and (code < 0 or code in _NEVER_A_VERDICT or code in _NO_VERDICT.get(operation.runner, ())):
        outcome = "failed" if summary.failed else None
    elif summary.is_bad:
        outcome = "failed"
    elif summary.passed == 0 and summary.failed == 0:
        outcome = "failed" if code else None  # nothing was judged
    elif code is not None:
        outcome = "passed" if code == 0 else "failed"
    else:
        outcome = "passed" if summary.is_good else None
    return Validation(
        kind=operation.kind,
        target=operation.target,
        command=operation.command,
        outcome=outcome,
        passed=summary.passed,
        failed=summary.failed,
        failing=summary.failing,
    )
