"""The standard normal law to a relative error of a few ulps, far into both tails."""

from __future__ import annotations

import math

import numpy as np

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def cdf(x: float) -> float:
    """Phi(x).

    >>> cdf(0.0), 0.0 < cdf(-37.0) < 1e-290
    (0.5, True)
    """
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def quantile(p: float) -> float:
    """Phi^-1(p), with -inf and inf at 0 and 1.

    >>> round(quantile(0.975), 6)
    1.959964
    """
    from scipy.special import ndtri

    return float(ndtri(p))


def density(x: float) -> float:
    """phi(x).

    >>> round(density(0.0), 6)
    0.398942
    """
    return math.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)


def gap(epsilon: float, mu: float) -> float:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) without cancellation; a gap below 1e-331 is 0.

    With a = eps/mu - mu/2, b = eps/mu + mu/2 and R the Mills ratio, e^eps phi(b) = phi(a), so the
    difference is phi(a) (R(a) - R(b)), and R(a) - R(b) is the integral over [a, b] of 1 - x R(x).

    >>> round(gap(1.0, 1.0), 9)
    0.126936738
    """
    from scipy.special import erfcx

    ratio = epsilon / mu
    # where the two parts of a cancel it is wrong by their ulps: a little less stands for a smaller epsilon
    a = ratio - mu / 2.0 - 3e-16 * (ratio + mu / 2.0)
    if a > 39.0:
        return 0.0
    b = a + mu
    root = math.sqrt(math.pi / 2.0)
    if mu <= 1.0 and a > -8.0:
        x = a + (b - a) * (np.asarray(_NODES) + 1.0) / 2.0
        inner = _one_minus_x_mills(x)
        return density(a) * float(np.dot(_WEIGHTS, inner)) * mu / 2.0
    if a > 0.0:
        return density(a) * root * float(erfcx(a / math.sqrt(2.0)) - erfcx(b / math.sqrt(2.0)))
    # a <= 0: the first term is at least 1/2 and the second is phi(a) R(b), no exponential of epsilon is formed
    return cdf(-a) - density(a) * root * float(erfcx(b / math.sqrt(2.0)))


def _one_minus_x_mills(x: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    from scipy.special import erfcx

    root = math.sqrt(math.pi / 2.0)
    plain = 1.0 - x * root * erfcx(x / math.sqrt(2.0))
    # asymptotic series 1/x^2 - 3/x^4 + 15/x^6 - ... where the difference would cancel
    y = np.maximum(np.abs(x), 50.0) ** -2.0
    far = y * (1.0 - 3.0 * y * (1.0 - 5.0 * y * (1.0 - 7.0 * y * (1.0 - 9.0 * y))))
    return np.asarray(np.where(x > 50.0, far, plain))
