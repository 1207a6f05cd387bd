"""Leaves made of whole compositions: a sampled sum, replace from add/remove, the worst of several.

Their pairs are read off the composition at a ladder of knots, from above and from below, so they carry a small
width; a single mechanism never goes through here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.bounds import WIDTH, Bounds
from tallystick.accounting.leaf import (
    DEEPEST,
    End,
    Leaf,
    Terms,
    check_terms,
    ends_of,
    largest_together,
    merged,
    written_sum,
)
from tallystick.accounting.loss import PrivacyLoss, as_leaf, constructor
from tallystick.accounting.pair import DominatingPair
from tallystick.accounting.polygon import LowerProfile, UpperProfile, law_above, law_below
from tallystick.errors import AdjacencyMismatch, InvalidInput
from tallystick.numerics.law import MOST_BITS, Array, above_dust, exact_bits

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.accounting.direction import OneDirection
    from tallystick.numerics.rigorous.laws import BallLaw


def _check_sum(terms: Any, adjacency: Adjacency | None = None) -> None:
    """A sum as ``merged`` makes it, with a term, about these neighbours, and not nested too deeply."""
    check_terms(terms, adjacency)
    if not terms or terms != merged(terms) or _depth(terms) >= DEEPEST:
        raise InvalidInput("terms", str(terms), "a sum as tallystick writes it, with a term and not too deep")


def _depth(terms: Terms) -> int:
    return max(leaf.depth for leaf, _ in terms)


RUNGS = 80
"""Knots of a composition, each a read-out; one release has twice as many."""

STEEP = 6
"""Knots next to 0 at which every route is asked: many a profile is steepest there."""

LOUD = 200.0
"""A composition whose epsilon is above this is read at half as many knots."""

FAINT = 1e-12
"""Total variation of a sum whose curve is next to that of no release: a few chords say as much."""
MOST_KINKS = 1000
"""Kinks of a finite law that are all taken as knots: then its polygon is exact."""


@dataclass(frozen=True, slots=True)
class Composed(Leaf):
    """Several releases on one sample: the composition, held as one leaf so that it can be sampled."""

    kind: ClassVar[str] = "composed"
    alone: ClassVar[bool] = False
    terms: Terms

    def __post_init__(self) -> None:
        _check_sum(self.terms)
        if not any(self.covers_adjacency(relation) for relation in self.relations):
            raise InvalidInput("terms", str(self.terms), "leaves about the same neighbours")
        if len(self.terms) == 1 and self.terms[0][1] == 1:
            raise InvalidInput("terms", str(self.terms[0][0]), "several releases; one is itself")

    def covers_adjacency(self, adjacency: Adjacency) -> bool:
        return all(leaf.covers_adjacency(adjacency) for leaf, _ in self.terms)

    def pair(self, direction: Direction) -> DominatingPair:
        return _composed_pair(self.terms, direction)

    def delta_inside(self, direction: Direction, epsilon: float) -> Bounds:
        return _side(self.terms, direction).delta_bounds(epsilon)

    def epsilon_inside(self, direction: Direction, delta: float, width: float = WIDTH) -> Bounds:
        return _side(self.terms, direction).epsilon_bounds(delta, width)

    def end(self, direction: Direction) -> End:
        ends = ends_of(self.terms, direction)
        unbounded = any(math.isinf(one.loss) for one, _ in ends)
        if unbounded or exact_bits([(one.mass, count) for one, count in ends]) > MOST_BITS:
            return Leaf.end(self, direction)
        kept = math.prod(((1 - one.mass) ** count for one, count in ends), start=Fraction(1))
        return End(1 - kept, largest_together(ends))

    def renyi_above(self, direction: Direction, order: float) -> float:
        return divergence(self.terms, direction, order)

    @property
    def gaussian_mu(self) -> float | None:
        squares = [None if leaf.gaussian_mu is None else count * leaf.gaussian_mu**2 for leaf, count in self.terms]
        known = [s for s in squares if s is not None]
        if len(known) < len(squares):
            return None
        total = math.fsum(known)
        if total < 1e-290:  # squares that doubles hardly hold
            return math.hypot(*(math.sqrt(count) * float(leaf.gaussian_mu or 0.0) for leaf, count in self.terms))
        return math.sqrt(total)

    @property
    def gaussian_below(self) -> float | None:
        return None if self.gaussian_mu is None else _side(self.terms, Direction.REMOVE).mu_below

    @property
    def symmetric(self) -> bool:
        return all(leaf.symmetric for leaf, _ in self.terms)

    @property
    def depth(self) -> int:
        return 1 + _depth(self.terms)

    @property
    def enclosed(self) -> bool:
        return self.gaussian_mu is None

    def ball_law(self, ask: Ask) -> BallLaw:
        return ask.composed(self.terms)

    def text(self, protects: Protects) -> str:
        return f"({written_sum(self.terms, protects)})"


@dataclass(frozen=True, slots=True)
class Replaced(Leaf):
    """add/remove -> replace by the general rule: the larger of f_ADD(1 - f_REMOVE) and f_REMOVE(1 - f_ADD)."""

    kind: ClassVar[str] = "replaced"
    relations: ClassVar[tuple[Adjacency, ...]] = (Adjacency.REPLACE,)
    terms: Terms

    def __post_init__(self) -> None:
        _check_sum(self.terms, Adjacency.ADD_REMOVE)
        for leaf, _ in self.terms:
            if leaf.replaced() is not None:
                raise InvalidInput("terms", str(leaf), "leaves without a closed form under replace")

    def pair(self, direction: Direction) -> DominatingPair:
        return _replaced_pair(self.terms)

    def renyi_above(self, direction: Direction, order: float) -> float:
        return _chained_renyi(self.terms, order)

    @property
    def unamplified(self) -> Leaf:
        """Both records are sampled by one coin, so the sampled pair is a mixture of the plain one and of no change."""
        plain = merged((leaf.unamplified, count) for leaf, count in self.terms)
        return self if plain == self.terms else as_leaf(replaced(PrivacyLoss(plain)), "as_replace")

    @property
    def depth(self) -> int:
        return 1 + _depth(self.terms)

    @property
    def enclosed(self) -> bool:
        return True

    def ball_law(self, ask: Ask) -> BallLaw:
        return ask.replaced(self.terms)

    def text(self, protects: Protects) -> str:
        return f"({written_sum(self.terms, Protects(Adjacency.ADD_REMOVE, protects.unit))}).as_replace()"


@dataclass(frozen=True, slots=True)
class Worst(Leaf):
    """The pointwise worst of several compositions."""

    kind: ClassVar[str] = "worst"
    relations: ClassVar[tuple[Adjacency, ...]] = (Adjacency.ADD_REMOVE,)
    members: tuple[Terms, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.members, tuple) or len(self.members) < 2:
            raise InvalidInput("members", self.members, "at least two sums")
        for terms in self.members:
            _check_sum(terms, Adjacency.ADD_REMOVE)
        if self.members != tuple(sorted(set(self.members), key=str)):
            raise InvalidInput("members", str(self), "different sums in order")

    def pair(self, direction: Direction) -> DominatingPair:
        return _worst_pair(self.members, direction)

    def delta_inside(self, direction: Direction, epsilon: float) -> Bounds:
        return _worst_of(_side(terms, direction).delta_bounds(epsilon) for terms in self.members)

    def epsilon_inside(self, direction: Direction, delta: float, width: float = WIDTH) -> Bounds:
        worst = Bounds(0.0, 0.0)
        # Those that cost little first: they may decide, and what is surely below another need not be read.
        for side in sorted((_side(terms, direction) for terms in self.members), key=lambda side: side.composed):
            if not math.isinf(worst.lower) and not side.below(delta, worst.lower):
                worst = _worst_of((worst, side.epsilon_bounds(delta, width)))
        return worst

    def renyi_above(self, direction: Direction, order: float) -> float:
        """E[e^{theta L}] - 1 integrates both profiles with positive weights; a maximum is at most the sum."""
        theta = order - 1.0
        divergences = [divergence(terms, direction, order) for terms in self.members]
        if theta * max(divergences) > 700.0:
            return max(divergences) + math.log(len(divergences)) / theta
        return math.log1p(math.fsum(math.expm1(theta * one) for one in divergences)) / theta * (1.0 + 1e-13)

    @property
    def symmetric(self) -> bool:
        return all(leaf.symmetric for terms in self.members for leaf, _ in terms)

    @property
    def depth(self) -> int:
        return 1 + max(_depth(terms) for terms in self.members)

    @property
    def enclosed(self) -> bool:
        return True

    def ball_law(self, ask: Ask) -> BallLaw:
        return ask.worst([ask.summed(terms) for terms in self.members])

    def text(self, protects: Protects) -> str:
        return "worst(" + ", ".join(written_sum(terms, protects) for terms in self.members) + ")"


def _side(terms: Terms, direction: Direction) -> OneDirection:
    from tallystick.accounting.direction import OneDirection

    return OneDirection.of(terms, direction)


def _worst_of(members: Iterable[Bounds]) -> Bounds:
    worst = Bounds(0.0, 0.0)
    for one in members:
        worst = Bounds(max(worst.lower, one.lower), max(worst.upper, one.upper))
    return worst


def divergence(terms: Terms, direction: Direction, order: float) -> float:
    """Upper bound on the Renyi divergence of a composition in one direction."""
    return _side(terms, direction).renyi(order)


@lru_cache(maxsize=64)
def _composed_pair(terms: Terms, direction: Direction) -> DominatingPair:
    from tallystick.accounting.leaves.gaussian import gaussian_between

    whole = Composed(terms)
    if whole.gaussian_mu is not None and whole.gaussian_below is not None:
        return gaussian_between(min(whole.gaussian_below, whole.gaussian_mu), whole.gaussian_mu)
    return pair_of_halves(read(terms, direction), read(terms, direction.other))


@dataclass(frozen=True, slots=True, eq=False)
class Half:
    """One direction of a composition, read at knots epsilon >= 0: certified bounds on delta from both sides."""

    epsilon: Array
    upper: Array
    lower: Array
    infinity: float = 0.0
    """Mass that is certainly at infinity."""

    def joined(self, other: Half) -> Half:
        """Return the profile at the knots of both."""
        epsilon = np.concatenate([self.epsilon, other.epsilon])
        order = np.argsort(epsilon)
        upper, lower = np.append(self.upper, other.upper)[order], np.append(self.lower, other.lower)[order]
        return Half(epsilon[order], upper, lower, self.infinity)

    @property
    def above(self) -> UpperProfile:
        return UpperProfile(self.epsilon, self.upper)

    @property
    def below(self) -> LowerProfile:
        return LowerProfile.between(self.epsilon, self.lower, self.upper, self.infinity)


def pair_of_halves(ahead: Half, behind: Half) -> DominatingPair:
    """The pair with the chords of the upper bounds above it, and the tangent polygons under the lower ones below."""
    return DominatingPair(law_above(ahead.above, behind.above), law_below(ahead.below, behind.below))


def read(terms: Terms, direction: Direction) -> Half:
    """A composition in one direction, at a ladder of knots that ends at its largest loss where there is one."""
    return _read(terms, _way(terms, direction))


def _way(terms: Terms, direction: Direction) -> Direction:
    """The direction to read: one for both where they are the same."""
    return Direction.REMOVE if all(leaf.symmetric for leaf, _ in terms) else direction


@lru_cache(maxsize=128)
def _read(terms: Terms, direction: Direction) -> Half:
    return read_at(terms, direction, ladder(terms, direction))


def read_at(terms: Terms, direction: Direction, epsilon: Array, *, above: bool = False) -> Half:
    """A composition in one direction at given knots; ``above``: only the upper values are asked for."""
    from tallystick.accounting.routes import Patience

    side = _side(terms, direction)
    upper, lower = np.ones(epsilon.size), np.zeros(epsilon.size)
    patience = Patience()
    for k in range(epsilon.size - 1, -1, -1):
        asked = patience if k >= STEEP else None
        bounds = side.delta_bounds(float(epsilon[k]), nearby=True, patience=asked, above=above)
        upper[k], lower[k] = bounds.upper, bounds.lower
        if bounds.lower > 1.0 - 1e-6 or (bounds.upper >= 1.0 and (above or bounds.lower > 0.5)):
            # Delta decreases: at all smaller epsilons it is between this and one.
            lower[:k] = bounds.lower
            break
    if side.infinity == 0.0:
        # Nothing is above the largest loss: the profile ends at zero there, exactly.
        upper[epsilon >= side.highest] = lower[epsilon >= side.highest] = 0.0
    if upper[-1] > 0.0:
        # What lies beyond the last knot is a feature of the whole now, however little a leaf left out numerically.
        upper = np.maximum(upper, above_dust(float(upper[-1])))
    return Half(epsilon, upper, lower, side.infinity * (1.0 - 1e-13) if side.exact else 0.0)


def ladder(terms: Terms, direction: Direction) -> Array:
    """Epsilons from 0 that resolve the profile in one direction down to delta 1e-40, or all its kinks."""
    side = _side(terms, direction)
    kinks = _kinks(terms, direction)
    if kinks is not None:
        # The largest loss is rounded up, past the last kink; only there the profile is certainly zero.
        return np.unique(np.append(kinks, side.highest)) if side.bounded else kinks
    target = max(side.infinity * 1.0001 + 1e-300, 1e-40)
    top = side.epsilon_about(target) if target < 1.0 else 1.0
    top = min(top, side.highest) if math.isfinite(min(top, side.highest)) else 600.0
    # Far-out knots of a composition cost seconds together, and the fine shape of such a loss is not needed.
    count = (RUNGS if top < LOUD else RUNGS // 2) if side.composed else 2 * RUNGS
    if side.composed and side.total_variation < FAINT:
        count = RUNGS // 4
    rungs: Array = top * np.linspace(0.0, 1.0, count) ** 1.5
    return np.unique(np.append(rungs, side.highest) if side.bounded else rungs)


def _kinks(terms: Terms, direction: Direction) -> Array | None:
    """Where the profile of a finite law bends, from 0; None where the law is smooth or has too many."""
    direct = _side(terms, direction).direct
    if direct is None or direct.law.segments or direct.mu > 0.0:
        return None
    kinks = np.unique(direct.law.atoms[direct.law.atoms > 0.0])
    return np.append(0.0, kinks) if kinks.size <= MOST_KINKS else None


@lru_cache(maxsize=64)
def worst_half(sides: tuple[tuple[Terms, Direction], ...], *, above: bool = False) -> Half:
    """The largest of several profiles, read at the knots of all and where two of them cross."""
    ladders = [ladder(*side) for side in sides]
    longest = max(ladders, key=lambda rungs: float(rungs[-1]))
    listed = all(_kinks(*side) is not None for side in sides)
    # Knots cost a read-out of every side, so where some are composed one ladder serves all; chords are bounds anyway.
    chosen = ladders if listed else [longest, np.array([rungs[-1] for rungs in ladders])]
    epsilon = np.unique(np.concatenate(chosen))
    halves = [read_at(*side, epsilon, above=above) for side in sides]
    crossings = np.setdiff1d(_crossings(epsilon, np.array([half.upper for half in halves])), epsilon)
    if crossings.size and listed:
        more = [read_at(*side, crossings, above=above) for side in sides]
        halves = [half.joined(new) for half, new in zip(halves, more, strict=True)]
    upper = np.maximum.reduce([half.upper for half in halves])
    lower = np.maximum.reduce([half.lower for half in halves])
    return Half(halves[0].epsilon, upper, lower, max(half.infinity for half in halves))


def _crossings(epsilon: Array, heights: Array) -> Array:
    """About where the largest of several curves changes: chords in e^epsilon of the two meet there."""
    largest = np.argmax(heights, axis=0)
    k = np.flatnonzero(largest[:-1] != largest[1:])
    before, after = largest[k], largest[k + 1]
    here, there = heights[before, k] - heights[after, k], heights[after, k + 1] - heights[before, k + 1]
    share = here / np.maximum(here + there, 1e-300)
    crossings: Array = epsilon[k] + np.log1p(share * np.expm1(np.minimum(np.diff(epsilon)[k], 700.0)))
    return crossings


@lru_cache(maxsize=64)
def _worst_pair(members: tuple[Terms, ...], direction: Direction) -> DominatingPair:
    ways = (direction, direction.other)
    ahead, behind = (worst_half(tuple((terms, _way(terms, way)) for terms in members)) for way in ways)
    return pair_of_halves(ahead, behind)


@lru_cache(maxsize=1024)
def _chained_renyi(terms: Terms, order: float) -> float:
    """The triangle inequality of divergences (Mironov 2017, Proposition 11), at this order or the least tame one."""
    divergences = []
    for a, p in ((a, p) for a in {max(order, 1.5), max(order, 3.0)} for p in (1.25, 2.0)):
        factor, later = (a - 1.0 / p) / (a - 1.0), p / (p - 1.0) * (a - 1.0 / p)
        for one, two in ((Direction.REMOVE, Direction.ADD), (Direction.ADD, Direction.REMOVE)):
            there, back = divergence(terms, one, p * a), divergence(terms, two, later)
            divergences.append((factor * there + back) * (1.0 + 1e-13))
    return min(divergences)


@lru_cache(maxsize=64)
def _replaced_pair(terms: Terms) -> DominatingPair:
    from tallystick.accounting.polygon import replaced_profile

    remove, add = read(terms, Direction.REMOVE), read(terms, Direction.ADD)
    highest = sum(_side(terms, way).highest for way in Direction) * (1.0 + 1e-15)
    chained = replaced_profile(remove.above, add.above, highest)
    # From below: a record may be replaced by one that changes nothing, so both orders of either direction are attained.
    lower = law_below(remove.below, add.below)
    return DominatingPair(law_above(chained, chained), lower)


def replaced(loss: PrivacyLoss) -> PrivacyLoss:
    """add/remove -> replace (see ``PrivacyLoss.as_replace``)."""
    if loss.adjacency is Adjacency.REPLACE:
        return loss
    if loss.group != 1:
        raise InvalidInput("as_replace", str(loss), "a loss for single units; convert first, then group")
    closed: list[tuple[Leaf, int]] = []
    rest: list[tuple[Leaf, int]] = []
    for leaf, count in loss.terms:
        other = leaf.replaced()
        if other is None:
            rest.append((leaf, count))
        else:
            closed.append((other, count))
    if rest:
        closed.append((Replaced(tuple(rest)), 1))
    return PrivacyLoss(merged(closed), Protects(Adjacency.REPLACE, loss.unit))


@constructor
def worst(*losses: PrivacyLoss) -> PrivacyLoss:
    """Pointwise worst of several losses: parallel composition over disjoint parts, add/remove only.

    Valid when each unit is in one part and the part is a function of the unit alone (erratum 49).

    >>> import tallystick as ts
    >>> round(ts.worst(ts.pure_dp(epsilon=1), ts.pure_dp(epsilon=2)).epsilon(delta=0), 9)
    2.0
    """
    if not losses:
        raise InvalidInput("losses", losses, "at least one loss")
    for loss in losses:
        if not isinstance(loss, PrivacyLoss):
            raise InvalidInput("losses", loss, "PrivacyLoss objects")
        if loss.adjacency is not Adjacency.ADD_REMOVE:
            raise AdjacencyMismatch(loss.adjacency, Adjacency.ADD_REMOVE)
        if loss.group != 1:
            raise InvalidInput("worst", str(loss), "losses for single units; group the result")
    protects = reduce(Protects.joined, (loss.protects for loss in losses))
    members = tuple(sorted({loss.terms for loss in losses}, key=str))
    if len(members) > 1:
        members = tuple(m for m in members if m)
    return PrivacyLoss(members[0] if len(members) == 1 else ((Worst(members), 1),), protects)
