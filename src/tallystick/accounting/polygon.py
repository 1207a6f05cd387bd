"""Chords, vertices and hulls of piecewise-linear curves: the one place that rounds them, always outward.

Three pictures of a pair (P, Q) are held as polygons. A *profile* is delta against epsilon >= 0, convex in e^epsilon;
two of them, one per order of the pair, are the whole pair. A *power curve* is the attacker's best hit rate against the
false-alarm rate, concave; a *trade-off function* is what is missed, convex. Which side of the truth a polygon is on is
its type: nothing takes an ``UpperProfile`` for a lower one.

Three rules make every polygon here a bound (docs/theory/certification.md, "Polygons"):

1. a chord of an upper bound on a convex curve is an upper bound, and its ends are given points, so nothing is rounded;
2. a vertex where two lines above a concave curve meet must lie on or above *both* lines where it was rounded to, and
   one of lines under a convex curve on or below both;
3. masses are never recovered from cumulative sums: a mass is the difference of two slopes, rounded outward.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tallystick.numerics.law import UNIT, Array, Law

OUTWARD = 16.0 * UNIT
"""Relative rounding of a chord's value and of a vertex: each is a few operations."""

KINK = 4.0 * UNIT
"""Relative rounding of slope times level: a difference, an exponential and a quotient."""

LONGEST = 700.0
"""exp of more than this overflows."""

LEAST = 1e-290
"""Levels below this count as zero."""

MOST_VERTICES = 1500
"""A power curve with more vertices is thinned, upward."""

Point = tuple[float, float]
IsBelow = Callable[[Point, Point, Point], bool]


def _below(first: Point, middle: Point, last: Point) -> bool:
    """Is the middle point below the chord of the other two? In doubt the point is kept, which is harmless."""
    run, rise = last[0] - first[0], last[1] - first[1]
    return (middle[1] - first[1]) * run < rise * (middle[0] - first[0])


def lower_corners(x: Array, y: Array, below: IsBelow = _below) -> list[Point]:
    """The corners of the lower convex hull of points sorted by x: given points, so nothing is rounded.

    >>> lower_corners(np.array([0.0, 0.5, 0.5, 1.0]), np.array([1.0, 0.5, 0.25, 0.0]))
    [(0.0, 1.0), (0.5, 0.25), (1.0, 0.0)]
    """
    corners: list[Point] = []
    for point in zip(x.tolist(), y.tolist(), strict=True):
        if corners and point[0] == corners[-1][0]:
            if point[1] >= corners[-1][1]:
                continue
            corners.pop()
        while len(corners) >= 2 and not below(corners[-2], corners[-1], point):
            corners.pop()
        corners.append(point)
    return corners


@dataclass(frozen=True, slots=True, eq=False)
class _Profile:
    """Knots (epsilon, delta), epsilon increasing from 0; constant after the last knot."""

    epsilon: Array
    delta: Array


class UpperProfile(_Profile):
    """Nowhere below the profile it stands for, which is convex in e^epsilon: chords between the knots are bounds."""

    def hull(self) -> UpperProfile:
        """Return the bound without the knots that are above a chord of others."""
        half = _half_hull(self)
        return UpperProfile(half.epsilon, half.delta)


class LowerProfile(_Profile):
    """Chords between the knots are nowhere above the profile it stands for."""

    @staticmethod
    def between(epsilon: Array, lower: Array, upper: Array, infinity: float = 0.0) -> LowerProfile:
        """The tangent polygon under a convex profile that lies between ``lower`` and ``upper`` at the knots.

        Left of a knot a convex function is above the extension of the chord to the next knot, whose slope is at least
        (lower here - upper there) / distance. It is never below its mass at ``infinity``.
        """
        if epsilon.size < 3:
            return LowerProfile(np.zeros(1), np.full(1, infinity))
        gaps = np.minimum(np.diff(epsilon), LONGEST)
        # Raised first: a chord down to a knot that was raised later could pass above the profile.
        lower = np.maximum(lower, infinity)
        fall = np.maximum(0.0, lower[1:-1] - upper[2:])
        rise = fall * -np.expm1(-gaps[:-1]) / np.expm1(gaps[1:]) * (1.0 - OUTWARD)
        values = np.minimum(lower[:-2], lower[1:-1] + rise)
        return LowerProfile(epsilon[:-1], np.minimum.accumulate(np.append(values, infinity)))


def law_above(ahead: UpperProfile, behind: UpperProfile) -> Law:
    """A law whose profile is nowhere below ``ahead``, and its swap's nowhere below ``behind``."""
    return _law(*_hull(ahead, behind, OUTWARD), KINK)


def law_below(ahead: LowerProfile, behind: LowerProfile) -> Law:
    """A law whose profile is nowhere above ``ahead``, and its swap's nowhere above ``behind``."""
    return _law(*_hull(ahead, behind, -OUTWARD), -KINK)


def _law(ahead: _Profile, behind: _Profile, rounding: float) -> Law:
    """Every kink of a profile is an atom. ``rounding`` > 0 widens the masses, < 0 narrows them."""
    right, after = _kinks(ahead, rounding)
    left, before = _kinks(behind, rounding)
    # What is left for a loss of 0: the slopes at 1 of both halves and the total variation make up the rest of one.
    centre = 1.0 - float(ahead.delta[0]) - after - before
    centre = max(0.0, centre + rounding) if centre < 1.0 or rounding < 0.0 else 1.0
    atoms = np.concatenate([-behind.epsilon[:0:-1], [0.0], ahead.epsilon[1:]])
    masses = np.concatenate([left[::-1], [centre], right])
    kept = masses > 0.0
    larger = np.log(masses[kept])  # of the two measures; the other one is smaller by the loss
    logs, others = larger + np.minimum(atoms[kept], 0.0), larger - np.maximum(atoms[kept], 0.0)
    # What is given away is given as it is: the knots after which nothing is known.
    return Law(
        atoms[kept], logs, infinity=float(ahead.delta[-1]), zero=float(behind.delta[-1]), log_others=others
    )  # fmt: skip


def _kinks(profile: _Profile, rounding: float) -> tuple[Array, float]:
    """Masses at the knots after the first, and slope times level of the chord that leaves the first.

    Between knots d apart, delta falling by h, slope times level is h/(1 - e^{-d}) at the far end and h/(e^d - 1) at the
    near one: nothing overflows, and a mass is what arrives less what leaves.
    """
    gaps = np.minimum(np.diff(profile.epsilon), LONGEST)
    falls = -np.diff(profile.delta)
    arrives, leaves = falls / -np.expm1(-gaps), np.append(falls / np.expm1(gaps), 0.0)
    masses = np.maximum(arrives * (1.0 + rounding) - leaves[1:] * (1.0 - rounding), 0.0)
    return masses, float(leaves[0])


def bridge(profile: UpperProfile, before: float, after: float) -> Array:
    """Masses at the knots of a profile that is joined to other curves: ``before`` and ``after`` are their slopes times
    the level, at the first knot and at the last."""
    masses, leaves = _kinks(profile, KINK)
    masses[-1] -= after * (1.0 - KINK)
    first = before * (1.0 + KINK) - leaves * (1.0 - KINK)
    masses_between: Array = np.maximum(0.0, np.append(first, masses))
    return masses_between


def _hull(ahead: _Profile, behind: _Profile, outward: float) -> tuple[_Profile, _Profile]:
    """The convex hull from below of both halves together, the chord across 0 rounded by ``outward``.

    Lower values at the knots are right on either side: a true profile is convex, so an upper bound may be replaced by
    its chords, and a lower bound may always be lowered. A chord that is rounded up leaves less than nothing for a loss
    of 0, and nothing is then more: for a bound from below it is rounded down.
    """
    first, second = _half_hull(ahead), _half_hull(behind)
    cut = min(float(first.delta[0]), float(second.delta[0]))
    i, j = min(1, first.epsilon.size - 1), min(1, second.epsilon.size - 1)
    while True:
        # Every round leaves one knot out or is the last, so this ends.
        i, j = _under(first, i, cut), _under(second, j, cut)
        chord = _across(first, i, second, j) if i and j else _from_nothing(first, i, second, j)
        cut = min(cut, chord * (1.0 + outward))
        if (i and first.delta[i] >= cut) or (j and second.delta[j] >= cut):
            continue
        if 0 < i < first.epsilon.size - 1 and not _convex((0.0, cut), *_points(first, i)):
            i += 1
        elif 0 < j < second.epsilon.size - 1 and not _convex((0.0, cut), *_points(second, j)):
            j += 1
        else:
            return _from(first, cut, i), _from(second, cut, j)


def _under(half: _Profile, index: int, top: float) -> int:
    """The first knot from here on that lies under the value at 0; 0 where none does and the half is flat."""
    while index and half.delta[index] >= top:
        index = index + 1 if index < half.epsilon.size - 1 else 0
    return index


def _points(half: _Profile, index: int) -> tuple[Point, Point]:
    x, y = half.epsilon[index : index + 2].tolist(), half.delta[index : index + 2].tolist()
    return (x[0], y[0]), (x[1], y[1])


def _from(half: _Profile, top: float, index: int) -> _Profile:
    """The half from one of its knots on, behind a new first knot (0, top)."""
    if not index:
        return _Profile(np.zeros(1), np.array([top]))
    return _Profile(np.append(0.0, half.epsilon[index:]), np.append(top, np.minimum(half.delta[index:], top)))


def _across(first: _Profile, i: int, second: _Profile, j: int) -> float:
    """The value at epsilon 0 of the chord from a knot of the mirrored half to a knot of this one."""
    right, left = float(first.epsilon[i]), float(second.epsilon[j])
    there, level = float(first.delta[i]), math.exp(-left)
    start = -math.expm1(-left) + level * float(second.delta[j])
    share = -math.expm1(-right) / -math.expm1(-left - right)
    return there + max(0.0, start - there) * share


def _from_nothing(first: _Profile, i: int, second: _Profile, j: int) -> float:
    """Return the value at epsilon 0 if one half is flat: the chord starts at level 0, where every profile is one."""
    half, index = (first, i) if i else (second, j)
    if not index:
        return 1.0
    epsilon = float(half.epsilon[index])
    return -math.expm1(-epsilon) + math.exp(-epsilon) * float(half.delta[index])


def _half_hull(half: _Profile) -> _Profile:
    """The convex hull from below of one half, decreasing."""
    delta = np.minimum.accumulate(np.minimum(half.delta, 1.0))
    table = np.array(lower_corners(half.epsilon, delta, _convex))
    return _Profile(table[:, 0], table[:, 1])


def _convex(first: Point, middle: Point, last: Point) -> bool:
    """Is the middle point strictly below the chord (in e^epsilon) of the other two?"""
    before, after = min(middle[0] - first[0], LONGEST), min(last[0] - middle[0], LONGEST)
    return (first[1] - middle[1]) * math.expm1(after) > (middle[1] - last[1]) * -math.expm1(-before)


@dataclass(frozen=True, slots=True, eq=False)
class UpperPower:
    """A polygon nowhere below the attacker's best power 1 - f(alpha): vertices from alpha = 0 to alpha = 1."""

    alpha: Array
    power: Array

    @staticmethod
    def trivial() -> UpperPower:
        """Power equal to the level: no test helps."""
        return UpperPower(np.array([0.0, 1.0]), np.array([0.0, 1.0]))

    @staticmethod
    def under(ahead: UpperProfile, behind: UpperProfile) -> UpperPower:
        """The power curve of the pair: every (epsilon, delta) is a line delta + e^epsilon alpha above it."""
        near = ahead.epsilon < LONGEST
        levels = np.exp(-behind.epsilon)
        slopes = np.concatenate([np.exp(ahead.epsilon[near])[::-1], levels, [0.0]])
        mirrored = -np.expm1(-behind.epsilon) + levels * behind.delta
        heights = np.concatenate([ahead.delta[near][::-1], mirrored, [1.0]])
        return _under_lines(slopes * (1.0 + OUTWARD), np.minimum(heights * (1.0 + OUTWARD), 1.0))

    def then(self, other: UpperPower) -> UpperPower:
        """other(self(alpha)): two neighbouring steps, one after the other.

        Both are concave and not negative, so slope times alpha is at most the power, and the rounding of a pulled-back
        vertex costs no more than the same relative rounding of its height.
        """
        inside = other.alpha[(other.alpha > self.power[0]) & (other.alpha < self.power[-1])]
        pulled = interpolated(inside, self.power, self.alpha)
        alpha = np.union1d(self.alpha, pulled[pulled >= LEAST])
        middle = np.minimum(interpolated(alpha, self.alpha, self.power) * (1.0 + OUTWARD), 1.0)
        # Vertices at levels too small for a double are moved to level 0, which raises the polygon.
        middle[0] = max(float(middle[0]), float(np.max(inside[pulled < LEAST], initial=0.0)))
        return _capped(alpha, interpolated(middle, other.alpha, other.power) * (1.0 + OUTWARD))

    def meet(self, other: UpperPower) -> UpperPower:
        """The smaller of two upper bounds, which is one."""
        alpha = np.union1d(self.alpha, other.alpha)
        gap = interpolated(alpha, self.alpha, self.power) - interpolated(alpha, other.alpha, other.power)
        flips = np.flatnonzero(gap[:-1] * gap[1:] < 0.0)
        share = gap[flips] / (gap[flips] - gap[flips + 1])
        cross = alpha[flips] + (alpha[flips + 1] - alpha[flips]) * share
        alpha = np.union1d(alpha, cross)
        first, second = interpolated(alpha, self.alpha, self.power), interpolated(alpha, other.alpha, other.power)
        # Where the curves cross the vertex must be above both lines (rule 2).
        best = np.where(np.isin(alpha, cross), np.maximum(first, second), np.minimum(first, second))
        return _capped(alpha, best * (1.0 + OUTWARD))

    def at(self, alpha: float) -> float:
        """The bound at one level."""
        power = float(interpolated(np.array([alpha]), self.alpha, self.power)[0])
        return min(1.0, power * (1.0 + OUTWARD))

    def delta(self, epsilon: Array) -> Array:
        """max over alpha of power - e^epsilon alpha, attained at a vertex, rounded up."""
        levels = np.exp(np.minimum(epsilon, LONGEST)) * (1.0 - OUTWARD)
        high = self.power * (1.0 + OUTWARD)
        return np.array([min(1.0, max(0.0, float(np.max(high - level * self.alpha)))) for level in levels])

    def profile(self) -> UpperProfile:
        """Return the bound as a profile: its kinks are the logarithms of the slopes above one."""
        width, rise = np.diff(self.alpha), np.diff(self.power)
        steep = rise > width
        slopes = np.log(rise[steep]) - np.log(width[steep])
        epsilon = np.unique(np.append(slopes, 0.0))
        return UpperProfile(epsilon, self.delta(epsilon))


def interpolated(points: Array, x: Array, y: Array) -> Array:
    """y at the points, between increasing x; by shares of a step, so that nothing overflows."""
    index = np.clip(np.searchsorted(x, points, side="right") - 1, 0, x.size - 2)
    width = x[index + 1] - x[index]
    share = np.where(width > 0.0, (points - x[index]) / np.where(width > 0.0, width, 1.0), 1.0)
    # The last knot keeps its own value, to the bit.
    result: Array = np.where(share < 1.0, y[index] + np.maximum(share, 0.0) * (y[index + 1] - y[index]), y[index + 1])
    return result


def _under_lines(slopes: Array, heights: Array) -> UpperPower:
    """The least of lines height + slope alpha on [0, 1], slopes decreasing; the last line is the constant one.

    Leaving a line out raises the minimum, so every decision here is safe as long as rule 2 holds for the lines kept.
    """
    kept: list[int] = []
    starts: list[float] = []
    for index in range(slopes.size):
        meet = 0.0
        while kept:
            steeper = float(slopes[kept[-1]] - slopes[index])
            meet = float(heights[index] - heights[kept[-1]]) / steeper if steeper > 0.0 else math.inf
            if steeper == 0.0 and heights[index] < heights[kept[-1]]:
                meet = -math.inf
            if meet > starts[-1]:
                break
            kept.pop()
            starts.pop()
        if not kept:
            kept, starts = [index], [0.0]
        elif meet < 1.0:
            kept.append(index)
            starts.append(meet)
    alpha = np.array([*starts, 1.0])
    left, right = np.array([kept[0], *kept]), np.array([*kept, kept[-1]])
    power = np.maximum(heights[left] + slopes[left] * alpha, heights[right] + slopes[right] * alpha)
    return _capped(alpha, power * (1.0 + OUTWARD))


def _capped(alpha: Array, power: Array) -> UpperPower:
    """The polygon cut at power one, with the vertex where its last line reaches one; never decreasing."""
    alpha, power = _thinned(alpha, np.maximum.accumulate(power))
    power[-1] = max(1.0, float(power[-1]))
    reach = int(np.argmax(power >= 1.0))
    if reach == 0:
        return UpperPower(np.array([0.0, 1.0]), np.ones(2))
    start, end = float(alpha[reach - 1]), float(alpha[reach])
    share = (1.0 - float(power[reach - 1])) / float(power[reach] - power[reach - 1])
    full = (start + (end - start) * share) * (1.0 - OUTWARD)
    if full <= start:
        full, reach = start, reach - 1
    if full == 0.0:
        return UpperPower(np.array([0.0, 1.0]), np.ones(2))
    return UpperPower(np.concatenate([alpha[:reach], [full, 1.0]]), np.concatenate([power[:reach], [1.0, 1.0]]))


def _thinned(alpha: Array, power: Array) -> tuple[Array, Array]:
    """At most MOST_VERTICES vertices: about every other inner line is left out, and its neighbours meet above it.

    A line is known by the two ends of its part, so the slope of a short part has few digits: of two neighbours the
    longer one stays. Whatever is lost all the same, at some vertex of before, is added everywhere: being concave, what
    is left is then nowhere below.
    """
    while alpha.size > MOST_VERTICES:
        before, height = alpha, power
        lines = _lines_kept(np.diff(alpha))
        slopes = (power[lines + 1] - power[lines]) / (alpha[lines + 1] - alpha[lines])
        x, y = alpha[lines], power[lines]
        apart = x[1:] - x[:-1]
        # From the left line's own point: where the difference of the slopes makes up the difference of the lines there.
        rise, steeper = y[1:] - slopes[1:] * apart - y[:-1], slopes[:-1] - slopes[1:]
        step = np.clip(np.where(steeper > 0.0, rise / np.where(steeper > 0.0, steeper, 1.0), 0.0), 0.0, apart)
        value = np.maximum(y[:-1] + slopes[:-1] * step, y[1:] - slopes[1:] * (apart - step)) * (1.0 + OUTWARD)
        alpha = np.concatenate([alpha[:1], x[:-1] + step, alpha[-1:]])
        power = np.maximum.accumulate(np.concatenate([power[:1], value, power[-1:]]))
        keep = np.append(np.diff(alpha) > 0.0, True)
        alpha, power = alpha[keep], power[keep]
        now = interpolated(before, alpha, power)
        lost = float(np.max(np.where(height > 0.0, height / np.where(now > 0.0, now, 5e-324), 1.0)))
        power = power * (max(lost, 1.0) * (1.0 + OUTWARD))
    return alpha, power


def _lines_kept(widths: Array) -> npt.NDArray[np.intp]:
    """The first and the last line, and of every two between them the one with the longer part."""
    first, second = np.arange(1, widths.size - 1, 2), np.arange(2, widths.size - 1, 2)
    longer = np.where(widths[second] > widths[first[: second.size]], second, first[: second.size])
    return np.unique(np.concatenate([[0], longer, first[second.size :], [widths.size - 1]]))


@dataclass(frozen=True, slots=True, eq=False)
class LowerTradeoff:
    """A convex polygon nowhere above the trade-off function it stands for: corners (alpha, beta), decreasing."""

    alpha: Array
    beta: Array

    @staticmethod
    def hull(alpha: Array, beta: Array) -> LowerTradeoff:
        """The lower convex hull of points sorted by alpha. Corners are given points; nothing is rounded."""
        table = np.array(lower_corners(alpha, beta))
        return LowerTradeoff(table[:, 0], table[:, 1])

    @staticmethod
    def under(alpha: Array, beta: Array) -> LowerTradeoff:
        """The polygon under a convex function of which these values are known: between two knots it is above the
        extensions of the chords beside them.
        """
        slopes = np.diff(beta) / np.diff(alpha)
        points = [(float(alpha[0]), float(beta[0]))]
        for i in range(alpha.size - 1):
            before = slopes[i - 1] if i else -math.inf
            after = slopes[i + 1] if i + 2 < alpha.size else 0.0
            if math.isinf(before) or after <= before:
                # No chord on the left: only the right chord, extended, and the end value bound it.
                meet = alpha[i]
                value = min(float(beta[i]), float(beta[i + 1] - after * (alpha[i + 1] - alpha[i])))
            else:
                meet = (beta[i + 1] - beta[i] + before * alpha[i] - after * alpha[i + 1]) / (before - after)
                meet = min(max(meet, alpha[i]), alpha[i + 1])
                value = min(beta[i] + before * (meet - alpha[i]), beta[i + 1] + after * (meet - alpha[i + 1]))
            points.append((float(meet), max(0.0, float(value) - 1e-15)))
            points.append((float(alpha[i + 1]), float(beta[i + 1])))
        table = np.array(sorted(points))
        return LowerTradeoff.hull(table[:, 0], table[:, 1])

    def inverse(self) -> LowerTradeoff:
        """The left inverse inf{t: f(t) <= alpha}: the polygon mirrored at the diagonal."""
        x, y = np.append(self.beta[::-1], 1.0), np.append(self.alpha[::-1], 0.0)
        if x[0] > 0.0:
            x, y = np.append(0.0, x), np.append(1.0, y)
        keep = np.append(np.diff(x) > 0.0, True)
        return LowerTradeoff(x[keep], y[keep])

    def larger(self, other: LowerTradeoff) -> LowerTradeoff:
        """The larger of two lower bounds, which is one.

        Its corners are corners of either, and crossings. A crossing is rounded, and then lies on or below both lines.
        """
        x = np.union1d(self.alpha, other.alpha)
        f, g = interpolated(x, self.alpha, self.beta), interpolated(x, other.alpha, other.beta)
        own, its = np.isin(x, self.alpha) & (f >= g), np.isin(x, other.alpha) & (g >= f)
        points = list(zip(x[own].tolist(), f[own].tolist(), strict=True))
        points += zip(x[its].tolist(), g[its].tolist(), strict=True)
        for k in np.flatnonzero((f - g)[:-1] * (f - g)[1:] < 0.0).tolist():
            points.append(_crossing(self, other, float(x[k]), float(x[k + 1])))
        table = np.array(sorted(points))
        return LowerTradeoff.hull(table[:, 0], table[:, 1])


def _crossing(f: LowerTradeoff, g: LowerTradeoff, low: float, high: float) -> tuple[float, float]:
    """Where two lines cross between neighbouring knots: the level rounded, the height below both lines there."""
    lines = []
    for curve in (f, g):
        k = int(np.searchsorted(curve.alpha, high, side="left"))
        x, y = Fraction(float(curve.alpha[k - 1])), Fraction(float(curve.beta[k - 1]))
        slope = (Fraction(float(curve.beta[k])) - y) / (Fraction(float(curve.alpha[k])) - x)
        lines.append((y - slope * x, slope))
    (a, s), (b, t) = lines
    at = min(max(float((b - a) / (s - t)), low), high)
    height = min(a + s * Fraction(at), b + t * Fraction(at))
    near = float(height)
    return at, max(0.0, near if Fraction(near) <= height else math.nextafter(near, -math.inf))


# Chains of neighbours: groups, and replace from add/remove, on power curves that err on the safe side.


def grouped_power(single: UpperPower, size: int) -> UpperPower:
    """1 - f iterated ``size`` times (Dong, Roth, Su 2019): f_k = 1 - (1 - f)^{o k}."""
    result, base, left = UpperPower.trivial(), single, size
    while True:
        if left & 1:
            result = result.then(base)
        left >>= 1
        if not left:
            return result
        base = base.then(base)


def grouped_delta(single: UpperProfile, power: UpperPower, epsilon: float, size: int) -> float:
    """Least of the trade-off chain and of the (eps, delta) rule delta(k e) <= delta(e) (e^{ke} - 1)/(e^e - 1).

    ``power`` is the chained curve of the group; ``single`` bounds one step in both directions.
    """
    best = float(power.delta(np.array([epsilon]))[0])
    near = np.flatnonzero(single.epsilon * size <= epsilon)
    if near.size > 1 and size * Fraction(float(single.epsilon[near[-1]])) > Fraction(epsilon):
        near = near[:-1]  # the product was rounded down
    e, delta = float(single.epsilon[near[-1]]), float(single.delta[near[-1]])
    if delta == 0.0:
        return 0.0
    if e == 0.0:
        return min(best, delta * size * (1.0 + OUTWARD), 1.0)
    # (e^{ke} - 1)/(e^e - 1) <= e^{(k-1)e} / (1 - e^{-e}), where the first would overflow.
    exponent = (size - 1) * e
    factor = math.exp(exponent) * math.expm1(-size * e) / math.expm1(-e) if exponent < 700.0 else math.inf
    return min(best, delta * factor * (1.0 + 1e-12), 1.0)


def replaced_profile(remove: UpperProfile, add: UpperProfile, highest: float) -> UpperProfile:
    """The profile of replacing one record, the same in both directions (docs/theory/adjacency.md).

    Between the two data sets lies one with a record less and one with a record more; either chain is a bound, so the
    better one is. ``highest`` is the largest loss of both steps together, infinite where there is none.
    """
    there, back = UpperPower.under(remove, add), UpperPower.under(add, remove)
    profile = there.then(back).meet(back.then(there)).profile()
    if not (math.isfinite(highest) and remove.delta[-1] == add.delta[-1] == 0.0):
        return profile
    # Largest losses add, and beyond them the profile is zero.
    inside = profile.epsilon < highest
    return UpperProfile(np.append(profile.epsilon[inside], highest), np.append(profile.delta[inside], 0.0))
