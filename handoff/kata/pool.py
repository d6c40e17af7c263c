"""Many jobs on several processes, each with a lab of its own; results in the order of the jobs.

A result depends on its job alone: which worker ran it, and how many there are, changes nothing. Workers are forked
from a server process that has loaded everything once (``warm.py``) and has no threads; the calling process, with
Dagster's or a database's threads, is never forked.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.queues import Queue
from pathlib import Path
from typing import TypeVar

from handoff.errors import HandoffError, SandboxError
from handoff.kata.lab import KataLab

Job = TypeVar("Job")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""(done, total)."""

_POLL_SECONDS = 5.0
_WARM = "handoff.kata.warm"
FEW = 4
"""So few jobs are done in this process: it takes longer to start a worker."""


def run_many(
    function: Callable[[KataLab, Job], Result],
    jobs: Sequence[Job],
    *,
    data: Path,
    sandbox: str = "auto",
    workers: int = 2,
    progress: Progress | None = None,
) -> Iterator[Result]:
    """``function(lab, job)`` for each job, yielded in order as soon as it is known.

    ``function`` is importable by name; jobs and results can be pickled. The first error of a job is raised here, and
    ends the workers. With one worker, or few jobs, everything runs in this process.
    """
    if workers <= 1 or len(jobs) <= FEW:
        with KataLab(data, sandbox=sandbox, worker="0") as lab:
            for number, job in enumerate(jobs, 1):
                yield function(lab, job)
                if progress is not None:
                    progress(number, len(jobs))
        return
    yield from _run_in_workers(function, jobs, data, sandbox, min(workers, len(jobs)), progress)


def _run_in_workers(
    function: Callable[[KataLab, Job], Result],
    jobs: Sequence[Job],
    data: Path,
    sandbox: str,
    workers: int,
    progress: Progress | None,
) -> Iterator[Result]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_WARM])
    tasks: Queue[tuple[int, Job] | None] = context.Queue()
    answers: Queue[tuple[int, Result | None, Exception | None]] = context.Queue()
    for numbered in enumerate(jobs):
        tasks.put(numbered)
    for _ in range(workers):
        tasks.put(None)
    processes = [
        context.Process(target=_work, args=(function, data, sandbox, str(n), tasks, answers), daemon=True)
        for n in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        waiting: dict[int, Result] = {}
        due = 0
        for done in range(1, len(jobs) + 1):
            number, result, error = _next_answer(answers, processes)
            if error is not None:
                raise error
            waiting[number] = result  # type: ignore[assignment]
            if progress is not None:
                progress(done, len(jobs))
            while due in waiting:
                yield waiting.pop(due)
                due += 1
        for process in processes:
            process.join()
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
        for process in processes:
            process.join()
        for queue in (tasks, answers):
            queue.close()
            queue.cancel_join_thread()


def _next_answer(
    answers: Queue[tuple[int, Result | None, Exception | None]],
    processes: Sequence[multiprocessing.process.BaseProcess],
) -> tuple[int, Result | None, Exception | None]:
    import queue

    while True:
        try:
            return answers.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            if any(process.exitcode not in (None, 0) for process in processes):
                raise SandboxError("a worker died (out of memory, or killed); run again to go on") from None


def _work(
    function: Callable[[KataLab, Job], Result],
    data: Path,
    sandbox: str,
    worker: str,
    tasks: Queue[tuple[int, Job] | None],
    answers: Queue[tuple[int, Result | None, Exception | None]],
) -> None:
    with KataLab(data, sandbox=sandbox, worker=worker) as lab:
        while (numbered := tasks.get()) is not None:
            number, job = numbered
            try:
                answers.put((number, function(lab, job), None))
            except HandoffError as error:
                answers.put((number, None, error))
            except Exception as error:  # noqa: BLE001 - any failure of a job has to reach the caller
                answers.put((number, None, SandboxError(f"{type(error).__name__}: {error}")))
