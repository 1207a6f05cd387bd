"""All benchmarks, each area in its own process: python benchmarks/run.py [accounting] [samplers] ...   (make bench)"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def areas() -> list[str]:
    """The folders that have a run.py, in a fixed order."""
    return sorted(path.parent.name for path in HERE.glob("*/run.py"))


def main(chosen: list[str]) -> int:
    unknown = set(chosen) - set(areas())
    if unknown:
        print(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(areas())}", file=sys.stderr)
        return 2
    worst = 0
    for area in chosen or areas():
        print(f"== {area}", flush=True)
        worst = max(worst, subprocess.run([sys.executable, str(HERE / area / "run.py")], check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
