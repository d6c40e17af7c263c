"""Loading Dagster's definitions in a fresh interpreter, beside the import of Dagster alone."""

from __future__ import annotations

import subprocess
import sys
import time

LIMIT_S = 3.0
RUNS = 3


def seconds(code: str) -> float:
    """The quickest of a few fresh interpreters, wall time."""
    found = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        found.append(time.perf_counter() - started)
    return min(found)


def main() -> int:
    loaded = seconds("import handoff_assets.definitions")
    bare = seconds("import dagster")
    print(f"definitions load  {loaded:5.2f} s   limit {LIMIT_S:.0f} s   (import dagster alone {bare:.2f} s)")
    return 0 if loaded <= LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
