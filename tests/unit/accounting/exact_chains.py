"""Exact rational power curves of finite pairs and their chains, from the definitions; nothing here uses the package."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import pairwise

Curve = list[tuple[Fraction, Fraction]]
Pair = tuple[list[Fraction], list[Fraction]]


def power_curve(null: list[Fraction], other: list[Fraction]) -> Curve:
    """Corners of the best power of ``other`` against the level of ``null``: most likely outcomes first."""
    outcomes = [(n, o) for n, o in zip(null, other, strict=True) if n or o]
    outcomes.sort(key=lambda m: (m[0] != 0, -(m[1] / m[0] if m[0] else 0)))
    corners = [(Fraction(0), Fraction(0))]
    for n, o in outcomes:
        corners.append((corners[-1][0] + n, corners[-1][1] + o))
    return [c for c, after in pairwise([*corners, (Fraction(2), Fraction(2))]) if c[0] != after[0]]


def at(curve: Curve, x: Fraction) -> Fraction:
    for (a, b), (c, d) in pairwise(curve):
        if a <= x <= c:
            return b + (d - b) * (x - a) / (c - a)
    return curve[-1][1]


def chain(first: Curve, second: Curve) -> Curve:
    levels = {a for a, _ in first}
    for v, _ in second:
        for (a, b), (c, d) in pairwise(first):
            if b < v < d:
                levels.add(a + (c - a) * (v - b) / (d - b))
    return [(x, at(second, at(first, x))) for x in sorted(levels)]


def least(first: Curve, second: Curve) -> Curve:
    """The smaller of two curves, at the corners of both and where they cross."""
    levels = sorted({a for a, _ in first} | {a for a, _ in second})
    for low, high in pairwise(list(levels)):
        here, there = at(first, low) - at(second, low), at(first, high) - at(second, high)
        if here * there < 0:
            levels.append(low + (high - low) * here / (here - there))
    return [(x, min(at(first, x), at(second, x))) for x in sorted(levels)]


def delta(curve: Curve, level: Fraction) -> Fraction:
    return max(y - level * x for x, y in curve)


def largest(first: Curve, second: Curve) -> Curve:
    """The concave hull of the larger of two curves: what a step in either direction may reach."""
    hull: Curve = []
    for c in sorted([*first, *second]):
        if hull and c[0] == hull[-1][0]:
            hull[-1] = max(hull[-1], c)
            continue
        while len(hull) >= 2 and (hull[-1][1] - hull[-2][1]) * (c[0] - hull[-2][0]) <= (c[1] - hull[-2][1]) * (
            hull[-1][0] - hull[-2][0]
        ):
            hull.pop()
        hull.append(c)
    return hull


def hostile_pair(draw: random.Random) -> tuple[list[float], list[float]]:
    """Masses from 1e-300 to almost one, zeros on either side."""

    def masses(size: int) -> list[float]:
        sizes = [0.0, 0.0, 1e-300, 1e-40, 1e-18, 1e-9, 1e-3, 0.1, 1.0]
        free = [draw.random() * draw.choice(sizes) for _ in range(size)]
        big = draw.randrange(size)
        free[big] = 1.0 - math.fsum(m for i, m in enumerate(free) if i != big) if sum(free) < 1 else 1.0
        total = math.fsum(free)
        return [m / total for m in free]

    size = draw.randint(2, 6)
    return masses(size), masses(size)


def exact(p: list[float], q: list[float]) -> Pair:
    """The pair as fractions that sum to one: rounding of the doubles goes to the largest outcome."""

    def whole(masses: list[float]) -> list[Fraction]:
        found = [Fraction(m) for m in masses]
        k = max(range(len(found)), key=lambda i: found[i])
        found[k] += 1 - sum(found)
        return found

    return whole(p), whole(q)
