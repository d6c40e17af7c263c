"""Names of the jobs that sensors start and of the tags their runs carry; the jobs are in ``handoff_assets/jobs.py``."""

from dagster import DagsterRunStatus

CORPUS = "corpus_job"
REPORT = "report_job"
TAKEOVER = "takeover_job"
ROUND = "round_job"
DEBT = "debt_job"
TAX = "tax_job"

CONTENT = "handoff/content"
"""Tag: hash of the bytes that a corpus run reads."""
EVIDENCE = "handoff/evidence"
"""Tag: hash of the rows that made a sensor act."""

ACTIVE = (
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
)
"""Statuses of runs that are not over."""
