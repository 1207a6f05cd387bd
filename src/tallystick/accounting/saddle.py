"""The contour engine's driver: which tilt, read the nodes, say when another route is needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tallystick.accounting.bounds import Bounds
from tallystick.accounting.pair import DominatingPair
from tallystick.numerics.contour import ContourSum, Nodes
from tallystick.numerics.convolve import log_peak_weight
from tallystick.numerics.cumulants import Cumulants
from tallystick.numerics.search import bisect_decreasing

TINIEST = -690.0
"""log of the smallest delta that is read by contour; below, doubles end and the grid says so at once."""

TOLERANCES = (1e-9, 1e-7)
"""Relative errors of delta that nodes are chosen for, best first; epsilon is usually better still."""

GOOD_ENOUGH = 0.999
"""Lower over upper bound of delta below which another route is tried."""


@dataclass(frozen=True, slots=True, eq=False)
class SaddleSum:
    """A composition of pairs and one Gaussian, read by contour integrals from above and from below."""

    upper: ContourSum
    lower: ContourSum
    cumulants: Cumulants
    _kept: dict[tuple[float, bool], Nodes | None] = field(default_factory=dict)

    @staticmethod
    def of(pairs: Sequence[tuple[DominatingPair, int]], mu: float) -> SaddleSum:
        above = [(pair.upper, count) for pair, count in pairs]
        below = [(pair.lower, count) for pair, count in pairs]
        cumulants = Cumulants.of(above, mu)
        upper = ContourSum.of(above, mu, cumulants)
        if all(pair.upper is pair.lower for pair, _ in pairs):
            return SaddleSum(upper, upper, cumulants)
        return SaddleSum(upper, ContourSum.of(below, mu, Cumulants.of(below, mu)), cumulants)

    def delta_bounds(self, epsilon: float) -> Bounds | None:
        """Certified bounds on delta, or None where the integrand decays too slowly."""
        theta = _rung(self.cumulants.tilt_for_threshold(epsilon))
        nodes = self._nodes(theta, True)
        if nodes is None:
            return None
        top = nodes.upper(epsilon)
        below = nodes if self.lower is self.upper else self._nodes(theta, False)
        bottom = min(top, below.lower(epsilon)) if below is not None else 0.0
        if below is nodes and bottom < GOOD_ENOUGH * top:
            return None  # no tilt puts the threshold near the mean (a law of two scales): the grid does better
        return Bounds(bottom, top)

    def epsilon_upper(self, delta: float) -> float | None:
        """Certified upper bound on epsilon alone, or None where the integrand decays too slowly."""
        found = self._upper_crossing(delta)
        return None if found is None else found[1]

    def epsilon_bounds(self, delta: float) -> Bounds | None:
        """Certified bounds on epsilon, or None where the integrand decays too slowly."""
        found = self._upper_crossing(delta)
        if found is None:
            return None
        nodes, top = found
        below = nodes if self.lower is self.upper else self._nodes(nodes.theta, False)
        return Bounds(_lower_crossing(below, delta, top) if below is not None else 0.0, top)

    def _upper_crossing(self, delta: float) -> tuple[Nodes, float] | None:
        theta = _rung(self.cumulants.tilt_for_mass(math.log(delta)))
        nodes = self._nodes(theta, True)
        if nodes is None:
            return None
        # Markov's bound on the profile at this tilt is above the truth, so it brackets the root.
        high = max(0.0, (nodes.log_scale - math.log(delta)) / theta) + 1.0
        top = bisect_decreasing(nodes.upper, delta, 0.0, high, relative=1e-13)[1]
        return (nodes, top) if math.isfinite(top) else None

    def _nodes(self, theta: float, above: bool) -> Nodes | None:
        key = (theta, above)
        if key not in self._kept:
            level, mean, _ = self.cumulants.derivatives(theta)
            threshold = mean - 1.0 / theta - 1.0 / (1.0 + theta)
            # The tilted density at its mean times the peak weight: the usual size of the answer.
            target = min(0.0, level - theta * threshold + log_peak_weight(theta) - 3.0)
            if target < TINIEST:
                return None
            if len(self._kept) > 64:
                self._kept.clear()
            engine = self.upper if above else self.lower
            found = (engine.nodes(theta, target, tolerance) for tolerance in TOLERANCES)
            # Nodes integrate whole lines; the cumulants, and with them the bound on aliases, stop at the law's reach.
            # Where the two disagree the alias bound is not one: leave it to the grid.
            agreeing = (
                nodes
                for nodes in found
                if nodes is not None and abs(nodes.log_scale - level) <= 1e-6 * (1.0 + abs(level))
            )
            self._kept[key] = next(agreeing, None)
        return self._kept[key]


def _rung(theta: float) -> float:
    """The nearest tilt on a ladder of 6 %: any tilt is valid, and neighbours share their transforms."""
    return math.exp(round(16.0 * math.log(theta)) / 16.0)


def _lower_crossing(nodes: Nodes, delta: float, top: float) -> float:
    """A certified epsilon with delta above the target: the lower bound is good near the saddle only."""
    for gap in (1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.5):
        start = top * (1.0 - gap)
        if nodes.lower(start) > delta:
            return bisect_decreasing(nodes.lower, delta, start, top, relative=1e-13)[0]
    return 0.0
