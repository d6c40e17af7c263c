"""Noisy surroundings: an environment whose answers are disturbed while a takeover runs (COVERT, arXiv 2604.09813).

Of every kind of noise the right answer can still be had: lines that do not belong there stand before or after it, it
comes as a JSON object that holds it whole, or an error says that nothing was done, and the next call is not refused.
What happens is decided by the seed and the number of the call alone, so a run that was interrupted meets the same noise
when its actions are carried out again. Submitting is never disturbed.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from handoff.adversary.kinds import distractor_tools, noisy_output
from handoff.adversary.recipe import Recipe
from handoff.adversary.scene import Noise
from handoff.errors import InputError
from handoff.identity import canonical_json
from handoff.sandbox import Limits, Mount, Sandbox
from handoff.successors.changing import SUBMITTING
from handoff.takeover import Environment, Verdict
from handoff.trajectory import Action, Observation

TEMPORARY = 75
"""Exit code of an error that passes (``EX_TEMPFAIL``)."""
_RARE = 0.25
"""Of the disturbed answers: in another form; and as many refused once."""
_LINES = (
    "warning: clock skew of 2 s detected on the build volume",
    "[telemetry] event queue is full, 3 events were dropped",
    "DeprecationWarning: this entry point will be renamed in a later release",
    "INFO: cache directory is shared with other jobs",
    "debug: locale is not set, using C.UTF-8",
    "note: quota report follows in the next session",
)
_MOST_LINES = 3


def noise_of(recipes: Iterable[Recipe]) -> tuple[Noise, ...]:
    """What the recipes of a variant make of the surroundings, in order."""
    sources = {"noisy_output": noisy_output.noise_of, "distractor_tools": distractor_tools.noise_of}
    return tuple(sources[recipe.kind](recipe) for recipe in recipes if recipe.kind in sources)


def with_noise(environment: Environment, noise: tuple[Noise, ...]) -> Environment:
    """The environment in these surroundings; itself where there is no noise."""
    return NoisyEnvironment(environment, noise) if noise else environment


class NoisyEnvironment:
    """An environment with noise. Implements ``takeover.Environment``."""

    def __init__(self, environment: Environment, noise: tuple[Noise, ...]) -> None:
        self._environment = environment
        self._noise = noise
        self._tools = frozenset(tool for one in noise for tool in one.tools)
        self._acts = 0
        self._was_refused = False

    def act(self, action: Action) -> Observation:
        """Carry out one action, or refuse it once."""
        if action.tool in SUBMITTING:
            return self._environment.act(action)
        number = self._acts
        self._acts += 1
        if action.tool in self._tools:
            return Observation(call_id=action.call_id, text="Nothing was found.", exit_code=0, error=False)
        draws = [random.Random(f"noise:{one.seed}:{number}") for one in self._noise if one.severity]
        severities = [one.severity for one in self._noise if one.severity]
        touched = [rng for rng, severity in zip(draws, severities, strict=True) if rng.random() < severity]
        kinds = [(rng, rng.random()) for rng in touched]
        if any(kind < _RARE for _, kind in kinds) and not self._was_refused:
            self._was_refused = True
            text = "The service is temporarily unavailable; nothing was done. Try again."
            return Observation(call_id=action.call_id, text=text, exit_code=TEMPORARY, error=True)
        self._was_refused = False
        observation = self._environment.act(action)
        for rng, kind in kinds:
            observation = _rewrapped(observation) if kind > 1 - _RARE else _with_lines(observation, rng)
        return observation

    def annex(self) -> Path:
        """As the environment itself."""
        return self._environment.annex()

    def jail(
        self, *, read_only: Sequence[Path], mounts: Sequence[Mount], env: Mapping[str, str], limits: Limits
    ) -> Sandbox:
        """``InputError``: nothing stands between an agent that acts by itself and what its commands print."""
        raise InputError("noise cannot be put around an agent that is a command; run it on other points")

    @property
    def is_over(self) -> bool:
        """As the environment itself."""
        return self._environment.is_over

    def tree(self) -> str:
        """As the environment itself."""
        return self._environment.tree()

    def verdict(self) -> Verdict:
        """As the environment itself: nothing disturbs the judge."""
        return self._environment.verdict()

    def close(self) -> None:
        """End what runs."""
        self._environment.close()


def _rewrapped(observation: Observation) -> Observation:
    text = canonical_json({"status": observation.exit_code, "output": observation.text}).decode()
    return msgspec.structs.replace(observation, text=text)


def _with_lines(observation: Observation, rng: random.Random) -> Observation:
    lines = "".join(f"{line}\n" for line in rng.sample(_LINES, rng.randint(1, _MOST_LINES)))
    joint = "" if not observation.text or observation.text.endswith("\n") else "\n"
    text = lines + observation.text if rng.random() < 0.5 else f"{observation.text}{joint}{lines}"
    return msgspec.structs.replace(observation, text=text)
