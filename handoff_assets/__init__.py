"""The Dagster graph: one module per table, named after it; ``definitions.py`` only assembles.

An asset's body is three moves: read where it stands, call one stage of the core, return what was written.
No module here postpones its annotations: Dagster reads them when an asset is defined.
"""
