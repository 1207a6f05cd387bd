"""The closed forms and finite pairs of the theorems against the accountant's certified read-outs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick as ts
import tallystick.theorems as theorems
from tallystick.theorems import PiecewiseTradeoff
from unit.theorems import brute

EPSILONS = (0.0, 0.2, 0.7, 1.5)


def worse(pairs, epsilon):
    return max(brute.hockey(*pair, epsilon) for pair in pairs)


@given(brute.pairs(most=3), st.integers(1, 4))
def test_compositions_of_finite_pairs_are_enclosed(pair, count):
    loss = count * ts.discrete_pair(*pair)
    p, q = brute.product(*pair, count)
    for epsilon in EPSILONS:
        bounds = loss.delta_bounds(epsilon=epsilon)
        exact = worse([(p, q), (q, p)], epsilon)
        assert bounds.lower - 1e-12 <= exact <= bounds.upper + 1e-12


@given(brute.pairs(most=3), st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.integers(1, 3))
def test_sampled_finite_pairs_are_enclosed(pair, rate, count):
    present, without = pair  # REMOVE is (with, without)
    loss = count * ts.discrete_pair(present, without).sampled(rate=rate)
    pairs = [brute.product(*one, count) for one in theorems.poisson_pairs(without, present, rate=rate)]
    for epsilon in EPSILONS:
        bounds = loss.delta_bounds(epsilon=epsilon)
        assert bounds.lower - 1e-12 <= worse(pairs, epsilon) <= bounds.upper + 1e-12


@given(brute.pairs(most=3, zeros=False), st.sampled_from([1.5, 2.0, 8.0, math.inf]))
def test_renyi_divergences_agree(pair, order):
    p, q = pair
    exact = max(theorems.renyi_divergence(p, q, order=order), theorems.renyi_divergence(q, p, order=order))
    assert ts.discrete_pair(p, q).renyi(order=order) == pytest.approx(exact, rel=1e-6, abs=1e-9)


@given(brute.pairs(most=3))
def test_groups_of_two_are_never_below_the_chained_function(pair):
    f = PiecewiseTradeoff.of_pair(*pair)
    profile = theorems.profile_of_tradeoff(theorems.group_tradeoff(f, size=2))
    loss = ts.discrete_pair(*pair).for_groups(2)
    for epsilon in EPSILONS:
        # the accountant may be looser, and must not be tighter than the theorem for a pair that attains it
        assert loss.delta(epsilon=epsilon) >= profile.delta(epsilon=epsilon) - 1e-9


@pytest.mark.parametrize(("epsilon", "delta", "steps", "total"), [(0.1, 0.0, 200, 1e-6), (0.3, 1e-8, 20, 1e-5)])
def test_optimal_composition_is_what_the_accountant_finds(epsilon, delta, steps, total):
    closed = theorems.optimal_composition_epsilon(epsilon=epsilon, delta=delta, steps=steps, total_delta=total)
    bounds = (steps * ts.approx_dp(epsilon=epsilon, delta=delta)).epsilon_bounds(delta=total)
    assert bounds.lower * (1 - 1e-9) <= closed <= bounds.upper * (1 + 1e-4)


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12, 1e-30])
def test_gaussians_agree_to_nine_digits(delta):
    loss = 7 * ts.gaussian(sigma=3) + ts.gdp(mu=0.4)
    mu = theorems.gdp_composition(mus=[1 / 3] * 7 + [0.4])
    assert loss.epsilon(delta=delta) == pytest.approx(theorems.gdp_epsilon(mu=mu, delta=delta), rel=1e-9)
    assert ts.gaussian(sigma=2).tradeoff(alpha=0.1) == pytest.approx(theorems.gaussian_tradeoff(mu=0.5, alpha=0.1))


def test_pure_leaves_agree_with_their_closed_forms():
    loss = ts.pure_dp(epsilon=0.8)
    assert loss.total_variation() == pytest.approx(theorems.approx_to_tv(epsilon=0.8), rel=1e-9)
    assert loss.kl() == pytest.approx(theorems.pure_to_kl(epsilon=0.8), rel=1e-6)
    assert loss.renyi(order=3) == pytest.approx(theorems.randomized_response_renyi(order=3, epsilon=0.8), rel=1e-9)
    assert loss.as_replace().epsilon(delta=0) == pytest.approx(1.6, rel=1e-9)
    assert loss.power(alpha=0.1) == pytest.approx(theorems.power_bound(alpha=0.1, epsilon=0.8), rel=1e-6)
    assert loss.gdp_bound() >= theorems.pure_to_gdp(epsilon=0.8) * (1 - 1e-9)


@given(st.floats(0.1, 3), st.just(0.0) | st.floats(1e-300, 1))
def test_sampled_pure_losses_are_amplified(epsilon, rate):
    loss = ts.pure_dp(epsilon=epsilon).sampled(rate=rate)
    assert loss.epsilon(delta=0) == pytest.approx(
        theorems.amplified(epsilon=epsilon, rate=rate)[0], rel=1e-6, abs=1e-12
    )


@given(brute.pairs(most=3), st.sampled_from([(1, 4), (3, 10)]), st.integers(1, 2))
def test_subsets_compose_the_hull_per_step(pair, sizes, count):
    batch, population = sizes
    p, q = pair
    both = theorems.hull_of_min(PiecewiseTradeoff.of_pair(p, q), PiecewiseTradeoff.of_pair(q, p))
    one = theorems.subsampling_operator(both, rate=batch / population)
    whole = theorems.tensor_product(one, one) if count == 2 else one
    loss = count * ts.discrete_pair(p, q, adjacency="replace").subset(batch=batch, population=population)
    profile = theorems.profile_of_tradeoff(whole)
    for epsilon in EPSILONS:
        bounds = loss.delta_bounds(epsilon=epsilon)
        assert bounds.lower - 1e-9 <= profile.delta(epsilon=epsilon) + 1e-9
        assert profile.delta(epsilon=epsilon) <= bounds.upper + 1e-9


def test_the_moments_of_the_loss_agree():
    loss = 5 * ts.gaussian(sigma=2).sampled(rate=0.1)
    variable = loss.privacy_loss(ts.Direction.REMOVE)
    grid = np.linspace(-20, 22, 400_001)
    step = grid[1] - grid[0]
    without = np.exp(-(grid**2) / 8) * step / math.sqrt(8 * math.pi)
    mix = 0.9 * without + 0.1 * np.exp(-((grid - 1) ** 2) / 8) * step / math.sqrt(8 * math.pi)
    ratio = np.log(mix / without)
    mean = float(np.sum(mix * ratio))
    assert variable.mean == pytest.approx(5 * mean, rel=1e-6)
    assert variable.variance == pytest.approx(5 * float(np.sum(mix * (ratio - mean) ** 2)), rel=1e-6)
    direct = complex(np.sum(mix * np.exp(0.7j * ratio))) ** 5
    assert abs(variable.characteristic_function(0.7) - direct) < 1e-8
