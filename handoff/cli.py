"""The command line: ``handoff …``. Each command reads arguments, makes one call and prints; no rule lives here.

Imports are made inside commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from handoff.errors import HandoffError, InputError

app = typer.Typer(
    name="handoff",
    help="Turn recorded coding-agent trajectories into handoff-aware training data.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)
TABLE_WIDTH = 164
"""Columns that the takeover table needs; a narrower terminal wraps it, so that no figure is cut."""

out = Console(highlight=False, width=None if sys.stdout.isatty() else TABLE_WIDTH)
err = Console(stderr=True, highlight=False)

Data = Annotated[
    Path | None,
    typer.Option("--data", help="The project's data folder. Default: $HANDOFF_DATA, else ./data.", show_default=False),
]


def main() -> None:
    """Run a command; an error raised on purpose is one readable line and exit code 2."""
    try:
        app()
    except HandoffError as error:
        err.print(f"[red]error[/red] {escape(str(error))}")
        sys.exit(2)
    except KeyboardInterrupt:
        err.print("stopped; run the same command again to go on from here")
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def data_folder(data: Path | None) -> Path:
    """The folder meant by ``--data``, the environment or the default, in this order."""
    return data or Path(os.environ.get("HANDOFF_DATA") or "data")


# -- the whole job ------------------------------------------------------------------------------


@app.command(epilog="Example: [bold]handoff demo --seed 0[/bold]")
def demo(
    data: Data = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the embedded world and of every run in it.", show_default="0")
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
    _warn_about_sandbox(project)
    settings = project.settings
    world = generate(settings.seed, settings.kata.train, settings.kata.validation, settings.kata.test)
    with _progress() as report:
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
        err.print("[red]error[/red] the run stopped before its end; what was finished is kept. Run the same command again.")
        raise typer.Exit(code)
    _print_outcome(project, rounds - 1)


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


@app.command(
    epilog="Example: [bold]handoff ingest runs/*.traj --shard swe-agent --repository marshmallow-code/marshmallow=mirrors/marshmallow.git[/bold]"
)
def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files or folders of trajectories.")],
    shard: Annotated[str | None, typer.Option(help="Name of the shard. Default: from the first path.")] = None,
    repository: Annotated[
        list[str] | None, typer.Option(help="NAME=PATH or NAME=URL of a repository that trajectories name.")
    ] = None,
    data: Data = None,
) -> None:
    """Read trajectory files into the lake: runs, steps, states, handoff points and views."""
    from handoff.project import Project, shard_name
    from handoff.stages import corpus, handoffs

    project = Project(data_folder(data))
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
    name = shard or shard_name(paths[0].resolve().name)
    project.add_shard(name, tuple(str(p.resolve()) for p in paths), _pairs(repository or []))
    with _progress() as report:
        corpus.raw_trajectories(project, name, report("reading records"))
        corpus.repository_states(project, name)
        handoffs.injected_handoffs(project, name)
        handoffs.view_renderings(project, name)
    _print_shard(project, name)


@app.command(epilog="Example: [bold]handoff inspect runs/astropy-1.traj --record 1[/bold]")
def inspect(
    path: Annotated[Path, typer.Argument(help="A trajectory file.")],
    record: Annotated[int, typer.Option(min=1, help="Which record of the file, from 1.")] = 1,
    steps: Annotated[int, typer.Option(help="Show at most this many steps.")] = 60,
) -> None:
    """Say what was understood of one record: format, steps, action keys, handoff points. Nothing is written."""
    from handoff import actions, adapters
    from handoff.points import find_handoff_points
    from handoff.trajectory import trajectory_id

    trajectory = adapters.read_one(path, record)
    id_ = trajectory_id(trajectory)
    facts = Table.grid(padding=(0, 2))
    for label, value in (
        ("trajectory", id_),
        ("format", trajectory.format),
        ("task", trajectory.task_id),
        ("repository", trajectory.repo),
        ("base commit", trajectory.base_commit),
        ("agent, model", f"{trajectory.agent or 'unknown'}, {trajectory.model or 'unknown'}"),
        ("resolved", {True: "yes", False: "no", None: "unknown"}[trajectory.outcome.resolved]),
        ("exit status", trajectory.outcome.exit_status),
        ("steps", str(len(trajectory.steps))),
    ):
        facts.add_row(f"[bold]{label}[/bold]", escape(_shown(value or "unknown")))
    out.print(facts)
    points = {p.h: p.labels for p in find_handoff_points(trajectory, id_, None)}
    table = Table("step", "actions (kind target)", "exit", "handoff labels", title=None)
    context = actions.context_of(trajectory.format)
    for number, keys in enumerate(actions.trajectory_keys(trajectory.steps, context=context), start=1):
        if number > steps:
            table.add_row("…", f"{len(trajectory.steps) - steps} more (--steps)", "", "")
            break
        codes = [str(o.exit_code) for o in trajectory.steps[number - 1].observations if o.exit_code is not None]
        table.add_row(
            str(number),
            "\n".join(escape(_shown(f"{key.kind} {key.target}")) for key in keys) or "[dim]none[/dim]",
            " ".join(codes),
            ", ".join(points.get(number, ())),
        )
    out.print(table)
    if len(trajectory.steps) < 2:
        out.print("A run of fewer than two steps has no handoff point.")


@app.command(epilog="Example: [bold]handoff view p_3f2a… --view structured[/bold]")
def view(
    point: Annotated[str, typer.Argument(help="A point id, or the beginning of one.")],
    view: Annotated[str, typer.Option(help="repo, trace, summary or structured.")] = "structured",
    data: Data = None,
) -> None:
    """Print exactly what a successor gets at one handoff point under one view."""
    from handoff.project import Project
    from handoff.stages.handoffs import read_briefing

    briefing = read_briefing(Project(data_folder(data)), point, view)
    for message in briefing.messages():
        out.print(f"[bold]── {message.role} ──[/bold]")
        out.print(_shown(message.text, limit=None), markup=False)


# -- results ------------------------------------------------------------------------------------


@app.command(epilog="Example: [bold]handoff audit s_91bd…[/bold]")
def audit(
    sample: Annotated[str | None, typer.Argument(help="A sample id, or the beginning of one.")] = None,
    source: Annotated[Path | None, typer.Option(help="Go forward instead: all that derives from this file.")] = None,
    data: Data = None,
) -> None:
    """Trace a training sample back to its source bytes, or a source file forward to its samples."""
    from handoff import lineage
    from handoff.project import Project

    lake = Project(data_folder(data)).lake
    if source is not None:
        counts = lineage.descendants(lake, str(source))
        _print_pairs(f"derives from {source}", lineage.lines_of(counts))
    elif sample is not None:
        _print_pairs(f"sample {sample}", lineage.lines_of(lineage.ancestry(lake, sample)))
    else:
        raise InputError("say which: a sample id, or --source FILE")


@app.command(epilog="Example: [bold]handoff report --round r001[/bold]")
def report(
    data: Data = None,
    round: Annotated[str | None, typer.Option(help="Round, such as r001. Default: the newest.")] = None,
) -> None:
    """Print a round's table from the lake, and where its page and training files lie."""
    from handoff.project import Project
    from handoff.stages import round_number

    project = Project(data_folder(data))
    done = [p["round"] for p in project.lake.partitions("round_report")]
    if not done:
        raise InputError(f"no round has been reported in {project.root}; run `handoff demo` or materialize round_report")
    chosen = round or done[-1]
    if chosen not in done:
        raise InputError(f"no report for {chosen}; rounds are {', '.join(done)}")
    _print_outcome(project, round_number(chosen))


@app.command(epilog="Example: [bold]handoff doctor[/bold]")
def doctor(data: Data = None) -> None:
    """Say what this machine can do: git, sandboxes, overlay mounts, docker, model endpoint."""
    from handoff.doctor import examine

    table = Table("what", "state", "detail")
    broken = False
    for finding in examine(data_folder(data), os.environ):
        colour = {"ok": "green", "limited": "yellow", "missing": "red", "off": "dim"}[finding.state]
        table.add_row(finding.what, f"[{colour}]{finding.state}[/{colour}]", escape(finding.detail))
        broken = broken or finding.state == "missing"
    out.print(table)
    raise typer.Exit(1 if broken else 0)


def _drive(*arguments: str) -> int:
    """Run Dagster's side in a process of its own: the core does not import it.

    Started with ``-c``: workers import the main module of the process that starts them, and need none of this one.
    """
    program = "import sys; from handoff_assets.driver import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", program, *arguments], check=False).returncode


# -- printing -----------------------------------------------------------------------------------


def _print_outcome(project: Any, last_round: int) -> None:
    from handoff.report.tables import count_by, takeover_table
    from handoff.stages import round_name

    name = round_name(last_round)
    lines = takeover_table(project.lake.rows("robustness", round=name))
    if lines:
        _print_takeovers(lines, name)
    else:
        out.print(f"No takeover was evaluated in round {name}.")
    for number in range(last_round + 1):
        rows = project.lake.rows("curated_training_set", ["kind"], round=round_name(number))
        counts = ", ".join(f"{kind} {n}" for (kind,), n in count_by(rows, "kind")) or "no rows"
        out.print(f"[bold]curated, round {round_name(number)}[/bold]: {counts}")
    quarantined = project.lake.rows("quarantine", ["file", "record", "field", "problem"])
    out.print(f"[bold]quarantined[/bold]: {len(quarantined)} records")
    for row in quarantined[:5]:
        out.print(f"  {row['file']}, record {row['record']}, {row['field']}: {_shown(row['problem'], 120)}", markup=False)
    for number in range(last_round + 1):
        for row in project.lake.rows("exports", ["path", "format", "rows"], round=round_name(number)):
            if row["path"].endswith((".jsonl", ".jsonl.zst", ".parquet")):
                out.print(f"[bold]{row['format']}[/bold]: {project.exports / row['path']} ({row['rows']} rows)", soft_wrap=True)
    for row in project.lake.rows("round_report", ["path"], round=name):
        out.print(f"[bold]report[/bold]: {project.reports / row['path']}", soft_wrap=True)


def _print_takeovers(lines: Sequence[Any], name: str) -> None:
    from handoff.report.tables import MEASURES

    table = Table(
        title=f"Takeovers on held-out repositories, round {name}; below each figure its 95 % interval (resampled by task)",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
    )
    table.add_column("view", no_wrap=True)
    table.add_column("successor", no_wrap=True)
    for _, heading, _ in MEASURES:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    previous = ""
    for line in lines:
        if previous and line.view != previous:
            table.add_section()
        cells = [f"{cell.text}\n[dim]{cell.interval}[/dim]" for cell in line.cells]
        counts = f"{line.n_runs} runs\n[dim]{line.n_tasks} tasks[/dim]"
        table.add_row(line.view if line.view != previous else "", escape(line.arm), *cells, counts)
        previous = line.view
    Console(highlight=False, width=max(out.width, TABLE_WIDTH)).print(table)


def _print_shard(project: Any, shard: str) -> None:
    from handoff.report.tables import count_by

    lake = project.lake
    table = Table("what", "how many", title=f"shard {shard}")
    for row in lake.rows("sources", shard=shard):
        table.add_row(escape(_shown(row["path"])), f"{row['trajectories']} trajectories, {row['quarantined']} quarantined")
    table.add_row("steps", str(lake.read("steps", ["step"], shard=shard).num_rows))
    finals: dict[str, tuple[str, str | None]] = {}
    for row in lake.rows("repository_states", ["trajectory_id", "status", "reason"], shard=shard):
        finals[row["trajectory_id"]] = (row["status"], row["reason"])
    for (status, reason), n in count_by([{"s": s, "r": r} for s, r in finals.values()], "s", "r"):
        table.add_row(f"states {status}", f"{n} trajectories" + ("" if reason == "–" else f": {escape(_shown(reason, 160))}"))
    labels = [{"label": label} for row in lake.rows("injected_handoffs", ["labels"], shard=shard) for label in row["labels"]]
    for (label,), n in count_by(labels, "label"):
        table.add_row(f"points {label}", str(n))
    table.add_row("views", str(lake.read("view_renderings", ["view"], shard=shard).num_rows))
    out.print(table)
    quarantined = lake.rows("quarantine", shard=shard)
    for row in quarantined[:20]:
        out.print(f"quarantined: {row['file']}, record {row['record']}, {row['field']}: {_shown(row['problem'], 200)} {_shown(row['remedy'], 200)}", markup=False)
    if len(quarantined) > 20:
        out.print(f"… and {len(quarantined) - 20} more in the quarantine table")


def _print_pairs(title: str, pairs: Sequence[tuple[str, str]]) -> None:
    table = Table(title=escape(title), show_header=False)
    for label, value in pairs:
        table.add_row(f"[bold]{escape(label)}[/bold]", escape(_shown(value, 2_000)))
    out.print(table)


def _shown(text: str, limit: int | None = 200) -> str:
    """Text of unknown origin, safe on a terminal: control characters become symbols."""
    from handoff.report.page import visible

    return visible(text, limit if limit is not None else sys.maxsize)


def _pairs(options: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for option in options:
        name, equals, place = option.partition("=")
        if not (name and equals and place):
            raise InputError(f"--repository {option!r}: write NAME=PATH or NAME=URL")
        pairs[name] = place if "://" in place else str(Path(place).resolve())
    return pairs


def _warn_about_sandbox(project: Any) -> None:
    from handoff.sandbox import HOST_WARNING, available

    if project.settings.sandbox == "host" or (project.settings.sandbox == "auto" and available()["bubblewrap"]):
        err.print(f"[yellow]warning[/yellow] {escape(HOST_WARNING)}")


class _progress:  # noqa: N801 - used like a function
    """``with _progress() as report: work(report("title"))``: one line, updated in place on a terminal."""

    def __enter__(self) -> Callable[[str], Callable[[int, int], None]]:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._bars = Progress(
            TextColumn("{task.description:<34}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), console=err
        )
        self._bars.start()
        return self._report

    def _report(self, title: str) -> Callable[[int, int], None]:
        task = self._bars.add_task(title, total=None)

        def advance(done: int, total: int) -> None:
            self._bars.update(task, completed=done, total=total)

        return advance

    def __exit__(self, *_: object) -> None:
        self._bars.stop()


if __name__ == "__main__":
    main()
