"""Two verdicts that never flake: does this sample follow that law, and does it refute that privacy claim?

Both have a false-alarm probability near 1e-9, so a red test is a bug.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, gammaincc

NEVER = 1e-9


def g_test(observed: NDArray[np.int64], probabilities: NDArray[np.float64], *, least: float = 50.0) -> float:
    """p-value of the G-test of cell counts; neighbouring cells are pooled until they expect ``least``."""
    total = int(observed.sum())
    if not np.isclose(probabilities.sum(), 1.0, atol=1e-9):
        raise AssertionError("the oracle's probabilities do not add up to one")
    counts, expected, count, mass = [], [], 0, 0.0
    for n, p in zip(observed.tolist(), (probabilities * total).tolist(), strict=True):
        count, mass = count + n, mass + p
        if mass >= least:
            counts.append(count)
            expected.append(mass)
            count, mass = 0, 0.0
    counts[-1] += count
    expected[-1] += mass
    n, e = np.array(counts, dtype=float), np.array(expected)
    statistic = 2 * float(np.sum(np.where(n > 0, n * np.log(np.maximum(n, 1) / e), 0.0)))
    return float(gammaincc((len(n) - 1) / 2, max(statistic, 0.0) / 2)) if len(n) > 1 else 1.0


def follows(sample: NDArray[np.int64], support: NDArray[np.int64], probabilities: NDArray[np.float64]) -> bool:
    """Does an integer sample follow this law on a contiguous support, whose end cells hold the tails?"""
    cells = np.clip(sample, support[0], support[-1]) - support[0]
    return g_test(np.bincount(cells, minlength=len(support)), probabilities) > NEVER


def at_least(successes: int, trials: int) -> float:
    """Clopper-Pearson lower end for a probability, wrong once in 1e10."""
    return 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, NEVER / 10))


def at_most(successes: int, trials: int) -> float:
    """Clopper-Pearson upper end for a probability, wrong once in 1e10."""
    return 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, 1 - NEVER / 10))


def refuted(
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    claim: dict[float, float],
    *,
    events: Iterable[NDArray[np.bool_]] = (),
) -> bool:
    """Do samples on two neighbours contradict {epsilon: delta}, by threshold events in either order?

    ``events`` are further pairs of indicator arrays, stacked as (2, n).
    """
    cuts = np.quantile(
        np.concatenate([left, right]), [0.0005, 0.005, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98, 0.995, 0.9995]
    )
    tables = [(int((left > c).sum()), int((right > c).sum())) for c in cuts]
    tables += [(int((left < c).sum()), int((right < c).sum())) for c in cuts]
    tables += [(int(pair[0].sum()), int(pair[1].sum())) for pair in events]
    return any(
        at_least(a, len(left)) > np.exp(epsilon) * at_most(b, len(right)) + delta
        for epsilon, delta in claim.items()
        for one, other in tables
        for a, b in ((one, other), (other, one))
    )
