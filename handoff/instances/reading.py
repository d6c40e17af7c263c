"""Benchmark instances: which repository and commit a task id means, as a user's files say.

Files are read as people have them (JSON lines, a JSON array or object, Parquet, compressed or not, a folder of them)
with the field names of SWE-bench and its relatives: SWE-Gym, SWE-rebench (``install_config.test_cmd``), SWE-bench-Live
(``test_cmds``), SWE-PolyBench (``test_command``), Multi-SWE-bench (``org``, ``base.sha``, ``fix_patch``) and SWE-smith
(whose ``patch`` plants the bug, ``image_name``)::

    {"instance_id": "o__pager-7", "repo": "o/pager", "base_commit": "1f2e…", "version": "2.1",
     "patch": "diff --git …", "test_patch": "diff --git …", "FAIL_TO_PASS": "[\"tests/test_a.py::test_b\"]"}

What a run may know of an instance (``Instance``) and what only the judge may (``Answer``) are two types, read in two
passes: the first decodes no field of the second. Where answers are kept, and how tests are laid over a state, is in
``answers``. A row that cannot be used is a ``RecordError`` among the problems; it stops nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from handoff.adapters import values
from handoff.errors import InputError, RecordError, StateError
from handoff.framing import Damaged, SourceFile, label
from handoff.git.names import canonical, folder_name
from handoff.states.base import Base

_LONGEST_ID = 300
_LONGEST_LIST = 200_000
"""Tests of one instance."""
_LONGEST_COMMAND = 20_000
"""Characters of a command."""
_SUFFIXES = (".jsonl", ".json", ".ndjson", ".parquet", ".jsonl.gz", ".json.gz", ".jsonl.zst", ".json.zst")
_ROWS = 256
"""Rows of a Parquet file in memory at once."""
_PLANTED = re.compile(r"(?:swesmith|swe-smith)/(?:([^/]+?)__([^/]+)\.[0-9a-f]{7,40})?", re.I)
_ID = ("instance_id", "task_id")
_REPO = ("repo", "repo_name", "repository")
_IMAGE = ("image_name", "docker_image", "image")
_PUBLIC = (*_IMAGE, *_ID, *_REPO, "org", "number", "base_commit", "base", "environment_setup_commit", "version")
_PATCH = ("patch", "fix_patch", "gold_patch")
_FAIL_TO_PASS = ("FAIL_TO_PASS", "fail_to_pass", "F2P", "f2p_tests")
_PASS_TO_PASS = ("PASS_TO_PASS", "pass_to_pass", "P2P", "p2p_tests")
_COMMAND = ("install_config", "test_cmd", "test_cmds", "test_command")
_SEALED = (*_PUBLIC, *_PATCH, "test_patch", *_FAIL_TO_PASS, *_PASS_TO_PASS, *_COMMAND)

Fields = Mapping[str, Any]
"""The fields of one row that were asked for, as JSON values."""


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """What a run may know of its task's instance. Nothing of the solution or its tests."""

    instance_id: str
    repo: str | None = None
    base_commit: str | None = None
    """7 to 40 hex digits; a branch name is none."""
    environment_setup_commit: str | None = None
    version: str | None = None
    image: str | None = None
    """A docker image in which the task's programs are."""
    file: str = ""
    """The name of the file that says so."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What only the judge may know of an instance. It goes to the sealed folder and nowhere else."""

    instance_id: str
    patch: str = ""
    """The reference solution."""
    planted: str = ""
    """SWE-smith: the change that planted the bug; its inverse is the solution."""
    test_patch: str = ""
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    command: str = ""
    """The shell line that runs its tests; ``{files}`` stands for the files that hold them."""


T = TypeVar("T", Instance, Answer)


class Read(NamedTuple):
    """What instance files say about some tasks."""

    by_id: Mapping[str, Instance]
    """Task id → instance."""
    problems: tuple[RecordError, ...]
    """Rows that cannot be used, and ids that two rows explain differently."""


NONE = Read({}, ())


def read_instances(paths: Sequence[Path], wanted: Collection[str] | None = None) -> Read:
    """The instances of these files (``wanted``: only of these task ids, the others are passed over unread).

    An id that two rows give different repositories or commits is not used. ``InputError``: a path that is no such file.
    """
    found: dict[str, Instance] = {}
    problems: list[RecordError] = []
    contradictory: set[str] = set()
    for instance in _each(paths, _PUBLIC, _instance, problems):
        ids = dict.fromkeys((instance.instance_id, values.task_of(instance.instance_id) or ""))
        for id_ in ids:
            if not id_ or (wanted is not None and id_ not in wanted):
                continue
            known = found.setdefault(id_, instance)
            if not _agree(known, instance) and id_ not in contradictory:
                contradictory.add(id_)
                problems.append(
                    RecordError(
                        f"{id_!r} has another repository or base commit than in {known.file}.",
                        file=instance.file,
                        field="$.base_commit",
                        remedy="The id is not used; leave one of the two out.",
                    )
                )
    return Read({id_: found[id_] for id_ in sorted(found.keys() - contradictory)}, tuple(problems))


def read_answers(paths: Sequence[Path], wanted: Collection[str]) -> dict[str, Answer]:
    """The answers of some instances, by instance id, the first row of each. For the sealed folder alone."""
    found: dict[str, Answer] = {}
    for answer in _each(paths, _SEALED, _answer, []):
        if answer.instance_id in wanted:
            found.setdefault(answer.instance_id, answer)
    return dict(sorted(found.items()))


def named_base(instance: Instance, repo: str | None) -> Base | None:
    """The base commit that an instance names for a run in ``repo``; ``None`` when it is about another repository."""
    if instance.base_commit is None or not _same(repo, instance.repo):
        return None
    return Base(instance.base_commit, f"named by instance {instance.instance_id} of {instance.file}")


def original_of(repo: str | None) -> str | None:
    """The repository that a copy with planted bugs was made of: ``swesmith/owner__name.<commit>`` → ``owner/name``."""
    found = _PLANTED.fullmatch(repo or "")
    return f"{found[1]}/{found[2]}".lower() if found and found[1] else None


def planted_branch(instance: Instance) -> str | None:
    """The branch that a bug was planted on: SWE-smith's copies have one for each instance, named after it."""
    return instance.instance_id if instance.base_commit is None and original_of(instance.repo) else None


def contradiction(instance: Instance, repo: str | None, base_commit: str | None) -> str | None:
    """In what an instance contradicts the recording, which is believed; ``None`` when it does not."""
    if not _same(repo, instance.repo):
        return f"instance {instance.instance_id} of {instance.file} is of {instance.repo!r}, the recording of {repo!r}"
    theirs = instance.base_commit
    if base_commit and theirs and not (theirs.startswith(base_commit) or base_commit.startswith(theirs)):
        return (
            f"instance {instance.instance_id} of {instance.file} begins at {theirs[:12]}, the recording at "
            f"{base_commit[:12]}"
        )
    return None


def _agree(one: Instance, other: Instance) -> bool:
    a, b = one.base_commit, other.base_commit
    return _same(one.repo, other.repo) and (a is None or b is None or a.startswith(b) or b.startswith(a))


def _same(repo: str | None, other: str | None) -> bool:
    """Whether two names can be those of one repository, or of one and its copy with planted bugs."""
    if not repo or not other or canonical(repo) == canonical(other):
        return True
    return original_of(other) == canonical(repo)


# -- files ----------------------------------------------------------------------------------------


def instance_files(paths: Sequence[Path]) -> list[Path]:
    """The files at these paths, folders walked. ``InputError`` for a path that does not exist or holds none."""
    found: list[Path] = []
    for path in paths:
        if path.is_file():
            found.append(path)
            continue
        inside = sorted(p for p in path.rglob("*") if p.name.endswith(_SUFFIXES) and p.is_file() and not p.is_symlink())
        if not inside:
            problem = "no file of instances in it" if path.is_dir() else "no such file"
            raise InputError(f"{label(path)}: {problem}; name a JSON lines, JSON or Parquet file of instances")
        found += inside
    return found


def _each(
    paths: Sequence[Path], names: Sequence[str], build: Callable[[Fields, str], T], problems: list[RecordError]
) -> Iterator[T]:
    for path in instance_files(paths):
        rows = _parquet_rows(path, names) if path.name.endswith(".parquet") else _json_rows(path, names)
        for number, row in rows:
            try:
                if isinstance(row, RecordError):
                    raise row
                yield build(row, path.name)
            except RecordError as error:
                problems.append(error.at(label(path), number))


def _parquet_rows(path: Path, names: Sequence[str]) -> Iterator[tuple[int, Fields | RecordError]]:
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            columns = [name for name in names if name in file.schema_arrow.names]
            for batch in file.iter_batches(batch_size=_ROWS, columns=columns):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pa.ArrowException, OSError, ValueError) as error:
        cause = str(error).splitlines()[0] if str(error) else type(error).__name__
        yield number + 1, RecordError(f"It cannot be read as Parquet: {cause}.", remedy="Export the file again.")


def _json_rows(path: Path, names: Sequence[str]) -> Iterator[tuple[int, Fields | RecordError]]:
    for item in SourceFile(path):
        if isinstance(item, Damaged):
            yield item.error.record, item.error
            continue
        try:
            keys = item.keys
        except RecordError as error:
            yield item.position, error
            continue
        for row in [keys] if _is_row(keys) else list(_rows_inside(keys)):
            yield item.position, _fields(row, names)


def _is_row(keys: Mapping[str, Any]) -> bool:
    return any(name in keys for name in _ID) or {"org", "number"} <= keys.keys()


def _rows_inside(keys: Mapping[str, msgspec.Raw]) -> Iterator[Mapping[str, msgspec.Raw]]:
    """Rows of an object that holds them by id, or under one key (``rows``, ``data``; each perhaps under ``row``)."""
    for key, raw in keys.items():
        listed: Any = None
        for kind in (dict[str, msgspec.Raw], list[dict[str, msgspec.Raw]]):
            try:
                listed = msgspec.json.decode(raw, type=kind)
                break
            except (msgspec.DecodeError, RecursionError):
                continue
        for row in listed if isinstance(listed, list) else [listed] if listed else []:
            if not _is_row(row) and "row" in row:
                try:
                    row = msgspec.json.decode(row["row"], type=dict[str, msgspec.Raw])
                except (msgspec.DecodeError, RecursionError):
                    continue
            if _is_row(row):
                yield row
            elif isinstance(listed, dict) and "base_commit" in row:
                yield {**row, "instance_id": msgspec.Raw(msgspec.json.encode(key))}


def _fields(row: Mapping[str, msgspec.Raw], names: Sequence[str]) -> Fields | RecordError:
    found: dict[str, Any] = {}
    for name in names:
        if name in row:
            try:
                found[name] = msgspec.json.decode(row[name])
            except (msgspec.DecodeError, RecursionError) as error:
                return RecordError(f"The field is no JSON: {error}.", field=f"$.{name}", remedy="Export the row again.")
    return found


# -- rows -----------------------------------------------------------------------------------------


def _instance(row: Fields, file: str) -> Instance:
    repo, base = _repo(row), row.get("base")
    commit = row.get("base_commit")
    if commit is None and isinstance(base, dict):
        commit = base.get("sha")
    return Instance(
        instance_id=_id(row),
        repo=repo,
        base_commit=values.commit(commit if isinstance(commit, str) else None),
        environment_setup_commit=values.commit(_text(row, "environment_setup_commit")),
        version=_text(row, "version"),
        image=next((name for field in _IMAGE if (name := _image(row.get(field)))), None),
        file=file,
    )


def _answer(row: Fields, file: str) -> Answer:
    patch = next((text for name in _PATCH if (text := _text(row, name))), "")
    is_planted = bool(_PLANTED.match(_repo(row) or ""))
    return Answer(
        instance_id=_id(row),
        patch="" if is_planted else patch,
        planted=patch if is_planted else "",
        test_patch=_text(row, "test_patch") or "",
        fail_to_pass=_tests(row, _FAIL_TO_PASS),
        pass_to_pass=_tests(row, _PASS_TO_PASS),
        command=_command(row),
    )


def _id(row: Fields) -> str:
    id_ = next((text for name in _ID if (text := _text(row, name))), None)
    if id_ is None and _text(row, "org") and _text(row, "repo") and isinstance(row.get("number"), int | str):
        id_ = f"{row['org']}__{row['repo']}-{row['number']}"
    if id_ is None:
        raise RecordError("The row has no id.", field="$.instance_id", remedy="Name the task in `instance_id`.")
    if len(id_) > _LONGEST_ID or not id_.isprintable():
        raise RecordError("The id is no name.", field="$.instance_id", remedy="Use up to 300 printable characters.")
    return id_


def _repo(row: Fields) -> str | None:
    repo = next((text for name in _REPO if (text := _text(row, name))), None)
    if repo is None:
        return values.repository_of(_text(row, "instance_id"))
    org = _text(row, "org")
    if org and "/" not in repo:
        repo = f"{org}/{repo}"
    try:
        folder_name(repo)
    except StateError as error:
        raise RecordError("The repository has no name.", field="$.repo", remedy="Write owner/name.") from error
    return repo


def _text(row: Fields, name: str) -> str | None:
    value = row.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        if name == "version" and isinstance(value, int | float):
            return str(value)
        raise RecordError("The field is no text.", field=f"$.{name}", remedy="Export the row again.")
    return value


_IMAGE_NAME = re.compile(
    r"[A-Za-z0-9][\w.-]*(?::\d{1,5}(?=/))?(?:/[\w.-]+)*(?::\w[\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?", re.A
)


def is_image(name: str) -> bool:
    """Whether this can name a docker image: no option, no path of a file, no blank."""
    return len(name) <= 400 and _IMAGE_NAME.fullmatch(name) is not None


def _image(value: Any) -> str | None:
    return value if isinstance(value, str) and is_image(value) else None


def _command(row: Fields) -> str:
    """How a row says that its tests are run. A line of text wants the test files after it, as SWE-bench's harness does
    it; a list is run as it is. What is neither says nothing: the user may."""
    config = row.get("install_config")
    if isinstance(config, str):
        try:
            config = msgspec.json.decode(config.encode("utf-8", "replace"))
        except (msgspec.DecodeError, RecursionError):
            config = None
    own = config.get("test_cmd") if isinstance(config, dict) else None
    for value in (own, row.get("test_cmd"), row.get("test_cmds"), row.get("test_command")):
        if isinstance(value, list) and value and all(isinstance(line, str) for line in value):
            text = "\n".join(value)
        elif isinstance(value, str):
            text = value.strip() if value == row.get("test_command") else f"{value.strip()} {{files}}"
        else:
            continue
        if text.replace("{files}", "").strip() and len(text) <= _LONGEST_COMMAND and "\0" not in text:
            return text
    return ""


def _tests(row: Fields, names: Iterable[str]) -> tuple[str, ...]:
    """Names of tests: a list, a JSON list as text, or an object whose keys they are."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str):
            try:
                value = msgspec.json.decode(value.encode("utf-8", "replace")) if value.strip() else None
            except (msgspec.DecodeError, RecursionError) as error:
                raise RecordError(
                    "It is no list of tests.", field=f"$.{name}", remedy="Export the row again."
                ) from error
        if isinstance(value, list | dict):
            if len(value) > _LONGEST_LIST:
                raise RecordError("It lists too many tests.", field=f"$.{name}", remedy="Leave the row out.")
            # A table of many rows has all their names in each: those of others hold nothing.
            named = value if isinstance(value, list) else [name for name, held in value.items() if held is not None]
            return tuple(str(item) for item in named)
    return ()
