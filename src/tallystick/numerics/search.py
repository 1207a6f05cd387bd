"""Root search that keeps the side it promised."""

from __future__ import annotations

import math
from collections.abc import Callable


def bisect_decreasing(
    function: Callable[[float], float], level: float, low: float, high: float, *, relative: float = 1e-14
) -> tuple[float, float]:
    """``(below, above)`` with function(below) > level >= function(above), or equal ends where there is no crossing.

    Regula falsi with the Illinois rule on the logarithm, guarded by bisection: ``function`` is decreasing up to
    rounding. Where function(low) <= level both ends are ``low``; where function(high) > level, ``above`` is
    infinite.

    >>> below, above = bisect_decreasing(lambda x: math.exp(-x), 0.5, 0.0, 10.0)
    >>> below <= math.log(2) <= above
    True
    """
    start, end = function(low), function(high)
    if start <= level:
        return low, low
    if end > level:
        return high, math.inf
    tiny = 1e-320
    left, right = math.log(start / level) if level > 0 else 1.0, math.log(max(end, tiny) / max(level, tiny))
    right = min(right, -1e-12)
    for step in range(300):
        if high - low <= relative * max(abs(high), 1e-300):
            break
        share = left / (left - right) if step % 3 != 2 else 0.5
        middle = low + (high - low) * min(max(share, 1e-3), 1.0 - 1e-3)
        if not low < middle < high:
            break
        value = function(middle)
        if value > level:
            low, left = middle, max(math.log(value / level) if level > 0 else 1.0, 1e-300)
            right *= 0.5
        else:
            high, right = middle, min(math.log(max(value, tiny) / max(level, tiny)), -1e-300)
            left *= 0.5
    return low, high
