"""Limits of an attacker who tests "is this record in?"."""

from __future__ import annotations

import math

from tallystick.accounting import check
from tallystick.rounding import delta_down, delta_up, exp, up


def power_bound(*, alpha: float, epsilon: float, delta: float = 0.0) -> float:
    """Power of any test at level alpha: min(1, e^eps alpha + delta, 1 - e^-eps (1 - delta - alpha)).

    Theorem 3.4 of the lecture notes. Section 13.1 repeats it with e^-alpha for e^-eps (erratum 8), which claims
    too little power; page ``theory/hypothesis-testing.md``. Rounded up.

    >>> round(power_bound(alpha=0.5, epsilon=1.0, delta=0.01), 6)
    0.819739
    """
    a, d = check.probability("alpha", alpha), check.probability("delta", delta)
    e = check.nonnegative("epsilon", epsilon)
    first = d + (exp(e) * a if a > 0.0 else 0.0)
    # 1 - e^-eps (1 - delta - alpha) without cancellation
    return delta_up(min(1.0, first, math.exp(-e) * (d + a) - math.expm1(-e)), positive=a > 0.0)


def least_type_two_error(*, alpha: float, epsilon: float, delta: float = 0.0) -> float:
    """f_{eps,delta}(alpha) = max(0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha)).

    Remark 13.3 of the lecture notes: one minus ``power_bound``; page ``theory/hypothesis-testing.md``. Rounded down.

    >>> round(least_type_two_error(alpha=0.5, epsilon=1.0, delta=0.01), 6)
    0.180261
    """
    a, d = check.probability("alpha", alpha), check.probability("delta", delta)
    e = check.nonnegative("epsilon", epsilon)
    taken = up(exp(e) * a) if a > 0.0 else 0.0
    # math.fsum rounds once, so that what is left after a cancellation is right to its last digit
    first = -1.0 if taken > 2.0 else math.fsum((1.0, -d, -taken))
    return delta_down(max(0.0, first, math.exp(-e) * math.fsum((1.0, -d, -a))))
