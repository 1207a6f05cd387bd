"""From one definition to another: never below the truth, and sharp where the page says so."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from unit.theorems import brute


@given(st.floats(1e-3, 30))
def test_pure_to_zcdp_is_the_least_rho_over_randomized_response(epsilon):
    rho = theorems.pure_to_zcdp(epsilon=epsilon)
    orders = np.concatenate([1 + np.logspace(-8, 4, 200)])
    with mpmath.workdps(40):
        e = mpmath.mpf(epsilon)
        worst = max(
            mpmath.log(mpmath.cosh((mpmath.mpf(a) - 0.5) * e) / mpmath.cosh(e / 2)) / ((mpmath.mpf(a) - 1) * a)
            for a in orders
        )
    assert worst <= rho
    assert rho <= float(worst) * (1 + 1e-5)
    assert rho <= theorems.pure_to_zcdp_printed(epsilon=epsilon) * (1 + 1e-11)


@given(st.floats(0.01, 8), st.floats(0.001, 0.999), st.sampled_from([1.0001, 1.5, 2.0, 5.0, 50.0]))
def test_bounded_range_pairs_stay_under_epsilon_squared_over_eight(epsilon, t, order):
    # the two-point pairs of range epsilon: losses t epsilon and (t - 1) epsilon
    low, high = -(1 - t) * epsilon, t * epsilon
    q = (1 - math.exp(low)) / (math.exp(high) - math.exp(low))
    p = q * math.exp(high)
    divergence = theorems.renyi_divergence([p, 1 - p], [q, 1 - q], order=order)
    assert divergence <= order * theorems.bounded_range_to_zcdp(epsilon=epsilon) + 1e-9


@given(st.floats(0.01, 20))
def test_pure_to_gdp_lies_under_the_pure_tradeoff_and_touches_it(epsilon):
    mu = theorems.pure_to_gdp(epsilon=epsilon)
    for alpha in np.linspace(0.001, 0.999, 60):
        line = theorems.least_type_two_error(alpha=alpha, epsilon=epsilon)
        assert theorems.gaussian_tradeoff(mu=mu, alpha=alpha) <= line + 1e-9
    corner = 1 / (1 + math.exp(epsilon))
    assert theorems.gaussian_tradeoff(mu=mu, alpha=corner) == pytest.approx(corner, rel=1e-6)


@given(brute.pairs(zeros=False), st.sampled_from([1.1, 2.0, 10.0, 64.0]), st.sampled_from([1e-6, 1e-2, 0.3]))
def test_renyi_conversions_hold_for_every_pair_and_the_better_one_is_smaller(pair, order, delta):
    p, q = pair
    divergence = theorems.renyi_divergence(p, q, order=order)
    better = theorems.rdp_to_approx(order=order, epsilon=divergence, delta=delta)
    printed = theorems.rdp_to_approx_printed(order=order, epsilon=divergence, delta=delta)
    assert brute.hockey(p, q, better) <= delta + 1e-12
    assert better <= printed


@given(st.floats(1.01, 200), st.floats(0, 20), st.floats(0, 30))
def test_the_delta_conversion_is_the_epsilon_conversion_read_the_other_way(order, divergence, epsilon):
    delta = theorems.rdp_to_delta(order=order, divergence=divergence, epsilon=epsilon)
    if 1e-290 < delta < 1.0:
        back = theorems.rdp_to_approx(order=order, epsilon=divergence, delta=delta)
        assert back == pytest.approx(epsilon, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12, 1e-30])
def test_optimising_over_real_orders_stays_above_the_truth_for_gaussians(delta):
    truth = theorems.gdp_epsilon(mu=1.0, delta=delta)
    for convert in (theorems.rdp_to_approx, theorems.rdp_to_approx_printed):
        found, order = theorems.best_rdp_to_approx(
            lambda a: theorems.gaussian_renyi(order=a, sigma=1.0), delta=delta, convert=convert
        )
        assert truth <= found
        grid = min(convert(order=a, epsilon=a / 2, delta=delta) for a in 1 + np.logspace(-2, 3, 4000))
        assert found <= grid * (1 + 1e-9)
        assert order > 1
    better, _ = theorems.best_rdp_to_approx(lambda a: a / 2, delta=delta)
    assert better < theorems.zcdp_to_approx_printed(rho=0.5, delta=delta)


@given(st.floats(1e-4, 20), st.sampled_from([1e-2, 1e-6, 1e-20]))
def test_zcdp_conversions_are_ordered_and_invert(rho, delta):
    better = theorems.zcdp_to_approx(rho=rho, delta=delta)
    assert theorems.gdp_epsilon(mu=math.sqrt(2 * rho), delta=delta) <= better
    assert better <= theorems.zcdp_to_approx_printed(rho=rho, delta=delta)
    assert theorems.zcdp_to_delta(rho=rho, epsilon=better) <= delta * (1 + 1e-3)


@given(brute.pairs(), st.floats(0, 3))
def test_approximate_to_tv_holds_for_every_pair(pair, epsilon):
    p, q = pair
    delta = max(brute.hockey(p, q, epsilon), brute.hockey(q, p, epsilon))
    tv = float(np.abs(p - q).sum() / 2)
    tight = theorems.approx_to_tv(epsilon=epsilon, delta=min(1.0, delta))
    assert tv <= tight + 1e-12
    assert tight <= theorems.approx_to_tv_printed(epsilon=epsilon, delta=min(1.0, delta)) + 1e-9


def test_approximate_to_tv_is_attained_and_is_the_figure_of_the_design():
    assert theorems.approx_to_tv(epsilon=1.0, delta=0.01) == pytest.approx(0.4675, abs=5e-5)
    assert theorems.approx_to_tv_printed(epsilon=1.0, delta=0.01) == pytest.approx(0.869, abs=5e-4)
    f = theorems.PiecewiseTradeoff.of_approx_dp(epsilon=1.0, delta=0.01)
    grid = np.linspace(0, 1, 100_001)
    assert theorems.approx_to_tv(epsilon=1.0, delta=0.01) == pytest.approx(float(np.max(1 - grid - f(grid))), abs=1e-5)


@given(brute.pairs(zeros=False))
def test_kl_of_pure_pairs_is_under_both_forms(pair):
    p, q = pair
    epsilon = float(np.max(np.abs(np.log(p / q))))
    kl = float(np.sum(p * np.log(p / q)))
    assert kl <= theorems.pure_to_kl(epsilon=epsilon) + 1e-12
    assert theorems.pure_to_kl(epsilon=epsilon) <= theorems.pure_to_kl_printed(epsilon=epsilon) * (1 + 1e-9)


def test_gdp_to_zcdp_is_half_the_square():
    assert theorems.gdp_to_zcdp(mu=0.6) == pytest.approx(0.18, rel=1e-9)
    assert theorems.gdp_to_zcdp(mu=0.6) >= 0.18
