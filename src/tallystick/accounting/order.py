"""Comparing losses: the certified Blackwell order, and the smallest Gaussian above a loss.

``a <= b`` compares each direction by itself, so it survives composition: n * a <= n * b and a + c <= b + c follow.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import pairwise

import numpy as np

from tallystick.accounting import gdp
from tallystick.accounting.adjacency import Direction
from tallystick.accounting.direction import OneDirection
from tallystick.accounting.leaf import Leaf, Terms, merged
from tallystick.accounting.leaves.nested import Composed
from tallystick.accounting.loss import PrivacyLoss
from tallystick.accounting.readout import Reader, reader
from tallystick.rounding import times_up

MOST_SPLITS = 120
"""Intervals of epsilon or of the order that are looked at before a comparison gives up."""

FINE = 1e-6
"""Relative width at which the smallest Gaussian is not looked for any further."""


def at_most(left: PrivacyLoss, right: PrivacyLoss) -> bool:
    """True only when certified: delta_left <= delta_right at every epsilon, in either direction."""
    if left.terms and right.terms:
        left.protects.joined(right.protects)  # refuses other neighbours and another unit, of which it would say nothing
    if left.group == right.group and _single_at_most(left, right):
        # Groups chain single steps, which keeps their order.
        return True
    return left.group > 1 and _compared(left, right)


def _single_at_most(left: PrivacyLoss, right: PrivacyLoss) -> bool:
    """For one unit: what both have in common is left out, and counts are divided by what they share."""
    ours, theirs = dict(left.terms), dict(right.terms)
    common = {leaf: min(count, theirs[leaf]) for leaf, count in ours.items() if leaf in theirs}
    rest = {leaf: count - common.get(leaf, 0) for leaf, count in ours.items()}
    other = {leaf: count - common.get(leaf, 0) for leaf, count in theirs.items()}
    if not any(rest.values()):
        return True
    shared = reduce(math.gcd, [*rest.values(), *other.values()])
    a, b = (
        replace(left, terms=merged((leaf, count // shared) for leaf, count in part.items()), group=1)
        for part in (rest, other)
    )
    if _compared(a, b):
        return True
    plain = _unsampled(a.terms)
    if plain != a.terms and _single_at_most(replace(a, terms=plain), b):
        return True  # sampling never hurts
    whole = replace(left, group=1), replace(left, terms=right.terms, group=1)
    return (a, b) != whole and _compared(*whole)


def _unsampled(terms: Terms) -> Terms:
    """Return the releases without sampling; several on one sample are several."""
    found: list[tuple[Leaf, int]] = []
    for leaf, count in terms:
        plain = leaf.unamplified
        inside = plain.terms if isinstance(plain, Composed) else ((plain, 1),)
        found += [(one, count * times) for one, times in inside]
    return merged(found)


def _compared(left: PrivacyLoss, right: PrivacyLoss) -> bool:
    """By the cheapest theorem that applies to the right side."""
    if not right.terms:
        return not left.terms
    if all(leaf.only_renyi for leaf, _ in right.terms):
        return right.group == 1 and _under_curve(left, right.terms)
    ours, theirs = reader(left), reader(right)
    goal = goal_point(right)
    if goal is not None:
        epsilon, delta = goal
        if delta == 0.0:
            # The largest loss is known exactly; a delta read numerically never is exactly zero.
            return ours.epsilon_bounds(0.0).upper <= epsilon
        return ours.delta_at_most(epsilon, delta)
    squared = _squared_mu(right)
    if squared is not None:
        mine = _squared_mu(left)
        if mine is not None:
            return mine <= squared
        mu = ours.gdp_bound()
        return math.isfinite(mu) and Fraction(mu) ** 2 <= squared
    same = all(leaf.symmetric for leaf, _ in (*left.terms, *right.terms))
    return all(_below(ours, theirs, way) for way in ((Direction.REMOVE,) if same else Direction))


def goal_point(goal: PrivacyLoss) -> tuple[float, float] | None:
    """(epsilon, delta) where the goal is just that."""
    alone = len(goal.terms) == 1 and goal.terms[0][1] == 1 and goal.group == 1
    return goal.terms[0][0].point if alone else None


def _as_stored(_: str, value: float) -> Fraction:
    """The number the computation uses, to the last bit."""
    return Fraction(value)


def _squared_mu(loss: PrivacyLoss) -> Fraction | None:
    """mu squared of a loss that is all Gaussian, exactly; a group of k has k times the mu."""
    squares = [(leaf.squared_mu(_as_stored), count) for leaf, count in loss.terms]
    known = [count * square for square, count in squares if square is not None]
    return sum(known, Fraction(0)) * loss.group**2 if len(known) == len(squares) else None


# ---- profiles ----


def _below(ours: Reader, theirs: Reader, way: Direction) -> bool:
    """One direction: our upper bounds under their lower ones, at all epsilons."""
    mine, other = OneDirection.of(ours.loss.terms, way), OneDirection.of(theirs.loss.terms, way)
    size = ours.loss.group
    if mine.infinity > (other.infinity if size == 1 else 0.0):
        return False
    if other.infinity == 0.0 and times_up(size, mine.highest) > other.highest:
        return False
    kinks = _kinks(other)
    if kinks is not None:
        # Their profile is linear between its kinks and ours is convex: the kinks decide.
        return all(_upper(ours, mine, e) <= other.delta_bounds(e).lower for e in kinks)
    # Both decrease: between two knots ours at the left one must be below theirs at the right one.
    knots = _knots(mine, size)
    if knots is None:
        return False
    return all(
        _upper(ours, mine, here) <= other.delta_bounds(there, nearby=True).lower for here, there in pairwise(knots)
    )


def _upper(ours: Reader, side: OneDirection, epsilon: float) -> float:
    if ours.loss.group > 1:
        return ours.delta_upper(epsilon)
    ends = side.infinity == 0.0 and epsilon >= side.highest
    return 0.0 if ends else side.delta_bounds(epsilon, nearby=True).upper


def _kinks(side: OneDirection) -> list[float] | None:
    """Where a finite law's profile bends, from 0; None if the law is not finite, or not exact."""
    direct = side.direct
    if direct is None or direct.law.segments or direct.below is not None or direct.mu > 0.0:
        return None
    atoms = np.unique(direct.law.atoms[direct.law.atoms > 0.0])
    return [0.0, *atoms.tolist()] if atoms.size <= 2000 else None


def _knots(side: OneDirection, group: int) -> list[float] | None:
    """A ladder up to the largest loss; None if there is none, for then no ladder is long enough."""
    highest = times_up(group, side.highest)
    if not math.isfinite(highest) or side.infinity > 0.0:
        return None
    rungs: list[float] = (highest * np.linspace(0.0, 1.0, 40) ** 1.5).tolist()
    return rungs


# ---- Renyi curves ----


def _under_curve(left: PrivacyLoss, goal: Terms) -> bool:
    """Renyi-only goals: every order of a concentrated one, the named orders of a Renyi one."""
    named = sorted({order for leaf, _ in goal for order in getattr(leaf, "orders", ())})
    closed = [(leaf.concentrated_goal(), count) for leaf, count in goal]
    if named and len(goal) == 1:
        leaf, count = goal[0]
        claims = zip(getattr(leaf, "orders"), getattr(leaf, "epsilons"), strict=True)  # noqa: B009
        return all(_divergence(left, order) <= count * Fraction(epsilon) for order, epsilon in claims)
    if named or any(zcdp is None for zcdp, _ in closed):
        return False
    rho = sum((count * zcdp[0] for zcdp, count in closed if zcdp), Fraction(0))
    delta = sum((count * zcdp[1] for zcdp, count in closed if zcdp), Fraction(0))
    return _concentrated(left, rho, delta)


def _divergence(loss: PrivacyLoss, order: float) -> Fraction | float:
    squared = _squared_mu(loss)
    return squared * Fraction(order) / 2 if squared is not None else reader(loss).renyi(order)


def _concentrated(loss: PrivacyLoss, rho: Fraction, delta: Fraction) -> bool:
    """Is the loss delta-approximately rho-zCDP? By closed forms, and by the curve of what has none and is bounded."""
    if loss.group > 1:
        return _concentrated(replace(loss, group=1), rho / loss.group**2, Fraction(0))
    known = [(leaf.concentrated(), count) for leaf, count in loss.terms]
    first = sum((count * zcdp[0] for zcdp, count in known if zcdp), Fraction(0))
    second = sum((count * zcdp[1] for zcdp, count in known if zcdp), Fraction(0))
    rest = tuple(term for term, (zcdp, _) in zip(loss.terms, known, strict=True) if zcdp is None)
    if first <= rho and second <= delta:
        left = float(rho - first) * (1.0 - 1e-15)
        if not rest or all(_curve_below(OneDirection.of(rest, way), left) for way in Direction):
            return True
    # The curve of the whole may be lower than the sum of closed forms.
    return second == 0 and all(_curve_below(OneDirection.of(loss.terms, way), float(rho)) for way in Direction)


def _curve_below(side: OneDirection, rho: float) -> bool:
    """Divergence at most rho times the order, at every order; it increases, so intervals of orders decide."""
    if side.infinity > 0.0 or not math.isfinite(side.highest) or rho <= 0.0:
        return False
    last = max(2.0, side.highest / rho)
    waiting = [(1.0, last)]
    for _ in range(MOST_SPLITS):
        if not waiting:
            return True
        low, high = waiting.pop()
        there = side.renyi(high)
        if there <= rho * low:
            continue
        if there > rho * high and high < last:
            return False
        middle = math.sqrt(low * high)
        if not low < middle < high:
            return False
        waiting += [(middle, high), (low, middle)]
    return False


# ---- the smallest Gaussian ----


def least_mu(reading: Reader) -> float:
    """Upper bound on the smallest mu with delta(eps) <= delta_mu(eps) for every eps.

    Exact for Gaussians. Otherwise the least of two: the squares of each leaf's own mu add up (composition keeps the
    order); and the profile of a bounded whole is compared interval by interval. Infinite where neither is finite.
    """
    loss = reading.loss
    squared = _squared_mu(loss)
    if squared is not None:
        return _root_up(squared)
    if any(side.infinity > 0.0 for side in reading.sides):
        return math.inf
    own = [(_leaf_mu(leaf.unamplified), count) for leaf, count in loss.terms]
    apart = math.inf
    if all(math.isfinite(mu) for mu, _ in own):
        apart = _root_up(sum((count * Fraction(mu) ** 2 for mu, count in own), Fraction(0)) * loss.group**2)
    highest = loss.group * max(side.highest for side in reading.sides)
    return min(apart, _bounded_mu(reading, highest, apart))


def _root_up(square: Fraction) -> float:
    """The square root, exact where it is a double, else rounded up; the square itself may be no double."""
    half = (square.denominator.bit_length() - square.numerator.bit_length()) // 2 + 60
    scaled = square * Fraction(4) ** half
    near = Fraction(math.isqrt(scaled.numerator // scaled.denominator)) / Fraction(2) ** half
    try:
        root = float(near)
    except OverflowError:
        return math.inf
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def _leaf_mu(leaf: Leaf) -> float:
    """A mu for one release of a leaf, infinite where none is known."""
    squared = leaf.squared_mu(_as_stored)
    if squared is not None:
        return _root_up(squared)
    sides = [OneDirection.of(((leaf, 1),), way) for way in Direction]
    if leaf.gaussian_above is not None:
        return leaf.gaussian_above * (1.0 + 1e-15)
    if any(side.infinity > 0.0 for side in sides):
        return math.inf
    return gdp.mu_of_pure(max(side.highest for side in sides))


def _bounded_mu(reading: Reader, highest: float, enough: float) -> float:
    """The profile against the Gaussian one by branch and bound.

    On an interval delta is at most its value at the left end, so a mu that reaches that value at the right end will do
    for the whole interval. The interval that asks for the largest mu is halved until that gains little.
    """
    if not math.isfinite(highest) or highest == 0.0 or highest > 1e5:
        return 0.0 if highest == 0.0 else math.inf
    start = _nearby(reading, 0.0)
    needed = _least_mu_at(0.0, start)
    waiting = [(_least_mu_at(highest, start), 0.0, highest, start)]
    for _ in range(MOST_SPLITS):
        waiting.sort()
        epsilon_asked, low, high, value = waiting[-1]
        if epsilon_asked <= needed * (1.0 + FINE) or needed >= enough:
            break
        middle = 0.5 * (low + high)
        there = _nearby(reading, middle)
        needed = max(needed, _least_mu_at(middle, there))
        waiting[-1:] = [
            (_least_mu_at(middle, value), low, middle, value),
            (_least_mu_at(high, there), middle, high, there),
        ]
    return max(epsilon_asked for epsilon_asked, *_ in waiting)


def _nearby(reading: Reader, epsilon: float) -> float:
    if reading.loss.group > 1:
        return reading.delta_upper(epsilon)
    return max(side.delta_bounds(epsilon, nearby=True).upper for side in reading.sides)


def _least_mu_at(epsilon: float, delta: float) -> float:
    """A mu whose delta at epsilon is certainly at least ``delta``; close to the least."""
    if delta == 0.0:
        return 0.0
    low, high = 0.0, 1.0
    while gdp.delta_bounds(high, epsilon).lower < delta:
        low, high = high, 2.0 * high
        if high > 1e9:
            return math.inf
    # delta_mu(epsilon) <= delta_mu(0) <= 0.4 mu, so delta itself is too small a mu; from there in logarithms.
    low = max(low, delta)
    while high - low > 1e-9 * high:
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:
            break
        if gdp.delta_bounds(middle, epsilon).lower < delta:
            low = middle
        else:
            high = middle
    return high
