"""Renyi divergence and Renyi DP."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

import tallystick.theorems as theorems
from tallystick.errors import InvalidInput
from unit.theorems import brute


def exact_renyi(p, q, order):
    with mpmath.workdps(40):
        total = mpmath.fsum(mpmath.mpf(a) ** order * mpmath.mpf(b) ** (1 - order) for a, b in zip(p, q, strict=True))
        return mpmath.log(total) / (order - 1)


@given(brute.pairs(zeros=False), st.sampled_from([1.0001, 1.5, 2.0, 10.0, 200.0]))
def test_divergence_agrees_with_forty_digits_and_is_never_below(pair, order):
    p, q = pair
    exact = exact_renyi(p, q, order)
    found = theorems.renyi_divergence(p, q, order=order)
    # near order 1 the logarithm of a number near 1 is divided by a small one: the slack grows with it
    assert -1e-25 <= found - exact <= 1e-11 + 1e-11 * abs(exact) + 1e-14 / (order - 1)


@given(brute.pairs())
def test_divergence_increases_with_the_order_from_kl_to_max(pair):
    p, q = pair
    orders = [1.0, 1.01, 1.5, 2.0, 5.0, 50.0, math.inf]
    values = [theorems.renyi_divergence(p, q, order=order) for order in orders]
    assert all(low <= high + 1e-9 for low, high in itertools.pairwise(values))
    seen = p > 0
    kl = math.inf if np.any(q[seen] == 0) else float(np.sum(p[seen] * np.log(p[seen] / q[seen])))
    assert values[0] == pytest.approx(max(0.0, kl), abs=1e-9)
    top = math.inf if np.any(q[seen] == 0) else float(np.max(np.log(p[seen] / q[seen])))
    assert values[-1] == pytest.approx(max(0.0, top), abs=1e-9)


@pytest.mark.parametrize(("order", "sigma", "shift"), [(1.5, 1.0, 1.0), (4.0, 2.0, 1.0), (2.0, 0.8, 0.3)])
def test_gaussian_renyi_by_quadrature(order, sigma, shift):
    def normal(x, mean):
        return math.exp(-((x - mean) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))

    moment = quad(
        lambda x: normal(x, 0) ** order * normal(x, shift) ** (1 - order), -12 * sigma, 12 * sigma, limit=400
    )[0]
    found = theorems.gaussian_renyi(order=order, sigma=sigma, sensitivity=shift)
    assert found == pytest.approx(math.log(moment) / (order - 1), rel=1e-7)


@given(st.floats(1e-6, 60), st.floats(1.0, 1e4))
def test_randomized_response_curve_is_never_below_forty_digits(epsilon, order):
    with mpmath.workdps(50):
        e, a = mpmath.mpf(epsilon), mpmath.mpf(order)
        exact = (
            e * mpmath.tanh(e / 2) if a == 1 else mpmath.log(mpmath.cosh((a - 0.5) * e) / mpmath.cosh(e / 2)) / (a - 1)
        )
        found = theorems.randomized_response_renyi(order=order, epsilon=epsilon)
        assert found >= exact
        assert found <= exact * (1 + mpmath.mpf("1e-6")) + mpmath.mpf("1e-13")


@given(brute.pairs(zeros=False), st.sampled_from([1.0, 1.5, 2.0, 8.0, math.inf]))
def test_no_pure_pair_exceeds_the_randomized_response_curve(pair, order):
    p, q = pair
    epsilon = float(np.max(np.abs(np.log(p / q))))
    found = theorems.renyi_divergence(p, q, order=order)
    assert found <= theorems.randomized_response_renyi(order=order, epsilon=epsilon) + 1e-9


@given(st.floats(0.01, 16), st.floats(1.0, 1e4))
def test_the_printed_quadratic_curve_is_above_the_exact_one(epsilon, order):
    exact = theorems.randomized_response_renyi(order=order, epsilon=epsilon)
    assert exact <= theorems.pure_to_renyi_printed(order=order, epsilon=epsilon) * (1 + 1e-9)


@given(brute.pairs(zeros=False, most=4), st.sampled_from([1.5, 2.0, 6.0]))
def test_every_event_lies_within_its_bounds(pair, order):
    p, q = pair
    epsilon = max(theorems.renyi_divergence(p, q, order=order), theorems.renyi_divergence(q, p, order=order))
    for bits in range(1, 2 ** len(p)):
        mask = np.array([bool(bits >> i & 1) for i in range(len(p))])
        low, high = theorems.event_probability_bounds(
            probability=min(1.0, float(q[mask].sum())), order=order, epsilon=epsilon
        )
        assert low - 1e-12 <= p[mask].sum() <= high + 1e-12


def test_shifted_divergence_of_gaussians_is_the_divergence_at_the_shorter_distance():
    # Definition 1.5 of the amplification note (004) as corrected: move mu by z towards nu, then measure
    order, sigma, distance, z = 3.0, 1.3, 1.0, 0.4
    best = min(order * (distance - shift) ** 2 / (2 * sigma**2) for shift in np.linspace(-z, z, 801))
    found = theorems.gaussian_renyi(order=order, sigma=sigma, sensitivity=distance - z)
    assert found == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("order", [0.5, -1.0, math.nan, "2"])
def test_orders_below_one_are_refused(order):
    with pytest.raises(InvalidInput):
        theorems.renyi_divergence([0.5, 0.5], [0.5, 0.5], order=order)


def test_the_chain_rule_is_an_equality_for_independent_parts():
    p, q, one, other = [0.5, 0.5], [0.25, 0.75], [0.9, 0.1], [0.6, 0.4]
    for order in (1.0, 1.5, 8.0, math.inf):
        exact, chained = theorems.renyi_of_joint(p, q, p_given=[one, one], q_given=[other, other], order=order)
        assert exact == pytest.approx(chained, rel=1e-9)
    with pytest.raises(InvalidInput, match="2 outcomes"):
        theorems.renyi_of_joint(p, q, p_given=[one], q_given=[other], order=2)
