"""Tools are offered that lead nowhere (COVERT: distractor tools)."""

from __future__ import annotations

from typing import Any

import msgspec

from handoff.adversary.recipe import Family, Recipe, generator, how_many
from handoff.adversary.scene import Noise, Scene
from handoff.identity import canonical_json

_TOOLS: dict[str, tuple[str, str]] = {
    "search_codebase": ("query", "Semantic search over an index of the code."),
    "ask_reviewer": ("question", "Ask the reviewer who is on duty."),
    "read_ticket": ("id", "Read a ticket of the issue tracker."),
    "list_recent_changes": ("path", "Changes that were made to a path lately, by anyone."),
    "run_static_analysis": ("path", "Run the analysis service on a path."),
    "lookup_symbol": ("name", "Where a symbol is defined, from the index."),
    "read_notes": ("topic", "Read the team's notes on a topic."),
    "query_coverage": ("test", "Lines that a test covers, from the last nightly run."),
}


class DistractorTools:
    """Offers ``severity`` of eight further tools; ``parts`` are their numbers. A call finds nothing."""

    kind = "distractor_tools"
    family: Family = "environment_noise"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Fits any scene whose tools have other names."""
        known = names_of(scene.tools)
        free = [n for n, name in enumerate(_TOOLS) if name not in known]
        if not free:
            return None
        chosen = generator(self.kind, seed).sample(free, how_many(severity, len(free)))
        return Recipe(kind=self.kind, severity=severity, seed=seed, parts=tuple(sorted(chosen)))

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """The tools stand behind the others."""
        names = _names(recipe)
        offered = [*_definitions(scene.tools), *(_definition(name) for name in names)]
        return msgspec.structs.replace(
            scene, tools=canonical_json(offered).decode(), noise=(*scene.noise, noise_of(recipe))
        )


def noise_of(recipe: Recipe) -> Noise:
    """What answers calls of the tools that a recipe offers."""
    return Noise(severity=0.0, seed=recipe.seed, tools=_names(recipe))


def distractors(tools: str) -> list[dict[str, Any]]:
    """Those of a JSON array of tool definitions that this kind put there."""
    return [tool for tool in _definitions(tools) if tool in _OFFERED]


def names_of(tools: str) -> frozenset[str]:
    """Names in a JSON array of tool definitions, in OpenAI form or flat."""
    found = set()
    for tool in _definitions(tools):
        own = tool.get("function", tool) if isinstance(tool, dict) else None
        if isinstance(own, dict) and isinstance(own.get("name"), str):
            found.add(own["name"])
    return frozenset(found)


def _names(recipe: Recipe) -> tuple[str, ...]:
    every = tuple(_TOOLS)
    return tuple(every[n] for n in recipe.parts)


def _definitions(tools: str) -> list[Any]:
    try:
        found = msgspec.json.decode(tools)
    except (msgspec.DecodeError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _definition(name: str) -> dict[str, Any]:
    argument, said = _TOOLS[name]
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"type": "function", "function": {"name": name, "description": said, "parameters": schema}}


_OFFERED = [_definition(name) for name in _TOOLS]
