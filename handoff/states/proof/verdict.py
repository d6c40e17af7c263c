"""What a replay found: one verdict per step and one on the run, and what led to them (``docs/science.md §2``).

How a verdict is reached is in ``replay`` and ``evidence``; here is only its form, and its rows in tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from handoff.secrets import Redactor

Status: TypeAlias = Literal["verified", "divergent", "partial", "unverifiable"]
"""The verdict on a step or a run."""

Category: TypeAlias = Literal[
    "verified",
    "no_repository",
    "no_base",
    "edit_misfit",
    "read_mismatch",
    "patch_mismatch",
    "opaque_step",
    "not_told",
    "unconfirmed",
    "no_evidence",
    "subagent",
]
"""Why a run has its verdict. Divergent: ``edit_misfit`` (a recorded edit does not fit the file), ``read_mismatch``
(the recording shows another file), ``patch_mismatch`` (the end is not the recorded patch). Partial: ``opaque_step`` (an
effect that cannot be derived), ``not_told`` (nothing says whether an edit was carried out), ``unconfirmed`` (no
evidence for some file). Unverifiable: ``no_repository``, ``no_base``, ``no_evidence``, ``subagent``
(its edits are part of the states of the run that started it)."""

How: TypeAlias = Literal["read", "diff", "patch", "rerun"]
"""Where an underivable content was taken from: a later full read, a later ``git diff``, the final patch, or the step
executed again and held against its recorded answer."""


class Divergence(NamedTuple):
    """A contradiction between the replay and the recording."""

    step: int
    """The step whose result is wrong: the last one that changed the file (0: the base itself)."""
    path: str
    problem: str
    seen_at: int = 0
    """The step where the recording shows it; n for the final patch."""
    category: Category = "read_mismatch"
    hunk: str = ""
    """A short unified diff from what was derived to what the recording shows; empty where there is no text."""


class OpaqueStep(NamedTuple):
    """A step whose effect on files cannot be derived from the recording."""

    step: int
    reason: str
    paths: tuple[str, ...] = ()
    """Files it may have touched, sorted; empty: any file."""


class Recovery(NamedTuple):
    """A file that became known again."""

    step: int
    """The first step whose state holds the content."""
    path: str
    how: How
    at: int
    """The step that shows it; n for the final patch."""


class StepState(NamedTuple):
    """One step's verdict and where its tree is: position in the trajectory's chain of distinct states."""

    position: int
    status: Status
    reason: str
    is_derived: bool = False
    """Every effect up to here follows from the recording and nothing contradicts it; true of ``verified`` steps, and of
    ``partial`` ones where all that is missing is something that shows a file."""


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """One trajectory's states. ``commits`` and ``trees`` are by step, 0 to n; ``None`` where there is no state."""

    trajectory_id: str
    format: str
    repo: str | None
    base: str | None
    base_evidence: str = ""
    """How the base commit is known; empty when it is not."""
    status: Status
    """The verdict on the whole run."""
    category: Category
    """Why, in one word."""
    reason: str
    commits: tuple[str | None, ...]
    trees: tuple[str | None, ...]
    statuses: tuple[Status, ...]
    reasons: tuple[str, ...]
    derived: tuple[bool, ...]
    """``StepState.is_derived`` of each."""
    divergence: Divergence | None = None
    is_derivable: bool = False
    """Whether the effect of every step follows from the recording: none is opaque, a look at the whole tree answers for
    every program of unknown effect, and nothing shows that the run began elsewhere than at its base."""
    opaque: tuple[OpaqueStep, ...] = ()
    """Steps whose effect no text tells, in order."""
    recoveries: tuple[Recovery, ...] = ()
    """Files of theirs that other evidence tells, in order of steps."""
    checkpoints: int = 0
    """Texts of files in the recording that agree with the state."""
    checked_steps: tuple[int, ...] = ()
    """The step of each of them, in the order in which they were met."""
    full_reads: int = 0
    """How many of those determine a whole file."""
    submodules: int = 0
    """Submodules of the base, whose content a state does not hold."""
    lfs_pointers: int = 0
    """Files of the base that only point to large-file storage."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows of table ``repository_states``, step 0 first."""
        for step, (commit, tree, status, reason, is_derived) in enumerate(
            zip(self.commits, self.trees, self.statuses, self.reasons, self.derived, strict=True)
        ):
            yield {
                "trajectory_id": self.trajectory_id,
                "step": step,
                "repo": self.repo,
                "commit": commit,
                "tree": tree,
                "status": status,
                "reason": _said(reason),
                "is_derived": is_derived,
            }

    def verdict_row(self) -> dict[str, Any]:
        """The run's row of table ``state_verdicts``. Step 0 counts among the steps of each verdict."""
        counts = Counter(self.statuses)
        found = self.divergence
        return {
            "trajectory_id": self.trajectory_id,
            "format": self.format,
            "repo": self.repo,
            "base": self.base,
            "base_evidence": _said(self.base_evidence) or None,
            "status": self.status,
            "category": self.category,
            "reason": _said(self.reason),
            "step": found.step if found else None,
            "path": _text(found.path) if found else None,
            "hunk": (_hunk(found.hunk) or None) if found else None,
            "seen_at": found.seen_at if found else None,
            "checkpoints": self.checkpoints,
            "checked_steps": list(self.checked_steps),
            "full_reads": self.full_reads,
            "is_derivable": self.is_derivable,
            "opaque_steps": sorted({item.step for item in self.opaque}),
            "recoveries": [item._asdict() | {"path": _text(item.path)} for item in self.recoveries],
            "verified_steps": counts["verified"],
            "derived_steps": sum(self.derived),
            "partial_steps": counts["partial"],
            "divergent_steps": counts["divergent"],
            "unverifiable_steps": counts["unverifiable"],
            "submodules": self.submodules,
            "lfs_pointers": self.lfs_pointers,
        }


def _text(text: str) -> str:
    """Text that a table can hold: paths that are no UTF-8 hold lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


@lru_cache(maxsize=1_024)
def _said(text: str) -> str:
    """The same without secrets: names and texts of files stand in it."""
    return Redactor().text(_text(text))


def _hunk(text: str) -> str:
    """A hunk without secrets. A key that is cut off by its edges is left out with all that stands around it."""
    return "<masked: a part of a private key>" if "PRIVATE KEY-----" in text else _said(text)


def unverifiable(
    trajectory_id: str, format: str, repo: str | None, steps: int, category: Category, reason: str
) -> Replay:
    """The replay of a run of ``steps`` steps that could not be begun: ``no_repository``, ``no_base``, ``subagent``."""
    nothing = (None,) * (steps + 1)
    status: Status = "unverifiable"
    return Replay(
        trajectory_id=trajectory_id,
        format=format,
        repo=repo,
        base=None,
        status=status,
        category=category,
        reason=reason,
        commits=nothing,
        trees=nothing,
        statuses=(status,) * (steps + 1),
        reasons=(reason,) * (steps + 1),
        derived=(False,) * (steps + 1),
    )
