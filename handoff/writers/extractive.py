"""The extractive writer: summary and note by rule, from one evidence record.

Both forms tell the same facts, picked once by ``_facts``: they differ in form and not in information
(``docs/science.md §3``). Every claim cites its steps. Two absences are told apart: *NONE OBSERVED* (the
predecessor would have seen it, and there was none) and *UNKNOWN* (the recording does not say).

Text taken from a run is hostile. It is put on one line, shortened, stripped of control characters and shown
as inline code, so it can neither open a section nor look like a claim of ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from handoff.evidence import Evidence

_MOST_FILES = 10
_MOST_TESTS = 6
_MOST_COMMANDS = 5
_MOST_FAILURES = 3
_MOST_INTENTIONS = 4
_MOST_REVERTED = 4
_WORDS = 22
"""Words kept of one quotation. With the limits above, a summary stays under 500 words."""


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What both forms tell, ready to print."""

    h: int
    predecessor: str
    changed: tuple[tuple[str, str, str], ...]
    """(path, status, citation)."""
    more_changed: int
    is_settled: bool
    """The last validation passed and nothing changed since."""
    validation: str
    """The last validation as one clause; empty when there was none."""
    validation_cite: str
    outcome: str
    """``passed``, ``failed``, or empty when unknown."""
    is_stale: bool
    failing: tuple[str, ...]
    more_failing: int
    reads: tuple[tuple[str, str], ...]
    more_reads: int
    failed: tuple[tuple[str, str], ...]
    more_failed: int
    reverted: tuple[tuple[str, str], ...]
    decided: tuple[tuple[str, str], ...]
    planned: tuple[tuple[str, str], ...]
    open: tuple[tuple[str, str], ...]
    commands: tuple[tuple[str, str], ...]
    more_commands: int


def write_summary(evidence: Evidence) -> str:
    """Prose of at most 500 words; at least 200 where the evidence allows. Ends with a newline."""
    facts = _facts(evidence)
    paragraphs = [
        _summary_of_changes(facts),
        _summary_of_knowledge(facts),
        _summary_of_trouble(facts),
        _summary_of_validation(facts),
    ]
    return "\n\n".join(paragraphs) + "\n"


def write_structured(evidence: Evidence) -> str:
    """Markdown: sections Done, In progress, To do, Key decisions, Risks and a rule block. Ends with a newline."""
    facts = _facts(evidence)
    changes = [f"{path} was {status} [{cite}]" for path, status, cite in facts.changed]
    if facts.more_changed:
        changes.append(f"{facts.more_changed} further files were changed [steps 1–{facts.h}]")
    todo = [f"Make {test} pass: it failed in the last validation [{facts.validation_cite}]" for test in facts.failing]
    if facts.more_failing:
        todo.append(f"Make {facts.more_failing} further failing tests pass [{facts.validation_cite}]")
    todo += [f"Failing when last seen: {text} [{cite}]" for text, cite in facts.open]
    if changes and not facts.is_settled:
        todo.append(f"Validate the present state [{_validation_basis(facts)}]")
    todo += [f"Stated intention: {text} [{cite}]" for text, cite in facts.planned]
    decisions = [f"{text} [{cite}]" for text, cite in facts.decided]
    decisions += [f"Took back an edit of {path} [{cite}]" for path, cite in facts.reverted]
    risks = [f"Failed attempt: {text} [{cite}]" for text, cite in facts.failed]
    if facts.more_failed:
        risks.append(f"{facts.more_failed} further attempts failed [steps 1–{facts.h}]")
    if facts.is_stale:
        risks.append(f"The last validation is older than the last change [{facts.validation_cite}]")
    done, begun = (changes, []) if facts.is_settled else ([], changes)
    return lay_out_note((done, begun, todo, decisions, risks), evidence)


def lay_out_note(lists: Sequence[Sequence[str]], evidence: Evidence) -> str:
    """A note of five lists (done, in progress, to do, key decisions, risks) and the rule block. Ends with a newline.

    Items are one line each, and safe to print. The rule block is read off the evidence, whoever wrote the lists.
    """
    sections = (
        ("Done", "NONE OBSERVED: no change was followed by a passing validation"),
        ("In progress", "NONE OBSERVED"),
        ("To do", "UNKNOWN: no failure is open and no intention was stated"),
        ("Key decisions", "NONE OBSERVED"),
        ("Risks", "NONE OBSERVED"),
    )
    parts = [_section(name, items, none) for (name, none), items in zip(sections, lists, strict=True)]
    return "\n\n".join([*parts, _rule_block(_facts(evidence))]) + "\n"


# -- prose --------------------------------------------------------------------------------------


def _summary_of_changes(facts: _Facts) -> str:
    said = [f"The previous {facts.predecessor} stopped after step {facts.h}."]
    if not facts.changed:
        said.append("It had changed no file.")
    else:
        listed = _listed(
            [f"{path} ({status}, {cite})" for path, status, cite in facts.changed], facts.more_changed, "files"
        )
        said.append(f"It had changed {listed}.")
        if facts.is_settled:
            said.append("A validation after the last change passed, so this part can be taken as done.")
        else:
            said.append("Nothing confirms the present state, so this part is in progress and has to be checked.")
    if facts.reverted:
        said.append(f"It took back edits of {_listed([f'{path} ({cite})' for path, cite in facts.reverted])}.")
    return " ".join(said)


def _summary_of_validation(facts: _Facts) -> str:
    if not facts.validation:
        return "It ran no test, build or lint that the recording shows; whether the code works is unknown."
    said = [f"The last validation was {facts.validation} ({facts.validation_cite})."]
    if facts.failing:
        listed = _listed(facts.failing, facts.more_failing, "tests")
        said.append(f"It reported as failing {listed}; these are still to be made to pass.")
    if facts.is_stale:
        said.append("It is stale: files were changed after it.")
    else:
        said.append("No file was changed after it.")
    if facts.open:
        said.append(f"Failing when last seen: {_listed([f'{text} ({cite})' for text, cite in facts.open])}.")
    return " ".join(said)


def _summary_of_trouble(facts: _Facts) -> str:
    said = []
    if facts.failed:
        listed = _listed([f"{text} ({cite})" for text, cite in facts.failed], facts.more_failed, "attempts")
        said.append(f"What it tried without success: {listed}.")
    else:
        said.append("None of its attempts is recorded as failed.")
    if facts.decided:
        said.append(f"What it said it was doing: {_listed([f'{text} ({cite})' for text, cite in facts.decided])}.")
    if facts.planned:
        said.append(f"What it said it would do next: {_listed([f'{text} ({cite})' for text, cite in facts.planned])}.")
    else:
        said.append("What it meant to do next is not known.")
    return " ".join(said)


def _summary_of_knowledge(facts: _Facts) -> str:
    said = []
    if facts.reads:
        listed = _listed([f"{path} (last in {cite})" for path, cite in facts.reads], facts.more_reads, "files")
        said.append(f"It had read {listed}.")
    else:
        said.append("It had read no file that the recording shows.")
    if facts.commands:
        listed = _listed([f"{text} ({cite})" for text, cite in facts.commands], facts.more_commands, "commands")
        said.append(f"Commands it ran: {listed}.")
    return " ".join(said)


# -- note ---------------------------------------------------------------------------------------


def _section(name: str, items: Sequence[str], none: str) -> str:
    return f"## {name}\n\n" + "\n".join(f"- {item}" for item in (items or [none]))


def _rule_block(facts: _Facts) -> str:
    """Facts read off the recording; nothing here is a judgement."""
    changed = _listed(
        [f"{path} ({status}) [{cite}]" for path, status, cite in facts.changed], facts.more_changed, "files"
    )
    reads = _listed([f"{path} [{cite}]" for path, cite in facts.reads], facts.more_reads, "files")
    commands = _listed([f"{text} [{cite}]" for text, cite in facts.commands], facts.more_commands, "commands")
    if facts.validation:
        validation = f"{facts.validation} [{facts.validation_cite}]"
        outcome = facts.outcome or "UNKNOWN"
        stale = "yes" if facts.is_stale else "no"
    else:
        validation = outcome = "NONE OBSERVED"
        stale = "UNKNOWN"
    return "\n".join(
        (
            "## Facts by rule\n",
            f"- Changed files: {changed or 'NONE OBSERVED'}",
            f"- Last validation: {validation}",
            f"- Outcome: {outcome}",
            f"- Stale: {stale}",
            f"- Files read: {reads or 'NONE OBSERVED'}",
            f"- Commands run: {commands or 'NONE OBSERVED'}",
        )
    )


def _validation_basis(facts: _Facts) -> str:
    return facts.validation_cite if facts.validation else f"steps 1–{facts.h}"


# -- facts --------------------------------------------------------------------------------------


def _facts(evidence: Evidence) -> _Facts:
    last = evidence.last_validation
    outcome = (last.outcome or "") if last is not None else ""
    is_stale = last is not None and last.is_stale
    failing = last.failing if last is not None else ()
    intentions = evidence.intentions[-_MOST_INTENTIONS:]
    newest = intentions[-1].step if intentions else 0
    quoted = [(_quote(i.text), cite((i.step,)), i.step) for i in intentions]
    return _Facts(
        h=evidence.h,
        predecessor="agent" if evidence.predecessor == "agent" else "person's work",
        changed=tuple((_name(c.path), c.status, cite(c.steps)) for c in evidence.changed[:_MOST_FILES]),
        more_changed=max(len(evidence.changed) - _MOST_FILES, 0),
        is_settled=outcome == "passed" and not is_stale,
        validation=_validation(evidence),
        validation_cite=cite((last.step,)) if last is not None else "",
        outcome=outcome,
        is_stale=is_stale,
        failing=tuple(_name(test) for test in failing[:_MOST_TESTS]),
        more_failing=max(len(failing) - _MOST_TESTS, 0),
        reads=tuple((_name(r.path), cite((r.step,))) for r in evidence.reads[-_MOST_FILES:]),
        more_reads=max(len(evidence.reads) - _MOST_FILES, 0),
        failed=tuple((_quote(f.text), cite((f.step,))) for f in evidence.failed_attempts[-_MOST_FAILURES:]),
        more_failed=max(len(evidence.failed_attempts) - _MOST_FAILURES, 0),
        reverted=tuple((_name(r.path), cite(r.steps)) for r in evidence.reverted[-_MOST_REVERTED:]),
        decided=tuple((text, cite) for text, cite, step in quoted if step != newest),
        planned=tuple((text, cite) for text, cite, step in quoted if step == newest),
        open=tuple((_quote(f.text), cite((f.step,))) for f in evidence.open_failures[-_MOST_FAILURES:]),
        commands=tuple((_quote(c.text), cite((c.step,))) for c in evidence.commands[-_MOST_COMMANDS:]),
        more_commands=max(len(evidence.commands) - _MOST_COMMANDS, 0),
    )


def _validation(evidence: Evidence) -> str:
    last = evidence.last_validation
    if last is None:
        return ""
    counts = [f"{n} {word}" for n, word in ((last.passed, "passed"), (last.failed, "failed")) if n is not None]
    verdict = {"passed": "which passed", "failed": "which failed"}.get(
        last.outcome or "", "with an outcome that is UNKNOWN"
    )
    return f"{_quote(last.command)}, {verdict}" + (f" ({', '.join(counts)})" if counts else "")


def cite(steps: Sequence[int]) -> str:
    """Steps in words: ``step 4``, ``steps 4, 9`` or, when there are many, the first and the last with an ellipsis."""
    unique = sorted(set(steps))
    if not unique:
        return "no step shows it"
    if len(unique) == 1:
        return f"step {unique[0]}"
    if len(unique) > 4:
        return f"steps {unique[0]}, {unique[1]}, …, {unique[-1]}"
    return f"steps {', '.join(map(str, unique))}"


def _listed(items: Sequence[str], more: int = 0, of: str = "") -> str:
    return ", ".join([*items, *([f"and {more} more {of}"] if more else [])])


_SPACE = re.compile(r"\s+")
_RUN_OF_BACKTICKS = re.compile(r"`+")


@lru_cache(maxsize=8_192)  # the same thoughts and commands are quoted at every later point of a run
def _quote(text: str) -> str:
    """Text of a run as inline code on one line: no control characters, at most ``_WORDS`` words and 240 characters."""
    words = _SPACE.sub(" ", text[:2_000]).strip().split(" ")
    line = " ".join(words[:_WORDS])
    if len(words) > _WORDS or len(line) > 240 or len(text) > 2_000:
        line = line[:240].rstrip() + " …"
    return _code(line)


@lru_cache(maxsize=8_192)
def _name(text: str) -> str:
    """A path or test name as inline code, whole unless it is absurdly long."""
    return _code(_SPACE.sub(" ", text[:400]).replace(" ", "␣"))


def _code(line: str) -> str:
    if not line.isprintable():
        line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
    if "`" not in line:
        return f"`{line}`"
    fence = "`" * (max(map(len, _RUN_OF_BACKTICKS.findall(line))) + 1)
    return f"{fence} {line} {fence}"
