"""A git branch as one record: the work of a person who committed as it went on, or of an agent that did.

One record, shortened; ``handoff ingest REPO --branch NAME`` writes it, ``states/branches.py`` reads it from git::

    {"format": "git_branch/1", "repo": "acme/pager", "branch": "fix-last", "base": "3f2a…", "task": "Fix the last page",
     "task_from": "first commit", "patch": "diff --git a/pager.py b/pager.py\\n…",
     "commits": [{"id": "9c1d…", "parents": ["3f2a…"], "date": "2024-05-01T10:00:00+02:00", "agent": null,
                  "message": "Fix the last page", "patch": "diff --git a/pager.py b/pager.py\\n…"}]}

A commit is a step: its message is what was said, its diff against the first parent is the one action, and a handoff
could have happened right after it. A program that git names as the author is the step's model. The record holds no
name and no address of a person. Trees are not in it: states come from the commits themselves (``states/commits.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from handoff.framing import Record
from handoff.identity import canonical_json
from handoff.trajectory import Action, Observation, Outcome, Step, Trajectory

FORMAT = "git_branch"
VERSION: Literal["git_branch/1"] = "git_branch/1"
TOOL = "git_commit"
"""The tool of every action: its argument is a diff, its call id the commit."""

_Id = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{40}\Z")]


class Commit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One commit."""

    id: _Id
    parents: tuple[_Id, ...] = ()
    date: str | None = None
    """Of authorship, ISO 8601 with its offset. ``None``: git holds no date that can be read."""
    message: str
    """Without the lines that name people; addresses in the text are masked."""
    masked: int = 0
    """Lines left out of the message and addresses masked in it."""
    agent: str | None = None
    """The program that git names as the author. ``None``: a person."""
    helpers: tuple[str, ...] = ()
    """Programs that the message names as co-authors."""
    patch: str
    """Unified diff from the first parent, from nothing for a root commit. A binary file is named, its bytes are not
    in it."""
    is_cut: bool = False
    """The diff was too long: it names every file and holds no line of any."""
    replaced: int = 0
    """Characters of the diff that stand for bytes which are no UTF-8."""


class Branch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A branch: its commits beyond ``base`` along first parents, oldest first."""

    format: Literal["git_branch/1"]
    repo: str
    branch: str
    """As the user named it; a commit's id in full."""
    base: _Id | None = None
    """First parent of the first commit. ``None``: that is a root commit."""
    task: str
    task_from: Literal["user", "merge commit", "first commit"]
    merge: _Id | None = None
    """The commit that merged the branch into the base, where there is one."""
    patch: str | None = None
    """Unified diff from the base to the last commit. ``None``: too long."""
    commits: Annotated[tuple[Commit, ...], msgspec.Meta(min_length=1)]


class GitBranch:
    """Branches that ``handoff ingest REPO --branch NAME`` wrote down."""

    format = FORMAT

    def recognises(self, record: Record) -> bool:
        """By the version that the record names."""
        return record.field("format", str) == VERSION

    def trajectories(self, record: Record) -> Sequence[Trajectory]:
        """One run, a step for each commit. ``RecordError`` when a field is missing or of another kind."""
        return (trajectory_of(record.decode(Branch)),)


def trajectory_of(branch: Branch) -> Trajectory:
    """The branch as a run. Its author is an agent only where git names a program as the author of every commit."""
    agents = list(dict.fromkeys(commit.agent for commit in branch.commits))
    by_agents = None not in agents
    return Trajectory(
        format=FORMAT,
        task_id=branch.branch,
        task=branch.task,
        repo=branch.repo,
        base_commit=branch.base,
        agent=", ".join(str(agent) for agent in agents) if by_agents else None,
        author="agent" if by_agents else "human",
        steps=tuple(_step(commit) for commit in branch.commits),
        outcome=Outcome(patch=branch.patch),
        source=canonical_json(_facts(branch)).decode(),
    )


def commit_of(step: Step) -> str | None:
    """The commit of a step; ``None`` when the step is none."""
    return step.actions[0].call_id if len(step.actions) == 1 and step.actions[0].tool == TOOL else None


def _step(commit: Commit) -> Step:
    return Step(
        text=commit.message,
        actions=(Action(call_id=commit.id, tool=TOOL, arguments=commit.patch, is_text=True),),
        observations=(Observation(call_id=commit.id, error=False),),
        boundary="commit",
        model=commit.agent,
        timestamp=commit.date,
    )


def _facts(branch: Branch) -> dict[str, Any]:
    """What has no field in a trajectory; a fact of a commit stands under its id."""
    commits = branch.commits
    facts: dict[str, Any] = {
        "task_from": branch.task_from,
        "merge": branch.merge,
        "merges": {c.id: c.parents[1:] for c in commits if len(c.parents) > 1},
        "helpers": {c.id: c.helpers for c in commits if c.helpers},
        "masked": {c.id: c.masked for c in commits if c.masked},
        "without_text": [c.id for c in commits if c.is_cut],
        "replaced_characters": {c.id: c.replaced for c in commits if c.replaced},
    }
    return {name: value for name, value in facts.items() if value}
