"""Views that a model writes, each answer in a journal of its own before it is used.

A log is named by the request, so the same view is asked for once, whether a shard's table, a study or a user wants it.
Which points a table has them for is in ``handoffs.py``; what is asked and verified in ``writers/``.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import msgspec

from handoff.endpoints import Client, Endpoint, Ledger
from handoff.errors import InputError
from handoff.evidence import Evidence
from handoff.journal import Journal
from handoff.kata.pool import Progress
from handoff.project import Project
from handoff.trajectory import Trajectory
from handoff.views.written import write_view
from handoff.writers.model import Written

MOST_THREADS = 32
"""Views written at once."""


class Commission(msgspec.Struct, frozen=True, kw_only=True):
    """One view that is to be written."""

    point_id: str
    view: str
    trajectory: Trajectory
    h: int
    evidence: Evidence


def writer_of(project: Project, name: str) -> Endpoint:
    """The endpoint of a writer. ``InputError`` that lists those there are when there is none of that name."""
    known = {key: value for key, value in project.settings.successors.items() if isinstance(value, Endpoint)}
    if name not in known:
        raise InputError(
            f"no writer {name!r}: describe it under [successors.{name}] in {project.root / 'handoff.toml'}; endpoints "
            f"are: {', '.join(sorted(known)) or 'none yet'}"
        )
    return known[name]


def write_one(
    project: Project, view: str, trajectory: Trajectory, h: int, evidence: Evidence, client: Client
) -> Written:
    """One view by the model behind ``client``; what was answered before is read from the journal and costs nothing.

    ``InputError``: nobody writes that view; ``EndpointError``, ``NoAnswerError``: run again when the server is well.
    """
    with ExitStack() as opened:
        journal = Journal(project.journal / "writers", sync="paid")

        def ledger(name: str) -> Ledger:
            log = opened.enter_context(journal.open(name))
            return Ledger.of(name, log.entries, partial(log.append, is_paid=True))

        own = project.settings
        return write_view(view, trajectory, h, evidence, client, ledger, own.seed, own.writer_dollar_budget)


def write_all(
    project: Project, commissions: Sequence[Commission], client: Client, progress: Progress | None = None
) -> list[Written]:
    """Each commissioned view in order, as many at once as the endpoint takes. The first error ends all."""

    def write(commission: Commission) -> Written:
        return write_one(project, commission.view, commission.trajectory, commission.h, commission.evidence, client)

    with ThreadPoolExecutor(min(MOST_THREADS, client.endpoint.concurrency)) as threads:
        waiting = [threads.submit(write, commission) for commission in commissions]
        written = []
        try:
            for future in waiting:
                written.append(future.result())
                if progress is not None:
                    progress(len(written), len(waiting))
        except BaseException:
            client.halt("stopped, because another view could not be written; run again to go on from here")
            threads.shutdown(cancel_futures=True)
            raise
        return written
