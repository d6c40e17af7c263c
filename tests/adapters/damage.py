"""Damaged copies of records: bytes flipped, cut and put in, and JSON values swapped for others at any depth."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from handoff.actions import context_of, trajectory_keys
from handoff.adapters import convert
from handoff.corpus.columns import HeadColumns, StepColumns, read_heads, read_steps
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.trajectory import trajectory_id

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**63, 2**200, 1.5, 1e308, "", "x", "\ud800", "\x00\x1b[31m", "../../etc/passwd"),
    *([], {}, [[]], [None], {"": None}, [{}], "{}", "[]", '{"a": 1}', "null", "a" * 5_000, ["bash", "-lc", "ls"]),
)
SNIPPETS = (b"\xff", b"\\ud800", b"null", b"[", b'"', b"1e999", b"\x00", b"{}", b"9" * 30, b"\n", b"}", b",")


def damaged(record: Record, rng: random.Random) -> Record:
    """One damaged copy."""
    data = _swapped(record, rng) if rng.random() < 0.6 else None
    return Record(
        _broken(record.data, rng) if data is None else data,
        file=record.file,
        position=record.position,
        form=record.form,
        context=record.context if rng.random() < 0.9 else rng.choice([b"{}", b"", b"null", b"[1", b'{"eval": 3}']),
    )


def _broken(data: bytes, rng: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(found) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(found):
            found[at] = rng.randrange(256)
        elif kind == 1:
            del found[at : at + rng.randrange(1, 60)]
        elif kind == 2:
            found[at:at] = rng.choice(SNIPPETS)
        else:
            del found[at:]
    return bytes(found)


def _swapped(record: Record, rng: random.Random) -> bytes | None:
    """Values replaced, fields removed or doubled, items moved; ``None`` when it is not JSON."""
    try:
        if record.form == "lines":
            values = [json.loads(line) for line in record.data.split(b"\n") if line.strip()]
        elif record.form == "json":
            values = [json.loads(record.data)]
        else:
            return None
    except ValueError:
        return None
    for _ in range(rng.randrange(1, 4)):
        places = list(_places(values))
        if not places:
            return None
        holder, key = rng.choice(places)
        kind = rng.randrange(5)
        if kind == 0 and isinstance(holder, dict):
            del holder[key]
        elif kind == 1 and isinstance(holder, list):
            holder.insert(rng.randrange(len(holder) + 1), holder[key])
        elif kind == 2 and isinstance(holder, list):
            holder.append(holder.pop(key))
        else:
            holder[key] = copy.deepcopy(rng.choice(VALUES))
    texts = [json.dumps(value).encode() for value in values]
    return b"\n".join(texts) if record.form == "lines" else texts[0] if texts else b""


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in it, without recursion."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        for key, item in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            yield holder, key
            if isinstance(item, dict | list):
                waiting.append(item)


def kept_as_run(record: Record) -> bool:
    """True when it was still a run. Anything but ``RecordError`` is a failure."""
    try:
        runs = convert(record)
    except RecordError as error:
        assert error.problem and error.remedy
        return False
    assert runs
    assert all(error.problem and error.remedy for error in record.problems)
    record.losses()
    for run in runs:
        heads, columns = HeadColumns(), StepColumns()
        id_ = trajectory_id(run)
        columns.add(id_, run.steps, trajectory_keys(run.steps, context=context_of(run.format, run.source)))
        heads.add(id_, run, file="", record=1, part=1, sha256="")
        assert tuple(read_steps(columns.batch())) == run.steps
        assert [row[0] for row in read_heads(heads.batch())] == [id_]
    return True
