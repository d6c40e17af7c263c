"""Runs every benchmark of this folder in a process of its own, so that peaks of memory do not mix."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    here = Path(__file__).parent
    names = sys.argv[1:] or sorted(p.stem for p in here.glob("*.py") if not p.stem.startswith("_"))
    failed = []
    for name in names:
        print(f"── {name} " + "─" * max(0, 70 - len(name)), flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.{name}"], cwd=here.parent, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"not met or broken: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
