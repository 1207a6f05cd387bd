"""Poisson batches cut at a largest size: the proved bound against mechanisms small enough to list."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

import tallystick as ts
from tallystick.accounting.adjacency import Direction
from tallystick.accounting.leaves.sampled import Sampled
from tallystick.accounting.leaves.truncated import Truncated, binomial_tail
from tallystick.errors import InvalidInput

ARGUMENTS = {"rate": 0.3, "largest": 2, "population": 5, "cut": "anyhow"}


def exact_tail(trials: int, chance: Fraction, least: int) -> Fraction:
    inside, whole = chance.numerator, chance.denominator
    terms = (math.comb(trials, k) * inside**k * (whole - inside) ** (trials - k) for k in range(least, trials + 1))
    return Fraction(sum(terms), whole**trials)


@pytest.mark.parametrize(("trials", "least"), [(10, 1), (10, 9), (200, 40), (999, 20), (3, 4), (5, 5)])
def test_the_tail_bound_is_above_the_tail_and_close_to_it(trials: int, least: int) -> None:
    truth, bound = exact_tail(trials, Fraction(0.01), least), binomial_tail(trials, 0.01, least)
    assert Fraction(bound.lower) <= truth <= Fraction(bound.upper)
    assert bound.upper - bound.lower <= 1e-9 * bound.upper + 1e-300


@pytest.mark.parametrize(
    ("chance", "least"), [(0.1, 100), (0.1, 90), (0.5, 1), (0.999, 990), (2.0**-40, 1), (0.25, 240)]
)
def test_the_tail_bound_on_either_side_of_the_mean(chance: float, least: int) -> None:
    truth, bound = exact_tail(1000, Fraction(chance), least), binomial_tail(1000, chance, least)
    assert Fraction(bound.lower) <= truth <= Fraction(bound.upper)
    assert bound.upper - bound.lower <= 1e-9 * bound.upper + 1e-300


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
    eta = binomial_tail(999, 0.01, 30).upper
    assert 1e-9 < eta < 1e-4
    grid = np.linspace(-0.5, 3.0, 15)
    for direction in Direction:
        plain = Sampled(base, 0.01).pair(direction).upper.excess(grid)
        cut = Truncated(base, 0.01, 30, 1000).pair(direction).upper.excess(grid)
        assert np.all(plain <= cut)
        assert np.all(cut <= plain + eta * 0.01 * (1.0 + 1e-9) + 1e-15)


def test_many_cut_steps_are_enclosed() -> None:
    bounds = (
        1000 * ts.gaussian(sigma=1).sampled(rate=0.01, largest=200, population=10_000, cut="anyhow")
    ).epsilon_bounds(delta=1e-5)
    assert 0.0 < bounds.lower <= bounds.upper
    assert bounds.upper - bounds.lower < 1e-3 * bounds.upper


@pytest.mark.parametrize("direction", list(Direction))
def test_the_lower_pair_is_below_the_upper(direction: Direction) -> None:
    pair = Truncated(ts.gaussian(sigma=1).terms[0][0], 0.1, 20, 100).pair(direction)
    grid = np.linspace(-1.0, 3.0, 30)
    assert np.all(pair.lower.excess(grid) <= pair.upper.excess(grid))


def test_a_cut_that_never_happens_is_plain_sampling() -> None:
    base = ts.laplace(scale=1)
    assert base.sampled(rate=0.1, largest=50, population=50, cut="anyhow") == base.sampled(rate=0.1)
    assert base.sampled(rate=0.0, largest=5, population=50, cut="anyhow") == ts.no_loss()


def test_a_written_loss_reads_back() -> None:
    loss = 5 * ts.gaussian(sigma=1).sampled(rate=0.01, largest=300, population=10_000, cut="anyhow")
    assert ts.PrivacyLoss.from_json(loss.to_json()) == loss
    assert "sampled(rate=0.01, largest=300, population=10000, cut='anyhow')" in str(loss)


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


def listed(units: list[float], rate: float, largest: int, x: np.ndarray) -> np.ndarray:
    """Density of a sum with N(0, 1) noise: every sample, and every uniformly drawn batch of a sample that is cut."""
    total = np.zeros(x.shape)
    for taken in product((False, True), repeat=len(units)):
        chance = math.prod(rate if t else 1.0 - rate for t in taken)
        sample = [u for u, t in zip(units, taken, strict=True) if t]
        batches = list(combinations(sample, min(largest, len(sample))))
        for batch in batches:
            total += chance / len(batches) * np.exp(-0.5 * (x - sum(batch)) ** 2) / math.sqrt(2 * math.pi)
    return total


@pytest.mark.parametrize("others", [[0, 0, 0, 0], [-1, -1, -1, -1], [1, -1, 1, -1], [-1, -1, 0, 1, -1]])
@pytest.mark.parametrize(("rate", "largest"), [(0.5, 1), (0.5, 2), (0.2, 1), (0.9, 3), (1.0, 2)])
def test_batches_that_are_cut_at_random_can_be_listed(others: list[float], rate: float, largest: int) -> None:
    """Both sizes of the data at hand that make these neighbours: with the unit, and without it."""
    x, cell = np.linspace(-16.0, 16.0, 20_001, retstep=True)
    p, q = listed([*others, 1.0], rate, largest, x), listed(others, rate, largest, x)
    base = ts.gaussian(sigma=1)
    sizes = [{"population": len(others) + 1, "cut": "ranked"}]
    sizes += [{"population": len(others) + more, "cut": "random"} for more in (0, 1)]
    for claim in sizes:
        loss = base.sampled(rate=rate, largest=largest, **claim)
        for epsilon in (0.0, 0.3, 1.0, 2.5):
            level = math.exp(epsilon)
            for one, two in ((p, q), (q, p)):
                truth = float(np.sum(np.maximum(one - level * two, 0.0))) * cell
                assert truth <= loss.delta(epsilon=epsilon) * (1.0 + 1e-6) + 1e-9


def first_ranked(units: list[float], rate: float, largest: int, x: np.ndarray) -> np.ndarray:
    total = np.zeros(x.shape)
    for taken in product((False, True), repeat=len(units)):
        chance = math.prod(rate if t else 1.0 - rate for t in taken)
        batch = [u for u, t in zip(units, taken, strict=True) if t][:largest]
        total += chance * np.exp(-0.5 * (x - sum(batch)) ** 2) / math.sqrt(2 * math.pi)
    return total


@pytest.mark.parametrize("place", [0, 2, 4])
def test_batches_of_the_first_units_can_be_listed(place: int) -> None:
    x, cell = np.linspace(-16.0, 16.0, 20_001, retstep=True)
    others = [-1.0, -1.0, -1.0, -1.0]
    units = [*others[:place], 1.0, *others[place:]]
    loss = ts.gaussian(sigma=1).sampled(rate=0.5, largest=2, population=5, cut="ranked")
    p, q = first_ranked(units, 0.5, 2, x), first_ranked(others, 0.5, 2, x)
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        for one, two in ((p, q), (q, p)):
            truth = float(np.sum(np.maximum(one - math.exp(epsilon) * two, 0.0))) * cell
            assert truth <= loss.delta(epsilon=epsilon) * (1.0 + 1e-6) + 1e-9


def test_common_cuts_cost_little_where_the_rule_is_known() -> None:
    """dp_accounting proves 5.1048 for neighbours of 1000 and 999 units; ours covers 1001 and 1000 too."""
    steps = {
        cut: 128 * ts.gaussian(sigma=1).sampled(rate=0.01, largest=16, population=1000, cut=cut)
        for cut in ("anyhow", "ranked", "random")
    }
    assert math.isinf(steps["anyhow"].epsilon(delta=1e-6))
    assert steps["ranked"].epsilon(delta=1e-6) == pytest.approx(5.2747, abs=1e-3)
    assert steps["random"].epsilon(delta=1e-6) == pytest.approx(5.0952, abs=1e-3)


def test_replacing_is_never_less_revealing_than_adding() -> None:
    """What makes a larger share of cut batches worse: the theorem for ranked units needs it of every leaf."""
    leaves = [
        ts.gaussian(sigma=1), ts.gdp(mu=0.3), ts.laplace(scale=0.7), ts.pure_dp(epsilon=1),
        ts.approx_dp(epsilon=0.5, delta=0.01), ts.exponential(epsilon=1), ts.discrete_gaussian(sigma=2, sensitivity=3),
        ts.discrete_laplace(scale=2), ts.gaussian(sigma=1).sampled(rate=0.1), ts.laplace(scale=1).sampled(rate=0.1),
        ts.discrete_pair([0.7, 0.2, 0.1], [0.1, 0.2, 0.7]), ts.objective_perturbation(sigma=1, ridge=1),
        ts.gaussian_mixture(sigma=1, sensitivities=[1, 2], probabilities=[0.5, 0.5]),
        ts.randomized_response(epsilon=1, choices=3, adjacency="add_remove"),
    ]  # fmt: skip
    for loss in leaves:
        for epsilon in (0.0, 0.2, 0.7, 1.5):
            assert loss.delta_bounds(epsilon=epsilon).lower <= loss.as_replace().delta(epsilon=epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("bad", [{"cut": "first"}, {"cut": "random", "population": None}, {"cut": 3}])
def test_rules_of_cutting_are_named(bad: dict) -> None:
    with pytest.raises(InvalidInput):
        ts.gaussian(sigma=1).sampled(**{"rate": 0.1, "largest": 2, "population": 5, **bad})


@pytest.mark.parametrize("given", [{}, {"cut": None}, {"cut": "evenly"}])
def test_a_largest_batch_without_a_rule_for_the_cut_is_refused(given: dict[str, str | None]) -> None:
    """The refusal names the three choices and what each of them assumes."""
    with pytest.raises(ts.errors.InvalidInput) as refusal:
        ts.gaussian(sigma=1).sampled(rate=0.01, largest=30, population=1000, **given)
    said = str(refusal.value)
    for choice, assumption in {
        'cut="anyhow"': "assumes nothing",
        'cut="ranked"': "without looking at their data",
        'cut="random"': "all rankings are equally likely",
    }.items():
        assert choice in said
        assert assumption in said


def test_a_rule_for_the_cut_without_a_largest_batch_is_refused() -> None:
    with pytest.raises(ts.errors.InvalidInput, match="largest"):
        ts.gaussian(sigma=1).sampled(rate=0.01, cut="anyhow")
