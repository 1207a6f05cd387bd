"""How wrong noise makes an answer: the accuracy statements of the notes as functions.

Sources: section 3.3 and Example 3.5 (Laplace), Example 9.1 and the accuracy part of seed 000 (growth with dimension).
Each bounds the error of continuous noise from above; a mechanism's own ``.error`` is exact for its lattice law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from tallystick.accounting import check, losses
from tallystick.accounting.calibrate import calibrate
from tallystick.mechanisms.base import confidence_level


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
    return size * math.log(d / (1.0 - confidence_level(confidence)))


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
    return -size * NormalDist().inv_cdf((1.0 - confidence_level(confidence)) / (2.0 * d))


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
