"""Discretise a law on a uniform grid from above and from below, with error O(step^2).

Write H(a) = E[(1 - a e^{-X})_+]; it is convex and decreasing in a. The **upper** grid law is the one
whose H is the piecewise-linear interpolation of H at a = e^{grid point} ("connect the dots"): each
point mass inside a bin is split to the two ends so that its mass and its e^{-X}-mass are kept. The
**lower** grid law has H minus at least the largest excess of the chord over H in the two bins beside
each grid point (the height of the triangle of end tangents), then the convex hull. Both are sums
of positive terms, so both keep a small relative error in far tails. Neither need be a probability:
composition is monotone in H for any positive measures (docs/theory/certification.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tallystick.numerics.law import UNIT, VALUE_ULPS, Array, Law
from tallystick.numerics.panels import panel_nodes

SWEEPS = 12
"""Vectorised sweeps of the convex hull before the chain finishes it."""


MARGIN = 64
"""Points to the left of a concave end from which on its hull is taken."""

WIDEST = 300.0
"""Largest step whose exponential, times any mass, is a double."""


@dataclass(frozen=True, slots=True, eq=False)
class GridLaw:
    """Masses at ``(first + i) * step + offset``; ``infinity`` apart. A valid bound from one side."""

    step: float
    offset: float
    first: int
    masses: Array
    infinity: float
    value_ulps: float = VALUE_ULPS

    @property
    def values(self) -> Array:
        return self.offset + self.step * (self.first + np.arange(self.masses.size, dtype=np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """Mass that each bin sends to its left and its right end, and what fell outside the range."""

    left: Array
    right: Array
    below: float
    above: float


def discretise(law: Law, *, step: float, offset: float, low: float, high: float) -> tuple[GridLaw, GridLaw]:
    """Upper and lower grid laws of ``law`` on the grid points that cover ``[low, high]``.

    Mass above the range goes to infinity (upper) or is dropped (lower); mass below goes to the first
    point (upper) or is dropped (lower).
    """
    first, split, masses = _binned(law, step, offset, low, high)
    lower = _lower_masses(split, masses, law.infinity, step)
    lower *= np.maximum(0.0, 1.0 - _relative_error(lower))
    below = GridLaw(step, offset, first, _not_empty(lower), law.infinity, law.value_ulps)
    return _upper_law(law, step, offset, first, split, masses), below


def discretise_above(law: Law, *, step: float, offset: float, low: float, high: float) -> GridLaw:
    """The upper law of ``discretise`` alone: the lower one is most of the work."""
    first, split, masses = _binned(law, step, offset, low, high)
    return _upper_law(law, step, offset, first, split, masses)


def _binned(law: Law, step: float, offset: float, low: float, high: float) -> tuple[int, _Split, Array]:
    """The first grid point, the mass of each bin, and the mass of each point from the bins beside it."""
    first = math.floor(_snapped(low, offset, step))
    last = max(first + 1, math.ceil(_snapped(high, offset, step)))
    split = _split(law, step, offset + first * step, last - first)
    masses = np.zeros(last - first + 1)
    masses[:-1] += split.left
    masses[1:] += split.right
    return first, split, masses


def _upper_law(law: Law, step: float, offset: float, first: int, split: _Split, masses: Array) -> GridLaw:
    masses[0] += split.below
    masses *= 1.0 + _relative_error(masses)
    infinity = law.infinity + split.above * (1 + 1e-12)
    return GridLaw(step, offset, first, _not_empty(masses), infinity, law.value_ulps)


def _not_empty(masses: Array) -> Array:
    """Where nothing is left (or certain from below), a subnormal mass at the lowest point keeps logs finite. From above
    more mass is always right, from below it is below (1 - a)_+."""
    if not masses.any():
        masses[0] = 1e-320
    return masses


def _snapped(value: float, offset: float, step: float) -> float:
    """Place of a value on the grid; a whole number where it differs from one by rounding alone."""
    position = (value - offset) / step
    near = round(position)
    return float(near) if abs(position - near) <= 4.0 * UNIT * (abs(position) + abs(offset / step)) else position


def _relative_error(masses: Array) -> Array:
    """Bound on the relative error of each mass: quadrature, and exp of a log-density of that size."""
    with np.errstate(divide="ignore"):
        size = np.minimum(np.abs(np.log(masses)), 750.0)
    return UNIT * (24.0 + 2.0 * size)


def _split(law: Law, step: float, start: float, bins: int) -> _Split:
    left, right = np.zeros(bins), np.zeros(bins)
    below = above = 0.0
    pieces = [(law.atoms, np.exp(law.log_masses))]
    for segment in law.segments:
        grid = segment.inverse(start + step * np.arange(bins + 1, dtype=np.float64))
        edges = np.union1d(segment.edges(), grid[(grid > segment.low) & (grid < segment.high)])
        widths = np.diff(edges)
        for narrow, count in ((True, 4), (False, 8)):
            chosen = (widths < 0.04 * segment.panel) == narrow
            if chosen.any():
                x, log_weight = _chosen_nodes(edges, chosen, count)
                pieces.append((segment.loss(x), np.exp(segment.log_density(x) + log_weight)))
    for values, masses in pieces:
        position = (values - start) / step
        near = np.rint(position)
        # A value within rounding of a grid point is taken to be that point; the shift is within the
        # rounding of the values themselves, which compose.py allows for (VALUE_ULPS).
        rounding = 4.0 * UNIT * (np.abs(position) + abs(start / step))
        position = np.where(np.abs(position - near) <= rounding, near, position)
        low, high = position < 0, position > bins
        below += float(np.sum(masses[low]))
        above += float(np.sum(masses[high]))
        keep = ~(low | high)
        index = np.minimum(position[keep].astype(np.int64), bins - 1)
        within = (position[keep] - index) * step
        to_right = np.clip(np.expm1(-within) / math.expm1(-step), 0.0, 1.0)
        left += np.bincount(index, masses[keep] * (1.0 - to_right), bins)
        right += np.bincount(index, masses[keep] * to_right, bins)
    return _Split(left, right, below, above)


def _chosen_nodes(edges: Array, chosen: npt.NDArray[np.bool_], count: int) -> tuple[Array, Array]:
    pairs = np.stack([edges[:-1][chosen], edges[1:][chosen]], axis=1)
    x, log_weight = panel_nodes(pairs.ravel(), count)
    # Every second panel is a gap between chosen panels: drop it.
    keep = np.arange(2 * pairs.shape[0] - 1) % 2 == 0
    mask = np.repeat(keep, count)
    return x[mask], log_weight[mask]


def _lower_masses(split: _Split, upper: Array, infinity: float, step: float) -> Array:
    """Node masses of the convex minorant described at the top of the file."""
    if step > WIDEST:
        # e^step is no double. What lies on the grid is exact; of anything else nothing is claimed.
        inside = (split.right[:-1] > 0.0).any() or ((split.left > 0.0) & (split.right > 0.0)).any()
        return np.zeros(upper.size) if inside else upper.copy()
    growth = math.expm1(step)
    right_scaled = split.right * math.exp(-step)
    triangle = growth * harmonic(split.left, right_scaled)
    excess = np.zeros(upper.size)
    excess[:-1] = triangle
    excess[1:] = np.maximum(excess[1:], triangle)
    # The last value is fixed (nothing lies above it), so the last chord must be the tangent from the right.
    excess[-1] = 0.0
    excess[-2] = max(excess[-2], growth * right_scaled[-1])
    slopes = scaled_tails(upper, step)
    heights = np.append(growth * np.cumsum(slopes[:-1][::-1])[::-1], 0.0)
    excess += 8.0 * UNIT * heights
    excess[0] = max(excess[0], excess[1])
    # Where the corrected value would fall under the value at infinity, sit on it, neighbours too.
    sunk = excess > heights
    sunk[:-1] |= sunk[1:].copy()
    sunk[1:] |= sunk[:-1].copy()
    excess = np.where(sunk, heights, excess)
    bends = np.empty(upper.size)
    drop = np.diff(excess) * -1.0
    bends[0] = drop[0] / growth
    bends[1:-1] = -(math.exp(step) * drop[:-1] - drop[1:]) / growth
    bends[-1] = -math.exp(step) * drop[-1] / growth
    lower = upper + bends
    if lower.min() >= 0.0:
        return lower
    # Clipped at zero, a mass below it lifts every value to its left by no more than itself; half the slack is for that.
    lifted = np.flatnonzero(np.cumsum(np.maximum(-lower, 0.0)[::-1])[::-1] > 4.0 * UNIT * heights)
    if lifted.size:
        lows, cut = heights - excess, max(0, int(lifted[0]) - MARGIN)
        # Often it is the end alone. A corner that the hull keeps separates it from the rest, which is convex already.
        before = lows[cut] - (lows[cut] - lows[cut - 1]) / -math.expm1(-step) if cut else 0.0
        end = _hull_masses(lows[cut:], float(before), step) if cut else np.zeros(1)
        if not end[0] > 0.0:
            cut, end = 0, _hull_masses(lows, float(np.sum(upper)) - float(excess[0]), step)
        lower[cut:] = end
    return np.maximum(lower, 0.0)


def harmonic(one: Array, two: Array) -> Array:
    """one two / (one + two) for masses >= 0; their product would be nothing where both are below 1e-154.

    >>> harmonic(np.array([1e-200, 0.0]), np.array([1e-200, 1.0])).tolist()
    [5e-201, 0.0]
    """
    smaller, larger = np.minimum(one, two), np.maximum(one, two)
    return smaller / (1.0 + smaller / np.where(larger > 0.0, larger, 1.0))


def scaled_tails(masses: Array, step: float) -> Array:
    """Y_i = sum over k > i of masses_k e^{(i-k) step}, by blocks so that nothing overflows."""
    size = masses.size
    if step == 0.0:
        return np.append(np.cumsum(masses[::-1])[::-1][1:], 0.0)
    if step > 4.0:
        # Only the next few points count before e^{-k step} underflows.
        tails = np.zeros(size)
        for shift in range(1, min(size, math.ceil(745.0 / step) + 1)):
            tails[:-shift] += masses[shift:] * math.exp(-shift * step)
        return tails
    block = max(1, int(300.0 / step))
    out = np.zeros(size)
    carry = 0.0
    for end in range(size - 1, -1, -block):
        begin = max(0, end - block + 1)
        decay = np.arange(end - begin + 2, dtype=np.float64)
        decay *= -step
        np.exp(decay, out=decay)
        # tails[i] counts k >= i inside this block, in units of e^{-step (k - begin)}.
        tails = np.cumsum((masses[begin : end + 1] * decay[:-1])[::-1])[::-1]
        here = out[begin : end + 1]
        here[:-1] = tails[1:]
        here += carry * decay[-1]
        here /= decay[:-1]
        carry = float(tails[0] + carry * decay[-1])
    return out


def _hull_masses(heights: Array, at_zero: float, step: float) -> Array:
    """Lower convex hull in a = e^value of the points ``heights`` and (0, ``at_zero``), as node masses.

    A point above the chord of two others is not on the hull, so all locally concave points may go at once; a few
    such sweeps leave little, and one pass of Andrew's chain finishes.
    """
    kept = np.arange(heights.size)
    for _ in range(SWEEPS):
        bends = _bends(heights, at_zero, step, kept)
        convex = bends >= 0.0
        convex[-1] = True
        if convex.all():
            break
        kept = kept[convex]
    else:
        kept = _chain(heights, at_zero, step, kept)
        bends = _bends(heights, at_zero, step, kept)
    masses = np.zeros(heights.size)
    masses[kept] = np.maximum(bends, 0.0)
    return masses


def _bends(heights: Array, at_zero: float, step: float, kept: npt.NDArray[np.int64]) -> Array:
    """Change of slope at each kept point, times its level a: the mass it carries."""
    gaps = np.diff(kept) * step
    falls = -np.diff(heights[kept])
    # Leaving slope falls / (e^gap - 1), arriving slope falls / (1 - e^-gap): no overflow for wide gaps.
    leaving = np.append(falls * np.exp(-gaps) / -np.expm1(-gaps), 0.0)
    arriving = np.append(at_zero - heights[kept[0]], falls / -np.expm1(-gaps))
    bends: Array = arriving - leaving
    return bends


def _chain(heights: Array, at_zero: float, step: float, kept: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Andrew's monotone chain over the kept points."""
    level = heights.tolist()  # floats of Python: a loop over elements of an array takes three times as long
    stack: list[int] = []
    arriving: list[float] = []
    for point in kept.tolist():
        here = level[point]
        slope = at_zero - here
        while stack:
            gap = (point - stack[-1]) * step
            slope = (level[stack[-1]] - here) / -math.expm1(-gap)
            if arriving[-1] >= slope * math.exp(-gap):
                break
            stack.pop()
            arriving.pop()
            slope = at_zero - here
        stack.append(point)
        arriving.append(slope)
    return np.array(stack, dtype=np.int64)
