"""Losses given by the user: a finite pair, a trade-off function, a privacy profile.

A function is turned into knots at construction and only the knots are the leaf, so that it hashes and serialises;
the knots are always on the side of less privacy. Hulls and mirrors are taken where the pair is made, so that what is
stored, written and read back is what the user gave.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.finite import Outcomes, law_of_outcomes, law_of_pair, law_of_polygon, worse_of_both_orders
from tallystick.accounting.leaf import Leaf, shown, written_call
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair
from tallystick.accounting.polygon import OUTWARD, LowerTradeoff, UpperProfile, law_above
from tallystick.digits import typed
from tallystick.errors import InvalidInput
from tallystick.numerics.law import Array, above_dust

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw

Numbers = tuple[float, ...]
MOST_KNOTS = 100_000
CLOSEST = 1e-300
"""Least distance of knots, so that slopes are numbers."""
LARGEST_EPSILON = 700.0
"""Of a profile's knots; e^epsilon must be a number."""


# ---- finite pairs ----


@dataclass(frozen=True, slots=True)
class DiscretePair(Leaf):
    """A finite pair: ``p`` with the unit, ``q`` without it (the REMOVE direction).

    With ``both``, which is what REPLACE needs, either may be the changed data set: the hull of both orders is taken.
    """

    kind: ClassVar[str] = "discrete_pair"
    p: Numbers
    q: Numbers
    both: bool = False

    def __post_init__(self) -> None:
        p, q = probabilities("p", self.p), probabilities("q", self.q)
        if len(p) != len(q):
            raise InvalidInput("q", self.q, f"as many probabilities as p has ({len(p)})")
        if not isinstance(self.both, bool):
            raise InvalidInput("both", self.both, "true or false")
        check.keep(self, p=p, q=q)

    def pair(self, direction: Direction) -> DominatingPair:
        hull = law_of_outcomes(_hull_of_both(self.p, self.q)) if self.both else None
        pair = DominatingPair.exact(hull or law_of_pair(np.array(self.p), np.array(self.q)))
        return pair if direction is Direction.REMOVE else pair.swapped()

    @property
    def symmetric(self) -> bool:
        return self.both or _own_swap(self.p, self.q)

    def covers_adjacency(self, adjacency: Adjacency) -> bool:
        return self.both is (adjacency is Adjacency.REPLACE)

    def text(self, protects: Protects) -> str:
        return written_call(self, protects, str(list(self.p)), str(list(self.q)))

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous.laws import listed_pair

        given = [(Fraction(own), Fraction(other)) for own, other in zip(self.p, self.q, strict=True)]
        return ask.discrete(listed_pair(_hull_of_both(self.p, self.q) if self.both else given))


@constructor
def discrete_pair(
    p: Iterable[Any], q: Iterable[Any], *, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None
) -> PrivacyLoss:
    """A finite dominating pair: outcome probabilities with the unit (p) and without it (q).

    Under REPLACE both orders of the pair can occur, so the hull of both is taken.

    >>> round(discrete_pair([0.75, 0.25], [0.25, 0.75]).delta(epsilon=0), 9)
    0.5
    """
    relation = check.adjacency(adjacency)
    leaf = DiscretePair(probabilities("p", p), probabilities("q", q), relation is Adjacency.REPLACE)
    return loss_of(leaf, relation, unit)


@lru_cache(maxsize=64)
def _own_swap(p: Numbers, q: Numbers) -> bool:
    """Does swapping the two laws give the same outcomes?"""
    return sorted(zip(p, q, strict=True)) == sorted(zip(q, p, strict=True))


@lru_cache(maxsize=64)
def _hull_of_both(p: Numbers, q: Numbers) -> Outcomes:
    return worse_of_both_orders(p, q)


def probabilities(name: str, values: Iterable[Any]) -> Numbers:
    """A probability vector, normalised; one that is normalised already stays as it is, to the last bit."""
    allowed = "non-negative numbers that sum to 1"
    array = check.vector(name, values, allowed)
    total = math.fsum(array.tolist())
    if np.any(array < 0) or abs(total - 1.0) > 1e-9 or array.size > MOST_KNOTS:
        raise InvalidInput(name, values, allowed)
    # Entries that were divided by their sum add up to one within one rounding of it.
    return tuple((array if abs(total - 1.0) <= 2.0**-52 else array / total).tolist())


# ---- trade-off functions ----


@dataclass(frozen=True, slots=True)
class Tradeoff(Leaf):
    """f-differential privacy for a convex polygon f, which bounds both orders: max(f, f^{-1}) is read."""

    kind: ClassVar[str] = "from_tradeoff"
    alpha: Numbers
    beta: Numbers

    def __post_init__(self) -> None:
        x, y = _knots("f", (self.alpha, self.beta), TRADEOFF)
        if x[0] != 0.0:
            raise InvalidInput("f", self.alpha, "knots that start at alpha = 0")
        if x[-1] < 1.0:
            x, y = np.append(x, 1.0), np.append(y, 0.0)
        _check_tradeoff(x, y)
        check.keep(self, alpha=tuple(x.tolist()), beta=tuple(np.clip(y, 0.0, 1.0 - x).tolist()))

    def pair(self, direction: Direction) -> DominatingPair:
        return _tradeoff_pair(self.alpha, self.beta)

    @property
    def enclosed(self) -> bool:
        return True

    def ball_law(self, ask: Ask) -> BallLaw:
        return ask.smaller_of_both_orders(_outcomes(self.alpha, self.beta))

    def text(self, protects: Protects) -> str:
        return written_call(self, protects, _written_knots(self.alpha, self.beta))


@constructor
def from_tradeoff(
    f: Callable[[float], Any] | Iterable[tuple[Any, Any]],
    *,
    adjacency: Any = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> PrivacyLoss:
    """f-differential privacy for a trade-off function, given as a callable or as knots (alpha, beta).

    >>> round(from_tradeoff([(0, 1), (0.25, 0.25), (1, 0)]).epsilon(delta=0), 6)  # log 3
    1.098612
    """
    if not callable(f):
        return loss_of(Tradeoff(*_columns("f", f, TRADEOFF)), adjacency, unit)
    tails = np.geomspace(1e-12, 0.01, 200)
    x = np.unique(np.concatenate([[0.0, 1.0], np.linspace(0.0, 1.0, 513), tails, 1.0 - tails]))
    y = _values("f", f, x, TRADEOFF)
    _check_tradeoff(x, y)
    claim = LowerTradeoff.under(x, y)
    return loss_of(Tradeoff(tuple(claim.alpha.tolist()), tuple(claim.beta.tolist())), adjacency, unit)


@lru_cache(maxsize=64)
def _outcomes(alpha: Numbers, beta: Numbers) -> Outcomes:
    """Every piece of f is an outcome, and what f misses at alpha = 0 one that gives all away.

    Outcomes differ by their ratios alone, so pieces that are not in convex order are taken as if they were. A
    knot above an earlier one is above the hull, and is put down to that one's height, where it still is.
    """
    heights = [Fraction(b) for b in np.minimum.accumulate(np.array(beta)).tolist()]
    own = [1 - heights[0], *(one - two for one, two in pairwise(heights)), heights[-1]]
    other = [Fraction(0), *(Fraction(two) - Fraction(one) for one, two in pairwise(alpha)), Fraction(0)]
    return list(zip(own, other, strict=True))


@lru_cache(maxsize=64)
def _tradeoff_pair(alpha: Numbers, beta: Numbers) -> DominatingPair:
    """The hull of the knots, then max(f, f^{-1})."""
    claim = LowerTradeoff.hull(np.array(alpha), np.array(beta))
    return DominatingPair.exact(law_of_polygon(claim.larger(claim.inverse())))


TRADEOFF = "a convex, decreasing function on [0, 1] with 0 <= f(alpha) <= 1 - alpha"


def _check_tradeoff(x: Array, y: Array) -> None:
    slopes = np.diff(y) / np.diff(x)
    bad = np.any(y < -1e-12) or np.any(y > 1.0 - x + 1e-9) or np.any(np.diff(y) > 1e-9)
    if bad or np.any(np.diff(slopes) * np.minimum(np.diff(x)[1:], np.diff(x)[:-1]) < -1e-9):
        raise InvalidInput("f", "the given function", TRADEOFF)


# ---- privacy profiles ----

PROFILE = "a decreasing function of epsilon >= 0 with values in [0, 1], convex in e^epsilon"


@dataclass(frozen=True, slots=True)
class Profile(Leaf):
    """(epsilon, delta)-differential privacy along knots: chords in e^epsilon, constant after the last knot."""

    kind: ClassVar[str] = "from_profile"
    epsilon: Numbers
    delta: Numbers

    def __post_init__(self) -> None:
        x, y = _knots("f", (self.epsilon, self.delta), PROFILE)
        if x[0] < 0.0 or x[-1] > LARGEST_EPSILON:
            raise InvalidInput("f", self.epsilon, f"knots with epsilon from 0 to {typed(LARGEST_EPSILON)}")
        if np.any(y < 0) or np.any(y > 1) or np.any(np.diff(y) > 1e-12) or np.any(np.diff(np.exp(x)) <= 0):
            raise InvalidInput("f", "the given function", PROFILE)
        check.keep(self, epsilon=tuple(x.tolist()), delta=tuple(y.tolist()))

    def pair(self, direction: Direction) -> DominatingPair:
        return _profile_pair(self.epsilon, self.delta)

    @property
    def enclosed(self) -> bool:
        return True

    def ball_law(self, ask: Ask) -> BallLaw:
        return ask.polygon([(ask.ball(x), ask.ball(y)) for x, y in zip(self.epsilon, self.delta, strict=True)])

    def text(self, protects: Protects) -> str:
        return written_call(self, protects, _written_knots(self.epsilon, self.delta))


@constructor
def from_profile(
    f: Callable[[float], Any] | Iterable[tuple[Any, Any]],
    *,
    adjacency: Any = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> PrivacyLoss:
    """(epsilon, delta(epsilon))-DP along a curve, given as a callable on [0, 100] or as knots (epsilon, delta).

    >>> from_profile([(1.0, 1e-6)]).delta(epsilon=1.0) >= 1e-6
    True
    """
    if not callable(f):
        return loss_of(Profile(*_columns("f", f, PROFILE)), adjacency, unit)
    x = np.unique(np.concatenate([np.linspace(0.0, 10.0, 1001), np.geomspace(1e-4, 100.0, 400)]))
    return loss_of(Profile(tuple(x.tolist()), tuple(_values("f", f, x, PROFILE).tolist())), adjacency, unit)


@lru_cache(maxsize=64)
def _profile_pair(epsilon: Numbers, delta: Numbers) -> DominatingPair:
    """The majorant through the knots, from its chord to (a, H) = (0, 1)."""
    x, y = np.array(epsilon), np.array([above_dust(height) for height in delta])
    if x[0] > 0.0:
        # H(1) <= 1 - (1 - delta_1) / a_1.
        start = min(1.0, (y[0] - math.expm1(-x[0]) * (1.0 - y[0])) * (1.0 + OUTWARD))
        x, y = np.append(0.0, x), np.append(start, y)
    profile = UpperProfile(x, y)
    return DominatingPair.exact(law_above(profile, profile))


# ---- knots ----


def _written_knots(x: Numbers, y: Numbers) -> str:
    return "[" + ", ".join(f"({shown(a)}, {shown(b)})" for a, b in zip(x, y, strict=True)) + "]"


def _values(name: str, f: Callable[[float], Any], x: Array, allowed: str) -> Array:
    out = []
    for point in x:
        try:
            out.append(check.finite(name, f(float(point)), allowed))
        except InvalidInput:
            raise InvalidInput(f"{name}({float(point):g})", f(float(point)), allowed) from None
        except (ArithmeticError, TypeError, ValueError) as problem:
            raise InvalidInput(f"{name}({float(point):g})", type(problem).__name__, allowed) from None
    return np.array(out)


def _columns(name: str, knots: Any, allowed: str) -> tuple[Numbers, Numbers]:
    """Two columns from a list of (x, y)."""
    problem = InvalidInput(name, knots, allowed + ", or a list of (x, y) knots")
    try:
        rows = [tuple(row) for row in knots]
    except TypeError:
        raise problem from None
    if not rows or any(len(row) != 2 for row in rows):
        raise problem
    return tuple(row[0] for row in rows), tuple(row[1] for row in rows)


def _knots(name: str, columns: tuple[Any, Any], allowed: str) -> tuple[Array, Array]:
    """Checked numbers: as many of one as of the other, the first increasing."""
    if not all(isinstance(column, tuple) for column in columns):
        raise InvalidInput(name, columns, allowed)
    x, y = (np.array([check.finite(name, value, allowed) for value in column]) for column in columns)
    if x.size != y.size or not 1 <= x.size <= MOST_KNOTS:
        raise InvalidInput(name, columns, f"{allowed}, by 1 to {MOST_KNOTS} knots")
    if np.any(np.diff(x) < CLOSEST):
        raise InvalidInput(name, columns, "knots with increasing first entries")
    return x, y
