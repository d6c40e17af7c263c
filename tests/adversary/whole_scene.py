"""A scene in which every kind of disturbance finds something to disturb, under a view that allows it."""

from __future__ import annotations

from handoff.adversary import Scene
from handoff.evidence import Changed, Evidence, FileRead, LastValidation, Said
from handoff.writers.extractive import write_structured, write_summary

BASE = b'''"""Numbers."""


def first(values):
    """The first."""
    result = values[1]
    return result


def last(values):
    return values[0], len(values)
'''
NOW = BASE.replace(b"values[1]", b"values[0]").replace(b"values[0], len", b"values[1], len")
"""The first function is repaired, the other changed and still wrong."""
REFERENCE = NOW.replace(b"values[1], len", b"values[-1], len")
STEPS = "".join(
    f"## Step {n}\n\nAction bash:\n```\n" + '{"command":"cat m.py"}' + f"\n```\n\nObservation:\n```\nline {n}\n```\n\n"
    for n in range(1, 5)
)
EVIDENCE = Evidence(
    h=4,
    task="Repair the numbers.",
    changed=(Changed(path="pkg/m.py", status="modified", steps=(2, 3)),),
    reverted=(),
    last_validation=LastValidation(
        command="pytest -q", step=2, outcome="failed", passed=3, failed=1, failing=("t.py::test_x",), is_stale=True
    ),
    reads=(
        FileRead(path="README.md", step=1),
        FileRead(path="pkg/other.py", step=1),
        FileRead(path="pkg/m.py", step=1),
    ),
    failed_attempts=(),
    intentions=(Said(text="Next I will change pkg/other.py.", step=3),),
    open_failures=(),
    commands=(Said(text="pytest -q", step=2),),
)


VIEW_OF = dict.fromkeys(("truncated_trace", "sampled_trace", "reordered_trace", "rotated_logs"), "trace")
"""Kinds that need another view than structured notes."""


def everything(view: str = "structured") -> Scene:
    """The scene under a view."""
    texts = {
        "structured": "# Note\n\n" + write_structured(EVIDENCE),
        "summary": "# Summary\n\n" + write_summary(EVIDENCE),
        "trace": "# Trace\n\n" + STEPS,
        "repo": "",
    }
    return Scene(
        task="Fix the numbers. They are wrong. Do not change the tests.",
        view=view,
        view_text=texts[view],
        base={"pkg/m.py": BASE, "README.md": b"# Numbers\n\nMany.\n", "requirements.txt": b"numpy==1.26.4\n"},
        files={"pkg/m.py": NOW, "README.md": b"# Numbers\n\nMany.\n", "requirements.txt": b"numpy==1.26.4\n"},
        evidence=EVIDENCE,
        earlier=((1, "# Note\n\nNothing yet.\n"), (2, "# Note\n\nSomething.\n"))
        if view in ("structured", "summary")
        else (),
    )
