"""What commands print: tables of a shard, of a round, of a chain of rows. No rule lives here, and no argument is read.

Text from trajectories is hostile: whatever reaches a terminal goes through ``shown``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from handoff.environment import KINDS

if TYPE_CHECKING:
    from handoff.environment import Surroundings
    from handoff.framing import Record
    from handoff.quality import Quality
    from handoff.report.corpus import CorpusReport
    from handoff.stages.states import RunStates

TABLE_WIDTH = 164
"""Columns that the largest table needs; a narrower terminal wraps it, so that no figure is cut."""

PLAIN_WIDTH = 100
"""Columns of everything else when the output is no terminal."""

_LISTED = 12
"""Lines of one kind that a summary shows; the rest is counted."""

_UNHELD = {"submodules": "submodule", "lfs_pointers": "LFS pointer"}
"""What a base commit names and its repository does not hold: column of ``state_verdicts`` → in words."""

_IS_WIDTH_KNOWN = sys.stdout.isatty() or "COLUMNS" in os.environ

out = Console(highlight=False, width=None if _IS_WIDTH_KNOWN else PLAIN_WIDTH)
err = Console(stderr=True, highlight=False)


def shown(text: str, limit: int | None = 200) -> str:
    """Text of unknown origin, safe on a terminal: control characters become symbols."""
    from handoff.report.page import visible

    return visible(text, limit if limit is not None else sys.maxsize)


def line(text: str, limit: int = 200) -> str:
    """As ``shown``, for what must stay on its line: a name cannot look like the next line of a report."""
    return shown(text.replace("\n", "␊").replace("\t", "␉"), limit)


def complain(problem: str) -> None:
    """One line on stderr, however long and whatever it quotes."""
    err.print(f"[red]error[/red] {escape(shown(' '.join(problem.split()), None))}", soft_wrap=True)


def table(*headings: str, title: str | None = None) -> Table:
    """A table without walls, which breaks a long word rather than cutting it off; ``title`` is ours, never a user's."""
    made = Table(*headings, title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for column in made.columns:
        column.overflow = "fold"
    return made


def print_wide(table: Table) -> None:
    """A table of figures, none of which is cut: a narrow terminal wraps its lines instead."""
    Console(highlight=False, width=max(out.width, TABLE_WIDTH)).print(table)


def print_pairs(title: str, pairs: Iterable[tuple[str, str]]) -> None:
    """A heading and lines of (label, text)."""
    lines = Table.grid(padding=(0, 2))
    for label, value in pairs:
        lines.add_row(f"[bold]{escape(label)}[/bold]", escape(shown(value, 2_000)))
    out.print(f"[bold]{escape(shown(title, None))}[/bold]", soft_wrap=True)
    out.print(lines)


# -- one run ------------------------------------------------------------------------------------


def print_quality(quality: Quality) -> None:
    """A run's signals by rule, how it used what its tools answered, whether it is leaked, and why it failed."""
    from handoff.quality import NAMES

    listed = table("signal", "steps", "for example")
    for name in NAMES:
        rules = sorted({signal.rule for signal in quality.signals if signal.name == name})
        for rule in rules:
            found = [signal for signal in quality.signals if (signal.name, signal.rule) == (name, rule)]
            more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
            steps = ", ".join(str(signal.step) for signal in found[:_LISTED]) + more
            listed.add_row(f"{name}: {rule}", steps, escape(shown(found[0].reason)))
    if quality.signals:
        out.print(listed)
    use = quality.use
    out.print(
        f"[bold]answers[/bold]: {use.understood} of {use.responses} heeded; "
        f"calls after an answer: {use.planned:g} of {use.plans} were no bad call"
    )
    if quality.leak is not None:
        text = f"leaked, step {quality.leak.step}: {quality.leak.reason}; its outcome counts for nothing"
        out.print(shown(text, 400), style="yellow", markup=False)
    for failure in quality.failures or ():
        steps = ", ".join(map(str, failure.steps))
        out.print(shown(f"failed by {failure.category}, steps {steps}: {failure.reason}", 400), markup=False)


def print_record(record: Record) -> None:
    """What of a record is not in its runs: parts that cannot be read, replaced characters, fields without a home."""
    for problem in record.problems[:_LISTED]:
        out.print(line(f"left out: {problem}", 400), markup=False, soft_wrap=True)
    if len(record.problems) > _LISTED:
        out.print(f"… and {len(record.problems) - _LISTED} more parts left out")
    if record.repairs:
        out.print(f"replaced: {_n(record.repairs, 'character')} that could not be read")
    losses = record.losses().items()
    _print_losses(({"field": field, "reason": reason, "count": n} for (field, reason), n in losses), "")


def print_surroundings(there: Surroundings, when: str) -> None:
    """What is known of the world outside the repository, and of which kinds nothing is."""
    out.print(f"[bold]outside the repository, {when}[/bold]")
    listed = table("", "", "", "known")
    for kind in KINDS:
        known = there.of(kind)
        for place, item in enumerate(known[:_LISTED]):
            name = item.name if item.value is None else f"{item.name}: {item.value}" if kind != "folder" else item.value
            since = "before the first step" if item.step == 0 else f"since step {item.step}"
            listed.add_row(kind if place == 0 else "", escape(line(name, 160)), item.basis, since)
        if len(known) > _LISTED:
            listed.add_row("", f"… {len(known) - _LISTED} more")
    if there.known:
        out.print(listed)
    if there.unknown:
        out.print(f"nothing is known of: {', '.join(there.unknown)}")


# -- states of one run --------------------------------------------------------------------------

_COLOURS = {"verified": "green", "partial": "yellow", "divergent": "red", "unverifiable": "dim"}


def print_states(run: RunStates) -> None:
    """Every step with its verdict, tree, changed files and checkpoints, and the verdict on the run."""
    from handoff.report.corpus import without_base

    verdict = run.verdict or {}
    evidence = verdict.get("base_evidence")
    pairs = [("trajectory", run.id), ("repository", run.rows[0]["repo"] or "unknown")]
    if verdict:
        known = verdict["base_evidence"]
        pairs.append(("base commit", f"{verdict['base']}, {known}" if verdict["base"] else "unknown"))
        status, category = verdict["status"], verdict["category"]
        judged = status if status == category else f"{status} ({category})"
        pairs.append(("verdict", f"{judged}: {without_base(verdict['reason'], evidence)}"))
        pairs.append(("checkpoints", f"{verdict['checkpoints']} texts agree, {verdict['full_reads']} of whole files"))
        if unheld := [_n(verdict[column], what) for column, what in _UNHELD.items() if verdict[column]]:
            pairs.append(("not held", f"the content of {' and '.join(unheld)} at the base commit"))
        pairs += [
            ("recovered", f"{r['path']}, from step {r['step']} on, by the {r['how']} at step {r['at']}")
            for r in verdict["recoveries"][:_LISTED]
        ]
    facts = Table.grid(padding=(0, 2))
    for label, value in pairs:
        facts.add_row(f"[bold]{label}[/bold]", escape(shown(value, 600)))
    out.print(facts)
    listed = table("step", "state", "tree")
    listed.add_column("changed files", overflow="fold")
    listed.add_column("checks", justify="right")
    listed.add_column("why", overflow="fold")
    reason = ""
    for step in run.steps():
        files = "" if step.files is None else "\n".join(escape(line(name, 120)) for name in step.files[:_LISTED])
        if step.files and len(step.files) > _LISTED:
            files += f"\n… {len(step.files) - _LISTED} more"
        listed.add_row(
            str(step.step),
            f"[{_COLOURS[step.status]}]{step.status}[/{_COLOURS[step.status]}]",
            (step.tree or "none")[:10],
            files,
            "" if not step.checkpoints else str(step.checkpoints),
            "" if step.reason == reason else escape(shown(without_base(step.reason, evidence), 300)),
        )
        reason = step.reason
    out.print(listed)
    if verdict and verdict["hunk"]:
        place = f"step {verdict['step']}, shown at step {verdict['seen_at']}"
        out.print(f"[bold]what differs[/bold] ({place})")
        print_text(verdict["hunk"])
    if run.repository is None:
        out.print("The repository is not at hand, so files and diffs are not shown.")


def print_diff(run: RunStates, step: int) -> None:
    """What one step changed."""
    state = run.rows[step]
    changed = run.diff(step)
    said = f"{state['status']}, tree {state['tree'] or 'unknown'}: {state['reason']}"
    out.print(f"[bold]step {step}[/bold] {escape(shown(said, 600))}", soft_wrap=True)
    if changed:
        print_text(changed)
    elif step == 0:
        out.print("the base commit")
    elif run.repository is None:
        out.print("its repository is not at hand")
    else:
        out.print("no file changed")


def print_text(text: str) -> None:
    """Text of a recording or a repository as it is, made safe."""
    out.print(shown(text.rstrip("\n"), None), markup=False, soft_wrap=True)


def states_json(run: RunStates, steps: Sequence[int], *, with_diffs: bool) -> str:
    """The same as one JSON object, in ASCII. ``steps``: those to tell; with their diffs and surroundings, or not."""
    import json

    views = run.steps()
    told = []
    for number in steps:
        entry: dict[str, Any] = views[number]._asdict()
        if with_diffs:
            there = run.surroundings(number)
            entry["diff"] = run.diff(number)
            entry["outside"] = [item._asdict() for item in there.known]
            entry["unknown_outside"] = list(there.unknown)
        told.append(entry)
    found = {"trajectory_id": run.id, "verdict": run.verdict, "steps": told}
    return json.dumps(found, indent=1)


# -- the corpus ---------------------------------------------------------------------------------


def print_corpus(report: CorpusReport, page: Path) -> None:
    """How far the states of the corpus can be trusted, what stands in the way, what would help."""
    from handoff.report.corpus import CATEGORIES, HOW, STATUSES

    total = report.total
    counts = ", ".join(f"{status} {n:,}" for status, n in zip(STATUSES, total.by_status, strict=True))
    out.print(f"[bold]{_n(total.runs, 'recorded run')}[/bold]: {counts}")
    interval = f" ({total.interval_text})" if total.interval_text else ""
    out.print(
        f"[bold]verified of derivable[/bold]: {total.verified:,} of {total.derivable:,}, {total.text}{interval}; "
        f"{report.checkpoints:,} texts of files agree, {report.full_reads:,} of whole files"
    )
    for heading, lines in (("format", report.by_format), ("repository", report.by_repo)):
        listed = table(heading)
        for title in ("runs", *STATUSES, "derivable", "of these"):
            listed.add_column(title, justify="right", no_wrap=True)
        for share in lines[:_LISTED]:
            name = escape(line(share.name, 60))
            numbers = (f"{n:,}" for n in (share.runs, *share.by_status, share.derivable))
            listed.add_row(name, *numbers, share.text)
        _and_more(listed, len(lines))
        out.print(listed)
    meanings = dict(CATEGORIES)
    listed = table("verdict", "because", "runs", "for example")
    for status, category, runs, example, _ in report.by_category:
        listed.add_row(status, meanings.get(category, category), f"{runs:,}", escape(line(example, 40)))
    out.print(listed)
    told = ", ".join(f"{dict(HOW)[how]} {n:,}" for how, n in report.recoveries)
    out.print(f"[bold]files that no text tells, known from[/bold]: {told}")
    for offender in report.offenders[:5]:
        said = f"{offender.status} {offender.trajectory_id}, {offender.repo or 'not named'}: {offender.reason}"
        out.print(line(said, 400), markup=False, soft_wrap=True, style=_COLOURS[offender.status])
    for item in report.missing[:_LISTED]:
        said = f"{_n(item.runs, 'run')} of {item.repo or 'no named repository'}: {item.remedy}"
        out.print(line(said, 300), markup=False, soft_wrap=True)
    if len(report.missing) > _LISTED:
        out.print(f"… and {len(report.missing) - _LISTED} more repositories")
    out.print(f"[bold]page[/bold]: {escape(str(page))}", soft_wrap=True)


# -- one shard ----------------------------------------------------------------------------------


def print_shard(project: Any, shard: str) -> None:
    """What one ingestion left in the lake: files, states, points, views, quarantine."""
    lake = project.lake
    sources = lake.rows("sources", shard=shard)
    records, kept, repeated, bad = (
        sum(row[name] for row in sources) for name in ("records", "trajectories", "repeated", "quarantined")
    )
    out.print(
        f"[bold]shard {shard}[/bold]: {_n(len(sources), 'file')}, {_n(records, 'record')}: {_n(kept, 'trajectory')} "
        f"with {_n(lake.count('steps', shard=shard), 'step')}, {repeated} repeated, {bad} quarantined"
    )
    _print_files(sources)
    _print_links(lake, shard)
    _print_losses((loss for row in sources for loss in row["losses"]), " (reasons in the table sources)")
    if kept:
        _print_states(lake, shard)
        _print_quality(lake, shard)
        _print_points(project, shard)
    if bad:
        _print_quarantine(lake.rows("quarantine", shard=shard))


def print_instances(counted: tuple[int, int], problems: Sequence[Exception]) -> None:
    """How many runs have an instance, and which rows of instance files cannot be used. ``counted``: runs, all runs."""
    said = f"instances: known for {counted[0]} of {_n(counted[1], 'run')}"
    if problems:
        said += f"; {_n(len(problems), 'row')} not used:"
    out.print(said, markup=False, soft_wrap=True)
    for problem in problems[:_LISTED]:
        out.print(f"  {line(str(problem), 600)}", markup=False, soft_wrap=True)
    if len(problems) > _LISTED:
        out.print(f"  … {len(problems) - _LISTED:,} more")


def print_branches(branches: Iterable[Any]) -> None:
    """What was taken as each branch's work, and as its task."""
    for branch in branches:
        begin = f"beyond {branch.base[:12]}" if branch.base else "from the very first"
        merged = f", merged by {branch.merge[:12]}" if branch.merge else ""
        said = (
            f"{branch.branch}: {_n(len(branch.commits), 'commit')} {begin}{merged}; task from the {branch.task_from}: "
        )
        out.print(shown(said + branch.task), markup=False, soft_wrap=True)


def _print_files(sources: Sequence[Mapping[str, Any]]) -> None:
    listed = table("file", "read as", "trajectories", "quarantined")
    for row in sources[:_LISTED]:
        name = escape(line(row["path"].rsplit("/", 1)[-1]))
        listed.add_row(name, row["framing"], str(row["trajectories"]), str(row["quarantined"]))
    _and_more(listed, len(sources))
    out.print(listed)


def _print_links(lake: Any, shard: str) -> None:
    """Runs that go on from others of the shard: linked, and counted once."""
    rows = lake.rows("raw_trajectories", ["repeats", "repeated_steps", "parent"], shard=shard)
    repeats = [row["repeated_steps"] for row in rows if row["repeats"] is not None]
    children = sum(row["parent"] is not None for row in rows)
    if repeats:
        out.print(
            f"[bold]linked[/bold]: {_n(len(repeats), 'run')} begin with the {sum(repeats):,} steps of earlier ones"
        )
    if children:
        out.print(f"[bold]subagents[/bold]: {_n(children, 'run')} started by another run")


def _print_losses(losses: Iterable[Mapping[str, Any]], aside_in: str) -> None:
    """Fields that found no home, summed; those left on purpose are counted, with the place where reasons are."""
    lost: dict[str, int] = {}
    aside = 0
    for loss in losses:
        if loss["reason"] is None:
            lost[loss["field"]] = lost.get(loss["field"], 0) + loss["count"]
        else:
            aside += loss["count"]
    if lost:
        most = sorted(lost.items(), key=lambda item: (-item[1], item[0]))
        named = ", ".join(f"{line(field, 160)} {count:,}" for field, count in most[:_LISTED])
        more = f" and {len(most) - _LISTED} more" if len(most) > _LISTED else ""
        out.print(f"fields without a home: {named}{more}", markup=False, soft_wrap=True)
    if aside:
        out.print(f"left out on purpose: {_n(aside, 'value')}{aside_in}", markup=False)


def _print_states(lake: Any, shard: str) -> None:
    """States by the verdict on a run's last step, with the reason; one line for all runs that share both."""
    from handoff.report.corpus import reason_of
    from handoff.report.tables import count_by

    verdicts = lake.rows("state_verdicts", ["status", "reason", "base_evidence"], shard=shard)
    finals = ({"status": row["status"], "reason": reason_of(row)} for row in verdicts)
    groups = sorted(count_by(finals, "status", "reason"), key=lambda group: (group[0][0], -group[1]))
    rows = lake.rows("repository_states", ["status"], shard=shard)
    listed = table("final state", "runs", "why")
    for (status, reason), n in groups[:_LISTED]:
        listed.add_row(status, str(n), escape(shown(reason, 400)))
    _and_more(listed, len(groups))
    out.print(listed)
    steps = ", ".join(f"{status} {n}" for (status,), n in count_by(rows, "status"))
    out.print(f"[bold]states after each step[/bold]: {steps}")


def _print_quality(lake: Any, shard: str) -> None:
    """Runs that may have known the solution, and failed runs by category."""
    from handoff.report.tables import count_by

    rows = lake.rows("run_quality", ["leak_step", "failures"], shard=shard)
    leaked = sum(row["leak_step"] is not None for row in rows)
    if leaked:
        out.print(f"[bold]leaked[/bold]: {_n(leaked, 'run')} looked beyond the base commit: their outcome is not used")
    failures = (failure for row in rows for failure in row["failures"] or ())
    counts = ", ".join(f"{category} {n}" for (category,), n in count_by(failures, "category"))
    if counts:
        failed = sum(row["failures"] is not None for row in rows)
        out.print(f"[bold]failed[/bold]: {_n(failed, 'run')} ({counts})")


def _print_points(project: Any, shard: str) -> None:
    from handoff.report.tables import count_by

    lake = project.lake
    columns = ["point_id", "labels", "state_class", "state_class_reason"]
    points = lake.rows("injected_handoffs", columns, shard=shard)
    labels = count_by(({"label": label} for point in points for label in point["labels"]), "label")
    counts = ", ".join(f"{label} {n}" for (label,), n in labels) or "no run has two steps"
    out.print(f"[bold]handoff points[/bold]: {len(points)} ({counts})")
    tested = [point for point in points if point["state_class"] or point["state_class_reason"]]
    if tested:
        classes = ((point["state_class"] or f"unknown ({point['state_class_reason']})") for point in tested)
        listed = count_by(({"class": name} for name in classes), "class")
        said = "; ".join(f"{name} {n}" for (name,), n in listed[:_LISTED])
        out.print(f"states by the task's tests: {shown(said, 2000)}", markup=False, soft_wrap=True)
    out.print(f"[bold]views[/bold]: {lake.count('view_renderings', shard=shard)}")
    if points:
        data = "" if project.root == Path("data").absolute() else f" --data {project.root}"
        out.print(escape(f"See one: handoff view {points[0]['point_id']} --view structured{data}"), soft_wrap=True)


def _print_quarantine(rows: Sequence[Mapping[str, Any]]) -> None:
    """Problems with their remedy; records that share both are one line."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["problem"], row["remedy"]), []).append(row)
    out.print("[bold]quarantined[/bold]")
    for (problem, remedy), same in list(groups.items())[:_LISTED]:
        place = "{file}, record {record}, {field}".format(**same[0])
        more = f" (and {len(same) - 1} more like it)" if len(same) > 1 else ""
        out.print(f"  {line(place)}: {shown(problem)} {shown(remedy, 400)}{more}", markup=False)
    if len(groups) > _LISTED:
        out.print(f"  … and {len(groups) - _LISTED} other problems in the quarantine table")


def _and_more(listed: Table, total: int) -> None:
    if total > _LISTED:
        listed.add_row(f"… {total - _LISTED} more")


def _n(count: int, what: str) -> str:
    plural = what[:-1] + "ies" if what.endswith("y") else what + "s"
    return f"{count:,} {what if count == 1 else plural}"


# -- samples ------------------------------------------------------------------------------------


def print_exports(project: Any, round: str) -> None:
    """The training files of a round, and which gates points of recorded runs passed."""
    files = table("format", "file", "rows", "MB", title=f"training files, round {round}")
    rows = project.lake.rows("exports", ["format", "path", "rows", "bytes"], round=round)
    for row in rows:
        place = project.exports.absolute() / row["path"]
        files.add_row(row["format"], shown(str(place), None), f"{row['rows']:,}", f"{row['bytes'] / 1e6:.2f}")
    print_wide(files)
    for folder in sorted({str((project.exports.absolute() / row["path"]).parent) for row in rows}):
        out.print(f"how to train on it: {escape(folder)}/README.md", soft_wrap=True)
    print_gates(project)


def print_gates(project: Any) -> None:
    """What became of the points of recorded runs."""
    from handoff.report.tables import count_by

    counted = count_by(project.lake.rows("recorded_funnel", ["gate", "verdict"]), "gate", "verdict")
    if counted:
        told = ", ".join(f"{gate} {verdict} {n:,}" for (gate, verdict), n in counted)
        out.print(f"points of recorded runs: {told}", soft_wrap=True)


# -- one round ----------------------------------------------------------------------------------


def print_outcome(project: Any, last_round: int) -> None:
    """A round's table, what was curated and quarantined, and where files and page lie."""
    from handoff.report.tables import count_by, takeover_table
    from handoff.stages import round_name

    name = round_name(last_round)
    lines = takeover_table(project.lake.rows("robustness", round=name))
    if lines:
        _takeovers(lines, name)
    else:
        out.print(f"No takeover was evaluated in round {name}.")
    for number in range(last_round + 1):
        rows = project.lake.rows("curated_training_set", ["kind"], round=round_name(number))
        counts = ", ".join(f"{kind} {n}" for (kind,), n in count_by(rows, "kind")) or "no rows"
        out.print(f"[bold]curated, round {round_name(number)}[/bold]: {counts}")
    quarantined = project.lake.rows("quarantine", ["file", "record", "field", "problem"])
    out.print(f"[bold]quarantined[/bold]: {len(quarantined)} records")
    for row in quarantined[:5]:
        place = shown(f"{row['file']}, record {row['record']}, {row['field']}")
        out.print(f"  {place}: {shown(row['problem'], 120)}", markup=False)
    for number in range(last_round + 1):
        for row in project.lake.rows("exports", ["path", "format", "rows"], round=round_name(number)):
            if row["path"].endswith((".jsonl", ".jsonl.zst", ".parquet")):
                place = escape(str(project.exports / row["path"]))
                out.print(f"[bold]{row['format']}[/bold]: {place} ({row['rows']} rows)", soft_wrap=True)
    for row in project.lake.rows("round_report", ["path"], round=name):
        out.print(f"[bold]report[/bold]: {escape(str(project.reports / row['path']))}", soft_wrap=True)


def _takeovers(lines: Sequence[Any], name: str) -> None:
    from handoff.report.tables import MEASURES

    table = Table(
        title=f"Takeovers on held-out repositories, round {name}; "
        "below each figure its 95 % interval (resampled by task)",
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
        counts = f"{line.runs} runs\n[dim]{line.n_tasks} tasks[/dim]"
        table.add_row(line.view if line.view != previous else "", escape(line.arm), *cells, counts)
        previous = line.view
    print_wide(table)


# -- progress -----------------------------------------------------------------------------------


class progress:
    """``with _progress() as report: work(report("title"))``: one line, updated in place on a terminal."""

    def __enter__(self) -> Callable[[str], Callable[[int, int], None]]:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._bars = Progress(
            TextColumn("{task.description:<34}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), console=err
        )
        self._bars.start()
        return self._report

    def _report(self, title: str) -> Callable[[int, int], None]:
        task = self._bars.add_task(title, total=None, visible=False)

        def advance(done: int, total: int) -> None:
            self._bars.update(task, completed=done, total=total, visible=True)

        return advance

    def __exit__(self, *_: object) -> None:
        self._bars.stop()
