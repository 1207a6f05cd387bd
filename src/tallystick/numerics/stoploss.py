"""E[(B - a)_+] and E[(a - B)_+] of a mean B = (V_1 + ... + V_t) / t of independent copies of V = e^X >= 0.

V is a likelihood ratio dP/dQ under Q, so it may be heavy-tailed and its t-fold sum cannot be put on one grid. Three
facts make it small:

- on the event that some V_i > c >= t a, B is above a for certain, so the expectation there is closed;
- on the rest V is bounded by c, so it can be tilted by e^{theta v}: the FFT is relative to the answer and what leaves
  its window is bounded by Chernoff;
- every level a gets a step in proportion to the tilted spread of V.

Errors (discretisation on either side, rounding, what leaves the window, rounding of the values) are each added on
the safe side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import numpy as np

from tallystick.numerics.convolve import sum_of_laws
from tallystick.numerics.grid import GridLaw, scaled_tails
from tallystick.numerics.law import UNIT, Array, Law, log_sum
from tallystick.numerics.panels import panel_nodes
from tallystick.numerics.ratio_grid import RatioCells, cells_of

MAX_SIZE = 2**18
"""Largest transform, and largest number of cells."""

MOST_WORK = 6 * MAX_SIZE
"""Points that all transforms of one curve may have before they become coarse."""

COARSE_SIZE = 2**13
"""Largest transform after that."""

FINENESS = ((0.03, 1024), (0.01, 8192))
"""Steps that are tried, in units of the tilted standard deviation of V, and the least number of cells."""

TOLERANCE = 1e-3
"""Relative width at which refinement stops."""

FACTOR = 9.0
"""How much wider bounds are on the coarse grid (the square of how much coarser it is)."""

LOG_LEAK = 18.0
"""Minus the log of the tilted mass that may leave the window."""

VALUE_ERROR = 1e-12
"""Relative error of values and of closed sums, with room to spare."""

SPREADS = np.array([1.0, 2.5, 5.0, 8.0])
CUTS = np.array([3.0, 8.0, 20.0])
"""Distances of the other tilts at which Chernoff's bound is tried: over the spread of the sum, over the cut."""

FAINTEST = -220.0
"""Log of the mass (under P and under Q) below which a point does not help to choose."""

PARITY = 1e-3
"""Parity is tried where the answer is at least this share of the level: beyond, it cancels."""

NARROWEST, WIDEST = 0.5, 0.8
"""Levels this close (relatively) share one transform, and levels farther apart never do."""

FAR = 20.0
"""Logarithm of a level at which both are twice that: so far out there are many levels, and none needs as much."""


class Wanted(Enum):
    """Which bounds are asked for: each has a grid and transforms of its own."""

    BOTH = 0
    UPPER = 1
    LOWER = -1


@dataclass(frozen=True, slots=True)
class Tilt:
    """Where to look for one level: the tilt, the tilted spread of one V, and the log of the answer's size."""

    order: float
    spread: float
    log_size: float


@dataclass(frozen=True, eq=False)
class MeanOfRatios:
    """The mean of ``count`` independent copies of V = e^X, X with law ``law`` under P, V weighed under Q.

    >>> coin = Law(np.log([0.5, 1.5]), np.log([0.25, 0.75]))
    >>> mean = MeanOfRatios(coin, 2)
    >>> upper, lower = mean.above(np.array([1.0]))
    >>> round(float(upper[0]), 4), round(float(lower[0]), 4)
    (0.125, 0.125)
    """

    law: Law
    count: int
    spent: list[int] = field(default_factory=list, compare=False)
    """Sizes of the transforms of the curve that is being read."""

    @property
    def most(self) -> int:
        """Largest transform: once a curve has cost enough, the rest of it is read from coarser grids."""
        return MAX_SIZE if sum(self.spent) < MOST_WORK else COARSE_SIZE

    @cached_property
    def nodes(self) -> tuple[Array, Array]:
        """V and its log-mass under Q in few points: they choose, they do not certify."""
        parts = [(self.law.atoms, self.law.log_masses)]
        for segment in self.law.segments:
            # Between the ends of a bulk neither measure has anything that is not below FAINTEST.
            for start, end in segment.bulk or ((segment.low, segment.high),):
                low, high = max(start, segment.low), min(end, segment.high)
                if low < high:
                    edges = np.linspace(low, high, max(2, math.ceil((high - low) / 0.1)) + 1)
                    x, log_weight = panel_nodes(edges, 2)
                    parts.append((segment.loss(x), segment.log_density(x) + log_weight))
        losses = np.concatenate([values for values, _ in parts])
        logs = np.concatenate([masses for _, masses in parts])
        kept = np.maximum(logs, logs - losses) > FAINTEST
        losses, logs = losses[kept], logs[kept]
        values, weights = np.exp(np.minimum(losses, 700.0)), logs - losses
        if self.law.zero > 0.0:
            values, weights = np.append(values, 0.0), np.append(weights, math.log(self.law.zero))
        order = np.argsort(values)
        return values[order], weights[order]

    def above(self, levels: Array, wanted: Wanted = Wanted.BOTH) -> tuple[Array, Array]:
        """Upper and lower bounds on E[(B - a)_+] at increasing levels a > 0; what is not wanted is trivial."""
        upper, lower = self._bounds(levels, 1, wanted)
        # Parity: E[(B - a)_+] = E[B] - a + E[(a - B)_+]; better unless the two cancel.
        near = (upper if wanted is not Wanted.LOWER else lower) >= PARITY * levels
        if near.any():
            error = VALUE_ERROR * (self.mean + levels[near])
            other = self._bounds(levels[near], -1, wanted)
            upper[near] = np.minimum(upper[near], self.mean - levels[near] + other[0] + error)
            lower[near] = np.maximum(lower[near], self.mean - levels[near] + other[1] - error)
        return upper, lower

    def below(self, levels: Array, wanted: Wanted = Wanted.BOTH) -> tuple[Array, Array]:
        """Upper and lower bounds on E[(a - B)_+] at increasing levels a > 0; what is not wanted is trivial."""
        return self._bounds(levels, -1, wanted)

    @cached_property
    def mean(self) -> float:
        """E_Q[V], that is P's mass where Q > 0."""
        return self.law.tail(-math.inf) - self.law.infinity

    def log_size(self, level: float, side: int) -> float:
        """A rough logarithm of the expectation at one level (it errs upward)."""
        tilt = self._tilt(level, side, self.count * level)
        return float(np.logaddexp(tilt.log_size, self._log_tail(self.count * level) if side > 0 else -math.inf))

    def spread(self, level: float, side: int) -> float:
        """The tilted standard deviation of B."""
        return self._tilt(level, side, self.count * level).spread / math.sqrt(self.count)

    def _log_tail(self, cut: float) -> float:
        values, weights = self.nodes
        far = values > cut
        return log_sum((np.log(np.maximum(values, 1e-300)) + weights)[far])

    def _tilt(self, level: float, side: int, cut: float) -> Tilt:
        """The tilt that minimises the Chernoff bound of the expectation, with V cut at ``cut``."""
        values, weights = self.nodes
        near = values <= cut
        values, weights = values[near], weights[near]
        if not values.size:
            return Tilt(side / level, level, -700.0)
        orders = np.exp(np.linspace(-3.0, 16.0, 77)) / (self.count * level)
        best = 0
        for _ in range(2):
            exponent = weights + side * orders[:, None] * values
            peak = exponent.max(axis=1)
            level_log = peak + np.log(np.exp(exponent - peak[:, None]).sum(axis=1))
            goal = self.count * (level_log - side * orders * level) - np.log(orders * self.count)
            best = int(np.argmin(goal))
            order, size = float(orders[best]), float(goal[best])
            orders = order * np.exp(np.linspace(-0.25, 0.25, 21))
        tilted = weights + side * order * values
        share = np.exp(tilted - log_sum(tilted))
        mean = float(np.dot(share, values))
        spread = math.sqrt(max(float(np.dot(share, (values - mean) ** 2)), 1e-6 * cut * cut))
        return Tilt(side * order, spread, size - 1.0)

    def _bounds(self, levels: Array, side: int, wanted: Wanted) -> tuple[Array, Array]:
        upper, lower = np.empty(levels.size), np.empty(levels.size)
        start, refined = 0, False
        self.spent.clear()
        while start < levels.size:
            first = float(levels[start])
            scale = first * (1.0 + abs(math.log(first)) / FAR)
            width = min(max(self.spread(first, side), NARROWEST * scale / self.count**0.5), WIDEST * scale)
            stop = max(start + 1, int(np.searchsorted(levels, first + width, side="right")))
            upper[start:stop], lower[start:stop], refined = self._group(levels[start:stop], side, wanted, refined)
            start = stop
        return upper, lower

    def _group(self, levels: Array, side: int, wanted: Wanted, refined: bool) -> tuple[Array, Array, bool]:
        """Bounds at levels that share one tilt, on finer and finer grids, and whether the next ones need those too.

        Where the levels before were ``refined``, a coarse grid would hardly be enough: it is not tried. One side alone
        is read from the coarse one: it is of a pair that another law bounds from the other side.
        """
        middle, whole = float(np.sqrt(levels[0] * levels[-1])), self.count * float(levels[-1])
        cut = min(whole, self._negligible_above(self._tilt(middle, side, whole), side))
        tilt = self._tilt(middle, side, cut)
        upper, lower = np.full(levels.size, math.inf), np.zeros(levels.size)
        for fineness, fewest in FINENESS[refined:] if wanted is Wanted.BOTH else FINENESS[:1]:
            cells, chernoff = self._cells(cut, fineness, fewest, tilt)
            bounds = self._once(levels, side, wanted, tilt, cells, chernoff)
            upper, lower = np.minimum(upper, bounds[0]), np.maximum(lower, bounds[1])
            if cells.step > fineness * tilt.spread or np.all(upper - lower <= TOLERANCE * upper):
                break
        coarse = fineness == FINENESS[0][0] or bool(np.all(FACTOR * (upper - lower) <= TOLERANCE * upper))
        return upper, lower, not coarse

    def _cells(self, cut: float, fineness: float, fewest: int, tilt: Tilt) -> tuple[RatioCells, Chernoff]:
        """V up to ``cut`` with the wanted step, or a coarser one if the sum would not fit the largest transform."""
        most = self.most
        number = min(most, max(min(fewest, most), math.ceil(cut / (fineness * tilt.spread))))
        cells = cells_of(self.law, step=cut / number, count=number)
        chernoff = self._chernoff(cells.upper(), tilt)
        needed = 2.0 * chernoff.reach / cells.step
        if min(needed, self.count * number) <= most:
            return cells, chernoff
        number = max(64, math.floor(number * 0.95 * most / needed))
        cells = cells_of(self.law, step=cut / number, count=number)
        return cells, self._chernoff(cells.upper(), tilt)

    def _negligible_above(self, tilt: Tilt, side: int) -> float:
        """A value beyond which V matters to less than about 1e-8 of the answer."""
        values, weights = self.nodes
        if side > 0:
            # E_Q[V; V > v] and count * Q(V > v) bound what is lost.
            logs = weights + np.logaddexp(np.log(np.maximum(values, 1e-300)), math.log(self.count))
            limit = tilt.log_size
        else:
            logs = weights + tilt.order * values
            limit = log_sum(logs) - math.log(self.count)
        rest = np.logaddexp.accumulate(logs[::-1])[::-1]
        index = int(np.searchsorted(-rest, 18.0 - limit))
        return float(values[index]) if index < values.size else 1.001 * float(values[-1])

    def _once(
        self, levels: Array, side: int, wanted: Wanted, tilt: Tilt, cells: RatioCells, chernoff: Chernoff
    ) -> tuple[Array, Array]:
        """Bounds from one grid, given the moments of its upper measure."""
        upper, lower = np.full(levels.size, math.inf), np.zeros(levels.size)
        if wanted is not Wanted.LOWER:
            upper = self._read(levels * (1.0 - side * VALUE_ERROR), tilt, cells.upper(), chernoff, 1)
        if wanted is not Wanted.UPPER:
            least = cells.lower(increasing=side > 0)
            lower = self._read(levels * (1.0 + side * VALUE_ERROR), tilt, least, self._chernoff(least, tilt), -1)
        far_upper, far_lower = (
            self._beyond(levels, cells) if side > 0 else self._beyond_below(levels, cells, tilt, chernoff)
        )
        return upper + far_upper, lower + far_lower

    def _beyond(self, levels: Array, cells: RatioCells) -> tuple[Array, Array]:
        """E[(B - a)_+; some V_i above the cut], exact where the cut is above count * a."""
        none = math.log1p(-min(cells.tail, 1.0 - 1e-16))
        some, others = -math.expm1(self.count * none), -math.expm1((self.count - 1) * none)
        gain = cells.tail_mean + cells.mean * others
        certain = cells.top >= self.count * levels * (1.0 - VALUE_ERROR)
        error = VALUE_ERROR * (gain + levels * some)
        exact = np.maximum(0.0, gain - levels * some)
        upper = np.where(certain, exact + error, gain * (1.0 + VALUE_ERROR))
        return upper, np.where(certain, np.maximum(0.0, exact - error), 0.0)

    def _beyond_below(self, levels: Array, cells: RatioCells, tilt: Tilt, chernoff: Chernoff) -> tuple[Array, Array]:
        """E[(a - B)_+; some V_i above the cut]: zero where the cut is above count * a, else by Markov at the tilt."""
        certain = cells.top >= self.count * levels * (1.0 - VALUE_ERROR)
        if cells.tail == 0.0:
            return np.zeros(levels.size), np.zeros(levels.size)
        one = math.log(cells.tail) + tilt.order * cells.top
        rest = (self.count - 1) * float(np.logaddexp(chernoff.here, one))
        logs = one + rest - tilt.order * self.count * levels - 1.0 - math.log(-tilt.order)
        return np.where(certain, 0.0, np.exp(np.minimum(logs + 1e-9, 700.0))), np.zeros(levels.size)

    def _chernoff(self, law: GridLaw, tilt: Tilt) -> Chernoff:
        extras = np.concatenate([SPREADS / (tilt.spread * math.sqrt(self.count)), CUTS / float(law.values[-1])])
        some = law.masses > 0.0
        if not some.any():
            return Chernoff(-math.inf, 0.0, extras, np.zeros(extras.size), np.zeros(extras.size))
        values, logs = law.values[some], np.log(law.masses[some])
        orders = tilt.order + np.concatenate([[0.0], extras, -extras])
        exponent = logs + orders[:, None] * values
        peaks = exponent.max(axis=1)
        weights = np.exp(exponent - peaks[:, None])
        exponents = peaks + np.log(weights.sum(axis=1))
        mean = float(np.dot(weights[0], values)) / float(weights[0].sum())
        gained = self.count * (exponents[1:] - exponents[0])
        return Chernoff(float(exponents[0]), self.count * mean, extras, gained[: extras.size], gained[extras.size :])

    def _read(self, levels: Array, tilt: Tilt, law: GridLaw, chernoff: Chernoff, sign: int) -> Array:
        """The expectation where no V is above the cut: from above (``sign`` 1) or from below (-1)."""
        if not law.masses.any():
            return np.full(levels.size, 1e-300 if sign > 0 else 0.0)
        terms = [(law, self.count)]
        total = sum_of_laws(terms, theta=tilt.order, reach=chernoff.reach, max_size=self.most, leaks=False)
        self.spent.append(total.values.size)
        values, tilted = total.values, total.tilted
        if self.count * (law.masses.size - 1) < values.size:
            # The whole sum fits: nothing leaves, and the window starts at zero.
            tilted = np.roll(tilted, round(float(values[0]) / law.step))
            values, leak = law.step * np.arange(values.size, dtype=np.float64), 0.0
        else:
            leak = chernoff.leak(float(values[0]), float(values[-1]) + law.step)
        entries = np.maximum(tilted + sign * total.rounding, 0.0)
        # e^{-theta y} y is at most 1 / (e theta): what left the window, or came in by wrapping round, weighs no more.
        inside = _weighed(values, entries, self.count * levels, tilt.order) * (1.0 + sign * VALUE_ERROR)
        profile = np.maximum(0.0, inside + sign * leak / (math.e * abs(tilt.order))) / self.count
        own = np.log(np.maximum(profile, 1e-320))
        logs = total.log_scale - tilt.order * self.count * levels
        size = np.where(profile > 0.0, np.exp(np.minimum(own + logs, 700.0)), 0.0)
        return size * (1.0 + sign * 8.0 * UNIT * (np.abs(own) + np.abs(logs) + self.count))


def _weighed(values: Array, entries: Array, places: Array, order: float) -> Array:
    """The sum over y = value - place > 0 (or < 0, for a negative order) of entries times |y| e^{-|order| |y|}."""
    if order < 0.0:
        return _weighed(-values[::-1], entries[::-1], -places, -order)
    step = float(values[1] - values[0])
    needed = min(int(np.searchsorted(values, np.min(places))), values.size - 1)
    values, entries = values[needed:], entries[needed:]
    ahead = entries + scaled_tails(entries, order * step)
    # A gap of k steps counts each of the k places in between once.
    moments = step * scaled_tails(ahead, order * step)
    first = np.searchsorted(values, places, side="right")
    some = first < values.size
    index = np.minimum(first, values.size - 1)
    gap = np.maximum(values[index] - places, 0.0)
    return np.where(some, np.exp(-order * gap) * (moments[index] + gap * ahead[index]), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Chernoff:
    """log-moment-generating functions of the tilted sum at tilts above and below: bounds of its tails."""

    here: float
    mean: float
    extras: Array
    ups: Array
    downs: Array

    @property
    def reach(self) -> float:
        """Half-width of a window around the mean that keeps all but e^-LOG_LEAK on either side."""
        top = float(np.min((self.ups + LOG_LEAK) / self.extras))
        bottom = float(np.max(-(self.downs + LOG_LEAK) / self.extras))
        return max(top - self.mean, self.mean - bottom)

    def leak(self, bottom: float, top: float) -> float:
        """Bound on the tilted mass outside [bottom, top)."""
        above = float(np.min(self.ups - self.extras * top))
        below = float(np.min(self.downs + self.extras * bottom))
        return (math.exp(min(above, 0.0)) + (math.exp(min(below, 0.0)) if bottom > 0.0 else 0.0)) * (1.0 + 1e-6)
