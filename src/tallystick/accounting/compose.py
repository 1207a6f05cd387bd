"""Compose laws and read the sum, three ways: list the outcomes, integrate along a contour, convolve on a grid.

Each takes laws (upper and lower) with counts and returns certified two-sided bounds; none knows mechanisms, adjacency
or directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tallystick.accounting import gdp
from tallystick.accounting.bounds import WIDTH, Bounds
from tallystick.accounting.pair import DominatingPair
from tallystick.numerics.contour import ContourSum, Nodes
from tallystick.numerics.convolve import ABOVE, BELOW, TiltedSum, sum_of_laws
from tallystick.numerics.grid import GridLaw, discretise
from tallystick.numerics.law import DUST, UNIT, VALUE_ULPS, Above, Array, Below, Law, certain, log_sum
from tallystick.numerics.saddle import REMEMBERED, Cumulants, bisect_decreasing, log_peak_weight
from tallystick.numerics.smoothing import BlurredNodes

# Compositions of finitely many outcomes, outcome by outcome: no grid, no tilt, nothing to certify but rounding.

LIMIT = 2**17
"""Largest number of joint outcomes that are listed."""

LIMIT_BESIDE_GAUSSIAN = 2**13
"""Most terms beside a Gaussian, where each costs two error functions per value."""


@dataclass(frozen=True, slots=True, eq=False)
class Direct:
    """A law that is the whole composition, the relative error of its masses, and the rounding of its values."""

    law: Law
    error: float
    location: float
    below: Law | None = None
    mu: float = 0.0
    """One Gaussian release beside the listed outcomes, in closed form."""
    relative: float = math.inf
    """Rounding of each value relative to itself, where a value is not a sum of others."""
    highest: float = field(init=False)
    """The largest finite value, which every read-out asks for."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "highest", self.law.highest)

    def shift(self, epsilon: float) -> float:
        """By how much rounded values near the threshold can be off.

        Those more than 10 above it give all but e^-10 anyway; what they are off by is in ``_error``.
        """
        return min(self.location, self.relative * (abs(epsilon) + 10.0))

    def _error(self, epsilon: float) -> float:
        return self.error + math.exp(-9.0) * self.shift(epsilon)

    @staticmethod
    def alone(law: Law, below: Law | None = None) -> Direct:
        """One release, by quadrature (relative error 1e-13; ten times that is allowed for); ``below`` if bracketed."""
        relative = max(law.value_ulps, 0.0 if below is None else below.value_ulps) * UNIT
        return Direct(law, 1e-12, relative * max(abs(law.lowest), abs(law.highest)), below, relative=relative)

    def upper(self, epsilon: float) -> Above:
        """Upper bound on delta."""
        if self.mu > 0.0:
            value = self._beside_gaussian(epsilon - self.shift(epsilon), 1.0) + self.law.infinity
        else:
            value = float(self.law.excess(np.array([epsilon - self.shift(epsilon)]))[0])
        # Positive up to the largest loss, which may have been rounded down, however small.
        tiny = 1e-320 if self.mu > 0.0 or epsilon - self.shift(epsilon) < self.highest else 0.0
        return Above(min(1.0, value * (1.0 + self._error(epsilon)) + tiny))

    def lower(self, epsilon: float) -> Below:
        """Lower bound on delta."""
        law = self.law if self.below is None else self.below
        if self.mu > 0.0:
            value = self._beside_gaussian(epsilon + self.shift(epsilon), -1.0) + certain(law.infinity)
        else:
            dust = law.infinity - certain(law.infinity)
            value = float(law.excess(np.array([epsilon + self.shift(epsilon)]))[0]) - dust
        # Sums of what doubles hardly hold have no digits: nothing is claimed.
        return Below(value * max(0.0, 1.0 - self._error(epsilon)) if value > DUST else 0.0)

    def _beside_gaussian(self, epsilon: float, side: float) -> float:
        """Each outcome leaves a Gaussian its own threshold."""
        values, errors = gdp.excess(self.mu, epsilon - self.law.atoms)
        return float(np.sum(np.exp(self.law.log_masses) * np.maximum(values + side * errors, 0.0)))

    def delta_bounds(self, epsilon: float) -> Bounds:
        """Both bounds on delta."""
        return Bounds.between(self.lower(epsilon), self.upper(epsilon))

    def epsilon_bounds(self, delta: float, width: float = WIDTH) -> Bounds:
        """Both bounds on epsilon, no narrower than ``width`` where less is enough."""
        near = 1e-13 if width <= WIDTH else 0.1 * width
        high = max(self.highest, 0.0)
        high += 2.0 * self.shift(high)
        if self.mu > 0.0:
            high += self.mu * self.mu / 2.0 + self.mu * (math.sqrt(2.0 * max(0.0, -math.log(delta))) + 1.0)
        upper = bisect_decreasing(self.upper, delta, 0.0, high, relative=near)[1]
        lower = bisect_decreasing(self.lower, delta, 0.0, high, relative=near)[0]
        return Bounds.between(Below(lower), Above(upper))


def enumerated(terms: Sequence[tuple[Law, int]], mu: float = 0.0) -> Direct | None:
    """The law of the whole composition, if it is finite and has at most LIMIT outcomes, beside one Gaussian."""
    size, limit = 1, LIMIT if mu == 0.0 else LIMIT_BESIDE_GAUSSIAN
    for law, count in terms:
        if law.segments or not law.atoms.size:
            return None
        few = law.atoms.size < 40 or count == 1
        size *= math.comb(count + law.atoms.size - 1, count) if few else LIMIT + 1
        if size > limit:
            return None
    losses, logs, finite = np.zeros(1), np.zeros(1), 0.0
    error, location = 1e-13, 0.0
    for law, count in terms:
        more, weights = repeated(law.atoms, law.log_masses, count)
        losses = (losses[:, None] + more[None, :]).ravel()
        logs = (logs[:, None] + weights[None, :]).ravel()
        finite += count * math.log1p(-law.infinity) if law.infinity < 1.0 else -math.inf
        # A log-mass is a sum of log-factorials and of counts times logs; its absolute error is relative for the mass.
        error += 8.0 * UNIT * (3.0 * math.lgamma(count + 2.0) + count * float(np.max(np.abs(law.log_masses))) + 8.0)
        location += law.value_ulps * UNIT * count * float(np.max(np.abs(law.atoms)))
    order = np.argsort(losses, kind="stable")
    location += VALUE_ULPS * UNIT * mu * mu
    return Direct(Law(losses[order], logs[order], infinity=-math.expm1(finite)), error, location, None, mu)


def repeated(atoms: Array, masses: Array, count: int) -> tuple[Array, Array]:
    """Sums and log-masses of ``count`` independent copies, by the numbers of times each atom occurs."""
    if count == 1:
        return atoms, masses
    if atoms.size == 1:
        return count * atoms, count * masses
    remaining = np.array([count])
    losses, logs = np.zeros(1), np.array([math.lgamma(count + 1.0)])
    log_factorial = np.array([math.lgamma(k + 1.0) for k in range(count + 1)])
    for index in range(atoms.size):
        if index == atoms.size - 1:
            parent, taken = np.arange(remaining.size), remaining
        else:
            # Each outcome so far takes the next atom 0, 1, ... times, as often as draws are left.
            parent = np.repeat(np.arange(remaining.size), remaining + 1)
            taken = np.arange(parent.size) - (np.cumsum(remaining + 1) - remaining - 1)[parent]
        losses = losses[parent] + taken * atoms[index]
        logs = logs[parent] + taken * masses[index] - log_factorial[taken]
        remaining = remaining[parent] - taken
    return losses, logs


# The contour engine's driver: which tilt, read the nodes, blur where they do not decay, say when to ask the grid.

TINIEST = -690.0
"""log of the smallest delta that is read by contour; below, doubles end and the grid says so at once."""

TOLERANCES = (1e-9, 1e-7)
"""Relative errors of delta that nodes are chosen for, best first; epsilon is usually better still."""

GOOD_ENOUGH = 0.999
"""Lower over upper bound of delta below which another route is tried."""

AGREED = 1e-6
"""Relative difference of a level from two computations that is left to their errors."""

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
    def of(pairs: Sequence[tuple[DominatingPair, int]], mu: float, mu_below: float) -> SaddleSum:
        above = [(pair.upper, count) for pair, count in pairs]
        below = [(pair.lower, count) for pair, count in pairs]
        cumulants = Cumulants.of(above, mu)
        upper = ContourSum.of(above, mu, cumulants)
        if mu_below == mu and all(pair.upper is pair.lower for pair, _ in pairs):
            return SaddleSum(upper, upper, cumulants)
        return SaddleSum(upper, ContourSum.of(below, mu_below, Cumulants.of(below, mu_below)), cumulants)

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
        """Return the bounds if no blur is needed, else None."""
        nodes = self._nodes(_rung(self.cumulants.tilt_for_threshold(epsilon)), 0.0, True)
        return None if nodes is None else self._delta(nodes, epsilon)

    def blurred_delta(self, epsilon: float, width: float) -> Bounds | None:
        """Return the bounds by finer and finer blurs, if a blur is needed."""
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
        """Return the bounds if no blur is needed, else None."""
        nodes = self._nodes(self._tilt(delta), 0.0, True)
        return None if nodes is None else self._epsilon(nodes, delta)

    def blurred_epsilon(self, delta: float, width: float) -> Bounds | None:
        """Return the bounds by finer and finer blurs, if a blur is needed."""
        theta = self._tilt(delta)
        if self._nodes(theta, 0.0, True) is not None:
            return None
        size = max(self.centre(theta), 0.05 / theta)
        best: Bounds | None = None
        for nodes in self._blurred(theta, width * size / (theta + 1.0)):
            bounds = self._epsilon(nodes, delta)
            if bounds is None:
                break
            best = bounds if best is None else best.meet(bounds)
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
        bounds = self.delta_bounds(0.0, 1e-3)
        return bounds is not None and bounds.upper <= delta

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
        return Bounds.between(Below(0.0) if below is None else below.lower(epsilon), top)

    def _epsilon(self, nodes: Nodes | BlurredNodes, delta: float) -> Bounds | None:
        top, below = self._upper_crossing(nodes, delta), self._below(nodes)
        if top is None:
            return None
        return Bounds.between(Below(0.0) if below is None else _lower_crossing(below, delta, top), top)

    def _below(self, nodes: Nodes | BlurredNodes) -> Nodes | BlurredNodes | None:
        return nodes if self.exact else self._nodes(nodes.theta, nodes.blur, False)

    def _upper_crossing(self, nodes: Nodes | BlurredNodes, delta: float) -> Above | None:
        # Markov's bound on the profile at this tilt is above the truth, so it brackets the root.
        high = max(0.0, (nodes.log_scale - math.log(delta)) / nodes.theta) + 1.0
        top = bisect_decreasing(nodes.upper, delta, 0.0, high, relative=_narrow(nodes))[1]
        return Above(top) if math.isfinite(top) else None

    def _nodes(self, theta: float, blur: float, above: bool) -> Nodes | BlurredNodes | None:
        key = (theta, blur, above)
        if key in self._kept:
            return self._kept[key]
        fresh = self._fresh_nodes(theta, blur, above)
        return REMEMBERED.put(self._kept, key, fresh, 0 if fresh is None else 4 * fresh.count)

    def _fresh_nodes(self, theta: float, blur: float, above: bool) -> Nodes | BlurredNodes | None:
        level = self.cumulants(theta)
        threshold = self.centre(theta)
        # The tilted density at its mean times the peak weight: the usual size of the answer.
        target = min(0.0, level - theta * threshold + log_peak_weight(theta) - 3.0)
        if target < TINIEST:
            return None
        engine = self.upper if above else self.lower
        if abs(engine.cumulants(theta) - level) > 10.0 * AGREED * (1.0 + abs(level)):
            return None  # of other laws from below no nodes pass the check after which they are used
        expected = level + 0.5 * blur * blur * theta * (theta + 1.0)
        for tolerance in TOLERANCES:
            nodes: Nodes | BlurredNodes | None
            if blur > 0.0:
                nodes = BlurredNodes.of(engine, blur, theta, target, tolerance)
            else:
                nodes = engine.nodes(theta, target, tolerance)
            # Nodes integrate whole lines; the cumulants, and with them the bound on aliases, stop at the law's reach.
            # Where the two disagree the alias bound is not one: leave it to the grid.
            if nodes is not None and abs(nodes.log_scale - expected) <= AGREED * (1.0 + abs(level)):
                return nodes
        return None


def _rung(theta: float) -> float:
    """The nearest tilt on a ladder of 6 %: any tilt is valid, and neighbours share their transforms."""
    return math.exp(round(16.0 * math.log(theta)) / 16.0)


def _lower_crossing(nodes: Nodes | BlurredNodes, delta: float, top: Above) -> Below:
    """A certified epsilon with delta above the target: the lower bound is good near the saddle only."""
    for gap in (1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.5):
        start = top * (1.0 - gap)
        if nodes.lower(start) > delta:
            # the rest of the enclosure is known by now: a hundredth of it more is not worth the work
            return Below(bisect_decreasing(nodes.lower, delta, start, top, relative=max(_narrow(nodes), 0.01 * gap))[0])
    return Below(0.0)


def _narrow(nodes: Nodes | BlurredNodes) -> float:
    """How closely a crossing is looked for: far closer than the enclosure is wide, which a blur makes wider."""
    return 1e-13 if nodes.blur == 0.0 else 1e-10


# The grid engine's driver: which tilt, which step, how large a window, until the tolerance is met.

MAX_SIZE = 2**18
"""Largest grid that refinement reaches by itself."""

WIDEST_STEP = 100.0
"""Steps of the loss beyond this say nothing (e^step overflows): the trivial bounds stand."""

LAWS_SIZE = 2**20  # grid points of all laws together: bounds memory only, because ``sum_of_laws`` folds longer laws

LATTICE_SIZE = 2**20
"""Largest grid where all atoms lie on it, so that nothing is discretised."""

SMALL_LATTICE = 2**15
"""Points of a lattice that are always listed rather than integrated."""

FAR_FROM_ZERO = 8.0
"""A law this many of its own widths above zero is not put on a grid that reaches down to zero."""

TOLERANCE, NEARBY = 1e-6, 1e-4
"""Relative width of epsilon that the grid engine refines to by default, and where whole curves are read."""


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
            bounds = Bounds.between(lower.excess_lower(epsilon), upper.excess_upper(epsilon))
            gained = best.upper - bounds.upper
            best = best.meet(bounds)
            if best.upper - best.lower <= 30 * tolerance * best.upper or self._settled(gained, best, 30 * tolerance):
                break
        return best

    def delta_nearby(self, epsilon: float) -> Bounds:
        """Certified bounds on delta from a grid that neighbouring epsilons share: for reading whole curves.

        Tilts lie on a ladder of 28 %, and each rung is composed once, at a tolerance of NEARBY.
        """
        sums = self._shared(epsilon)
        if sums is None:
            return Bounds(0.0, 1.0)
        return Bounds.between(sums[1].excess_lower(epsilon), sums[0].excess_upper(epsilon))

    def sharp_nearby(self, epsilon: float, width: float) -> bool:
        """Is the upper end of ``delta_nearby`` about within that relative width of the law's own delta?

        Splitting a loss between two points adds a sixth of the squared step to its variance, at most a fourth, which
        moves the logarithm of delta by theta (theta + 1)/2 times that; the other errors are seen by leaving them out.
        """
        sums = self._shared(epsilon)
        if sums is None:
            return False
        theta, step = sums[0].theta, 0.0 if sums[0].step == self._lattice() else sums[0].step
        split = theta * (theta + 1.0) * step * step * sum(count for _, count in self.terms) / 12.0
        return split <= width and sums[0].excess_upper(epsilon) <= (1.0 + width) * sums[0].excess_about(epsilon)

    def _shared(self, epsilon: float) -> tuple[TiltedSum, TiltedSum] | None:
        theta = math.exp(round(4.0 * math.log(self.cumulants.tilt_for_threshold(epsilon))) / 4.0)
        if theta in self._kept:
            return self._kept[theta]
        mean = max(0.0, self.cumulants.moments(theta)[0])
        sums = next(self._refinements(theta, mean, NEARBY), None)
        return REMEMBERED.put(self._kept, theta, sums, 0 if sums is None else 16 * sums[0].values.size)

    def epsilon_bounds(self, delta: float, tolerance: float = TOLERANCE) -> Bounds:
        """Certified bounds on epsilon at one delta in (infinity mass, 1)."""
        log_delta = math.log(delta)
        theta = self.cumulants.tilt_for_mass(log_delta)
        guess = max(0.0, (self.cumulants(theta) - log_delta) / theta)
        best = Bounds(0.0, math.inf)
        for upper, lower in self._refinements(theta, guess, tolerance):
            high = Above(_crossing(upper.excess_upper, delta, upper, side=1))
            low = Below(_crossing(lower.excess_lower, delta, lower, side=-1))
            gained = best.upper - high
            best = best.meet(Bounds.between(low, high))
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
        smallest = max(max(2.0 * reach, *(high - low for low, high in ranges)) / MAX_SIZE, widest / LAWS_SIZE)
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
        first = int(np.searchsorted(np.cumsum(share), 1e-16 / count))
        rising = np.logaddexp.accumulate(logs[::-1])
        outside = int(np.searchsorted(rising, log_target - math.log(count) - 25.0))
        # The outermost nodes stand for mass up to the ends of the law, beyond themselves.
        low = values[first] if first > 0 else pair.upper.lowest
        high = values[values.size - outside] if outside > 1 else pair.upper.highest
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
        found = function(middle)
        value = math.log(max(found, 1e-320) / delta)
        if found > delta:
            low, f_low = middle, max(value, 1e-300)
            f_high *= 0.5
        else:
            high, f_high = middle, min(value, -1e-300)
            f_low *= 0.5
        f_low, f_high = max(f_low, 1e-300), min(f_high, -1e-300)
    return float(high if side > 0 else low)
