"""The integers around exp(-x) enclose it, and samplers refuse bad parameters before drawing."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact import uniform
from tallystick.mechanisms.exact.integer_noise import (
    WeightEnclosures,
    boundaries,
    discrete_gaussian,
    discrete_laplace,
    exp_enclosure,
)
from tallystick.mechanisms.exact.randomness import SYSTEM, Source


class Forbidden(Source):
    """A source that fails the test when anything is drawn."""

    __slots__ = ()
    private = True

    def read(self, count: int) -> memoryview:
        raise AssertionError("randomness was drawn before the input was checked")


@pytest.mark.parametrize("bits", [16, 64, 96, 128, 500, 3000])
def test_integers_enclose_the_exponential(bits: int) -> None:
    exponents = [Fraction(n, d) for n in (1, 2, 17, 693, 10**6, 10**9 + 7) for d in (1, 3, 1000, 10**9, 2**80)]
    with mpmath.workprec(2 * bits + 200):
        for x in [Fraction(0), *exponents]:
            lower, upper = exp_enclosure(x.numerator, x.denominator, bits)
            truth = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
            assert lower <= truth <= upper
            assert upper - lower <= 2


def test_cumulative_enclosures_contain_the_truth_and_nothing_wider() -> None:
    weights = WeightEnclosures(0, [5, 7, 11], [6, 7, 12], left=1, right=2)
    below, above = boundaries(weights, 20)
    for left, a, b, c, right in [(0, 5, 7, 11, 0), (1, 6, 7, 12, 2), (0.5, 5.5, 7, 11.5, 1)]:
        total = left + a + b + c + right
        for low, high, mass in zip(below, above, np.cumsum([left, a, b, c]), strict=True):
            assert low <= mass / total * 2**20 <= high


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, -math.inf, "ten", None, True, 2**51, 1e300])
def test_a_bad_scale_is_refused_before_anything_is_drawn(bad: object) -> None:
    for draw in (discrete_laplace, discrete_gaussian):
        with pytest.raises(InvalidInput, match=r"scale|sigma"):
            draw(bad, size=3, source=Forbidden())  # type: ignore[arg-type]


def test_other_bad_parameters_are_refused_before_anything_is_drawn() -> None:
    calls = [
        lambda: uniform.integers(0, size=1, source=Forbidden()),
        lambda: uniform.integers(2**63 + 1, size=1, source=Forbidden()),
    ]
    for call in calls:
        with pytest.raises(InvalidInput):
            call()


def test_parameters_are_read_exactly_from_numpy_numbers_too() -> None:
    assert discrete_laplace(np.float64(2.0), size=2, source=SYSTEM).shape == (2,)
    assert discrete_gaussian(np.int64(2), size=2, source=SYSTEM).shape == (2,)
