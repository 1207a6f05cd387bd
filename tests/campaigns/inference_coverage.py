"""Coverage of every interval and level of every test of ``ts.inference``, written to benchmarks/results/inference.md.

Run by hand (``make campaign-inference``): some ten minutes. The worlds are those of ``unit/inference/cases.py``.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from unit.inference.cases import CASES, NULLS, coverage, level

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "benchmarks" / "results" / "inference.md"
NOMINAL, ALLOWED = 0.95, 0.012
LEVEL = 0.05
HEAD = f"""# Do intervals hold what they say? Coverage and level

Written by `make campaign-inference` (`tests/campaigns/inference_coverage.py`). The worlds are those of
`tests/unit/inference/cases.py`: populations, samples and noise drawn by numpy from their definitions. Nominal coverage
is 95 %; an interval fails below {100 * (NOMINAL - ALLOWED):.1f} %. *naive* rows are the usual mistakes in the same
worlds. An interval that is refused counts as a miss; how many were asked for is in the column "of". Means without a
released second moment assume the largest variance, quantiles end at edges of bins: both cover more than they say.
"""


def covered(replicates: int, seed: int) -> tuple[list[str], list[str]]:
    """The table of coverages, and what failed."""
    lines = ["", "## Intervals", "", "| world | interval | of | coverage | |", "|---|---|---|---|---|"]
    failed = []
    for world, case in CASES.items():
        for name, (hits, tries) in coverage(case, replicates, seed).items():
            rate = hits / tries
            naive = name.startswith("naive")
            good = naive or rate >= NOMINAL - ALLOWED
            seen = "a mistake" if rate < NOMINAL - ALLOWED else "a mistake that does not show here"
            verdict = seen if naive else ("holds" if good else "FAILS")
            lines.append(f"| {world} | {name} | {tries:,} | {rate:.3f} | {verdict} |")
            failed += [] if good else [f"{world}: {name} {rate:.3f}"]
        print(lines[-1], flush=True)
    return lines, failed


def levelled(replicates: int, seed: int) -> tuple[list[str], list[str]]:
    """The table of levels; a test fails where its level is above nominal by more than chance (one in 30,000)."""
    most = LEVEL + 4.0 * math.sqrt(LEVEL * (1 - LEVEL) / replicates)
    lines = ["", "## Tests", "", f"Nominal level 5 %; a test fails above {100 * most:.2f} %.", ""]
    lines += ["| hypothesis, true | nulls | rejected | |", "|---|---|---|---|"]
    failed = []
    for name, null in NULLS.items():
        rate = level(null, replicates, seed) / replicates
        naive = name.startswith("naive")
        good = naive or rate <= most
        lines.append(
            f"| {name} | {replicates:,} | {rate:.4f} | {'a mistake' if naive else 'holds' if good else 'FAILS'} |"
        )
        failed += [] if good else [f"{name}: {rate:.4f}"]
        print(lines[-1], flush=True)
    return lines, failed


def main() -> int:
    """Write the page; 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=2000)
    parser.add_argument("--nulls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=17)
    asked = parser.parse_args()
    intervals, first = covered(asked.replicates, asked.seed)
    tests, second = levelled(asked.nulls, asked.seed)
    failed = first + second
    end = ["", f"{len(failed)} failed." if failed else "Nothing failed.", ""]
    PAGE.write_text(HEAD + "\n".join([*intervals, *tests, *end]), encoding="utf-8")
    print(*failed, sep="\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
