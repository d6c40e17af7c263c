"""Many jobs that mostly wait (for a model's answers), each on a thread with a lab of its own; results in order.

Jobs that compute belong on processes (``pool.py``). A thread's sandbox ends with its thread, so each opens its own lab.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from handoff.kata.lab import KataLab
from handoff.kata.pool import Progress

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_in_threads(
    function: Callable[[KataLab, Job], Result],
    jobs: Sequence[Job],
    *,
    data: Path,
    sandbox: str = "auto",
    threads: int,
    progress: Progress | None = None,
    stop: Callable[[], None] = lambda: None,
) -> list[Result]:
    """``function(lab, job)`` for each job, in the order of the jobs.

    The first error of a job is raised here, once all threads have ended: no further job is begun, and ``stop`` is
    called once, which may make those that run give up sooner.
    """
    waiting: queue.SimpleQueue[tuple[int, Job]] = queue.SimpleQueue()
    for numbered in enumerate(jobs):
        waiting.put(numbered)
    results: dict[int, Result] = {}
    errors: list[BaseException] = []
    lock = threading.Lock()

    def work(name: str) -> None:
        try:
            with KataLab(data, sandbox=sandbox, worker=name) as lab:
                while not errors:
                    try:
                        number, job = waiting.get_nowait()
                    except queue.Empty:
                        return
                    result = function(lab, job)
                    with lock:
                        results[number] = result
                        if progress is not None:
                            progress(len(results), len(jobs))
        except BaseException as error:  # noqa: BLE001 - whatever it is has to reach the caller
            with lock:
                errors.append(error)
                if len(errors) == 1:
                    stop()

    workers = [
        threading.Thread(target=work, args=(f"thread-{number}",), daemon=True)
        for number in range(min(threads, len(jobs)))
    ]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    except BaseException as error:  # interrupted: what was answered is in the journal
        errors.append(error)
        stop()
        raise
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(jobs))]
