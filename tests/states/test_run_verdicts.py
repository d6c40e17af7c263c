"""The verdict on a run: its recorded patch is reproduced, and what that patch does not speak of is named."""

from __future__ import annotations

import json

import pytest

from handoff.git.repositories import Repository
from handoff.states.proof.verdict import Replay
from handoff.states.replay import replay
from handoff.states.typed import UNCLEAR
from handoff.trajectory import Action, Observation, Step
from tests.states.conftest import FILES, bash, recording
from tests.states.truths import diff

PAGER = FILES["src/pager.py"].decode()
EDITED = PAGER.replace("items[-1]", "items[-2]")
PATCH = diff({"src/pager.py": PAGER}, {"src/pager.py": EDITED})
EDIT = bash("sed -i 's/items.-1./items[-2]/' src/pager.py")
PROBE = bash("cat > probe.py <<'EOF'\nprint(1)\nEOF")
RUN = bash("python probe.py", "1\n")
OWN_PATCH = bash("git diff", PATCH)


def replayed(repository: Repository, base: str, *steps: Step, patch: str = PATCH) -> Replay:
    return replay(recording(*steps, base=base, patch=patch), "t", repository)


@pytest.mark.parametrize(
    "steps",
    [
        (PROBE, RUN, EDIT, OWN_PATCH),
        (PROBE, bash("rm probe.py"), bash("echo 2 > more.py"), EDIT, OWN_PATCH),
        (EDIT, PROBE, bash("git diff -- src/pager.py > patch.txt"), bash("cat patch.txt", PATCH)),
    ],
    ids=["left there", "one of two removed", "files picked"],
)
def test_scratch_files_that_git_does_not_show_leave_a_run_verified(
    repository: Repository, base: str, steps: tuple[Step, ...]
) -> None:
    """Not its steps: nothing shows what the scratch file held."""
    found = replayed(repository, base, *steps)
    assert (found.status, found.category) == ("verified", "verified")
    assert "it does not speak of" in found.reason and ("probe.py" in found.reason or "more.py" in found.reason)
    assert found.is_derivable and found.statuses[-1] == "partial" and all(found.derived)


@pytest.mark.parametrize(
    ("steps", "status", "category"),
    [
        ((PROBE, bash("sed -i 's/items.-1./items[-3]/' src/pager.py"), OWN_PATCH), "divergent", "read_mismatch"),
        ((PROBE, OWN_PATCH), "divergent", "read_mismatch"),
        ((PROBE, bash("sed -i 's/items.-1./items[-3]/' src/pager.py")), "divergent", "patch_mismatch"),
        ((PROBE, bash("./fix.sh"), EDIT), "partial", "unconfirmed"),
        ((PROBE, bash("cp probe.py src/pager.py"), EDIT, OWN_PATCH), "divergent", "read_mismatch"),
        ((bash("echo x > README.md"), EDIT, bash("git diff -- src/pager.py", PATCH)), "partial", "unconfirmed"),
        ((PROBE, EDIT), "partial", "unconfirmed"),
        ((bash("black probe.py"), EDIT, OWN_PATCH), "partial", "opaque_step"),
    ],
    ids=[
        "another edit",
        "no edit",
        "another edit that only the patch tells",
        "a program of unknown effect",
        "scratch that went into a file",
        "a tracked file not picked",
        "a patch that new files would be in",
        "an opaque step",
    ],
)
def test_what_the_patch_would_show_keeps_a_run_from_it(
    repository: Repository, base: str, steps: tuple[Step, ...], status: str, category: str
) -> None:
    found = replayed(repository, base, *steps)
    assert (found.status, found.category) == (status, category), found.reason


def _typed(line: str, echo: str) -> Step:
    action = Action(tool="execute_bash", arguments=json.dumps({"command": line}))
    return Step(actions=(action,), observations=(Observation(text=echo),))


TABBED = "sed -i '6s/^/\t /' src/pager.py"


def test_a_tab_typed_into_a_shell_is_no_letter(repository: Repository, base: str) -> None:
    """What ran is what the shell echoes; without an echo nobody can tell."""
    ran = TABBED.replace("\t", "")
    lines = PAGER.split("\n")
    lines[5] = " " + lines[5]
    patch = diff({"src/pager.py": PAGER}, {"src/pager.py": "\n".join(lines)})
    assert replayed(repository, base, _typed(TABBED, f"{ran}\n$ "), patch=patch).status == "verified"
    silent = replayed(repository, base, _typed(TABBED, ""))
    assert silent.statuses[1] == "partial"
    assert UNCLEAR in silent.reasons[1] and not silent.is_derivable
    elsewhere = Action(tool="bash", arguments=json.dumps({"command": TABBED}))
    lines[5] = "\t" + lines[5]
    patch = diff({"src/pager.py": PAGER}, {"src/pager.py": "\n".join(lines)})
    kept = Step(actions=(elsewhere,), observations=(Observation(text=""),))
    assert replayed(repository, base, kept, patch=patch).status == "verified"
