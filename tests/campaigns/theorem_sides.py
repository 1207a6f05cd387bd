"""Judge every theorem at many more hostile arguments than a test run: ``--draws 2000`` takes about an hour.

Run by hand (``make campaign-theorems``); the contract that runs with the tests is ``unit/theorems/test_sides.py``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from unit.theorems.test_sides import CLAIMS, sweep


def main() -> int:
    """Print one line for each theorem, and how many answers were judged; 1 if any was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    judged = wrong = 0
    for name in sorted(CLAIMS):
        count, faults = sweep(name, asked.draws, asked.seed)
        judged, wrong = judged + count, wrong + len(faults)
        print(f"{name:<36} {count:>6} judged {len(faults):>4} wrong", *faults[:3], sep="\n    ", flush=True)
    print(f"{judged} judged, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
