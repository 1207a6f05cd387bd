"""Turn a composition into numbers in one direction: ask the routes in order, keep the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from tallystick.accounting import gdp
from tallystick.accounting.adjacency import Direction
from tallystick.accounting.beside import Beside
from tallystick.accounting.bounds import WIDTH, Bounds
from tallystick.accounting.compose import Direct, GridSum, SaddleSum, enumerated
from tallystick.accounting.leaf import Leaf, ends_of, largest_together, merged
from tallystick.accounting.leaves.gaussian import gaussian_between
from tallystick.accounting.leaves.renyi import log_delta, renyi_pair
from tallystick.accounting.pair import DominatingPair
from tallystick.accounting.parts import MANY_TERMS, WIDE, Terms, best_of_parts
from tallystick.accounting.routes import Contour, Gaussian, Patience, RenyiCurve, Route, routes_of
from tallystick.numerics.law import DUST, EDGE, UNIT, Array, Law, covers, log_sum, lost_above, lost_mass
from tallystick.numerics.saddle import log_peak_weight
from tallystick.rounding import double_above

# What the Renyi route needs of single leaves: their pairs, their divergences, and curves summed to one pair.

MASS_ULPS = 256.0
"""Rounding and quadrature error of a law's total, in units of UNIT: what a log-mgf may be too small by."""


@lru_cache(maxsize=1024)
def pair_of(leaf: Leaf, direction: Direction) -> DominatingPair:
    """A leaf's pair, computed once; engines cache by the laws in it."""
    return leaf.pair(direction)


@lru_cache(maxsize=4096)
def leaf_renyi(leaf: Leaf, direction: Direction, order: float) -> float:
    """Upper bound for one leaf. Divergence grows with the order, so orders just above 1 take the value at 1 + 1e-6."""
    probe = np.array([max(order - 1.0, 1e-6)])
    theta = float(probe[0])
    bound = leaf.log_mgf_bound(probe)
    curve = math.inf if bound is None else float(bound[0] / theta)
    if leaf.only_renyi:
        return curve if getattr(leaf, "delta", 0.0) == 0.0 else math.inf
    pair = pair_of(leaf, direction)
    law = pair.upper
    own = _law_renyi(law, theta, order == 1.0) if law.infinity <= DUST and theta <= law.orders else math.inf
    largest = leaf.ceiling(direction) if law.infinity > 0.0 else min(law.highest_above, leaf.ceiling(direction))
    closed = math.isinf(own) or pair.lower is not law  # nothing beats the integral of a law that is exact
    return min(own, curve, largest, leaf.renyi_above(direction, theta + 1.0) if closed else math.inf)


def _law_renyi(law: Law, theta: float, mean: bool) -> float:
    """The divergence by integrating the law: its log-mgf over theta, or its mean."""
    if theta <= 0.1 and theta * max(abs(law.lowest), abs(law.highest)) < 30.0:
        # Losses of both signs cancel. Against total mass one only their gains are summed, so the rounding of the
        # masses counts against the mean *size* of a gain and not against one.
        values, logs = law.nodes()
        weights = np.exp(logs)
        gains = values if mean else np.expm1(theta * values)
        # The exponential of a log-density errs by the rounding of that, which is of the size of the losses.
        error = (MASS_ULPS + abs(law.highest) + abs(law.lowest)) * UNIT
        total = float(np.dot(weights, gains)) + error * float(np.dot(weights, np.abs(gains)))
        return max(0.0, total if mean else math.log1p(total) / theta)
    return (float(law.log_mgf(np.array([theta]))[0]) + MASS_ULPS * UNIT) / theta


@lru_cache(maxsize=64)
def curve_pair(curves: Terms) -> DominatingPair:
    return renyi_pair(_CurveSum(curves), lost_above([(getattr(leaf, "delta", 0.0), count) for leaf, count in curves]))


@dataclass(frozen=True)
class _CurveSum(Leaf):
    """The sum of Renyi-only leaves, as one curve."""

    curves: Terms

    def pair(self, direction: Direction) -> DominatingPair:
        return curve_pair(self.curves)

    def log_mgf_bound(self, theta: Array) -> Array:
        total = np.zeros(theta.shape)
        for leaf, count in self.curves:
            bound = leaf.log_mgf_bound(theta)
            assert bound is not None
            total = total + count * bound
        return total


THETAS: Array = np.exp(np.linspace(math.log(1e-3), math.log(1e6), 400))
"""Orders minus one that the Renyi route optimises over; any subset gives a valid bound."""


FEW_THETAS = (0.02, 0.1, 0.5, 2.0, 10.0, 50.0, 250.0, 1000.0)
"""Orders minus one whose divergences are asked for where no route has an upper bound."""

ENDS = 1e-290
"""Below this delta doubles have few digits left, and none are looked for."""

AT_THE_END = "at the end of the range nothing is computed: the mass at infinity and the largest loss say it"
INSIDE = "one release made of others: read from what is inside of it"
UNSAMPLED = "the same releases without sampling"

CLOSE = 1e-7
"""Relative width that is enough where the two laws of a pair differ by the rounding of a parameter."""

NEARBY_WIDTH = 1e-4
"""Relative width of delta where whole curves are read."""

NEXT = 1e-12
"""Relative distance from the largest loss within which no engine is asked for a better epsilon."""


@dataclass(frozen=True)
class OneDirection:
    """A composition read in one direction."""

    terms: Terms
    direction: Direction

    @staticmethod
    @lru_cache(maxsize=256)
    def of(terms: Terms, direction: Direction) -> OneDirection:
        return OneDirection(terms, direction)

    @cached_property
    def mu(self) -> float:
        """mu of all Gaussian leaves together: their squares add, and need not be doubles."""
        return math.hypot(*(math.sqrt(c) * m for m, c in ((leaf.gaussian_mu, c) for leaf, c in self.terms) if m))

    @cached_property
    def mu_below(self) -> float:
        """mu of all Gaussian leaves together, rounded down: no larger than the truth."""
        parts = [(leaf.gaussian_below, count) for leaf, count in self.terms if leaf.gaussian_mu is not None]
        return math.hypot(*(math.sqrt(c) * m for m, c in parts if m))

    @cached_property
    def mu_above(self) -> float:
        """mu of a Gaussian that dominates the whole composition, infinite where none is known."""
        bounds = [(leaf.gaussian_above, count) for leaf, count in self.terms]
        known = [count * mu * mu for mu, count in bounds if mu is not None]
        return math.sqrt(math.fsum(known)) * (1.0 + 1e-15) if len(known) == len(bounds) else math.inf

    @cached_property
    def others(self) -> Terms:
        """The leaves that are neither Gaussian nor known by a Renyi curve alone."""
        return tuple(t for t in self.terms if t[0].gaussian_mu is None and not t[0].only_renyi)

    @cached_property
    def curves(self) -> Terms:
        """The leaves of which only a Renyi curve is known."""
        return tuple(t for t in self.terms if t[0].only_renyi)

    @cached_property
    def pairs(self) -> tuple[tuple[DominatingPair, int], ...]:
        """Everything as pairs: Gaussians merged into one, Renyi curves summed before they become one."""
        pairs = [(pair_of(leaf, self.direction), count) for leaf, count in self.others]
        if self.mu > 0.0:
            pairs.append((gaussian_between(self.mu_below, self.mu), 1))
        if self.curves:
            pairs.append((curve_pair(self.curves), 1))
        return tuple(pairs)

    @cached_property
    def infinity(self) -> float:
        """Mass of outcomes that give everything away (zero where it is only numerical dust)."""
        return max(member.infinity for member in self.members) if self.members else lost_mass(self.lost)

    @cached_property
    def lost(self) -> tuple[tuple[float, int], ...]:
        """Each leaf's mass at infinity with its count, without numerical dust."""
        if self.members:
            return ((self.infinity, 1),) if self.infinity > DUST else ()
        known = [(pair_of(leaf, self.direction).upper.infinity, count) for leaf, count in self.others]
        curves = [(getattr(leaf, "delta", 0.0), count) for leaf, count in self.curves]
        return tuple((mass, count) for mass, count in known + curves if mass > DUST)

    @cached_property
    def highest(self) -> float:
        """The largest finite loss, rounded up; infinite for unbounded ones."""
        if self.mu > 0.0 or self.curves:
            return math.inf
        if self.members:
            return max(member.highest for member in self.members)
        total = Fraction(0)
        for leaf, count in self.others:
            law = pair_of(leaf, self.direction).upper
            # A leaf that leaves out numerical dust at infinity is unbounded.
            own = math.inf if 0.0 < law.infinity < DUST else law.highest_above
            own = min(own, leaf.ceiling(self.direction))
            if math.isinf(own):
                return math.inf
            total += count * Fraction(own)
        # Beside mass at infinity every finite loss may be negative; epsilon never is.
        return max(0.0, double_above(total))

    @cached_property
    def top(self) -> tuple[float, float]:
        """The largest loss, rounded down, and log of a mass that it certainly has: minus infinity if none is known."""
        if not (self.exact and self.bounded and self.others) or self.mu > 0.0:
            return 0.0, -math.inf
        value, mass, rounding = 0.0, 0.0, 0.0
        for pair, count in self.pairs:
            law = pair.upper
            at = law.atoms == law.highest
            value += count * law.highest
            mass += count * (log_sum(law.log_masses[at]) if at.any() else -math.inf)
            rounding += count * (abs(law.highest) * law.value_ulps + 1.0) * UNIT
        return value - 4.0 * rounding, mass * (1.0 + 4.0 * UNIT) - MASS_ULPS * rounding

    def just_below(self, delta: float) -> float:
        """An epsilon just below the largest loss, where what has that loss is far more likely than delta; else zero.

        delta(epsilon) is at least that mass times 1 - e^{epsilon - largest}.
        """
        value, mass = self.top
        log_share = math.log(delta) - mass
        lower = value + math.log1p(-math.exp(log_share) * (1.0 + 1e-12)) if log_share < -1.0 else 0.0
        return lower if lower >= self.highest * (1.0 - NEXT) else 0.0

    def largest_loss_at(self, delta: float) -> float:
        """The largest loss, where delta is certainly not below the mass at infinity as the leaves know it exactly."""
        ends = ends_of(self.terms, self.direction)
        if not covers(delta, [(end.mass, count) for end, count in ends]):
            return math.inf
        return max(0.0, largest_together(ends))

    @property
    def bounded(self) -> bool:
        """True if no loss is above ``highest``, which is a number."""
        return math.isfinite(self.highest) and self.infinity == 0.0

    @cached_property
    def bracketed(self) -> bool:
        """True if some leaf's Renyi curve may beat its pair; an exact pair beats its own curve always."""
        return any(leaf.log_mgf_bound(THETAS[:1]) is not None for leaf, _ in self.terms)

    @cached_property
    def saddle_pairs(self) -> tuple[tuple[DominatingPair, int], ...]:
        """The pairs without the merged Gaussian, which the contour has in closed form."""
        gaussian = len(self.others) + (1 if self.mu > 0.0 else 0)
        return (*self.pairs[: len(self.others)], *self.pairs[gaussian:])

    @cached_property
    def saddle(self) -> SaddleSum:
        return SaddleSum.of(self.saddle_pairs, self.mu, self.mu_below)

    @cached_property
    def grid(self) -> GridSum:
        return GridSum.of(self.pairs)

    @property
    def gaussian(self) -> bool:
        """True if the whole is one Gaussian pair."""
        return bool(self.terms) and not self.others and not self.curves

    @property
    def composed(self) -> bool:
        """True if an engine must add losses: no closed form, and more than a Renyi curve is known."""
        return self.alone is None and bool(self.others or (self.curves and self.mu)) and self.direct is None

    @cached_property
    def single(self) -> Direct | None:
        """The law of a single release, which is the whole composition."""
        if not (self.others or (self.curves and self.mu)) or len(self.pairs) != 1 or self.pairs[0][1] != 1:
            return None
        pair = self.pairs[0][0]
        exact = pair.upper is pair.lower or self.terms[0][0].exact_alone
        return Direct.alone(pair.upper, None if exact else pair.lower)

    @cached_property
    def exact(self) -> bool:
        """True if every pair is known exactly, so that what is certain from above is certain from below."""
        return not self.curves and all(pair.upper is pair.lower for pair, _ in self.pairs)

    @cached_property
    def close(self) -> bool:
        """True if the laws of no pair differ by more than the rounding of a parameter: engines sharpen both ends."""
        return not self.curves and all(pair.close or pair.upper is pair.lower for pair, _ in self.pairs)

    @cached_property
    def silent_below(self) -> bool:
        """True if no lower pair ever loses anything: every bound from below is zero."""
        return all(pair.lower.infinity == 0.0 and pair.lower.highest <= 0.0 for pair, _ in self.pairs)

    @cached_property
    def listed(self) -> Direct | None:
        """The whole composition outcome by outcome, where there are few enough."""
        return enumerated([(p.upper, n) for p, n in self.saddle_pairs], self.mu) if self.exact else None

    @cached_property
    def beside(self) -> Beside | None:
        """One release beside the few outcomes of all others; None too where a Renyi curve may say more."""
        if not self.composed or self.bracketed:
            return None
        return Beside.of(self.saddle_pairs, self.mu, self.mu_below)

    @cached_property
    def listed_below(self) -> Direct | None:
        """The atoms of the lower pairs outcome by outcome: a bound from below where no engine has a better one."""
        if self.mu or self.curves:
            return None
        return enumerated([(pair.lower.without_segments(), count) for pair, count in self.pairs])

    @property
    def direct(self) -> Direct | None:
        """A single law that is the whole composition, where there is one."""
        return self.single or self.listed

    # ---- the loop over routes ----

    @cached_property
    def routes(self) -> tuple[Route, ...]:
        """The ways to a number that apply here, cheapest first."""
        return routes_of(self)

    @cached_property
    def last_routes(self) -> list[str]:
        """What the latest read-out was made of, in words."""
        return []

    def explain(self) -> str:
        """The routes of the latest read-out, or of epsilon at delta 1e-6 where nothing was read yet."""
        if not self.last_routes:
            self.epsilon_bounds(max(1e-6, min(2.0 * self.infinity, 0.5)))
        return "; then ".join(self.last_routes)

    def delta_bounds(
        self,
        epsilon: float,
        *,
        nearby: bool = False,
        patience: Patience | None = None,
        width: float | None = None,
        above: bool = False,
    ) -> Bounds:
        """delta at one epsilon >= 0; ``nearby`` shares grids between epsilons, for reading whole curves.

        ``width`` is how narrow the answer of a nearby reading should be, where less is enough; ``patience`` is for one
        curve; ``above``: only the upper end is asked for.
        """
        inside = self.alone.delta_inside(self.direction, epsilon) if self.alone and not nearby else None
        if inside is not None:
            return self._end(inside, INSIDE)
        if self.infinity >= 1.0 or (self.composed and self._ends_before(epsilon)):
            # Nothing is finite, so that no engine has a law to read, or nothing finite is beyond epsilon.
            mass = self.infinity
            return self._end(Bounds(mass * (1.0 - 1e-13) if self.exact else 0.0, min(1.0, mass * (1.0 + 1e-13))))
        width = (width or NEARBY_WIDTH) if nearby else WIDTH
        rough = above or (nearby and self.silent_below)
        last = (lambda route: route.sharp_above(epsilon, width)) if rough else None
        met = self._met(Bounds(0.0, 1.0), lambda route: route.delta(epsilon, width), 30.0 * width, last, patience)
        if above or nearby:
            return met
        return self._with_parts(met, lambda part: part.grid.delta_bounds(epsilon).lower)

    def epsilon_bounds(self, delta: float, width: float = WIDTH) -> Bounds:
        """epsilon at one delta in [0, 1], no narrower than ``width`` where less is enough."""
        bounds = self._epsilon_bounds(delta, width)
        if math.isinf(bounds.lower) or not math.isinf(bounds.upper) or delta == 0.0:
            return bounds
        # A curve that is known down to some delta gives the rest away; what follows here has no such end.
        plain = math.inf if self.unsampled is None else self.unsampled.epsilon_bounds(delta, width).upper
        divergent = self._epsilon_of_divergences(delta) if math.isinf(plain) else math.inf
        upper = min(plain, divergent)
        if math.isfinite(upper):
            self.last_routes[:] = [UNSAMPLED if plain <= divergent else RenyiCurve.words]
        return bounds.meet(Bounds(0.0, upper))

    def _epsilon_of_divergences(self, delta: float) -> float:
        """epsilon from divergences of a few orders, each a bound (Canonne, Kamath, Steinke 2020, Proposition 12)."""
        known = [(theta, theta * self.renyi(1.0 + theta)) for theta in FEW_THETAS]
        each = [
            (float(log_delta(np.array(level), np.array(theta))) - math.log(delta)) / theta
            for theta, level in known
            if math.isfinite(level)
        ]
        return max(0.0, min(each, default=math.inf)) * (1.0 + 1e-12)

    def _epsilon_bounds(self, delta: float, width: float) -> Bounds:
        if delta >= 1.0:
            return self._end(Bounds(0.0, 0.0))
        inside = (
            self.alone.epsilon_inside(self.direction, delta, width)
            if self.alone and (delta > 0.0 or self.members)
            else None
        )
        if inside is not None and (math.isfinite(inside.upper) or self.members):
            return self._end(inside, INSIDE)
        if self.terms and (delta == 0.0 or delta <= self.infinity * (1.0 + EDGE)):
            return self._end(self._edge(delta))
        met = self._met(Bounds(0.0, math.inf), lambda route: route.epsilon(delta, width), 3.0 * width)
        return self._with_parts(met, lambda part: part.grid.epsilon_bounds(delta).lower)

    def _with_parts(self, whole: Bounds, lower: Callable[[OneDirection], float]) -> Bounds:
        """Raise the lower end of ``whole`` to that of a part, where many terms are read poorly."""
        if len(self.terms) < MANY_TERMS or whole.relative_width <= WIDE or not self.composed:
            return whole
        found = best_of_parts(self.terms, self.direction, lambda terms: lower(OneDirection.of(terms, self.direction)))
        return whole.meet(Bounds(max(found, whole.lower), math.inf))

    @cached_property
    def unsampled(self) -> OneDirection | None:
        """Return the releases without sampling: nowhere less revealing, and often in closed form."""
        terms = merged((leaf.unamplified, count) for leaf, count in self.terms)
        return None if terms == self.terms else OneDirection.of(terms, self.direction)

    def _met(
        self,
        best: Bounds,
        ask: Callable[[Route], Bounds | None],
        width: float,
        last: Callable[[Route], bool] | None = None,
        patience: Patience | None = None,
    ) -> Bounds:
        """What all routes allow that were asked until the answer was narrow enough; contradictions raise.

        ``last`` says of a route that answered whether none after it would help.
        """
        used = []
        for route in self.routes:
            if not route.wanted(best) or (patience is not None and not patience.asks(route)):
                continue
            answer = ask(route)
            met = best if answer is None else best.meet(answer)
            if patience is not None:
                patience.saw(route, met != best)
            if answer is None:
                continue
            if route.decisive:
                used = [route.words]
            elif met != best:
                used.append(route.words)
            best = met
            if route.decisive or self.enough(best, width) or (last is not None and last(route)):
                break
        self.last_routes[:] = used
        return best

    def enough(self, bounds: Bounds, width: float) -> bool:
        """No refinement closes the gap between a bracketed pair's two laws, so there any lower bound will do."""
        wide = width if self.exact else max(width, CLOSE)
        narrow = bounds.relative_width <= wide if self.close else bounds.lower > 0.0
        return narrow or bounds.upper < ENDS

    def _end(self, bounds: Bounds, words: str = AT_THE_END) -> Bounds:
        self.last_routes[:] = [words]
        return bounds

    @property
    def alone(self) -> Leaf | None:
        """The only leaf, where there is one release."""
        return self.terms[0][0] if len(self.terms) == 1 and self.terms[0][1] == 1 else None

    @cached_property
    def members(self) -> tuple[OneDirection, ...]:
        """The compositions whose worst is the only release: what they say of it is better than the polygon above."""
        return tuple(OneDirection.of(terms, self.direction) for terms in getattr(self.alone, "members", ()))

    def _edge(self, delta: float) -> Bounds:
        """epsilon at delta 0, or at one that is not above the mass at infinity as far as doubles can tell."""
        exact = self.largest_loss_at(delta) if delta > 0.0 else math.inf
        if delta < self.infinity * (1.0 - EDGE) and math.isinf(exact):
            # Masses as small as dust are raised above it, which says nothing from below.
            known = self.exact and (delta == 0.0 or any(mass > 2.0 * DUST for mass, _ in self.lost))
            return Bounds(math.inf if known else 0.0, math.inf)
        if delta == 0.0:
            # Parameters such as flip_prob= and the losses of mixtures are rounded; from below that is taken off.
            ulps = max((pair.upper.value_ulps for pair, _ in self.pairs), default=0.0)
            return Bounds(self.highest * (1.0 - 4.0 * ulps * UNIT) if self.exact else 0.0, self.highest)
        # At the largest loss delta is the mass at infinity; closer than doubles can tell only exact arithmetic helps.
        top = min(exact, self.highest if covers(delta, self.lost) else math.inf)
        near = 0.0 if self.direct is None else self.direct.epsilon_bounds(delta).lower
        return Bounds(min(near, top), top)

    @cached_property
    def total_variation(self) -> float:
        """Total variation distances add at most, and delta is never above their sum."""
        each = (count * float(pair.upper.excess(np.zeros(1))[0]) for pair, count in self.pairs)
        return min(1.0, math.fsum(each) * (1.0 + 1e-12))

    def below(self, delta: float, epsilon: float) -> bool:
        """True if epsilon at this delta surely does not exceed the one given: cheap, and False where it cannot tell."""
        if self.infinity * (1.0 + EDGE) >= delta or self._ends_before(epsilon):
            return self.infinity * (1.0 + EDGE) < delta
        if self.beside is not None:
            return self.beside.above.upper(epsilon) <= delta
        return self.composed and epsilon > 0.0 and self.markov(epsilon) <= delta

    def _ends_before(self, epsilon: float) -> bool:
        """True if no finite loss is beyond epsilon (the largest is rounded up)."""
        return self.highest <= epsilon

    def markov(self, epsilon: float) -> float:
        """An upper bound on delta by Markov's inequality under one tilt.

        The coarse cumulants choose the tilt; the moment generating functions at it are integrated anew.
        """
        theta = self.saddle.cumulants.tilt_for_threshold(epsilon)
        order = np.array([theta])
        level = 0.5 * self.mu**2 * theta * (theta + 1.0)
        for pair, count in self.saddle_pairs:
            level += count * (float(pair.upper.log_mgf(order)[0]) + MASS_ULPS * UNIT)
        exponent = level - theta * epsilon + log_peak_weight(theta) + 1e-11 * (abs(level) + theta * epsilon + 1.0)
        return min(1.0, self.infinity * (1.0 + 1e-15) + math.exp(min(exponent, 0.0)) + 1e-320)

    def epsilon_upper(self, delta: float) -> float:
        """The upper end of ``epsilon_bounds`` alone, which costs half where the contour answers."""
        if self.gaussian:
            self.last_routes[:] = [Gaussian.words]
            return gdp.epsilon_upper(self.mu, delta)
        plain = self.composed and not self.bracketed and self.beside is None and not self.grid.small_lattice
        if plain and self.infinity * (1.0 + EDGE) < delta < 1.0 and not self.just_below(delta):
            epsilon = self.saddle.epsilon_upper(delta)
            if epsilon is not None:
                self.last_routes[:] = [Contour.words]
                return min(epsilon, self.highest)
        return self.epsilon_bounds(delta).upper

    def epsilon_near(self, delta: float) -> float:
        """An upper bound on epsilon that is close enough to choose by."""
        return self.epsilon_bounds(delta, NEARBY_WIDTH).upper

    def epsilon_about(self, delta: float) -> float:
        """Where delta has about that size: no bound, but enough to choose knots by, and no engine is asked.

        The tilted law is about normal at its mean, and delta about e^{S - theta e} / (theta (1 + theta) sqrt(2 pi V));
        where that is too much, Chernoff's bound is the guess.
        """
        if not self.composed:
            return self.epsilon_near(delta)
        cumulants, left = self.saddle.cumulants, math.log(max(delta - self.infinity, 1e-320))
        theta = cumulants.tilt_for_mass(left)
        level, _, variance = cumulants.derivatives(theta)
        normal = -math.log(theta * (1.0 + theta)) - 0.5 * math.log(2.0 * math.pi * max(variance, 1e-300))
        return max(0.0, (level + min(normal, log_peak_weight(theta)) - left) / theta)

    # ---- the Renyi route ----

    def log_mgf(self, thetas: Array) -> Array:
        """Upper bound on log E[e^{theta L}] of the finite part of the whole."""
        total = self.mu**2 * thetas * (1.0 + thetas) / 2.0
        for leaf, count in self.terms:
            if leaf.gaussian_mu is not None:
                continue
            bound = leaf.log_mgf_bound(thetas)
            if bound is None or not leaf.only_renyi:
                law = pair_of(leaf, self.direction).upper
                # Given that it is finite: the mass at infinity is charged apart.
                own = law.log_mgf(thetas)
                bound = own if bound is None else np.minimum(bound, own)
            total = total + count * (bound + MASS_ULPS * UNIT)
        return total * (1.0 + 1e-12) + 1e-13

    @cached_property
    def renyi_curve(self) -> tuple[Array, Array]:
        """The orders minus one where the curve is finite, and the curve there."""
        own = [order - 1.0 for leaf, _ in self.terms for order in leaf.known_orders]
        thetas = np.unique([*THETAS, *own])
        moments = self.log_mgf(thetas)
        known = np.isfinite(moments)
        return thetas[known], moments[known]

    def best_order(self, of: Callable[[Array, Array], Array]) -> float:
        """The least of ``of(thetas, curve)``: on the ladder, then closer and closer around its best.

        Any order is a bound, so the search need not be right; it is dense only where curves are formulas.
        """
        thetas, level = self.renyi_curve
        values = of(thetas, level)
        least = float(np.min(values))
        if any(not leaf.only_renyi and leaf.gaussian_mu is None for leaf, _ in self.terms):
            return least
        for _ in range(4):
            at = int(np.argmin(values))
            thetas = np.linspace(thetas[max(0, at - 1)], thetas[min(at + 1, thetas.size - 1)], 33)
            values = of(thetas, self.log_mgf(thetas))
            least = min(least, float(np.min(values)))
        return least

    def renyi(self, order: float) -> float:
        """Upper bound on the Renyi divergence; order 1 is the mean of the loss."""
        if not self.terms:
            return 0.0
        if order == math.inf:
            return math.inf if self.infinity > 0.0 else self.highest
        total = self.mu**2 * order / 2.0
        for leaf, count in self.terms:
            if leaf.gaussian_mu is None:
                total += count * leaf_renyi(leaf, self.direction, order)
        # The square of a small mu is 0 in doubles, and an upper bound is not.
        return total * (1.0 + 1e-12) if total or not self.mu else 1e-320
