"""Coverage of the intervals of eighteen questions about ratings, written to benchmarks/results/eighteen-questions.md.

Run by hand (``make campaign-tables``): about two minutes of CPU time. Questions, rows and limits are those of
``tests/sql/eighteen.py``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sql import eighteen

PAGE = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "eighteen-questions.md"
NOMINAL, ALLOWED = 0.95, 0.94
QUANTILE = 3.0902
"""Normal quantile of 99.9 %."""
HEAD = """# Eighteen questions about ratings: what the intervals hold

Written by `make campaign-tables` (`tests/campaigns/eighteen_questions.py`). The questions, the made-up rows (one person
has 100,000 of them) and the limits are those of `tests/sql/eighteen.py`. *coverage* is the share of intervals that hold
the table's own value, which is that after limits per person. The lower limit is one of 99.9 %, over releases: a world
fails below 94 %, and a question fails if its upper limit of 99.9 % is below 95 %. *marked* are the columns whose names
say that limits touch them. *misses all rows* is the share of intervals that do not hold the value of all rows: only
marked columns may do that more often than the noise explains.

| world | question | marked | intervals | coverage | lower limit | misses all rows | |
|---|---|---|--:|--:|--:|--:|---|
"""


def limits_of(shares: Sequence[float]) -> tuple[float, float, float]:
    """Mean of independent shares, with its lower and upper limits of 99.9 %."""
    count = len(shares)
    mean = math.fsum(shares) / count
    spread = math.sqrt(math.fsum((share - mean) ** 2 for share in shares) / (count - 1) / count)
    return mean, mean - QUANTILE * spread, mean + QUANTILE * spread


def share_of_misses(each: eighteen.Asked, seed: int) -> tuple[list[bool], list[bool]]:
    """Whether the intervals of one release hold the own values, and whether they miss those of all rows."""
    own, missed = [], []
    for group, name, low, high in each.ends(seed):
        own.append(low <= each.own[group][name] <= high)
        truth = each.truth.get(group, {}).get(name)
        missed += [] if truth is None else [not low <= truth <= high]  # groups without rows are not in the truth
    return own, missed


def judged(world: str, releases: int, seed: int) -> tuple[list[str], bool]:
    """Lines of the page about one world, and whether it fails."""
    lines, by_release, is_wrong = [], [[0, 0] for _ in range(releases)], False
    for place, (name, each) in enumerate(eighteen.asked(world).items()):
        shares, missed, count, compared = [], 0, 0, 0
        for at in range(releases):
            own, misses = share_of_misses(each, seed + 1_000_003 * place + at)
            count, compared, missed = count + len(own), compared + len(misses), missed + sum(misses)
            by_release[at] = [by_release[at][0] + sum(own), by_release[at][1] + len(own)]
            shares += [sum(own) / len(own)] if own else []
        mean, lower, upper = limits_of(shares)
        marked = ", ".join(sorted(each.statement.released.limited)) or "-"
        is_marked = each.statement.released.limited == each.statement.released.noisy
        most_missed = 1 - NOMINAL + QUANTILE * math.sqrt(NOMINAL * (1 - NOMINAL) / compared)
        fails = upper < NOMINAL or (not each.statement.released.limited and missed / compared > most_missed)
        is_wrong |= fails
        misses_all = f"{missed / compared:.4f}" + ("" if is_marked else " (of all columns)")
        lines.append(
            f"| {world} | {name} | {marked} | {count:,} | {mean:.4f} | {lower:.4f} | {misses_all} | "
            f"{'FAILS' if fails else 'holds'} |"
        )
    mean, lower, _ = limits_of([held / count for held, count in by_release if count])
    is_wrong |= lower < ALLOWED
    verdict = "FAILS" if lower < ALLOWED else "holds"
    total = sum(count for _, count in by_release)
    lines.append(f"| {world} | **all** | | {total:,} | {mean:.4f} | **{lower:.4f}** | | {verdict} |")
    return lines, is_wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    lines, failed = [], False
    for world in eighteen.WORLDS:
        found, is_wrong = judged(world, chosen.releases, chosen.seed)
        lines += found
        failed |= is_wrong
        print(found[-1], flush=True)
    PAGE.write_text(HEAD + "\n".join(lines) + f"\n\n{chosen.releases:,} releases of each, seed {chosen.seed}.\n")
    print("FAILED" if failed else f"all intervals hold; {PAGE.name} is written")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
