"""Losses made of whole compositions, against exact enumeration of small finite pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tallystick as ts
from sweeps import share
from tallystick.errors import AdjacencyMismatch, InvalidInput, UnitMismatch

P, Q = np.array([0.55, 0.3, 0.15]), np.array([0.25, 0.35, 0.4])
U, V = np.array([0.7, 0.3]), np.array([0.45, 0.55])


def hockey(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)))


def power(p: np.ndarray, q: np.ndarray, alpha: float) -> float:
    """Most powerful test of q (null) against p (alternative) at level alpha, by sorting likelihood ratios."""
    order = np.argsort(-(p / q))
    size, hit = 0.0, 0.0
    for i in order:
        take = min(1.0, (alpha - size) / q[i])
        if take <= 0:
            break
        size, hit = size + take * q[i], hit + take * p[i]
    return hit


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3, 0.8])
def test_a_sampled_sum_is_the_mixture_of_the_joint_law(epsilon: float) -> None:
    rate = 0.3
    p, q = np.outer(P, U).ravel(), np.outer(Q, V).ravel()
    mixed = (1 - rate) * q + rate * p
    truth = max(hockey(mixed, q, epsilon), hockey(q, mixed, epsilon))
    loss = (ts.discrete_pair(P, Q) + ts.discrete_pair(U, V)).sampled(rate=rate)
    bounds = loss.delta_bounds(epsilon=epsilon)
    assert bounds.lower <= truth <= bounds.upper
    assert bounds.upper <= truth + 2e-3


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.7, 1.2])
def test_replace_is_the_better_of_two_chains(epsilon: float) -> None:
    """Through the data set with a record less or through the one with a record more, on a fine grid of levels."""
    alphas = np.linspace(0.0, 1.0, 4001)
    both = [min(power(Q, P, power(P, Q, a)), power(P, Q, power(Q, P, a))) for a in alphas]
    truth = max(b - math.exp(epsilon) * a for a, b in zip(alphas, both, strict=True))
    found = ts.discrete_pair(P, Q).as_replace().delta_bounds(epsilon=epsilon)
    assert found.upper >= truth
    assert found.upper <= truth + 5e-3
    assert found.lower <= truth


def test_closed_conversions_to_replace() -> None:
    assert ts.pure_dp(epsilon=1).as_replace() == ts.pure_dp(epsilon=2, adjacency="replace")
    assert ts.gdp(mu=1).as_replace() == ts.gdp(mu=2, adjacency="replace")
    grown = (1 + math.exp(1)) * 1e-6
    assert ts.approx_dp(epsilon=1, delta=1e-6).as_replace().delta(epsilon=2) >= grown


@pytest.mark.parametrize("size", [2, 3, 5])
def test_groups_of_pure_losses_cost_at_most_k_times(size: int) -> None:
    grouped = ts.laplace(scale=2).for_groups(size)
    assert grouped.epsilon(delta=0) == size * 0.5
    assert grouped.delta(epsilon=size * 0.5) < 1e-9
    assert grouped.delta(epsilon=0.1) >= ts.laplace(scale=2).delta(epsilon=0.1)


def test_a_group_of_two_is_the_chained_power_curve() -> None:
    alphas = np.linspace(0.0, 1.0, 4001)
    # The worse of both orders, chained with itself (a group may mix adds and removes).
    curve = np.array([max(power(P, Q, a), power(Q, P, a)) for a in alphas])
    twice = np.interp(curve, alphas, curve)
    truth = float(np.max(twice - math.exp(0.4) * alphas))
    found = ts.discrete_pair(P, Q).for_groups(2).delta(epsilon=0.4)
    assert truth <= found <= truth + 1e-2


def test_sampling_a_group_is_refused() -> None:
    with pytest.raises(InvalidInput, match="for_groups is outermost"):
        ts.gdp(mu=1).for_groups(2).sampled(rate=0.01)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5])
def test_worst_is_the_pointwise_maximum(epsilon: float) -> None:
    a, b = ts.laplace(scale=1), ts.gaussian(sigma=1.5)
    truth = max(a.delta(epsilon=epsilon), b.delta(epsilon=epsilon))
    bounds = ts.worst(a, b).delta_bounds(epsilon=epsilon)
    assert bounds.lower <= truth * (1 + 1e-9)
    assert truth * (1 - 1e-9) <= bounds.upper <= truth + 5e-3


def test_worst_of_one_is_itself_and_composes() -> None:
    a = ts.laplace(scale=3)
    assert ts.worst(a, a) == a
    both = ts.worst(a, ts.gaussian(sigma=2)) + a
    assert both.epsilon(delta=1e-4) >= (2 * a).epsilon(delta=1e-4) * (1 - 1e-9)


def test_mixing_relations_or_units_is_refused_with_the_way_out() -> None:
    with pytest.raises(AdjacencyMismatch, match="as_replace"):
        ts.gaussian(sigma=1) + ts.randomized_response(epsilon=1)
    with pytest.raises(UnitMismatch, match="for_groups"):
        ts.gaussian(sigma=1, unit="patient") + ts.gaussian(sigma=1, unit="visit")
    assert (ts.gaussian(sigma=1, unit="patient") + ts.gaussian(sigma=1)).unit == "patient"


def test_sums_and_multiples() -> None:
    a, b = ts.gaussian(sigma=3), ts.laplace(scale=2)
    assert sum([a, b, a]) == 2 * a + b
    assert (0 * a).epsilon(delta=0) == 0.0
    assert a.sampled(rate=0).epsilon(delta=0) == 0.0
    assert a.sampled(rate=1) == a
    assert a.sampled(rate=0.5).sampled(rate=0.1) == a.sampled(rate=0.05)


def test_subset_sampling_uses_the_per_step_hull() -> None:
    """errata 4: hull oracles of the notes' check script (gamma = .1, mu = 1.25)."""
    step = ts.gaussian(sigma=0.8, adjacency="replace").subset(batch=10, population=100)
    assert step.delta(epsilon=0.5) == pytest.approx(6.7160e-3, rel=2e-4)
    assert (2 * step).delta(epsilon=0.5) == pytest.approx(1.4564e-2, rel=2e-4)
    assert (20 * step).delta(epsilon=1.0) == pytest.approx(9.744e-2, rel=2e-4)
    assert (100 * step).delta(epsilon=2.0) == pytest.approx(0.3400, rel=2e-4)
    # The unproved shortcut (maximum after composition) would claim far less.
    assert (100 * step).delta(epsilon=2.0) > 0.2060 * 1.5


def test_poisson_sampling_of_a_replace_loss_is_refused() -> None:
    with pytest.raises(InvalidInput, match="subset"):
        ts.randomized_response(epsilon=1).sampled(rate=0.1)


def test_the_order_is_true_only_when_certified() -> None:
    goal = ts.approx_dp(epsilon=2, delta=1e-6)
    assert ts.gaussian(sigma=3) <= goal
    assert not ts.gaussian(sigma=2) <= goal
    assert ts.gaussian(sigma=2).sampled(rate=0.1) <= ts.gaussian(sigma=2)
    assert not ts.gaussian(sigma=1.9) <= ts.gaussian(sigma=2)
    assert ts.laplace(scale=2) <= ts.pure_dp(epsilon=0.5)


def test_calibrate_answers_the_least_private_end_where_every_parameter_will_do() -> None:
    easy = ts.approx_dp(epsilon=10, delta=1e-5)
    assert ts.calibrate(lambda rate: ts.gaussian(sigma=100).sampled(rate=rate), easy, high=1.0) == 1.0
    assert ts.calibrate(lambda n: n * ts.gaussian(sigma=1e6), easy, integer=True, high=1000) == 1000


def test_calibrate_finds_the_smallest_noise_and_the_most_steps() -> None:
    goal = ts.approx_dp(epsilon=2, delta=1e-5)

    def training(sigma: float) -> ts.PrivacyLoss:
        return 20_000 * ts.gaussian(sigma=sigma).sampled(rate=0.004)

    sigma = ts.calibrate(training, goal)
    assert sigma == pytest.approx(1.32557524, rel=1e-6)
    assert training(sigma) <= goal
    assert not training(sigma * (1 - 1e-5)) <= goal
    steps = ts.calibrate(lambda n: n * ts.gaussian(sigma=1.4).sampled(rate=0.004), goal, integer=True)
    assert steps * ts.gaussian(sigma=1.4).sampled(rate=0.004) <= goal
    assert not (steps + 1) * ts.gaussian(sigma=1.4).sampled(rate=0.004) <= goal


def test_the_loss_variable_of_a_sum() -> None:
    variable = (400 * ts.gaussian(sigma=10).sampled(rate=0.5)).privacy_loss(ts.Direction.REMOVE)
    assert variable.cdf(variable.mean) == pytest.approx(0.5, abs=0.02)
    assert variable.quantile(0.975) == pytest.approx(variable.mean + 1.96 * math.sqrt(variable.variance), rel=0.03)
    phi = variable.characteristic_function(0.3)
    assert abs(phi) <= 1.0
    assert variable.characteristic_function(0.0) == pytest.approx(1.0)


def test_pure_group_and_gdp_bounds_are_known_exactly() -> None:
    assert ts.gaussian(sigma=2).gdp_bound() == 0.5
    mu = ts.pure_dp(epsilon=1).gdp_bound()
    for epsilon in (0.0, 0.3, 0.9):
        assert ts.gdp(mu=mu).delta(epsilon=epsilon) >= ts.pure_dp(epsilon=1).delta(epsilon=epsilon) * (1 - 1e-9)
    assert mu < 2 * 0.63  # the least mu at epsilon 0 alone is 2 Phi^{-1}((1 + tanh(1/2)) / 2) = 1.23
    assert math.isinf(ts.approx_dp(epsilon=1, delta=1e-9).gdp_bound())


@pytest.mark.parametrize(("sigma", "rate"), share([(1000.0, 0.1), (1e5, 0.5), (3.0, 0.01)], 2))
def test_divergences_of_tiny_losses_stay_above_the_truth(sigma: float, rate: float) -> None:
    """Losses of both signs cancel in the mean: it once read 1e-12 below a 40-digit quadrature."""
    import mpmath as mp

    with mp.workdps(40):
        mu, q = 1 / mp.mpf(sigma), mp.mpf(rate)

        def mixed(x: mp.mpf) -> mp.mpf:
            return 1 - q + q * mp.e ** (mu * x - mu * mu / 2)

        points = mp.linspace(-12, 12, 25)
        remove = mp.quad(lambda x: mp.npdf(x) * mixed(x) * mp.log(mixed(x)), points)
        add = mp.quad(lambda x: -mp.npdf(x) * mp.log(mixed(x)), points)
        truth = max(remove, add)
        loss = ts.gaussian(sigma=sigma).sampled(rate=rate)
        assert mp.mpf(loss.kl()) >= truth
        assert mp.mpf(loss.kl()) <= truth * (1 + mp.mpf("1e-6"))
        assert loss.renyi(order=1 + 5e-7) >= loss.kl() * (1 - 1e-9)
