"""Which way is safe: a bound that claims less privacy may be rounded, one that claims more may not.

Every closed form of this package is evaluated in double precision with a relative error of a few
units in the last place, so stretching by ``SLACK`` (about 4500 units) covers it with room to spare.
"""

from __future__ import annotations

import math

SLACK = 1e-12
TINY = 1e-300


def up(value: float, *, slack: float = SLACK) -> float:
    """``value`` moved away from zero-privacy-loss: never below the real number it stands for.

    >>> up(2.0) > 2.0, up(0.0), up(float("inf"))
    (True, 0.0, inf)
    """
    if value == 0.0 or math.isinf(value):
        return value
    return value + abs(value) * slack


def down(value: float, *, slack: float = SLACK) -> float:
    """``value`` moved towards minus infinity: never above the real number it stands for.

    >>> down(2.0) < 2.0, down(0.0)
    (True, 0.0)
    """
    if value == 0.0 or math.isinf(value):
        return value
    return value - abs(value) * slack


def delta_up(value: float, *, slack: float = SLACK) -> float:
    """A probability of failure rounded up and kept inside [0, 1].

    >>> delta_up(0.25) > 0.25, delta_up(1.5), delta_up(-1e-18)
    (True, 1.0, 0.0)
    """
    return min(1.0, max(0.0, up(value, slack=slack)))


def delta_down(value: float, *, slack: float = SLACK) -> float:
    """A least error (type II, say) rounded down and kept inside [0, 1].

    >>> delta_down(0.25) < 0.25, delta_down(-0.1)
    (True, 0.0)
    """
    return min(1.0, max(0.0, down(value, slack=slack)))
