"""Both studies on a small embedded world: really run, planned exactly, traced back to rows, run once."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import fault_server as server
import pytest
from fault_server import message, serving
from typer.testing import CliRunner

from handoff import cli
from handoff.errors import InputError
from handoff.kata.lab import KataLab
from handoff.kata.record import record
from handoff.kata.world import generate
from handoff.project import Project
from handoff.stages import coevolution, corpus, handoffs, quality
from handoff.stages.debt_study import handoff_debt, plan_debt
from handoff.stages.debt_study import prepare as prepare_debt
from handoff.stages.study_runs import page_of
from handoff.stages.tax_sources import single_jobs, spent_until, tasks_of, trajectory_of, trees_of
from handoff.stages.tax_study import Source, handoff_tax, plan_tax
from handoff.studies.design import DebtStudy, TaxStudy
from handoff.studies.planning import SINGLE
from handoff.takeover import read_transcript

DEBT = DebtStudy(successors=("expert", "A"), views=("trace",), labels=("error", "milestone"))
TAX = TaxStudy(
    low="A",
    high="expert",
    timings=("p50", "stuck:3"),
    interfaces=("drop", "compact_pre", "compact_suf", "window:2", "diff", "summary"),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small recorded world, read as far as its views, with a policy that was trained on three sessions."""
    data = tmp_path_factory.mktemp("studies") / "data"
    record(generate(5, 3, 0, 2), data, seed=5, workers=1)
    (data / "handoff.toml").write_text("workers = 1\nseed = 5\nstep_budget = 14\n")
    project = Project(data)
    for shard in ("kata-train", "kata-test"):
        corpus.raw_trajectories(project, shard)
        corpus.repository_states(project, shard)
        quality.quality_signals(project, shard)
        handoffs.injected_handoffs(project, shard)
        handoffs.view_renderings(project, shard)
    coevolution.policy(project, "r000")
    return data


@pytest.fixture(scope="module")
def debt(root: Path) -> Project:
    project = Project(root)
    handoff_debt(project, DEBT, "debt")
    return project


@pytest.fixture(scope="module")
def tax(root: Path) -> Project:
    project = Project(root)
    handoff_tax(project, TAX, "tax")
    return project


# -- debt ---------------------------------------------------------------------------------------


def test_a_debt_study_runs_each_point_under_each_view_and_no_more_than_planned(debt: Project) -> None:
    runs = debt.lake.rows("debt_runs", study="debt")
    prepared = prepare_debt(debt, DEBT)
    plan = plan_debt(debt, DEBT)
    assert plan.is_exact and plan.runs == len(runs) == len(prepared.points) * 2 * 2 and plan.to_make == 0
    assert {run["provenance"] for run in runs} == {"executed"}
    assert len({run["takeover_id"] for run in runs}) == len(runs)
    matched = {(run["arm"], run["point_id"]) for run in runs if run["view"] == "repo"}
    assert {(run["arm"], run["point_id"]) for run in runs if run["view"] == "trace"} == matched
    assert all(set(run["labels"]) <= {"error", "milestone"} and run["labels"] for run in runs)


def test_a_figure_of_debt_is_recomputed_from_rows(debt: Project) -> None:
    runs = {(r["arm"], r["view"], r["point_id"]): r for r in debt.lake.rows("debt_runs", study="debt")}
    (row,) = [
        r
        for r in debt.lake.rows("handoff_debt", study="debt")
        if (r["arm"], r["view"], r["label"], r["metric"]) == ("expert", "trace", "all", "prompt_tokens")
    ]
    under = sorted(r["prompt_tokens"] for (arm, view, _), r in runs.items() if (arm, view) == ("expert", "trace"))
    middle = (under[(len(under) - 1) // 2] + under[len(under) // 2]) / 2
    assert row["value"] == middle and row["n_points"] == len(under) and row["unmatched"] == 0


def test_a_repeated_debt_study_does_nothing_and_a_lost_table_comes_back_without_a_run(debt: Project) -> None:
    before = _bytes(debt)
    assert not handoff_debt(debt, DEBT, "debt").is_new
    journal = sorted((debt.journal / "takeovers").rglob("*"))
    shutil.rmtree(debt.lake.root / "handoff_debt")
    shutil.rmtree(debt.lake.root / "debt_runs")
    handoff_debt(debt, DEBT, "debt")
    assert _bytes(debt) == before and sorted((debt.journal / "takeovers").rglob("*")) == journal


# -- tax ----------------------------------------------------------------------------------------


def _sources(project: Project) -> list[Source]:
    from handoff.stages.study_runs import agent_of

    agents = {False: agent_of(project, TAX.low), True: agent_of(project, TAX.high)}
    singles = list(single_jobs(project, TAX, agents, tasks_of(project, TAX)))
    stored = {r["takeover_id"]: r for r in project.lake.rows("tax_runs", study="tax") if r["view"] == SINGLE}
    return [Source(*single, stored[single[3].takeover_id]) for single in singles]


def test_both_models_do_every_task_alone_and_their_states_are_those_of_the_session(tax: Project) -> None:
    """What a session spent is counted the same step by step as over the whole."""
    sources = _sources(tax)
    assert len(sources) == 2 * 2 and {s.row["provenance"] for s in sources} == {"executed"}
    trees = trees_of(tax, [(s.job, read_transcript(s.row["transcript"])) for s in sources])
    for source, after in zip(sources, trees, strict=True):
        trajectory = trajectory_of(source)
        spent = spent_until(source.row, trajectory, len(trajectory.steps))
        assert (spent.prompt, spent.completion) == (source.row["prompt_tokens"], source.row["completion_tokens"])
        assert len(after) == source.row["steps"] and after[-1] == source.row["final_tree"]
    with KataLab(tax.root, worker="truth") as lab:
        for source in sources:
            passed, total = lab.test(source.job.repo, source.job.base_commit, source.row["final_tree"])
            assert source.row["solved"] == (passed == total > 0)


def test_a_switched_run_goes_on_from_its_source_within_the_whole_budget(tax: Project) -> None:
    rows = tax.lake.rows("tax_runs", study="tax")
    sources = {row["takeover_id"]: row for row in rows if row["view"] == SINGLE}
    switched = [row for row in rows if row["view"] != SINGLE]
    assert switched and {row["provenance"] for row in switched} == {"executed"}
    for row in switched:
        source = sources[row["source_id"]]
        assert (row["task_id"], row["seed"]) == (source["task_id"], source["seed"])
        assert row["arm"] != source["arm"] and row["capability"] != source["capability"]
        assert row["direction"] == ("downshift" if source["capability"] == "high" else "escalation")
        assert 1 <= row["h"] < row["n_steps"] == source["steps"]
        assert row["h"] + row["steps"] <= tax.settings.step_budget
    assert {cell["interface"] for row in switched for cell in row["cells"]} == set(TAX.interfaces)


def test_a_compaction_by_rule_is_the_summary_and_is_said_to_be(tax: Project) -> None:
    """One run stands for the three; each is charged what its writing would read and write, by the model that would."""
    for row in tax.lake.rows("tax_runs", study="tax"):
        cells = {cell["interface"]: cell for cell in row["cells"]}
        if row["view"] != "summary":
            assert not cells.keys() & {"summary", "compact_pre", "compact_suf"}
            assert all(cell["note_tokens_low"] == cell["note_tokens_high"] == 0 for cell in row["cells"])
            continue
        assert cells.keys() == {"summary", "compact_pre", "compact_suf"}
        assert {cell["author"] for cell in row["cells"]} == {"extractive"}
        before, after = ("high", "low") if row["direction"] == "downshift" else ("low", "high")
        assert cells["compact_pre"][f"note_tokens_{before}"] > cells["compact_pre"][f"note_tokens_{after}"] == 0
        assert cells["compact_suf"][f"note_tokens_{after}"] > cells["compact_suf"][f"note_tokens_{before}"] == 0


def test_a_cell_of_the_tax_is_recomputed_from_rows(tax: Project) -> None:
    rows = tax.lake.rows("tax_runs", study="tax")
    alone = {(r["capability"], r["task_id"]): r for r in rows if r["view"] == SINGLE}
    for cell in tax.lake.rows("handoff_tax", study="tax"):
        own = [
            (row, use)
            for row in rows
            for use in row["cells"]
            if row["direction"] == cell["direction"]
            and use["interface"] == cell["interface"]
            and cell["timing"] in ("all", use["timing"])
        ]
        tasks = sorted({row["task_id"] for row, _ in own})
        assert cell["n_tasks"] == len(tasks) and cell["n_runs"] == len(own)
        if not own:  # a timing that no session has is counted
            assert cell["omitted"] and cell["quality"] is None and cell["qrec_reason"]
            continue

        def mean(value: Any, own: Any = own, tasks: Any = tasks) -> float:
            by_task = [[value(row, use) for row, use in own if row["task_id"] == task] for task in tasks]
            return sum(sum(values) / len(values) for values in by_task) / len(by_task)

        assert cell["quality"] == pytest.approx(mean(lambda row, use: row["solved"]))
        assert cell["quality_hc"] == pytest.approx(sum(alone["high", t]["solved"] for t in tasks) / len(tasks))
        cost = mean(
            lambda row, use: (
                row["prefix_tokens"]
                + row["prompt_tokens"]
                + row["completion_tokens"]
                + use["note_tokens_low"]
                + use["note_tokens_high"]
            )
        )
        assert cell["cost"] == pytest.approx(cost) and cell["unit"] == "tokens"
        lead = cell["quality_hc"] - cell["quality_lc"]
        if lead > 0:
            assert cell["qrec"] == pytest.approx((cell["quality"] - cell["quality_lc"]) / lead)
            assert cell["tax"] == pytest.approx(1 - cell["qrec"])
        else:
            assert cell["qrec"] is None and cell["qrec_reason"]


def test_a_tax_plan_is_a_bound_before_the_sessions_and_exact_after_them(root: Path, tax: Project) -> None:
    runs = tax.lake.rows("tax_runs", study="tax")
    exact = plan_tax(tax, TAX)
    assert exact.is_exact and exact.runs == len(runs) and exact.to_make == 0
    fresh = TaxStudy(low="A", high="expert", seeds=2, most_tasks=1, timings=("p50",), interfaces=("drop", "diff"))
    before = plan_tax(tax, fresh)
    assert not before.is_exact and before.note and before.runs == 2 * 2 * (1 + 2)
    handoff_tax(tax, fresh, "fresh")
    made = tax.lake.rows("tax_runs", study="fresh")
    assert len(made) <= before.runs
    after = plan_tax(tax, fresh)
    assert after.is_exact and after.runs == len(made)


def test_a_token_of_the_high_model_counts_what_one_says(tax: Project) -> None:
    """The same runs, nobody run again; the sources of a downshift weigh more, those of an escalation do not."""
    journal = sorted((tax.journal / "takeovers").rglob("*"))
    handoff_tax(tax, TaxStudy(**{**_fields(TAX), "price_ratio": 3.0}), "dear")
    assert sorted((tax.journal / "takeovers").rglob("*")) == journal
    plain, dear = (
        {(r["direction"], r["timing"], r["interface"]): r for r in tax.lake.rows("handoff_tax", study=name)}
        for name in ("tax", "dear")
    )
    for key, row in ((key, row) for key, row in plain.items() if row["n_runs"]):
        assert dear[key]["cost_hc"] == pytest.approx(3 * row["cost_hc"]) and dear[key]["cost_lc"] == row["cost_lc"]
        assert row["cost"] < dear[key]["cost"] < 3 * row["cost"]
        assert dear[key]["quality"] == row["quality"]


def _fields(study: TaxStudy) -> dict[str, Any]:
    return {name: getattr(study, name) for name in study.__struct_fields__}


def test_pages_are_whole_and_ask_for_nothing(debt: Project, tax: Project) -> None:
    for project, name in ((debt, "debt"), (tax, "tax")):
        text = page_of(project, name).read_text("utf-8")
        assert "<script" not in text and "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        drawings = text.split("<svg")[1:]
        assert drawings
        for drawing in drawings:
            ElementTree.fromstring("<svg" + drawing.split("</svg>")[0] + "</svg>")


# -- the command line ---------------------------------------------------------------------------


def run(*arguments: str, data: Path) -> Any:
    return CliRunner().invoke(cli.app, ["study", *arguments, "--data", str(data)], env={"COLUMNS": "200"})


def test_the_command_line_plans_and_runs(debt: Project, tax: Project) -> None:
    options = [f"--successor={name}" for name in DEBT.successors] + [f"--view={view}" for view in DEBT.views]
    options += [f"--label={label}" for label in DEBT.labels]
    planned = run("debt", "--plan", *options, "--name", "debt", data=debt.root)
    assert planned.exit_code == 0 and "nothing to pay" in planned.output and "ratio of" not in planned.output
    made = run("debt", *options, "--name", "debt", data=debt.root)
    assert made.exit_code == 0 and "ratio of" in made.output and "page:" in made.output
    options = [f"--timing={t}" for t in TAX.timings] + [f"--interface={i}" for i in TAX.interfaces]
    made = run("tax", "--low=A", "--high=expert", *options, "--name", "tax", data=tax.root)
    assert made.exit_code == 0, made.output
    assert "escalation" in made.output and "QRec" in made.output and "page:" in made.output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("debt", "--successor", "nobody"), "no successor 'nobody': describe it under [successors.nobody]"),
        (("tax", "--high", "E"), "no policy 'E' was trained"),
        (("tax", "--low", "A", "--high", "A"), "two models"),
        (("debt", "--tasks", "missing"), "no shard 'missing'"),
        (("debt", "--view", "repo"), "always runs"),
        (("tax", "--timing", "p0"), "no timing"),
        (("tax", "--name", "../x"), "cannot name a study"),
        (("debt", "--successor", "E", "--successor", "E"), "successors: E is named twice"),
        (("debt", "--view", "diff", "--view", "diff"), "views: diff is named twice"),
        (("tax", "--interface", "drop", "--interface", "repo"), "interfaces: repo is named twice"),
        (("tax", "--price-ratio", "0"), "above 0, not 0.0"),
        (("tax", "--price-ratio", "-2"), "above 0, not -2.0"),
        (("tax", "--price-ratio", "nan"), "above 0, not nan"),
    ],
)
def test_what_cannot_be_studied_is_said(root: Path, arguments: tuple[str, ...], problem: str) -> None:
    result = run(*arguments, data=root)
    assert result.exit_code == 2 and problem in " ".join(result.output.split())


def test_an_empty_folder_says_what_to_do(tmp_path: Path) -> None:
    result = run("tax", data=tmp_path)
    assert result.exit_code == 2 and "handoff demo" in result.output


# -- on endpoints -------------------------------------------------------------------------------

PRICED = {"prompt": 1.0, "completion": 2.0}


def settings(url: str, **prices: Any) -> str:
    text = "workers = 1\nseed = 5\nstep_budget = 4\n"
    for name, price in prices.items():
        text += f'[successors.{name}]\nkind = "openai"\nbase_url = "{url}"\nmodel = "stub-{name}"\nretries = 0\n'
        if price is not None:
            text += "prices = {" + ", ".join(f"{key} = {json.dumps(value)}" for key, value in price.items()) + "}\n"
    return text


@pytest.fixture
def elsewhere(root: Path, tmp_path: Path, bubblewrap: None) -> Path:
    """The same world in a folder of its own, so that settings may change."""
    data = tmp_path / "data"
    shutil.copytree(root, data, ignore=shutil.ignore_patterns("sandboxes", "debt_runs", "tax_runs", "handoff_*"))
    return data


LOOK = message("", ("bash", {"command": "git diff"}))


def test_money_is_spent_only_when_someone_agreed_and_only_once(elsewhere: Path) -> None:
    """Two models with prices: costs in dollars, the source's part, the successor's and nothing else."""
    options = ("tax", "--low=cheap", "--high=dear", "--timing=p50", "--interface=drop", "--name=mine")
    with serving(then=server.answer(LOOK)) as at:
        (elsewhere / "handoff.toml").write_text(settings(at.url, cheap=PRICED, dear={"prompt": 9.0, "completion": 9.0}))
        refused = run(*options, data=elsewhere)
        assert refused.exit_code == 2 and "--yes" in refused.output and "at most" in refused.output
        assert at.requests == []
        made = run(*options, "--yes", data=elsewhere)
        assert made.exit_code == 0, made.output
        asked = len(at.requests)
        again = run(*options, data=elsewhere)
        assert again.exit_code == 0 and "nothing to pay" in again.output, again.output
        assert len(at.requests) == asked
    project = Project(elsewhere)
    rows = project.lake.rows("tax_runs", study="mine")
    assert asked == sum(row["steps"] for row in rows)
    assert {row["status"] for row in rows} == {"step_limit"}
    for row in rows:
        if row["view"] != SINGLE:
            source = next(r for r in rows if r["takeover_id"] == row["source_id"])
            assert (row["h"], row["steps"]) == (2, 2)
            assert 0 < row["prefix_dollars"] < source["dollars"]
    (cell,) = [
        c
        for c in project.lake.rows("handoff_tax", study="mine")
        if (c["direction"], c["timing"], c["interface"]) == ("escalation", "p50", "drop")
    ]
    own = [r for r in rows if r["direction"] == "escalation" and r["view"] == "repo"]
    assert cell["unit"] == "dollars"
    assert cell["cost"] == pytest.approx(sum(r["prefix_dollars"] + r["dollars"] for r in own) / len(own))
    assert cell["qrec"] is None and "equally much" in cell["qrec_reason"]
    assert cell["cost_lc"] < cell["cost_hc"] and cell["csret"] is not None


def test_a_debt_study_of_a_model_without_prices_says_that_its_cost_is_unknown(elsewhere: Path) -> None:
    options = ("debt", "--successor=plain", "--view=trace", "--label=error", "--most-tasks=1")
    with serving(then=server.answer(LOOK)) as at:
        (elsewhere / "handoff.toml").write_text(settings(at.url, plain=None))
        refused = run(*options, data=elsewhere)
        assert refused.exit_code == 2 and "unknown" in refused.output and at.requests == []
        made = run(*options, "--yes", data=elsewhere)
        assert made.exit_code == 0, made.output
    rows = Project(elsewhere).lake.rows("debt_runs", study="debt-plain")
    assert {row["view"] for row in rows} == {"repo", "trace"} and len({row["task_id"] for row in rows}) == 1


def test_a_study_may_be_described_in_the_settings(elsewhere: Path) -> None:
    text = 'workers = 1\nseed = 5\n[studies.small]\nkind = "tax"\nlow = "A"\nhigh = "expert"\nmost_tasks = 1\n'
    (elsewhere / "handoff.toml").write_text(text + 'timings = ["p50"]\ninterfaces = ["drop"]\n')
    assert run("tax", "--name=small", data=elsewhere).exit_code == 0
    assert len({row["task_id"] for row in Project(elsewhere).lake.rows("tax_runs", study="small")}) == 1
    wrong = run("debt", "--name=small", data=elsewhere)
    assert wrong.exit_code == 2 and "small is a tax study" in wrong.output
    (elsewhere / "handoff.toml").write_text('[studies.debt]\nkind = "tax"\n')
    with pytest.raises(InputError, match="another kind of study"):
        Project(elsewhere)


# -- kill -9 ------------------------------------------------------------------------------------


def _bytes(project: Project) -> dict[str, bytes]:
    folders = [project.lake.root / name for name in ("debt_runs", "handoff_debt", "tax_runs", "handoff_tax")]
    return {
        str(path.relative_to(project.root)): path.read_bytes()
        for folder in (*folders, project.reports)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
def test_a_study_killed_at_random_moments_ends_with_the_same_bytes_and_pays_once(elsewhere: Path) -> None:
    """The stub counts: every answered request is a call of some row, and none was answered twice."""
    options = ("tax", "--low=cheap", "--high=dear", "--timing=p50", "--interface=trace", "--interface=diff", "--yes")
    program = [sys.executable, "-m", "handoff.cli", "study", *options, "--data", str(elsewhere)]
    prices = {"cheap": PRICED, "dear": PRICED}
    rng = random.Random(4)
    answered: list[str] = []

    def slow(handler: Any, body: dict[str, Any]) -> None:
        time.sleep(0.05)
        server.answer(LOOK)(handler, body)
        answered.append(json.dumps(body, sort_keys=True))

    with serving(then=slow) as at:
        (elsewhere / "handoff.toml").write_text(settings(at.url, **prices))
        kills = 0
        while True:
            process = subprocess.Popen(
                program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ), start_new_session=True
            )
            try:
                output, _ = process.communicate(timeout=120 if kills == 6 else 1.5 + 3 * rng.random())
                break
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                kills += 1
        assert process.returncode == 0, output.decode()[-2000:]
        project = Project(elsewhere)
        made = _bytes(project)
        calls = sum(row["steps"] for row in project.lake.rows("tax_runs"))
        # A kill may cut requests off that were under way; only these may be made again.
        assert calls <= len(answered) <= calls + kills * 8
        for name in ("tax_runs", "handoff_tax"):
            shutil.rmtree(project.lake.root / name)
        before = len(at.requests)
        assert subprocess.run(program, capture_output=True, check=False).returncode == 0
        assert _bytes(project) == made and len(at.requests) == before


@pytest.mark.slow
def test_studies_of_the_settings_are_partitions_of_their_assets(elsewhere: Path) -> None:
    """Run by Dagster, with table, plot, page and checks; what costs money is refused there."""
    from dagster import DagsterInstance

    from handoff_assets.definitions import assemble

    text = "workers = 1\nseed = 5\nstep_budget = 14\n"
    text += (
        '[studies.small]\nkind = "tax"\nlow = "A"\nhigh = "expert"\ntimings = ["p50"]\ninterfaces = ["drop", "diff"]\n'
    )
    text += '[studies.views]\nkind = "debt"\nsuccessors = ["expert"]\nviews = ["structured"]\nlabels = ["error"]\n'
    text += '[studies.paid]\nkind = "debt"\nsuccessors = ["vendor"]\n'
    text += '[successors.vendor]\nkind = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n'
    (elsewhere / "handoff.toml").write_text(text)
    config = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    with DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("study", sorted(Project(elsewhere).studies()))
        definitions = assemble(elsewhere)
        for job, name in (("tax_job", "small"), ("debt_job", "views")):
            result = definitions.resolve_job_def(job).execute_in_process(
                instance=instance, partition_key=name, raise_on_error=False, run_config=config
            )
            assert result.success
            checks = result.get_asset_check_evaluations()
            assert len(checks) == 2 and all(check.passed for check in checks), [c.description for c in checks]
            (event,) = [e for e in result.all_events if e.event_type_value == "ASSET_MATERIALIZATION"]
            metadata = event.materialization.metadata
            assert Path(str(metadata["report"].value)).is_file() and metadata["dagster/row_count"].value > 0
            assert any("data:image/svg+xml" in str(value.value) for value in metadata.values())
        refused = definitions.resolve_job_def("debt_job").execute_in_process(
            instance=instance, partition_key="paid", raise_on_error=False, run_config=config
        )
        assert not refused.success
    assert Project(elsewhere).lake.partitions("debt_runs") == [{"study": "views"}]


def test_compactions_are_written_by_the_models_that_the_protocol_names(elsewhere: Path) -> None:
    """The predecessor's model before the switch, the successor's after it; charged to it, planned, and paid once."""
    options = (
        "tax",
        "--low=cheap",
        "--high=dear",
        "--timing=p50",
        "--interface=compact_pre",
        "--interface=compact_suf",
    )
    options += ("--most-tasks=1", "--yes", "--name=written")

    def act(handler: Any, body: dict[str, Any]) -> None:
        is_asked_to_act = "tools" in body
        server.answer(LOOK if is_asked_to_act else message(f"{body['model']} was here."))(handler, body)

    with serving(then=act) as at:
        (elsewhere / "handoff.toml").write_text(settings(at.url, cheap=PRICED, dear=PRICED))
        planned = run(*options, "--plan", data=elsewhere)
        assert planned.exit_code == 0 and "writes" in planned.output
        made = run(*options, data=elsewhere)
        assert made.exit_code == 0, made.output
        asked = len(at.requests)
        project = Project(elsewhere)
        shutil.rmtree(project.lake.root / "tax_runs")
        assert run(*options, data=elsewhere).exit_code == 0 and len(at.requests) == asked
        written = [body for body in at.requests if "tools" not in body]
    assert sorted(body["model"] for body in written) == ["stub-cheap"] * 2 + ["stub-dear"] * 2
    rows = [row for row in project.lake.rows("tax_runs", study="written") if row["view"] != SINGLE]
    assert {row["view"] for row in rows} == {"compact_pre", "compact_suf"}
    for row in rows:
        (cell,) = row["cells"]
        is_by_low = (row["view"] == "compact_pre") == (row["direction"] == "escalation")
        assert cell["author"] == ("stub-cheap" if is_by_low else "stub-dear")
        own, other = ("low", "high") if is_by_low else ("high", "low")
        assert cell[f"note_tokens_{own}"] > cell[f"note_tokens_{other}"] == 0 and cell["note_dollars"] > 0
    told = [json.dumps(body["messages"]) for body in at.requests if "was here" in json.dumps(body["messages"])]
    assert told, "what was written was handed over"
    for cell in project.lake.rows("handoff_tax", study="written"):
        (row,) = [r for r in rows if (r["direction"], r["view"]) == (cell["direction"], cell["interface"])]
        assert cell["cost"] == pytest.approx(row["prefix_dollars"] + row["dollars"] + row["cells"][0]["note_dollars"])
        assert cell["author"] == row["cells"][0]["author"]


def test_an_agent_that_is_a_command_may_stand_in_a_study(elsewhere: Path, bubblewrap: None) -> None:
    """It reaches no model, so it costs nothing; what it did is a row like any other."""
    text = 'workers = 1\nseed = 5\nstep_budget = 14\n[successors.script]\nkind = "command"\n'
    text += "command = \"cat {prompt} > /dev/null; echo '# seen' >> notes.md\"\n"
    (elsewhere / "handoff.toml").write_text(text)
    made = run(
        "debt", "--successor=script", "--view=trace", "--label=error", "--most-tasks=1", "--name=script", data=elsewhere
    )
    assert made.exit_code == 0, made.output
    rows = Project(elsewhere).lake.rows("debt_runs", study="script")
    assert {row["view"] for row in rows} == {"repo", "trace"}
    assert {row["successor"] for row in rows} == {"command"} and {row["solved"] for row in rows} == {False}


def test_notes_are_written_by_the_writer_of_the_settings_and_charged(elsewhere: Path) -> None:
    """A third model: its spending is in the cost, and in the plan with its own price."""
    options = ("tax", "--low=cheap", "--high=dear", "--timing=p50", "--direction=escalation", "--interface=summary")
    options += ("--most-tasks=1", "--yes", "--name=noted")
    told = {"sentences": [{"text": "It looked around before doing anything.", "steps": [1]}]}

    def act(handler: Any, body: dict[str, Any]) -> None:
        said = LOOK if "tools" in body else message(json.dumps(told))
        server.answer(said)(handler, body)

    with serving(then=act) as at:
        text = settings(at.url, cheap=PRICED, dear=PRICED, scribe={"prompt": 5.0, "completion": 5.0})
        (elsewhere / "handoff.toml").write_text('writer = "scribe"\n' + text)
        planned = run(*options, "--plan", data=elsewhere)
        assert planned.exit_code == 0 and "scribe" in planned.output
        made = run(*options, data=elsewhere)
        assert made.exit_code == 0, made.output
        written = [body for body in at.requests if "tools" not in body]
    assert {body["model"] for body in written} == {"stub-scribe"}
    project = Project(elsewhere)
    (cell,) = [c for c in project.lake.rows("handoff_tax", study="noted") if c["timing"] == "p50"]
    (row,) = [row for row in project.lake.rows("tax_runs", study="noted") if row["view"] != SINGLE]
    (use,) = row["cells"]
    assert use["author"] == cell["author"] == "stub-scribe"
    assert use["note_tokens_other"] > 0 == use["note_tokens_low"] == use["note_tokens_high"]
    assert cell["cost"] == pytest.approx(row["prefix_dollars"] + row["dollars"] + use["note_dollars"])
    assert any("looked around" in json.dumps(body["messages"]) for body in at.requests if "tools" in body)


def test_what_a_model_could_not_write_is_counted(elsewhere: Path) -> None:
    options = ("tax", "--low=cheap", "--high=dear", "--timing=p50", "--direction=escalation", "--interface=summary")
    options += ("--most-tasks=1", "--yes", "--name=mute")

    def act(handler: Any, body: dict[str, Any]) -> None:
        server.answer(LOOK if "tools" in body else message("I would rather not."))(handler, body)

    with serving(then=act) as at:
        (elsewhere / "handoff.toml").write_text('writer = "cheap"\n' + settings(at.url, cheap=PRICED, dear=PRICED))
        made = run(*options, data=elsewhere)
        assert made.exit_code == 0, made.output
    cells = Project(elsewhere).lake.rows("handoff_tax", study="mute")
    assert [(cell["timing"], cell["n_runs"], cell["omitted"], cell["qrec"]) for cell in cells] == [
        ("all", 0, 1, None),
        ("p50", 0, 1, None),
    ]
    assert all(cell["qrec_reason"] and cell["csret_reason"] for cell in cells)
