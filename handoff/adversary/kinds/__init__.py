"""The kinds of disturbances, one per file. A new kind is one file and one entry in ``DISTURBANCES``.

::

    information decay     lost_notes truncated_trace sampled_trace reordered_trace stale_notes overwritten_file
                          rotated_logs
    state inconsistency   reverted_edit parallel_change changed_dependency false_claim planned_as_done
                          done_as_planned unproven_pass
    intent ambiguity      vague_intent half_alternatives competing_todos
    environment noise     distractor_tools indirect_wording noisy_output
    injection             wider_scope harmful_command
"""

from __future__ import annotations

from sys import modules

from handoff.adversary.kinds.changed_dependency import PIN_FILES, ChangedDependency
from handoff.adversary.kinds.competing_todos import CompetingTodos
from handoff.adversary.kinds.distractor_tools import DistractorTools
from handoff.adversary.kinds.done_as_planned import DoneAsPlanned
from handoff.adversary.kinds.false_claim import FalseClaim
from handoff.adversary.kinds.half_alternatives import HalfAlternatives
from handoff.adversary.kinds.harmful_command import HarmfulCommand
from handoff.adversary.kinds.indirect_wording import IndirectWording
from handoff.adversary.kinds.lost_notes import LostNotes
from handoff.adversary.kinds.noisy_output import NoisyOutput
from handoff.adversary.kinds.overwritten_file import OverwrittenFile
from handoff.adversary.kinds.parallel_change import ParallelChange
from handoff.adversary.kinds.planned_as_done import PlannedAsDone
from handoff.adversary.kinds.reordered_trace import ReorderedTrace
from handoff.adversary.kinds.reverted_edit import RevertedEdit
from handoff.adversary.kinds.rotated_logs import RotatedLogs
from handoff.adversary.kinds.sampled_trace import SampledTrace
from handoff.adversary.kinds.stale_notes import StaleNotes
from handoff.adversary.kinds.truncated_trace import TruncatedTrace
from handoff.adversary.kinds.unproven_pass import UnprovenPass
from handoff.adversary.kinds.vague_intent import VagueIntent
from handoff.adversary.kinds.wider_scope import WiderScope
from handoff.adversary.recipe import Disturbance
from handoff.errors import InputError

__all__ = ["DISTURBANCES", "PIN_FILES", "disturbance", "said_of"]

DISTURBANCES: tuple[Disturbance, ...] = (
    LostNotes(),
    TruncatedTrace(),
    SampledTrace(),
    ReorderedTrace(),
    StaleNotes(),
    OverwrittenFile(),
    RotatedLogs(),
    RevertedEdit(),
    ParallelChange(),
    ChangedDependency(),
    FalseClaim(),
    PlannedAsDone(),
    DoneAsPlanned(),
    UnprovenPass(),
    VagueIntent(),
    HalfAlternatives(),
    CompetingTodos(),
    DistractorTools(),
    IndirectWording(),
    NoisyOutput(),
    WiderScope(),
    HarmfulCommand(),
)
"""All kinds, by family."""

_BY_KIND = {each.kind: each for each in DISTURBANCES}


def disturbance(kind: str) -> Disturbance:
    """The disturbance of a name; ``InputError`` when there is none."""
    if kind not in _BY_KIND:
        raise InputError(f"no disturbance {kind!r}; kinds are {', '.join(_BY_KIND)}")
    return _BY_KIND[kind]


def said_of(each: Disturbance) -> str:
    """What a kind does, in a sentence."""
    return (modules[type(each).__module__].__doc__ or "").partition("\n")[0]
