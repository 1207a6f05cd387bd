"""The best of a random number of runs, in balls: the base's H, mixed over shifts (docs/theory/selected.md).

delta(epsilon) <= E F(e^{epsilon - L}) with F(z) = max over ranks t of (w(t) - w(g(t)) z)_+, which is convex. Chords of
F between knots z_k are above it and a sum of weights times (1 - z/z_k)_+, so the bound is a sum of weights times
H(epsilon - log z_k).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from flint import arb

from tallystick.errors import NotComputable
from tallystick.numerics.law import Array
from tallystick.numerics.rigorous.heights import Ladder
from tallystick.numerics.rigorous.laws import Ball, point_work, work
from tallystick.numerics.rigorous.polygon import masses_above
from tallystick.numerics.rigorous.sketch import Height

KNOTS = 64
"""Knots of F."""
ROUNDED = 2.0**-48
"""Of a product and a difference of two doubles, relative to the larger."""


def selected(ahead: Height, behind: Height, weight: Callable[[Ball], Ball], ranks: Array) -> tuple[Height, Ball]:
    """H of the winner, and how much longer than the base's its largest loss may be.

    ``ranks`` grow from 0 to 1; between two of them the weights are taken at the worse end.
    """
    work(2.0 * len(ranks) * point_work())
    ladder = Ladder(behind)
    lines = []
    for here, there in zip(ranks[:-1].tolist(), ranks[1:].tolist(), strict=True):
        best = arb(1)  # what has probability ``there`` here, at most under the neighbour: e^x there + H(x), any x
        place = ladder.threshold(there)
        for index in range(max(0, place - 1), min(place + 2, ladder.x.size)):
            x = arb(float(ladder.x[index]))
            best = best.min(x.exp() * arb(there) + behind(x))
        lines.append((_up(weight(arb(here))), _down(weight(best))))
    heights, slopes = np.array([line[0] for line in lines]), np.array([line[1] for line in lines])
    # From the last knot on every line is below zero.
    with np.errstate(over="ignore", divide="ignore"):
        last = float(np.max(heights / slopes)) * (1.0 + 1e-12)
    if not math.isfinite(last):
        raise NotComputable("so many runs that the weight of the last has no digits")
    knots = np.append(np.geomspace(1e-3, last, KNOTS)[:-1], last)
    values = [_up(arb(float(np.max(heights - slopes * z))) + arb(ROUNDED) * float(np.max(heights))) for z in knots]
    values[-1] = 0.0
    levels = [arb(float(z)) for z in knots]
    shares, _ = masses_above([arb(max(0.0, v)) for v in values], levels, weight(arb(0)))
    # A knot that rounding raised above its neighbours' chord has less than nothing, and H may be known from above only.
    parts = [(share.max(arb(0)), z.log()) for share, z in zip(shares, levels, strict=True) if not share <= 0]

    def height(x: Ball) -> Ball:
        work(0.3 * len(parts) * point_work())
        return sum((share * ahead(x - shift) for share, shift in parts), arb(0)).min(arb(1))

    return height, levels[-1].log()


def _up(ball: Ball) -> float:
    return math.nextafter(float(ball.upper()), math.inf)


def _down(ball: Ball) -> float:
    return max(math.nextafter(float(ball.lower()), -math.inf), 5e-324)
