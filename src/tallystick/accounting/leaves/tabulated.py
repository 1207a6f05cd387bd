"""Losses given by the user: a finite pair, a trade-off function, a privacy profile.

A function is turned into knots at construction and only the knots are the leaf, so that it hashes and
serialises; the knots are always on the side of less privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Direction
from tallystick.accounting.leaf import Leaf
from tallystick.accounting.pair import DominatingPair
from tallystick.accounting.polygon import (
    combined,
    inverse_knots,
    law_of_pair,
    law_of_profile,
    lower_hull,
    pair_of_tradeoff,
    profile_minorant,
    tradeoff_knots,
)
from tallystick.errors import InvalidInput
from tallystick.numerics.law import Array


@dataclass(frozen=True, slots=True)
class DiscretePair(Leaf):
    """A finite pair: ``p`` with the unit, ``q`` without it (the REMOVE direction)."""

    kind: ClassVar[str] = "discrete_pair"
    p: tuple[float, ...]
    q: tuple[float, ...]

    def pair(self, direction: Direction) -> DominatingPair:
        pair = DominatingPair.exact(law_of_pair(np.array(self.p), np.array(self.q)))
        return pair if direction is Direction.REMOVE else pair.swapped()

    @property
    def symmetric(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"discrete_pair({list(self.p)}, {list(self.q)})"


@dataclass(frozen=True, slots=True)
class Tradeoff(Leaf):
    """f-differential privacy for a convex polygon f, already symmetrised to max(f, f^{-1})."""

    kind: ClassVar[str] = "from_tradeoff"
    alpha: tuple[float, ...]
    beta: tuple[float, ...]

    def pair(self, direction: Direction) -> DominatingPair:
        p, q = pair_of_tradeoff(np.array(self.alpha), np.array(self.beta))
        return DominatingPair.exact(law_of_pair(p, q))


@dataclass(frozen=True, slots=True)
class Profile(Leaf):
    """(epsilon, delta)-differential privacy along knots; convex in e^epsilon, constant after the last knot."""

    kind: ClassVar[str] = "from_profile"
    epsilon: tuple[float, ...]
    delta: tuple[float, ...]

    def pair(self, direction: Direction) -> DominatingPair:
        heights = np.array(self.delta)
        return DominatingPair.exact(law_of_profile(np.exp(np.array(self.epsilon)), heights, float(heights[-1])))


def discrete_pair_leaf(p: Iterable[Any], q: Iterable[Any], *, symmetric: bool) -> DiscretePair:
    """Checked and, under REPLACE, replaced by the hull of both orders of the pair."""
    left, right = probabilities("p", p), probabilities("q", q)
    if left.size != right.size:
        raise InvalidInput("q", q, f"as many probabilities as p has ({left.size})")
    if symmetric:
        knots = tradeoff_knots(left, right)
        left, right = pair_of_tradeoff(*combined(knots, inverse_knots(*knots), worst=True))
    return DiscretePair(tuple(left.tolist()), tuple(right.tolist()))


def probabilities(name: str, values: Iterable[Any]) -> Array:
    """A probability vector, normalised to the last bit."""
    allowed = "non-negative numbers that sum to 1"
    array = check.vector(name, values, allowed)
    if np.any(array < 0) or abs(float(np.sum(array)) - 1.0) > 1e-9:
        raise InvalidInput(name, values, allowed)
    return array / math.fsum(array.tolist())


def tradeoff_leaf(f: Callable[[float], Any] | Iterable[tuple[Any, Any]]) -> Tradeoff:
    """Knots of the extended-chord minorant of ``f``, then hull, then max(f, f^{-1})."""
    allowed = "a convex, decreasing function on [0, 1] with 0 <= f(alpha) <= 1 - alpha"
    if callable(f):
        tails = np.geomspace(1e-12, 0.01, 200)
        x = np.unique(np.concatenate([[0.0, 1.0], np.linspace(0.0, 1.0, 513), tails, 1.0 - tails]))
        y = _values("f", f, x, allowed)
        _check_tradeoff(x, y, allowed)
        x, y = _extended_chord_minorant(x, y)
    else:
        x, y = _knots("f", f, allowed)
        if x[0] != 0.0:
            raise InvalidInput("f", f, "knots that start at alpha = 0")
        if x[-1] < 1.0:
            x, y = np.append(x, 1.0), np.append(y, 0.0)
        _check_tradeoff(x, y, allowed)
    y = np.clip(y, 0.0, 1.0 - x)
    knots = lower_hull(x, y)
    knots = combined(knots, inverse_knots(*knots), worst=False)
    return Tradeoff(tuple(knots[0].tolist()), tuple(np.clip(knots[1], 0.0, 1.0 - knots[0]).tolist()))


def _check_tradeoff(x: Array, y: Array, allowed: str) -> None:
    slopes = np.diff(y) / np.diff(x)
    bad = np.any(y < -1e-12) or np.any(y > 1.0 - x + 1e-9) or np.any(np.diff(y) > 1e-9)
    if bad or np.any(np.diff(slopes) * np.minimum(np.diff(x)[1:], np.diff(x)[:-1]) < -1e-9):
        raise InvalidInput("f", "the given function", allowed)


def _extended_chord_minorant(x: Array, y: Array) -> tuple[Array, Array]:
    """At each knot interval a convex function is above the extensions of its neighbours' chords."""
    slopes = np.diff(y) / np.diff(x)
    points = [(x[0], y[0])]
    for i in range(x.size - 1):
        before = slopes[i - 1] if i else -math.inf
        after = slopes[i + 1] if i + 2 < x.size else 0.0
        left = (y[i], before)
        if math.isinf(before) or after <= before:
            # No chord on the left: only the right chord, extended, and the end value bound it.
            meet = x[i]
            value = min(float(y[i]), float(y[i + 1] - after * (x[i + 1] - x[i])))
        else:
            meet = (y[i + 1] - left[0] + left[1] * x[i] - after * x[i + 1]) / (left[1] - after)
            meet = min(max(meet, x[i]), x[i + 1])
            value = max(left[0] + left[1] * (meet - x[i]), y[i + 1] + after * (meet - x[i + 1]))
        points.append((float(meet), max(0.0, float(value) - 1e-15)))
        points.append((float(x[i + 1]), float(y[i + 1])))
    table = sorted(points)
    xs = np.unique(np.array([p[0] for p in table]))
    lowest = np.full(xs.size, math.inf)
    np.minimum.at(lowest, np.searchsorted(xs, np.array([p[0] for p in table])), np.array([p[1] for p in table]))
    return lower_hull(xs, lowest)


def profile_leaf(f: Callable[[float], Any] | Iterable[tuple[Any, Any]], largest: float = 100.0) -> Profile:
    """Knots of a majorant of the profile: chords in e^epsilon, constant after the last knot."""
    allowed = "a decreasing function of epsilon >= 0 with values in [0, 1], convex in e^epsilon"
    if callable(f):
        x = np.unique(np.concatenate([np.linspace(0.0, 10.0, 1001), np.geomspace(1e-4, largest, 400)]))
        y = _values("f", f, x, allowed)
    else:
        x, y = _knots("f", f, allowed)
        if x[0] < 0.0:
            raise InvalidInput("f", f, "knots with epsilon >= 0")
    if np.any(y < 0) or np.any(y > 1) or np.any(np.diff(y) > 1e-12):
        raise InvalidInput("f", "the given function", allowed)
    if x[0] > 0.0:
        # Chord from (a, H) = (0, 1): H(1) <= 1 - (1 - delta_1) / a_1.
        x, y = np.concatenate([[0.0], x]), np.concatenate([[1.0 - (1.0 - y[0]) * math.exp(-x[0])], y])
    levels, heights, last = profile_minorant(x, y)
    if abs(levels[-1] / math.exp(x[-1]) - 1) > 1e-12:
        levels, heights = np.append(levels, math.exp(x[-1])), np.append(heights, last)
    return Profile(tuple(np.log(levels).tolist()), tuple(heights.tolist()))


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


def _knots(name: str, knots: Any, allowed: str) -> tuple[Array, Array]:
    try:
        table = np.asarray(list(knots), dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(name, knots, allowed) from None
    if table.ndim != 2 or table.shape[1] != 2 or table.shape[0] < 1 or not np.all(np.isfinite(table)):
        raise InvalidInput(name, knots, allowed + ", or a list of (x, y) knots")
    if np.any(np.diff(table[:, 0]) <= 0):
        raise InvalidInput(name, knots, "knots with increasing first entries")
    return table[:, 0], table[:, 1]
