"""Root search that keeps the side it promised."""

from __future__ import annotations

import math
from collections.abc import Callable


def bisect_decreasing(
    function: Callable[[float], float], level: float, low: float, high: float, *, relative: float = 1e-14
) -> tuple[float, float]:
    """``(below, above)`` with function(below) > level >= function(above), or equal ends where there is no crossing.

    The secant on the logarithm, guarded by bisection: ``function`` is decreasing up to rounding. Where
    function(low) <= level both ends are ``low``; where function(high) > level, ``above`` is
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
    log_level = math.log(level) if level > 0.0 else -745.0

    def height(x: float) -> float:
        return math.log(max(function(x), 1e-320)) - log_level

    before, now = (low, math.log(start) - log_level), (high, math.log(max(end, 1e-320)) - log_level)
    for step in range(200):
        width = high - low
        if width <= relative * abs(high):
            break
        rise = now[1] - before[1]
        middle = now[0] - now[1] * (now[0] - before[0]) / rise if rise != 0.0 else math.inf
        # The secant converges to the root from one side; a nudge past it by the tolerance closes the bracket.
        nudge = 0.4 * relative * abs(high)
        middle += nudge if now[1] > 0.0 else -nudge
        if step % 8 == 7 or not low < middle < high:
            middle = low + 0.5 * width
        value = height(middle)
        before, now = now, (middle, value)
        if value > 0.0:
            low = middle
        else:
            high = middle
    return low, high
