"""Speed and memory promises. ``python -m bench`` runs all; ``python -m bench ingest`` one. See ``make bench``."""
