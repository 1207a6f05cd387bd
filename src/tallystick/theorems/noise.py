"""Noise that k queries need: basic against advanced composition, and the best choice of delta'.

From the composition notes (000). All variances are rounded up.
"""

from __future__ import annotations

import math

from tallystick.accounting import check
from tallystick.numerics.search import first_where
from tallystick.rounding import exp, up
from tallystick.theorems import require
from tallystick.theorems.composition import step_epsilon
from tallystick.theorems.gaussian import analytic_gaussian_sigma


def laplace_variance_basic(*, epsilon: float, queries: int) -> float:
    """2 k^2/epsilon^2: k queries of sensitivity one, each with epsilon/k.

    Composition notes (000), "comparison with basic composition"; page ``theory/noise-for-queries.md``.

    >>> round(laplace_variance_basic(epsilon=1.0, queries=100), 6)
    20000.0
    """
    k, e = require.steps("queries", queries), check.positive("epsilon", epsilon)
    return up(2.0 * (k / e) * (k / e), positive=True)


def laplace_variance_advanced(*, epsilon: float, delta: float, queries: int) -> float:
    """2/epsilon_0^2 with the largest epsilon_0 that advanced composition allows, solved exactly.

    The composition notes (000) take epsilon/sqrt(2 k log(1/delta)) and ignore the first term, which overspends
    (erratum 18). Better than basic only from some k on; page ``theory/noise-for-queries.md``.

    >>> round(laplace_variance_advanced(epsilon=1.0, delta=1e-6, queries=100))
    5724
    """
    total, k = check.positive("epsilon", epsilon), require.steps("queries", queries)
    slack = check.inside("delta", delta)
    step = step_epsilon(total_epsilon=total, steps=k, delta_slack=slack)
    root = math.sqrt(2.0) / step if step > 0.0 else math.inf
    return up(root * root, positive=True)


def queries_where_advanced_wins(*, epsilon: float, delta: float) -> int:
    """The least number of queries from which advanced composition needs less Laplace noise than basic.

    Page ``theory/noise-for-queries.md``.

    >>> queries_where_advanced_wins(epsilon=1.0, delta=1e-6)
    29
    """
    e, d = check.positive("epsilon", epsilon), check.inside("delta", delta)

    def wins(queries: int) -> bool:
        # the step epsilon/k must cost less than epsilon: sqrt(2 log(1/delta)/k) < 1 - tanh(epsilon/(2k))
        return math.sqrt(-2.0 * math.log(d) / queries) < 2.0 / (1.0 + exp(e / queries))

    return first_where(wins)


def gaussian_variance_advanced(*, epsilon: float, delta: float, queries: int, delta_slack: float) -> float:
    """Gaussian variance per query when k steps of (epsilon_0, delta_0) are added up by advanced composition.

    delta_0 = (delta - delta')/k and epsilon_0 the largest step; an example of the composition notes (000), with the
    exact Gaussian noise per step; page ``theory/best-slack.md``.

    >>> round(gaussian_variance_advanced(epsilon=1.0, delta=1e-6, queries=100, delta_slack=5e-7))
    57794
    """
    d, k = check.inside("delta", delta), require.steps("queries", queries)
    slack = check.inside("delta_slack", delta_slack)
    total = check.positive("epsilon", epsilon)
    if slack >= d:
        return math.inf
    step = step_epsilon(total_epsilon=total, steps=k, delta_slack=slack)
    each = (d - slack) / k
    sigma = analytic_gaussian_sigma(epsilon=step, delta=each) if each > 0.0 else math.inf
    return up(sigma * sigma)


def best_delta_slack(*, epsilon: float, delta: float, queries: int) -> tuple[float, float]:
    """The delta' that makes the variance least, and that variance.

    Composition notes (000): "delta' is a design parameter"; its two options are delta/2 and delta_0 = delta/(k+1). A
    search that is not perfect is wasteful, not unsafe; page ``theory/best-slack.md``.

    >>> slack, variance = best_delta_slack(epsilon=1.0, delta=1e-6, queries=100)
    >>> variance <= gaussian_variance_advanced(epsilon=1.0, delta=1e-6, queries=100, delta_slack=5e-7)
    True
    """
    d = check.inside("delta", delta)

    def variance(share: float) -> float:
        return gaussian_variance_advanced(epsilon=epsilon, delta=d, queries=queries, delta_slack=share * d)

    shares = [i / 40.0 for i in range(1, 40)]
    best = min(shares, key=variance)
    left, right = best - 1 / 40.0, best + 1 / 40.0
    for _ in range(30):
        inner, outer = left + (right - left) / 3.0, right - (right - left) / 3.0
        left, right = (left, outer) if variance(inner) <= variance(outer) else (inner, right)
    slack = min(best, (left + right) / 2.0, key=variance)
    return slack * d, variance(slack)


def gaussian_variance_tight(*, epsilon: float, delta: float, queries: int) -> float:
    """Noise variance that k Gaussian queries need: k times the variance of one, by Gaussian composition.

    Page ``theory/noise-for-queries.md``.

    >>> round(gaussian_variance_tight(epsilon=1.0, delta=1e-6, queries=100))
    1785
    """
    k = require.steps("queries", queries)
    sigma = analytic_gaussian_sigma(epsilon=epsilon, delta=delta)
    return up(k * sigma * sigma, positive=True)


def mean_release_error(*, dimension: int, records: int, epsilon: float, delta: float) -> tuple[float, float]:
    """Bounds on E||Z - mean||_2 for the mean of points of [0,1]^K under replace: Laplace, then Gaussian.

    sqrt(K) times the standard deviation per coordinate: K^(3/2) sqrt(2)/(n eps) against
    O(K sqrt(log(1/delta)))/(n eps); the composition notes (000), first page; page ``theory/noise-for-queries.md``.

    >>> laplace, gauss = mean_release_error(dimension=100, records=1000, epsilon=1.0, delta=1e-6)
    >>> round(laplace, 4), round(gauss, 4)
    (1.4142, 0.4225)
    """
    k, n = require.steps("dimension", dimension), require.steps("records", records)
    e = check.positive("epsilon", epsilon)
    sigma = analytic_gaussian_sigma(epsilon=e, delta=delta, sensitivity=math.sqrt(k) / n)
    return up(math.sqrt(2.0 * k) * k / (n * e)), up(math.sqrt(k) * sigma)
