"""The shell line that runs a task's tests: as the user says, else as its instance does, else pytest's."""

from __future__ import annotations

import posixpath
import shlex

from handoff.instances.answers import test_files
from handoff.instances.reading import Answer
from handoff.judging.settings import TestRule

PYTEST = "python -m pytest -rap --tb=no --color=no -p no:cacheprovider {files}"
"""Where neither user nor instance says how, and the tests' names are pytest's."""


def command_of(answer: Answer, rule: TestRule) -> str | None:
    """The line; ``None`` when nobody says how, and the names of the tests do not tell."""
    template = rule.command or answer.command
    if not template:
        names = (*answer.fail_to_pass, *answer.pass_to_pass)
        if not names or not all(".py::" in name for name in names):
            return None
        template = PYTEST
    files = test_files(answer)
    modules = [posixpath.splitext(path)[0].replace("/", ".") for path in files]
    for field, words in (
        ("{files}", [f"./{path}" if path.startswith("-") else path for path in files]),
        ("{modules}", modules),
        ("{labels}", [name.removeprefix("tests.") for name in modules]),
    ):
        template = template.replace(field, shlex.join(words))
    return template
