"""Put V = e^X >= 0 on a uniform grid of its values, from above and from below, with error O(step^2).

X has a law under P (``Law``); V = dP/dQ is weighed under Q, whose density is P's times e^{-X}. The measure is cut at
``top``: what lies above is described by two numbers only. The **upper** grid measure splits each point mass
to the two ends of its cell so that its mass and its mean are kept, which can only increase integrals of convex
functions. The **lower** one has its stop-loss function (the integral of (v - k)_+) reduced at every grid point by at
least the largest excess of the chord over it in the two cells beside, then made convex; it has no more mass, no
more mean and no more stop-loss anywhere, so integrals of increasing convex functions can only decrease. The mirror
image of the same construction serves decreasing convex functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tallystick.numerics.grid import GridLaw, harmonic
from tallystick.numerics.law import UNIT, Array, Law
from tallystick.numerics.panels import panel_nodes

NODES = 8
"""Gauss-Legendre nodes per panel, as ``Segment.panel`` promises; half of them where a panel is cut finely."""


SWEEPS = 12
"""Vectorised sweeps of the convex hull before the points that are left go one by one."""

MOST_BRIDGES = 60
"""Kinks of the convex hull that are spanned at once, before the points that are left go one by one."""

WIDE = 0.1
"""A step above this share of the mean is wide."""


@dataclass(frozen=True, slots=True, eq=False)
class RatioCells:
    """What each cell sends to its left and right end (under Q), the mass at zero, and the two tails above ``top``.

    ``tail`` is Q(V > top) and ``tail_mean`` is E_Q[V; V > top] = P(V > top), without P's mass where Q = 0.
    """

    step: float
    left: Array
    right: Array
    at_zero: float
    tail: float
    tail_mean: float

    @property
    def top(self) -> float:
        """The end of the last cell."""
        return self.step * self.left.size

    @property
    def mean(self) -> float:
        """E_Q[V; V <= top]."""
        cells = np.arange(self.left.size, dtype=np.float64)
        return self.step * float(np.dot(cells, self.left) + np.dot(cells + 1.0, self.right))

    def upper(self) -> GridLaw:
        """No smaller for any nonnegative convex function."""
        masses = self._masses()
        return GridLaw(self.step, 0.0, 0, masses * (1.0 + _relative_error(masses)), 0.0)

    def lower(self, *, increasing: bool) -> GridLaw:
        """No larger for any nonnegative convex function that increases (or: falls to 0 at ``top``).

        Keeping the mean is better unless the step is wide compared with V itself.
        """
        masses = self._masses()
        if increasing:
            lower = _lower_masses(self.left, self.right, masses, self.step, self.step < WIDE * self.mean)
        else:
            lower = _lower_masses(self.right[::-1], self.left[::-1], masses[::-1], self.step, True)[::-1]
        return GridLaw(self.step, 0.0, 0, lower * np.maximum(0.0, 1.0 - _relative_error(lower)), 0.0)

    def _masses(self) -> Array:
        masses = np.zeros(self.left.size + 1)
        masses[:-1] += self.left
        masses[1:] += self.right
        masses[0] += self.at_zero
        return masses


def _relative_error(masses: Array) -> Array:
    """Bound on the relative error of each mass: quadrature, and exp of a log-density of that size."""
    with np.errstate(divide="ignore"):
        size = np.minimum(np.abs(np.log(masses)), 750.0)
    return UNIT * (32.0 + 4.0 * size)


def cells_of(law: Law, *, step: float, count: int) -> RatioCells:
    """V on ``count`` cells of width ``step`` from zero, under Q.

    >>> coin = Law(np.log([0.5, 1.5]), np.log([0.25, 0.75]))
    >>> cells = cells_of(coin, step=1.0, count=2)
    >>> [round(float(m), 6) for m in cells.upper().masses], round(cells.mean, 6)
    ([0.25, 0.5, 0.25], 1.0)
    """
    left, right = np.zeros(count), np.zeros(count)
    tail, tail_mean = 0.0, 0.0
    limit = math.log(step * count)
    with np.errstate(divide="ignore"):
        cuts = np.log(step * np.arange(count + 1, dtype=np.float64))
    pieces = [(law.atoms, law.log_masses)]
    for segment in law.segments:
        inside = segment.inverse(cuts)
        edges = np.union1d(segment.edges(), inside[(inside > segment.low) & (inside < segment.high)])
        narrow = np.diff(edges) < 0.04 * segment.panel
        for chosen, nodes in ((narrow, NODES // 2), (~narrow, NODES)):
            x, log_weight = _chosen_nodes(edges, chosen, nodes)
            pieces.append((segment.loss(x), segment.log_density(x) + log_weight))
    for losses, logs in pieces:
        above = losses > limit
        tail += float(np.sum(np.exp(logs[above] - losses[above])))
        tail_mean += float(np.sum(np.exp(logs[above])))
        masses = np.exp(logs[~above] - losses[~above])
        position = np.exp(losses[~above]) / step
        index = np.minimum(position.astype(np.int64), count - 1)
        to_right = np.clip(position - index, 0.0, 1.0)
        left += np.bincount(index, masses * (1.0 - to_right), count)
        right += np.bincount(index, masses * to_right, count)
    return RatioCells(step, left, right, law.zero, tail, tail_mean)


def _chosen_nodes(edges: Array, chosen: npt.NDArray[np.bool_], count: int) -> tuple[Array, Array]:
    x, log_weight = panel_nodes(edges, count)
    keep = np.repeat(chosen, count)
    return x[keep], log_weight[keep]


def _lower_masses(left: Array, right: Array, masses: Array, step: float, keep_mean: bool) -> Array:
    """Node masses of the convex minorant described at the top of the file.

    At its end, and with ``keep_mean`` at its beginning, the minorant keeps the value and takes the tangent.
    """
    triangle = step * harmonic(left, right)
    total = float(np.sum(masses))
    slopes = np.cumsum(masses[::-1])[::-1][1:]
    heights = np.append(step * np.cumsum(slopes[::-1])[::-1], 0.0)
    excess = np.zeros(masses.size)
    excess[1:-1] = np.maximum(triangle[:-1], triangle[1:])
    if keep_mean:
        excess[1] = max(excess[1], step * float(left[0]))
    else:
        excess[0] = excess[1]
    excess[-2] = max(excess[-2], step * float(right[-1]))
    # Where the corrected value would be negative, sit on zero, neighbours too.
    sunk = excess > heights * (1.0 + 8.0 * UNIT)
    sunk[:-1] |= sunk[1:].copy()
    sunk[1:] |= sunk[:-1].copy()
    excess = np.where(sunk, heights, np.minimum(excess + 8.0 * UNIT * heights, heights))
    lower = np.minimum(slopes + np.diff(excess) / step, total)
    if lower[-1] < 0.0 or np.any(np.diff(lower) > 0.0):
        lower = np.minimum(_hull_slopes(heights - excess, step), total)
    return np.concatenate([[total - lower[0]], lower[:-1] - lower[1:], [lower[-1]]])


def _hull_slopes(heights: Array, step: float) -> Array:
    """Minus the slopes, cell by cell, of the lower convex hull of values on the grid.

    A point that is not below the chord of its kept neighbours is not a corner: all such go at once. Most go in a
    few sweeps; the last ones go one by one.
    """
    corners = np.arange(heights.size)
    for _ in range(SWEEPS):
        slopes = np.diff(heights[corners]) / np.diff(corners)
        convex = np.concatenate([[True], slopes[1:] > slopes[:-1], [True]])
        if convex.all():
            break
        corners = corners[convex]
    else:
        corners = _chain(heights, _bridged(heights, corners))
    slopes = -np.diff(heights[corners]) / (step * np.diff(corners))
    # Rounding may leave two neighbours out of order by an ulp.
    slopes = np.minimum.accumulate(np.maximum(slopes, 0.0))
    return np.repeat(slopes, np.diff(corners))


def _bridged(heights: Array, corners: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The corners without those under an edge of the hull that spans a kink: two arcs would be left point by point.

    From a point left of the kink the line of least slope to the right passes under everything there, and from where
    it ends the line of largest slope to the left: once both are one line, it is an edge of the hull.
    """
    for _ in range(MOST_BRIDGES):
        x, y = corners.astype(np.float64), heights[corners]
        slopes = np.diff(y) / np.diff(x)
        kinks = np.flatnonzero(slopes[1:] <= slopes[:-1])
        if not kinks.size:
            break
        kink = int(kinks[0]) + 1
        left, right, before = kink - 1, kink + 1, -1
        for _ in range(MOST_BRIDGES):
            if left == before:
                break
            before = left
            right = kink + 1 + int(np.argmin((y[kink + 1 :] - y[left]) / (x[kink + 1 :] - x[left])))
            left = int(np.argmax((y[right] - y[:kink]) / (x[right] - x[:kink])))
        else:
            break  # rounding sends it back and forth between lines that are equal
        corners = np.concatenate([corners[: left + 1], corners[right:]])
    return corners


def _chain(heights: Array, corners: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The hull of the corners that are left: few are not on it, and only their neighbours are looked at again."""
    places, values = corners.tolist(), heights[corners].tolist()
    slopes = np.diff(heights[corners]) / np.diff(corners)
    doubtful = (1 + np.flatnonzero(slopes[1:] <= slopes[:-1])).tolist()
    last = len(places) - 1
    before, after = list(range(-1, last)), list(range(1, last + 2))
    kept = np.ones(len(places), dtype=np.bool_)
    while doubtful:
        i = doubtful.pop()
        if i in (0, last) or not kept[i]:
            continue
        a, b = before[i], after[i]
        left, right = places[i] - places[a], places[b] - places[i]
        if (values[i] - values[a]) * right < (values[b] - values[i]) * left:
            continue
        kept[i] = False
        after[a], before[b] = b, a
        doubtful += [a, b]
    hull: npt.NDArray[np.int64] = corners[kept]
    return hull
