"""How wrong noise makes an answer: the accuracy statements of the notes as functions.

Sources: section 3.3 and Example 3.5 (Laplace), Example 9.1 and the composition notes (000) (growth with dimension),
Example 10.1 (how many records a mean needs; the lower bounds of Steinke and Ullman 2016 say that the dependence on the
dimension cannot be improved). Each bounds the error of continuous noise from above; a mechanism's own ``.error`` is
exact for its lattice law.
"""

from __future__ import annotations

import math

from tallystick.accounting import check, losses
from tallystick.accounting.calibrate import calibrate


def laplace_tail(*, scale: float, width: float) -> float:
    """P(|noise| > width) = exp(-width / scale) for Laplace noise (Remark 3.4). Exact.

    >>> round(laplace_tail(scale=2, width=6), 6)
    0.049787
    """
    return math.exp(-check.nonnegative("width", width) / check.positive("scale", scale))


def proportion_variance(*, proportion: float, n: int, epsilon: float) -> float:
    """Variance of a noisy proportion, sampling and Laplace noise together: p(1-p)/n + 2/(n eps)^2 (Example 3.5).

    >>> proportion_variance(proportion=0.5, n=100, epsilon=1)
    0.0027
    """
    p, size = check.probability("proportion", proportion), check.count("n", n, least=1)
    return p * (1.0 - p) / size + 2.0 / (size * check.positive("epsilon", epsilon)) ** 2


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
    """Root mean square L2 error of a mean of vectors with Gaussian noise: d sigma / n.

    sigma is the least noise multiplier (exact, not the classical formula).

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
