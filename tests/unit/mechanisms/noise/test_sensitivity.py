"""Sensitivities are those of the table, checked by brute force; sums are exact."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput, Refused
from tallystick.mechanisms.noise.sensitivity import clamp, exact_sum, sensitivity_of

VALUES = (-1.0, 0.0, 0.5, 3.0)


def neighbours(adjacency: Adjacency, choices: tuple[float, ...]) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    pairs = []
    for data in itertools.product(choices, repeat=3):
        if adjacency is Adjacency.ADD_REMOVE:
            pairs.append((data, data[:-1]))
        else:
            pairs += [(data, (*data[:-1], other)) for other in choices]
    return pairs


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_sum_moves_by_exactly_its_sensitivity(adjacency: Adjacency) -> None:
    worst = max(abs(sum(a) - sum(b)) for a, b in neighbours(adjacency, VALUES))
    assert sensitivity_of("sum", lower=-1, upper=3, adjacency=adjacency).l1 == worst


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_histogram_moves_by_exactly_its_sensitivity(adjacency: Adjacency) -> None:
    def histogram(data: tuple[float, ...]) -> np.ndarray:
        return np.array([data.count(v) for v in VALUES])

    moves = [histogram(a) - histogram(b) for a, b in neighbours(adjacency, VALUES)]
    stated = sensitivity_of("histogram", adjacency=adjacency)
    assert stated.l1 == max(np.abs(m).sum() for m in moves)
    assert stated.l2 == pytest.approx(max(np.sqrt((m**2).sum()) for m in moves), rel=1e-15)
    assert Fraction(stated.l2) ** 2 >= max(int((m**2).sum()) for m in moves)
    assert stated.each == max(np.abs(m).max() for m in moves)
    assert stated.changed == max(np.count_nonzero(m) for m in moves)


def test_the_printed_names_of_bounded_and_unbounded_are_not_swapped() -> None:
    # Errata 19: under REPLACE (bounded) a histogram moves by 2, under ADD_REMOVE (unbounded) by 1.
    assert sensitivity_of("histogram", adjacency="replace").l1 == 2 * sensitivity_of("histogram").l1


def test_a_mean_needs_a_public_number_of_rows() -> None:
    with pytest.raises(Refused, match="noisy sum"):
        sensitivity_of("mean", lower=0, upper=1, n=10)
    stated = sensitivity_of("mean", lower=0, upper=1, n=10, adjacency="replace").l1
    assert Fraction(stated) >= Fraction(1, 10)
    assert stated == pytest.approx(0.1)


def test_units_with_several_rows_count_several_times() -> None:
    assert sensitivity_of("count", rows=5).l1 == 5
    assert sensitivity_of("sum", lower=1, upper=3, rows=2).l1 == 6
    # Replaced owners may hold fewer rows, so a positive lower bound helps nobody.
    assert sensitivity_of("sum", lower=1, upper=3, rows=2, adjacency="replace").l1 == 6
    assert sensitivity_of("histogram", rows=3).l2 == 3
    assert sensitivity_of("histogram", rows=3, adjacency="replace").l1 == 6


@pytest.mark.parametrize(
    "arguments",
    [
        {"statistic": "mode"}, {"statistic": 3}, {"statistic": "sum"}, {"statistic": "sum", "lower": 2, "upper": 1},
        {"statistic": "sum", "lower": math.nan, "upper": 1}, {"statistic": "sum", "lower": 0, "upper": math.inf},
        {"statistic": "count", "rows": 0}, {"statistic": "count", "adjacency": "none"},
        {"statistic": "mean", "lower": 0, "upper": 1, "adjacency": "replace"},
        {"statistic": "mean", "lower": 0, "upper": 1, "adjacency": "replace", "n": 0},
    ],
)  # fmt: skip
def test_a_sensitivity_that_cannot_be_stated_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        sensitivity_of(arguments.pop("statistic"), **arguments)  # type: ignore[arg-type]


def test_clamping_is_total_and_refuses_only_what_is_not_numbers() -> None:
    assert clamp(-1, 1)([5, -5, math.nan, math.inf, -math.inf]).tolist() == [1, -1, -1, 1, -1]
    assert clamp(2, 3)([5, object(), "2.5", None, 10**400]).tolist() == [3, 2, 2, 2, 3]
    assert clamp(0, 1)([[5, -5], [0.5, 0]]).tolist() == [[1, 0], [0.5, 0]]
    for bad in ("text", None, {1: 2}):
        with pytest.raises(InvalidInput):
            clamp(0, 1)(bad)
    with pytest.raises(InvalidInput):
        clamp(1, 0)


@given(st.lists(st.floats(-1e300, 1e300, allow_subnormal=True), max_size=40))
def test_an_exact_sum_is_the_real_sum_in_any_order(values: list[float]) -> None:
    truth = sum((Fraction(v) for v in values), Fraction(0))
    assert exact_sum(values, lower=-1e300, upper=1e300) == truth
    assert exact_sum(values[::-1], lower=-1e300, upper=1e300) == truth


def test_a_floating_point_sum_moves_by_more_than_one_value_and_ours_does_not() -> None:
    # Casacuberta et al. 2022: beside 2^53 ones, adding values of 1 does nothing or too much.
    big, small = [2.0**53], [1.0] * 6
    naive = sum(big + small + [1.5]) - sum(big + small)
    assert naive > 1.5
    exact = exact_sum(big + small + [1.5], lower=0, upper=2.0**53) - exact_sum(big + small, lower=0, upper=2.0**53)
    assert exact == Fraction(3, 2)


def test_bounds_beyond_which_records_are_not_told_apart_are_refused() -> None:
    with pytest.raises(InvalidInput, match="4e307"):
        exact_sum([1e308, 1e308, -1e308], lower=-1e308, upper=1e308)
