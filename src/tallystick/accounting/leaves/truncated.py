"""Poisson sampling with batches cut to a largest size: by whatever rule, by rank, or at random.

Let K be the number of *other* units sampled: binomial, and the same whether the unit in question is there or not. If
K < largest nothing is cut in either case and the step is plain Poisson sampling. Otherwise the batches still agree
unless the unit itself was sampled, which has probability ``rate``. So, with eta >= P(K >= largest), the step's
profile is at most the Poisson profile plus eta * rate, in both directions. A rule that ranks the units without looking
at their data and keeps the first lets the unit take the place of one other at most, which replace-one neighbours
bound (docs/theory/truncated-poisson.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.bounds import Bounds
from tallystick.accounting.leaf import End, Leaf, Wrapper, check_inside, shown
from tallystick.accounting.leaves.nested import Composed, replaced
from tallystick.accounting.leaves.pure import two_point_law
from tallystick.accounting.leaves.sampled import Sampled, sampled, sampled_renyi
from tallystick.accounting.loss import PrivacyLoss, as_leaf
from tallystick.accounting.pair import DominatingPair, told
from tallystick.errors import InvalidInput
from tallystick.numerics.law import MOST_BITS, Law

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw


@dataclass(frozen=True, slots=True)
class Truncated(Wrapper):
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
        eta = binomial_tail(self.population - 1, self.rate, self.largest).upper
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
        return End(
            min(Fraction(1), plain.mass + exact_tail(self.population - 1, rate, self.largest) * rate), plain.loss
        )

    @property
    def enclosed(self) -> bool:
        return True

    def ball_law(self, ask: Ask) -> BallLaw:
        if self.rate == 1.0:
            return ask.everything() if ask.upper else ask.nothing()
        rate = ask.ball(self.rate)
        cut = rate * ask.tail(self.population - 1, rate, self.largest)
        if not ask.upper:
            return self.base.ball_law(ask.at_rate(rate - cut)) if rate - cut > 0 else ask.nothing()
        return ask.leaking(self.base, rate, cut)

    @property
    def symmetric(self) -> bool:
        return False

    def text(self, protects: Protects) -> str:
        inner = f"rate={shown(self.rate)}, largest={self.largest}, population={self.population}"
        return f"{self.base.text(protects)}.sampled({inner}, cut='anyhow')"


CUTS = ("anyhow", "ranked", "random")
CUT_CHOICES = (
    'one of three. cut="anyhow" assumes nothing about which units of a large batch are kept, and epsilon is infinite '
    'unless cuts are rare. cut="ranked" assumes that units are ranked without looking at their data or at the sample. '
    'cut="random" assumes that in addition all rankings are equally likely and that population= is the size of the data'
)
"""There is no default: the safe choice is seldom useful, and only the caller can make the claim of the others."""
SELDOM = 1e-200
"""A cut that is less likely than this is charged as any ranking: rounding would hide its share."""


@dataclass(frozen=True, slots=True)
class Cut(Wrapper):
    """A sample of which the ``largest`` units that rank first are kept: the unit enters for at most one other.

    ``random``: all rankings are equally likely, and ``population`` is the size of the data, not a bound on it.
    """

    kind: ClassVar[str] = "cut"
    relations: ClassVar[tuple[Adjacency, ...]] = (Adjacency.ADD_REMOVE,)
    base: Leaf
    rate: float
    largest: int
    population: int
    random: bool

    def __post_init__(self) -> None:
        if not isinstance(self.random, bool):
            raise InvalidInput("random", self.random, "true or false")
        whole = check.count("population", self.population, least=1)
        plain = Truncated(self.base, self.rate, self.largest, whole + self.random)
        check.keep(self, rate=plain.rate, largest=plain.largest, population=whole)

    @property
    def entering(self) -> tuple[float, float]:
        """How often a batch is cut, and how likely the unit then enters it: the theorem says what is rounded how."""
        # At random the data are given: with the unit that neighbours differ in there are as many, or one more.
        most = self.population + self.random
        ranked = max(binomial_tail(most - 1, self.rate, self.largest).upper, SELDOM), self.rate
        cut = binomial_tail(self.population - 1, self.rate, self.largest).lower
        if not self.random or cut < SELDOM:
            return ranked
        kept = [binomial_tail(n, self.rate, self.largest + 1).upper * self.largest / n for n in (most - 1, most)]
        entering = max(kept) / cut * (1.0 + 1e-14)
        return (cut, entering) if entering < self.rate else ranked

    @property
    def swap(self) -> Leaf:
        """What the base loses when one unit is replaced."""
        terms = self.base.terms if isinstance(self.base, Composed) else ((self.base, 1),)
        return as_leaf(replaced(PrivacyLoss(terms)), "sampled")

    def pair(self, direction: Direction) -> DominatingPair:
        share, rate = self.entering
        plain, swap = self.base.pair(Direction.REMOVE), self.swap.pair(Direction.REMOVE)
        if self.rate < 1.0:
            plain = plain.mixed(self.rate)
        if rate < 1.0:
            swap = swap.mixed(rate)
        both = ((plain.upper, math.log1p(-share)), (swap.upper, math.log(share))) if share < 1.0 else ()
        upper = told(both) if both else swap.upper
        # A unit that ranks first is never cut.
        pair = DominatingPair(upper, self._null if self.random else plain.lower)
        return pair if direction is Direction.REMOVE else pair.swapped()

    @property
    def _null(self) -> Law:
        """If all other units are null, sampling at the rate of batches that are not cut is certain."""
        kept = self.rate * (1.0 - binomial_tail(self.population - 1, self.rate, self.largest).upper)
        return self.base.pair(Direction.REMOVE).mixed(kept).lower if 0.0 < kept < 1.0 else two_point_law(0.0)

    def renyi_above(self, direction: Direction, order: float) -> float:
        """A moment of the pair is the mean of two."""
        swap = self.swap.renyi_above(Direction.REMOVE, order)
        if direction is Direction.ADD:
            return min(swap, self.ceiling(direction))
        plain = self.base.renyi_above(Direction.REMOVE, order)
        return max(sampled_renyi(plain, self.rate, order), sampled_renyi(swap, self.entering[1], order))

    def ceiling(self, direction: Direction) -> float:
        """A unit that stays out with probability 1 - q is missed at most 1/(1 - q) times as often."""
        if direction is Direction.REMOVE or self.rate == 1.0:
            return math.inf
        return -math.log1p(-self.rate) * (1.0 + 1e-15)

    @property
    def gaussian_above(self) -> float | None:
        return self.swap.gaussian_above

    @property
    def enclosed(self) -> bool:
        return True

    def ball_law(self, ask: Ask) -> BallLaw:
        rate, most = ask.ball(self.rate), self.population + self.random
        cut = ask.tail(self.population - 1, rate, self.largest)
        if not ask.upper:
            seldom = rate * (1 - cut) if self.random else rate
            return self.base.ball_law(ask.at_rate(seldom)) if seldom > 0 and seldom < 1 else ask.nothing()
        share, entering = ask.tail(most - 1, rate, self.largest), rate
        if self.random and cut > 0:
            kept = [ask.tail(n, rate, self.largest + 1) * self.largest / n for n in (most - 1, most)]
            if kept[0].max(kept[1]) < cut * rate:
                share, entering = cut, kept[0].max(kept[1]) / cut
        return ask.told([(1 - share, self.base, rate), (share, self.swap, entering)])

    @property
    def symmetric(self) -> bool:
        return False

    def conditions(self) -> str:
        size = "exactly" if self.random else "at most"
        order = "uniformly at random" if self.random else "without looking at the data"
        return (
            f"cut batches: the {self.largest} units that rank first are kept, ranked {order}, independently of who is "
            f"sampled, of {size} {self.population} units"
        )

    def text(self, protects: Protects) -> str:
        inner = f"rate={shown(self.rate)}, largest={self.largest}, population={self.population}"
        return f"{self.base.text(protects)}.sampled({inner}, cut='{'random' if self.random else 'ranked'}')"


@lru_cache(maxsize=256)
def binomial_tail(trials: int, chance: float, least: int) -> Bounds:
    """P(Binomial(trials, chance) >= least): terms from the nearer end, a geometric rest, all rounding outward.

    >>> binomial_tail(2, 0.5, 2).lower <= 0.25 <= binomial_tail(2, 0.5, 2).upper
    True
    """
    if least <= 0 or chance == 1.0:
        return Bounds(1.0, 1.0) if least <= trials else Bounds(0.0, 0.0)
    if least > trials:
        return Bounds(0.0, 0.0)
    if least > trials * chance:
        return _terms(trials, least, math.log(chance), math.log1p(-chance), chance / (1.0 - chance))
    rest = _terms(trials, trials - least + 1, math.log1p(-chance), math.log(chance), (1.0 - chance) / chance)
    return Bounds(max(0.0, 1.0 - rest.upper - 2.0**-52), min(1.0, 1.0 - rest.lower + 2.0**-52))


def _terms(trials: int, least: int, log_in: float, log_out: float, odds: float) -> Bounds:
    """Return the tail beyond the mean, where each term is less than the one before."""
    parts = (math.lgamma(trials + 1.0), math.lgamma(least + 1.0), math.lgamma(trials - least + 1.0))
    powers = (least * log_in, (trials - least) * log_out)
    log_first = parts[0] - parts[1] - parts[2] + powers[0] + powers[1]
    rounding = 2.0**-48 * (sum(parts) + abs(powers[0]) + abs(powers[1]) + 1.0)
    total, term, k = 0.0, 1.0, least
    while term > 1e-18 * total and k < trials:
        total, term, k = total + term, term * (trials - k) * odds / (k + 1.0), k + 1
    ratio = (trials - k) * odds / (k + 1.0)
    above = term / (1.0 - ratio) if ratio < 1.0 else math.inf
    rounding += 1e-15 * (k - least + 4.0)
    lower = math.exp(log_first - rounding) * (total + term) if log_first - rounding > -700.0 else 0.0
    return Bounds(lower, min(1.0, math.exp(min(0.0, log_first + rounding)) * (total + above) + 1e-320))


@lru_cache(maxsize=64)
def exact_tail(trials: int, chance: Fraction, least: int) -> Fraction:
    """P(Binomial(trials, chance) >= least), and where that has too many digits the bound above.

    >>> exact_tail(2, Fraction(1, 2), 2)
    Fraction(1, 4)
    """
    whole, some = chance.denominator, chance.numerator
    if trials * whole.bit_length() > MOST_BITS:
        return Fraction(binomial_tail(trials, float(chance), least).upper)
    fewer = sum(math.comb(trials, k) * some**k * (whole - some) ** (trials - k) for k in range(min(least, trials + 1)))
    return 1 - Fraction(fewer, whole**trials)


def truncated(
    loss: PrivacyLoss, rate: float, largest: int | None, population: int | None, cut: str | None
) -> PrivacyLoss:
    """Poisson sampling with batches cut at ``largest`` (see ``PrivacyLoss.sampled``)."""
    if largest is None or population is None:
        missing = "largest" if largest is None else "population"
        raise InvalidInput(missing, None, "both largest= and population=: the cut is rare only among this many units")
    if not isinstance(cut, str) or cut not in CUTS:
        raise InvalidInput("cut", cut, CUT_CHOICES)
    most = check.count("largest", largest, least=1)
    whole = check.count("population", population, least=1)
    plain = sampled(loss, rate)
    if not plain.terms or most >= whole + (cut == "random"):
        return plain
    base = as_leaf(loss, "sampled")
    leaf = Truncated(base, rate, most, whole) if cut == "anyhow" else Cut(base, rate, most, whole, cut == "random")
    return PrivacyLoss(((leaf, 1),), loss.protects)
