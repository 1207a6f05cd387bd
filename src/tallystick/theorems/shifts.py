"""Distances between laws: W-infinity, the shifted Renyi divergence, and what noise hides (amplification note, 004)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.rounding import double_above, up
from tallystick.theorems import require
from tallystick.theorems.renyi import divergence_of_masses, gaussian_renyi

MOST_POINTS = 10_000
MOST_VECTORS = 100
"""Points of several coordinates: their masses are matched one path at a time, in fractions."""

Masses = list[Fraction]
Point = TypeVar("Point")


def w_infinity(p: Sequence[float], q: Sequence[float], *, points: Sequence[float] | Sequence[Sequence[float]]) -> float:
    """inf over couplings of the largest |x - y|: the least distance by which mass must move to turn p into q.

    Definition 1.3 of the amplification note (004); page ``theory/last-iterate.md``. ``points`` are where the masses
    are: numbers, where the coupling of equal quantiles is best, or vectors (Euclidean), by bottleneck matching.
    Masses count as they are written: a part in 10^17 that must move far is moved far. Rounded up.

    >>> w_infinity([0.5, 0.5, 0], [0, 0.5, 0.5], points=[0, 1, 3])
    2.0
    """
    first, second = (_exact(masses) for masses in require.pair(p, q))
    if len(points) > 0 and isinstance(points[0], Sequence | np.ndarray):
        return _bottleneck(first, second, _vectors(points, first))
    line = _line(points, first)
    order = sorted(range(len(line)), key=line.__getitem__)
    moves = _equal_quantiles([first[i] for i in order], [second[i] for i in order])
    return double_above(max(abs(Fraction(line[order[i]]) - Fraction(line[order[j]])) for i, j in moves))


def shifted_renyi(
    p: Sequence[float], q: Sequence[float], *, points: Sequence[float], order: float, shift: float
) -> float:
    """D_a^(z)(p||q) = inf of D_a(p'||q) over all p' with W-infinity(p, p') <= z, for laws on points of a line.

    Definition 1.5 of the amplification note (004), corrected (erratum 47: as printed it is 0). On a line p' may be any
    law whose distribution function runs between that of p moved by z either way, and the taut string through that
    corridor, drawn over the distribution function of q, has the least divergence of every order. Rounded up; page
    ``theory/last-iterate.md``.

    >>> far = shifted_renyi([0.9, 0.1], [0.1, 0.9], points=[0, 1], order=2, shift=0)
    >>> round(far, 6), shifted_renyi([0.9, 0.1], [0.1, 0.9], points=[0, 1], order=2, shift=1)
    (2.093235, 0.0)
    """
    a = require.order_or_limit("order", order)
    z = Fraction(check.nonnegative("shift", shift))
    masses, other = require.pair(p, q)
    first, second = _exact(masses), _exact(other)
    line = _line(points, first)
    by_place: dict[float, tuple[Fraction, Fraction]] = {}
    for place, one, two in zip(line, first, second, strict=True):
        before = by_place.get(place, (Fraction(0), Fraction(0)))
        by_place[place] = (before[0] + one, before[1] + two)
    found = _taut(sorted(by_place), by_place, z)
    if all(mass == beside for mass, beside in found):
        return 0.0
    nearest, beside = (np.array([float(pair[side]) for pair in found]) for side in (0, 1))
    seen = (nearest > 0.0) & (beside > 0.0)
    largest = float(np.max(np.abs(np.log(nearest[seen] / beside[seen])), initial=0.0))
    # fractions became doubles: each mass is off by half a unit in its last place
    rounding = 2.0**-52 * (2.0 + largest) * (a / (a - 1.0) if 1.0 < a < math.inf else 1.0)
    return up(divergence_of_masses(nearest, beside, order=a) + rounding)


def gaussian_shifted_renyi(*, order: float, sigma: float, distance: float, shift: float) -> float:
    """D_a^(z) of two Gaussians of one variance ``distance`` apart: a max(0, distance - z)^2/(2 sigma^2).

    The likelihood ratio rises along the line, so moving all mass by z towards the other is best; page
    ``theory/last-iterate.md``. Rounded up.

    >>> round(gaussian_shifted_renyi(order=2, sigma=1, distance=1, shift=0.4), 9)
    0.36
    """
    far, near = check.nonnegative("distance", distance), check.nonnegative("shift", shift)
    left = max(Fraction(0), Fraction(far) - Fraction(near))
    whole = gaussian_renyi(order=order, sigma=sigma, sensitivity=double_above(left) or 1.0)
    return whole if left else 0.0


NOISES = ("gaussian", "laplace")


def noise_resistance(*, noise: str, order: float, scale: float, shift: float) -> float:
    """R_a(noise, shift): the largest Renyi divergence between the noise and the noise moved by at most ``shift``.

    Definition 1.6 of the amplification note (004). Gaussian noise of standard deviation ``scale``, in Euclidean norm:
    a shift^2/(2 scale^2). Laplace noise of that scale in every coordinate, in the l1 norm: ln(a/(2a - 1) e^{(a-1)s} +
    (a-1)/(2a - 1) e^{-as})/(a - 1) with s = shift/scale, which is convex in s, so one coordinate should move. Rounded
    up; page ``theory/last-iterate.md``.

    >>> round(noise_resistance(noise="gaussian", order=2, scale=1, shift=1), 9)
    1.0
    >>> round(noise_resistance(noise="laplace", order=2, scale=1, shift=1), 6)
    0.619124
    """
    if noise not in NOISES:
        raise InvalidInput("noise", noise, "one of " + ", ".join(NOISES))
    a, moved = require.order("order", order), check.nonnegative("shift", shift)
    size = check.scale("scale", scale)
    if moved == 0.0:
        return 0.0
    if noise == "gaussian":
        return gaussian_renyi(order=a, sigma=size, sensitivity=moved)
    s = double_above(Fraction(moved) / Fraction(size))
    gap = a - 1.0  # exact: both are within a factor of two, or 1 is lost in neither
    # ln(w e^x + (1 - w) e^{-y}) with w = a/(2a - 1): x plus a logarithm that is near 0 for small s
    w, x, y = a / (a + gap), gap * s, a * s
    if gap * (1.0 + s) < 1e-3:
        # Near order 1 the logarithm cancels. The loss has mean s + e^-s - 1 and is in [-s, s], and Hoeffding's lemma
        # adds gap s^2/2 to the mean.
        return up(_beyond_linear_any(-s) + 0.5 * gap * s * s, slack=1e-12, positive=True)
    if x + y > 1.0:
        return up((x + math.log(w + (1.0 - w) * math.exp(-x - y))) / gap, slack=1e-12 / min(1.0, gap), positive=True)
    # w x - (1 - w) y = 0, so that the first order is left out: what is left is a sum of positive terms
    inside = w * _beyond_linear(x) + (1.0 - w) * _beyond_linear(-y)
    return up(math.log1p(inside) / gap, slack=1e-12, positive=True)


def _beyond_linear_any(x: float) -> float:
    """e^x - 1 - x for any x."""
    return _beyond_linear(x) if abs(x) <= 1.0 else math.exp(x) - 1.0 - x


def _beyond_linear(x: float) -> float:
    """e^x - 1 - x for |x| <= 1, of which nothing cancels."""
    if abs(x) > 0.5:
        return math.expm1(x) - x
    term, total = x * x / 2.0, 0.0
    for k in range(3, 24):
        total += term
        term *= x / k
    return total


SUMMED = 10**5
"""So many reciprocals are added up one by one."""


def noisy_descent_excess_loss(
    *, steps: int, step_size: float, lipschitz: float, diameter: float, noise: float, dimension: int
) -> float:
    """E[loss of the last iterate] - least loss <= D^2/(2 eta T) + eta G^2/2 (1 + 1 + 1/2 + ... + 1/(T-1)).

    Section 1.1 of the amplification note (004) asks for it. Of one pass over independent records (or of full batches,
    for the records' own mean): projected descent from any start in a convex domain of diameter D, convex losses of
    Lipschitz constant L, gradients with fresh noise N(0, noise^2) in each of ``dimension`` coordinates, G^2 = L^2 +
    dimension noise^2. Proof on page ``theory/last-iterate.md``. Rounded up.

    >>> given = {"lipschitz": 1, "diameter": 1, "noise": 0.5, "dimension": 4}
    >>> round(noisy_descent_excess_loss(steps=10_000, step_size=0.005, **given), 4)
    0.0639
    """
    count = check.count("steps", steps, least=1)
    eta, steep = check.positive("step_size", step_size), check.positive("lipschitz", lipschitz)
    wide, width = check.positive("diameter", diameter), check.count("dimension", dimension, least=1)
    spread = check.nonnegative("noise", noise)
    squared, last = steep * steep + width * (spread * spread), count - 1
    if last <= SUMMED:
        harmonic = 1.0 + math.fsum(1.0 / k for k in range(1, count))
    else:  # H_n < ln n + gamma + 1/(2n), and above it less 1/(12 n^2), which is rounding here
        harmonic = 1.0 + math.log(last) + np.euler_gamma + 0.5 / last
    start, drift = wide / eta * (wide / count) / 2.0, eta * squared / 2.0 * harmonic
    if not math.isfinite(start + drift):
        raise InvalidInput("step_size", step_size, "numbers whose bound is below 1e308")
    return up(start + drift, slack=1e-13, positive=True)


def _exact(masses: Iterable[float]) -> Masses:
    """The masses as fractions that sum to exactly one."""
    exact = [Fraction(float(mass)) for mass in masses]
    total = sum(exact)
    return [mass / total for mass in exact]


def _count(points: Sequence[Point], masses: Masses, most: int) -> Sequence[Point]:
    if len(points) != len(masses) or len(points) > most:
        raise InvalidInput("points", len(points), f"as many points as masses ({len(masses)}), at most {most}")
    return points


def _vectors(points: Sequence[Any], masses: Masses) -> list[list[float]]:
    if not all(isinstance(point, Sequence | np.ndarray) and len(point) == len(points[0]) for point in points):
        raise InvalidInput("points", points, "numbers, or vectors of one length")
    return list(_count([[check.finite("points", x) for x in point] for point in points], masses, MOST_VECTORS))


def _line(points: Sequence[Any], masses: Masses) -> list[float]:
    return list(_count([check.finite("points", x) for x in points], masses, MOST_POINTS))


def _equal_quantiles(first: Masses, second: Masses) -> Iterator[tuple[int, int]]:
    """Which places of two sorted laws share mass when equal quantiles are coupled."""
    i = j = 0
    one, two = first[0], second[0]
    while True:
        moved = min(one, two)
        if moved > 0:
            yield i, j
        one, two = one - moved, two - moved
        if one == 0:
            i += 1
            if i == len(first):
                return
            one = first[i]
        if two == 0 and one > 0:
            j += 1
            if j == len(second):
                return
            two = second[j]


def _bottleneck(first: Masses, second: Masses, places: Sequence[Sequence[float]]) -> float:
    """The least distance at which all of the mass can be carried over, among the distances that occur."""
    apart = [[sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(x, y, strict=True)) for y in places] for x in places]
    choices = sorted({distance for row in apart for distance in row})
    low, high = 0, len(choices) - 1
    while low < high:
        middle = (low + high) // 2
        near = [[j for j, distance in enumerate(row) if distance <= choices[middle]] for row in apart]
        low, high = (low, middle) if _carried(first, second, near) else (middle + 1, high)
    return up(math.sqrt(double_above(Fraction(choices[low]))), positive=choices[low] > 0)


def _carried(first: Masses, second: Masses, near: list[list[int]]) -> bool:
    """Can all mass be moved along the given edges? A maximal flow, one shortest path at a time."""
    left, room = list(first), list(second)
    flow: dict[tuple[int, int], Fraction] = {}
    for source in range(len(first)):
        while left[source] > 0:
            path = _path(source, near, room, flow)
            if path is None:
                return False
            back = [flow[edge[1]] for edge in path if edge[0] < 0]
            amount = min([left[source], room[path[-1][1][1]], *back])
            for sign, edge in path:
                flow[edge] = flow.get(edge, Fraction(0)) + sign * amount
            left[source] -= amount
            room[path[-1][1][1]] -= amount
    return True


def _path(
    source: int, near: list[list[int]], room: Masses, flow: dict[tuple[int, int], Fraction]
) -> list[tuple[int, tuple[int, int]]] | None:
    """Edges (sign, (from, to)) from a place with mass left to one with room left, or None."""
    came: dict[int, list[tuple[int, tuple[int, int]]]] = {source: []}  # by place of the first law
    queue, reached = [source], set[int]()
    for i in queue:
        for j in near[i]:
            if j in reached:
                continue
            reached.add(j)
            path = [*came[i], (1, (i, j))]
            if room[j] > 0:
                return path
            for (k, to), amount in flow.items():
                if to == j and amount > 0 and k not in came:
                    came[k] = [*path, (-1, (k, j))]
                    queue.append(k)
    return None


def _taut(
    places: list[float], masses: dict[float, tuple[Fraction, Fraction]], shift: Fraction
) -> list[tuple[Fraction, Fraction]]:
    """(mass of the nearest law, mass of the other law) at every place: increments of the taut string.

    The string runs from 0 to 1 over the second law's distribution function. Where it passes a place, it must hold the
    mass of the first law that cannot be moved beyond, and not more than what can be moved there.
    """
    totals = list(accumulate(masses[x][0] for x in places))
    widths = [masses[x][1] for x in places]
    ahead = behind = 0
    corridor: list[tuple[Fraction, Fraction]] = []
    for index, x in enumerate(places):
        # of the mass at y, all must be at or below x if y + shift < next place; it may be if y - shift <= x
        limit = Fraction(places[index + 1]) if index + 1 < len(places) else None
        while behind < len(places) and (limit is None or Fraction(places[behind]) + shift < limit):
            behind += 1
        while ahead < len(places) and Fraction(places[ahead]) - shift <= Fraction(x):
            ahead += 1
        corridor.append((_total(totals, behind), _total(totals, ahead)))
    heights = _string(widths, corridor)
    return [
        (after - before, width) for before, after, width in zip([Fraction(0), *heights], heights, widths, strict=False)
    ]


def _total(totals: list[Fraction], count: int) -> Fraction:
    return totals[count - 1] if count else Fraction(0)


def _string(widths: Masses, corridor: list[tuple[Fraction, Fraction]]) -> Masses:
    """The heights of the shortest path through the corridor, from 0 to 1; level over places of no width if it can be.

    From an anchor the path is straight as long as one slope stays inside; where none does, it bends at the end of the
    corridor that stopped it.
    """
    heights: Masses = [Fraction(0)] * len(widths)
    anchor, height = -1, Fraction(0)
    while anchor < len(widths) - 1:
        steepest: tuple[Fraction, int] | None = None  # least slope of an upper end, and where
        flattest: tuple[Fraction, int] | None = None  # greatest slope of a lower end, and where
        run, index = Fraction(0), anchor
        bend: tuple[int, Fraction] | None = None
        for index in range(anchor + 1, len(widths)):
            run += widths[index]
            low, high = corridor[index]
            if run == 0:  # no width yet: stay inside, by as little as needed
                bend = (index, min(max(height, low), high))
                break
            if flattest is None or (low - height) / run >= flattest[0]:
                flattest = ((low - height) / run, index)
            if steepest is None or (high - height) / run <= steepest[0]:
                steepest = ((high - height) / run, index)
            if flattest[0] > steepest[0]:
                # the end met first is where the string bends
                at = min(flattest[1], steepest[1])
                bend = (at, corridor[at][0] if at == flattest[1] else corridor[at][1])
                break
        if bend is None:
            bend = (len(widths) - 1, Fraction(1))
        at, to = bend
        run = sum(widths[anchor + 1 : at + 1], Fraction(0))
        passed = Fraction(0)
        for index in range(anchor + 1, at + 1):
            passed += widths[index]
            heights[index] = to if run == 0 else height + (to - height) * passed / run
        anchor, height = at, to
    return heights
