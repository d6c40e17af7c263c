"""The check of ``exports``: every training file is looked at as ``handoff lint`` does."""

from dagster import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    MetadataValue,
    asset_check,
)

from handoff.report.tables import markdown, plain
from handoff_assets.exports import exports
from resources.project import ProjectResource


@asset_check(
    asset=exports,
    name="lint",
    description="Calls and answers, arguments, turns, what is trained, secrets, repeats and splits of every training "
    "file: as `handoff lint` looks at them (docs/lint.md). It warns and stops nothing.",
)
def check(context: AssetCheckExecutionContext, project: ProjectResource) -> AssetCheckResult:
    """Look at the files of the round that was just written; of all rounds when it is started by hand without one."""
    from handoff.lint import CODES, lint

    opened = project.open()
    run = context.op_execution_context
    where = {"round": str(run.partition_key)} if run.has_partition_key else {}
    rows = opened.lake.rows("exports", ["path"], **where)
    files = sorted({path for row in rows if (path := opened.exports.absolute() / row["path"]).is_file()})
    if not files:
        return AssetCheckResult(passed=True, description="no file was written")
    found = lint(files)
    listed = [
        (code, CODES[code].severity, count, CODES[code].meaning, _first(found.places[code][0]))
        for code, count in found.counts.items()
    ]
    return AssetCheckResult(
        passed=not found.errors,
        severity=AssetCheckSeverity.WARN,
        description=f"{found.rows:,} rows in {found.files:,} files: {found.errors:,} errors, "
        f"{found.warnings:,} warnings",
        metadata={
            "rows": found.rows,
            "errors": found.errors,
            "warnings": found.warnings,
            "findings": MetadataValue.md(markdown(["code", "", "rows", "what", "first at"], listed)),
        },
    )


def _first(place: "object") -> str:
    file, row, where, detail = (getattr(place, name) for name in ("file", "row", "place", "detail"))
    return plain(f"{str(file).rpartition('/')[2]}:{row} {where} {detail}", 160)


lint_check: AssetChecksDefinition = check
