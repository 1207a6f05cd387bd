"""What an attacker who tests "is this record in?" can reach."""

from __future__ import annotations

import math

from tallystick.accounting import check
from tallystick.theorems.rounding import delta_down, delta_up


def power_bound(*, alpha: float, epsilon: float, delta: float = 0.0) -> float:
    """Power of any test at level alpha: min(1, e^eps alpha + delta, 1 - e^-eps (1 - delta - alpha)).

    Theorem 3.4 of the lecture notes. Section 13.1 repeats it with e^-alpha for e^-eps (erratum 8), which claims
    too little power; page ``theory/hypothesis-testing.md``. Rounded up.

    >>> round(power_bound(alpha=0.5, epsilon=1.0, delta=0.01), 6)
    0.819739
    """
    a, d = check.probability("alpha", alpha), check.probability("delta", delta)
    e = check.nonnegative("epsilon", epsilon)
    first = 1.0 if e > 700.0 and a > 0.0 else math.exp(min(e, 700.0)) * a + d
    return delta_up(min(1.0, first, 1.0 - math.exp(-e) * (1.0 - d - a)))


def least_type_two_error(*, alpha: float, epsilon: float, delta: float = 0.0) -> float:
    """f_{eps,delta}(alpha) = max(0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha)).

    Remark 13.3 of the lecture notes: one minus ``power_bound``; page ``theory/hypothesis-testing.md``. Rounded down.

    >>> round(least_type_two_error(alpha=0.5, epsilon=1.0, delta=0.01), 6)
    0.180261
    """
    a, d = check.probability("alpha", alpha), check.probability("delta", delta)
    e = check.nonnegative("epsilon", epsilon)
    # beyond e^700 the first line is below every other one, except at alpha = 0
    first = 1.0 - d if a == 0.0 else -1.0 if e > 700.0 else 1.0 - d - math.exp(e) * a
    return delta_down(max(0.0, first, math.exp(-e) * (1.0 - d - a)))
