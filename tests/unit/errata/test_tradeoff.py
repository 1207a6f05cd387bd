"""Errata 7 to 12, 14 and 20: trade-off functions, divergences, the limit theorem."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tallystick.theorems as theorems
from tallystick.theorems import PiecewiseTradeoff
from unit.theorems.brute import type_two_by_tests

GRID = np.linspace(0, 1, 20_001)


def conjugate(f, y):
    return float(np.max(y * GRID - f(GRID)))


def test_erratum_7_the_printed_conjugate_gives_a_delta_above_one():
    f = PiecewiseTradeoff.of_approx_dp(epsilon=1.0, delta=0.1)
    assert 1 + conjugate(f, math.exp(-1.0)) > 1.2  # printed f*(e^-eps)
    assert 1 + conjugate(f, -math.exp(1.0)) == pytest.approx(0.1, abs=1e-3)
    assert theorems.profile_of_tradeoff(f).delta(epsilon=1.0) == pytest.approx(0.1)


def test_erratum_8_the_printed_power_bound_is_beaten_by_a_test():
    alpha, epsilon, delta = 0.5, 1.0, 0.01
    printed = min(math.exp(epsilon) * alpha + delta, math.exp(-alpha) * (alpha - 1 + delta) + 1)
    one = (1 - delta) / (1 + math.exp(-epsilon))
    p = np.array([delta, one, 1 - delta - one, 0.0])
    power = 1 - type_two_by_tests(p, p[::-1], alpha)
    assert printed == pytest.approx(0.7028, abs=5e-5)
    assert power > printed + 0.1
    assert power <= theorems.power_bound(alpha=alpha, epsilon=epsilon, delta=delta) + 1e-12


def test_erratum_9_the_printed_total_variation_misses_half_the_leak():
    f = PiecewiseTradeoff.of_approx_dp(epsilon=0.0, delta=0.2)
    slopes = np.diff(f(GRID)) / np.diff(GRID)
    printed = 0.5 * float(np.sum(np.abs(1 + slopes) * np.diff(GRID)))
    p, q = f.pair()
    truth = float(np.abs(p - q).sum() / 2)
    assert printed == pytest.approx(0.1, abs=1e-3)
    assert truth == pytest.approx(0.2)
    assert theorems.tradeoff_to_tv(f) >= truth - 1e-15


@pytest.mark.parametrize(("epsilon", "delta", "rate"), [(1.0, 0.05, 0.3), (2.0, 0.01, 0.5)])
def test_erratum_10_the_printed_middle_line_is_not_the_operator(epsilon, delta, rate):
    operator = theorems.subsampling_operator(PiecewiseTradeoff.of_approx_dp(epsilon=epsilon, delta=delta), rate=rate)
    tilt = math.tanh(epsilon / 2)
    small, slip = math.log(1 - rate + rate * math.exp(epsilon)), rate * delta
    outer = PiecewiseTradeoff.of_approx_dp(epsilon=small, delta=slip)(GRID)
    printed = np.maximum(outer, 1 - slip - rate * tilt - GRID)
    assert np.max(operator(GRID) - printed) == pytest.approx(rate * delta * tilt, rel=1e-3)
    closed = [
        theorems.subsampled_approx_tradeoff(alpha=a, epsilon=epsilon, delta=delta, rate=rate) for a in GRID[::400]
    ]
    assert np.max(np.abs(operator(GRID[::400]) - closed)) < 1e-9


def test_erratum_11_the_printed_remark_takes_the_log_of_a_negative_number():
    rate = 0.5
    assert 1 - rate * (1 + math.e) < 0
    exact, linear, _ = theorems.amplified_one_dp(rate=rate)
    assert exact == pytest.approx(math.log(1 + rate * (math.e - 1)))
    assert exact <= linear


def test_erratum_12_the_printed_third_moment_is_not_centred():
    mu = 0.5
    z = np.linspace(-12, 12, 200_001)
    weights = np.exp(-(z**2) / 2) * (z[1] - z[0]) / math.sqrt(2 * math.pi)
    log_ratio, kl = -mu * mu / 2 + mu * z, mu * mu / 2
    printed = float(np.sum(weights * np.abs(log_ratio - kl) ** 3))
    right = float(np.sum(weights * np.abs(log_ratio + kl) ** 3))
    found = theorems.gaussian_moments(mu=mu)
    assert printed == pytest.approx(0.2758, abs=1e-4)
    assert found.k3_bar == pytest.approx(right, rel=1e-8) == pytest.approx(0.1995, abs=1e-4)
    limit = theorems.gaussian_limit([found] * 100)
    assert limit.gamma == pytest.approx(0.56 * right / (10 * mu**3), rel=1e-8)


def test_erratum_14_the_renyi_order_compares_strictly_more_pairs():
    # post-processing lowers every Renyi divergence: Blackwell implies Renyi; by Proposition 13.7 not conversely
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.3, 0.6])
    channel = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    for order in (1.0, 1.5, 3.0, 50.0):
        before = theorems.renyi_divergence(p, q, order=order)
        assert theorems.renyi_divergence(p @ channel, q @ channel, order=order) <= before
    assert theorems.approx_to_tv(epsilon=1.0) > theorems.normal_tv(mu=1.0) + 0.07


def test_erratum_20_f_of_one_minus_f_is_a_composition_and_not_a_product():
    alphas = np.array([0.01, 0.2, 0.6])
    once = np.array([theorems.gaussian_tradeoff(mu=0.7, alpha=a) for a in alphas])
    twice = np.array([theorems.gaussian_tradeoff(mu=1.4, alpha=a) for a in alphas])
    chained = np.array([theorems.gaussian_tradeoff(mu=0.7, alpha=1 - b) for b in once])
    assert np.allclose(chained, twice, rtol=1e-8)
    assert not np.allclose(once * (1 - once), twice, rtol=0.1)
