"""The first whole number at which something begins to hold."""

from __future__ import annotations

from collections.abc import Callable


def first_where(holds: Callable[[int], bool]) -> int:
    """The least n >= 1 at which a condition that stays true once true holds.

    >>> first_where(lambda n: n * n >= 50)
    8
    """
    high = 1
    while not holds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
