"""Small values as sources write them, brought to the canonical form: never a guess, ``None`` when in doubt."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from handoff.framing import Record
from handoff.framing.losses import NOTHING, Repeated, Sealed
from handoff.identity import canonical_json
from handoff.trajectory import Ending, Step, Usage

_COMMIT = re.compile(r"[0-9a-fA-F]{7,40}")
_INSTANCE = re.compile(r"([A-Za-z0-9][\w.-]*?)__([\w.-]+?)-(\d+)(?:_(\d+))?")
_TRY = re.compile(r"\.[a-z0-9]{8}_\d{1,4}\Z")
_PATCHED = re.compile(r"^(?:\+\+\+ b/|--- a/)([^\r\n\t]+)", re.MULTILINE)
_SMITH = re.compile(r"([A-Za-z0-9][\w-]*?)__([\w.-]+?)\.([0-9a-f]{8})\..+")
_SPLITS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "test": "test",
}


_ENDINGS: tuple[tuple[str, Ending], ...] = (
    (r"exit_cost|cost[ _]?limit|budget", "cost_limit"),
    (
        r"exit_context|context[ _]?(?:limit|length|window)|contextwindow|token[ _]?limit|limit[: ]*token",
        "context_limit",
    ),
    (
        r"maximum iteration|max[ _]?(?:iterations|steps|turns)|step[ _]?limit|message[ _]?limit|limitsexceeded",
        "step_limit",
    ),
    (r"exit_total_execution_time|time[ _]?(?:limit|exceeded|out)|timeexceeded|timeout", "time_limit"),
    (r"abort|cancel|interrupt|user_exit|rejected|early_exit|exit_forfeit", "aborted"),
    (r"exit_|error|exception|fail|crash", "error"),
    (r"submit|finish|complete|success|done|resolved", "submitted"),
)
_ENDING = tuple((re.compile(pattern, re.IGNORECASE), ended) for pattern, ended in _ENDINGS)


def ended(status: str | None) -> Ending | None:
    """A harness's exit status in our words; ``None`` when it says nothing we know.

    ``submitted (exit_cost)`` was submitted by the scaffold after a limit, not by the agent: the limit counts.
    """
    if not status:
        return None
    return next((name for pattern, name in _ENDING if pattern.search(status[:500])), None)


def media(kind: str, source: str | bytes | None, mime: str | None = None) -> str:
    """What stands in a text for content that is none: kind, type, and an address or the hash of the bytes.

    The bytes stay in the source file, which lineage finds. ``source``: bytes, a ``data:`` URI, an address, or a name.
    """
    if isinstance(source, str):
        head, comma, body = source.partition(",")
        if not (comma and head.startswith("data:")):
            return (
                f"[{kind}: {source[:300]}]"
                if len(source) < 2_000
                else media(kind, source.encode("utf-8", "replace"), mime)
            )
        mime = mime or head[5:].split(";")[0]
        source = body.encode("utf-8", "replace")
    facts = [mime] if mime else []
    if source:
        facts.append(f"sha256 {hashlib.sha256(source).hexdigest()[:16]}")
    return f"[{kind}: {', '.join(facts)}]" if facts else f"[{kind}]"


def whole(value: Any, bits: int = 63) -> int | None:
    """An integer that fits a column, else ``None``."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value) if abs(value) < 2.0**53 else None
    if isinstance(value, int) and -(1 << bits) <= value < 1 << bits:
        return value
    return None


def real(value: Any) -> float | None:
    """A finite number, else ``None``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def stamp(value: Any) -> str | None:
    """A time as recorded: text, or a number's shortest text."""
    if isinstance(value, str):
        return value or None
    number = real(value)
    if number is None:
        return None
    return str(int(number)) if isinstance(value, int) else repr(number)


def moment(value: Any) -> float | None:
    """Seconds since 1970 of a time in ISO 8601, in UTC where it names no zone; ``None`` for anything else."""
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def facts(**known: Any) -> str:
    """Short facts as a JSON object: what is unknown, empty or of no plain type is left out, long text is cut."""
    kept = {
        name: value[:300] if isinstance(value, str) else value
        for name, value in known.items()
        if value and isinstance(value, str | int | float)
    }
    return canonical_json(kept).decode()


def with_facts(known: str, **more: Any) -> str:
    """``known`` facts and more of them, of any form that JSON has."""
    return canonical_json({**msgspec.json.decode(known, type=dict[str, Any]), **more}).decode()


def flag(value: Any) -> bool | None:
    """A claim the source made; anything but a boolean is unknown."""
    return value if isinstance(value, bool) else None


def quoted(data: bytes) -> str:
    """The text of a JSON string that a struct kept unparsed; what is no text in it is replaced.

    ``RecordError`` when it is no string at all.
    """
    try:
        return msgspec.json.decode(data, type=str)
    except msgspec.DecodeError:
        return Record(data).decode(str)


def unquoted(raw: msgspec.Raw | bytes | None) -> bytes:
    """A JSON value, or the one that a string holds as text."""
    data = bytes(raw or b"")
    return quoted(data).encode().strip() if data[:1] == b'"' else data


def flat(data: bytes) -> bytes:
    """JSON without the indents of the file that holds it; in one line already, it stays as it is."""
    return msgspec.json.format(data, indent=-1) if b"\n" in data else data


def claim(value: Any) -> bool | None:
    """Whether the task's tests passed, as data sets write it: a boolean, 0 or 1, or either as text."""
    if isinstance(value, str):
        return {"true": True, "1": True, "false": False, "0": False}.get(value.strip().lower())
    return bool(value) if value in (0, 1) and isinstance(value, int | float) else None


def tool_definitions(raw: msgspec.Raw | bytes | None) -> str | None:
    """A list of tool definitions as text in one line, kept as a list or as its text; ``None`` when it is none."""
    data = unquoted(raw)
    with suppress(msgspec.DecodeError, RecursionError):
        data = flat(data)
    return data.decode("utf-8", "replace") if data[:1] == b"[" and data != b"[]" else None


class Tested(msgspec.Struct, gc=False):
    """``test_result`` of a row: only the run's own patch is read of it."""

    git_patch: str | None = None
    report: Sealed = NOTHING
    test_output: Sealed = NOTHING
    apply_patch_output: Sealed = NOTHING


def tested(record: Record, raw: msgspec.Raw | None, path: str) -> Tested:
    """A test result kept as an object or as its text."""
    data = unquoted(raw)
    return (record.under(data, Tested, path) if data[:1] == b"{" else None) or Tested()


def is_patch_of(patch: str, steps: Sequence[Step]) -> bool:
    """True when a diff touches a file that the run named: some sets carry diffs of other tasks."""
    said = "\n".join([action.arguments for step in steps for action in step.actions])
    for path in _PATCHED.findall(patch):
        folder, _, name = path.rpartition("/")
        if name in said and folder.rpartition("/")[2] in said:
            return True
    return False


def commit(value: str | None) -> str | None:
    """A commit hash, full or short; a branch name or ``HEAD`` pins nothing and is unknown."""
    return value if value and _COMMIT.fullmatch(value) else None


def split(value: str | None) -> str | None:
    """One of our three splits when the source names one."""
    return _SPLITS.get((value or "").strip().lower())


def repository_of(instance_id: str | None) -> str | None:
    """``owner/repo`` of an instance id in the SWE-bench or SWE-smith form."""
    if not instance_id:
        return None
    found = _INSTANCE.fullmatch(instance_id) or _SMITH.fullmatch(instance_id)
    return f"{found[1]}/{found[2]}" if found else None


def task_of(instance_id: str | None) -> str | None:
    """The task of an instance id: several tries of one task carry a number after it."""
    if not instance_id:
        return None
    found = _INSTANCE.fullmatch(instance_id)
    if found is None and _SMITH.fullmatch(instance_id):
        return _TRY.sub("", instance_id)
    return instance_id[: found.start(4) - 1] if found and found[4] else instance_id


class UsageRow(msgspec.Struct, gc=False):
    """Token counts as chat APIs report them."""

    prompt_tokens: Any = None
    completion_tokens: Any = None
    input_tokens: Any = None
    output_tokens: Any = None
    cached_tokens: Any = None
    prompt_cache_hit_tokens: Any = None
    prompt_tokens_details: Any = None
    cache_read_input_tokens: Any = None
    cache_creation_input_tokens: Any = None
    prompt_cache_miss_tokens: Repeated = NOTHING
    total_tokens: Repeated = NOTHING


def usage(row: UsageRow | None) -> Usage | None:
    """Token counts, when at least one is known.

    ``prompt_tokens`` includes what the cache served; Anthropic's ``input_tokens`` includes neither that nor what was
    written to the cache.
    """
    if row is None:
        return None
    details = row.prompt_tokens_details
    cached = _count(
        details.get("cached_tokens") if isinstance(details, dict) else None,
        row.prompt_cache_hit_tokens,
        row.cached_tokens,
        row.cache_read_input_tokens,
    )
    prompt = _count(row.prompt_tokens)
    if prompt is None:
        parts = [
            _count(part) for part in (row.input_tokens, row.cache_read_input_tokens, row.cache_creation_input_tokens)
        ]
        prompt = sum(part or 0 for part in parts) if parts[0] is not None else None
    return tokens(prompt=prompt, cached=cached, completion=_count(row.completion_tokens, row.output_tokens))


def tokens(*, prompt: Any = None, cached: Any = None, completion: Any = None) -> Usage | None:
    """Token counts of one call; ``None`` when no count is known. ``prompt`` includes ``cached``."""
    counts = (_count(prompt), _count(cached), _count(completion))
    return None if counts == (None, None, None) else Usage(prompt=counts[0], cached=counts[1], completion=counts[2])


def _count(*values: Any) -> int | None:
    for value in values:
        number = whole(value)
        if number is not None and number >= 0:
            return number
    return None
