"""Coverage of the intervals of tables, written to benchmarks/results/table-coverage.md.

Run by hand (``make campaign-tables``): a minute. The worlds are those of ``unit/tables/coverage.py``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from unit.tables.coverage import WORLDS, covered, removed

PAGE = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "table-coverage.md"
NOMINAL, ALLOWED = 0.95, 0.012
HEAD = f"""# Do the intervals of a table hold what they say they are about?

Written by `make campaign-tables` (`tests/campaigns/table_coverage.py`). The worlds are those of
`tests/unit/tables/coverage.py`: samples of 150 units of a known population, each a release of its own. Nominal coverage
is 95 %; an interval fails below {100 * (NOMINAL - ALLOWED):.1f} %. *own value* is that of the capped and clamped table,
over the privacy noise; *population* is over sampling too; *removed* is what caps and bounds left out, of how many, and
which share that is. *naive* rows are what a reader gets who takes one for another. Means without a released second
moment assume the largest variance, variances hold two means together, quantiles and bins end at edges and whole
numbers: these cover more than they say.

| world | interval | coverage | |
|---|---|---|---|
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    found = {world: covered(world, chosen.releases, chosen.seed) for world in WORLDS}
    found["both caps and both bounds bite"] = removed(chosen.releases, chosen.seed)
    lines, failed = [], []
    for world, shares in found.items():
        for name, share in shares.items():
            good = share >= NOMINAL - ALLOWED
            verdict = "a mistake" if name.startswith("naive") else "holds" if good else "FAILS"
            lines.append(f"| {world} | {name} | {share:.4f} | {verdict} |")
            failed += [lines[-1]] if verdict == "FAILS" else []
    PAGE.write_text(HEAD + "\n".join(lines) + f"\n\n{chosen.releases:,} releases of each, seed {chosen.seed}.\n")
    print("\n".join(failed) or f"all intervals hold; {PAGE.name} is written")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
