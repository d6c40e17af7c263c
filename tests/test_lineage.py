"""Lineage: any sample back to its bytes, any source forward to its samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from handoff.errors import InputError
from handoff.lake import SCHEMAS, Lake
from handoff.lineage import ancestry, descendants, lines_of


def row(table: str, **values: object) -> dict[str, object]:
    return {name: values.get(name) for name in SCHEMAS[table].names}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two files, three trajectories, one sample of each of the first two."""
    lake = Lake(tmp_path / "it's a lake")
    made: dict[str, list[dict[str, object]]] = {table: [] for table in SCHEMAS}
    for n, file in ((1, "runs/a.jsonl"), (2, "runs/a.jsonl"), (3, "runs/b.jsonl")):
        t = f"t_{n}"
        made["raw_trajectories"].append(
            row("raw_trajectories", trajectory_id=t, file=file, record=n, source_sha256=f"sha{n}")
        )
        made["steps"] += [row("steps", trajectory_id=t, step=s) for s in (1, 2, 3)]
        made["repository_states"] += [
            row("repository_states", trajectory_id=t, step=s, tree=f"tree{s}", status="verified") for s in (0, 1, 2, 3)
        ]
        made["injected_handoffs"].append(
            row("injected_handoffs", trajectory_id=t, point_id=f"p_{n}", h=2, labels=["error"])
        )
        made["view_renderings"].append(row("view_renderings", view_id=f"v_{n}", point_id=f"p_{n}", view="trace"))
        made["takeover_runs"].append(row("takeover_runs", takeover_id=f"k_{n}", point_id=f"p_{n}", seed=7, solved=True))
        made["diagnostics"] += [
            row("diagnostics", takeover_id=f"k_{n}", metric="e_cr", value=0.5, numerator=2.0, denominator=4.0),
            row("diagnostics", takeover_id=f"k_{n}", metric="p_si", reason="nothing was done"),
        ]
    for n in (1, 2):
        made["curated_training_set"].append(
            row(
                "curated_training_set",
                sample_id=f"s_{n}0",
                kind="sft",
                trajectory_id=f"t_{n}",
                point_id=f"p_{n}",
                view_id=f"v_{n}",
                takeover_id=f"k_{n}",
                gates="{}",
                chosen_because="best",
            )
        )
    made["sources"] = [row("sources", path=f"runs/{x}.jsonl", sha256=f"file_{x}") for x in "ab"]
    made["exports"] = [row("exports", format="trl", path="r000/trl/sft-train-00000.jsonl", sample_ids=["s_10"])]
    for table in ("sources", "raw_trajectories", "steps", "repository_states", "injected_handoffs", "view_renderings"):
        lake.write(table, made[table], inputs="i", shard="one")
    for table in ("takeover_runs", "diagnostics"):
        lake.write(table, made[table], inputs="i", round="r000", shard="one")
    for table in ("curated_training_set", "exports"):
        lake.write(table, made[table], inputs="i", round="r000")
    return lake


def test_a_sample_goes_back_to_file_record_and_bytes(lake: Lake) -> None:
    """Every link of the chain, in order, with scores as fractions."""
    chain = ancestry(lake, "s_1")  # the beginning of an id is enough
    assert chain.sample_id == "s_10"
    assert [link.table for link in chain.links] == [
        "curated_training_set",
        "takeover_runs",
        "diagnostics",
        "view_renderings",
        "injected_handoffs",
        "repository_states",
        "raw_trajectories",
        "sources",
    ]
    raw = chain.link("raw_trajectories")
    assert raw is not None
    assert (raw.facts["file"], raw.facts["record"], raw.facts["source_sha256"]) == ("runs/a.jsonl", 1, "sha1")
    scores = chain.link("diagnostics")
    assert scores is not None
    assert scores.facts == {"e_cr": "0.5 = 2 / 4", "p_si": "no value: nothing was done"}
    state = chain.link("repository_states")
    assert state is not None
    assert state.facts["tree"] == "tree2"
    assert chain.exports == ("trl: r000/trl/sft-train-00000.jsonl",)
    assert all(isinstance(label, str) and isinstance(text, str) for label, text in lines_of(chain))


def test_an_unknown_or_ambiguous_sample_is_said_plainly(lake: Lake) -> None:
    """Nothing is guessed."""
    with pytest.raises(InputError, match="in no curated set"):
        ancestry(lake, "s_9")
    with pytest.raises(InputError, match="fits 2 samples"):
        ancestry(lake, "s_")
    with pytest.raises(InputError, match="in no curated set"):
        ancestry(Lake(lake.root / "empty"), "s_1")
    with pytest.raises(InputError, match="in no curated set"):
        ancestry(lake, "' OR 1=1 --")


def test_a_source_goes_forward_to_all_that_derives_from_it(lake: Lake) -> None:
    """By file, by the end of its path, or by trajectory."""
    found = descendants(lake, "runs/a.jsonl")
    assert found.counts == {
        "raw_trajectories": 2,
        "steps": 6,
        "repository_states": 8,
        "injected_handoffs": 2,
        "view_renderings": 2,
        "adversarial_variants": 0,
        "takeover_runs": 2,
        "salvaged": 0,
        "diagnostics": 4,
        "curated_training_set": 2,
        "recorded_samples": 0,
        "exports": 1,
    }
    assert found.sample_ids == ("s_10", "s_20")
    assert descendants(lake, "b.jsonl").counts["curated_training_set"] == 0
    assert descendants(lake, "t_2").sample_ids == ("s_20",)
    assert ("sample", "s_20") in lines_of(descendants(lake, "t_2"))
    with pytest.raises(InputError, match="no trajectory"):
        descendants(lake, "c.jsonl")
