"""The central limit theorem: its moments, its band, and that it is no bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

import tallystick.theorems as theorems
from tallystick.errors import InvalidInput
from tallystick.theorems import PiecewiseTradeoff
from unit.theorems import brute


@given(brute.pairs(zeros=False))
def test_moments_of_a_function_are_moments_of_the_log_ratio(pair):
    p, q = pair
    found = theorems.tradeoff_moments(PiecewiseTradeoff.of_pair(p, q))
    ratio = np.log(q / p)
    kl = -float((p * ratio).sum())
    assert found.kl == pytest.approx(kl, abs=1e-9)
    assert found.k2 == pytest.approx(float((p * ratio**2).sum()), abs=1e-9)
    assert found.k3 == pytest.approx(float((p * np.abs(ratio) ** 3).sum()), abs=1e-9)
    assert found.k3_bar == pytest.approx(float((p * np.abs(ratio - (p * ratio).sum()) ** 3).sum()), abs=1e-9)


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_gaussian_moments_by_quadrature(mu):
    def under(x):
        return math.exp(-((x + mu * mu / 2) ** 2) / (2 * mu * mu)) / (mu * math.sqrt(2 * math.pi))

    found = theorems.gaussian_moments(mu=mu)
    reach = 12 * mu + mu * mu
    edges = {"points": [-mu * mu / 2, 0.0], "limit": 400}
    assert found.k2 == pytest.approx(quad(lambda x: x * x * under(x), -reach, reach, **edges)[0], rel=1e-8)
    assert found.k3 == pytest.approx(quad(lambda x: abs(x) ** 3 * under(x), -reach, reach, **edges)[0], rel=1e-8)
    centred = quad(lambda x: abs(x + mu * mu / 2) ** 3 * under(x), -reach, reach, **edges)[0]
    assert found.k3_bar == pytest.approx(centred, rel=1e-8)


def test_the_limit_of_gaussians_is_exact():
    limit = theorems.gaussian_limit([theorems.gaussian_moments(mu=0.5)] * 9)
    assert limit.mu == pytest.approx(1.5)


@pytest.mark.parametrize("steps", [100, 1000])
def test_the_band_holds_the_exact_composition_of_randomized_responses(steps):
    epsilon = 1.0 / math.sqrt(steps)
    moments = theorems.tradeoff_moments(PiecewiseTradeoff.of_approx_dp(epsilon=epsilon))
    limit = theorems.gaussian_limit([moments] * steps)
    # exact: number of truths is binomial; T is its Neyman-Pearson curve
    truth = 1 / (1 + math.exp(-epsilon))
    counts = np.arange(steps + 1)
    logs = np.array([math.lgamma(steps + 1) - math.lgamma(i + 1) - math.lgamma(steps - i + 1) for i in counts])
    p = np.exp(logs + counts * math.log(truth) + (steps - counts) * math.log1p(-truth))
    f = PiecewiseTradeoff.of_pair(p / p.sum(), (p / p.sum())[::-1])
    inside = 0
    for alpha in np.linspace(0.01, 0.99, 33):
        low, high = limit.tradeoff_band(alpha=alpha)
        assert low - 1e-9 <= float(f(alpha)) <= high + 1e-9
        inside += high - low < 0.9 * (1 - alpha)
    assert inside > 5  # the band says something
    for at in (0.0, 0.5, 1.0):
        low, high = limit.delta_band(epsilon=at)
        exact = theorems.optimal_composition_delta(epsilon=epsilon, steps=steps, total_epsilon=at)
        assert low <= exact <= high + 1e-12


def test_the_epsilon_band_brackets_the_truth_and_is_honest_about_small_deltas():
    steps, epsilon = 10_000, 0.01
    moments = theorems.tradeoff_moments(PiecewiseTradeoff.of_approx_dp(epsilon=epsilon))
    limit = theorems.gaussian_limit([moments] * steps)
    low, high = limit.epsilon_band(delta=0.1)
    exact = theorems.optimal_composition_epsilon(epsilon=epsilon, steps=steps, total_delta=0.1)
    assert low <= exact <= high
    assert math.isinf(limit.epsilon_band(delta=1e-9)[1])


@given(brute.pairs(zeros=False, most=3), st.integers(20, 60))
def test_the_band_of_the_loss_holds_for_asymmetric_steps(pair, steps):
    p, q = pair
    forward = theorems.tradeoff_moments(PiecewiseTradeoff.of_pair(p, q))
    backward = theorems.tradeoff_moments(PiecewiseTradeoff.of_pair(q, p))
    band = theorems.LossBand.of([forward] * steps, [backward] * steps)
    # exact: how often each outcome occurs is multinomial
    first, second = np.array([1.0]), np.array([1.0])
    if len(p) == 2:
        ways = np.array([math.comb(steps, i) for i in range(steps + 1)], dtype=float)
        counts = np.arange(steps + 1)
        first = ways * p[0] ** counts * p[1] ** (steps - counts)
        second = ways * q[0] ** counts * q[1] ** (steps - counts)
        for epsilon in (0.0, 0.3, 1.0):
            low, high = band.delta_band(epsilon=epsilon)
            assert low - 1e-12 <= brute.hockey(first, second, epsilon) <= high + 1e-12
    low, high = band.epsilon_band(delta=0.2)
    assert low <= high


def test_the_limit_is_no_bound():
    mu = theorems.sampled_gaussian_limit_mu(rate=256 / 60000, sigma=1.1, steps=14062)
    assert theorems.gdp_epsilon(mu=mu, delta=1e-5) == pytest.approx(2.324, abs=5e-4)
    assert theorems.gdp_epsilon(mu=mu, delta=1e-5) < 2.3815  # the truth is at least 2.38159692135


def test_infinite_losses_have_no_limit():
    with pytest.raises(InvalidInput):
        theorems.tradeoff_moments(PiecewiseTradeoff.of_approx_dp(epsilon=1.0, delta=0.1))
    with pytest.raises(InvalidInput):
        theorems.gaussian_limit([])


def test_perfect_privacy_has_the_trivial_limit():
    limit = theorems.gaussian_limit([theorems.tradeoff_moments(PiecewiseTradeoff.identity())])
    # zero up to the rounding of one loss
    assert limit.mu == 0.0
    assert limit.gamma < 1e-15
