"""The exact k-fold composition of (epsilon, delta)-DP (``unlike`` encloses it when the steps differ).

The worst mechanism is known: with probability delta it gives everything away, otherwise it is randomized
response (Kairouz, Oh, Viswanath 2015). Its k-fold composition is a binomial sum.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.rounding import LEAST, TINY, delta_up, up
from tallystick.theorems import require
from tallystick.theorems.require import Floats


def optimal_composition_delta(*, epsilon: float, steps: int, total_epsilon: float, delta: float = 0.0) -> float:
    """The exact delta at ``total_epsilon`` of k adaptive (epsilon, delta)-DP steps.

    1 - (1-delta)^k (1 - sum_i C(k,i) p^i (1-p)^(k-i) (1 - e^(E - (2i-k) epsilon))_+), p = e^epsilon/(1+e^epsilon).
    Kairouz, Oh, Viswanath 2015, Theorem 3.3; page ``theory/optimal-composition.md``. No theorem about
    (epsilon, delta)-DP steps can give less. Rounded up (relative 1e-12 + 1e-15 k, and 1e-300 absolute).

    >>> round(optimal_composition_delta(epsilon=0.1, steps=100, total_epsilon=5.7565), 12)
    3.796e-09
    """
    e, k = check.nonnegative("epsilon", epsilon), require.steps("steps", steps)
    total, d = check.nonnegative("total_epsilon", total_epsilon), check.probability("delta", delta)
    inside = _randomized_response_delta(e, k, total)
    if d == 1.0:
        return 1.0
    # 1 - (1-d)^k (1-x), written so that small numbers stay exact
    lost = -math.expm1(k * math.log1p(-d))
    return delta_up(lost + (1.0 - lost) * inside, slack=1e-12 + 1e-15 * k)


def optimal_composition_epsilon(*, epsilon: float, steps: int, total_delta: float, delta: float = 0.0) -> float:
    """The least epsilon at ``total_delta`` of k adaptive (epsilon, delta)-DP steps; infinite if delta alone exceeds it.

    Kairouz, Oh, Viswanath 2015, Theorem 3.3; page ``theory/optimal-composition.md``. Found by bisection on
    ``optimal_composition_delta`` and read at the safe end. Rounded up.

    >>> round(optimal_composition_epsilon(epsilon=0.1, steps=1000, total_delta=1e-6), 5)
    19.34467
    """
    e, k = check.nonnegative("epsilon", epsilon), require.steps("steps", steps)
    target, d = check.probability("total_delta", total_delta), check.probability("delta", delta)
    if 0.0 < target < TINY:
        raise InvalidInput("total_delta", total_delta, f"0 or a probability >= {TINY}")
    high = up(k * e)
    if d > 0.0 and delta_up(-math.expm1(k * math.log1p(-d)) if d < 1.0 else 1.0) > target:
        return math.inf
    if target == 0.0:
        return high
    # at k epsilon nothing but the lost mass is left, so `high` always meets the target
    low = 0.0
    if optimal_composition_delta(epsilon=e, steps=k, total_epsilon=0.0, delta=d) <= target:
        return 0.0
    for _ in range(100):
        middle = (low + high) / 2.0
        if high - low <= 1e-13 * high or middle in (low, high):
            break
        met = optimal_composition_delta(epsilon=e, steps=k, total_epsilon=middle, delta=d) <= target
        low, high = (low, middle) if met else (middle, high)
    return high


def optimal_composition_points(*, epsilon: float, steps: int, delta: float = 0.0) -> list[tuple[float, float]]:
    """The corners ((k - 2i) epsilon, delta_i), i = 0 .. k//2, of the exact privacy region.

    Between two corners delta is linear in e^epsilon, so the corners say everything. Kairouz, Oh, Viswanath 2015,
    Theorem 3.3; page ``theory/optimal-composition.md``. Deltas rounded up.

    >>> [(round(e, 3), round(d, 6)) for e, d in optimal_composition_points(epsilon=1.0, steps=2)]
    [(2.0, 0.0), (0.0, 0.462117)]
    """
    k, e = require.steps("steps", steps), check.nonnegative("epsilon", epsilon)
    if k > 10_000:
        raise InvalidInput("steps", steps, "at most 10000 (every corner is listed)")
    corners = [(k - 2 * i) * e for i in range(k // 2 + 1)]
    return [(at, optimal_composition_delta(epsilon=e, steps=k, total_epsilon=at, delta=delta)) for at in corners]


@lru_cache(maxsize=4)
def binomial_window(epsilon: float, steps: int) -> tuple[Floats, Floats, float]:
    """Numbers of truths in k randomized responses, their probabilities, and a bound on the mass left out.

    >>> wins, masses, outside = binomial_window(1.0, 3)
    >>> wins.tolist(), round(float(masses.sum()), 12), outside
    ([0.0, 1.0, 2.0, 3.0], 1.0, 0.0)
    """
    p = 1.0 / (1.0 + math.exp(-epsilon))
    variance = steps * p * (1.0 - p)
    # Bernstein: beyond this distance from the mean lies less than e^-760 of the mass
    reach = 760.0 / 3.0 + math.sqrt((760.0 / 3.0) ** 2 + 2.0 * 760.0 * variance) + 2.0
    low = max(0, math.floor(steps * p - reach))
    high = min(steps, math.ceil(steps * p + reach))
    wins = np.arange(low, high + 1, dtype=np.float64)
    # log of pmf(i+1)/pmf(i) = log((k-i)/(i+1)) + epsilon, summed outwards from the mode so that errors stay small
    ratios = np.log((steps - wins[:-1]) / (wins[:-1] + 1.0)) + epsilon
    mode = min(len(wins) - 1, max(0, math.floor((steps + 1) * p) - low))
    logs = np.concatenate([-np.cumsum(ratios[:mode][::-1])[::-1], [0.0], np.cumsum(ratios[mode:])])
    masses = np.exp(logs)
    return wins, masses / masses.sum(), TINY if low > 0 or high < steps else 0.0


def _randomized_response_delta(epsilon: float, steps: int, total: float) -> float:
    """delta(total) of k randomized responses; what the window leaves out is added at infinity."""
    # the product may be rounded below the largest loss, and what lies between counts
    if Fraction(total) >= steps * Fraction(epsilon):
        return 0.0
    wins, masses, outside = binomial_window(epsilon, steps)
    losses = (2.0 * wins - steps) * epsilon
    gaps = losses - total + 3e-16 * np.abs(losses)
    above = gaps > 0.0
    delta = float(np.sum(masses[above] * -np.expm1(-gaps[above]))) + outside
    return max(delta, LEAST)
