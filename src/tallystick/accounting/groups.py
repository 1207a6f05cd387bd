"""Chains of neighbours: groups, and replace from add/remove, on power curves that err on the safe side."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tallystick.accounting.polygon import OUTWARD, UpperPower, UpperProfile


def grouped_power(single: UpperPower, size: int) -> UpperPower:
    """1 - f iterated ``size`` times (Dong, Roth, Su 2019): f_k = 1 - (1 - f)^{o k}."""
    result, base, left = UpperPower.trivial(), single, size
    while True:
        if left & 1:
            result = result.then(base)
        left >>= 1
        if not left:
            return result
        base = base.then(base)


def grouped_delta(single: UpperProfile, power: UpperPower, epsilon: float, size: int) -> float:
    """Least of the trade-off chain and of the (eps, delta) rule delta(k e) <= delta(e) (e^{ke} - 1)/(e^e - 1).

    ``power`` is the chained curve of the group; ``single`` bounds one step in both directions.
    """
    best = float(power.delta(np.array([epsilon]))[0])
    near = np.flatnonzero(single.epsilon * size <= epsilon)
    if near.size > 1 and size * Fraction(float(single.epsilon[near[-1]])) > Fraction(epsilon):
        near = near[:-1]  # the product was rounded down
    e, delta = float(single.epsilon[near[-1]]), float(single.delta[near[-1]])
    if delta == 0.0:
        return 0.0
    if e == 0.0:
        return min(best, delta * size * (1.0 + OUTWARD), 1.0)
    # (e^{ke} - 1)/(e^e - 1) <= e^{(k-1)e} / (1 - e^{-e}), where the first would overflow.
    exponent = (size - 1) * e
    factor = math.exp(exponent) * math.expm1(-size * e) / math.expm1(-e) if exponent < 700.0 else math.inf
    return min(best, delta * factor * (1.0 + 1e-12), 1.0)


def replaced_profile(remove: UpperProfile, add: UpperProfile, highest: float) -> UpperProfile:
    """The profile of replacing one record, the same in both directions (docs/theory/adjacency.md).

    Between the two data sets lies one with a record less and one with a record more; either chain is a bound, so the
    better one is. ``highest`` is the largest loss of both steps together, infinite where there is none.
    """
    there, back = UpperPower.under(remove, add), UpperPower.under(add, remove)
    found = there.then(back).meet(back.then(there)).profile()
    if not (math.isfinite(highest) and remove.delta[-1] == add.delta[-1] == 0.0):
        return found
    # Largest losses add, and beyond them the profile is zero.
    inside = found.epsilon < highest
    return UpperProfile(np.append(found.epsilon[inside], highest), np.append(found.delta[inside], 0.0))
