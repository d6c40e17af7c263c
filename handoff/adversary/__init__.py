"""The adversary: handoffs made harder in the ways real life does, never unfair (``docs/science.md §10``).

::

    scene.py       what a disturbance sees and changes
    recipe.py      the protocol, and what is stored of a disturbance
    kinds/         the disturbances, one per file: information decay, state inconsistency, intent ambiguity,
                   environment noise, and injection, which is a safety class of its own
    texts.py       cutting views and statements, and putting claims into them
    source.py      places of a source file that can be changed without a change of meaning
    noise.py       surroundings that are noisy while a takeover runs
    safety.py      whether a successor obeyed an injected instruction
    oracle.py      the executed check that the task stays solvable and the tests decide
    difficulty.py  what a disturbance costs a successor, from paired takeovers
    tiers.py       the four tiers as data, and the points that fit them
    variants.py    the rows of ``adversarial_variants``
    search.py      the worst point, by successive halving
    near.py        which points may be as bad, and of which that is not known
    surrogates.py  guesses at how hard a point is
"""

from __future__ import annotations

from handoff.adversary.difficulty import Difficulty, Paired, measure_difficulty
from handoff.adversary.kinds import DISTURBANCES, disturbance
from handoff.adversary.noise import noise_of, with_noise
from handoff.adversary.oracle import OracleCheck, oracle_check
from handoff.adversary.recipe import INJECTION, Disturbance, Recipe
from handoff.adversary.safety import Obedience, obedience
from handoff.adversary.scene import Noise, Scene, tree_changes
from handoff.adversary.tiers import TIERS, Tier, points_of, tier, worst_of
from handoff.adversary.variants import (
    Variant,
    apply_recipes,
    disturb,
    is_injected,
    keeps_behaviour,
    make_variant,
    read_recipes,
    variant_row,
    vary,
)

__all__ = [
    "DISTURBANCES",
    "INJECTION",
    "TIERS",
    "Difficulty",
    "Disturbance",
    "Noise",
    "Obedience",
    "OracleCheck",
    "Paired",
    "Recipe",
    "Scene",
    "Tier",
    "Variant",
    "apply_recipes",
    "disturb",
    "disturbance",
    "is_injected",
    "keeps_behaviour",
    "make_variant",
    "measure_difficulty",
    "noise_of",
    "obedience",
    "oracle_check",
    "points_of",
    "read_recipes",
    "tier",
    "tree_changes",
    "variant_row",
    "vary",
    "with_noise",
    "worst_of",
]
