"""The adversary: handoffs made harder in the ways real life does, never unfair (``docs/science.md §10``).

::

    scene.py          what a disturbance sees and changes
    recipe.py         the protocol, and what is stored of a disturbance
    decay.py          information decay: parts of the view are lost
    inconsistency.py  state inconsistency: an edit is silently put back
    ambiguity.py      intent ambiguity: the statement is thinned, or a competing wish added
    oracle.py         the executed check that the task stays solvable and the tests decide
    tiers.py          the four tiers as data, and the points that fit them
    variants.py       ``DISTURBANCES``, and the rows of ``adversarial_variants``
"""

from __future__ import annotations

from handoff.adversary.oracle import OracleCheck, oracle_check
from handoff.adversary.recipe import Disturbance, Recipe
from handoff.adversary.scene import Scene, tree_changes
from handoff.adversary.tiers import TIERS, Tier, points_of, tier, worst_of
from handoff.adversary.variants import (
    DISTURBANCES,
    Variant,
    apply_recipes,
    disturb,
    make_variant,
    read_recipes,
    variant_row,
)

__all__ = [
    "DISTURBANCES",
    "TIERS",
    "Disturbance",
    "OracleCheck",
    "Recipe",
    "Scene",
    "Tier",
    "Variant",
    "apply_recipes",
    "disturb",
    "make_variant",
    "oracle_check",
    "points_of",
    "read_recipes",
    "tier",
    "tree_changes",
    "variant_row",
    "worst_of",
]
