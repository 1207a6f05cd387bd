"""A smooth pair between two finite ones: outcomes run together (below), outcomes pulled apart (above).

Merging outcomes is post-processing, so no H_a grows.  Moving a cell's mass to the ends of its range of ratios, P and Q
kept, is a dilation of the ratio under Q, so no H_a falls.
"""

from __future__ import annotations

from flint import arb

from referee.balls import ONE, ZERO, at_least_zero, ball, near
from referee.finite import Finite, tidy
from referee.sides import Smooth


def cuts(side: Smooth, cells: int) -> list[arb]:
    """Ratios between cells: even in the loss, over where either law has mass worth telling apart."""
    top = _edge(side, 1)
    bottom = _edge(side, -1)
    return [ball(bottom + (top - bottom) * i / cells).exp() for i in range(cells + 1)]


def _edge(side: Smooth, sign: int) -> float:
    """A loss beyond which P (above) or Q (below) has less than 1e-12."""
    level = 0.01 * sign
    for _ in range(60):
        p, q = side.tails(ball(level).exp())
        if near(p if sign > 0 else 1 - q) < 1e-12:
            break
        level *= 1.3
    return level


def _cells(side: Smooth, cells: int) -> list[tuple[arb | None, arb | None, arb, arb]]:
    """(lowest ratio, highest ratio, P-mass, Q-mass); None for zero and infinity at the two ends."""
    edges = cuts(side, cells)
    tails = [(ONE, ONE), *(side.tails(a) for a in edges), (side.infinite(), ZERO)]
    bounds = [None, *edges, None]
    result = []
    for i in range(len(tails) - 1):
        p, q = tails[i][0] - tails[i + 1][0], tails[i][1] - tails[i + 1][1]
        result.append((bounds[i], bounds[i + 1], p.max(ZERO), q.max(ZERO)))
    return result


def coarse(side: Smooth, cells: int) -> Finite:
    """Below: each cell is one outcome."""
    listed = [(p, q) for _, _, p, q in reversed(_cells(side, cells))]
    return Finite(tidy([(side.infinite(), ZERO), *joined_cells(listed)]))


def joined_cells(listed: list[tuple[arb, arb]]) -> list[tuple[arb, arb]]:
    """Cells joined to the next where 256 bits cannot tell one of their masses from zero: no loss becomes infinite."""
    outcomes: list[tuple[arb, arb]] = []
    p, q = ZERO, ZERO
    for more_p, more_q in listed:
        p, q = p + more_p, q + more_q
        if p > 0 and q > 0:
            outcomes.append((p, q))
            p, q = ZERO, ZERO
    if not outcomes:
        return [(p, q)]
    last_p, last_q = outcomes.pop()
    return [*outcomes, (last_p + p, last_q + q)]


def dilated(side: Smooth, cells: int) -> Finite:
    """Above: each cell's mass at the ends of its ratios; the end cells at zero and infinity."""
    outcomes = [(side.infinite(), ZERO)]
    for low, high, p, q in _cells(side, cells):
        if high is None:
            outcomes += [(at_least_zero(p), ZERO), (ZERO, at_least_zero(q))]
        else:
            at_low = low if low is not None else ZERO
            right = at_least_zero((p - at_low * q) / (high - at_low))
            left = at_least_zero(q - right)
            outcomes += [(high * right, right), (at_least_zero(at_low * left), left)]
    return Finite(tidy(outcomes))
