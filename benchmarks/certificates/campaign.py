"""The checker against the workloads of the benchmark and random cells of the referee's matrix.

    python benchmarks/certificates/campaign.py            # writes benchmarks/results/certificates.md
    python benchmarks/certificates/campaign.py --cells 20 --page /tmp/certificates.md

Every certificate must be proved; with its epsilon lowered by 1e-6 it must not be; and the referee, who knows the truth
by other means, must find the claim on the safe side. Exit 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks" / "accounting")]

from ours import two_hundred

import tallystick as ts
from referee import readouts
from referee.asking import TooLong, at_most
from referee.balls import with_full_precision
from referee.draws import MAKERS, TRANSFORMATIONS, drawn
from tallystick.certificate import checker

LOWERED = 1e-6
ROUNDED = 1e-11
"""A last iterate is the mu that the accountant rounded up, by 1e-12; the checker walks itself, in balls."""
RESULTS = ROOT / "benchmarks" / "results" / "certificates.md"


def training(sigma: float, rate: float, steps: int) -> ts.PrivacyLoss:
    return steps * ts.gaussian(sigma=sigma).sampled(rate=rate)


def workloads() -> dict[str, tuple[ts.PrivacyLoss, float]]:
    """W1 to W10 of benchmarks/accounting (W6 at its calibrated sigma), and W12 and W13."""
    subset = ts.gaussian(sigma=0.5, adjacency="replace").subset(batch=100, population=10_000)
    return {
        "W1": (training(1, 0.01, 10_000), 1e-5),
        "W2": (training(0.8, 0.001, 10**6), 1e-6),
        "W3a": (training(2, 0.01, 1000), 1e-12),
        "W3b": (training(2, 0.01, 1000), 1e-15),
        "W3c": (training(2, 0.01, 1000), 1e-20),
        "W3d": (training(2, 0.01, 1000), 1e-30),
        "W3e": (training(1, 0.01, 10_000), 1e-10),
        "W3f": (training(1, 0.01, 10_000), 1e-12),
        "W3g": (training(1, 0.01, 10_000), 1e-14),
        "W3h": (training(2, 0.01, 1000), 1e-100),
        "W4a": (100 * ts.gaussian(sigma=10), 1e-5),
        "W4b": (100 * ts.gaussian(sigma=10), 1e-30),
        "W5": (two_hundred(), 1e-6),
        "W6": (training(1.325575272, 0.004, 20_000), 1e-5),
        "W7": (1000 * ts.laplace(scale=20.0), 1e-6),
        "W8": (1000 * ts.randomized_response(epsilon=0.1), 1e-6),
        "W9": (1000 * subset, 1e-5),
        "W10": (50 * ts.gaussian(sigma=0.3), 1e-5),
        "W12": (training(1.1, 256 / 60_000, 14_062), 1e-5),
        "W13": (training(1, 1e-4, 10**6), 1e-6),
    }


@dataclass(frozen=True)
class Judged:
    """One certificate: what it claims, how long it took, and what is wrong with it."""

    name: str
    delta: float
    known: float
    claimed: float
    size: int
    write: float
    check: float
    problem: str

    @property
    def excess(self) -> float:
        return (self.claimed - self.known) / self.known if self.known > 0 else self.claimed


def judged(name: str, loss: ts.PrivacyLoss, delta: float) -> Judged:
    started = time.process_time()
    proof = loss.certificate(delta=delta)
    written = time.process_time()
    problem = ""
    try:
        checker.check(proof.text)
    except (checker.Malformed, checker.Unproved) as found:
        problem = f"not proved: {found}"
    checked = time.process_time()
    if proof.epsilon > LOWERED:
        body = json.loads(proof.text)
        body["claim"]["epsilon"] -= LOWERED
        try:
            checker.check(json.dumps(body))
            problem = problem or "proved although it was lowered"
        except checker.Unproved:
            pass
    known = loss.epsilon_bounds(delta=delta)
    if proof.epsilon < known.lower * (1.0 - ROUNDED):
        problem = problem or f"below the lower bound {known.lower!r}"
    return Judged(
        name, delta, known.upper, proof.epsilon, len(proof.text), written - started, checked - written, problem
    )


def cells(wanted: int, seed: int) -> tuple[list[Judged], Counter[str]]:
    """Draws of the referee's matrix until so many have a certificate, and how many were refused for what."""
    rows = [(leaf, transformation) for leaf in MAKERS for transformation in TRANSFORMATIONS]
    draw, found, refused = random.Random(seed), [], Counter[str]()
    while len(found) < wanted:
        row, index = draw.choice(rows), draw.randrange(1000)
        made, delta = drawn(seed, *row, index), draw.choice([1e-2, 1e-3, 1e-5, 1e-6, 1e-9])
        try:
            one = judged(f"{seed}/{row[0]}/{row[1]}/{index}", made.loss, delta)
        except ts.errors.NotComputable:
            refused[row[1]] += 1
            continue
        except ts.errors.InvalidInput:  # a draw that is no loss
            continue
        with_full_precision()
        try:
            with at_most(5.0):
                verdict = readouts.epsilon_upper(made.truth, delta, one.claimed).verdict
        except TooLong:
            verdict = readouts.UNDECIDED
        convicted = "the referee convicts it" if verdict == readouts.WRONG else ""
        found.append(replace(one, problem=one.problem or convicted))
        if found[-1].problem:
            print(f"WRONG {one.name} at {delta:g}: {found[-1].problem}", flush=True)
        if len(found) % 10 == 0:
            print(f"{len(found)} cells, {sum(bool(one.problem) for one in found)} wrong", flush=True)
    return found, refused


def page(rows: list[Judged], drawn_cells: list[Judged], refused: Counter[str]) -> str:
    lines = [
        "# Certificates: written, proved again, and lowered",
        "",
        "`python benchmarks/certificates/campaign.py`. CPU seconds on a shared machine. Every certificate was proved by the checker;",
        f"with its epsilon lowered by {LOWERED:g} none was. Excess: (claimed - the accountant's epsilon) / the accountant's.",
        "",
        "| workload | delta | accountant | claimed | excess | bytes | write s | check s | |",
        "|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {one.name} | {one.delta:g} | {one.known:.10g} | {one.claimed:.10g} | {one.excess:+.1e} | {one.size} "
            f"| {one.write:.2f} | {one.check:.2f} | {one.problem or 'proved'} |"
            for one in rows
        ),
        "",
    ]
    wrong = [one for one in drawn_cells if one.problem]
    excess = sorted(one.excess for one in drawn_cells)
    lines += [
        f"{len(drawn_cells)} random cells of the referee's matrix: {len(drawn_cells) - len(wrong)} proved, {len(wrong)} wrong. "
        f"Excess: median {excess[len(excess) // 2]:+.1e}, 90% {excess[len(excess) * 9 // 10]:+.1e}, largest {excess[-1]:+.1e}. "
        f"Slowest: written in {max(one.write for one in drawn_cells):.1f} s, checked in {max(one.check for one in drawn_cells):.1f} s.",
        "",
        "Draws that were refused, because the checker does not cover them: "
        + (", ".join(f"{count} {name}" for name, count in refused.most_common()) or "none")
        + ".",
        "",
        *(f"- WRONG {one.name}: {one.problem}" for one in wrong),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = []
    for name, (loss, delta) in workloads().items():
        rows.append(judged(name, loss, delta))
        print(name, f"{rows[-1].claimed:.10g}", rows[-1].problem or "proved", flush=True)
    found, refused = cells(options.cells, options.seed)
    options.page.write_text(page(rows, found, refused), encoding="utf-8")
    return 1 if any(one.problem for one in [*rows, *found]) else 0


if __name__ == "__main__":
    sys.exit(main())
