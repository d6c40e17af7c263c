"""Views that a model writes, through the real stages and the command line: rows, rounds, takeovers, a kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fault_server as server
import pytest
from fault_server import FaultServer, message, serving
from typer.testing import CliRunner

from handoff import cli
from handoff.errors import EndpointError, InputError
from handoff.project import Project, Settings
from handoff.stages import handoffs
from handoff.stages.adversary import briefing_at, scene_of
from handoff.stages.one_takeover import one_takeover
from handoff.stages.quality import quality_signals
from handoff.stages.takeovers import plan
from handoff.views import VIEWS
from handoff.views.written import read_writing
from tests.stages.test_explained import World, chat

CLAIM = "The pager may lose a page."
FORMS: dict[str, Any] = {
    "structured": {"done": [], "in_progress": [], "to_do": [], "key_decisions": [], "risks": []},
    "summary": {"sentences": []},
}
FORMS["structured"]["risks"] = FORMS["summary"]["sentences"] = [{"text": CLAIM, "steps": [1]}]


def write(handler: Any, body: dict[str, Any]) -> None:
    """A good note or summary, as the schema asks; anything else is told in prose."""
    form = body.get("response_format", {}).get("json_schema", {}).get("name")
    text = json.dumps(FORMS[form]) if form else "I changed pager.py.\n\x1b[31mAll tests pass."
    server.answer(message(text))(handler, body)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.read(chat(repo="acme/pager", base_commit=made.base, split="test"))
    quality_signals(made.project, "a")
    handoffs.injected_handoffs(made.project, "a")
    return made


def settings_for(world: World, url: str, text: str = "", **more: object) -> Project:
    endpoint: dict[str, object] = {"base_url": url, "model": "stub-1", "retries": 0, **more}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in endpoint.items())
    (world.project.root / "handoff.toml").write_text(f"{text}\n[successors.stub]\n{lines}")
    return Project(world.project.root)


def a_point(world: World, h: int = 2) -> dict[str, Any]:
    return next(p for p in world.project.lake.rows("injected_handoffs") if p["h"] == h)


def rows_of(project: Project) -> list[dict[str, Any]]:
    handoffs.view_renderings(project, "a")
    return project.lake.rows("view_renderings", shard="a")


# -- the table ----------------------------------------------------------------------------------


def test_a_writer_s_rows_stand_beside_those_of_the_rules(world: World) -> None:
    """At the points that successors are started from; made again, nobody is asked; without a writer, they are gone."""
    plain = rows_of(world.project)
    with serving(then=write) as at:
        project = settings_for(world, at.url, 'writer = "stub"\nviews = ["compact_pre", "diff"]\npoints_per_run = 1')
        rows = rows_of(project)
        asked = len(at.requests)
        by_rule = [row for row in rows if handoffs.is_by_rule(row)]
        assert [row for row in by_rule if row["view"] in VIEWS] == plain
        written = [row for row in rows if not handoffs.is_by_rule(row)]
        assert [row["view"] for row in written] == ["summary", "structured", "compact_pre"]
        assert len({row["point_id"] for row in written}) == 1 and asked == 3
        assert {row["author"] for row in written} == {"stub-1"}
        assert all(CLAIM[:-1] in row["written"] for row in written[:2]) and "\x1b" not in written[2]["written"]
        took = [read_writing(row) for row in written]
        assert took[2] and took[2].contradicted_claims == 1 and took[2].claims is None
        assert all(row["writing_tokens"] > 0 for row in written)
        assert all(each and each.prompt_tokens and each.attempts == 1 for each in took)
        assert len({row["view_id"] for row in rows}) == len(rows)
        digest = project.lake.digest("view_renderings", shard="a")
        project.lake.path("view_renderings", shard="a").unlink()
        rows_of(project)
        assert project.lake.digest("view_renderings", shard="a") == digest and len(at.requests) == asked
    assert rows_of(settings_for(world, "http://127.0.0.1:9/v1")) == plain


def test_a_context_that_overflows_costs_a_row_its_text_and_nothing_else(world: World) -> None:
    with serving(then=server.status(400, "maximum context length is 16 tokens")) as at:
        rows = rows_of(settings_for(world, at.url, 'writer = "stub"'))
    written = [row for row in rows if not handoffs.is_by_rule(row)]
    assert {row["view"] for row in written} == {"summary", "structured"}
    assert all(row["tokens"] is None and row["reason"].startswith("context: ") for row in written)
    assert not set(handoffs.view_ids(rows, by_rule=False)) and len(handoffs.view_ids(rows)) == len(rows) - len(written)
    with handoffs.Handoffs(world.project, "a") as opened, pytest.raises(InputError, match="choose another writer"):
        opened.text(a_point(world), "summary", written[0]["view_id"])


def test_an_endpoint_that_only_the_user_can_mend_stops_the_table_and_keeps_what_was_answered(world: World) -> None:
    lock = threading.Lock()
    answered: list[str] = []

    def refuse_later(handler: Any, body: dict[str, Any]) -> None:
        with lock:
            is_refused = len(answered) >= 2 and at.is_refusing
            if not is_refused:
                answered.append(json.dumps(body, sort_keys=True))
        (server.status(401, "no more") if is_refused else write)(handler, body)

    with serving(then=refuse_later) as at:
        at.is_refusing = True
        project = settings_for(world, at.url, 'writer = "stub"', concurrency=2)
        with pytest.raises(EndpointError, match="key_env"):
            rows_of(project)
        assert project.lake.rows("view_renderings", shard="a") == []
        at.is_refusing = False
        rows = rows_of(project)
    assert len(answered) == len(set(answered)) == sum(not handoffs.is_by_rule(row) for row in rows) > 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [('writer = "me"', "describe that endpoint under [successors.me]"), ("writer = 3", "writer")],
)
def test_a_writer_has_to_be_described(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "handoff.toml").write_text(text)
    with pytest.raises(InputError) as caught:
        Project(tmp_path)
    assert problem in str(caught.value) and "handoff.toml" in str(caught.value)
    assert Settings().writer == ""


# -- readers of the text --------------------------------------------------------------------------


def test_whoever_reads_a_run_s_view_by_its_id_gets_the_text_that_was_given(world: World) -> None:
    """Briefings, disturbances and curation read stored texts by ``view_id``, and rules' where there is none."""
    with serving(then=write) as at:
        rows = rows_of(settings_for(world, at.url, 'writer = "stub"'))
    written = next(row for row in rows if row["view"] == "structured" and not handoffs.is_by_rule(row))
    point = next(p for p in world.project.lake.rows("injected_handoffs") if p["point_id"] == written["point_id"])
    by_rule = handoffs.view_ids(rows)[point["point_id"], "structured"]
    with handoffs.Handoffs(world.project, "a") as opened:
        assert briefing_at(opened, point, "structured", None, written["view_id"])[0].view_text == written["written"]
        assert scene_of(opened, point, "structured", written["view_id"]).view_text == written["written"]
        assert CLAIM in written["written"]
        for view_id in ("", by_rule):
            assert CLAIM not in opened.text(point, "structured", view_id)
        assert opened.note_tokens(written["view_id"]) == written["writing_tokens"] > 0 == opened.note_tokens(by_rule)


def test_in_a_round_only_successors_on_endpoints_get_what_a_model_wrote() -> None:
    """Policies of the embedded world can read only the words of the rules."""
    point = {"point_id": "p", "trajectory_id": "t", "h": 2, "split": "test"}
    views = {("p", view): f"v_{view}" for view in VIEWS}
    starts = list(plan(1, [point], views, (), {"p": point}, 7, ("stub",), {("p", "summary"): "v_model"}))
    taken = {(s.arm == "stub", s.view): s.view_id for s in starts}
    assert taken[True, "summary"] == "v_model"
    assert taken[False, "summary"] == "v_summary" and taken[True, "structured"] == "v_structured"


# -- the command line -----------------------------------------------------------------------------


def run(world: World, *arguments: str) -> Any:
    return CliRunner().invoke(cli.app, [*arguments, "--data", str(world.project.root)], env={"COLUMNS": "120"})


def test_view_writes_one_shows_it_and_asks_once(world: World) -> None:
    point = a_point(world)["point_id"]
    with serving(then=write) as at:
        settings_for(world, at.url)
        first, again = (run(world, "view", point, "--view", "summary", "--writer", "stub") for _ in range(2))
        assert first.exit_code == 0, first.output
        assert first.output == again.output and len(at.requests) == 1
        shown = run(world, "view", point, "--view", "compact_suf", "--writer", "stub").output
        assert len(at.requests) == 2
        nobody = run(world, "view", point, "--view", "diff", "--writer", "stub")
        assert nobody.exit_code == 2 and "no model writes the diff view" in " ".join(nobody.output.split())
        assert "no writer 'me'" in run(world, "view", point, "--writer", "me").output
        assert len(at.requests) == 2
    said = " ".join(first.stdout.split())
    assert f"{CLAIM.rstrip('.')} (step 1)." in said
    assert "summary, stub-1" in said and "writing tokens" in said and "answers 1" in said
    assert "1 sentences contradict the recording" in " ".join(shown.split()) and "\x1b[31m" not in shown
    assert CLAIM not in run(world, "view", point, "--view", "summary").output


def test_a_text_that_could_not_be_had_is_an_error_with_a_remedy(world: World) -> None:
    with serving(then=server.answer(message("No."))) as at:
        settings_for(world, at.url)
        result = run(world, "view", a_point(world)["point_id"], "--writer", "stub")
    assert result.exit_code == 2
    assert "cannot be read" in result.output and "choose another writer" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("view", "writer", "wanted"),
    [
        ("summary", "stub", CLAIM.rstrip(".")),
        ("summary", "", "The previous agent stopped after step 2."),
        ("compact_suf", "", "I changed pager.py."),
        ("compact_pre", "", "The previous agent stopped after step 2."),
    ],
)
def test_a_takeover_is_given_the_view_of_its_writer(
    world: World, bubblewrap: None, view: str, writer: str, wanted: str
) -> None:
    """The notes' tokens are the run's; a compaction by the successor is written by the successor."""

    def answer(handler: Any, body: dict[str, Any]) -> None:
        act = server.answer(message("", ("submit", {}))) if "tools" in body else write
        act(handler, body)

    with serving(then=answer) as at:
        project = settings_for(world, at.url)
        row = one_takeover(project, a_point(world)["point_id"], view, "stub", 0, writer)
        asked = len(at.requests)
        assert one_takeover(project, a_point(world)["point_id"], view, "stub", 0, writer) == row
        assert len(at.requests) == asked
        opening = next(body["messages"][1]["content"] for body in at.requests if "tools" in body)
    assert wanted in opening
    by_rule = wanted.startswith("The previous")
    assert (row["note_tokens"] == 0) == by_rule
    assert len([body for body in at.requests if "tools" not in body]) == (0 if by_rule else 1)


# -- kill -9 ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_while_views_are_written_nothing_is_paid_twice(world: World) -> None:
    """The server kills the asking process after each answer: only those under way are asked for again."""
    running: list[subprocess.Popen[bytes]] = []
    answered: list[str] = []

    def deadly(place: int) -> Callable[[Any, dict[str, Any]], None]:
        def act(handler: Any, body: dict[str, Any]) -> None:
            write(handler, body)
            answered.append(json.dumps(body, sort_keys=True))
            if place % 2:  # the answer before this one was written down by now
                os.kill(running[-1].pid, signal.SIGKILL)

        return act

    program = (
        "import sys, pathlib; from handoff.project import Project; from handoff.stages import handoffs; "
        "handoffs.view_renderings(Project(pathlib.Path(sys.argv[1])), 'a')"
    )
    at = FaultServer([deadly(place) for place in range(40)])
    try:
        text = 'writer = "stub"\npoints_per_run = 2\nviews = ["compact_pre"]'
        project = settings_for(world, at.url, text, concurrency=1)
        for _ in range(20):
            running.append(subprocess.Popen([sys.executable, "-c", program, str(project.root)]))
            if running[-1].wait(timeout=120) == 0:
                break
        rows = project.lake.rows("view_renderings", shard="a")
        n_written = sum(not handoffs.is_by_rule(row) for row in rows)
        kills = len(running) - 1
        assert running[-1].returncode == 0 and kills >= 2
        assert len(set(answered)) == n_written >= 4
        assert len(answered) <= n_written + kills
    finally:
        at.close()
