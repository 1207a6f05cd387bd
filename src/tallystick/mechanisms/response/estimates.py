"""What the collector of local reports may conclude: unbiased estimates with standard errors and intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Unbiased values, their standard errors, and intervals that hold one by one at ``confidence``.

    >>> Estimate(np.array([0.5]), np.array([0.1]), np.array([0.3]), np.array([0.7]), 0.95, 100).reports
    100
    """

    values: Numbers
    standard_errors: Numbers
    lower: Numbers
    upper: Numbers
    confidence: float
    reports: int


def from_ones(ones: NDArray[np.int64], *, reports: int, if_true: float, if_false: float, confidence: float) -> Estimate:
    """Shares behind noisy bits: a bit is 1 with probability ``if_true`` when true and ``if_false`` otherwise.

    theta = (mean - if_false) / (if_true - if_false) is unbiased (Example 3.2). The interval maps the exact binomial
    (Clopper-Pearson) interval of the reports, so it covers at least as often as stated when people are a sample.

    >>> from_ones(np.array([60]), reports=100, if_true=0.75, if_false=0.25, confidence=0.95).values.round(3)
    array([0.7])
    """
    from scipy.special import betaincinv

    tail = (1 - check.inside("confidence", confidence)) / 2
    gain = if_true - if_false
    share = ones / reports
    likely = np.clip(share, if_false, if_true)  # what shares can be: no report at all has a standard error too
    with np.errstate(invalid="ignore"):
        low = np.where(ones > 0, betaincinv(np.maximum(ones, 1), reports - ones + 1, tail), 0.0)
        high = np.where(ones < reports, betaincinv(ones + 1, np.maximum(reports - ones, 1), 1 - tail), 1.0)
    return Estimate(
        values=(share - if_false) / gain,
        standard_errors=np.sqrt(likely * (1 - likely) / reports) / gain,
        lower=np.clip((low - if_false) / gain, 0.0, 1.0),
        upper=np.clip((high - if_false) / gain, 0.0, 1.0),
        confidence=confidence,
        reports=reports,
    )


def mean_laplace_width(scale: float, *, reports: int, confidence: float) -> float:
    """With this confidence the mean of n Laplace noises of this scale is smaller than this in size.

    Chernoff: n (ln(1 - t^2) + t x) is largest at t = (sqrt(1 + x^2) - 1) / x; bisection on x, rounded up. It also
    holds for the discrete Laplace law on a lattice, whose moment generating function is smaller.

    >>> round(mean_laplace_width(1.0, reports=100, confidence=0.95), 3)
    0.388
    """
    wanted = math.log(2 / (1 - check.inside("confidence", confidence))) / reports

    def exponent(x: float) -> float:
        t = x / (math.sqrt(1 + x * x) + 1)
        return math.log1p(-t * t) + t * x

    high = 1.0
    while exponent(high) < wanted:
        high *= 2
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if exponent(middle) >= wanted else (middle, high)
    return scale * high * (1 + 1e-12)


def hoeffding(confidence: float, reports: int) -> float:
    """Half-width of a mean of n numbers in [0, 1].

    >>> round(hoeffding(0.95, 100), 4)
    0.1358
    """
    return math.sqrt(
        math.log(2 / (1 - check.inside("confidence", confidence))) / (2 * check.count("reports", reports, least=1))
    )
