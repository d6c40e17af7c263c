"""Where one project's data lies, and its settings.

A project is one folder (``data/`` beside the code unless told otherwise)::

    inbox/      drop files or folders here: each becomes a shard
    lake/       the tables (lake.py)
    git/        bare repositories (mirrors); rebuilt states are written into them
    branches/   git branches that were read as runs, one file a shard
    journal/    what successors and writers answered, before it was used
    policies/   trained weights          exports/    training files by round
    reports/    HTML by round            sandboxes/  scratch of running takeovers
    sealed/     what only the judge and the oracle may read

Settings come from ``handoff.toml`` in that folder, when there is one. Nothing here reads the environment.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args

import msgspec

from handoff.endpoints.settings import Endpoint
from handoff.errors import InputError
from handoff.exports import USUAL, Exporter, Loss, LossMode, Tokens, get_exporters
from handoff.framing import RECORD_LIMIT, stored_name
from handoff.git.repositories import Repositories
from handoff.git.repository import KEPT_BYTES
from handoff.judging.settings import TestRule
from handoff.lake import Lake, write_file
from handoff.samples import ENV_WEIGHT
from handoff.studies.design import DebtStudy, Study, TaxStudy, check_name
from handoff.successors.settings import Command
from handoff.views import ALL_VIEWS, parse_view

SHARD_FILE = ".shard.json"
"""An inbox entry ``<shard>.shard.json`` names files that stay where they are."""


TAKEN_NAMES = frozenset({"A", "A+opening", "B", "E", "expert", "oracle", "resampled", "replay"})
"""Names of successors that the embedded world has."""

USUAL_STUDIES: dict[str, Study] = {"debt": DebtStudy(), "tax": TaxStudy()}
"""Studies of the embedded world, which nobody has to describe."""

SandboxName: TypeAlias = Literal["auto", "bubblewrap", "docker", "host"]

StudyKind = TypeVar("StudyKind", DebtStudy, TaxStudy)

_Positive = Annotated[int, msgspec.Meta(ge=1)]


class KataSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of the embedded world to generate."""

    train: _Positive = 36
    validation: _Positive = 4
    test: _Positive = 10


class WorstPointSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of each shard is searched for worst points in a round (docs/science.md §10)."""

    runs: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Recorded runs. None unless asked for: a search takes ``budget`` takeovers and some more."""
    budget: _Positive = 120
    """Takeovers of one search that choose."""
    successor: str = "E"
    """Who takes over: a trained policy, or one that ``[successors.NAME]`` describes."""
    view: str = "repo"
    """What it is given."""


class SalvageSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is made of runs beside their solves (docs/science.md §11)."""

    relabelled: bool = True
    """Failed takeovers that made some tests pass, as successes of that smaller task."""
    recovery: bool = True
    """Ways out of wrong turns of recorded runs."""


class RecordedSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which samples the rest of recorded runs gives (docs/science.md §11)."""

    per_run: Annotated[int, msgspec.Meta(ge=0)] = 2
    """Handoff points of one run. 0: none of any."""
    per_task: _Positive = 8
    """Of all runs of one task."""
    unjudged: bool = False
    """Also runs of which nobody knows whether they solved their task."""


class BranchingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other moves in failed takeovers that a round collects (docs/science.md §11)."""

    runs: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Takeovers of each failed one. None unless asked for."""


class ExportSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a round's samples are written for trainers (docs/exports.md)."""

    formats: tuple[str, ...] = USUAL
    loss: LossMode = "action_only"
    """What bears loss beside the replies."""
    env_weight: Annotated[float, msgspec.Meta(ge=0, le=1)] = ENV_WEIGHT
    """λ1 of loss ``echo``."""
    tokenizer: str = ""
    """A folder with ``tokenizer.json`` and a chat template, for formats that hold tokens."""
    context: _Positive | None = None
    """Tokens of the longest row of those formats; longer samples are split. ``None``: none is."""
    compress: bool = False
    """JSON Lines with zstd."""

    def exporters(self) -> tuple[Exporter, ...]:
        """``InputError``: an unknown format, or a tokenizer that is missing or is none."""
        tokens = Tokens.of(Path(self.tokenizer).expanduser(), self.context) if self.tokenizer else None
        return get_exporters(self.formats, loss=Loss(mode=self.loss, env_weight=self.env_weight), tokens=tokens)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a user may set in ``handoff.toml``."""

    seed: int = 7
    sandbox: SandboxName = "auto"
    """``bubblewrap``, ``docker`` (real repositories only, in the task's image), ``host`` (kata code only) or ``auto``:
    bubblewrap where it works."""
    workers: _Positive = 2
    """Takeovers run at once, beside those on endpoints."""
    step_budget: _Positive = 30
    """Model calls a successor may make."""
    token_budget: _Positive = 400_000
    """Prompt tokens a successor may spend, summed over its calls."""
    dollar_budget: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """US dollars a successor on an endpoint may spend on one takeover. ``None``: no limit."""
    successors: dict[str, Endpoint | Command] = {}
    """``[successors.NAME]``: models on endpoints, and agents that are commands, that can take over."""
    evaluate: tuple[str, ...] = ()
    """Which of them every later round runs beside the trained arms. None unless named: they cost money."""
    collect: tuple[str, ...] = ()
    """Which of them every round runs on training points: what solves its task becomes samples (docs/endpoints.md)."""
    views: tuple[str, ...] = ()
    """Further views of every point, beside the four: ``window:N``, ``diff``, ``diet``, ``compact_pre``, ``compact_suf``
    (``views/interfaces.py``)."""
    writer: str = ""
    """Which of ``successors`` writes the ``summary`` and ``structured`` views, and compactions that ``views`` names, at
    the points at which a round starts those of ``evaluate``; beside what rules write. Empty: only rules write."""
    writer_dollar_budget: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """US dollars that a model may spend on writing one view. ``None``: no limit."""
    points_per_run: _Positive = 2
    """Handoff points of one trajectory that successors are started from."""
    record_limit: _Positive = RECORD_LIMIT
    """Bytes of the longest record that is read; a longer one is quarantined."""
    ingest_workers: _Positive | None = None
    """Processes that read large inputs. Default: one a core that may be used, at most four. No row depends on it."""
    repositories: dict[str, str] = {}
    """Repository name → local mirror or URL."""
    rerun_steps: bool = False
    """Execute steps whose effect no text tells again, in a jail, to rebuild states after them."""
    offline: bool = False
    """Ask no URL of ``repositories``: only what is on this machine is used."""
    instances: tuple[str, ...] = ()
    """Files of benchmark instances (``states/instances.py``): they name repository and base commit of a task id."""
    tests: dict[str, TestRule] = {}
    """``[tests."owner/name"]``, or ``owner/*``, or ``*``: how tests of real repositories are run, and with which
    programs successors work there."""
    test_states: bool = False
    """Run the tests of instances on the states of handoff points, for their class (docs/science.md §1)."""
    templates_mb: _Positive = KEPT_BYTES // 1_000_000
    """Disk that clean checkouts of base commits may take; those unused for longest go first."""
    worst_points: WorstPointSettings = WorstPointSettings()
    branching: BranchingSettings = BranchingSettings()
    salvage: SalvageSettings = SalvageSettings()
    recorded: RecordedSettings = RecordedSettings()
    exports: ExportSettings = ExportSettings()
    studies: dict[str, Study] = {}
    """``[studies.NAME]``: comparisons of views or of models (``docs/studies.md``). ``debt`` and ``tax`` are there
    without being described."""
    kata: KataSettings = KataSettings()

    def __post_init__(self) -> None:
        for name in self.successors:
            if name in TAKEN_NAMES:
                raise InputError(
                    f"[successors.{name}]: the embedded world has a successor {name!r}; choose another name"
                )
            if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", name) is None:
                allowed = "letters, digits, '.', '_' and '-', at most 40"
                raise InputError(f"[successors.{name}]: {name!r} cannot name a successor; use {allowed}")
        for name, study in self.studies.items():
            check_name(name)
            if (usual := USUAL_STUDIES.get(name)) is not None and type(usual) is not type(study):
                raise InputError(f"[studies.{name}]: {name} is the name of another kind of study; choose another name")
        for name, successor in self.successors.items():
            model = successor.endpoint if isinstance(successor, Command) else ""
            if model and not isinstance(self.successors.get(model), Endpoint):
                raise InputError(
                    f"[successors.{name}] names the endpoint {model!r}; describe that model under [successors.{model}]"
                )
        for setting, names in (("evaluate", self.evaluate), ("collect", self.collect)):
            for name in names:
                if name not in self.successors:
                    raise InputError(f"{setting} names {name!r}; describe it under [successors.{name}]")
        if self.writer and not isinstance(self.successors.get(self.writer), Endpoint):
            raise InputError(f"writer names {self.writer!r}; describe that endpoint under [successors.{self.writer}]")
        for name in self.views:
            parse_view(name)

    @property
    def further_views(self) -> tuple[str, ...]:
        """The names in ``views`` of those that are not there anyway, each once, sorted."""
        return tuple(sorted({parse_view(name).name for name in self.views} - set(ALL_VIEWS)))


class ShardSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one shard is read from."""

    paths: tuple[str, ...]
    repositories: dict[str, str] = {}
    instances: tuple[str, ...] = ()
    repo: str | None = None
    """Where runs that name no repository worked, as the user says."""


class Project:
    """One data folder with its settings."""

    def __init__(self, root: Path, settings: Settings | None = None) -> None:
        self.root = root.absolute()
        self.settings = settings if settings is not None else _read_settings(self.root / "handoff.toml")
        self.lake = Lake(self.root / "lake")

    def with_seed(self, seed: int) -> Project:
        """The same project under another seed, written down so that every later command uses it.

        ``InputError`` when the folder already holds data of a different seed.
        """
        if seed == self.settings.seed:
            return self
        path = self.root / "handoff.toml"
        if path.exists() or self.lake.root.exists():
            raise InputError(
                f"{self.root} belongs to seed {self.settings.seed}; choose another folder with --data, "
                f"or set `seed = {seed}` in {path} and delete the rest"
            )
        write_file(path, f"seed = {seed}\n".encode())
        return Project(self.root)

    def __repr__(self) -> str:
        return f"Project({str(self.root)!r})"

    @property
    def inbox(self) -> Path:
        """Drop folder."""
        return self.root / "inbox"

    @property
    def git(self) -> Path:
        """Bare repositories."""
        return self.root / "git"

    def branch_file(self, shard: str) -> Path:
        """Where the branches of a shard are written down. ``InputError`` when that is no shard's name."""
        return self.root / "branches" / f"{_checked(shard)}.jsonl"

    @property
    def journal(self) -> Path:
        """Answers of successors."""
        return self.root / "journal"

    @property
    def policies(self) -> Path:
        """Trained weights."""
        return self.root / "policies"

    @property
    def sealed(self) -> Path:
        """What only the judge and the oracle may read."""
        return self.root / "sealed"

    @property
    def exports(self) -> Path:
        """Training files."""
        return self.root / "exports"

    @property
    def reports(self) -> Path:
        """HTML reports."""
        return self.root / "reports"

    # -- studies --------------------------------------------------------------------------------

    def studies(self) -> dict[str, Study]:
        """Every study by name: those of the settings, and the usual ones of the embedded world."""
        return dict(sorted({**USUAL_STUDIES, **self.settings.studies}.items()))

    def study(self, name: str, kind: type[StudyKind]) -> StudyKind:
        """One study of a kind; ``InputError`` when there is none of that name, or it is of another kind."""
        found = self.studies().get(name)
        if found is None:
            known = ", ".join(self.studies())
            raise InputError(f"no study {name!r}: describe it under [studies.{name}]; studies are: {known}")
        if not isinstance(found, kind):
            other = found.__struct_config__.tag
            raise InputError(f"{name} is a {other} study; run `handoff study {other} --name {name}`")
        return found

    # -- shards ---------------------------------------------------------------------------------

    def shards(self) -> dict[str, ShardSource]:
        """Every shard in the inbox, by name. A dropped file or folder is one; hidden names are not."""
        found: dict[str, ShardSource] = {}
        if not self.inbox.is_dir():
            return found
        for entry in sorted(self.inbox.iterdir()):
            if entry.name.startswith("."):
                continue
            if entry.name.endswith(SHARD_FILE):
                name = entry.name.removesuffix(SHARD_FILE)
                found[name] = self._described(entry)
            else:
                name = shard_name(entry.name)
                if name in found:  # a.json beside a.jsonl: both come in
                    name = f"{name}-{hashlib.sha256(entry.name.encode()).hexdigest()[:6]}"
                found[name] = ShardSource(paths=(str(entry),))
        return found

    def _described(self, entry: Path) -> ShardSource:
        try:
            source = msgspec.json.decode(entry.read_bytes(), type=ShardSource)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{entry}: not a shard description ({error}); delete it and ingest again") from error
        paths = tuple(str(self.root / path) for path in source.paths)
        instances = tuple(str(self.root / path) for path in source.instances)
        return msgspec.structs.replace(source, paths=paths, instances=instances)

    def shard(self, name: str) -> ShardSource:
        """One shard; ``InputError`` that lists the others when there is no such shard."""
        shards = self.shards()
        if name not in shards:
            raise InputError(f"no shard {name!r} in {self.inbox}; shards are: {', '.join(shards) or 'none yet'}")
        return shards[name]

    def add_shard(
        self,
        name: str,
        paths: tuple[str, ...],
        repositories: Mapping[str, str],
        instances: tuple[str, ...] = (),
        repo: str | None = None,
    ) -> None:
        """Register files that stay where they are. Those inside this folder are named from it, and move with it."""
        _checked(name)
        source = ShardSource(
            paths=tuple(stored_name(Path(path), self.root) for path in paths),
            repositories=dict(sorted(repositories.items())),
            instances=tuple(stored_name(Path(path), self.root) for path in instances),
            repo=repo,
        )
        write_file(self.inbox / f"{name}{SHARD_FILE}", msgspec.json.format(msgspec.json.encode(source)))

    def check_free(self, name: str, paths: tuple[str, ...], repositories: Mapping[str, str] | None = None) -> None:
        """``InputError`` when a shard of this name is read from files beside ``paths``: those would take its place.

        With ``repositories``, also when it is made of other repositories than these (branches of a namesake).
        """
        known = self.shards().get(name)
        others = {stored_name(Path(path), self.root) for path in known.paths} if known is not None else set()
        others -= {stored_name(Path(path), self.root) for path in paths}
        if known is not None and repositories is not None:
            others |= {place for repo, place in known.repositories.items() if repositories.get(repo) != place}
        if others:
            raise InputError(
                f"shard {name!r} is read from {min(others)}: give this one a name of its own with --shard NAME, "
                f"or replace that one with --shard {name}"
            )

    def repositories(self, shard: str) -> Repositories:
        """The repositories a shard's trajectories may name."""
        own = self.settings
        kept = own.templates_mb * 1_000_000
        return Repositories(self.git, self.mapping(shard), is_offline=own.offline, kept_bytes=kept)

    def instance_files(self, shard: str) -> list[Path]:
        """Files that explain the task ids of a shard: its own before those of the settings."""
        places = (*self.shard(shard).instances, *(str(self.root / path) for path in self.settings.instances))
        return [Path(place) for place in dict.fromkeys(places)]

    def mapping(self, shard: str) -> dict[str, str]:
        """Repository name → source, as ``Repositories`` takes it. The embedded world's share one store."""
        kata = {"kata/*": str(self.git / "kata.git")}
        return {**kata, **self.settings.repositories, **self.shard(shard).repositories}


def with_sandbox(project: Project, name: str) -> Project:
    """The same project with commands run in another sandbox. ``InputError`` when there is none of that name."""
    settings = msgspec.structs.asdict(project.settings)
    try:
        chosen = msgspec.convert({"sandbox": name}, Settings).sandbox
    except msgspec.ValidationError as error:
        known = ", ".join(get_args(SandboxName))
        raise InputError(f"no sandbox {name!r}; there are: {known}") from error
    return Project(project.root, Settings(**{**settings, "sandbox": chosen}))


def _checked(shard: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", shard) is None:
        raise InputError(f"{shard!r} cannot name a shard; use letters, digits, '.', '_' and '-'")
    return shard


def shard_name(file_name: str) -> str:
    """A shard's name from a file name: what a partition key may hold."""
    stem = file_name.split(".")[0] or "shard"
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in stem).strip("-_") or "shard"


def _read_settings(path: Path) -> Settings:
    try:
        return parse_settings(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return Settings()
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {_explained(error, path)}") from error
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}; mend the file or delete it") from error


def _explained(error: msgspec.ValidationError, path: Path) -> str:
    """What is wrong in which table: of ``$.successors[...]`` the name, of an unknown setting those that there are."""
    if "$." not in str(error):
        known = ", ".join(field.name for field in msgspec.structs.fields(Settings))
        return f"{error}; the settings are {known}: see {__name__}"
    table = str(error).partition("$.")[2].partition("[...]")[0]
    kind = {"successors": Endpoint | Command, "studies": Study, "tests": TestRule}.get(table)
    named = _with_kinds(tomllib.loads(path.read_text("utf-8"))).get(table)
    for name, described in named.items() if kind is not None and isinstance(named, dict) else ():
        try:
            msgspec.convert(described, kind)
        except msgspec.ValidationError as own:
            return f"[{table}.{name}]: {own}"
    return str(error)


def parse_settings(text: str) -> Settings:
    """Settings as they stand in a file. ``InputError``, ``msgspec.ValidationError`` or ``TOMLDecodeError``."""
    return msgspec.convert(_with_kinds(tomllib.loads(text)), Settings)


def _with_kinds(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with a kind in every successor: a model on an endpoint where none is named."""
    named = settings.get("successors")
    if isinstance(named, dict):
        for successor in named.values():
            if isinstance(successor, dict):
                successor.setdefault("kind", "openai")
    return settings
