"""The worst of pairs with outcomes that only one side has, composed: found from outside, judged by listing outcomes."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import pytest

import tallystick as ts

Pair = tuple[list[float], list[float]]
CASES: list[tuple[int, Pair, Pair]] = [
    (3, ([0.0, 1.0], [0.703125, 0.296875]), ([0.5, 0.5], [0.34375, 0.65625])),
    (3, ([0.234375, 0.765625], [0.0, 1.0]), ([0.0, 0.4375, 0.453125, 0.109375], [0.421875, 0.40625, 0.0625, 0.109375])),
    (2, ([0.15625, 0.84375], [1.0, 0.0]), ([0.71875, 0.28125], [0.28125, 0.71875])),
    (3, ([0.0, 0.53125, 0.46875], [0.578125, 0.046875, 0.375]), ([0.265625, 0.734375], [1.0, 0.0])),
    (2, ([0.0, 0.515625, 0.078125, 0.40625], [0.265625, 0.25, 0.15625, 0.328125]), ([0.0, 1.0], [0.546875, 0.453125])),
]


def hockey_stick(p: list[float], q: list[float], level: Fraction) -> Fraction:
    return sum((max(Fraction(a) - level * Fraction(b), Fraction(0)) for a, b in zip(p, q, strict=True)), Fraction(0))


def composed(pair: Pair, count: int, level: Fraction) -> Fraction:
    """At least what the worst of two pairs allows: one of them, composed, outcome by outcome."""
    total = Fraction(0)
    for outcome in product(range(len(pair[0])), repeat=count):
        left, right = Fraction(1), Fraction(1)
        for place in outcome:
            left, right = left * Fraction(pair[0][place]), right * Fraction(pair[1][place])
        total += max(left - level * right, Fraction(0))
    return total


def exact(count: int, pairs: tuple[Pair, Pair], level: Fraction) -> Fraction:
    """The composition of the pair whose profile is the larger of both at every level, from its kinks."""
    kinks = {Fraction(0)}
    for p, q in pairs:
        kinks |= {Fraction(a) / Fraction(b) for a, b in zip(p, q, strict=True) if b}
    fine = sorted(kinks)
    for low, high in pairwise(fine):  # where the two profiles cross between kinks
        gaps = [hockey_stick(*pairs[0], at) - hockey_stick(*pairs[1], at) for at in (low, high)]
        if gaps[0] * gaps[1] < 0:
            kinks.add(low + (high - low) * gaps[0] / (gaps[0] - gaps[1]))
    levels = sorted(kinks)
    heights = [max(hockey_stick(*pair, at) for pair in pairs) for at in levels]
    slopes = [(a - b) / (y - x) for x, y, a, b in zip(levels, levels[1:], heights, heights[1:], strict=False)] + [
        Fraction(0)
    ]
    q = [Fraction(1) - slopes[0], *(before - after for before, after in pairwise(slopes))]
    p = [Fraction(0), *(level * mass for level, mass in zip(levels[1:], q[1:], strict=True)), heights[-1]]
    return composed(([*map(Fraction, p)], [*q, Fraction(0)]), count, level)  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "first", "second"), CASES)
@pytest.mark.parametrize("level", [Fraction(1), Fraction(3, 2), Fraction(4)])
def test_bounds_enclose_the_listed_composition(count: int, first: Pair, second: Pair, level: Fraction) -> None:
    import math

    loss = count * ts.worst(ts.discrete_pair(*first), ts.discrete_pair(*second))
    epsilon = math.log(level)
    near = Fraction(math.exp(epsilon))
    truth = max(exact(count, (first, second), near), exact(count, (first[::-1], second[::-1]), near))
    found = loss.delta_bounds(epsilon=epsilon)
    assert Fraction(found.lower) <= truth * (1 + Fraction(1, 10**15)) + Fraction(1, 10**15)
    assert Fraction(found.upper) >= truth * (1 - Fraction(1, 10**15))
    assert 0.0 <= loss.tradeoff(alpha=0.9) <= 0.1
    assert loss.power(alpha=0.05) <= 1.0
    assert loss.epsilon(delta=0.999) >= 0.0
