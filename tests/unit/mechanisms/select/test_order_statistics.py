"""Private quantiles: the law on a small lattice, its price on every neighbouring pair, degenerate data."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from statistical.exact import two_quantiles_law
from tallystick.accounting import losses as accounting
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.lattice import BoundedLattice
from tallystick.mechanisms.select.order_statistics import Cells, Quantile, Quantiles, median, quantile, quantiles
from unit.mechanisms.coverage import ENUMERATION, INTERVAL, checks
from unit.mechanisms.neighbours import FEW, holds, log_ratio, refuses

POINTS = 5
DATA = [np.array(d, dtype=float) for k in range(4) for d in itertools.combinations_with_replacement(range(POINTS), k)]


def law(data: np.ndarray, alpha: float, rate: float) -> np.ndarray:
    """Straight from the definition: every lattice point weighed on its own."""
    out = []
    for t in range(POINTS):
        below, through = (data < t).sum(), (data <= t).sum()
        out.append(math.exp(-rate * max(below - alpha * data.size, alpha * data.size - through, 0.0)))
    return np.array(out) / sum(out)


def replaced(data):
    for i in range(data.size):
        for value in range(POINTS):
            other = data.copy()
            other[i] = value
            yield np.sort(other)


def added(data):
    for value in range(POINTS):
        yield np.sort(np.append(data, value))


@checks(ENUMERATION, Quantile)
@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_price_holds_on_every_neighbouring_pair(alpha: float, adjacency: Adjacency) -> None:
    mechanism = quantile(alpha=alpha, epsilon=1.0, bounds=(0, POINTS - 1), granularity=1.0, adjacency=adjacency)
    neighbours = replaced if adjacency is Adjacency.REPLACE else added
    rate = float(mechanism.rate)
    pairs = [(law(d, alpha, rate), law(other, alpha, rate)) for d in DATA for other in neighbours(d)]
    assert holds(mechanism.privacy, pairs)
    assert log_ratio(pairs) > 0.35


def test_the_notes_sampler_with_epsilon_for_half_epsilon_is_contradicted() -> None:
    claim = accounting.exponential(epsilon=1.0, adjacency=Adjacency.REPLACE)
    pairs = [(law(d, 0.5, 1.0), law(other, 0.5, 1.0)) for d in DATA for other in replaced(d)]
    assert not holds(claim, pairs)
    assert log_ratio(pairs) > 1.3


def test_cells_give_the_same_law_as_the_definition() -> None:
    for data in DATA:
        cells = Cells.of(data.astype(np.int64), 0, POINTS - 1)
        table = cells.weights(Fraction(1, 4), Fraction(1, 2))
        per_point = np.repeat(np.exp(-table.exponents), cells.counts)
        assert cells.counts.sum() == POINTS
        assert per_point / per_point.sum() == pytest.approx(law(data, 0.25, 0.5), abs=1e-12)


def test_float_exponents_are_within_their_stated_error_of_the_exact_ones() -> None:
    data = np.sort((np.arange(1001) ** 2) % 997)
    cells = Cells.of(data, 0, 1000)
    table = cells.weights(Fraction(0.1), Fraction(1, 3))
    for cell in range(0, cells.counts.size, 7):
        count, exponent = table.exact(cell)
        assert count == table.counts[cell]
        assert abs(Fraction(float(table.exponents[cell])) - exponent) <= Fraction(float(table.error[cell]))


def test_all_equal_data_give_their_value() -> None:
    for value in (0.0, 3.5, 10.0):
        mechanism = median(epsilon=50.0, bounds=(0, 10), granularity=0.5)
        assert {mechanism.release([value] * 100) for _ in range(20)} == {value}


def test_no_records_give_any_lattice_point() -> None:
    mechanism = median(epsilon=1.0, bounds=(0, 1), granularity=0.5)
    assert {mechanism.release([]) for _ in range(200)} == {0.0, 0.5, 1.0}


def test_outputs_are_lattice_points_within_the_bounds_whatever_the_data() -> None:
    mechanism = quantile(alpha=0.3, epsilon=0.1, bounds=(-1, 1), granularity=2.0**-10)
    for data in ([0.1, 0.2, 0.30000001], [math.pi, -math.e, 1e300]):
        for _ in range(50):
            out = mechanism.release(data)
            assert -1 <= out <= 1
            assert (out * 2**10).is_integer()


@checks(INTERVAL, Quantile)
def test_the_result_is_close_in_rank_as_promised() -> None:
    data = np.random.default_rng(1).normal(50, 10, 5000)
    mechanism = quantile(alpha=0.25, epsilon=1.0, bounds=(0, 100), granularity=2.0**-8)
    limit = mechanism.error(confidence=1 - 1e-9)
    for _ in range(20):
        rank = (np.round(data * 2**8) / 2**8 <= mechanism.release(data)).sum()
        assert abs(rank - 1250) <= limit + 1


def test_several_quantiles_come_in_order_and_cost_levels_not_quantiles() -> None:
    data = np.random.default_rng(2).uniform(0, 1, 20_000)
    mechanism = quantiles(alphas=[i / 10 for i in range(1, 10)], epsilon=2.0, bounds=(0, 1))
    found = mechanism.release(data)
    assert list(found) == sorted(found)
    assert np.abs(np.array(found) - np.arange(1, 10) / 10).max() < 0.05
    assert mechanism.privacy == 4 * accounting.exponential(epsilon=0.5)
    assert float(mechanism.privacy.epsilon(delta=0.0)) <= 2 + 1e-9


@checks(ENUMERATION, Quantiles)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_two_quantiles_keep_their_price_on_every_neighbouring_pair(adjacency: Adjacency) -> None:
    about = {"alphas": (1 / 3, 2 / 3), "epsilon": 1.0, "bounds": (0, POINTS - 1), "granularity": 1.0}
    mechanism = replace(quantiles(**about, adjacency=adjacency), tie_bits=1)
    neighbours = replaced if adjacency is Adjacency.REPLACE else added
    laws = {}

    def of(data):
        key = tuple(data)
        if key not in laws:
            joint = two_quantiles_law(mechanism, data)
            laws[key] = joint[joint > 0]
        return laws[key]

    assert holds(mechanism.privacy, [(of(d), of(other)) for d in DATA for other in neighbours(d)], levels=FEW)


@pytest.mark.parametrize("value", [[], [[1.0]], "data", [math.nan], [math.inf], None, 2.0, range(10**9)])
def test_bad_data_are_refused_before_randomness_is_drawn(value) -> None:
    assert refuses(median(epsilon=1.0, bounds=(0, 1)), value)
    assert refuses(quantiles(alphas=[0.5], epsilon=1.0, bounds=(0, 1)), value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"alpha": 1.5},
        {"bounds": (1, 0)},
        {"bounds": (0, 0)},
        {"bounds": (0, math.inf)},
        {"bounds": 3},
        {"bounds": (math.nan, 1)},
        {"granularity": 0.3},
        {"granularity": 0.0},
        {"granularity": 4.0, "bounds": (1, 2)},
        {"granularity": 2.0**-80},
    ],
)
def test_bad_parameters_are_refused(wrong) -> None:
    with pytest.raises(InvalidInput):
        quantile(**{"alpha": 0.5, "epsilon": 1.0, "bounds": (0, 1), **wrong})


@pytest.mark.parametrize("alphas", [[], [0.5, 0.5], [0.6, 0.4], [-0.1], 0.5, ["a"]])
def test_bad_levels_are_refused(alphas) -> None:
    with pytest.raises(InvalidInput):
        quantiles(alphas=alphas, epsilon=1.0, bounds=(0, 1))


def test_bounds_far_from_zero_get_a_lattice_with_exact_points() -> None:
    lattice = BoundedLattice.over((1e15, 1e15 + 8))
    assert lattice.points >= 8
    assert 1e15 <= median(epsilon=1.0, bounds=(1e15, 1e15 + 8)).release([1e15 + 3] * 50) <= 1e15 + 8


def test_data_are_rounded_to_the_nearest_lattice_point() -> None:
    lattice = BoundedLattice.over((0, 1), granularity=0.25)
    assert lattice.indices(np.array([-5.0, 0.12, 0.13, 0.99, 7.0])).tolist() == [0, 0, 1, 4, 4]
