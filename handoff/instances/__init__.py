"""Benchmark instances, as of SWE-bench: which repository and commit a task id means (``reading``), and their answers,
which only the judge may see (``answers``).
"""
