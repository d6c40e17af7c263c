"""``handoff export``: training files from the command line. Arguments in, one call, a table out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handoff.cli_options import Data, data_folder
from handoff.errors import InputError
from handoff.terminal import print_exports, print_gates, print_shard, progress

Formats = Annotated[
    list[str] | None,
    typer.Option(
        "--to", help="A format, several times for several; `--list` names them.", show_default="as handoff.toml says"
    ),
]


def export(
    paths: Annotated[list[Path] | None, typer.Argument(help="Files or folders of trajectories to read first.")] = None,
    to: Formats = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to. Default: exports/ROUND in the data folder.", show_default=False)
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help="A folder with tokenizer.json and a chat template, for formats of tokens.", show_default=False
        ),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(min=64, help="Most tokens of such a row; longer samples are split.", show_default=False),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(help="action_only, actobs, echo or env_prediction_rows.", show_default="as handoff.toml says"),
    ] = None,
    compress: Annotated[bool, typer.Option("--compress", help="JSON Lines with zstd.")] = False,
    unjudged: Annotated[
        bool, typer.Option("--unjudged", help="Also recordings of which nobody knows whether they solved their task.")
    ] = False,
    round: Annotated[str | None, typer.Option(help="Round, such as r001.", show_default="the newest")] = None,
    listed: Annotated[bool, typer.Option("--list", help="Name the formats.")] = False,
    data: Data = None,
) -> None:
    """Write training files: the samples of a round and of recorded runs, in the formats that trainers read."""
    import msgspec

    from handoff.corpus import files
    from handoff.exports import FORMATS
    from handoff.project import ExportSettings, Project, shard_name
    from handoff.stages import exports as stage
    from handoff.stages.curation import curated_training_set
    from handoff.stages.reading import read_shard
    from handoff.stages.recorded import recorded_samples

    if listed:
        print("\n".join(FORMATS))
        return
    project = Project(data_folder(data))
    own = project.settings
    wanted = {
        "formats": tuple(to) if to else None,
        "loss": loss,
        "tokenizer": str(tokenizer) if tokenizer else None,
        "context": context,
        "compress": compress or None,
    }
    changed = msgspec.to_builtins(own.exports) | {name: value for name, value in wanted.items() if value is not None}
    try:
        exports = msgspec.convert(changed, ExportSettings)
    except msgspec.ValidationError as error:
        raise InputError(f"{error}; see `handoff export --help`") from error
    exports.exporters()  # says what is wrong before anything is read
    recorded = msgspec.structs.replace(own.recorded, unjudged=unjudged or own.recorded.unjudged)
    project = Project(project.root, msgspec.structs.replace(own, exports=exports, recorded=recorded))
    if paths:
        if next(files(paths), None) is None:
            raise InputError(
                f"{paths[0]}: no files in it; name a folder that holds some (hidden names are passed over)"
            )
        name = shard_name(paths[0].resolve().name)
        places = tuple(str(path.absolute()) for path in paths)
        project.check_free(name, places)
        project.add_shard(name, places, {})
        with progress() as report:
            read_shard(project, name, report)
        if not project.lake.count("raw_trajectories", shard=name):
            print_shard(project, name)
            raise InputError(f"{paths[0]}: no trajectory in it; above is what each file lacks")
    with progress():
        for partition in project.lake.partitions("view_renderings"):
            recorded_samples(project, partition["shard"])
        rounds = [partition["round"] for partition in project.lake.partitions("curated_training_set")]
        chosen = round or (rounds[-1] if rounds else "r000")
        if round and round not in rounds:
            raise InputError(f"no samples of {round}; rounds are {', '.join(rounds) or 'none'}")
        if not rounds:
            curated_training_set(project, chosen)
        if not stage.has_samples(project, chosen):
            print_gates(project)
            raise InputError(
                f"there is no sample in {project.root}: recordings give some where they are known to have solved their "
                "task (`--unjudged` admits those that nobody judged), and executed takeovers do (`handoff demo`)"
            )
        stage.exports(project, chosen, formats=exports.formats, folder=out)
    print_exports(project, chosen)
