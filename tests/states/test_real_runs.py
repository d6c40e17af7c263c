"""Real recordings: what replaying them gives, held against what their humans accepted.

The repository of a Claude Code session is built here from the recording itself, which holds the text of every file as
it was first read or edited; the end must be the blobs of the commit that was made of the session (the first digits of
their ids stand below). With ``HANDOFF_TEST_REPOSITORIES`` naming a folder of bare clones (``owner__name.git``), these
and other runs are replayed on their whole real repositories, too; without it those tests are skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from handoff.adapters import convert
from handoff.framing import Record, SourceFile
from handoff.git.repositories import Repositories
from handoff.git.repository import Repository
from handoff.states.base import Base, find_base
from handoff.states.proof.verdict import Category, Replay, Status
from handoff.states.replay import replay
from handoff.trajectory import Trajectory
from tests.states.histories import Made, make

# -- on what the recording itself shows ------------------------------------------------------------


class Session(NamedTuple):
    """A session, its verdict, and what was accepted of it."""

    name: str
    status: Status
    category: Category
    opaque: int | None
    """The first step whose effect no text tells."""
    checkpoints: tuple[int, int]
    """Texts that agree; of these, whole files."""
    accepted: Mapping[str, str]
    """Path → the beginning of its blob id in the commit that was made of the session."""


SESSIONS = (
    Session(
        *("03_82579310fc_0", "verified", "verified", None, (6, 6)),
        {"cmd/entire/cli/integration_test/setup_cmd_test.go": "3b6edb373353"},
    ),
    Session(
        *("35_3ab06abc46_0", "verified", "verified", None, (35, 10)),
        {
            "cmd/entire/cli/checkpoint/temporary.go": "071e316d6894",
            "cmd/entire/cli/strategy/manual_commit_git.go": "de1e98d39b7a",
            "cmd/entire/cli/strategy/manual_commit_test.go": "b641b4cf3feb",
        },
    ),
    Session(
        *("a6_e4c2a0fbd1_0", "verified", "verified", None, (10, 8)),
        {"cmd/entire/cli/hooks_claudecode_handlers.go": "50a0377263e1"},
    ),
    Session(*("ee_8f793bfeb9_0", "verified", "verified", None, (8, 8)), {".goreleaser.yaml": "94cc45bf0f05"}),
    Session(
        *("20_14bbff865d_0", "partial", "opaque_step", 11, (13, 10)), {"cmd/entire/cli/paths/paths.go": "868edf0c01a0"}
    ),
    Session(
        *("42_d34ec97ff8_0", "partial", "opaque_step", 9, (22, 20)),
        {
            "cmd/entire/cli/checkpoint/id/id.go": "777779b65b13",
            "cmd/entire/cli/trailers/trailers_test.go": "c6eb23d3c110",
        },
    ),
    Session(*("9f_d2fc39aa5f_0", "partial", "opaque_step", 8, (18, 18)), {}),
)
"""The formatter that a step of the last three runs may have changed any file, so what follows is not verified."""


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_a_session_ends_in_what_was_accepted(corpus: Path, tmp_path: Path, session: Session) -> None:
    """On a commit that holds its files as they were first shown; that commit is found by them."""
    file = corpus / "claude_code" / "entire" / f"{session.name}.jsonl"
    texts = first_texts(file)
    made = Made({path.encode(): ("100644", text.encode()) for path, text in sorted(texts.items())})
    (commit,) = make(tmp_path / "r.git", [made], {"main": 0})
    with Repository(tmp_path / "r.git") as repository:
        run = next(runs_of(file))
        found = find_base(run, repository)
        assert found is not None
        assert found.commit == commit
        assert found.evidence.startswith("found: ")
        replayed = replay(run, "t_1", repository)
        assert (replayed.status, replayed.category) == (session.status, session.category)
        assert next((step.step for step in replayed.opaque), None) == session.opaque
        assert (replayed.checkpoints, replayed.full_reads) == session.checkpoints
        assert replayed.divergence is None
        tree = replayed.trees[-1]
        assert tree is not None
        for path, blob in session.accepted.items():
            entry = repository.entry(tree, path)
            assert entry is not None
            assert entry[1].startswith(blob), path
        if session.status == "verified":
            assert set(replayed.statuses) == {"verified"}
            assert set(repository.changed(repository.tree_of(commit), tree)) == set(session.accepted)


def first_texts(file: Path) -> dict[str, str]:
    """Path → text of every file of a session's folder that was shown whole before it was changed."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    root: str | None = None
    for line in file.read_text(encoding="utf-8").splitlines():
        value = json.loads(line)
        root = root or value.get("cwd")
        path, text = _shown(value.get("toolUseResult"))
        if path is None or root is None or not path.startswith(f"{root}/") or path in seen:
            continue
        seen.add(path)
        if text is not None:
            found[path[len(root) + 1 :]] = text
    return found


def _shown(result: Any) -> tuple[str | None, str | None]:
    """The file that a result is of, and its text before anything was done; no text for a new file."""
    if not isinstance(result, dict):
        return None, None
    read = result.get("file")
    if isinstance(read, dict):
        whole = read.get("startLine") == 1 and read.get("numLines") == read.get("totalLines")
        return (read.get("filePath"), read.get("content")) if whole else (None, None)
    if "originalFile" in result:
        return result.get("filePath"), result["originalFile"]
    return None, None


# -- on the whole real repository ------------------------------------------------------------------


class Real(NamedTuple):
    """A run, the commit it began on, and its verdict there."""

    file: str
    repo: str
    base: str
    status: Status
    category: Category
    step: int | None = None
    """Where it diverges."""
    record: int = 0


REAL = (
    Real("claude_code/entire/03_82579310fc_0.jsonl", "entireio/cli", "5f136a8dad", "verified", "verified"),
    Real("claude_code/entire/35_3ab06abc46_0.jsonl", "entireio/cli", "a917ebd228", "verified", "verified"),
    Real("claude_code/entire/a6_e4c2a0fbd1_0.jsonl", "entireio/cli", "b6f016d7f5", "verified", "verified"),
    Real("claude_code/entire/ca_fca7ea73ac_0.jsonl", "entireio/cli", "ad35cc84dc", "verified", "verified"),
    Real("claude_code/entire/ee_8f793bfeb9_0.jsonl", "entireio/cli", "e5914c3aff", "verified", "verified"),
    Real("claude_code/entire/20_14bbff865d_0.jsonl", "entireio/cli", "c0a210cede", "partial", "opaque_step"),
    Real("claude_code/entire/9f_d2fc39aa5f_0.jsonl", "entireio/cli", "9450c8a11d", "partial", "opaque_step"),
    Real("claude_code/entire/cc_ad8c8a2043_0.jsonl", "entireio/cli", "1b3fc60881", "divergent", "read_mismatch", 0),
    Real("claude_code/entire/89_7eb280e769_20.jsonl", "entireio/cli", "1b3fc60881", "divergent", "read_mismatch", 0),
    Real(
        *("sweagent_v1/marshmallow-1867.function_calling_replace_from_source.traj", "marshmallow-code/marshmallow"),
        *("bfd2593d4b", "verified", "verified"),
    ),
    Real(
        *("sweagent_v0/marshmallow-1867.xml_cursors.traj", "marshmallow-code/marshmallow"),
        *("bfd2593d4b", "verified", "verified"),
    ),
    Real(
        *("sweagent_v0/marshmallow-1867.default_from_source.traj", "marshmallow-code/marshmallow"),
        *("bfd2593d4b", "verified", "verified"),
    ),
    Real("aider/astropy__astropy-12907.md", "astropy/astropy", "d16bfe05a7", "verified", "verified"),
    Real("aider/pydata__xarray-4248.md", "pydata/xarray", "98dc1f4ea1", "verified", "verified"),
    Real(
        *("codex/rollout-2026-05-11T11-26-55-019e1625-789d-76c0-80ab-3724b5ddb799.jsonl", "codemie-ai/codemie-code"),
        *("c8c252acd8", "verified", "verified"),
    ),
)


@pytest.fixture(scope="module")
def clones(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repositories]:
    """The clones of a folder that the environment names, mirrored: states are written to the mirrors."""
    named = os.environ.get("HANDOFF_TEST_REPOSITORIES")
    if not named:
        pytest.skip("HANDOFF_TEST_REPOSITORIES names no folder of bare clones")
    mapping = {path.stem.replace("__", "/", 1): path for path in Path(named).glob("*__*.git")}
    with Repositories(tmp_path_factory.mktemp("git"), mapping) as repositories:
        yield repositories


@pytest.mark.parametrize("real", REAL, ids=lambda real: Path(real.file).name)
def test_a_real_run_on_its_real_repository(corpus: Path, clones: Repositories, real: Real) -> None:
    """The base is named by the recording, or found; the verdict is what the recording and its repository say."""
    if real.repo not in clones.mapping:
        pytest.skip(f"{real.repo} is not among the clones")
    repository = clones.open(real.repo)
    found, replayed = replayed_on(repository, next(runs_of(corpus / real.file)))
    assert found is not None
    assert found.commit.startswith(real.base)
    assert (replayed.status, replayed.category) == (real.status, real.category)
    assert (replayed.divergence.step if replayed.divergence else None) == real.step


def replayed_on(repository: Repository, run: Trajectory) -> tuple[Base | None, Replay]:
    return find_base(run, repository), replay(run, "t_1", repository)


def runs_of(file: Path) -> Iterator[Trajectory]:
    for record in SourceFile(file):
        if isinstance(record, Record):
            yield from convert(record)
