"""Poisson sampling with batches cut to a largest size, by whatever rule.

Let K be the number of *other* units sampled: binomial, and the same whether the unit in question is there or not. If
K < largest nothing is cut in either case and the step is plain Poisson sampling. Otherwise the batches still agree
unless the unit itself was sampled, which has probability ``rate``. So, with eta >= P(K >= largest), the step's
profile is at most the Poisson profile plus eta * rate, in both directions (docs/theory/truncated-poisson.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.leaf import End, Leaf, check_inside, shown
from tallystick.accounting.leaves.pure import two_point_law
from tallystick.accounting.leaves.sampled import Sampled, sampled
from tallystick.accounting.loss import PrivacyLoss, as_leaf
from tallystick.accounting.pair import DominatingPair
from tallystick.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Truncated(Leaf):
    """Poisson sampling at ``rate`` among at most ``population`` units, batches cut to ``largest``."""

    kind: ClassVar[str] = "truncated"
    relations: ClassVar[tuple[Adjacency, ...]] = (Adjacency.ADD_REMOVE,)
    base: Leaf
    rate: float
    largest: int
    population: int

    def __post_init__(self) -> None:
        rate = 1.0 if self.rate == 1.0 else check.strict_rate(self.rate)
        whole = check.count("population", self.population, least=2)
        largest = check.count("largest", self.largest, least=1, most=whole - 1)
        check.keep(self, rate=rate, largest=largest, population=whole)
        check_inside(self.base, Adjacency.ADD_REMOVE)

    def pair(self, direction: Direction) -> DominatingPair:
        if self.rate == 1.0:
            # Every batch is cut, and nothing is known about the rule.
            return DominatingPair(two_point_law(0.0, 1.0), two_point_law(0.0))
        whole = self.base.pair(Direction.REMOVE)
        eta = binomial_tail(self.population - 1, self.rate, self.largest)
        # At least this often the unit is sampled and nothing is cut; if all other units are null, that is all.
        kept = self.rate * (1.0 - eta)
        plain = whole.mixed(self.rate) if self.rate < 1.0 else whole
        small = whole.mixed(kept).lower if 0.0 < kept < 1.0 else None
        if direction is Direction.ADD:
            plain = plain.swapped()
            small = whole.mixed(kept).swapped().lower if small is not None else None
        gone = min(1.0, (plain.upper.infinity + eta * self.rate) * (1.0 + 1e-15))
        upper = replace(plain.upper, infinity=gone)
        return DominatingPair(upper, plain.lower if small is None else small)

    def end(self, direction: Direction) -> End:
        if self.rate == 1.0:
            return End(Fraction(1), 0.0)
        plain, rate = Sampled(self.base, self.rate).end(direction), Fraction(self.rate)
        eta = binomial_tail(self.population - 1, self.rate, self.largest)
        return End(min(Fraction(1), plain.mass + Fraction(eta) * rate), plain.loss)

    @property
    def symmetric(self) -> bool:
        return False

    @property
    def depth(self) -> int:
        return 1 + self.base.depth

    def text(self, protects: Protects) -> str:
        inner = f"rate={shown(self.rate)}, largest={self.largest}, population={self.population}"
        return f"{self.base.text(protects)}.sampled({inner})"


def binomial_tail(trials: int, chance: float, least: int) -> float:
    """An upper bound on P(Binomial(trials, chance) >= least): the first term times a geometric series.

    One where ``least`` is not above the mean. The rounding of the log-gammas is added.

    >>> binomial_tail(2, 0.5, 2) >= 0.25
    True
    """
    if least > trials:
        return 0.0
    if chance == 1.0:
        return 1.0
    ratio = (trials - least) * chance / ((least + 1.0) * (1.0 - chance))
    if ratio >= 1.0:
        return 1.0
    parts = (math.lgamma(trials + 1.0), math.lgamma(least + 1.0), math.lgamma(trials - least + 1.0))
    powers = (least * math.log(chance), (trials - least) * math.log1p(-chance))
    log_first = parts[0] - parts[1] - parts[2] + powers[0] + powers[1]
    rounding = 2.0**-48 * (sum(parts) + abs(powers[0]) + abs(powers[1]) + 1.0)
    return min(1.0, math.exp(log_first + rounding) / (1.0 - ratio))


def truncated(loss: PrivacyLoss, rate: float, largest: int | None, population: int | None) -> PrivacyLoss:
    """Poisson sampling with batches cut at ``largest`` (see ``PrivacyLoss.sampled``)."""
    if largest is None or population is None:
        missing = "largest" if largest is None else "population"
        raise InvalidInput(missing, None, "both largest= and population=: the cut is rare only among so many units")
    most = check.count("largest", largest, least=1)
    whole = check.count("population", population, least=1)
    plain = sampled(loss, rate)
    if not plain.terms or most >= whole:
        return plain
    leaf = Truncated(as_leaf(loss, "sampled"), max(rate, check.SMALLEST_RATE), most, whole)
    return PrivacyLoss(((leaf, 1),), loss.protects)
