"""Leaves made of whole compositions: a sampled sum, replace from add/remove, the worst of several.

Their pairs are read off the composition at a ladder of knots, from above and from below, so they carry a small
width; a single mechanism never goes through here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.leaf import DEEPEST, Leaf, Terms, check_terms, merged, written_sum
from tallystick.accounting.pair import DominatingPair
from tallystick.accounting.polygon import lower_hull
from tallystick.errors import InvalidInput
from tallystick.numerics.law import Array, Law


def _check_sum(terms: Any, adjacency: Adjacency | None = None) -> None:
    """A sum as ``merged`` makes it, with a term, about these neighbours, and not nested too deeply."""
    check_terms(terms, adjacency)
    if not terms or terms != merged(terms) or _depth(terms) >= DEEPEST:
        raise InvalidInput("terms", str(terms), "a sum as tallystick writes it, with a term and not too deep")


def _depth(terms: Terms) -> int:
    return max(leaf.depth for leaf, _ in terms)


@dataclass(frozen=True, slots=True)
class Composed(Leaf):
    """Several releases on one sample: the composition, held as one leaf so that it can be sampled."""

    kind: ClassVar[str] = "composed"
    alone: ClassVar[bool] = False
    terms: Terms

    def __post_init__(self) -> None:
        _check_sum(self.terms)
        if not any(self.stands_under(relation) for relation in self.relations):
            raise InvalidInput("terms", str(self.terms), "leaves about the same neighbours")
        if len(self.terms) == 1 and self.terms[0][1] == 1:
            raise InvalidInput("terms", str(self.terms[0][0]), "several releases; one is itself")

    def stands_under(self, adjacency: Adjacency) -> bool:
        return all(leaf.stands_under(adjacency) for leaf, _ in self.terms)

    def pair(self, direction: Direction) -> DominatingPair:
        return _composed_pair(self.terms, direction)

    @property
    def gaussian_mu(self) -> float | None:
        squares = [None if leaf.gaussian_mu is None else count * leaf.gaussian_mu**2 for leaf, count in self.terms]
        known = [s for s in squares if s is not None]
        return math.sqrt(math.fsum(known)) if len(known) == len(squares) else None

    @property
    def symmetric(self) -> bool:
        return all(leaf.symmetric for leaf, _ in self.terms)

    @property
    def depth(self) -> int:
        return 1 + _depth(self.terms)

    def text(self, protects: Protects) -> str:
        return f"({written_sum(self.terms, protects)})"


@dataclass(frozen=True, slots=True)
class Replaced(Leaf):
    """add/remove -> replace by the general rule f_ADD(1 - f_REMOVE(.)), symmetrised."""

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

    @property
    def depth(self) -> int:
        return 1 + _depth(self.terms)

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
        pairs = [profile_knots(terms, direction) for terms in self.members]
        epsilon = np.unique(np.concatenate([p[0] for p in pairs]))
        tables = [profile_at(terms, direction, epsilon) for terms in self.members]
        upper = np.maximum.reduce([t[0] for t in tables])
        lower = np.maximum.reduce([t[1] for t in tables])
        return pair_of_knots(epsilon, upper, lower)

    @property
    def symmetric(self) -> bool:
        return all(leaf.symmetric for terms in self.members for leaf, _ in terms)

    @property
    def depth(self) -> int:
        return 1 + max(_depth(terms) for terms in self.members)

    def text(self, protects: Protects) -> str:
        return "worst(" + ", ".join(written_sum(terms, protects) for terms in self.members) + ")"


@lru_cache(maxsize=64)
def _composed_pair(terms: Terms, direction: Direction) -> DominatingPair:
    from tallystick.accounting.leaves.gaussian import gaussian_pair

    mu = Composed(terms).gaussian_mu
    if mu is not None:
        return gaussian_pair(mu)
    epsilon, upper, lower = profile_knots(terms, direction)
    return pair_of_knots(epsilon, upper, lower)


def profile_at(terms: Terms, direction: Direction, epsilon: Array) -> tuple[Array, Array]:
    """Certified upper and lower profile of a composition at the given (also negative) epsilons."""
    from tallystick.accounting.direction import OneDirection

    side, other = OneDirection.of(terms, direction), OneDirection.of(terms, direction.other)
    upper, lower = np.empty(epsilon.size), np.empty(epsilon.size)
    for i, e in enumerate(epsilon):
        if e >= side.highest and side.infinity == 0.0:
            upper[i] = lower[i] = 0.0  # nothing is above the largest loss
        elif e >= 0.0:
            bounds = side.delta_bounds(float(e), nearby=True)
            upper[i], lower[i] = bounds.upper, bounds.lower
        else:
            # H_a(P||Q) = 1 - a + a H_{1/a}(Q||P).
            bounds = other.delta_bounds(float(-e), nearby=True)
            level = math.exp(e)
            upper[i], lower[i] = 1.0 - level + level * bounds.upper, 1.0 - level + level * bounds.lower
    return upper, lower


def ladder(terms: Terms, direction: Direction, count: int = 160) -> Array:
    """Epsilons from 0 that resolve the profile in one direction down to delta 1e-40."""
    from tallystick.accounting.direction import OneDirection

    reader = OneDirection.of(terms, direction)
    target = max(reader.infinity * 1.0001 + 1e-300, 1e-40)
    top = min(reader.epsilon_upper(target) if target < 1.0 else 1.0, 600.0)
    rungs: Array = top * np.linspace(0.0, 1.0, count) ** 1.5
    return rungs


@lru_cache(maxsize=64)
def profile_knots(terms: Terms, direction: Direction) -> tuple[Array, Array, Array]:
    """Knots of the whole profile in one direction, negative epsilons too, with certified bounds there."""
    from tallystick.accounting.direction import OneDirection

    epsilon = np.unique(np.concatenate([-ladder(terms, direction.other), ladder(terms, direction)]))
    upper, lower = profile_at(terms, direction, epsilon)
    side = OneDirection.of(terms, direction)
    if math.isfinite(side.highest) and side.infinity == 0.0:
        # Nothing is above the largest loss: the profile ends at zero there, exactly.
        inside = epsilon < side.highest
        epsilon = np.append(epsilon[inside], side.highest)
        upper, lower = np.append(upper[inside], 0.0), np.append(lower[inside], 0.0)
    return epsilon, upper, lower


def pair_of_knots(epsilon: Array, upper: Array, lower: Array) -> DominatingPair:
    """The pair with the chords of ``upper`` above and the tangent polygon under ``lower`` below."""
    return DominatingPair(_law_through(epsilon, upper, float(upper[-1])), _minorant_law(epsilon, lower, upper))


def _law_through(epsilon: Array, heights: Array, infinity: float) -> Law:
    """The law whose profile is the polygon through the knots, from (0, 1) and constant after the last."""
    levels = np.exp(epsilon)
    x, y = lower_hull(np.concatenate([[0.0], levels]), np.concatenate([[1.0], np.minimum.accumulate(heights)]))
    slopes = np.append(-np.diff(y) / np.diff(x), 0.0)
    masses = np.maximum(slopes[:-1] - slopes[1:], 0.0) * x[1:]
    kept = masses > 0
    zero = max(0.0, 1.0 - float(slopes[0]))
    return Law(np.log(x[1:][kept]), np.log(masses[kept]), infinity=infinity, zero=zero)


def _minorant_law(epsilon: Array, lower: Array, upper: Array) -> Law:
    """A law whose profile is nowhere above a convex function that lies between ``lower`` and ``upper`` at the knots.

    Left of a knot a convex function is above the extension of the chord to the next knot, whose slope is at least
    (lower here - upper there) / distance.
    """
    levels = np.exp(epsilon)
    slopes = np.maximum(0.0, (lower[:-1] - upper[1:]) / np.diff(levels))
    before = np.concatenate([[0.0], levels[:-2]])
    values = lower[:-1] + slopes * (levels[:-1] - before)
    values[1:] = np.minimum(values[1:], lower[:-2])
    x = np.concatenate([[0.0], levels[:-1]])
    y = np.minimum.accumulate(np.concatenate([values, [0.0]]))
    x, y = _not_below_diagonal(*lower_hull(x, np.maximum(y, 0.0)))
    steps = np.append(-np.diff(y) / np.diff(x), 0.0)
    masses = np.maximum(steps[:-1] - steps[1:], 0.0) * x[1:]
    kept = masses > 0
    return Law(np.log(x[1:][kept]), np.log(masses[kept]), zero=max(0.0, 1.0 - float(steps[0])))


def _not_below_diagonal(x: Array, y: Array) -> tuple[Array, Array]:
    """The larger of a convex polygon and 1 - a: still a lower bound, and again a pair of probabilities.

    Only then may the pair be swapped: H(Q||P)(a) = 1 - a + a H(P||Q)(1/a) needs both masses to be one.
    """
    above = np.nonzero(y >= 1.0 - x)[0]
    if not above.size:
        return np.array([0.0, 1.0]), np.array([1.0, 0.0])
    first = int(above[0])
    if first == 0:
        return x, np.concatenate([[1.0], y[1:]])
    rise = (y[first] - y[first - 1]) / (x[first] - x[first - 1])
    cross = (1.0 - y[first - 1] + rise * x[first - 1]) / (1.0 + rise)
    if not 0.0 < cross < x[first]:
        return np.concatenate([[0.0], x[first:]]), np.concatenate([[1.0], y[first:]])
    return np.concatenate([[0.0, cross], x[first:]]), np.concatenate([[1.0, 1.0 - cross], y[first:]])


@lru_cache(maxsize=64)
def _replaced_pair(terms: Terms) -> DominatingPair:
    from tallystick.accounting.groups import chained_profile

    remove, add = profile_knots(terms, Direction.REMOVE), profile_knots(terms, Direction.ADD)
    epsilon, upper = chained_profile((remove[0], remove[1]), (add[0], add[1]))
    law = _law_through(epsilon, upper, float(upper[-1]))
    # Lower: the replace pair is at least as revealing as either direction alone.
    lower_law = _minorant_law(remove[0], remove[2], remove[1])
    return DominatingPair(law, lower_law)
