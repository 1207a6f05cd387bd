"""The contour of tests/reference as a side: for long compositions that no closed form covers."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb

from referee.balls import ZERO, ball, near, with_full_precision, within
from referee.sides import Searched
from reference import fast

with_full_precision()  # importing the other oracle changed it

CANNOT = (fast.OracleCannot, OverflowError, ZeroDivisionError, ValueError, MemoryError, IndexError, FloatingPointError)
Terms = tuple[tuple[tuple[tuple[str, Any], ...], int], ...]
UNKNOWN = ball(0.5) + arb(0, 0.5)


@lru_cache(maxsize=256)
def searched(terms: Terms, direction: str) -> Searched | None:
    """The profile, computed once per a; a value that the oracle cannot give is the ball around [0, 1]."""
    plain = [{**dict(term), "count": count} for term, count in terms]
    other = {"remove": "add", "add": "remove"}
    seen: dict[tuple[str, float], arb] = {}

    def value(order: str, loss: float) -> arb:
        if (order, loss) not in seen:
            try:
                with np.errstate(all="ignore"):
                    found = fast.delta(plain, epsilon=loss, direction=order)
            except CANNOT:
                seen[order, loss] = UNKNOWN
            else:
                ok = math.isfinite(found.value) and found.error < 1e-3
                exact = ball(found.value) if ok else UNKNOWN
                seen[order, loss] = within(exact, 2 * found.error + 1e-15, 1e-100).max(ZERO) if ok else UNKNOWN
        return seen[order, loss]

    def curve(a: arb) -> arb:
        loss = near(a.log()) if a > 0 else -math.inf
        if loss > 0:
            return within(value(direction, loss), 1e-14)
        if loss < 0 and math.isfinite(loss):  # H_a(P||Q) = 1 - a + a H_{1/a}(Q||P)
            return (1 - a + a * value(other[direction], -loss)).max(ZERO)
        return value(direction, 1e-300) if a > 0 else ball(1)

    return Searched(curve)
