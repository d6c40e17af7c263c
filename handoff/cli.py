"""The command line: ``handoff …``. Each command reads arguments, makes one call and prints; no rule lives here.

Imports are made inside commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

from handoff.cli_export import export
from handoff.cli_lint import lint
from handoff.cli_options import Data, data_folder, warn_about_sandbox
from handoff.cli_study import study
from handoff.errors import HandoffError, InputError
from handoff.terminal import (
    complain,
    err,
    line,
    out,
    print_branches,
    print_corpus,
    print_diff,
    print_instances,
    print_outcome,
    print_pairs,
    print_quality,
    print_record,
    print_shard,
    print_states,
    print_surroundings,
    print_wide,
    progress,
    shown,
    states_json,
    table,
)

if TYPE_CHECKING:
    from handoff.stages.states import RunStates


class _Commands(TyperGroup):
    """All commands. What goes wrong on purpose is one line and exit code 2, also where ``app`` is called directly."""

    def invoke(self, ctx: Any) -> Any:
        """Run one command."""
        try:
            return super().invoke(ctx)
        except HandoffError as error:
            complain(str(error))
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except OSError as error:
            place = error.filename or "this machine"
            complain(f"{place}: {error.strerror or error}; check the path and its permissions")
        except KeyboardInterrupt:
            err.print("stopped; run the same command again to go on from here")
            raise typer.Exit(130) from None
        raise typer.Exit(2)


app = typer.Typer(
    name="handoff",
    cls=_Commands,
    help="Turn recorded coding-agent trajectories into handoff-aware training data.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(study)


Branches = Annotated[
    list[str] | None,
    typer.Option(
        "--branch", help="Read the commits of this branch of a local git repository as a run.", show_default=False
    ),
]
Writer = Annotated[
    str,
    typer.Option(help=r"Let a model write the view: a NAME of \[successors.NAME] in handoff.toml.", show_default=False),
]
Base = Annotated[
    str | None,
    typer.Option("--base", help="With --branch: where the work began. Default: the main branch.", show_default=False),
]


def main() -> None:
    """The program ``handoff``."""
    app()


# -- the whole job ------------------------------------------------------------------------------


@app.command(epilog="Example: [bold]handoff demo --seed 0[/bold]")
def demo(
    data: Data = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the embedded world and of every run in it.", show_default="7")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds to run: the first collects, later ones evaluate.")] = 2,
) -> None:
    """Run the whole graph on the embedded kata world: offline, no key, no GPU, no docker."""
    from handoff.kata.record import record
    from handoff.kata.world import generate
    from handoff.project import Project

    project = Project(data_folder(data))
    if seed is not None:
        project = project.with_seed(seed)
    warn_about_sandbox(project)
    settings = project.settings
    world = generate(settings.seed, settings.kata.train, settings.kata.validation, settings.kata.test)
    with progress() as report:
        record(
            world,
            project.root,
            seed=settings.seed,
            workers=settings.workers,
            sandbox=settings.sandbox,
            progress=report("recording the kata world"),
        )
    code = _drive("--data", str(project.root), "--rounds", str(rounds))
    if code:
        complain("the run stopped before its end; what was finished is kept. Run the same command again.")
        raise typer.Exit(code)
    print_outcome(project, rounds - 1)


@app.command(epilog="Example: [bold]handoff dev --port 3000[/bold]")
def dev(
    data: Data = None,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.")] = 3000,
) -> None:
    """Open the Dagster UI on the same data and instance as the demo."""
    from handoff.project import Project

    project = Project(data_folder(data))
    raise typer.Exit(_drive("--data", str(project.root), "--ui", str(port)))


# -- corpus -------------------------------------------------------------------------------------


@app.command(epilog="Example: [bold]handoff ingest runs/ --repository owner/name=mirrors/name.git[/bold]")
def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files or folders of trajectories.")],
    shard: Annotated[str | None, typer.Option(help="Name of the shard. Default: from the first path.")] = None,
    repository: Annotated[
        list[str] | None, typer.Option(help="NAME=PATH or NAME=URL of a repository that trajectories name.")
    ] = None,
    instances: Annotated[
        list[Path] | None,
        typer.Option(help="File of benchmark instances, as of SWE-bench: repository and base commit of a task id."),
    ] = None,
    of: Annotated[
        str | None, typer.Option(help="NAME of the repository of runs that name none, such as Claude Code's.")
    ] = None,
    branch: Branches = None,
    base: Base = None,
    task: Annotated[
        str | None, typer.Option(help="With --branch: the task, as text or in a file. Default: what git says.")
    ] = None,
    rerun: Annotated[
        bool,
        typer.Option(
            "--rerun", help="Execute steps whose effect no text tells again, in a jail. Lasting: rerun_steps."
        ),
    ] = False,
    test: Annotated[
        bool,
        typer.Option("--test", help="Run the tests of instances on the states of points. Lasting: test_states."),
    ] = False,
    data: Data = None,
) -> None:
    """Read trajectory files, or with --branch a person's commits, into the lake: runs, states, points and views."""
    import msgspec

    from handoff.corpus import files
    from handoff.instances.reading import instance_files
    from handoff.project import Project, shard_name
    from handoff.stages import corpus
    from handoff.stages.instances import instances_of
    from handoff.stages.reading import read_shard
    from handoff.states.branches import repository_name

    project = Project(data_folder(data))
    own = project.settings
    asked = msgspec.structs.replace(own, rerun_steps=rerun or own.rerun_steps, test_states=test or own.test_states)
    project = Project(project.root, asked)
    mapping = _pairs(repository or [])
    if branch:
        if len(paths) > 1:
            raise InputError("--branch reads one repository at a time; name one folder")
        names = {place: repo for repo, place in mapping.items()}
        repo = names.get(str(paths[0].resolve())) or repository_name(paths[0])
        name = shard or shard_name("-".join((repo.rpartition("/")[2], *branch)).replace(".", "-"))[:100]
        wanted = _text(task) if task else None
        if not shard:
            project.check_free(name, (str(project.branch_file(name)),), {repo: str(paths[0].resolve())})
        print_branches(corpus.add_branches(project, name, paths[0], branch, repo=repo, base=base, task=wanted))
    else:
        if next(files(paths), None) is None:
            problem = "no files in it; name a folder that holds some (hidden names are passed over)"
            raise InputError(f"{paths[0]}: {problem}")
        name = shard or shard_name(paths[0].resolve().name)
        places = tuple(str(path.absolute()) for path in paths)
        if not shard:
            project.check_free(name, places)
        instance_files(instances or [])  # says which is missing before anything is written
        project.add_shard(name, places, mapping, tuple(str(file.absolute()) for file in instances or []), of)
    with progress() as report:
        read_shard(project, name, report)
    print_shard(project, name)
    if (known := instances_of(project, name)) is not None:
        print_instances(known.counted(), known.problems)
    if not project.lake.count("raw_trajectories", shard=name):
        raise InputError(f"{paths[0]}: no trajectory in it; above is what each file lacks")


@app.command(epilog="Example: [bold]handoff inspect runs/astropy-1.traj --record 1[/bold]")
def inspect(
    path: Annotated[Path, typer.Argument(help="A trajectory file.")],
    record: Annotated[int, typer.Option(min=1, help="Which record of the file, from 1: its line, or its place.")] = 1,
    part: Annotated[int, typer.Option(min=1, help="Which run of that record: subagents and tries share one.")] = 1,
    steps: Annotated[int, typer.Option(help="Show at most this many steps.")] = 60,
    branch: Annotated[str | None, typer.Option(help="Show this branch of a git repository instead.")] = None,
    base: Base = None,
) -> None:
    """Say what was understood of one record: format, steps, keys, handoff points, quality, and what is
    known of the world outside the repository. Nothing is written."""
    from handoff import actions, adapters
    from handoff.environment import environment
    from handoff.points import find_handoff_points
    from handoff.quality import assess
    from handoff.states.branches import look_at
    from handoff.trajectory import trajectory_id

    found = None if branch else adapters.read_record(path, record)
    trajectory = found.run(part) if found else look_at(path, branch or "", base=base)
    id_ = trajectory_id(trajectory)
    facts = Table.grid(padding=(0, 2))
    for label, value in (
        ("trajectory", id_),
        ("format", trajectory.format),
        ("task", trajectory.task_id),
        ("repository", trajectory.repo),
        ("base commit", trajectory.base_commit),
        ("author", trajectory.author),
        ("agent, model", f"{trajectory.agent or 'unknown'}, {trajectory.model or 'unknown'}"),
        ("resolved", {True: "yes", False: "no", None: "unknown"}[trajectory.outcome.resolved]),
        ("exit status", trajectory.outcome.exit_status),
        ("ended", trajectory.outcome.ended),
        ("steps", str(len(trajectory.steps))),
        *([("run", f"{part} of {len(found.runs)} in this record (--part)")] if found and len(found.runs) > 1 else []),
    ):
        facts.add_row(f"[bold]{label}[/bold]", escape(shown(value or "unknown")))
    out.print(facts)
    points = {p.h: p.labels for p in find_handoff_points(trajectory, id_, None)}
    listed = table("step", "actions (kind target)", "exit", "handoff labels")
    context = actions.context_of(trajectory.format, trajectory.source)
    for number, keys in enumerate(actions.trajectory_keys(trajectory.steps, context=context), start=1):
        if number > steps:
            listed.add_row("…", f"{len(trajectory.steps) - steps} more (--steps)", "", "")
            break
        codes = [str(o.exit_code) for o in trajectory.steps[number - 1].observations if o.exit_code is not None]
        listed.add_row(
            str(number),
            "\n".join(escape(line(f"{key.kind} {key.target}")) for key in keys) or "[dim]none[/dim]",
            " ".join(codes),
            ", ".join(points.get(number, ())),
        )
    out.print(listed)
    print_quality(assess(trajectory))
    print_surroundings(environment(trajectory).at(len(trajectory.steps)), "at the end")
    if found:
        print_record(found.record)
    if len(trajectory.steps) < 2:
        out.print("A run of fewer than two steps has no handoff point.")


@app.command(epilog="Example: [bold]handoff states t_5c1d… --step 12[/bold]")
def states(
    run: Annotated[str, typer.Argument(help="A trajectory id, or the beginning of one; or FILE, or FILE:RECORD.")],
    step: Annotated[
        int | None, typer.Option(help="Show this step: its diff, and what is known outside the repository.")
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show the whole history as diffs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    repository: Annotated[
        list[str] | None, typer.Option(help="With FILE: NAME=PATH or NAME=URL of the repository it names.")
    ] = None,
    base: Annotated[str | None, typer.Option(help="With FILE: the commit it began at, if it does not say.")] = None,
    instances: Annotated[
        list[Path] | None, typer.Option(help="With FILE: benchmark instances, which name its repository and commit.")
    ] = None,
    part: Annotated[int, typer.Option(min=1, help="With FILE: which run of the record.")] = 1,
    rerun: Annotated[
        bool, typer.Option("--rerun", help="With FILE: execute steps whose effect no text tells again, in a jail.")
    ] = False,
    data: Data = None,
) -> None:
    """Show what the repository looked like after every step of one run, and how far that is proven.

    Of a FILE nothing is kept: it is replayed through a mirror that is gone afterwards.
    """
    from handoff.instances.reading import instance_files
    from handoff.project import Project
    from handoff.stages.states import file_run, rerunning, stored_run

    project = Project(data_folder(data))
    file = _file_and_record(run)
    of_files = {
        "--repository": repository,
        "--base": base,
        "--instances": instances,
        "--part": part > 1,
        "--rerun": rerun,
    }
    if file is None and (given := [name for name, value in of_files.items() if value]):
        raise InputError(f"{', '.join(given)} is for a FILE; the states of {run} are stored: ingest its file again")
    with rerunning(rerun) as reruns:
        opened = (
            file_run(
                project,
                *file,
                part,
                _pairs(repository or []),
                base=base,
                instances=instance_files(instances or []),
                reruns=reruns,
            )
            if file
            else stored_run(project, run)
        )
        with opened as found:
            _show_states(found, step, diff=diff, as_json=as_json)


def _show_states(found: RunStates, step: int | None, *, diff: bool, as_json: bool) -> None:
    if step is not None:
        found.check(step)
    chosen = range(len(found.rows)) if step is None else [step]
    if as_json:
        print(states_json(found, chosen, with_diffs=diff or step is not None))
    elif step is not None:
        print_diff(found, step)
        print_surroundings(found.surroundings(step), f"after step {step}")
    elif diff:
        for number in chosen:
            print_diff(found, number)
    else:
        print_states(found)


@app.command(epilog="Example: [bold]handoff view p_3f2a… --view structured[/bold]")
def view(
    point: Annotated[str, typer.Argument(help="A point id, or the beginning of one.")],
    view: Annotated[
        str,
        typer.Option(
            help="repo, trace, summary, structured, window:N, diff, diet, compact_pre, compact_suf, or recorded where "
            "there is one."
        ),
    ] = "structured",
    writer: Writer = "",
    data: Data = None,
) -> None:
    """Print exactly what a successor gets at one handoff point under one view. Of a model's view, written once, it also
    says what the writing took; asked for again, it costs nothing."""
    from handoff.project import Project
    from handoff.stages.handoffs import read_briefing, read_written
    from handoff.terminal_takeover import print_writing

    project = Project(data_folder(data))
    if writer:
        briefing, row = read_written(project, point, view, writer)
        print_writing(row)
    else:
        briefing = read_briefing(project, point, view)
    for message in briefing.messages():
        out.print(f"[bold]── {message.role} ──[/bold]")
        out.print(shown(message.text, limit=None), markup=False, soft_wrap=True)


@app.command(epilog="Example: [bold]handoff takeover p_3f2a… --view structured --successor local[/bold]")
def takeover(
    point: Annotated[str, typer.Argument(help="A point id, or the beginning of one.")],
    successor: Annotated[str, typer.Option(help=r"A NAME of \[successors.NAME] in handoff.toml.")],
    view: Annotated[str, typer.Option(help="What it is given, as for `handoff view`.")] = "structured",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the run, sent to endpoints that take one.")] = 0,
    sandbox: Annotated[
        str | None, typer.Option(help="Where commands run: a value of the setting of this name.", show_default=False)
    ] = None,
    writer: Writer = "",
    data: Data = None,
) -> None:
    """Let a model on an endpoint, or an agent that is a command, take over at one handoff point, and print what it did.
    Run again, it costs nothing."""
    from handoff.project import Project, with_sandbox
    from handoff.stages.one_takeover import one_takeover
    from handoff.terminal_takeover import print_takeover

    project = Project(data_folder(data))
    if sandbox is not None:
        project = with_sandbox(project, sandbox)
    warn_about_sandbox(project, point)
    row = one_takeover(project, point, view, successor, seed, writer)
    print_takeover(row)
    if row["status"] == "error":
        remedy = f"{successor} could not act: {row['note']}; see `handoff doctor`"
        if "run again" not in row["note"]:
            what = "correct its command or its model" if row["successor"] == "command" else "mend that"
            remedy += f", {what}, and run the same command again"
        complain(remedy)
        raise typer.Exit(2)


@app.command(
    "worst-point",
    epilog="Example: [bold]handoff worst-point t_0c9d… --successor E --budget 120 --plot worst.svg[/bold]",
)
def worst_point(
    run: Annotated[str, typer.Argument(help="A trajectory id, or the beginning of one.")],
    successor: Annotated[
        str, typer.Option(help=r"A trained policy (A, B, E), `expert`, or a NAME of \[successors.NAME].")
    ] = "E",
    view: Annotated[str, typer.Option(help="What it is given, as for `handoff view`.")] = "repo",
    budget: Annotated[int, typer.Option(min=1, help="Takeovers that choose. At least one a step.")] = 120,
    round: Annotated[str | None, typer.Option(help="Round of the policy. Default: the newest.")] = None,
    guess: Annotated[
        str,
        typer.Option(help="What foretells cost: auto, uncertainty (the successor's own, where it tells), heuristics."),
    ] = "auto",
    plot: Annotated[Path | None, typer.Option(help="Write the cost curve to this file, as SVG.")] = None,
    data: Data = None,
) -> None:
    """Search the step of a run where a successor that takes over does worst. Run again, it costs nothing."""
    from handoff.lake import write_file
    from handoff.plots import cost_curve
    from handoff.project import Project
    from handoff.stages.search_ground import Guess
    from handoff.stages.worst_points import find_worst_point
    from handoff.terminal_takeover import print_worst_point

    chosen = next((name for name in get_args(Guess) if name == guess), None)
    if chosen is None:
        raise InputError(f"no guess {guess!r}; choose one of {', '.join(get_args(Guess))}")
    project = Project(data_folder(data))
    warn_about_sandbox(project)
    with progress() as report:
        worst = find_worst_point(
            project,
            run,
            arm=successor,
            view=view,
            budget=budget,
            round=round,
            guess=chosen,
            progress=report("taking over"),
        )
    print_worst_point(worst)
    if plot is not None:
        title = f"excess cost of taking over, by step ({worst.arm}, {worst.view})"
        write_file(plot, cost_curve(title, worst.found.visited, worst.found.worst).encode())


@app.command(epilog="Example: [bold]handoff tiers --measure E --points 3 --seeds 2[/bold]")
def tiers(
    round: Annotated[str | None, typer.Option(help="The round. Default: the newest that ran on tiers.")] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(help="Instead: run this successor (A, E, expert, a NAME) on more points; several are compared."),
    ] = None,
    points: Annotated[int, typer.Option(min=1, help="With --measure: points of a task and tier.")] = 3,
    seeds: Annotated[int, typer.Option(min=1, help="With --measure: runs of each.")] = 1,
    split: Annotated[str, typer.Option(help="With --measure: test, validation or train.")] = "test",
    data: Data = None,
) -> None:
    """Show how hard the four tiers are, each against the one before it, and what the next round practises."""
    from handoff import terminal_disturb
    from handoff.project import Project
    from handoff.stages.tiers import measure_tiers, shown_round

    project = Project(data_folder(data))
    if measure:
        warn_about_sandbox(project)
        with progress() as report:
            lines = measure_tiers(
                project,
                arms=measure,
                split=split,
                per_task=points,
                seeds=seeds,
                round=round,
                progress=report("taking over"),
            )
        terminal_disturb.print_tiers(f"tiers, {split} points", [line.row() for line in lines])
        return
    name, rows = shown_round(project.lake, round)
    terminal_disturb.print_tiers(f"tiers, {name}, test points", [row for row in rows if row["split"] == "test"])
    for row in rows:
        if row["next_share"] is not None:
            out.print(f"next round: {row['next_share']:.0%} of the practice is {row['tier']} ({row['next_why']})")


@app.command(epilog="Example: [bold]handoff branch p_3f2a… --successor E --runs 8[/bold]")
def branch(
    point: Annotated[str, typer.Argument(help="A point id of the embedded world, or the beginning of one.")],
    successor: Annotated[str, typer.Option(help="A trained policy: A, B or E.")] = "E",
    view: Annotated[str, typer.Option(help="What it is given, as for `handoff view`.")] = "repo",
    runs: Annotated[int, typer.Option(min=1, help="Branches that are executed, beside the takeover itself.")] = 8,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    round: Annotated[str | None, typer.Option(help="Round of the policy. Default: the newest.")] = None,
    data: Data = None,
) -> None:
    """Take over, and try other moves where the policy was least sure. Run again, it costs nothing."""
    from handoff.project import Project
    from handoff.stages.branching import branch_takeover
    from handoff.terminal_takeover import print_branches

    project = Project(data_folder(data))
    warn_about_sandbox(project)
    with progress() as report:
        found = branch_takeover(
            project, point, view, successor, runs, seed=seed, round=round, progress=report("taking over")
        )
    print_branches(found)


@app.command(epilog="Example: [bold]handoff disturb p_3f2a… --kind reverted_edit --severity 0.5[/bold]")
def disturb(
    point: Annotated[str | None, typer.Argument(help="A point id, or the beginning of one.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="What happens there; several, in their order.", show_default=False)
    ] = None,
    severity: Annotated[float, typer.Option(help="Above 0, and at most 1.")] = 0.5,
    view: Annotated[
        list[str] | None,
        typer.Option(help="As for `handoff view`; several only with --measure.", show_default="structured"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides all that is drawn.")] = 0,
    listed: Annotated[bool, typer.Option("--list", help="List the kinds.")] = False,
    measure: Annotated[
        str | None,
        typer.Option(help="Instead: run this successor (E, expert, a NAME) on test points with and without each kind."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="With --measure: runs of each.")] = 1,
    data: Data = None,
) -> None:
    """Show a handoff point disturbed: what changes of tree, view and task, and whether the task stays fair."""
    from handoff import terminal_disturb
    from handoff.adversary import DISTURBANCES
    from handoff.adversary.recipe import check_severity
    from handoff.project import Project
    from handoff.stages import disturbances

    if listed:
        terminal_disturb.print_kinds()
        return
    check_severity(severity)
    project = Project(data_folder(data))
    views = view or ["structured"]
    if measure is not None:
        if point is not None:
            raise InputError("--measure takes the test points of the embedded world; leave the point out")
        warn_about_sandbox(project)
        with progress() as report:
            measured = disturbances.measure(
                project,
                arm=measure,
                kinds=kind or [each.kind for each in DISTURBANCES],
                views=views,
                severity=severity,
                seeds=seeds,
                progress=report("taking over"),
            )
        terminal_disturb.print_measured(measured)
        return
    if point is None or not kind or len(views) > 1:
        raise InputError("say a point, one view and at least one --kind; `handoff disturb --list` lists the kinds")
    warn_about_sandbox(project, point)
    kinds = [(name, severity) for name in kind]
    terminal_disturb.print_disturbed(disturbances.disturb_point(project, point, kinds, views[0], seed))


# -- results ------------------------------------------------------------------------------------

app.command(epilog="Example: [bold]handoff export runs/ --to trl --to axolotl[/bold]")(export)
app.command(epilog="Example: [bold]handoff lint data/exports/r001 --tokenizer models/mine[/bold]")(lint)


@app.command(epilog="Example: [bold]handoff audit s_91bd…[/bold]")
def audit(
    sample: Annotated[str | None, typer.Argument(help="A sample id, or the beginning of one.")] = None,
    source: Annotated[Path | None, typer.Option(help="Go forward instead: all that derives from this file.")] = None,
    data: Data = None,
) -> None:
    """Trace a training sample back to its source bytes, or a source file forward to its samples."""
    from handoff import lineage
    from handoff.project import Project

    project = Project(data_folder(data))
    if source is not None:
        found = lineage.descendants(project.lake, str(source), relative_to=project.root)
        print_pairs(f"derives from {source}", lineage.lines_of(found))
    elif sample is not None:
        print_pairs(f"sample {sample}", lineage.lines_of(lineage.ancestry(project.lake, sample)))
    else:
        raise InputError("say which: a sample id, or --source FILE")


@app.command(epilog="Example: [bold]handoff report --round r001[/bold]")
def report(
    data: Data = None,
    round: Annotated[str | None, typer.Option(help="Round, such as r001. Default: the newest.")] = None,
    corpus: Annotated[
        bool, typer.Option("--corpus", help="Instead: how far the repository states of the corpus can be trusted.")
    ] = False,
    breaks: Annotated[
        bool, typer.Option("--breaks", help="Instead: where successors broke, by point label, view and disturbance.")
    ] = False,
) -> None:
    """Print a round's table from the lake, and where its page and training files lie; or another report."""
    from handoff.project import Project
    from handoff.stages import round_number

    project = Project(data_folder(data))
    if corpus:
        _report_corpus(project)
        return
    done = [p["round"] for p in project.lake.partitions("round_report")]
    if not done:
        raise InputError(f"no round is reported in {project.root}; run `handoff demo` or materialize round_report")
    chosen = round or done[-1]
    if chosen not in done:
        raise InputError(f"no report for {chosen}; rounds are {', '.join(done)}")
    if breaks:
        _report_breaks(project, chosen)
    else:
        print_outcome(project, round_number(chosen))


@app.command(epilog="Example: [bold]handoff doctor[/bold]")
def doctor(data: Data = None) -> None:
    """Say what this machine can do: git, sandboxes, overlay mounts, docker, model endpoint."""
    from handoff.doctor import examine

    listed = table("what", "state", "detail")
    broken = False
    for finding in examine(data_folder(data), os.environ):
        colour = {"ok": "green", "limited": "yellow", "missing": "red", "off": "dim"}[finding.state]
        listed.add_row(finding.what, f"[{colour}]{finding.state}[/{colour}]", escape(finding.detail))
        broken = broken or finding.state == "missing"
    out.print(listed)
    raise typer.Exit(1 if broken else 0)


def _report_breaks(project: Any, round: str) -> None:
    from handoff.report.breaks import HEADINGS, as_rows
    from handoff.stages.breaks import breaks

    listed = table(*HEADINGS)
    for row in as_rows(breaks(project, round)):
        listed.add_row(*map(escape, row))
    if not listed.row_count:
        out.print(f"no successor was run on test points in {round}")
        return
    print_wide(listed)
    out.print("* clearly worse than its own undisturbed runs at all points under that view: the intervals do not meet")
    out.print("few: too few runs, or of too few tasks, to say much")


def _report_corpus(project: Any) -> None:
    from handoff.stages import corpus_report as stage

    if not project.lake.partitions("state_verdicts"):
        raise InputError(
            f"no run is replayed in {project.root}; run `handoff ingest FILES`, with --repository NAME=PATH"
        )
    stage.corpus_report(project)
    print_corpus(stage.read_corpus_report(project), stage.page_of(project))


def _drive(*arguments: str) -> int:
    """Run Dagster's side in a process of its own: the core does not import it.

    Started with ``-c``: workers import the main module of the process that starts them, and need none of this one.
    """
    program = "import sys; from handoff_assets.driver import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", program, *arguments], check=False).returncode


# -- arguments ----------------------------------------------------------------------------------


def _pairs(options: Sequence[str]) -> dict[str, str]:
    from handoff.git.repositories import is_url

    pairs: dict[str, str] = {}
    for option in options:
        name, equals, place = option.partition("=")
        if not (name and equals and place):
            raise InputError(f"--repository {option!r}: write NAME=PATH or NAME=URL")
        if not is_url(place) and not Path(place).is_dir():
            raise InputError(f"--repository {option}: {place} is no folder; give a local clone of {name}, or its URL")
        place = place if is_url(place) else str(Path(place).resolve())
        if pairs.setdefault(name, place) != place:
            raise InputError(f"--repository {option}: {name} is given twice, with different places; keep one")
    return pairs


def _file_and_record(run: str) -> tuple[Path, int] | None:
    """FILE or FILE:RECORD; ``None`` when it is no file that there is."""
    path, colon, record = run.rpartition(":")
    if Path(run).exists():
        return Path(run), 1
    if colon and record.isdecimal() and Path(path).exists():
        return Path(path), int(record)
    if "/" in run or "." in run:
        raise InputError(f"{run}: no such file; check the path")
    return None


def _text(option: str) -> str:
    """What an option says, or the file that it names."""
    return Path(option).read_text("utf-8", "replace").strip() if os.path.isfile(option) else option  # noqa: PTH113


if __name__ == "__main__":
    main()
