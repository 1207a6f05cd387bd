"""Compose laws and read the sum: which tilt, which step, how large a window, until the tolerance is met.

This is the grid engine's driver. It takes laws (upper and lower) with counts and returns certified
two-sided bounds; it does not know mechanisms, adjacency or directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tallystick.accounting.bounds import Bounds
from tallystick.accounting.pair import DominatingPair
from tallystick.numerics.convolve import ABOVE, BELOW, TiltedSum, log_peak_weight, sum_of_laws
from tallystick.numerics.cumulants import Cumulants
from tallystick.numerics.grid import GridLaw, discretise
from tallystick.numerics.law import log_sum

MAX_SIZE = 2**18
"""Largest grid that refinement reaches by itself."""

WIDEST_STEP = 100.0
"""Steps of the loss beyond this say nothing (e^step overflows): the trivial bounds stand."""

LATTICE_SIZE = 2**20
"""Largest grid where all atoms lie on it, so that nothing is discretised."""

SMALL_LATTICE = 2**15
"""Points of a lattice that are always listed rather than integrated."""

FAR_FROM_ZERO = 8.0
"""A law so many of its widths above zero is not put on a grid that reaches down to it."""

TOLERANCE = 1e-6
"""Relative width of epsilon that the grid engine refines to by default."""


@dataclass(frozen=True, slots=True, eq=False)
class GridSum:
    """A composition of pairs, ready to be read at any epsilon or delta."""

    terms: tuple[tuple[DominatingPair, int], ...]
    cumulants: Cumulants
    _kept: dict[float, tuple[TiltedSum, TiltedSum] | None] = field(default_factory=dict)

    @staticmethod
    def of(terms: Sequence[tuple[DominatingPair, int]]) -> GridSum:
        return GridSum(tuple(terms), Cumulants.of([(pair.upper, count) for pair, count in terms]))

    def delta_bounds(self, epsilon: float, tolerance: float = TOLERANCE) -> Bounds:
        """Certified bounds on delta at one epsilon."""
        theta = self.cumulants.tilt_for_threshold(epsilon)
        best = Bounds(0.0, 1.0)
        for upper, lower in self._refinements(theta, epsilon, tolerance):
            found = Bounds(0.0, upper.excess_upper(epsilon))
            low = min(lower.excess_lower(epsilon), found.upper)
            gained = best.upper - found.upper
            best = best.meet(Bounds(low, found.upper))
            if best.upper - best.lower <= 30 * tolerance * best.upper or self._settled(gained, best, 30 * tolerance):
                break
        return best

    def delta_nearby(self, epsilon: float) -> Bounds:
        """Certified bounds on delta from a grid that neighbouring epsilons share: for reading whole curves.

        Tilts lie on a ladder of 28 %, and each rung is composed once, at a tolerance of 1e-4.
        """
        theta = math.exp(round(4.0 * math.log(self.cumulants.tilt_for_threshold(epsilon))) / 4.0)
        if theta not in self._kept:
            mean = max(0.0, self.cumulants.moments(theta)[0])
            self._kept[theta] = next(self._refinements(theta, mean, 1e-4), None)
        sums = self._kept[theta]
        if sums is None:
            return Bounds(0.0, 1.0)
        top = sums[0].excess_upper(epsilon)
        return Bounds(min(sums[1].excess_lower(epsilon), top), top)

    def epsilon_bounds(self, delta: float, tolerance: float = TOLERANCE) -> Bounds:
        """Certified bounds on epsilon at one delta in (infinity mass, 1)."""
        log_delta = math.log(delta)
        theta = self.cumulants.tilt_for_mass(log_delta)
        guess = max(0.0, (self.cumulants(theta) - log_delta) / theta)
        best = Bounds(0.0, math.inf)
        for upper, lower in self._refinements(theta, guess, tolerance):
            high = _crossing(upper.excess_upper, delta, upper, side=1)
            low = min(_crossing(lower.excess_lower, delta, lower, side=-1), high)
            gained = best.upper - high
            best = best.meet(Bounds(low, high))
            if best.upper - best.lower <= tolerance * best.upper or self._settled(gained, best, tolerance):
                break
        return best

    def _settled(self, gained: float, best: Bounds, tolerance: float) -> bool:
        """Where the lower pair is another one, no refinement closes the gap: stop when the upper bound stands."""
        return self.inexact and abs(gained) <= 0.3 * tolerance * best.upper

    @property
    def inexact(self) -> bool:
        """True if some pair is only bracketed."""
        return any(pair.upper is not pair.lower for pair, _ in self.terms)

    def _refinements(self, theta: float, epsilon: float, tolerance: float) -> Iterator[tuple[TiltedSum, TiltedSum]]:
        """Pairs of upper and lower sums on finer and finer grids."""
        mean, variance = self.cumulants.moments(theta)
        deviation = math.sqrt(max(variance, 1e-300))
        log_target = min(0.0, self.cumulants(theta) - theta * epsilon + log_peak_weight(theta))
        reach = max(self._reach(theta, mean, log_target), abs(epsilon - mean) + 2.0 * deviation)
        ranges = [self._range(pair, count, theta, log_target) for pair, count in self.terms]
        widest = sum((high - low) for low, high in ranges)
        total = sum(count for _, count in self.terms)
        lattice = self._lattice()
        if lattice is not None and 2 * reach / lattice < LATTICE_SIZE:
            yield self._sums(lattice, theta, reach, ranges)
            return
        target = max(tolerance * max(epsilon, 1e-3 * deviation), 1e-12)
        step = math.sqrt(12.0 * target / (4.0 * total * (theta + 1.0)))
        step = min(step, widest / 64.0, deviation / 16.0)
        smallest = max(2.0 * reach, widest) / MAX_SIZE
        if not smallest < WIDEST_STEP:
            return
        for _ in range(3):
            step = max(step, smallest)
            yield self._sums(self._aligned(step), theta, reach, ranges)
            if step <= smallest:
                return
            step /= 4.0

    def _reach(self, theta: float, mean: float, log_target: float) -> float:
        """Half-width of a window outside which Chernoff's bound leaves 1e-7 of the target above, 1e-13 below."""
        here = self.cumulants(theta)
        levels = [(float(s), self.cumulants(float(s))) for s in theta * ABOVE]
        # Far enough that little is lost above, and that little of the tilted mass comes back from above.
        lost = min((level - log_target + 16.0) / s for s, level in levels)
        back = min((level - here + 16.0) / (s - theta) for s, level in levels)
        top = max(lost, back)
        bottom = max((here - self.cumulants(s) - 30.0) / (theta - s) for s in theta * BELOW - 0.5)
        return float(max(top - mean, mean - bottom))

    def _aligned(self, step: float) -> float:
        """At most ``step``, and a divisor of the atom spacing of the law with the most atom mass, if any."""
        spacings = [
            (count * float(np.sum(np.exp(pair.upper.log_masses))), pair.upper.lattice)
            for pair, count in self.terms
            if pair.upper.lattice is not None and pair.upper.atoms.size > 1
        ]
        spacing = max(spacings, default=(0.0, None))[1]
        return step if spacing is None or spacing < step else spacing / math.ceil(spacing / step)

    def _lattice(self) -> float | None:
        """A step on which every law's atoms lie exactly, if there is one."""
        steps = {pair.upper.lattice for pair, _ in self.terms}
        same = all(pair.upper is pair.lower and not pair.upper.segments for pair, _ in self.terms)
        return steps.pop() if len(steps) == 1 and same else None

    @property
    def small_lattice(self) -> bool:
        """True if all sums lie on few lattice points: then nothing is discretised and nothing is cheaper."""
        points = sum(count * pair.upper.atoms.size for pair, count in self.terms)
        return points <= SMALL_LATTICE and self._lattice() is not None

    def _range(self, pair: DominatingPair, count: int, theta: float, log_target: float) -> tuple[float, float]:
        """Where the law must be resolved: outside, its mass cannot matter by about 1e-11 of the answer.

        Mass above the range is moved to infinity, so its *untilted* sum must be far below the answer; mass
        below it is moved up, so its *tilted* share must be small.
        """
        values, logs = pair.upper.nodes()
        order = np.argsort(values)
        values, logs = values[order], logs[order]
        tilted = theta * values + logs
        share = np.exp(tilted - log_sum(tilted))
        low = values[int(np.searchsorted(np.cumsum(share), 1e-16 / count))]
        rising = np.logaddexp.accumulate(logs[::-1])
        outside = int(np.searchsorted(rising, log_target - math.log(count) - 25.0))
        high = values[min(values.size - 1, values.size - outside)]
        if low > FAR_FROM_ZERO * (high - low):
            return float(low), float(high)
        return min(float(low), 0.0), max(float(high), 0.0)

    def _sums(
        self, step: float, theta: float, reach: float, ranges: list[tuple[float, float]]
    ) -> tuple[TiltedSum, TiltedSum]:
        upper: list[tuple[GridLaw, int]] = []
        lower: list[tuple[GridLaw, int]] = []
        for (pair, count), (low, high) in zip(self.terms, ranges, strict=True):
            offset = float(pair.upper.atoms[0]) if pair.upper.lattice is not None and pair.upper.atoms.size else 0.0
            above, below = discretise(pair.upper, step=step, offset=offset, low=low, high=high)
            if pair.lower is not pair.upper:
                below = discretise(pair.lower, step=step, offset=offset, low=low, high=high)[1]
            upper.append((above, count))
            lower.append((below, count))
        size = LATTICE_SIZE if step == self._lattice() else MAX_SIZE
        return (
            sum_of_laws(upper, theta=theta, reach=reach, max_size=size),
            sum_of_laws(lower, theta=theta, reach=reach, max_size=size),
        )


def _crossing(function: Callable[[float], float], delta: float, area: TiltedSum, side: int) -> float:
    """Where a decreasing bound on delta falls to ``delta``: rounded up (side 1) or down (side -1); 0 at least."""
    low, high = max(0.0, float(area.values[0]) + 2.0 * area.location), float(area.values[-1])
    if high <= low:
        return 0.0 if low == 0.0 or side < 0 else math.inf
    if function(low) <= delta:
        # Valid on either side, if loose: the bound at ``low`` already suffices.
        return float(low) if side > 0 else 0.0
    if function(high) > delta:
        return math.inf if side > 0 else high
    f_low, f_high = math.log(max(function(low), 1e-320) / delta), math.log(max(function(high), 1e-320) / delta)
    for _ in range(200):
        if high - low <= 1e-13 * high:
            break
        middle = low + (high - low) * min(max(f_low / (f_low - f_high), 0.02), 0.98)
        value = math.log(max(function(middle), 1e-320) / delta)
        if value > 0.0:
            low, f_low = middle, value
            f_high *= 0.5
        else:
            high, f_high = middle, min(value, -1e-300)
            f_low *= 0.5
        f_low, f_high = max(f_low, 1e-300), min(f_high, -1e-300)
    return float(high if side > 0 else low)
