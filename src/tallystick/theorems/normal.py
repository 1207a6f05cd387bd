"""The standard normal law to a relative error of a few ulps, far into both tails."""

from __future__ import annotations

import math


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
