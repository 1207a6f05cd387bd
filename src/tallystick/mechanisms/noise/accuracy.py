"""How wrong noise makes an answer: the accuracy statements of the notes as functions.

Sources: section 3.3 and Example 3.5 (Laplace), Example 9.1 and the composition notes (000) (growth with dimension),
Example 10.1 (how many records a mean needs; the lower bounds of Steinke and Ullman 2016 say that the dependence on the
dimension cannot be improved). Each bounds the error of continuous noise from above; a mechanism's own ``.error`` is
exact for its lattice law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from tallystick.accounting import check, losses
from tallystick.accounting.calibrate import calibrate


def laplace_tail(*, scale: float, width: float) -> float:
    """P(|noise| > width) = exp(-width / scale) for Laplace noise (Remark 3.4). Exact.

    >>> round(laplace_tail(scale=2, width=6), 6)
    0.049787
    """
    return math.exp(-check.nonnegative("width", width) / check.positive("scale", scale))


def laplace_width(*, scale: float, confidence: float, coordinates: int = 1) -> float:
    """Half-width that holds in all coordinates at once: scale ln(d / (1 - confidence)). Union bound, so not too small.

    >>> round(laplace_width(scale=1, confidence=0.95, coordinates=100), 3)
    7.601
    """
    size, d = check.positive("scale", scale), check.count("coordinates", coordinates, least=1)
    return size * math.log(d / (1.0 - check.inside("confidence", confidence)))


def gaussian_tail(*, sigma: float, width: float) -> float:
    """P(|noise| > width) = erfc(width / (sigma sqrt 2)) for Gaussian noise. Exact.

    >>> round(gaussian_tail(sigma=1, width=1.96), 4)
    0.05
    """
    return math.erfc(check.nonnegative("width", width) / (check.positive("sigma", sigma) * math.sqrt(2.0)))


def gaussian_width(*, sigma: float, confidence: float, coordinates: int = 1) -> float:
    """Half-width that holds in all coordinates at once, by the union bound; it grows only like sqrt(log d).

    >>> round(gaussian_width(sigma=1, confidence=0.95), 4)
    1.96
    """
    size, d = check.positive("sigma", sigma), check.count("coordinates", coordinates, least=1)
    return -size * NormalDist().inv_cdf((1.0 - check.inside("confidence", confidence)) / (2.0 * d))


def proportion_variance(*, proportion: float, n: int, epsilon: float) -> float:
    """Variance of a noisy proportion, sampling and Laplace noise together: p(1-p)/n + 2/(n eps)^2 (Example 3.5).

    >>> proportion_variance(proportion=0.5, n=100, epsilon=1)
    0.0027
    """
    p, size = check.probability("proportion", proportion), check.count("n", n, least=1)
    return p * (1.0 - p) / size + 2.0 / (size * check.positive("epsilon", epsilon)) ** 2


@dataclass(frozen=True, slots=True)
class Growth:
    """Root-mean-square L2 error of d counts that one unit may all change, under both noises."""

    dimension: int
    laplace: float
    gaussian: float


def error_growth(*, dimension: int, epsilon: float, delta: float) -> Growth:
    """d counts have L1 sensitivity d and L2 sensitivity sqrt d (Example 9.1), so the L2 error is d^{3/2} sqrt 2 / eps
    with Laplace noise and d / mu with Gaussian noise, mu the Gaussian parameter of (eps, delta).

    >>> small, large = (error_growth(dimension=d, epsilon=1, delta=1e-6) for d in (1, 1000))
    >>> small.laplace < small.gaussian, large.laplace > large.gaussian
    (True, True)
    """
    d, level = check.count("dimension", dimension, least=1), check.positive("epsilon", epsilon)
    goal = losses.approx_dp(epsilon=level, delta=check.probability("delta", delta))
    sigma = float(calibrate(lambda s: losses.gaussian(sigma=s), goal))
    return Growth(d, math.sqrt(2.0) * d**1.5 / level, sigma * d)


def unit_sigma(*, epsilon: float, delta: float) -> float:
    """The least noise multiplier of the Gaussian mechanism with this (epsilon, delta), rounded up.

    >>> 3.7 < unit_sigma(epsilon=1.0, delta=1e-5) < 3.8
    True
    """
    goal = losses.approx_dp(epsilon=epsilon, delta=delta)
    return float(calibrate(lambda sigma: losses.gaussian(sigma=sigma), goal))


def laplace_mean_error(*, dimension: int, count: int, epsilon: float) -> float:
    """Root mean square L2 error of a mean of vectors in [0, 1]^d under REPLACE: sqrt(2) d^{3/2} / (n eps).

    >>> round(laplace_mean_error(dimension=100, count=10_000, epsilon=1.0), 4)
    0.1414
    """
    size = check.count("dimension", dimension, least=1)
    return (
        math.sqrt(2) * math.pow(size, 1.5) / (check.count("count", count, least=1) * check.positive("epsilon", epsilon))
    )


def gaussian_mean_error(*, dimension: int, count: int, epsilon: float, delta: float) -> float:
    """The same with Gaussian noise: d sigma / n, sigma the least noise multiplier (exact, not the classical formula).

    >>> round(gaussian_mean_error(dimension=100, count=10_000, epsilon=1.0, delta=1e-5), 4)
    0.0373
    """
    size = check.count("dimension", dimension, least=1)
    return size * unit_sigma(epsilon=epsilon, delta=delta) / check.count("count", count, least=1)


def marginals_needed_pure(*, dimension: int, accuracy: float, epsilon: float) -> int:
    """Example 10.1: records enough for E ||M(D) - mean||_1 <= accuracy * d on {-1, 1}^d with Laplace noise.

    One record moves the mean by 2 d / n in L1, so n = 2 d / (accuracy eps): linear in d.

    >>> marginals_needed_pure(dimension=100, accuracy=0.1, epsilon=1.0)
    2000
    """
    size = check.count("dimension", dimension, least=1)
    return math.ceil(2 * size / (check.positive("accuracy", accuracy) * check.positive("epsilon", epsilon)))


def marginals_needed_approx(*, dimension: int, accuracy: float, epsilon: float, delta: float) -> int:
    """Example 10.1 with Gaussian noise: one record moves the mean by 2 sqrt(d) / n in L2, so n grows like sqrt(d).

    >>> marginals_needed_approx(dimension=100, accuracy=0.1, epsilon=1.0, delta=1e-5)
    596
    """
    sigma = unit_sigma(epsilon=epsilon, delta=delta)
    per_coordinate = 2 * math.sqrt(check.count("dimension", dimension, least=1)) * sigma * math.sqrt(2 / math.pi)
    return math.ceil(per_coordinate / check.positive("accuracy", accuracy))
