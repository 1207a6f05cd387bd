"""Chapters 3 and 4: randomized response, Laplace, sensitivities."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad

import tallystick.theorems as theorems
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput


@pytest.mark.parametrize("coin", [0.01, 0.3, 0.5, 0.99])
def test_randomized_response_epsilon_is_the_greatest_log_ratio_of_its_table(coin):
    table = np.array([[1 - coin / 2, coin / 2], [coin / 2, 1 - coin / 2]])
    worst = max(abs(math.log(a / b)) for a, b in zip(table[0], table[1], strict=True))
    assert worst <= theorems.randomized_response_epsilon(coin=coin) <= worst * (1 + 1e-9) + 1e-12


def test_a_fair_coin_is_perfect_privacy_and_no_coin_is_none():
    assert theorems.randomized_response_epsilon(coin=1.0) == 0.0
    assert theorems.randomized_response_epsilon(coin=0.0) == math.inf


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.5, 3.0, 50.0])
def test_coin_and_epsilon_are_inverse_and_err_towards_privacy(epsilon):
    coin = theorems.randomized_response_coin(epsilon=epsilon)
    exact = 2 / (1 + math.exp(epsilon))
    assert exact <= coin <= exact * (1 + 1e-11)


def test_randomized_response_variance_is_that_of_the_unbiased_estimate():
    epsilon, theta = 0.8, 0.3
    p = 2 / (1 + math.exp(epsilon))
    yes = p / 2 + (1 - p) * theta
    variance_of_one = yes * (1 - yes) / (1 - p) ** 2
    found = theorems.randomized_response_variance(epsilon=epsilon, people=7, proportion=theta)
    assert found == pytest.approx(variance_of_one / 7, rel=1e-12)


def test_laplace_proportion_variance_by_quadrature():
    epsilon, people, theta = 0.7, 50, 0.2
    scale = 1 / (people * epsilon)
    noise = 2 * quad(lambda x: x * x * math.exp(-x / scale) / (2 * scale), 0, 60 * scale)[0]
    found = theorems.laplace_proportion_variance(epsilon=epsilon, people=people, proportion=theta)
    assert found == pytest.approx(theta * (1 - theta) / people + noise, rel=1e-9)


def test_laplace_scale_bounds_the_density_ratio():
    scale = theorems.laplace_scale(epsilon=0.5, sensitivity=2.0)
    grid = np.linspace(-20, 20, 4001)
    ratio = np.max(np.abs(grid - 2.0) - np.abs(grid)) / scale
    assert ratio <= 0.5


@pytest.mark.parametrize("cells", [2, 3, 5])
def test_histogram_sensitivity_by_moving_one_record(cells):
    base = np.zeros(cells)
    moved = max(np.abs(np.eye(cells)[i] - np.eye(cells)[j]).sum() for i, j in itertools.permutations(range(cells), 2))
    added = max(np.abs(np.eye(cells)[i] - base).sum() for i in range(cells))
    assert theorems.histogram_sensitivity() == moved
    assert theorems.histogram_sensitivity(adjacency=Adjacency.ADD_REMOVE) == added


def test_clamped_sum_sensitivity_by_enumeration():
    lower, upper = -3.0, 2.0
    values = np.linspace(lower, upper, 11)
    replace = max(abs(a - b) for a in values for b in values)
    add = max(abs(a) for a in values)
    assert theorems.clamped_sum_sensitivity(lower=lower, upper=upper) == pytest.approx(replace, rel=1e-9)
    found = theorems.clamped_sum_sensitivity(lower=lower, upper=upper, adjacency=Adjacency.ADD_REMOVE)
    assert found == pytest.approx(add, rel=1e-9)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_regression_statistics_are_the_distinct_sums_of_the_normal_equations(p):
    # columns: x_1..x_p, and 1 for the intercept; sums of products of pairs, plus products with y
    squares_and_products = p + p * (p - 1) // 2
    sums_of_x, with_y, sum_of_y = p, p, 1
    assert theorems.regression_statistics(covariates=p) == squares_and_products + sums_of_x + with_y + sum_of_y


def test_counts_have_one_unit_of_sensitivity_each():
    assert theorems.counts_sensitivity(queries=9) == 9.0


def test_rates_agree_with_the_comparison_of_the_notes():
    n, eps = 10_000, 0.5
    assert theorems.local_rate(people=n, epsilon=eps, moments=2) == pytest.approx(1 / (eps * math.sqrt(n)))
    assert theorems.central_rate(people=n, epsilon=eps, moments=2) == pytest.approx(1 / n + 1 / (eps * n))
    assert theorems.local_rate(people=n, epsilon=eps, moments=1e9) == pytest.approx(1 / (n * eps**2), rel=1e-6)
    with pytest.raises(InvalidInput):
        theorems.local_rate(people=n, epsilon=eps, moments=1.5)


def test_effective_people_is_the_inverse_rate_and_never_more_than_there_are():
    assert theorems.effective_people(people=10_000, epsilon=1.0, moments=2, local=True) == pytest.approx(100)
    assert theorems.effective_people(people=10_000, epsilon=9.0, local=True) == pytest.approx(10_000)
    assert theorems.effective_people(people=10_000, epsilon=1.0) == pytest.approx(10_000 / (1 + 1e-4))
