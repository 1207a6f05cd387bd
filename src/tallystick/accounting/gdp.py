"""Gaussian differential privacy in closed form (Dong, Roth, Su 2019; Balle and Wang 2018)."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from tallystick.accounting.bounds import Bounds
from tallystick.numerics.law import UNIT, Array
from tallystick.numerics.saddle import bisect_decreasing

SLACK = 1e-13
"""Relative error of the closed form below; its sources are erfcx (a few ulps) and one subtraction."""


MU_ULPS = 4.0
"""mu itself is a root of a sum of squares of quotients."""


ERFCX = 16.0 * UNIT
"""Relative error of erfcx."""

BEYOND = 100.0
"""Deviations beyond which a Gaussian tail is zero in doubles."""

SMALL = 0.1
"""Below this mu the difference of two values of erfcx is integrated."""


def delta_bounds(mu: float, epsilon: float) -> Bounds:
    """delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), enclosed.

    Both terms share the factor exp(-(eps/mu - mu/2)^2 / 2), so the difference is taken between scaled
    complementary error functions and keeps its relative accuracy at delta = 1e-300.

    >>> delta_bounds(1.0, 1.0).upper.__round__(10)
    0.1269367375
    """
    if mu == 0.0:
        return Bounds(0.0, 0.0)
    value, error = _delta(mu, epsilon)
    return Bounds(max(0.0, value - error - 1e-320), min(1.0, value + error + 1e-320))


def _delta(mu: float, epsilon: float) -> tuple[float, float]:
    """The difference and how far it may be from the truth."""
    from scipy.special import erfcx, ndtr

    ratio = epsilon / mu
    near, far = ratio - mu / 2.0, ratio + mu / 2.0
    if near > 39.0:
        # below e^-760, and 1e-320 is added to every answer
        return 0.0, 0.0
    # mu is known to MU_ULPS, and d delta / d mu = phi(near); rounding the ratio is the same as rounding epsilon, and
    # d delta / d epsilon = -e^epsilon Phi(-far). Both are kept beside the rounding of the difference.
    own = MU_ULPS * UNIT * mu
    if near < -1.0:
        # Phi(-near) > 0.84: the plain formula loses nothing.
        height = math.exp(-0.5 * near * near)
        second = height * 0.5 * float(erfcx(far / math.sqrt(2.0))) if far > 0 else None
        if second is None:
            second = math.exp(min(epsilon, 0.0)) * float(ndtr(-far))
        value = float(ndtr(-near)) - second
        return value, SLACK + 0.4 * height * own + UNIT * abs(epsilon) * second
    second = float(erfcx(far / math.sqrt(2.0)))
    if mu < SMALL:
        gaps, spreads = _gap(np.array([near]), mu)
        difference, spread = float(gaps[0]), float(spreads[0])
    else:
        first = float(erfcx(near / math.sqrt(2.0)))
        difference, spread = first - second, ERFCX * first
    scale = 0.5 * math.exp(-0.5 * near * near)
    # Rounding of near^2/2 in the exponent, and of the difference.
    error = 4e-16 * (near * near + 8.0) * difference + spread + 0.8 * own + UNIT * abs(epsilon) * second
    return scale * max(difference, 0.0), scale * error


@cache
def _eight_nodes() -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(8)


def _gap(near: Array, mu: float) -> tuple[Array, Array]:
    """erfcx(near/sqrt 2) - erfcx((near + mu)/sqrt 2) and its error, for small mu.

    The integral of -erfcx' = 2/sqrt pi - 2 x erfcx(x), by eight Gauss nodes: a difference of two values near one
    another would keep none of the digits that mu has.
    """
    from scipy.special import erfcx

    points, weights = _eight_nodes()
    x = (near[:, None] + 0.5 * mu * (points + 1.0)) / math.sqrt(2.0)
    slope = 2.0 * x * erfcx(x)
    falls = 2.0 / math.sqrt(math.pi) - slope
    width = 0.5 * mu / math.sqrt(2.0)
    return width * (falls @ weights), width * ((ERFCX * np.abs(slope) + 4.0 * UNIT) @ weights)


def tradeoff(mu: float, alpha: float) -> float:
    """Phi(Phi^{-1}(1 - alpha) - mu), rounded down.

    >>> round(tradeoff(1.0, 0.05), 4)
    0.7405
    """
    return max(0.0, _tail(mu, alpha, 1.0)[0] - 1e-320)


def power(mu: float, alpha: float) -> float:
    """1 - Phi(Phi^{-1}(1 - alpha) - mu), rounded up.

    >>> round(power(1.0, 0.05), 4)
    0.2595
    """
    return min(1.0, _tail(mu, alpha, -1.0)[1] + 1e-320)


def _tail(mu: float, alpha: float, sign: float) -> tuple[float, float]:
    """Phi(-sign (Phi^{-1}(alpha) + mu)) from below and above.

    The argument z carries a few units of its size; the logarithm of Phi changes by at most |z| + 1 times that.
    """
    from scipy.special import ndtr, ndtri

    if not 0.0 < alpha < 1.0:
        end = 1.0 - alpha if sign > 0.0 else alpha
        return end, end
    start = float(ndtri(alpha))
    argument = -sign * (start + mu)
    value, error = float(ndtr(argument)), 16.0 * UNIT * (abs(argument) + 1.0) * (abs(start) + mu + 1.0)
    return value * max(0.0, 1.0 - error), value * (1.0 + error)


def excess(mu: float, thresholds: Array) -> tuple[Array, Array]:
    """delta at many epsilons of either sign, and a bound on the error of each.

    >>> values, errors = excess(1.0, np.array([1.0, -1.0]))
    >>> bool(np.all(np.abs(values - [0.1269367375, 0.6788179749]) < 1e-7 + errors))
    True
    """
    from scipy.special import erfcx, log_ndtr, ndtr

    # What a tiny mu makes of a threshold may be no double, and its square none either.
    with np.errstate(over="ignore"):
        places = thresholds / mu
    near, far = places - mu / 2.0, places + mu / 2.0
    high = np.clip(near, -1.0, BEYOND)
    scale = 0.5 * np.exp(-0.5 * high * high)
    first, second = erfcx(high / math.sqrt(2.0)), erfcx(np.maximum(far, high + mu) / math.sqrt(2.0))
    gap, spread = _gap(high, mu) if mu < SMALL else (first - second, ERFCX * first)
    scaled = scale * np.maximum(gap, 0.0)
    own = 0.8 * MU_ULPS * UNIT * mu + UNIT * np.abs(thresholds) * second
    errors = scale * (4e-16 * (high * high + 8.0) * np.maximum(gap, 0.0) + spread + own)
    # Where Phi(-near) > 0.84 the plain formula loses nothing.
    plain = ndtr(-near) - np.exp(np.minimum(thresholds + log_ndtr(-far), 0.0))
    left = near < -1.0
    return np.where(left, plain, scaled), np.where(left, 1e-14 + 4e-16 * np.abs(thresholds) + own, errors) + 1e-320


def epsilon_bounds(mu: float, delta: float) -> Bounds:
    """The epsilon at which a mu-GDP mechanism has the given delta; infinite only at delta = 0.

    >>> round(epsilon_bounds(1.0, 1e-5).upper, 6)
    4.377178
    """
    upper = epsilon_upper(mu, delta)
    if mu == 0.0 or delta == 0.0:
        return Bounds(upper, upper)
    # The other end is next to it, unless mu is so large that its ulps show.
    near, high = upper * (1.0 - 1e-9), _bracket(mu, delta)
    start, end = (near, upper) if near > 0.0 and delta_bounds(mu, near).lower > delta else (0.0, high)
    lower = bisect_decreasing(lambda e: delta_bounds(mu, e).lower, delta, start, end)[0]
    return Bounds(min(lower, upper), upper)


def epsilon_upper(mu: float, delta: float) -> float:
    """The upper end of ``epsilon_bounds`` alone, for half the work.

    >>> epsilon_upper(1.0, 1e-5) == epsilon_bounds(1.0, 1e-5).upper
    True
    """
    if mu == 0.0:
        return 0.0
    if delta == 0.0:
        return math.inf
    high = _bracket(mu, delta)
    upper = bisect_decreasing(lambda e: delta_bounds(mu, e).upper, delta, 0.0, high)[1]
    # A mu so large that its own ulps hide delta still has the bracket's end.
    return min(upper, high * (1.0 + 1e-14))


def _bracket(mu: float, delta: float) -> float:
    """An epsilon beyond the root: Phi(mu/2 - eps/mu) <= delta already at the Gaussian quantile."""
    return mu * mu / 2.0 + mu * (math.sqrt(2.0 * max(0.0, -math.log(delta))) + 1.0)


def mu_of_pure(epsilon: float) -> float:
    """The least mu for which every epsilon-DP mechanism is mu-GDP, rounded up: -2 Phi^{-1}(1 / (1 + e^epsilon)).

    Randomized response has its corner on the diagonal, and there the curves touch.

    >>> round(mu_of_pure(1.0), 4)
    1.232
    """
    from scipy.special import ndtri_exp

    if math.isinf(epsilon):
        return math.inf
    if epsilon < 0.01:
        # -Phi^{-1}(1/2 - x) = sqrt(2 pi) (x + pi x^3/3 + 7 pi^2 x^5/30 + ...); the logarithm loses small x.
        share = 0.5 * math.tanh(0.5 * epsilon)
        square = share * share
        return 2.0 * math.sqrt(2.0 * math.pi) * share * (1.0 + square * (1.0471976 + 2.31 * square)) * (1.0 + 1e-13)
    return -2.0 * float(ndtri_exp(-math.log1p(math.exp(-epsilon)) - epsilon)) * (1.0 + 1e-13)
