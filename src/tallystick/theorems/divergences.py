"""Every divergence is a function of the trade-off function (Propositions 13.4 to 13.6)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tallystick.rounding import delta_up, up
from tallystick.theorems.piecewise import PiecewiseTradeoff
from tallystick.theorems.renyi import divergence_of_masses

_ULPS = 5e-16
"""What a difference of two corners may be wrong by."""


def tradeoff_to_tv(f: PiecewiseTradeoff) -> float:
    """Total variation = max over alpha of 1 - alpha - f(alpha).

    Example 13.7 of the lecture notes misses (1 - f(0))/2 (erratum 9): for f_{0,.2} it says .1 where the truth
    is .2; page ``theory/tradeoff-divergences.md``. Rounded up.

    >>> round(tradeoff_to_tv(PiecewiseTradeoff.of_approx_dp(epsilon=0.0, delta=0.2)), 9)
    0.2
    """
    a, b = np.asarray(f.alphas), np.asarray(f.betas)
    # 1 - a - b may cancel: a few ulps of 1 are added
    return delta_up(float(np.max(1.0 - a - b)) + 4e-16)


def tradeoff_to_renyi(f: PiecewiseTradeoff, *, order: float) -> float:
    """D_order(P||Q) for f = T(P, Q); orders 1 (``kl``) and infinity too; infinite when f reaches 0 before 1.

    Example 13.7 and Proposition 13.6 of the lecture notes; page ``theory/tradeoff-divergences.md``. Rounded up; a drop
    below 5e-16 is within rounding and counts as zero.

    >>> f = PiecewiseTradeoff.of_approx_dp(epsilon=1.0)
    >>> round(tradeoff_to_renyi(f, order=math.inf), 9)
    1.0
    """
    p, q = f.pair()
    # widths and drops are differences of corners: rounding is turned against the claim on both sides
    return divergence_of_masses(
        np.where(p > 0.0, p + _ULPS, p), np.where(p > 0.0, np.maximum(q - _ULPS, 0.0), q), order=order
    )


def tradeoff_to_kl(f: PiecewiseTradeoff) -> float:
    """D(P||Q) = - integral of log|f'|.

    Example 13.7 of the lecture notes; page ``theory/tradeoff-divergences.md``. Rounded up.

    >>> round(tradeoff_to_kl(PiecewiseTradeoff.of_approx_dp(epsilon=1.0)), 6)
    0.462117
    """
    return tradeoff_to_renyi(f, order=1.0)


def tradeoff_to_f_divergence(
    f: PiecewiseTradeoff, generator: Callable[[float], float], *, at_zero: float, slope_at_infinity: float
) -> float:
    """D_F(P||Q) = sum F(p/q) q + F(0) Q[p=0] + tau P[q=0] for f = T(P, Q) and a convex generator F with F(1) = 0.

    Proposition 13.5 of the lecture notes; ``at_zero`` is F(0), ``slope_at_infinity`` is tau = lim F(t)/t
    (both may be infinite; 0 times infinity is 0); page ``theory/tradeoff-divergences.md``. Rounded up.

    >>> f = PiecewiseTradeoff.of_approx_dp(epsilon=1.0)
    >>> tv = tradeoff_to_f_divergence(f, lambda t: abs(t - 1) / 2, at_zero=0.5, slope_at_infinity=0.5)
    >>> round(tv, 6)
    0.462117
    """
    p, q = f.pair()

    def term(mass: float, other: float) -> float:
        if mass > 0.0 and other > 0.0:
            return other * generator(mass / other)
        return other * at_zero if other > 0.0 else mass * slope_at_infinity if mass > 0.0 else 0.0

    terms = []
    for mass, other in zip(p.tolist(), q.tolist(), strict=True):
        # q F(p/q) is convex in both, so within rounding of a segment it is largest at a corner of the box
        near = [(max(0.0, mass + a), max(0.0, other + b)) for a in (-_ULPS, _ULPS) for b in (-_ULPS, _ULPS)]
        terms.append(max(term(*point) for point in near) if mass > 0.0 and other > 0.0 else term(mass, other))
    if any(math.isinf(term) for term in terms):
        return math.inf
    size = max((abs(term) for term in terms), default=0.0)
    return up(max(0.0, math.fsum(terms) + 4e-16 * len(terms) * size))
