"""``handoff study …``: the two studies from the command line. Arguments in, one call, tables out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from handoff.cli_options import Data, data_folder, warn_about_sandbox
from handoff.terminal import progress

if TYPE_CHECKING:
    from handoff.project import Project
    from handoff.studies.planning import Plan

study = typer.Typer(
    name="study",
    help="What handing over costs: handoff debt of views, and handoff tax of switching models.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Name = Annotated[
    str | None,
    typer.Option(
        help=r"A study of \[studies.NAME] in handoff.toml; else what the results are called.", show_default=False
    ),
]
Tasks = Annotated[
    list[str] | None,
    typer.Option(help="SHARD whose recordings or tasks are used. Default: the embedded world's test tasks."),
]
Most = Annotated[int | None, typer.Option(min=1, help="Only the first so many tasks.", show_default=False)]
Seeds = Annotated[int | None, typer.Option(min=1, help="Repetitions of everything.", show_default="1")]
OnlyPlan = Annotated[bool, typer.Option("--plan", help="Say what it will cost, and start nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Start although it costs money.")]


@study.command(epilog="Example: [bold]handoff study debt --successor local --tasks mine --plan[/bold]")
def debt(
    successor: Annotated[
        list[str] | None, typer.Option(help=r"A trained arm, or a NAME of \[successors.NAME].", show_default="A, E")
    ] = None,
    view: Annotated[
        list[str] | None, typer.Option(help="Compared with repo.", show_default="trace, summary, structured")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Kinds of points.", show_default="the three of the paper and ours")
    ] = None,
    tasks: Tasks = None,
    most_tasks: Most = None,
    seeds: Seeds = None,
    name: Name = None,
    plan: OnlyPlan = False,
    yes: Yes = False,
    data: Data = None,
) -> None:
    """Handoff debt: what a successor spends under each view, against the bare repository, at the same points."""
    from handoff.stages import debt_study as stage
    from handoff.stages.study_runs import page_of
    from handoff.studies.design import DebtStudy
    from handoff.terminal_study import print_debt

    project, called, design = _chosen(
        data,
        name,
        DebtStudy,
        {
            "successors": successor,
            "views": view,
            "labels": label,
            "tasks": tasks,
            "most_tasks": most_tasks,
            "seeds": seeds,
        },
    )
    if not _may_start(called, stage.plan_debt(project, design), plan, yes):
        return
    with progress() as report:
        stage.handoff_debt(project, design, called, report("takeovers"))
    print_debt(project.lake.rows("handoff_debt", study=called), page_of(project, called))


@study.command(epilog="Example: [bold]handoff study tax --low local --high vendor --tasks mine --plan[/bold]")
def tax(
    low: Annotated[str | None, typer.Option(help="The model of low capability.", show_default="A")] = None,
    high: Annotated[str | None, typer.Option(help="The model of high capability.", show_default="B")] = None,
    direction: Annotated[
        list[str] | None, typer.Option(help="escalation (low → high) or downshift.", show_default="both")
    ] = None,
    timing: Annotated[
        list[str] | None, typer.Option(help="p5, stuck:4, tail:20, …", show_default="p5 to p50, stuck:4, tail:20")
    ] = None,
    interface: Annotated[
        list[str] | None, typer.Option(help="What crosses: a view, drop, window:5, …", show_default="nine of them")
    ] = None,
    price_ratio: Annotated[
        float | None,
        typer.Option(help="Tokens of the low model that one of the high model counts.", show_default="1"),
    ] = None,
    tasks: Tasks = None,
    most_tasks: Most = None,
    seeds: Seeds = None,
    name: Name = None,
    plan: OnlyPlan = False,
    yes: Yes = False,
    data: Data = None,
) -> None:
    """Handoff tax: two models switched in the middle of a task, by direction, timing and interface."""
    from handoff.stages import tax_study as stage
    from handoff.stages.study_runs import page_of
    from handoff.studies.design import TaxStudy
    from handoff.terminal_study import print_tax

    project, called, design = _chosen(
        data,
        name,
        TaxStudy,
        {
            "low": low,
            "high": high,
            "directions": direction,
            "timings": timing,
            "interfaces": interface,
            "price_ratio": price_ratio,
            "tasks": tasks,
            "most_tasks": most_tasks,
            "seeds": seeds,
        },
    )
    if not _may_start(called, stage.plan_tax(project, design), plan, yes):
        return
    with progress() as report:
        stage.handoff_tax(project, design, called, report("single sessions, then switched runs"))
    print_tax(project.lake.rows("handoff_tax", study=called), page_of(project, called))


def _chosen(data: Path | None, name: str | None, kind: Any, options: dict[str, Any]) -> tuple[Project, str, Any]:
    """The project, the study's name, and its design: the settings' under that name, changed by the options."""
    import msgspec

    from handoff.project import Project
    from handoff.studies.design import check_name, study_name

    project = Project(data_folder(data))
    usual = kind.__struct_config__.tag
    design = kind() if name is not None and name not in project.studies() else project.study(name or usual, kind)
    given = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in options.items()
        if value not in (None, [])
    }
    design = msgspec.structs.replace(design, **given)
    called = check_name(name or study_name(design))
    warn_about_sandbox(project)
    return project, called, design


def _may_start(name: str, plan: Plan, only_plan: bool, yes: bool) -> bool:
    """Print the plan; may the study start? ``InputError`` when it costs money and nobody agreed."""
    from handoff.terminal_study import print_plan

    print_plan(name, plan)
    if only_plan:
        return False
    if not yes:
        plan.require_free()
    return True
