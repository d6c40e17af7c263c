"""HANDOFF-DATA's core: the science, with no orchestrator, tracker or checker in it.

The shell around it is in ``handoff_assets/`` (Dagster), ``resources/`` and ``sensors/``.
"""

__version__ = "0.1.0"
