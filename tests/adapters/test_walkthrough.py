"""Follows CONTRIBUTING's walk-through word by word: its adapter is written, registered, and held to the contract."""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from damage import damaged, kept_as_run

from handoff import adapters
from handoff.adapters import Adapter, convert, recognise
from handoff.cli import main
from handoff.framing import Record, SourceFile
from handoff.trajectory import Usage

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
SECTION = TEXT[TEXT.index("## Adding an input format") : TEXT.index("## Adding an export")]


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)
    return str(found)


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Adapter]:
    """The adapter as written there, one line in ``ADAPTERS``."""
    (tmp_path / "acme_as_documented.py").write_text(block("python"), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import acme_as_documented  # type: ignore[import-not-found]

    found: Adapter = acme_as_documented.Acme()
    monkeypatch.setattr(adapters, "ADAPTERS", (found, *adapters.ADAPTERS))
    yield found
    del sys.modules["acme_as_documented"]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    path = tmp_path / "any.name"
    path.write_text(block("json"), "utf-8")
    (item,) = SourceFile(path)
    assert isinstance(item, Record)
    return item


def test_the_walkthrough_is_short() -> None:
    assert len(SECTION.splitlines()) < 150


def test_the_documented_record_becomes_the_documented_run(adapter: Adapter, record: Record) -> None:
    assert recognise(record) is adapter
    (run,) = convert(record)
    first, second = run.steps
    assert (run.task, run.repo, run.outcome.ended, run.outcome.resolved) == (
        "Fix the pager.",
        "acme/pager",
        "submitted",
        None,
    )
    assert (first.observations[0].text, first.observations[0].exit_code) == ("x = 1", 0)
    assert first.usage == Usage(prompt=812, completion=40)
    assert second.observations[0].missing == "none"
    assert [path for path, _ in record.losses()] == ["$.colour"]


def test_only_the_new_adapter_claims_it_and_it_claims_nothing_else(adapter: Adapter, record: Record) -> None:
    assert [a for a in adapters.ADAPTERS if a.recognises(record)] == [adapter]
    for path in sorted((ROOT / "tests" / "fixtures").rglob("*.json*")):
        for item in SourceFile(path):
            assert not isinstance(item, Record) or not adapter.recognises(item)


def test_damaged_copies_give_a_run_or_a_reason(adapter: Adapter, record: Record) -> None:
    rng = random.Random(1)
    assert 0 < sum(kept_as_run(damaged(record, rng)) for _ in range(300)) < 300


def test_it_can_be_inspected(
    adapter: Adapter, record: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(json.loads(block("json"))), "utf-8")
    sys_argv, sys.argv = sys.argv, ["handoff", "inspect", str(path)]
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv = sys_argv
    assert not ended.value.code
    shown = capsys.readouterr().out
    assert "acme" in shown
    assert "read pager.py" in shown
