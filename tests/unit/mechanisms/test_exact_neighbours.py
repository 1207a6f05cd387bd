"""Exact output laws of neighbours whose records are of every type and size: no ratio exceeds the price.

Laws are computed from the exact weights in forty digits, so what is tested is what becomes of the records: integers
beyond doubles, fractions, floats and things that are no numbers, side by side.
"""

from __future__ import annotations

import math
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from tallystick.mechanisms import noise, select
from tallystick.mechanisms.exact.weighted_choice import Scores
from tallystick.mechanisms.select.order_statistics import Cells

BASES = [0, 2**53, 2**60 + 128, 2**80, -(2**60) - 128]  # 128 is half of what doubles are apart there
RECORDS: list[Any] = [
    *(0.5, 2**60, 2**60 + 1, 2**62, -3, None, "x", math.nan, math.inf, 10**30, True, 1e18, 2**53 + 1),
    *(Decimal("1e18"), Fraction(2**61, 3), np.float16(0.5), np.int8(3), np.uint64(2**63)),
]


def typed(exact: Fraction, rng: random.Random) -> Any:
    """A number as one of the types that hold it."""
    kinds: list[Any] = [exact]
    if exact.denominator == 1:
        kinds.append(int(exact))
    if Fraction(float(exact)) == exact:
        kinds += [float(exact), np.float64(float(exact))]
    return rng.choice(kinds)


def law(weights: list[tuple[int, Fraction]]) -> list[Any]:
    """Probabilities of candidates with these (count, exponent)."""
    with mpmath.workdps(40):
        found = [count * mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) for count, x in weights]
        total = mpmath.fsum(found)
        return [weight / total for weight in found]


def ratio(left: list[Any], right: list[Any]) -> float:
    return max(float(abs(mpmath.log(a / b))) for a, b in zip(left, right, strict=True))


def scored(rng: random.Random) -> tuple[list[Any], list[Any]]:
    """Scores of neighbours: each moves by at most 1, its type by chance."""
    base = rng.choice(BASES)
    left = [Fraction(base + rng.randrange(-3, 4)) + Fraction(rng.randrange(4), 4) for _ in range(rng.randrange(2, 6))]
    right = [score + Fraction(rng.randrange(-4, 5), 4) for score in left]
    return [typed(score, rng) for score in left], [typed(score, rng) for score in right]


def chosen(scores: Scores, rate: Fraction) -> list[Any]:
    table = scores.weights(rate)
    for i, exponent in enumerate(table.exponents.tolist()):
        assert abs(Fraction(exponent) - table.exact(i)[1]) <= Fraction(float(table.error[i]))
    return law([table.exact(i) for i in range(scores.behind.size)])


def test_scores_of_any_type_keep_the_price_of_a_choice() -> None:
    rng, mechanism = random.Random(1), select.exponential(epsilon=1.0)
    worst = 0.0
    for _ in range(600):
        pair = [chosen(mechanism.prepare(scores, strict=False), mechanism.rate) for scores in scored(rng)]
        worst = max(worst, ratio(*pair))
    assert 0.5 < worst <= 1 + 1e-12


def test_scores_read_as_one_array_would_break_it() -> None:
    rng, mechanism = random.Random(1), select.exponential(epsilon=1.0)
    worst = 0.0
    for _ in range(600):
        arrays = [np.array([float(score) for score in scores]) for scores in scored(rng)]
        worst = max(worst, ratio(*(chosen(Scores.of(array), mechanism.rate) for array in arrays)))
    assert worst > 10


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_records_of_any_type_keep_the_price_of_a_quantile(adjacency: Any) -> None:
    rng, worst = random.Random(2), 0.0
    for _ in range(400):
        alpha, step = rng.choice([0, 0.25, 0.5, 0.9]), 2.0 ** rng.choice([58, 59, 60])
        mechanism = select.quantile(alpha=alpha, epsilon=1.0, bounds=(0, 2**62), granularity=step, adjacency=adjacency)
        left = rng.choices(RECORDS, k=rng.randrange(1, 6))
        right = [*left, rng.choice(RECORDS)]
        if adjacency == "replace":
            right.pop(rng.randrange(len(left)))
        laws = []
        for data in (left, right):
            cells = Cells.of(mechanism.prepare(data, strict=False), mechanism.lattice.first, mechanism.lattice.last)
            table = cells.weights(Fraction(alpha), mechanism.rate)
            each = [(1, table.exact(cell)[1]) for cell, count in enumerate(cells.counts) for _ in range(int(count))]
            laws.append(law(each))
        worst = max(worst, ratio(*laws))
    assert 0.3 < worst <= 1 + 1e-12


def test_vectors_of_any_type_move_by_no_more_lattice_steps_than_their_price_counts() -> None:
    rng = random.Random(3)
    for turn in range(600):
        distance, step = rng.choice([1, 2, 64]), 2.0 ** rng.randrange(-2, 12)
        about: dict[str, Any] = {"sensitivity": distance, "dimension": 3, "changed": 1}
        if turn % 2:
            mechanism = noise.add_discrete_gaussian(sigma=5.0, **about)
        else:
            mechanism = noise.add_gaussian(sigma=1e4, granularity=step, **about)
        here = Fraction(rng.choice([2**53, 2**60, -(2**61)]) + rng.randrange(-99, 99))
        there = here + rng.choice([-distance, distance])
        points = [
            mechanism.prepare([typed(value, rng), rng.choice([1, 1.0, np.int16(1)]), 0], strict=False)
            for value in (here, there)
        ]
        assert np.abs(points[0] - points[1]).sum() <= math.ceil(distance / mechanism.granularity)
