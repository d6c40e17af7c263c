"""``handoff lint``: training files looked at, ours or anybody's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from handoff.errors import InputError
from handoff.terminal import out, print_wide, progress, shown, table


def lint(
    paths: Annotated[list[Path], typer.Argument(help="Files or folders: JSON Lines, JSON, Parquet; .gz and .zst too.")],
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help="A folder with tokenizer.json and a chat template: masks and lengths by it.", show_default=False
        ),
    ] = None,
    context: Annotated[
        int | None, typer.Option(min=1, help="Tokens of the model's context.", show_default=False)
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON here.", show_default=False)] = None,
    preview: Annotated[
        int | None,
        typer.Option(min=1, help="Instead: show this row of the first file with its mask.", show_default=False),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--html", help="With --preview: as a page, here.", show_default=False)
    ] = None,
) -> None:
    """Look at training files: calls and answers, arguments, turns, what is trained, secrets, repeats, splits.

    Exit code 0: nothing wrong; 1: errors (with --strict also warnings).
    """
    from handoff.exports.tokenised import Tokens
    from handoff.lake import write_file
    from handoff.lint import Options
    from handoff.lint import lint as run

    tokens = Tokens.of(tokenizer) if tokenizer is not None else None
    if page is not None and preview is None:
        raise InputError("--html shows one row: say which with --preview")
    if preview is not None:
        _preview(paths, preview, tokens, page)
        return
    with progress() as report:
        found = run(paths, Options(tokens=tokens, context=context), report("looking at files"))
    if json is not None:
        import msgspec

        write_file(json, msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    _print(found)
    if found.errors or (strict and found.warnings):
        raise typer.Exit(1)


def _print(found: Any) -> None:
    from handoff.lint import CODES

    if found.counts:
        listed = table("code", "", "rows", "what", "first at")
        for code, count in found.counts.items():
            own = CODES[code]
            first = found.places[code][0]
            place = f"{Path(first.file).name}:{first.row} {first.place} {first.detail}".strip()
            listed.add_row(code, own.severity, f"{count:,}", f"{own.meaning}; {own.remedy}", shown(place, 160))
        print_wide(listed)
    shapes = ", ".join(f"{shape} {count:,}" for shape, count in sorted(found.shapes.items())) or "none"
    out.print(f"{found.rows:,} rows in {found.files:,} files: {escape(shapes)}", soft_wrap=True)
    if sum(found.coverage):
        most = max(found.coverage)
        out.print("share of a row that is trained:")
        for tenth, count in enumerate(found.coverage):
            if count:
                bar = "█" * max(1, round(30 * count / most))
                out.print(f"  {tenth * 10:3d} to {tenth * 10 + 10:3d} %  {bar} {count:,}", highlight=False)
    verdict = f"{found.errors:,} errors, {found.warnings:,} warnings"
    out.print(f"[{'red' if found.errors else 'green'}]{verdict}[/]")


def _preview(paths: list[Path], number: int, tokens: Any, page: Path | None) -> None:
    from handoff.lake import write_file
    from handoff.lint import preview
    from handoff.lint.reading import find, rows
    from handoff.lint.shapes import recognise

    path = find(paths)[0]
    read = next((one for one in rows(path) if one.number == number), None)
    if read is None or read.row is None:
        raise InputError(f"{path}: no row {number} that can be read")
    row = recognise(read.row)
    if row is None:
        raise InputError(f"{path}, row {number}: of no known shape; its keys are {', '.join(list(read.row)[:12])}")
    try:
        found = list(preview.blocks(row, tokens))
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise InputError(
            f"{path}, row {number}: a value of another type than its shape has ({error}); lint it first"
        ) from error
    if page is not None:
        write_file(page, preview.page(found, f"{path.name}, row {number}").encode())
        out.print(f"page: {escape(str(page))}", soft_wrap=True)
        return
    legend = "  ".join(f"[{style}]{letter} {role}[/]" for role, (letter, style, _) in preview.STYLES.items())
    out.print(f"letters at the left: {legend}; capitals are trained")
    for block in found:
        out.print(f"[bold]{escape(shown(block.heading))}[/bold]")
        for piece in block.pieces:
            letter, style, _ = preview.STYLES.get(piece.role, preview.STYLES["context"])
            mark = letter if piece.weight else letter.lower()
            for line in piece.text.split("\n"):
                if line:
                    out.print(Text(f"  {mark} "), Text(shown(line, None), style=style), sep="", soft_wrap=True)
