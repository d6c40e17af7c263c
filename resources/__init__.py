"""Verbs at the edge: open a project, start a sandbox, log a round. Settings given here override ``handoff.toml``.

Each resource is one file. Where a resource reaches outside the data folder, its fake stands beside it.
"""
