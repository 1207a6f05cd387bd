"""One rule for every record: what a list becomes is what its records become one by one, exactly."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tallystick.errors import InvalidInput
from tallystick.mechanisms import noise, response
from tallystick.mechanisms.inputs import LARGEST, number, numbers, records, scores
from unit.mechanisms.test_hostile_data import HOSTILE, Column, Rude


@pytest.mark.parametrize("seed", range(40))
def test_no_record_changes_what_another_becomes(seed: int) -> None:
    rng = random.Random(seed)
    plain: list[Any] = [
        0.1,
        1e20,
        2**60 + 1,
        2**53 + 1,
        -(2**53) - 1,
        -3,
        True,
        np.float16(0.5),
        np.int8(7),
        np.uint64(2**63 + 1),
        2**63,
    ]
    pool = plain if seed % 2 else HOSTILE
    given = rng.choices(pool, k=rng.randrange(1, 9))
    together = numbers("data", given, strict=False)
    alone = [numbers("data", [entry], strict=False) for entry in given]
    assert together.exact() == [one.exact()[0] for one in alone]
    assert together.near.tolist() == [one.near[0] for one in alone]
    for entry, found, near in zip(given, together.exact(), together.near.tolist(), strict=True):
        exact = number(entry)
        wanted = Fraction(0) if exact is None or exact != exact else Fraction(min(max(exact, -LARGEST), LARGEST))
        assert Fraction(found) == wanted
        assert near == float(wanted)


@pytest.mark.parametrize("edge", [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_at_the_edge_of_doubles_is_not_rounded_by_a_float_beside_it(edge: int, sign: int) -> None:
    assert numbers("data", [sign * edge, 0.5], strict=True).exact() == [sign * edge, 0.5]


@pytest.mark.parametrize("dtype", ["i1", "u8", "i8", "f2", "f4", "f8", "longdouble", "?", "O"])
def test_an_array_becomes_what_its_list_becomes(dtype: str) -> None:
    array = np.array([0, 1, 3, 100], dtype=dtype)
    if dtype in ("u8", "i8", "O"):
        array[2:] = 2**60 + 1, 2**62 + 3
    assert numbers("data", array, strict=True).exact() == numbers("data", list(array), strict=True).exact()
    assert records("data", array, strict=True).tolist() == records("data", list(array), strict=True).tolist()


def test_scores_keep_their_exact_distances() -> None:
    given = [2**60, 2**60 + 1, 0.1, Fraction(1, 3), -1e300]
    found = scores("scores", given, strict=True)
    assert [found.exact(i) for i in range(5)] == [Fraction(2**60 + 1) - Fraction(entry) for entry in given]
    assert found.behind.tolist() == [float(found.exact(i)) for i in range(5)]


@pytest.mark.parametrize("bad", [math.nan, math.inf, 10**400, "1", None, [1.0], Rude(), 1j])
def test_a_direct_call_refuses_any_record_that_is_no_finite_number(bad: Any) -> None:
    with pytest.raises(InvalidInput):
        numbers("data", [1.0, bad], strict=True)


@pytest.mark.parametrize("seed", range(30))
def test_numbers_of_any_type_round_to_lattice_points_no_further_apart_than_they_are(seed: int) -> None:
    rng = random.Random(seed)
    granularity, distance = 2.0 ** rng.randrange(-3, 8), rng.choice([1, 3, 64, 0.5])
    mechanism = noise.add_laplace(scale=1e3, sensitivity=distance, dimension=2, changed=1, granularity=granularity)
    makes: list[Any] = [lambda x: x, float, np.float64, lambda x: Decimal(x.numerator) / x.denominator]
    for _ in range(50):
        left = Fraction(rng.choice([0, 2**53, 2**60, -(2**60)]) + rng.randrange(-300, 300))
        right = left + Fraction(distance) * rng.choice([-1, 1])
        pair = [rng.choice(makes if Fraction(float(x)) == x else makes[:1])(x) for x in (left, right)]
        points = [mechanism.prepare([entry, rng.choice([0, 0.5])], strict=False)[0] for entry in pair]
        assert abs(points[0] - points[1]) <= math.ceil(distance / granularity)


def test_columns_of_other_libraries_are_arrays() -> None:
    assert records("data", Column(np.array([1.0, 2.0])), strict=True).tolist() == [1.0, 2.0]
    assert response.randomize(epsilon=1.0).prepare(Column(np.array([0, 1])), strict=True).tolist() == [0, 1]
