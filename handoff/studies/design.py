"""What a study compares, as a user says it. Which runs that takes is in ``stages/``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Annotated, TypeAlias

import msgspec

from handoff.errors import InputError
from handoff.points import ALL as LABELS
from handoff.studies.timing import DEFAULT_TIMINGS, read_timing
from handoff.views import VIEWS, parse_view

PAPER_LABELS = ("first_meaningful_modification", "post_first_validation_result", "post_failed_repair_edit")
"""The three checkpoints of the published protocol (``docs/science.md §1``)."""
OWN_LABELS = ("error", "intermediate", "milestone")

INTERFACES = ("trace", "compact_pre", "compact_suf", "drop", "window:5", "diff", "diet", "summary", "structured")
"""What crosses at a switch: everything, a summary by either model, nothing, the last steps, the diff, the trace
without waste, and the two notes."""

_Positive = Annotated[int, msgspec.Meta(ge=1)]


class DebtStudy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="debt"):
    """Handoff debt: each view against the bare repository, by one or several successors."""

    successors: tuple[str, ...] = ("A", "E")
    """Trained arms of the newest round, references of the embedded world, or ``[successors.NAME]``."""
    views: tuple[str, ...] = VIEWS[1:]
    """Compared with ``repo``, which always runs."""
    labels: tuple[str, ...] = (*PAPER_LABELS, *OWN_LABELS)
    """One point of each recorded run for every label that occurs in it."""
    tasks: tuple[str, ...] = ()
    """Shards whose recordings are cut. None named: the test tasks of the embedded world."""
    most_tasks: _Positive | None = None
    """Only the first so many tasks by name. ``None``: all."""
    seeds: _Positive = 1
    """Runs from each point under each view."""

    def __post_init__(self) -> None:
        _check_names("successors", self.successors)
        for name in self.views:
            if parse_view(name).kind == "repo":
                raise InputError("repo is what the other views are compared with, and always runs; leave it out")
        _check_once("successors", self.successors)
        _check_once("views", (parse_view(name).name for name in self.views))
        _check_once("labels", self.labels)
        _check_once("tasks", self.tasks)
        for part in ("views", "labels"):
            if not getattr(self, part):
                raise InputError(f"a debt study needs {part}; name some, or leave them out for the usual ones")
        if unknown := sorted(set(self.labels) - set(LABELS)):
            raise InputError(f"no point label {unknown[0][:60]!r}; labels are {', '.join(LABELS)}")


class TaxStudy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="tax"):
    """Handoff tax: a pair of models, switched in both directions at several times through several interfaces."""

    low: str = "A"
    """The low-capability model."""
    high: str = "B"
    """The high-capability model."""
    directions: tuple[str, ...] = ("escalation", "downshift")
    timings: tuple[str, ...] = DEFAULT_TIMINGS
    interfaces: tuple[str, ...] = INTERFACES
    tasks: tuple[str, ...] = ()
    """Shards whose tasks are worked on. None named: the test tasks of the embedded world."""
    most_tasks: _Positive | None = None
    """Only the first so many tasks by name. ``None``: all."""
    seeds: _Positive = 1
    """Single sessions of each model on each task; every one is cut at every timing."""
    price_ratio: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    """How many times a token of the high-capability model costs that of the low one, where endpoints have no prices."""

    def __post_init__(self) -> None:
        _check_names("low and high", (self.low, self.high))
        if self.low == self.high:
            raise InputError(f"low and high are both {self.low!r}; a tax study needs two models")
        for name in self.timings:
            read_timing(name)
        if wrong := [name for name in self.directions if name not in ("escalation", "downshift")]:
            raise InputError(f"no direction {wrong[0][:40]!r}; directions are escalation and downshift")
        for name in self.interfaces:
            parse_view(name)
        for part in ("directions", "timings", "interfaces"):
            if not getattr(self, part):
                raise InputError(f"a tax study needs {part}; name some, or leave them out for the usual ones")
        for part in ("directions", "timings", "tasks"):
            _check_once(part, getattr(self, part))
        _check_once("interfaces", (parse_view(name).name for name in self.interfaces))
        if not 0 < self.price_ratio < math.inf:
            raise InputError(
                f"price_ratio is how many times one token costs the other: above 0, not {self.price_ratio}"
            )


Study: TypeAlias = DebtStudy | TaxStudy


def _check_names(what: str, names: tuple[str, ...]) -> None:
    if not names or any(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,39}", name) is None for name in names):
        raise InputError(f"{what}: name successors, such as A or the NAME of [successors.NAME]")


def _check_once(what: str, names: Iterable[str]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise InputError(f"{what}: {name[:60]} is named twice, and would be counted twice; name it once")
        seen.add(name)


def check_name(name: str) -> str:
    """The name, when a study can have it: it names a folder. ``InputError`` otherwise."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name) is None:
        raise InputError(f"{name[:100]!r} cannot name a study; use letters, digits, '.', '_' and '-'")
    return name


def study_name(study: Study) -> str:
    """The name of a study that was given none: what it compares. Two that differ only in size share it."""
    if isinstance(study, DebtStudy):
        chosen = () if study.successors == DebtStudy().successors else study.successors
        parts = ("debt", *chosen, *study.tasks)
    else:
        usual = TaxStudy()
        chosen = () if (study.low, study.high) == (usual.low, usual.high) else (study.low, study.high)
        parts = ("tax", *chosen, *study.tasks)
    return "-".join(parts).replace("+", "_")[:100]
