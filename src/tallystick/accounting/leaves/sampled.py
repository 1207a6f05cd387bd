"""Amplification by sampling, as maps of pairs: Poisson sampling and fixed-size subsets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.bounds import WIDTH, Bounds
from tallystick.accounting.leaf import End, Leaf, LossLattice, Wrapper, check_inside, rounded_by_constructor, shown
from tallystick.accounting.loss import PrivacyLoss, as_leaf
from tallystick.accounting.pair import DominatingPair, joined_at_zero, mixed_loss, unmixed_loss
from tallystick.errors import InvalidInput
from tallystick.numerics.law import UNIT, Array
from tallystick.rounding import LEAST, double_above, down, up

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw


LEAST_LOSS = 1e-300
"""Smaller losses, a rate times a loss, lose digits or vanish: they are counted as this."""

MOST_MOMENTS = 400
"""Orders up to which a sampled Renyi curve is a binomial sum; beyond, Minkowski's inequality is all but as good."""

CURVE = 1e-11
"""Relative rounding of such a sum: logarithms of hundreds of factors are added."""

LOSS = 16.0 * UNIT
"""Relative rounding of a loss >= 0 that goes through the map of sampling or back, and of a quotient."""


@dataclass(frozen=True, slots=True)
class Sampled(Wrapper):
    """Each unit takes part independently with probability ``rate`` (Poisson sampling), add/remove neighbours.

    REMOVE pair (P, Q) -> ((1-q) Q + q P, Q); ADD pair (P, Q) -> (P, (1-q) P + q Q)
    (Zhu, Dong, Wang 2022; the notes print it wrongly, errata 2 and 3).
    """

    kind: ClassVar[str] = "sampled"
    relations: ClassVar[tuple[Adjacency, ...]] = (Adjacency.ADD_REMOVE,)
    base: Leaf
    rate: float
    rounded: bool = rounded_by_constructor()

    def __post_init__(self) -> None:
        check.keep(self, rate=check.strict_rate(self.rate))
        check_inside(self.base, Adjacency.ADD_REMOVE)
        if isinstance(self.base, Sampled):
            raise InvalidInput("base", str(self.base), "one rate: sampling twice is sampling at the product")

    def pair(self, direction: Direction) -> DominatingPair:
        pair, vanishing = mixed(self.base, self.rate)
        turned = pair if direction is Direction.REMOVE else pair.swapped()
        return _outward(turned) if vanishing else turned

    @property
    def symmetric(self) -> bool:
        return False

    @property
    def exact_alone(self) -> bool:
        """A sampled step's delta is q times the step's own at another epsilon, so it is attained where that is."""
        return self.base.exact_alone

    @property
    def rounded_up(self) -> bool:
        return self.rounded or self.base.rounded_up

    def replaced(self) -> Leaf | None:
        return self.base.sampled_replaced(self.rate, self.rounded)

    def renyi_above(self, direction: Direction, order: float) -> float:
        own = self.base.renyi_above(direction, order)
        own = min(own, self.ceiling(direction)) if direction is Direction.ADD else sampled_renyi(own, self.rate, order)
        moment = self.log_mgf_bound(np.array([order - 1.0]))
        return own if moment is None else min(own, float(moment[0]) / (order - 1.0) * (1.0 + LOSS))

    def log_mgf_bound(self, theta: Array) -> Array | None:
        """Where all that is known of the base is a Renyi curve, which its pair has forgotten."""
        if not self.base.only_renyi or getattr(self.base, "delta", 0.0) > 0.0:
            return None
        return sampled_curve(self.base, self.rate, theta)

    def ceiling(self, direction: Direction) -> float:
        """A unit that stays out with probability 1 - q is missed at most 1/(1 - q) times as often."""
        return math.inf if direction is Direction.REMOVE else -math.log1p(-self.rate) * (1.0 + 1e-15)

    def end(self, direction: Direction) -> End:
        if direction is Direction.ADD:
            return End(Fraction(0), self.ceiling(direction))
        plain = self.base.end(direction)
        largest = self._mixed(plain.loss) * (1.0 + LOSS)
        return End(Fraction(self.rate) * plain.mass, max(largest, LEAST_LOSS) if plain.loss > 0.0 else largest)

    def delta_inside(self, direction: Direction, epsilon: float) -> Bounds | None:
        """When removing, delta is the rate times that of the base at the epsilon which sampling brings to this one."""
        if direction is Direction.ADD:
            return None
        there = float(unmixed_loss(np.array([epsilon]), self.rate)[0])
        above = self.base.delta_inside(direction, there * (1.0 - LOSS))
        below = self.base.delta_inside(direction, there * (1.0 + LOSS))
        if above is None or below is None:
            return None
        most = min(1.0, self.rate * above.upper * (1.0 + LOSS) + LEAST)
        return Bounds(down(self.rate * below.lower, slack=LOSS), most)

    def epsilon_inside(self, direction: Direction, delta: float, width: float = WIDTH) -> Bounds | None:
        share = delta / self.rate
        if direction is Direction.ADD or share > 0.5:
            return None
        above = self.base.epsilon_inside(direction, share * (1.0 - LOSS), width)
        below = self.base.epsilon_inside(direction, share * (1.0 + LOSS) + LEAST, width)
        if above is None or below is None:
            return None
        return Bounds(down(self._mixed(below.lower), slack=LOSS), up(self._mixed(above.upper), slack=LOSS))

    def _mixed(self, loss: float) -> float:
        return loss if math.isinf(loss) else float(mixed_loss(np.array([loss]), self.rate)[0])

    @property
    def unamplified(self) -> Leaf:
        return self.base.unamplified

    def text(self, protects: Protects) -> str:
        return f"{self.base.text(protects)}.sampled(rate={shown(self.rate)})"

    def loss_lattice(self, direction: Direction) -> LossLattice | None:
        from tallystick.accounting.leaves.pure import PureDp

        if not isinstance(self.base, PureDp) or self.base.epsilon >= 700.0:
            return None
        ends = [math.log1p(self.rate * math.expm1(sign * self.base.epsilon)) for sign in (-1.0, 1.0)]
        return (ends[0] if direction is Direction.REMOVE else -ends[1]), ends[1] - ends[0], True

    def ball_law(self, ask: Ask) -> BallLaw:
        return self.base.ball_law(ask.at_rate(ask.unrounded(self.rate) if self.rounded_up else self.rate))


@dataclass(frozen=True, slots=True)
class Subset(Wrapper):
    """A uniformly random subset of ``batch`` of ``population`` units, replace-one neighbours.

    C_q(f) = hull(min(f_q, f_q^{-1})), f_q = q f + (1 - q) Id, q = batch/population, taken **per step**
    (Dong, Roth, Su 2019, Theorem 4.2; erratum 4). For a symmetric f the two halves meet at slope -1, so the
    pair is the mixture above loss 0, its mirror below, and an atom at 0.
    """

    kind: ClassVar[str] = "subset"
    relations: ClassVar[tuple[Adjacency, ...]] = (Adjacency.REPLACE,)
    base: Leaf
    batch: int
    population: int

    def __post_init__(self) -> None:
        whole = check.count("population", self.population, least=2)
        check.keep(self, batch=check.count("batch", self.batch, least=1, most=whole - 1), population=whole)
        check_inside(self.base, Adjacency.REPLACE)

    @property
    def rate(self) -> float:
        """The share of the population that is drawn, rounded up."""
        share = self.batch / self.population
        return share if Fraction(share) * self.population >= self.batch else math.nextafter(share, 1.0)

    def pair(self, direction: Direction) -> DominatingPair:
        mixed = self.base.pair(Direction.REMOVE).mixed(self.rate)
        mirror = mixed.swapped()
        upper = joined_at_zero(mixed.upper, mirror.upper)
        if mixed.lower is mixed.upper:
            return DominatingPair.exact(upper)
        return DominatingPair(upper, joined_at_zero(mixed.lower, mirror.lower), mixed.close)

    def renyi_above(self, direction: Direction, order: float) -> float:
        """The pair's profile is the larger of two, so its moment is at most the sum of theirs."""
        plain, rate = self.base.renyi_above(direction, order), self.rate
        larger = max(sampled_renyi(plain, rate, order), min(plain, -math.log1p(-rate)))
        return larger + math.log(2.0) / (order - 1.0)

    @property
    def unamplified(self) -> Leaf:
        return self.base.unamplified

    def text(self, protects: Protects) -> str:
        return f"{self.base.text(protects)}.subset(batch={self.batch}, population={self.population})"

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous.chords import subset_law

        return subset_law(self.base.ball_law(ask), ask.ball(self.batch) / self.population)


@lru_cache(maxsize=256)
def mixed(base: Leaf, rate: float) -> tuple[DominatingPair, bool]:
    """The REMOVE pair of a sampled step, once for both directions, and whether a loss all but vanished in it."""
    plain = base.pair(Direction.REMOVE)
    pair = plain.mixed(rate)
    before = plain.upper.atoms
    after = np.abs(pair.upper.atoms[pair.upper.atoms.size - before.size :])
    return pair, bool(np.any((before != 0.0) & (after < LEAST_LOSS)))


def _outward(pair: DominatingPair) -> DominatingPair:
    """The pair with losses that doubles can hardly hold raised from above, and left out from below."""
    above, below = pair.upper.atoms, pair.lower.atoms
    return DominatingPair(
        replace(pair.upper, atoms=np.where(np.abs(above) < LEAST_LOSS, LEAST_LOSS, above), lattice=None),
        replace(pair.lower, atoms=np.where(np.abs(below) < LEAST_LOSS, 0.0, below), lattice=None),
    )


def sampled_renyi(plain: float, rate: float, order: float) -> float:
    """Renyi divergence of (1-q) Q + q P from Q, given at most ``plain`` for P from Q: Minkowski's inequality.

    The norm of dP/dQ in L^order(Q) is e^{(order - 1) plain / order}, and the norm of a mixture is at most the mixture
    of the norms.
    """
    exponent = (order - 1.0) / order * plain
    if exponent == math.inf:
        return math.inf
    norm = float(np.logaddexp(math.log1p(-rate), math.log(rate) + exponent)) if rate < 1.0 else exponent
    return min(plain, order / (order - 1.0) * norm * (1.0 + 1e-14) + 1e-15)


def sampled_curve(base: Leaf, rate: float, theta: Array) -> Array:
    """log E[e^{theta L}] of a sampled step in the worse direction, from the curve of the base (both directions) alone.

    Proved in docs/theory/poisson-sampling.md, "Where only a Renyi curve is known".
    """
    plain, order = _curve(base, theta), 1.0 + theta
    norm = order * np.logaddexp(math.log1p(-rate), math.log(rate) + plain / order)
    scale = 2.0 * math.log(rate) + np.log(theta * order)
    near = order <= 2.0
    removing = _second(base, scale, 1.0 - rate * np.where(near, 2.0 - order, 0.0))
    removing[~near] = _binomial(base, rate, order[~near])
    reach = rate * (order + 1.0)
    adding = _second(base, scale, np.where(reach < 0.999, 1.0 - reach, np.maximum(1.0, reach - 2.0)))
    adding = np.minimum(adding, -theta * math.log1p(-rate))
    return np.minimum(plain, np.maximum(np.minimum(norm, removing), adding) * (1.0 + CURVE) + 1e-300)


def _second(base: Leaf, log_factor: Array, theta: Array) -> Array:
    """log of 1 + factor (e^{log-moment at theta} - 1) / (theta (theta + 1)): the lemmas of that page."""
    result: Array = np.logaddexp(0.0, log_factor + _log_expm1(_curve(base, theta)) - np.log(theta * (theta + 1.0)))
    return result


def _binomial(base: Leaf, rate: float, order: Array) -> Array:
    """log of the moment of that order of 1 - q + q dP/dQ, from the moments of dP/dQ: sums, and chords between them."""
    sums = _whole_orders(base, rate)
    places = np.arange(1.0, sums.size + 1.0)
    chords = np.where(order <= sums.size, np.interp(order, places, sums), math.inf)
    broken = (order > 2.0) & (order < sums.size) & (order != np.rint(order))
    if broken.any():
        chords[broken] = np.minimum(chords[broken], _series(base, rate, order[broken]))
    return chords


@lru_cache(maxsize=64)
def _whole_orders(base: Leaf, rate: float) -> Array:
    """Return the logarithms of the moments at the orders 1, 2, ... as far as the curve goes.

    The weights C(order, k) (1-q)^{order-k} q^k add up to one, so that only moments less one count, which keep their
    digits where they are small.
    """
    logs = _curve(base, np.arange(1.0, MOST_MOMENTS))
    logs = logs[: int(np.argmax(np.append(~np.isfinite(logs), True)))]
    order = np.arange(2.0, logs.size + 2.0)[:, None]
    weights = _log_weights(order, order[:, 0], rate) + _log_expm1(logs)
    peaks = weights.max(axis=1, initial=-math.inf)
    sums = peaks + np.log(np.exp(weights - peaks[:, None]).sum(axis=1))
    return np.append(0.0, np.logaddexp(0.0, sums))


def _series(base: Leaf, rate: float, order: Array) -> Array:
    """Return the logarithms of the moments between whole orders.

    These are the terms below the order, and for the rest either the next or (qL)^order.
    """
    below = np.floor(order)
    k = np.arange(0.0, float(below.max()) + 1.0)
    logs = _log_weights(order[:, None], k, rate)
    terms = np.minimum(logs + np.append(0.0, _curve(base, k[1:] - 1.0)), 700.0)
    following = _log_weights(order[:, None], k + 1.0, rate)[np.arange(order.size), below.astype(np.int64)]
    last = np.minimum(following + _curve(base, below), order * math.log(rate) + _curve(base, order - 1.0))
    # Small sums cancel against one: there chords are better.
    total = np.where(k <= below[:, None], np.exp(terms), 0.0).sum(axis=1) + np.exp(np.minimum(last, 700.0))
    return np.log(np.where(total < 1e300, total * (1.0 + CURVE), math.inf))


def _log_weights(order: Array, k: Array, rate: float) -> Array:
    """log of C(order, k) (1-q)^{order-k} q^k for whole k up to the order rounded up; minus infinity beyond."""
    steps = np.arange(1.0, float(k.max(initial=0.0)) + 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.where(steps < order + 1.0, np.log((order + 1.0 - steps) / steps), -math.inf)
    binomials = np.concatenate([np.zeros((order.shape[0], 1)), np.cumsum(factors, axis=1)], axis=1)
    weights: Array = binomials[:, k.astype(np.int64)] + (order - k) * math.log1p(-rate) + k * math.log(rate)
    return weights


def _curve(base: Leaf, theta: Array) -> Array:
    bound = base.log_mgf_bound(theta)
    assert bound is not None, "a leaf of which only a Renyi curve is known"
    return bound


def _log_expm1(logs: Array) -> Array:
    """log(e^x - 1) for x >= 0, accurate for small and for large ones."""
    return logs + np.log(-np.expm1(-np.maximum(logs, 1e-300)))


def sampled(loss: PrivacyLoss, rate: float | Fraction) -> PrivacyLoss:
    """Poisson sampling of a loss (see ``PrivacyLoss.sampled``); a rate that no double has becomes the next one."""
    if loss.adjacency is not Adjacency.ADD_REMOVE:
        raise InvalidInput(
            "adjacency",
            loss.adjacency.value,
            "an add/remove loss: Poisson sampling is about added and removed units. For replaced ones sample the "
            "add/remove loss, then say .as_replace(); .subset() is for batches of fixed size",
        )
    leaf = as_leaf(loss, "sampled") if loss.terms else None
    if rate == 0.0 or leaf is None:
        return PrivacyLoss((), loss.protects)
    exact, rounded = Fraction(rate), False
    if double_above(exact) == 1.0:
        return loss
    if isinstance(leaf, Sampled):
        # Sampling twice is sampling at the product rate.
        exact, rounded, leaf = exact * Fraction(leaf.rate), leaf.rounded, leaf.base
    share = double_above(exact)
    return PrivacyLoss(((Sampled(leaf, share, rounded or share != exact), 1),), loss.protects)


def subset(loss: PrivacyLoss, batch: int, population: int, replacement: bool = False) -> PrivacyLoss:
    """Fixed-size subset sampling of a REPLACE loss (see ``PrivacyLoss.subset``)."""
    whole = check.count("population", population, least=1)
    if not isinstance(replacement, bool):
        raise InvalidInput("replacement", replacement, "True or False")
    part = check.count("batch", batch, least=0, most=check.MAX_COUNT if replacement else whole)
    if loss.adjacency is not Adjacency.REPLACE:
        raise InvalidInput(
            "adjacency", loss.adjacency.value, "a REPLACE loss for subset sampling; construct with adjacency='replace'"
        )
    if part == 0 or not loss.terms:
        return PrivacyLoss((), loss.protects)
    leaf = as_leaf(loss, "subset")
    if replacement:
        from tallystick.accounting.leaves.with_replacement import WithReplacement

        return PrivacyLoss(((WithReplacement(leaf, part, whole), 1),), loss.protects)
    if part == whole:
        return loss
    return PrivacyLoss(((Subset(leaf, part, whole), 1),), loss.protects)
