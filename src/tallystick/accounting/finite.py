"""Finite pairs: their laws, the worse of both orders, and the pairs that trade-off polygons stand for.

Masses stay masses: nothing here is recovered from a cumulative sum, so an outcome of mass 1e-300 keeps its loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tallystick.accounting.polygon import LowerTradeoff
from tallystick.numerics.law import Array, Law, above_dust
from tallystick.rounding import double_above

MOST = 1e300
"""Ratios beyond this are known by their logarithms alone."""


def law_of_pair(p: Array, q: Array) -> Law:
    """The loss law of a finite pair of mass vectors."""
    both = (p > 0) & (q > 0)
    p, q, lost, gained = p[both], q[both], p[q == 0], q[p == 0]
    return _law(_losses(p, q), np.log(p), np.log(q), _sum_above(lost), _sum_above(gained))


def _sum_above(masses: Array) -> float:
    """The least double that is not below the sum: mass at infinity must not be understated even by one unit."""
    parts = masses.tolist()
    total = math.fsum(parts)
    return total if math.fsum([*parts, -total]) <= 0.0 else math.nextafter(total, math.inf)


def _losses(p: Array, q: Array) -> Array:
    """log(p/q). p - q is exact where they are close, so the loss keeps its relative accuracy near zero."""
    near = np.abs(p - q) < 0.5 * q
    close = np.log1p(np.where(near, (p - q) / np.where(near, q, 1.0), 0.0))
    with np.errstate(over="ignore", under="ignore"):
        ratio = p / q
    # The logarithms of tiny masses are huge, and their difference keeps few digits of a small loss.
    some = (ratio > 1.0 / MOST) & (ratio < MOST)
    return np.where(near, close, np.where(some, np.log(np.where(some, ratio, 1.0)), np.log(p) - np.log(q)))


def log_ratio(p: Fraction, q: Fraction) -> float:
    """Return log(p / q) of exact masses.

    >>> log_ratio(Fraction(1, 4), Fraction(1, 2)) == -math.log(2.0)
    True
    """
    # The quotient of two integers is rounded once, however long they are.
    u, v = p.numerator * q.denominator, q.numerator * p.denominator
    if 2 * abs(u - v) < v:
        return math.log1p((u - v) / v)
    return math.log(u / v) if max(u, v) < int(MOST) * min(u, v) else math.log(u) - math.log(v)


def _law(losses: Array, logs: Array, others: Array, infinity: float, zero: float) -> Law:
    """Both masses as they are: one less the loss would have the rounding of the larger of them."""
    order = np.argsort(losses, kind="stable")
    distinct = np.unique(losses)
    lattice = float(distinct[1] - distinct[0]) if distinct.size == 2 else None
    return Law(
        losses[order],
        logs[order],
        infinity=above_dust(infinity),
        zero=above_dust(zero),
        lattice=lattice,
        log_others=others[order],
    )


class _Line(NamedTuple):
    """The profile P - a Q between two kinks: what P and Q have above, from level a = e^epsilon >= 1 on."""

    start: Fraction
    p: int
    q: int


def _in_order(level: Fraction) -> tuple[float, Fraction]:
    return double_above(level), level  # fractions are slow to compare, and seldom need it


def _lines(p: Sequence[int], q: Sequence[int]) -> list[_Line]:
    """The profile of one order at levels above one, line by line."""
    both = zip(p, q, strict=True)
    kinks = sorted(((Fraction(u, v), u, v) for u, v in both if u > v > 0), key=lambda one: _in_order(one[0]))
    lines: list[_Line] = []
    # From the last line, which is constant, down to level one.
    above = (sum(u for u, v in zip(p, q, strict=True) if v == 0), 0)
    for level, u, v in reversed(kinks):
        if not lines or lines[-1].start != level:
            lines.append(_Line(level, *above))
        above = above[0] + u, above[1] + v
    return [_Line(Fraction(1), *above), *reversed(lines)]


def _larger(first: list[_Line], second: list[_Line]) -> list[_Line]:
    """The larger of two profiles, line by line from level one."""
    lines: list[_Line] = []
    levels = sorted((line.start for line in first + second), key=_in_order)
    i = j = 0
    for level, after in zip(levels, [*levels[1:], None], strict=True):
        i += i + 1 < len(first) and first[i + 1].start == level
        j += j + 1 < len(second) and second[j + 1].start == level
        one, two = first[i], second[j]
        # On a tie the one that falls more slowly is the larger one from here on.
        lead = (one.p - two.p) * level.denominator - (one.q - two.q) * level.numerator
        here, other = (one, two) if (lead or two.q - one.q) >= 0 else (two, one)
        parts = [(level, here)]
        if here.q > other.q:
            cross = Fraction(here.p - other.p, here.q - other.q)
            if after is None or cross < after:
                parts.append((cross, other))
        for start, line in parts:
            if not lines or line[1:] != lines[-1][1:]:
                lines.append(_Line(start, line.p, line.q))
    return lines


Outcomes = list[tuple[Fraction, Fraction]]


def worse_of_both_orders(p: Iterable[float], q: Iterable[float]) -> Outcomes:
    """The pair whose profile is, at every epsilon, the larger of H(P||Q) and H(Q||P): what REPLACE neighbours see.

    Exact: every kink of the larger profile is an outcome, and where the profiles cross the level is a fraction too.

    >>> [(float(p), float(q)) for p, q in worse_of_both_orders([1.0, 0.0], [0.5, 0.5])]
    [(0.5, 0.5), (0.5, 0.0), (0.0, 0.5)]
    """
    masses = [Fraction(mass) for mass in (*p, *q)]
    whole = math.lcm(*(mass.denominator for mass in masses))
    parts = [mass.numerator * (whole // mass.denominator) for mass in masses]
    left, right = parts[: len(parts) // 2], parts[len(parts) // 2 :]
    # Doubles that sum to one but for a rounding would cross next to level one, with more mass than there is.
    first, second = sum(left), sum(right)
    left, right, whole = [part * second for part in left], [part * first for part in right], first * second
    lines = _larger(_lines(left, right), _lines(right, left))
    kinks = [(a.p - b.p, a.q - b.q) for a, b in pairwise(lines)]
    given = lines[-1].p
    centre = max(0, whole - given - sum(own + other for own, other in kinks))
    ends = [(centre, centre), (given, 0), (0, given)]
    outcomes = [*kinks, *((other, own) for own, other in kinks), *(pair for pair in ends if any(pair))]
    return [(Fraction(own, whole), Fraction(other, whole)) for own, other in outcomes]


def law_of_outcomes(outcomes: Outcomes) -> Law:
    """The loss law of exact masses: the mass of P is rounded up where a double is not exact, and so is that of Q."""
    both = [(own, other) for own, other in outcomes if own and other]
    infinity = sum((own for own, other in outcomes if not other), Fraction(0))
    zero = sum((other for own, other in outcomes if not own), Fraction(0))
    logs, others = (np.array([math.log(double_above(pair[i])) for pair in both]) for i in (0, 1))
    losses = np.array([log_ratio(own, other) for own, other in both])
    return _law(losses, logs, others, double_above(infinity), double_above(zero))


def law_of_polygon(polygon: LowerTradeoff) -> Law:
    """The pair of a trade-off polygon: a segment is wide as its mass of P and drops by that of Q, both exact."""
    alphas = [Fraction(0), *map(Fraction, polygon.alpha.tolist()), Fraction(1)]
    betas = [Fraction(1), *map(Fraction, polygon.beta.tolist()), Fraction(0)]
    none = Fraction(0)
    steps = zip(pairwise(alphas), pairwise(betas), strict=True)
    return law_of_outcomes([(max(b - a, none), max(top - low, none)) for (a, b), (top, low) in steps])
