"""Search for a small value. Used only where every point is a true statement, so a poor search is never unsafe."""

from __future__ import annotations

import math
from collections.abc import Callable


def least(function: Callable[[float], float], low: float, high: float, *, scan: int = 60, refine: int = 60) -> float:
    """Return a point where a function is small: a coarse scan, then golden section around the best point.

    >>> round(least(lambda x: (x - 1.0) ** 2, -3.0, 5.0), 6)
    1.0
    """
    count = scan
    points = [low + (high - low) * i / count for i in range(count + 1)]
    values = [function(point) for point in points]
    best = min(range(count + 1), key=values.__getitem__)
    left, right = points[max(0, best - 1)], points[min(count, best + 1)]
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(refine):
        inner, outer = right - golden * (right - left), left + golden * (right - left)
        if function(inner) <= function(outer):
            right = outer
        else:
            left = inner
    middle = (left + right) / 2.0
    return middle if function(middle) <= values[best] else points[best]
