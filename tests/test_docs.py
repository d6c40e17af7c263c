"""The documents say what is there: commands, settings, tables, links."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import mini_agent
import msgspec
import pytest

from handoff import cli, corpus
from handoff.adapters import ADAPTERS
from handoff.endpoints import Endpoint
from handoff.kata.arms import MIXES
from handoff.lake import SCHEMAS, Lake
from handoff.project import KataSettings, Settings, parse_settings
from handoff.stages import CODE_VERSIONS
from handoff.successors.settings import Command

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/design.md",
    "docs/science.md",
    "docs/formats.md",
    "docs/endpoints.md",
    "docs/agents.md",
    "docs/tasks.md",
    "docs/security.md",
]


def read(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def test_successors_of_the_docs_can_run_under_their_budget() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", read("docs/endpoints.md"), re.DOTALL)
    settings = parse_settings(example)
    assert settings.dollar_budget is not None
    assert [n for n, found in settings.successors.items() if isinstance(found, Endpoint) and found.prices is None] == []


def test_the_settings_of_the_agents_page_can_be_read() -> None:
    """And they are those that the tests run."""
    (example,) = re.findall(r"```toml\n(.*?)```", read("docs/agents.md"), re.DOTALL)
    agent = parse_settings(example).successors["mini"]
    assert isinstance(agent, Command)
    assert (agent.command.strip(), agent.env) == (mini_agent.COMMAND.strip(), mini_agent.ENV)


def test_the_settings_of_the_tasks_page_can_be_read() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", read("docs/tasks.md"), re.DOTALL)
    assert msgspec.toml.decode(example, type=Settings).tests["owner/name"].timeout_s == 900


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", read(page)):
        assert target.startswith("https://") or (ROOT / page).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_exists(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z][a-z-]+)\b", read(page))) - {"sure"} <= targets


def test_every_command_of_the_readme_exists() -> None:
    known = {command.name or command.callback.__name__ for command in cli.app.registered_commands if command.callback}
    known |= {str(group.typer_instance.info.name) for group in cli.app.registered_groups if group.typer_instance}
    assert set(re.findall(r"^    handoff ([\w-]+)", read("README.md"), re.MULTILINE)) <= known


def test_every_setting_of_the_readme_exists() -> None:
    section = read("README.md").split("## Settings")[1].split("##")[0]
    names = set(re.findall(r"`\[?([a-z_]+)\]?`", section))
    assert names == {f.name for f in msgspec.structs.fields(Settings)} | {
        f.name for f in msgspec.structs.fields(KataSettings)
    }


def test_the_design_page_lists_every_table() -> None:
    assert set(re.findall(r"`(\w+)`", read("docs/design.md").split("## Tables")[1].split("## Rounds")[0])) >= set(
        SCHEMAS
    )
    assert set(CODE_VERSIONS) <= set(SCHEMAS)


def test_the_formats_page_has_a_row_for_every_format_and_every_framing() -> None:
    formats, files = read("docs/formats.md").split("## Files")
    rows = re.findall(r"^\| `(\w+)`", formats, re.MULTILINE)
    assert sorted(rows) == sorted(adapter.format for adapter in ADAPTERS)
    framings = set(re.findall(r'framing = "([\w ]+)"', read("handoff/framing/source.py"))) - {"unknown"}
    assert set(re.findall(r"^\| `([\w ]+)`", files, re.MULTILINE)) == framings


def test_the_queries_of_the_formats_page_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.json").write_text('{"neither": 1}', "utf-8")
    lake = Lake(tmp_path / "data" / "lake")
    corpus.ingest(lake, "s", [ROOT / "tests" / "fixtures" / "chat", tmp_path / "bad.json"], inputs="test")
    monkeypatch.chdir(tmp_path)
    lost, set_aside = (
        duckdb.sql(query) for query in re.findall(r"```sql\n(.*?)```", read("docs/formats.md"), re.DOTALL)
    )
    assert lost.columns == ["field", "times"]
    assert ("No known format.",) in set_aside.project("problem").fetchall()


def test_every_section_that_code_cites_exists() -> None:
    sections = set(re.findall(r"^## (§\d+)", read("docs/science.md"), re.MULTILINE))
    cited = {
        section
        for path in sorted((ROOT / "handoff").rglob("*.py"))
        for group in re.findall(r"docs/science\.md (§[\d§, –]+)", path.read_text("utf-8"))
        for section in re.findall(r"§\d+", group)
    }
    assert cited and cited <= sections


def test_the_mixes_are_as_many_as_the_science_page_says() -> None:
    assert f"best of {['zero', 'one', 'two', 'three', 'four'][len(MIXES)]} on validation points" in read(
        "docs/science.md"
    ).replace("\n", " ")


def test_the_lock_names_no_host() -> None:
    lock = read("requirements.lock")
    assert "://" not in lock and "--index" not in lock
    assert lock.count("--hash=sha256:") > 500
