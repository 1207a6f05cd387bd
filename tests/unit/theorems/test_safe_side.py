"""Numbers that used to be on the wrong side, or were no numbers at all: each against an oracle that is not the code."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import mpmath as mp
import pytest

import tallystick.theorems as theorems
from tallystick.errors import InvalidInput, Refused
from tallystick.theorems import FinitePair, LossBand, PiecewiseProfile, PiecewiseTradeoff
from unit.theorems.truths import M, gaussian_delta, gaussian_met, optimal_delta, pure_gdp_met


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


def test_moments_noise_says_when_no_noise_is_enough():
    with pytest.raises(Refused, match="calibrate"):
        theorems.moments_noise(rate=0.01, steps=1000, epsilon=0.05, delta=1e-5)


def test_the_noise_for_a_delta_far_below_the_reach_of_a_linear_search():
    sigma = theorems.analytic_gaussian_sigma(epsilon=0, delta=1e-100)
    # 2 Phi(1/(2 sigma)) - 1 = 1e-100, so sigma = 1/(sqrt(2 pi) 1e-100)
    assert gaussian_met(1 / M(sigma), 0, 1e-100)
    assert sigma == pytest.approx(1e100 / math.sqrt(2 * math.pi), rel=1e-9)
    with pytest.raises(InvalidInput, match="delta"):
        theorems.analytic_gaussian_sigma(epsilon=0, delta=5e-324)


def test_a_bound_that_no_float_can_hold_is_infinite():
    assert theorems.advanced_composition(epsilon=800, steps=10, delta_slack=1e-6) == (math.inf, pytest.approx(1e-6))
    assert theorems.gaussian_renyi(order=2, sigma=1e-170) == math.inf


def test_a_profile_far_out():
    profile = PiecewiseProfile.of_points([(1.0, 1e-3)])
    assert profile.delta(epsilon=800.0) == pytest.approx(1e-3)
    assert profile.delta(epsilon=-800.0) == 1.0
    with pytest.raises(InvalidInput, match="700"):
        PiecewiseProfile.of_points([(800.0, 1e-3)])


def test_rates_far_out_are_estimates_and_not_errors():
    assert theorems.local_rate(people=10, epsilon=1e-200, moments=2) == pytest.approx(1e200 / math.sqrt(10))
    assert theorems.central_rate(people=10, epsilon=1e-200, moments=2) == pytest.approx(1e199)


def test_pure_dp_as_gaussian_dp_for_small_epsilon():
    rng = random.Random(7)
    for _ in range(2000):
        epsilon = 10 ** rng.uniform(-9, -3)
        assert pure_gdp_met(theorems.pure_to_gdp(epsilon=epsilon), epsilon=epsilon)


def test_randomized_response_near_a_coin_that_always_answers():
    for bits in range(20, 54):
        coin = 1 - 2.0**-bits
        truth = mp.log((2 - M(coin)) / M(coin))
        found = theorems.randomized_response_epsilon(coin=coin)
        assert truth <= found <= truth * (1 + 1e-11)


def test_a_coin_too_rare_for_a_float_is_still_a_coin():
    assert theorems.randomized_response_coin(epsilon=800) == 5e-324


def test_optimal_composition_where_the_product_is_rounded_below_the_largest_loss():
    rng = random.Random(3)
    below = 0
    for _ in range(200):
        epsilon, steps = rng.uniform(0.1, 3), rng.randint(3, 40)
        total = steps * epsilon
        truth = optimal_delta(epsilon, steps, total)
        below += truth > 0
        assert truth <= theorems.optimal_composition_delta(epsilon=epsilon, steps=steps, total_epsilon=total)
        if Fraction(total) >= steps * Fraction(epsilon):
            assert theorems.optimal_composition_delta(epsilon=epsilon, steps=steps, total_epsilon=total) == 0.0
    assert below > 20


def test_gaussian_dp_with_little_noise():
    rng = random.Random(5)
    for _ in range(300):
        mu = 10 ** rng.uniform(3, 6)
        epsilon = mu * mu / 2 + mu * rng.uniform(-3, 6)
        truth = gaussian_delta(mu, epsilon)
        assert truth <= theorems.gdp_delta(mu=mu, epsilon=epsilon) <= truth * (1 + 1e-6)


def test_the_base_of_a_rare_sample():
    truth = mp.log1p(mp.expm1(M(690)) / M(1e-10))
    found = theorems.base_epsilon_for(epsilon=690, rate=1e-10)
    assert truth * (1 - 1e-11) <= found <= truth


@pytest.mark.parametrize(
    "delta",
    [
        lambda: theorems.rdp_to_delta(order=1000.0, divergence=1.0, epsilon=10.0),
        lambda: theorems.zcdp_to_delta(rho=0.01, epsilon=100.0),
        lambda: theorems.moments_delta(lambda lam: 0.0, epsilon=100.0),
        lambda: theorems.amplified(epsilon=1.0, rate=1e-200, delta=1e-200)[1],
        lambda: theorems.gdp_delta(mu=1.0, epsilon=100.0),
    ],
)
def test_a_positive_delta_is_never_zero(delta):
    assert 0.0 < delta() < 1e-300


def test_the_largest_loss_of_a_close_pair():
    rng = random.Random(11)
    for _ in range(2000):
        p = [rng.random() for _ in range(4)] + [10 ** rng.uniform(-300, -200)]
        q = [mass * (1 + rng.uniform(-1, 1) * 1e-15) for mass in p]
        p, q = [x / math.fsum(p) for x in p], [x / math.fsum(q) for x in q]
        whole_p, whole_q = sum(map(Fraction, p)), sum(map(Fraction, q))
        ratio = max(Fraction(a) * whole_q / (Fraction(b) * whole_p) for a, b in zip(p, q, strict=True))
        truth = mp.log(M(ratio.numerator) / M(ratio.denominator))
        assert theorems.renyi_divergence(p, q, order=math.inf) >= truth


@pytest.mark.parametrize("epsilon", [1e-17, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.3])
@pytest.mark.parametrize("steps", [1, 10, 60])
def test_the_central_limit_band_holds_the_truth_for_tiny_steps(epsilon, steps):
    moments = theorems.tradeoff_moments(PiecewiseTradeoff.of_approx_dp(epsilon=epsilon))
    for total in (0.0, steps * epsilon / 3):
        truth = optimal_delta(epsilon, steps, total)
        bands = (
            LossBand.of([moments] * steps, [moments] * steps).delta_band(epsilon=total),
            theorems.gaussian_limit([moments] * steps).delta_band(epsilon=total),
        )
        for low, high in bands:
            assert low <= truth <= high


def test_a_group_does_not_waste_a_claim_on_both_orders():
    f = PiecewiseTradeoff.of_pair([1.0, 0.0], [0.9, 0.1])
    # max(f, f^-1)(a) = 1 - a/.9 after its corner, at least .9 (1 - a): chained by hand at 0
    claimed = theorems.group_tradeoff(f, size=2, both_orders=True)
    wasted = theorems.group_tradeoff(f, size=2)
    assert all(float(claimed(a / 50)) >= float(wasted(a / 50)) for a in range(51))
    assert float(claimed(0.0)) == pytest.approx(1.0)
    assert float(wasted(0.0)) == pytest.approx(0.8)


def test_what_p_never_shows_is_not_taken_for_what_it_hardly_ever_shows():
    f = PiecewiseTradeoff.of_pair([1e-320, 0.0, 1.0], [0.2, 0.3, 0.5])
    assert float(f(0.0)) == pytest.approx(0.7)
    assert theorems.profile_of_tradeoff(f).delta(epsilon=600.0) >= 0.3


def test_unlike_tiny_steps_are_not_free():
    tiny = {"epsilons": [1e-200, 2e-200], "deltas": [0.0, 0.0]}
    bounds = theorems.heterogeneous_optimal_composition(**tiny, total_delta=1e-250)
    assert bounds.lower <= 3e-200 <= bounds.upper * (1 + 1e-9)


def test_a_chain_does_not_lose_a_level_near_zero():
    # g falls to .1 at a level of 1e-250, and 1 - f(1e-24) is 1e-24, not 0
    g = PiecewiseTradeoff((0.0, 1e-250, 1.0), (1.0, 0.1, 0.0))
    f = PiecewiseTradeoff.of_approx_dp(epsilon=0.1)
    assert float(theorems.chained(g, f)(1e-24)) <= 0.1


def test_the_renyi_divergence_of_a_curve_near_the_diagonal():
    f = PiecewiseTradeoff((0.0, 0.0061704810063648525, 1.0), (1.0, 0.9938295189721403, 0.0))
    masses = (Fraction(1) - Fraction(f.alphas[1])) / Fraction(f.betas[1])
    truth = mp.log(M(masses.numerator) / M(masses.denominator))
    assert theorems.tradeoff_to_renyi(f, order=math.inf) >= truth


def test_what_would_take_hours_is_refused():
    coin = FinitePair.randomized_response(ratio=Fraction(3))
    for asked in (
        lambda: theorems.play(lambda view: coin, rounds=1000),
        lambda: theorems.worst_delta([coin, coin], rounds=200, ratio=Fraction(3)),
        lambda: theorems.group_tradeoff(PiecewiseTradeoff.identity(), size=10**9),
        lambda: theorems.sampled_gaussian_log_moment(moment=10**9, rate=0.1, sigma=1.0),
        lambda: theorems.moments_delta(lambda lam: 1.0, epsilon=1.0, largest=10**9),
    ):
        with pytest.raises(InvalidInput):
            asked()


def test_a_large_group_is_its_size_in_pure_steps():
    f = theorems.group_tradeoff(PiecewiseTradeoff.of_approx_dp(epsilon=0.01), size=100)
    bound = PiecewiseTradeoff.of_approx_dp(epsilon=1.0)
    assert all(float(f(i / 100)) >= float(bound(i / 100)) - 1e-12 for i in range(101))


def test_replace_takes_the_better_of_two_chains():
    remove = PiecewiseTradeoff.of_pair([0.99, 0.005, 0.005], [0.95, 0.03, 0.02])
    add = remove.inverse()
    both = theorems.replace_tradeoff(remove, add)
    one, other = theorems.chained(add, remove), theorems.chained(remove, add)
    levels = [i / 500 for i in range(501)]
    assert all(float(both(a)) == pytest.approx(max(float(one(a)), float(other(a))), abs=1e-12) for a in levels)
    assert any(float(both(a)) > float(one(a)) + 1e-4 for a in levels)
