"""The quality of a recorded run: signals of its steps, figures of the whole, why it failed (``docs/science.md §14``).

::

    recording.py     one run, read once: operations, commands, lines that were shown
    commands.py      the programs a call starts, wrappers taken off
    waste.py         redundant, useless, expired, evidence that never became an edit
    repeats.py       loops, failed calls, answers that were not heeded
    risk.py          risky commands, and what a prefix has come to risk
    peek.py          looking at history beyond the base commit; glances.py what a git command can show of it,
                     elsewhere.py the project on the web and in package indexes
    attribution.py   why a failed run failed

Everything is told by rule from the recording: no model, no repository, no clock. Signals are sealed: no view and no
successor sees them.
"""

from __future__ import annotations

import msgspec

from handoff.quality.attribution import Failure, attribute
from handoff.quality.peek import leak_of, peeks
from handoff.quality.recording import Recording
from handoff.quality.repeats import Use, failed_calls, failures, loops, responses
from handoff.quality.risk import risks
from handoff.quality.signal import LOOKS_AHEAD, NAMES, Name, Signal, storable
from handoff.quality.waste import expired, redundant, unused_evidence, useless
from handoff.trajectory import Trajectory

__all__ = ["LOOKS_AHEAD", "NAMES", "Failure", "Name", "Quality", "Signal", "Use", "assess", "find_leak"]


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules say of one run."""

    n_steps: int
    signals: tuple[Signal, ...]
    """By step, then in the order of ``NAMES``."""
    use: Use
    leak: Signal | None
    """The step by which the solution may have come from the project's later history; ``None``: none is known."""
    failures: tuple[Failure, ...] | None
    """``None``: the run is not known to have failed."""

    def run_row(self, trajectory_id: str) -> dict[str, object]:
        """Its row of ``run_quality``."""
        use = self.use
        steps: dict[str, int] = {name: len({s.step for s in self.signals if s.name == name}) for name in NAMES}
        return {
            "trajectory_id": trajectory_id,
            "n_steps": self.n_steps,
            **steps,
            "understanding": use.understood / use.responses if use.responses else None,
            "n_responses": use.responses,
            "planning": use.planned / use.plans if use.plans else None,
            "n_plans": use.plans,
            "risks": sorted({s.rule for s in self.signals if s.name == "risky"}),
            "leak_step": None if self.leak is None else self.leak.step,
            "leak": None if self.leak is None else f"{self.leak.rule}: {storable(self.leak.reason)}",
            "failures": None if self.failures is None else [failure.row() for failure in self.failures],
        }


def find_leak(trajectory: Trajectory) -> Signal | None:
    """The step by which a run came to know the project's later history, or tried to; ``None``: none is known."""
    return leak_of(trajectory, peeks(Recording(trajectory)))


def assess(trajectory: Trajectory) -> Quality:
    """Every signal of a run. Linear in its length; never raises."""
    recording = Recording(trajectory)
    repeated = redundant(recording)
    failed = failed_calls(recording, failures(recording))
    ignored, use = responses(recording, (*repeated, *failed))
    looked = peeks(recording)
    found = [
        *repeated,
        *useless(recording),
        *expired(recording),
        *unused_evidence(recording),
        *loops(recording),
        *failed,
        *ignored,
        *risks(recording),
        *looked,
    ]
    order = {name: place for place, name in enumerate(NAMES)}
    found.sort(key=lambda signal: (signal.step, order[signal.name]))
    return Quality(
        n_steps=len(trajectory.steps),
        signals=tuple(found),
        use=use,
        leak=leak_of(trajectory, looked),
        failures=attribute(recording, found),
    )
