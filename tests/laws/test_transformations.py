"""Sampling, splitting, groups, adjacency and order: what each may and may not do to a loss."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick as ts
from laws.strategies import ADD_REMOVE, CURVES, LEAVES, PAIRED, QUICK, few, leaf, logarithmic, one, quick_losses

LEVELS = (0.0, 0.1, 0.5, 1.5)
REPLACE = ts.Adjacency.REPLACE


@pytest.mark.parametrize("name", PAIRED)
@given(data=st.data(), rate=st.floats(0.001, 0.999))
@few
def test_sampling_never_hurts(name: str, data: st.DataObject, rate: float) -> None:
    a = data.draw(leaf(name))
    sampled = a.sampled(rate=rate)
    for level in LEVELS:
        assert sampled.delta_bounds(epsilon=level).lower <= a.delta_bounds(epsilon=level).upper


@pytest.mark.parametrize("name", ["pure_dp", "gdp", "laplace", "discrete_laplace", "discrete_gaussian"])
@given(data=st.data(), rate=st.floats(0.001, 0.999), level=st.floats(0.0, 2.0))
@few
def test_one_sampled_step_has_the_closed_profile(name: str, data: st.DataObject, rate: float, level: float) -> None:
    """max(q d(log(1 + (e^eps - 1)/q)), 1 - e^eps + e^eps rem(-eps)) from the unsampled profile of a symmetric pair."""
    a = data.draw(leaf(name))
    inner = math.log1p(math.expm1(level) / rate)
    bounds = a.sampled(rate=rate).delta_bounds(epsilon=level)
    base = a.delta_bounds(epsilon=inner)
    assert bounds.upper >= rate * base.lower * (1 - 1e-9) - 1e-16
    assert bounds.lower <= rate * base.upper * (1 + 1e-9) + 1e-16


@pytest.mark.parametrize("name", LEAVES)
@given(data=st.data())
@one
def test_rate_zero_is_no_loss_and_rate_one_changes_nothing(name: str, data: st.DataObject) -> None:
    a = data.draw(leaf(name))
    assert a.sampled(rate=0.0).delta(epsilon=0.0) == 0.0
    assert a.sampled(rate=0.0).epsilon(delta=0.0) == 0.0
    assert a.sampled(rate=1.0) == a


@given(mu=logarithmic(0.1, 2.0), rate=st.floats(0.01, 0.9))
@few
def test_a_larger_rate_is_a_larger_loss(mu: float, rate: float) -> None:
    small, large = (200 * ts.gdp(mu=mu).sampled(rate=r) for r in (rate, min(1.0, rate * 1.1)))
    assert small.epsilon_bounds(delta=1e-5).lower <= large.epsilon_bounds(delta=1e-5).upper


@given(a=st.one_of(leaf("gaussian"), leaf("pure_dp")), b=st.one_of(leaf("discrete_laplace"), leaf("pure_dp")))
@few
def test_splitting_the_data_never_hurts(a: ts.PrivacyLoss, b: ts.PrivacyLoss) -> None:
    """Each unit is in one part: the worst of the two, which is at most their sum and at least each."""
    split = ts.worst(a, b)
    for level in LEVELS:
        parts = [x.delta_bounds(epsilon=level) for x in (a, b)]
        certified = split.delta_bounds(epsilon=level)
        assert certified.lower <= (a + b).delta_bounds(epsilon=level).upper
        assert certified.upper >= max(p.lower for p in parts)
        assert certified.lower <= max(p.upper for p in parts)


def test_parallel_composition_needs_add_remove() -> None:
    a = ts.gaussian(sigma=1, adjacency=REPLACE)
    with pytest.raises(ts.errors.TallystickError):
        ts.worst(a, a)


@pytest.mark.parametrize("name", QUICK)
@given(data=st.data(), size=st.integers(2, 4))
@few
def test_groups_are_no_safer_than_their_members(name: str, data: st.DataObject, size: int) -> None:
    a = data.draw(leaf(name))
    grouped = a.for_groups(size)
    for level in (0.0, 0.5):
        assert grouped.delta_bounds(epsilon=level).upper >= a.delta_bounds(epsilon=level).lower
    assert a.for_groups(1).delta(epsilon=0.5) == a.delta(epsilon=0.5)


@given(mu=logarithmic(0.05, 2.0), size=st.integers(2, 5), level=st.floats(0, 3))
def test_a_group_of_gaussians_is_a_larger_gaussian(mu: float, size: int, level: float) -> None:
    grouped = ts.gdp(mu=mu).for_groups(size).delta(epsilon=level)
    truth = ts.gdp(mu=size * mu).delta_bounds(epsilon=level)
    assert truth.lower * (1 - 1e-12) <= grouped <= truth.upper * (1 + 1e-3) + 1e-9


@given(epsilon=logarithmic(0.05, 1.0), size=st.integers(2, 5))
def test_a_group_under_pure_privacy_pays_k_epsilon(epsilon: float, size: int) -> None:
    grouped = ts.pure_dp(epsilon=epsilon).for_groups(size).epsilon(delta=0.0)
    assert size * epsilon * (1 - 1e-12) <= grouped <= size * epsilon * (1 + 1e-6)


def test_a_grouped_loss_is_not_sampled() -> None:
    with pytest.raises(ts.errors.TallystickError):
        ts.gdp(mu=1.0).for_groups(2).sampled(rate=0.01)


@given(mu=logarithmic(0.05, 2.0), level=st.floats(0, 3))
@few
def test_replacing_one_record_of_a_gaussian_doubles_mu(mu: float, level: float) -> None:
    replaced = ts.gdp(mu=mu).as_replace()
    assert replaced.adjacency is REPLACE
    truth = ts.gdp(mu=2 * mu).delta_bounds(epsilon=level)
    assert truth.lower * (1 - 1e-12) <= replaced.delta(epsilon=level) <= truth.upper * (1 + 1e-3) + 1e-9


@given(epsilon=logarithmic(0.05, 1.0))
@few
def test_replacing_one_record_doubles_pure_epsilon(epsilon: float) -> None:
    replaced = ts.pure_dp(epsilon=epsilon).as_replace().epsilon(delta=0.0)
    assert 2 * epsilon * (1 - 1e-12) <= replaced <= 2 * epsilon * (1 + 1e-6)


@pytest.mark.parametrize("name", ["pure_dp", "approx_dp", "discrete_pair", "randomized_response"])
@given(data=st.data())
@one
def test_replace_is_at_least_as_bad_as_add_or_remove(name: str, data: st.DataObject) -> None:
    a = data.draw(leaf(name)).sampled(rate=0.2)
    replaced = a.as_replace()
    for level in (0.0, 0.3):
        assert replaced.delta_bounds(epsilon=level).upper >= a.delta_bounds(epsilon=level).lower * (1 - 1e-12)


def test_replace_losses_are_not_poisson_sampled() -> None:
    with pytest.raises(ts.errors.TallystickError, match="subset"):
        ts.gaussian(sigma=1, adjacency=REPLACE).sampled(rate=0.1)


@given(mu=logarithmic(0.3, 2.0), batch=st.integers(1, 99))
@few
def test_a_subset_never_hurts_and_dominates_both_directions_of_poisson(mu: float, batch: int) -> None:
    whole = ts.gdp(mu=mu, adjacency=REPLACE)
    part = whole.subset(batch=batch, population=100)
    poisson = ts.gdp(mu=mu).sampled(rate=batch / 100)
    for level in LEVELS:
        assert part.delta_bounds(epsilon=level).lower <= whole.delta_bounds(epsilon=level).upper
        assert part.delta_bounds(epsilon=level).upper >= poisson.delta_bounds(epsilon=level).lower * (1 - 1e-9)


@given(mu=logarithmic(0.3, 2.0))
@few
def test_the_whole_subset_changes_nothing(mu: float) -> None:
    whole = 5 * ts.gdp(mu=mu, adjacency=REPLACE)
    assert whole.subset(batch=7, population=7).epsilon(delta=1e-6) == pytest.approx(whole.epsilon(delta=1e-6), rel=1e-9)


@pytest.mark.parametrize("name", ["gaussian", "pure_dp", "discrete_pair", "discrete_laplace"])
@given(data=st.data(), rate=st.floats(0.05, 0.9))
@few
def test_the_two_directions_are_swaps_of_each_other(name: str, data: st.DataObject, rate: float) -> None:
    """E_P[e^{-L}] over one direction is the mass the other direction sees: phi_ADD(t) = phi_REMOVE(-t - i) reversed."""
    a = data.draw(leaf(name)).sampled(rate=rate)
    remove = a.privacy_loss(ts.Direction.REMOVE)
    add = a.privacy_loss(ts.Direction.ADD)
    # Jeffreys divergence is symmetric, and both means are Kullback-Leibler divergences, hence nonnegative
    assert remove.mean >= -1e-12
    assert add.mean >= -1e-12
    assert max(remove.mean, add.mean) == pytest.approx(a.kl(), rel=1e-6, abs=1e-12)


@given(a=quick_losses())
@few
def test_the_loss_variable_is_a_distribution(a: ts.PrivacyLoss) -> None:
    variable = a.privacy_loss(ts.Direction.REMOVE)
    points = [variable.quantile(p) for p in (0.05, 0.3, 0.7, 0.95)]
    assert points == sorted(points)
    values = [variable.cdf(x) for x in points]
    assert values == sorted(values)
    assert all(0 <= v <= 1 for v in values)
    assert complex(variable.characteristic_function(0.0)).real <= 1 + 1e-12


@given(a=leaf("gaussian"))
@few
def test_the_order_respects_addition(a: ts.PrivacyLoss) -> None:
    assert a <= 2 * a
    assert not 2 * a <= a
    assert ts.no_loss() <= a


@given(sigma=logarithmic(1.0, 20.0))
@few
def test_a_goal_is_met_exactly_when_epsilon_is_small_enough(sigma: float) -> None:
    loss = 10 * ts.gaussian(sigma=sigma)
    epsilon = loss.epsilon(delta=1e-6)
    assert loss <= ts.approx_dp(epsilon=epsilon * 1.01, delta=1e-6)
    assert not loss <= ts.approx_dp(epsilon=epsilon * 0.99, delta=1e-6)


@pytest.mark.parametrize("name", CURVES)
@given(data=st.data(), sigma=logarithmic(1.0, 10.0))
@one
def test_renyi_leaves_mix_validly_with_pairs(name: str, data: st.DataObject, sigma: float) -> None:
    curve = data.draw(leaf(name))
    mixed = curve + ts.gaussian(sigma=sigma)
    assert mixed.epsilon(delta=1e-5) >= ts.gaussian(sigma=sigma).epsilon_bounds(delta=1e-5).lower
    assert mixed.adjacency is ADD_REMOVE


@given(mu=logarithmic(0.05, 2.0), times=st.integers(1, 20), delta=st.floats(-50, -2).map(math.exp))
@few
def test_zcdp_of_a_gaussian_is_never_below_the_gaussian(mu: float, times: int, delta: float) -> None:
    curve = times * ts.zcdp(rho=mu**2 / 2)
    truth = times * ts.gdp(mu=mu)
    assert curve.epsilon(delta=delta) >= truth.epsilon_bounds(delta=delta).lower
