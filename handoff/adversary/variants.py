"""Variants: disturbed handoff points, kept as recipes (rows of ``adversarial_variants``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from handoff.adversary.kinds import disturbance
from handoff.adversary.oracle import OracleCheck
from handoff.adversary.recipe import INJECTION, Recipe
from handoff.adversary.scene import Scene
from handoff.adversary.tiers import Tier
from handoff.errors import InputError
from handoff.identity import canonical_json, identify


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One disturbed point, and the scene before and after."""

    variant_id: str
    point_id: str
    tier: str | None
    """``None``: made by itself."""
    seed: int
    recipes: tuple[Recipe, ...]
    before: Scene
    after: Scene
    worst_known: str | None = None
    """``searched``, ``measured`` or ``proxy``: how its point is known to be the worst; ``None``: it was drawn."""


def disturb(
    scene: Scene, kinds: Sequence[tuple[str, float]], seed: int, at_least: int | None = None
) -> tuple[tuple[Recipe, ...], Scene] | None:
    """Plan and apply several (kind, severity) one after the other, each on what the last one left.

    One that finds nothing to disturb is passed over; ``None`` when fewer than ``at_least`` fit, or, where no number is
    given, not all of them: half a tier is no tier.
    """
    recipes: list[Recipe] = []
    for kind, severity in kinds:
        recipe = disturbance(kind).plan(scene, severity, seed)
        if recipe is not None:
            recipes.append(recipe)
            scene = disturbance(kind).apply(scene, recipe)
    return None if len(recipes) < (len(kinds) if at_least is None else at_least) else (tuple(recipes), scene)


def make_variant(point_id: str, tier: Tier, scene: Scene, seed: int) -> Variant | None:
    """The variant of a point for a tier; ``None`` when the tier's disturbances do not fit this scene.

    ``scene`` is the point under the tier's own view.
    """
    if scene.view != tier.view:
        raise InputError(f"tier {tier.name} is made under the {tier.view} view, not under {scene.view}")
    return vary(point_id, scene, tier.disturbances, seed, tier.name, tier.at_least)


def vary(
    point_id: str,
    scene: Scene,
    kinds: Sequence[tuple[str, float]],
    seed: int,
    tier: str | None = None,
    at_least: int | None = None,
) -> Variant | None:
    """A point disturbed by several (kind, severity) in order; ``None`` when too few of them fit this scene
    (``disturb``)."""
    disturbed = disturb(scene, kinds, seed, at_least)
    if disturbed is None:
        return None
    recipes, after = disturbed
    return Variant(
        variant_id=identify("d", point_id, tier or "", scene.view, canonical_json(recipes)),
        point_id=point_id,
        tier=tier,
        seed=seed,
        recipes=recipes,
        before=scene,
        after=after,
    )


def apply_recipes(scene: Scene, recipes: Sequence[Recipe]) -> Scene:
    """The scene that the recipes were stored for, disturbed again, byte for byte."""
    for recipe in recipes:
        scene = disturbance(recipe.kind).apply(scene, recipe)
    return scene


def read_recipes(parameters: str) -> tuple[Recipe, ...]:
    """The recipes of an ``adversarial_variants.parameters`` cell."""
    return msgspec.json.decode(parameters, type=tuple[Recipe, ...])


def is_injected(recipes: Iterable[Recipe]) -> bool:
    """Whether a disturbance is of the safety class, which no learner is shown."""
    return any(disturbance(recipe.kind).family == INJECTION for recipe in recipes)


def keeps_behaviour(recipes: Iterable[Recipe]) -> bool:
    """Whether the state's tests must say the same after these as before."""
    return all(disturbance(recipe.kind).keeps_behaviour for recipe in recipes)


def variant_row(variant: Variant, tree: str | None, check: OracleCheck) -> dict[str, Any]:
    """One row of ``adversarial_variants``. ``tree``: the disturbed state as written to the store."""
    kinds = [recipe.kind for recipe in variant.recipes]
    return {
        "variant_id": variant.variant_id,
        "point_id": variant.point_id,
        "kinds": kinds,
        "families": [disturbance(kind).family for kind in kinds],
        "parameters": canonical_json(variant.recipes).decode(),
        "seed": variant.seed,
        "severity": max((recipe.severity for recipe in variant.recipes), default=0.0),
        "tier": variant.tier,
        "worst_known": variant.worst_known,
        "view": variant.before.view,
        "tree": tree,
        "oracle": check.outcome,
        "oracle_detail": check.detail,
    }
