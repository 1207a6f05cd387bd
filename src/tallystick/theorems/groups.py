"""Several records at once, and from add/remove to replace.

A group of k is k single steps in a row. Under add/remove the steps may go both ways, so every statement here is
about a claim that holds in both directions.
"""

from __future__ import annotations

import math

from tallystick.accounting import check
from tallystick.rounding import SLACK, delta_up, exp, up
from tallystick.theorems import require
from tallystick.theorems.piecewise import PiecewiseTradeoff, chained, hull_of_min, pointwise_max, symmetrised

_LARGEST_GROUP = 10_000
"""The corners of a chain add up; ``PrivacyLoss.for_groups`` goes further."""


def group_pure(*, epsilon: float, size: int) -> float:
    """epsilon-DP is k epsilon-DP for groups of k.

    Proposition 3.2 of the lecture notes; page ``theory/group-privacy.md``. Rounded up.

    >>> round(group_pure(epsilon=0.5, size=4), 9)
    2.0
    """
    return up(require.steps("size", size) * check.nonnegative("epsilon", epsilon))


def group_approx(*, epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """(k epsilon, delta (e^(k epsilon) - 1)/(e^epsilon - 1)): the geometric sum, not its last term times k.

    Composition notes (000) print the weaker k e^((k-1) epsilon) delta;
    page ``theory/group-privacy.md``. Rounded up.

    >>> epsilon, delta = group_approx(epsilon=0.5, delta=1e-3, size=3)
    >>> round(epsilon, 9), round(delta, 6)
    (1.5, 0.005367)
    """
    e, d, k = check.nonnegative("epsilon", epsilon), check.probability("delta", delta), require.steps("size", size)
    total = up(k * e)
    if d == 0.0:
        return total, 0.0
    if k == 1:
        return total, d
    # (e^(k eps) - 1)/(e^eps - 1) = e^((k-1) eps) (1 - e^(-k eps))/(1 - e^(-eps)), the power taken together with delta
    power = (k - 1) * e + math.log(d)
    sum_of_rest = float(k) if e == 0.0 else math.expm1(-k * e) / math.expm1(-e)
    return total, delta_up(up(exp(power), positive=True) * sum_of_rest, slack=SLACK + 1e-15 * (k - 1) * e)


def group_approx_printed(*, epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """(k epsilon, k e^((k-1) epsilon) delta), the composition notes (000); never better than ``group_approx``.

    >>> epsilon, delta = group_approx_printed(epsilon=0.5, delta=1e-3, size=3)
    >>> round(delta, 6)
    0.008155
    """
    e, d, k = check.nonnegative("epsilon", epsilon), check.probability("delta", delta), require.steps("size", size)
    lost = 0.0 if d == 0.0 else delta_up(k * exp((k - 1) * e) * d, slack=SLACK + 1e-15 * (k - 1) * e)
    return up(k * e), lost


def group_gdp(*, mu: float, size: int) -> float:
    """mu-GDP is k mu-GDP for groups of k.

    Theorem 13.3 of the lecture notes; page ``theory/group-privacy.md``. Rounded up.

    >>> round(group_gdp(mu=0.5, size=4), 9)
    2.0
    """
    return up(require.steps("size", size) * check.nonnegative("mu", mu))


def group_zcdp(*, rho: float, size: int) -> float:
    """rho-zCDP is k^2 rho-zCDP for groups of k.

    Bun, Steinke 2016, Proposition 1.9; page ``theory/group-privacy.md``. Rounded up.

    >>> round(group_zcdp(rho=0.1, size=3), 9)
    0.9
    """
    return up(require.steps("size", size) ** 2 * check.nonnegative("rho", rho))


def group_tradeoff(f: PiecewiseTradeoff, *, size: int, both_orders: bool = False) -> PiecewiseTradeoff:
    """1 - (1 - s)^(o k): a group of k is a chain of k neighbours, each step s.

    Theorem 13.3 of the lecture notes is about f-DP, a claim on both orders of every two neighbours: with
    ``both_orders`` s = max(f, f^-1). Otherwise f counts as the claim for one direction, whose inverse holds for the
    other, and because a group may mix additions and removals s = hull(min(f, f^-1)). For symmetric f both are f; page
    ``theory/group-privacy.md``.

    >>> f = PiecewiseTradeoff.of_approx_dp(epsilon=0.0, delta=0.1)
    >>> float(group_tradeoff(f, size=3)(0.0).round(6))
    0.7
    """
    k = require.steps("size", size, most=_LARGEST_GROUP)
    both = symmetrised(f) if both_orders else hull_of_min(f, f.inverse())
    whole = PiecewiseTradeoff.identity()
    # chains of one step may be put together in any order: 1, 2, 4, ... steps at a time
    while k:
        if k & 1:
            whole = chained(both, whole)
        k >>= 1
        if k:
            both = chained(both, both)
    return whole


def replace_from_add_remove(*, epsilon: float, delta: float = 0.0) -> tuple[float, float]:
    """Add/remove (epsilon, delta) is replace (2 epsilon, (1 + e^epsilon) delta): remove one, then add one.

    Proposition 4.1 of the lecture notes (its list swaps the two names, erratum 19: bounded = replace,
    unbounded = add/remove); page ``theory/adjacency.md``. Rounded up.

    >>> epsilon, delta = replace_from_add_remove(epsilon=0.5, delta=1e-6)
    >>> round(epsilon, 9), round(delta, 12)
    (1.0, 2.648721e-06)
    """
    return group_approx(epsilon=epsilon, delta=delta, size=2)


def replace_tradeoff(remove: PiecewiseTradeoff, add: PiecewiseTradeoff) -> PiecewiseTradeoff:
    """max(f_ADD(1 - f_REM(.)), f_REM(1 - f_ADD(.))) with f_REM = T(with, without) and f_ADD = T(without, with).

    One record may leave before the other comes, or after: both chains are proved for every two neighbours, so the
    better one holds at each level. Proposition 4.2 of the lecture notes writes f(1 - f) with one f, false for
    asymmetric f (anything sampled); page ``theory/adjacency.md``.

    >>> f = PiecewiseTradeoff.of_approx_dp(epsilon=0.0, delta=0.1)
    >>> float(replace_tradeoff(f, f)(0.0).round(6))
    0.8
    """
    return pointwise_max(chained(add, remove), chained(remove, add))
