"""Every broken twin and honest original attacked again and again, and the level of one run: make campaign-audit

Writes benchmarks/results/audit.md. --page writes docs/reference/broken-twins.md only. Exit 1 when fewer than 95 % of
the twins are caught in most attacks, or true claims are refuted more often than the significance and a binomial margin.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tallystick.audit.guesses import BOTH, IN, gaussian_inverse, refuted, sided
from tallystick.audit.two_sample import mechanism
from unit.audit.twins import TWINS, Twin, page

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "benchmarks" / "results" / "audit.md"
PAGE = ROOT / "docs" / "reference" / "broken-twins.md"
LEVEL = 0.05
SIMULATIONS = 4000
MARGIN = 1e-6
HEAD = f"""Written by `make campaign-audit` (`tests/campaigns/audit_twins.py`) at significance {LEVEL:g}, in {{seconds:.0f}} CPU seconds. Each twin is
attacked {{repeats}} times with other seeds, and so is its honest original, which makes the same claim
([the twins](../../docs/reference/broken-twins.md)).
"""  # noqa: E501


def caught(twin: Twin, release: Any, repeats: int, seed: int) -> int:
    """How often a claim was falsified."""
    hits = 0
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, repeat])
        hits += mechanism(
            lambda data, rng=rng: release(data, rng),
            neighbours=twin.neighbours,
            claim=twin.claim,
            draws=twin.draws,
            significance=LEVEL,
        ).falsified
    return hits


def at_level(hits: int, trials: int) -> bool:
    return hits <= binom.ppf(1 - MARGIN, trials, LEVEL)


def one_run_levels() -> list[tuple[str, int, int]]:
    """Refutations of true claims: independent canaries, and canaries that all leak together or not at all."""
    rows = []
    m, k = 2000, 150
    rng = np.random.default_rng(11)
    for side in (BOTH, IN):
        for mu in (0.0, 0.5, 1.0):
            critical = _critical(m, k, mu, side)
            hits = 0
            for _ in range(SIMULATIONS):
                included = rng.random(m) < 0.5
                scores = np.where(included, mu / 2, -mu / 2) + rng.normal(size=m)
                moved = scores - np.median(scores) if side == BOTH else scores
                order = np.argpartition(-(np.abs(moved) if side == BOTH else moved), k)[:k]
                hits += int((included[order] == ((moved[order] > 0) | (side == IN))).sum()) >= critical
            rows.append((f"one run, mu = {mu:g}, guesses {side!r}", hits, SIMULATIONS))
    return [*rows, *_dependent(rng)]


def _critical(m: int, k: int, mu: float, side: str) -> int:
    return next(v for v in range(k + 2) if v > k or refuted(m, k, v, LEVEL, sided(gaussian_inverse(mu), side)))


def _dependent(rng: np.random.Generator) -> list[tuple[str, int, int]]:
    """With probability p all guesses are right more often: exactly mu-GDP for each canary, far from independent."""
    rows, mu, m, k = [], 0.74, 10_000, 300
    critical = _critical(m, k, mu, BOTH)
    for p in (0.05, 0.055, 0.06):
        low, high = 1e-9, 0.02
        for _ in range(80):
            a = (low + high) / 2
            low, high = (a, high) if ndtr(ndtri(p * a) + mu) / p + a < k / m else (low, a)
        right = (k / m - low) / (k / m)
        leaked = (rng.random(SIMULATIONS) < p) & (rng.binomial(k, right, SIMULATIONS) >= critical)
        rows.append((f"one run, all canaries leak together with probability {p:g}", int(leaked.sum()), SIMULATIONS))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    PAGE.write_text(page(), encoding="utf-8")
    if options.page:
        return 0
    start, repeats = time.process_time(), options.repeats
    rows = []
    for number, twin in enumerate(TWINS):
        rows.append((twin, *(caught(twin, f, repeats, number) for f in (twin.broken, twin.honest))))
        print(f"{twin.fault}: caught {rows[-1][1]}, false alarms {rows[-1][2]} of {repeats}", flush=True)
    found = sum(hits > repeats / 2 for _, hits, _ in rows)
    alarms, audits = sum(row[2] for row in rows), repeats * len(rows)
    levels = one_run_levels()
    good = found >= 0.95 * len(rows) and all(at_level(*row[1:]) for row in [("", alarms, audits), *levels])
    seconds = time.process_time() - start
    lines = [
        "# Is the auditor right? Broken twins, and true claims",
        "",
        HEAD.format(seconds=seconds, repeats=repeats),
        f"- **{found} of {len(rows)} twins caught** in most attacks; {sum(r[1] for r in rows)} of {audits} attacks.",
        f"- **{alarms} false alarms in {audits} attacks on honest originals**: {alarms / audits:.2%}.",
        "",
        "| what is wrong | draws | caught | false alarms on the honest original |",
        "|---|---|---|---|",
        *(f"| {twin.fault} | {twin.draws:,} | {hits} of {repeats} | {wrong} |" for twin, hits, wrong in rows),
        "",
        "## True claims refuted by one run",
        "",
        f"| simulated | refuted of {SIMULATIONS:,} | share |",
        "|---|---|---|",
        *(f"| {name} | {hits} | {hits / trials:.2%} |" for name, hits, trials in levels),
        "",
    ]
    RESULT.write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines[4:7]))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
