"""Errata 53 to 57 and 60 to 62: objective perturbation, quantiles, regression, subsample and aggregate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import dblquad

from tallystick.mechanisms.aggregate.asymptotics import asymptotic_normality
from tallystick.mechanisms.select.accuracy import order_statistic_gap, quantile_rank_error
from tallystick.theorems import perturbation_error


def test_erratum_53_a_quantile_has_ten_to_the_d_lattice_points_per_unit_of_its_range():
    digits, width, epsilon = 3, 0.003, 1.0
    printed = 2 / epsilon * (digits + math.log(width))
    assert printed < 0  # a negative error
    right = 2 / epsilon * (digits * math.log(10) + math.log(width))
    points = round(10**digits * width)
    ours = quantile_rank_error(points=points, epsilon=epsilon, confidence=1 - math.exp(-1e-9))
    assert ours == pytest.approx(right, abs=1e-6)


def test_errata_54_and_55_bias_and_spread_of_objective_perturbation():
    curvature, ridge, theta, rows = np.diag([1.0, 0.01]), 1.0, np.array([0.0, 1.0]), 1000
    moved = np.linalg.solve(curvature + ridge / rows * np.eye(2), curvature @ theta)
    exact = float(np.linalg.norm(theta - moved))
    printed = ridge / np.linalg.norm(curvature, 2) / rows
    assert printed < exact / 90
    dimension, epsilon, share, sensitivity = 5, 0.5, 0.5, 2.0
    bias, spread = perturbation_error(
        epsilon=epsilon, share=share, sensitivity=sensitivity, dimension=dimension, rows=rows, inverse=100.0,
        curvature=ridge * math.expm1(epsilon * (1 - share)), bound=1.0,
    )  # fmt: skip
    assert exact <= bias <= 1.2 * exact
    sizes = np.random.default_rng(0).gamma(dimension, sensitivity / (epsilon * share), 20_000)  # |V| of that density
    assert sizes.mean() == pytest.approx(40, rel=0.02)
    assert spread == pytest.approx(100 * 40 / rows)
    assert sizes.mean() * sensitivity / (epsilon * share) == pytest.approx(320, rel=0.02)  # as printed


def test_erratum_56_the_cube_covers_the_quotient():
    n, draws = 10_000, np.random.default_rng(1).normal(size=50_000) / 100
    printed = float((np.abs(draws) ** 3).mean() / (1 / math.sqrt(n)))
    assert printed < 2e-4  # falls as 1/n: it never fails
    row = asymptotic_normality(
        np.mean, lambda n, rng: rng.normal(size=n), truth=0.0, sizes=[100], repeats=4000, rng=np.random.default_rng(2)
    )[0]
    assert row.third == pytest.approx(2 * math.sqrt(2 / math.pi), abs=0.15)


def test_erratum_57_the_small_matrix_is_the_one_that_may_be_regular():
    rows = np.random.default_rng(3).normal(size=(50, 3))
    assert np.linalg.matrix_rank(rows @ rows.T) == 3  # of 50: degenerate whatever the data
    assert np.linalg.matrix_rank(rows.T @ rows) == 3  # of 3


def test_erratum_60_order_statistics_are_neither_uniform_nor_independent():
    ordered = np.sort(np.random.default_rng(4).random((20_000, 9)), axis=1)
    second, seventh = ordered[:, 1], ordered[:, 6]
    assert (second.mean(), seventh.mean()) == pytest.approx((0.2, 0.7), abs=0.01)
    assert np.corrcoef(second, seventh)[0, 1] == pytest.approx(0.33, abs=0.02)
    assert order_statistic_gap(count=9, first=2, second=7, confidence=0.5)[0] == 0.5


def test_erratum_61_a_private_quantile_may_lie_below_the_true_one():
    data, alpha, found = np.arange(1, 11), 0.5, 2.5
    share = np.mean(data <= found)
    assert not data[round(10 * alpha) - 1] <= found  # X_(n alpha) <= T, as printed
    assert data[round(10 * share) - 1] <= found < data[round(10 * share)]  # X_(n F(T)) <= T < X_(n F(T) + 1)


def test_erratum_62_a_change_of_variables_in_d_dimensions_has_the_factor_n_to_the_minus_d():
    n = 3.0
    plain = dblquad(lambda y, x: math.exp(-math.hypot(x, y)), -30, 30, -30, 30, epsabs=1e-6)[0]
    scaled = dblquad(lambda y, x: math.exp(-n * math.hypot(x, y)), -10, 10, -10, 10, epsabs=1e-6)[0]
    assert scaled == pytest.approx(plain / n**2, rel=1e-4)
    assert scaled < 0.5 * plain / n  # as printed, a density whose total is not one
