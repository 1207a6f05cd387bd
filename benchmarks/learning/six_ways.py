"""One problem, six ways: the least-squares mean of n numbers in [-1, 1], and how fast each way's noise falls with n.

python benchmarks/learning/six_ways.py   writes benchmarks/results/six_ways.md and docs/images/six-ways.svg

The ways are those of ``tallystick demo six``, here with more people and more draws.
"""

from __future__ import annotations

import time
from pathlib import Path

from tallystick.cli.commands.six_story import DELTA, STEPS, errors, picture, slope
from tallystick.plots.canvas import save

SIZES = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
DRAWS = 200
ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    started = time.process_time()
    table = errors(SIZES, DRAWS)
    lines = [
        "# One problem, six ways",
        "",
        "Least-squares mean of n numbers in [-1, 1] (a skewed law), one person replaced, n public, epsilon = 1; pure but "
        f"for gradient descent (delta = {DELTA:g}, {STEPS} steps). Root mean square distance from the answer without "
        f"privacy over {DRAWS} draws; the slope is that of the larger sizes. Written by `benchmarks/learning/six_ways.py`.",
        "",
        "| way | " + " | ".join(f"n = {n:,}" for n in SIZES) + " | slope |",
        "|---|" + "---|" * (len(SIZES) + 1),
    ]
    lines += [
        f"| {name} | " + " | ".join(f"{value:.2g}" for value in column) + f" | {slope(column, SIZES):.2f} |"
        for name, column in table.items()
    ]
    lines += [
        "",
        "The exponential mechanism's noise falls like 1/sqrt(n), as slowly as the sampling error (Theorem 7.10); the "
        "K-norm gradient, noise in the objective, on the output and in the gradients fall like 1/n. Subsample and "
        "aggregate asks nothing of the statistic and pays for that.",
        "",
        f"{time.process_time() - started:.0f} CPU seconds, one thread.",
        "",
    ]
    (ROOT / "benchmarks" / "results" / "six_ways.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))
    print(save(picture(table, SIZES), ROOT / "docs" / "images" / "six-ways.svg"))


if __name__ == "__main__":
    main()
