"""All read-outs of one loss: the worse of its directions, grouped where the loss is for groups."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from tallystick.accounting import gdp
from tallystick.accounting.adjacency import Adjacency, Direction
from tallystick.accounting.bounds import Bounds
from tallystick.accounting.direction import NEARBY_WIDTH, OneDirection
from tallystick.accounting.leaf import merged
from tallystick.accounting.loss import PrivacyLoss
from tallystick.accounting.polygon import UpperPower, UpperProfile, grouped_delta, grouped_power
from tallystick.errors import InvalidInput
from tallystick.numerics.law import UNIT
from tallystick.numerics.saddle import bisect_decreasing
from tallystick.rounding import NORMAL, times_up

ROUGHLY = (1e-2, 2e-5)
"""Relative widths at which a comparison is tried before the narrowest."""


@dataclass(frozen=True)
class Reader:
    """All read-outs of one loss: the worse of its directions, grouped where the loss is for groups."""

    loss: PrivacyLoss

    @cached_property
    def sides(self) -> tuple[OneDirection, ...]:
        both = self.loss.adjacency is Adjacency.ADD_REMOVE and not all(leaf.symmetric for leaf, _ in self.loss.terms)
        ways = tuple(Direction) if both else (Direction.REMOVE,)
        return tuple(OneDirection.of(self.loss.terms, way) for way in ways)

    @cached_property
    def closed_group(self) -> OneDirection | None:
        """A grouped Gaussian loss is again one."""
        side = self.sides[0]
        return self._group_of(side.mu) if self.loss.group > 1 and side.gaussian else None

    def _group_of(self, mu: float) -> OneDirection:
        from tallystick.accounting.leaves.gaussian import Gdp

        return OneDirection.of(((Gdp(self.loss.group * mu), 1),), Direction.REMOVE)

    def _closed(self, read: Callable[[OneDirection], Bounds]) -> Bounds:
        """Both ends of a Gaussian group; a mu that was rounded up says nothing from below, one that was not does."""
        assert self.closed_group is not None
        found, below = read(self.closed_group), self.sides[0].mu_below
        if below == self.sides[0].mu:
            return found
        return Bounds(min(found.upper, read(self._group_of(below)).lower) if below > 0.0 else 0.0, found.upper)

    @cached_property
    def _term_by_term(self) -> OneDirection | None:
        """The composition of what each release loses to a group: a bound beside the chain of the whole composition.

        Only where every term has a closed form. The chain is better for one release, this for several.
        """
        closed = [(leaf.grouped(self.loss.group), count) for leaf, count in self.loss.terms]
        known = [(leaf, count) for leaf, count in closed if leaf is not None]
        return OneDirection.of(merged(known), Direction.REMOVE) if len(known) == len(closed) else None

    def delta_bounds(self, epsilon: float, *, above: bool = False) -> Bounds:
        """Both ends; ``above``: the lower one is not asked for, and may be anything certified."""
        if self.closed_group is not None:
            return self._closed(lambda group: group.delta_bounds(epsilon))
        if self.loss.group > 1:
            # What one unit reveals, a group reveals.
            least = 0.0 if above else self._single_delta(epsilon).lower
            return Bounds(least, 1.0).meet(Bounds(0.0, self._grouped_delta(epsilon)))
        return self._single_delta(epsilon, above=above)

    def in_direction(self, direction: Direction) -> OneDirection:
        """The composition in one direction, where there are two."""
        if self.loss.group > 1 or self.loss.adjacency is not Adjacency.ADD_REMOVE:
            raise InvalidInput(
                "direction", direction.value, "None: groups and replaced units are added and removed at once"
            )
        return OneDirection.of(self.loss.terms, direction)

    def delta_at(self, epsilon: float, direction: Direction | None, *, above: bool = False) -> Bounds:
        """delta at any real epsilon: below zero H_a(P, Q) = 1 - a + a H_{1/a}(Q, P), a = e^epsilon."""
        way = direction.other if direction is not None and epsilon < 0.0 else direction
        whole = self if way is None else self.in_direction(way)
        mirror = whole.delta_bounds(abs(epsilon), above=above)
        if epsilon >= 0.0:
            return mirror
        a, rest = math.exp(epsilon), -math.expm1(epsilon)
        least, most = rest + a * mirror.lower, rest + a * mirror.upper
        return Bounds(max(0.0, least * (1.0 - 8.0 * UNIT)), min(1.0, most * (1.0 + 8.0 * UNIT)))

    def bayes_risk(self, prior: float) -> float:
        """The rarer case times 1 - H_a, a the odds against it: the least expected error, rounded down."""
        rare = min(prior, 1.0 - prior)
        if rare == 0.0:
            return 0.0
        odds = math.log1p(-rare) - math.log(rare)
        delta = self.delta_upper(max(0.0, odds - 1e-15 * (1.0 + odds)))
        return max(0.0, rare * (1.0 - delta) * (1.0 - 1e-15))

    def delta_upper(self, epsilon: float) -> float:
        """The upper end of ``delta_bounds``, without the work of the lower one."""
        return self.delta_bounds(epsilon, above=True).upper

    def delta_at_most(self, epsilon: float, delta: float) -> bool:
        """Is delta at this epsilon certainly no more than that? Asked roughly first: most comparisons are not close."""
        if self.loss.group == 1:
            for width in ROUGHLY:
                rough = self._single_delta(epsilon, nearby=True, width=width)
                if rough.upper <= delta or rough.lower > delta:
                    return rough.upper <= delta
        return self.delta_upper(epsilon) <= delta

    def rough_delta(self, epsilon: float, closely: bool) -> float:
        """About delta, as a comparison reads it at first: a guide for searches, and no bound."""
        bounds = self._single_delta(epsilon, nearby=True, width=ROUGHLY[closely])
        return math.sqrt(bounds.lower) * math.sqrt(bounds.upper)

    def _single_delta(
        self, epsilon: float, *, nearby: bool = False, width: float | None = None, above: bool = False
    ) -> Bounds:
        worst = Bounds(0.0, 0.0)
        for side in self._strongest_first:
            shown = worst.upper if above else worst.lower
            if not (shown > 0.0 and side.below(shown, epsilon)):
                bounds = side.delta_bounds(epsilon, nearby=nearby, width=width, above=above)
                worst = Bounds(max(worst.lower, bounds.lower), max(worst.upper, bounds.upper))
        return worst

    def epsilon_upper(self, delta: float) -> float:
        """The upper end of ``epsilon_bounds``, without the work of the lower one."""
        if self.loss.group > 1:
            return self.epsilon_bounds(delta).upper
        worst = 0.0
        for side in self._strongest_first:
            if not math.isinf(worst) and not side.below(delta, worst):
                worst = max(worst, side.epsilon_upper(delta))
        return worst

    @cached_property
    def _strongest_first(self) -> tuple[OneDirection, ...]:
        """A side whose losses never exceed what the other has shown needs no computation."""
        return tuple(sorted(self.sides, key=lambda side: -side.highest))

    def epsilon_bounds(self, delta: float) -> Bounds:
        if 0.0 < delta < NORMAL:  # doubles this small have lost their digits: epsilon is no less than at a larger delta
            lower = self._epsilon_bounds(NORMAL).lower
            return Bounds(lower, max(lower, self._epsilon_bounds(delta).upper))
        return self._epsilon_bounds(delta)

    def _epsilon_bounds(self, delta: float) -> Bounds:
        if self.closed_group is not None:
            return self._closed(lambda group: group.epsilon_bounds(delta))
        single = Bounds(0.0, 0.0)
        for side in self._strongest_first:
            if not side.below(delta, single.lower):
                bounds = side.epsilon_bounds(delta)
                single = Bounds(max(single.lower, bounds.lower), max(single.upper, bounds.upper))
        if self.loss.group == 1 or (single.upper == 0.0 and not self.loss.terms):
            return single
        return Bounds(single.lower, math.inf).meet(Bounds(0.0, self._grouped_epsilon(delta)))

    @cached_property
    def _highest(self) -> float:
        """The largest loss of a group, rounded up; infinite where there is none or something is given away."""
        if any(side.infinity > 0.0 for side in self.sides):
            return math.inf
        return times_up(self.loss.group, max(side.highest for side in self.sides))

    def _grouped_epsilon(self, delta: float) -> float:
        if delta >= 1.0:
            return 0.0
        if delta == 0.0:
            return self._highest
        top = min(self._highest, self.loss.group * float(self._single.epsilon[-1]))
        each = math.inf if self._term_by_term is None else self._term_by_term.epsilon_bounds(delta).upper
        chained = bisect_decreasing(self._chained_delta, delta, 0.0, top, relative=1e-9)[1]
        return min(self._highest, each, chained)

    def _grouped_delta(self, epsilon: float) -> float:
        each = 1.0 if self._term_by_term is None else self._term_by_term.delta_bounds(epsilon).upper
        return min(each, self._chained_delta(epsilon))

    def _chained_delta(self, epsilon: float) -> float:
        if self._highest <= epsilon:
            return 0.0
        return grouped_delta(self._single, self._power, epsilon, self.loss.group)

    @cached_property
    def _single(self) -> UpperProfile:
        """The profile of the worse direction for a single unit: one bound for both, as a group may mix them."""
        from tallystick.accounting.leaves.nested import worst_half

        found = [part for side in self.sides for part in side.members or (side,)]
        return worst_half(tuple((part.terms, part.direction) for part in found), above=True).above.hull()

    @cached_property
    def _power(self) -> UpperPower:
        return grouped_power(UpperPower.under(self._single, self._single), self.loss.group)

    def power(self, alpha: float) -> float:
        """Upper bound on the best hit rate at a false-alarm rate."""
        if not self.loss.terms:
            return alpha
        side = self.closed_group or self.sides[0]
        if side.gaussian and (self.loss.group == 1 or self.closed_group):
            return gdp.power(side.mu, alpha)
        return self._power.at(alpha)

    def tradeoff(self, alpha: float) -> float:
        """Lower bound on the least type-II error at a false-alarm rate."""
        if not self.loss.terms:
            rest = 1.0 - alpha
            return rest if Fraction(rest) <= 1 - Fraction(alpha) else math.nextafter(rest, -math.inf)
        side = self.closed_group or self.sides[0]
        if side.gaussian and (self.loss.group == 1 or self.closed_group):
            return gdp.tradeoff(side.mu, alpha)
        return max(0.0, math.nextafter(1.0 - self._power.at(alpha), -math.inf))

    def renyi(self, order: float) -> float:
        if self.loss.group > 1 and self.closed_group is None:
            return self._highest if order == math.inf else self._grouped_renyi(order)
        sides = (self.closed_group,) if self.closed_group else self.sides
        return max(side.renyi(order) for side in sides)

    def _grouped_renyi(self, order: float) -> float:
        """Mironov 2017, Proposition 2, for group sizes 2^c: D_a(k) <= 3^c D_{2^c a}(1), a >= 2; else pure k eps."""
        doublings = math.ceil(math.log2(self.loss.group))
        chained = 3.0**doublings * max(side.renyi(max(order, 2.0) * 2.0**doublings) for side in self.sides)
        each = math.inf if self._term_by_term is None else self._term_by_term.renyi(order)
        return min(self._highest, each, chained)

    def posterior(self, prior: float, slack: float) -> float:
        if prior in (0.0, 1.0):
            return prior
        best = self._exceeded_at_most(slack)
        if math.isinf(best):
            return 1.0
        odds = math.log(prior) - math.log1p(-prior) + best
        return min(1.0, (1.0 / (1.0 + math.exp(-odds)) if odds > -700 else math.exp(odds)) * (1.0 + 1e-13))

    def _exceeded_at_most(self, slack: float) -> float:
        """A loss that is exceeded with probability at most ``slack``; the same for every prior."""
        if slack not in self._exceeded:
            # P(L > e + s) (1 - e^{-s}) <= delta(e): any split of the loss bound into e and s is valid.
            splits = (0.01, 0.03, 0.1, 0.3, math.log(2.0), 1.5, 3.0) if slack > 0.0 else (0.0,)
            nearly = {s: self._epsilon_near(-slack * math.expm1(-s)) + s for s in splits}
            best = min(nearly.values())
            hopeful = [s for s in splits if nearly[s] <= best * (1.0 + 3.0 * NEARBY_WIDTH) < math.inf]
            self._exceeded[slack] = min(
                (self.epsilon_upper(-slack * math.expm1(-s)) + s for s in hopeful), default=best
            )
        return self._exceeded[slack]

    def _epsilon_near(self, delta: float) -> float:
        """About ``epsilon_upper``, and no less."""
        if self.loss.group > 1:
            return self.epsilon_upper(delta)
        return max(side.epsilon_near(delta) for side in self.sides)

    @cached_property
    def _exceeded(self) -> dict[float, float]:
        return {}

    def gdp_bound(self) -> float:
        from tallystick.accounting.order import least_mu

        return least_mu(self)

    def explain(self) -> str:
        lines = [f"{side.direction.value}: {side.explain()}" for side in self.sides]
        if self.loss.group > 1:
            lines.append(f"groups of {self.loss.group}: trade-off functions are chained")
        lines += [words for leaf, _ in self.loss.terms if (words := leaf.conditions())]
        return "\n".join(lines)


@lru_cache(maxsize=512)
def reader(loss: PrivacyLoss) -> Reader:
    """One reader per loss, so that repeated read-outs share their work."""
    return Reader(loss)
