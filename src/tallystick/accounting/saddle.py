"""The contour engine's driver: which tilt, read the nodes, blur where they do not decay, say when to ask the grid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tallystick.accounting.bounds import Bounds
from tallystick.accounting.pair import DominatingPair
from tallystick.numerics.contour import ContourSum, Nodes
from tallystick.numerics.convolve import log_peak_weight
from tallystick.numerics.cumulants import Cumulants
from tallystick.numerics.search import bisect_decreasing
from tallystick.numerics.smoothing import BlurredNodes

TINIEST = -690.0
"""log of the smallest delta that is read by contour; below, doubles end and the grid says so at once."""

TOLERANCES = (1e-9, 1e-7)
"""Relative errors of delta that nodes are chosen for, best first; epsilon is usually better still."""

GOOD_ENOUGH = 0.999
"""Lower over upper bound of delta below which another route is tried."""

WIDTH = 1e-6
"""Relative width of an enclosure that is good enough; blurs are chosen for a half of it."""

TRIMMED = 1e-8
"""Share of delta that may be given up for a law without its rarest losses."""

REFINEMENTS, COARSER = (0.25, 0.0625), (4.0, 16.0)
"""Other blurs, relative to the one a smooth profile needs: atoms near the threshold need a smaller one, and where that
one costs too much a larger one still beats the grid."""


@dataclass(frozen=True, slots=True, eq=False)
class SaddleSum:
    """A composition of pairs and one Gaussian, read by contour integrals from above and from below."""

    upper: ContourSum
    lower: ContourSum
    cumulants: Cumulants
    _kept: dict[tuple[float, float, bool], Nodes | BlurredNodes | None] = field(default_factory=dict)

    @staticmethod
    def of(pairs: Sequence[tuple[DominatingPair, int]], mu: float) -> SaddleSum:
        above = [(pair.upper, count) for pair, count in pairs]
        below = [(pair.lower, count) for pair, count in pairs]
        cumulants = Cumulants.of(above, mu)
        upper = ContourSum.of(above, mu, cumulants)
        if all(pair.upper is pair.lower for pair, _ in pairs):
            return SaddleSum(upper, upper, cumulants)
        return SaddleSum(upper, ContourSum.of(below, mu, Cumulants.of(below, mu)), cumulants)

    def trimmed(self, delta: float) -> SaddleSum | None:
        """Without the losses that matter less than TRIMMED of ``delta``, or None where there are none.

        Rare huge losses take over the tilted law long before the tilt that the answer needs.
        """
        if not self.exact or not delta > 0.0:
            return None
        share = TRIMMED * delta / sum(count for _, count in self.upper.terms)
        cut = [(law.trimmed(share), count) for law, count in self.upper.terms]
        lost = math.fsum(count * gone for (_, gone), count in cut) * (1.0 + 1e-12)
        if lost == 0.0:
            return None
        terms = [(law, count) for (law, _), count in cut]
        cumulants = Cumulants.of(terms, self.upper.mu)
        engine = ContourSum.of(terms, self.upper.mu, cumulants, lost)
        return SaddleSum(engine, engine, cumulants)

    @property
    def exact(self) -> bool:
        """True if both sides read the same laws."""
        return self.lower is self.upper

    def delta_bounds(self, epsilon: float, width: float = WIDTH) -> Bounds | None:
        """Certified bounds on delta, or None where the integrand decays too slowly."""
        return self.plain_delta(epsilon) or self.blurred_delta(epsilon, width)

    def plain_delta(self, epsilon: float) -> Bounds | None:
        """The same where no blur is needed, else None."""
        nodes = self._nodes(_rung(self.cumulants.tilt_for_threshold(epsilon)), 0.0, True)
        return None if nodes is None else self._delta(nodes, epsilon)

    def blurred_delta(self, epsilon: float, width: float) -> Bounds | None:
        """The same by finer and finer blurs, where one is needed."""
        theta = _rung(self.cumulants.tilt_for_threshold(epsilon))
        if self._nodes(theta, 0.0, True) is not None:
            return None
        best: Bounds | None = None
        for nodes in self._blurred(theta, width / (theta * (theta + 1.0))):
            best = self._delta(nodes, epsilon) if best is None else best.meet(self._delta(nodes, epsilon))
            if not self.exact or best.relative_width <= width:
                break
        return best

    def epsilon_upper(self, delta: float) -> float | None:
        """Certified upper bound on epsilon alone where plain nodes answer it, else None."""
        nodes = self._nodes(self._tilt(delta), 0.0, True)
        if nodes is None:
            return None
        top = self._upper_crossing(nodes, delta)
        below = self._below(nodes)
        # Only where both sides agree is the upper bound known to be the answer.
        tight = top is not None and (not self.exact or (below is not None and below.lower(top) > GOOD_ENOUGH * delta))
        return top if tight else None

    def epsilon_bounds(self, delta: float, width: float = WIDTH) -> Bounds | None:
        """Certified bounds on epsilon, or None where the integrand decays too slowly."""
        return self.plain_epsilon(delta) or self.blurred_epsilon(delta, width)

    def plain_epsilon(self, delta: float) -> Bounds | None:
        """The same where no blur is needed, else None."""
        nodes = self._nodes(self._tilt(delta), 0.0, True)
        return None if nodes is None else self._epsilon(nodes, delta)

    def blurred_epsilon(self, delta: float, width: float) -> Bounds | None:
        """The same by finer and finer blurs, where one is needed."""
        theta = self._tilt(delta)
        if self._nodes(theta, 0.0, True) is not None:
            return None
        size = max(self.centre(theta), 0.05 / theta)
        best: Bounds | None = None
        for nodes in self._blurred(theta, width * size / (theta + 1.0)):
            found = self._epsilon(nodes, delta)
            if found is None:
                break
            best = found if best is None else best.meet(found)
            if not self.exact or best.relative_width <= width:
                break
        return best

    def centre(self, theta: float) -> float:
        """The threshold whose best tilt is theta."""
        return self.cumulants.derivatives(theta)[1] - 1.0 / theta - 1.0 / (1.0 + theta)

    def surely_zero(self, delta: float) -> bool:
        """True if epsilon is zero at this delta, found where the tilt for that mass points below zero."""
        if self.centre(self._tilt(delta)) > 0.0:
            return False
        found = self.delta_bounds(0.0, 1e-3)
        return found is not None and found.upper <= delta

    def _tilt(self, delta: float) -> float:
        return _rung(self.cumulants.tilt_for_mass(math.log(delta)))

    def _blurred(self, theta: float, variance: float) -> Iterator[Nodes | BlurredNodes]:
        """Nodes with finer and finer blurs; an enclosure of a smooth profile is 1.5 variances wide."""
        # On a ladder, so that neighbouring read-outs share their nodes.
        blur = 2.0 ** (0.5 * math.floor(math.log2(variance / 3.0)))
        affordable = [nodes for nodes in (self._nodes(theta, blur, True),) if nodes is not None]
        shares = REFINEMENTS if affordable else COARSER
        yield from affordable
        for share in shares:
            nodes = self._nodes(theta, blur * share, True)
            if nodes is not None:
                yield nodes
            if (nodes is None) == bool(affordable):
                return

    def _delta(self, nodes: Nodes | BlurredNodes, epsilon: float) -> Bounds:
        top, below = nodes.upper(epsilon), self._below(nodes)
        return Bounds(min(top, below.lower(epsilon)) if below is not None else 0.0, top)

    def _epsilon(self, nodes: Nodes | BlurredNodes, delta: float) -> Bounds | None:
        top, below = self._upper_crossing(nodes, delta), self._below(nodes)
        if top is None:
            return None
        return Bounds(_lower_crossing(below, delta, top) if below is not None else 0.0, top)

    def _below(self, nodes: Nodes | BlurredNodes) -> Nodes | BlurredNodes | None:
        return nodes if self.exact else self._nodes(nodes.theta, nodes.blur, False)

    def _upper_crossing(self, nodes: Nodes | BlurredNodes, delta: float) -> float | None:
        # Markov's bound on the profile at this tilt is above the truth, so it brackets the root.
        high = max(0.0, (nodes.log_scale - math.log(delta)) / nodes.theta) + 1.0
        top = bisect_decreasing(nodes.upper, delta, 0.0, high, relative=1e-13)[1]
        return top if math.isfinite(top) else None

    def _nodes(self, theta: float, blur: float, above: bool) -> Nodes | BlurredNodes | None:
        key = (theta, blur, above)
        if key not in self._kept:
            if len(self._kept) > 64:
                self._kept.clear()
            self._kept[key] = self._fresh_nodes(theta, blur, above)
        return self._kept[key]

    def _fresh_nodes(self, theta: float, blur: float, above: bool) -> Nodes | BlurredNodes | None:
        level = self.cumulants(theta)
        threshold = self.centre(theta)
        # The tilted density at its mean times the peak weight: the usual size of the answer.
        target = min(0.0, level - theta * threshold + log_peak_weight(theta) - 3.0)
        if target < TINIEST:
            return None
        engine = self.upper if above else self.lower
        expected = level + 0.5 * blur * blur * theta * (theta + 1.0)
        for tolerance in TOLERANCES:
            nodes: Nodes | BlurredNodes | None
            if blur > 0.0:
                nodes = BlurredNodes.of(engine, blur, theta, target, tolerance)
            else:
                nodes = engine.nodes(theta, target, tolerance)
            # Nodes integrate whole lines; the cumulants, and with them the bound on aliases, stop at the law's reach.
            # Where the two disagree the alias bound is not one: leave it to the grid.
            if nodes is not None and abs(nodes.log_scale - expected) <= 1e-6 * (1.0 + abs(level)):
                return nodes
        return None


def _rung(theta: float) -> float:
    """The nearest tilt on a ladder of 6 %: any tilt is valid, and neighbours share their transforms."""
    return math.exp(round(16.0 * math.log(theta)) / 16.0)


def _lower_crossing(nodes: Nodes | BlurredNodes, delta: float, top: float) -> float:
    """A certified epsilon with delta above the target: the lower bound is good near the saddle only."""
    for gap in (1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.5):
        start = top * (1.0 - gap)
        if nodes.lower(start) > delta:
            return bisect_decreasing(nodes.lower, delta, start, top, relative=1e-13)[0]
    return 0.0
