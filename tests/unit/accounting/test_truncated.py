"""Poisson batches cut at a largest size: the proved bound against mechanisms small enough to list."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import tallystick as ts
from tallystick.accounting.adjacency import Direction
from tallystick.accounting.leaves.sampled import Sampled
from tallystick.accounting.leaves.truncated import Truncated, binomial_tail
from tallystick.errors import InvalidInput

ARGUMENTS = {"rate": 0.3, "largest": 2, "population": 5}


def exact_tail(trials: int, chance: Fraction, least: int) -> Fraction:
    terms = (math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(least, trials + 1))
    return sum(terms, Fraction(0))


@pytest.mark.parametrize(("trials", "least"), [(10, 1), (10, 9), (200, 40), (999, 20), (3, 4), (5, 5)])
def test_the_tail_bound_is_above_the_tail_and_close_to_it(trials: int, least: int) -> None:
    chance = Fraction(1, 100)
    truth, bound = exact_tail(trials, chance, least), binomial_tail(trials, 0.01, least)
    assert bound >= float(truth)
    assert bound <= 2.0 * float(truth) + 1e-300


def test_the_tail_bound_is_one_at_and_under_the_mean() -> None:
    assert binomial_tail(1000, 0.1, 100) <= 1.0
    assert binomial_tail(1000, 0.1, 90) == 1.0


def cut_batches(units: list[int], rate: float, largest: int, noise: float) -> dict[int, float]:
    """Law of a noisy sum: each unit is sampled at ``rate``, a big batch keeps its *largest* values, then a step of
    two-sided geometric noise cut at +-8 is added."""
    steps = np.arange(-8, 9)
    weights = np.exp(-noise * np.abs(steps))
    weights /= weights.sum()
    law: dict[int, float] = {}
    for taken in product((False, True), repeat=len(units)):
        chance = math.prod(rate if t else 1.0 - rate for t in taken)
        batch = sorted((u for u, t in zip(units, taken, strict=True) if t), reverse=True)[:largest]
        for step, weight in zip(steps.tolist(), weights.tolist(), strict=True):
            law[sum(batch) + step] = law.get(sum(batch) + step, 0.0) + chance * weight
    return law


@pytest.mark.parametrize("others", [[0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 1, 0]])
@pytest.mark.parametrize("unit", [0, 1])
def test_the_bound_holds_for_mechanisms_that_can_be_listed(others: list[int], unit: int) -> None:
    steps = np.arange(-8, 9)
    weights = np.exp(-0.7 * np.abs(steps))
    weights /= weights.sum()
    wide = np.zeros(19)
    shifted = np.zeros(19)
    wide[1:18], shifted[2:19] = weights, weights
    base = ts.discrete_pair(shifted, wide)
    loss = base.sampled(**ARGUMENTS)
    with_unit = cut_batches([*others, unit], 0.3, 2, 0.7)
    without = cut_batches(others, 0.3, 2, 0.7)
    keys = sorted(set(with_unit) | set(without))
    p, q = (np.array([law.get(k, 0.0) for k in keys]) for law in (with_unit, without))
    for epsilon in (0.0, 0.1, 0.3, 0.6):
        level = math.exp(epsilon)
        truth = max(float(np.sum(np.maximum(p - level * q, 0.0))), float(np.sum(np.maximum(q - level * p, 0.0))))
        assert truth <= loss.delta(epsilon=epsilon) + 1e-12


def test_cutting_costs_at_most_eta_times_rate_and_never_less_than_nothing() -> None:
    base = ts.gaussian(sigma=1).terms[0][0]
    eta = binomial_tail(999, 0.01, 30)
    assert 1e-9 < eta < 1e-4
    grid = np.linspace(-0.5, 3.0, 15)
    for direction in Direction:
        plain = Sampled(base, 0.01).pair(direction).upper.excess(grid)
        cut = Truncated(base, 0.01, 30, 1000).pair(direction).upper.excess(grid)
        assert np.all(plain <= cut)
        assert np.all(cut <= plain + eta * 0.01 * (1.0 + 1e-9) + 1e-15)


def test_many_cut_steps_are_enclosed() -> None:
    bounds = (1000 * ts.gaussian(sigma=1).sampled(rate=0.01, largest=200, population=10_000)).epsilon_bounds(delta=1e-5)
    assert 0.0 < bounds.lower <= bounds.upper
    assert bounds.upper - bounds.lower < 1e-3 * bounds.upper


@pytest.mark.parametrize("direction", list(Direction))
def test_the_lower_pair_is_below_the_upper(direction: Direction) -> None:
    pair = Truncated(ts.gaussian(sigma=1).terms[0][0], 0.1, 20, 100).pair(direction)
    grid = np.linspace(-1.0, 3.0, 30)
    assert np.all(pair.lower.excess(grid) <= pair.upper.excess(grid))


def test_a_cut_that_never_happens_is_plain_sampling() -> None:
    base = ts.laplace(scale=1)
    assert base.sampled(rate=0.1, largest=50, population=50) == base.sampled(rate=0.1)
    assert base.sampled(rate=0.0, largest=5, population=50) == ts.no_loss()


def test_a_written_loss_reads_back() -> None:
    loss = 5 * ts.gaussian(sigma=1).sampled(rate=0.01, largest=300, population=10_000)
    assert ts.PrivacyLoss.from_json(loss.to_json()) == loss
    assert "sampled(rate=0.01, largest=300, population=10000)" in str(loss)


@pytest.mark.parametrize(
    "arguments",
    [
        {"largest": 10},
        {"population": 10},
        {"largest": 0, "population": 10},
        {"largest": 2.5, "population": 10},
        {"largest": 2, "population": 0},
        {"largest": math.nan, "population": 10},
    ],
)
def test_bad_cuts_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        ts.gaussian(sigma=1).sampled(rate=0.1, **arguments)  # type: ignore[arg-type]
