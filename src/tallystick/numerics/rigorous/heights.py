"""What is known of a law by its H(x) = sup P(S) - e^x Q(S) alone: mixtures, larger ones, chains of neighbours.

Every function here takes H in balls, or balls whose upper ends are above H, and gives the same. Doubles only choose
how a chain is split; docs/theory/rigorous.md has the proofs.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from flint import arb

from tallystick.errors import NotComputable
from tallystick.numerics.law import Array
from tallystick.numerics.rigorous.laws import Ball, BallLaw, look, point_work, work
from tallystick.numerics.rigorous.sketch import LEFT_OUT, Height, sketched

NEAR = 1e-9
"""Losses that doubles cannot tell apart for certain, relative to one or to their size."""
DEEP = 1e-18
"""Mass by which a law known by its H is sketched, to choose contours and lattices only."""
RUNGS = 300
"""Thresholds of one neighbour among which a chain chooses."""


def finite_part(law: BallLaw) -> Height:
    """H without P's mass at infinity; what is missing of a law is somewhere between nowhere and infinity."""
    if law.profile is not None:
        return law.profile
    if law.atoms is None:
        raise NotComputable("no profile of one step is known")
    look()
    listed = sorted(((float(loss), loss, mass) for loss, mass in law.atoms), key=lambda one: -one[0])
    above = [(arb(0), arb(0))]
    for _, loss, mass in listed:
        above.append((above[-1][0] + mass, above[-1][1] + mass * (-loss).exp()))

    def height(x: Ball) -> Ball:
        margin = NEAR * (1.0 + abs(float(x)))
        # All before the first are surely above x, and none from the last on is.
        first, last = (bisect_left(listed, side - float(x), key=lambda one: -one[0]) for side in (-margin, margin))
        total = above[first][0] - x.exp() * above[first][1]
        for _, loss, mass in listed[first:last]:
            total += (mass * -(x - loss).expm1()).max(arb(0))
        return total + arb(0).union(law.missing)

    return height


def whole(law: BallLaw) -> Height:
    """H with P's mass at infinity, at most one."""
    finite = finite_part(law)
    return lambda x: (law.infinite + finite(x)).min(arb(1))


def known_by(
    height: Height, *, infinite: Ball | None = None, highest: Ball | None = None, like: BallLaw | None = None
) -> BallLaw:
    """The law whose H this is, or is below it: ``infinite`` at most, and no more from ``highest`` on.

    Where H is slow to compute, contours and lattices are chosen as if the law were ``like`` another one.
    """
    rest = arb(0) if infinite is None else infinite

    def profile(x: Ball) -> Ball:
        if highest is not None and x >= highest:
            return arb(0)
        return (height(x) - rest).max(arb(0))

    @lru_cache(maxsize=1)
    def sketch() -> tuple[Array, Array]:
        work(4e2 * point_work())
        found = sketched(profile, 1 - rest, 1, LEFT_OUT, DEEP)
        return found.losses, found.logs

    chosen = (lambda _tilt: sketch()) if like is None or like.sketch is None else like.sketch
    return BallLaw(infinite=rest, highest=highest, profile=profile, sketch=chosen, above_only=True)


def mirrored(height: Height, swapped: Height | None = None) -> Height:
    """H at every x from what is known at x >= 0, of the pair and of its swap: H(-x) = 1 - e^-x + e^-x H'(x).

    Without ``swapped`` the pair is its own swap.
    """
    other = height if swapped is None else swapped

    def both(x: Ball) -> Ball:
        if x >= 0:
            return height(x)
        if x < 0:
            return -x.expm1() + x.exp() * other(-x)
        return both(arb(x.lower())).union(both(arb(x.upper())))  # H does not rise

    return both


def largest(heights: Sequence[Height]) -> Height:
    """The pointwise largest."""

    def height(x: Ball) -> Ball:
        found = heights[0](x)
        for other in heights[1:]:
            found = found.max(other(x))
        return found

    return height


def told(parts: Sequence[tuple[Ball, Height]]) -> Height:
    """A mixture whose part is told: the mean of their H."""
    return lambda x: sum((share * height(x) for share, height in parts), arb(0))


# -------------------------------------------------------------------------------------------------------------- chains


class Ladder:
    """Thresholds of one neighbour in doubles: levels e^x, the tests' false alarms under Q, their hits under P."""

    def __init__(self, height: Height, kinks: Sequence[float] = ()) -> None:
        work(3.0 * RUNGS * point_work())
        rough = sketched(height, arb(1), 1, 1e-6, 1e-20, float(height(arb(1e5)).upper()))
        grid = np.linspace(rough.low, rough.high, RUNGS)
        bends = np.array(sorted(kinks))
        x = np.sort(np.concatenate([grid, rough.losses]))
        x = x[np.append(True, np.diff(x) > 1e-7 * (rough.high - rough.low))]
        apart = np.min(np.abs(x[:, None] - bends[None, :]), axis=1, initial=math.inf)
        self.x = np.union1d(x[apart > 1e-7 * (rough.high - rough.low)], bends)
        a = np.exp(np.minimum(self.x, 690.0))
        h = np.array([float(height(arb(float(x))).upper()) for x in self.x])
        falls = np.concatenate([[1.0], -np.diff(h) / np.maximum(np.diff(a), 1e-300), [0.0]])
        falls = np.minimum.accumulate(np.clip(falls, 0.0, 1.0))  # under Q above each cell, from left to right
        self._rising: list[float] = (-falls[1:]).tolist()
        self._h: list[float] = h.tolist()
        self._a: list[float] = a.tolist()

    def threshold(self, level: float) -> int:
        """The knot whose test has this many false alarms."""
        return min(bisect_left(self._rising, -level), self.x.size - 1)

    def hits(self, level: float, index: int) -> float:
        """What that test finds."""
        return min(1.0, self._h[index] + self._a[index] * level)


def chained(heights: Sequence[Height], kinks: Sequence[Sequence[float]]) -> Height:
    """P_0 against P_k through neighbours: for any x_1 + ... + x_k = x the sum of e^{x_1 + ... + x_{j-1}} H_j(x_j)."""
    known: dict[int, Ladder] = {}
    for height, bends in zip(heights, kinks, strict=True):
        if id(height) not in known:
            known[id(height)] = Ladder(height, bends)
    ladders = [known[id(height)] for height in heights]

    def walk(level: float) -> list[int]:
        """Thresholds from the last neighbour to the first, which sees as false alarms what the one after it hits."""
        places = []
        for ladder in reversed(ladders):
            place = ladder.threshold(level)
            places.append(place)
            level = ladder.hits(level, place)
        return places[::-1]

    def total(places: list[int]) -> float:
        return math.fsum(ladder.x[place] for ladder, place in zip(ladders, places, strict=True))

    def bound(split: list[Ball]) -> Ball:
        found, before = arb(0), arb(0)
        for height, x in zip(heights, split, strict=True):
            found, before = found + before.exp() * height(x), before + x
        return found

    def chain(x: Ball) -> Ball:
        work(20.0 * len(heights) * point_work())
        at = float(x)
        low, high = -700.0, 0.0  # logarithms of levels: fewer false alarms, higher thresholds
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if total(walk(math.exp(middle))) > at else (low, middle)
        best = bound([x / len(heights)] * len(heights)).min(arb(1))
        for places in (walk(math.exp(low)), walk(math.exp(high))):
            for moved in range(len(heights)):
                split = [arb(float(ladder.x[place])) for ladder, place in zip(ladders, places, strict=True)]
                split[moved] = x - sum((one for j, one in enumerate(split) if j != moved), arb(0))
                best = best.min(bound(split))
        return best

    return chain


def kinks_of(law: BallLaw) -> list[float]:
    """Losses of a few listed outcomes, or the largest loss: at these a chain is best split."""
    if law.atoms is not None and len(law.atoms) <= RUNGS:
        return [float(loss) for loss, _ in law.atoms]
    return [] if law.highest is None else [float(law.highest), -float(law.highest)]


def given_away(heights: Sequence[Height], masses: Sequence[Ball]) -> Ball:
    """P_0's mass at infinity along a chain: what is certain after one neighbour, then hit with so many false alarms."""
    found = arb(0)
    for height, mass in zip(reversed(heights), reversed(masses), strict=True):
        if found.is_zero():
            found = arb(mass.upper())
            continue
        hit = arb(1)
        for x in np.linspace(-5.0, 60.0, 66).tolist():
            hit = hit.min(arb(x).exp() * found + height(arb(x)))
        found = hit
    return found
