"""Intervals for anything that can be simulated: a parametric bootstrap, and repro samples.

``draw(parameter, random)`` makes one released statistic, sampling and noise together, at a value of the parameter.
The bootstrap draws at the estimate and holds for large samples. Repro samples (Xie and Wang 2022; Awan and Wang 2024
for private releases) test every candidate by a rank, and hold for every sample size (docs/theory/inference.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.inference.interval import ASYMPTOTIC, FINITE, Interval

Draw = Callable[[float, np.random.Generator], float]


def bootstrap_interval(
    draw: Draw,
    estimate: Callable[[float], float],
    *,
    observed: float,
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
    about: str = "the parameter",
) -> Interval:
    """The basic parametric bootstrap: estimate - (simulated estimates - estimate). Asymptotic.

    >>> low, high = bootstrap_interval(lambda mean, random: random.normal(mean, 1), lambda seen: seen, observed=3.0)
    >>> 0.8 < low < 1.2 and 4.8 < high < 5.2
    True
    """
    miss = 1.0 - check.inside("confidence", confidence)
    times, random = check.count("draws", draws, least=100), np.random.default_rng(seed)
    centre = check.finite("estimate", estimate(observed))
    found = np.array([estimate(draw(centre, random)) for _ in range(times)])
    if not np.all(np.isfinite(found)):
        raise InvalidInput("estimate", "not finite for a simulated release", "an estimate that is always finite")
    low, high = np.quantile(found, [miss / 2.0, 1.0 - miss / 2.0]).tolist()
    return Interval(2.0 * centre - high, 2.0 * centre - low, confidence, about, "population", ASYMPTOTIC)


SIMULATED = "over the simulations too: another seed, another interval"


def repro_interval(
    draw: Draw,
    *,
    observed: float,
    candidates: Sequence[float],
    confidence: float = 0.95,
    draws: int = 199,
    seed: int = 0,
    about: str = "the parameter",
) -> Interval:
    """Every candidate at which the observed release is not among the farthest of so many simulated ones. Finite-sample.

    Proved for parameters among the candidates, whose ends are taken as the limits of the parameter. The ends of the
    set lie between candidates, so the interval reaches to the neighbours of what is kept. The confidence is over the
    simulations too: with one ``seed`` for all (the default) the coverage of one problem is a number near it, a point or
    two to either side at 199 draws; give a fresh seed, or more draws.

    >>> grid = [step / 10 for step in range(-20, 81)]
    >>> low, high = repro_interval(lambda mean, random: random.normal(mean, 1), observed=3.0, candidates=grid)
    >>> 0.5 < low < 1.3 and 4.7 < high < 5.5
    True
    """
    miss = 1.0 - check.inside("confidence", confidence)
    times = check.count("draws", draws, least=math.ceil(2.0 / miss))
    grid = np.unique(check.vector("candidates", candidates, "at least two numbers"))
    if len(grid) < 2:
        raise InvalidInput("candidates", candidates, "at least two numbers")
    seen = check.finite("observed", observed)
    ranks = np.array([_rank(draw, float(one), seen, times, seed) for one in grid])
    # If every candidate is rejected, the one that fits best stands for the empty set.
    kept = np.flatnonzero(ranks > min(miss, float(ranks.max()) * (1.0 - 1e-9)))
    low, high = max(0, int(kept[0]) - 1), min(len(grid) - 1, int(kept[-1]) + 1)
    return Interval(float(grid[low]), float(grid[high]), confidence, about, "population", FINITE, (SIMULATED,))


def _rank(draw: Draw, candidate: float, observed: float, times: int, seed: int) -> float:
    """At the truth observed and simulated releases are exchangeable, and so are their distances from their middle."""
    random = np.random.default_rng(seed)
    together = np.array([observed, *(draw(candidate, random) for _ in range(times))])
    distances = np.abs(together - np.median(together))
    return np.count_nonzero(distances >= distances[0]) / (times + 1)
