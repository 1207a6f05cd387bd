"""Kairouz-Oh-Viswanath composition against enumeration and high-precision sums."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from tallystick.errors import InvalidInput
from unit.theorems import brute


def worst_pair(epsilon, delta):
    one = (1 - delta) / (1 + math.exp(-epsilon))
    return np.array([delta, one, 1 - delta - one, 0.0]), np.array([0.0, 1 - delta - one, one, delta])


@given(
    st.floats(0.01, 3.0),
    st.sampled_from([0.0, 1e-6, 0.01, 0.2]),
    st.integers(1, 5),
    st.floats(0.0, 6.0),
)
def test_it_is_the_exact_delta_of_the_worst_pair(epsilon, delta, steps, total):
    exact = brute.hockey(*brute.product(*worst_pair(epsilon, delta), steps), total)
    found = theorems.optimal_composition_delta(epsilon=epsilon, delta=delta, steps=steps, total_epsilon=total)
    assert exact - 1e-14 <= found <= exact * (1 + 1e-9) + 1e-14


@pytest.mark.parametrize(
    ("steps", "epsilon", "total"), [(1000, 0.1, 19.3446714), (500, 0.05, 8.0), (2000, 0.01, 0.5), (300, 1.0, 200.0)]
)
def test_it_agrees_with_forty_digits_far_into_the_tail(steps, epsilon, total):
    with mpmath.workdps(50):
        e, t = mpmath.mpf(epsilon), mpmath.mpf(total)
        p = mpmath.exp(e) / (1 + mpmath.exp(e))
        exact = mpmath.fsum(
            mpmath.binomial(steps, i) * p**i * (1 - p) ** (steps - i) * (1 - mpmath.exp(t - (2 * i - steps) * e))
            for i in range(steps + 1)
            if (2 * i - steps) * e > t
        )
        found = theorems.optimal_composition_delta(epsilon=epsilon, steps=steps, total_epsilon=total)
        assert 0 <= found / exact - 1 < 1e-8


def test_the_workload_of_a_thousand_randomized_responses():
    found = theorems.optimal_composition_epsilon(epsilon=0.1, steps=1000, total_delta=1e-6)
    assert found == pytest.approx(19.3446714, abs=5e-7)
    assert theorems.optimal_composition_delta(epsilon=0.1, steps=1000, total_epsilon=found) <= 1e-6


def test_a_million_steps_are_as_easy_and_tend_to_the_gaussian_limit():
    found = theorems.optimal_composition_epsilon(epsilon=0.001, steps=1_000_000, total_delta=1e-5)
    assert found == pytest.approx(theorems.gdp_epsilon(mu=1.0, delta=1e-5), rel=1e-3)


def test_pure_steps_at_delta_zero_cost_the_sum():
    assert theorems.optimal_composition_epsilon(epsilon=0.3, steps=7, total_delta=0.0) == pytest.approx(2.1)


def test_steps_that_leak_more_than_the_target_have_no_finite_epsilon():
    assert theorems.optimal_composition_epsilon(epsilon=0.3, delta=0.01, steps=7, total_delta=0.05) == math.inf
    with pytest.raises(InvalidInput):
        theorems.optimal_composition_epsilon(epsilon=0.3, steps=7, total_delta=1e-310)


@given(st.floats(0.01, 1.0), st.integers(1, 60), st.sampled_from([1e-12, 1e-5, 0.1]))
def test_no_advanced_composition_is_below_the_optimum(epsilon, steps, slack):
    optimum = theorems.optimal_composition_epsilon(epsilon=epsilon, steps=steps, total_delta=slack)
    advanced, _ = theorems.advanced_composition_tight_mean(epsilons=[epsilon] * steps, delta_slack=slack)
    assert optimum <= advanced
    assert optimum <= steps * epsilon * (1 + 1e-9)


def test_the_corners_are_the_published_ones():
    # Kairouz, Oh, Viswanath 2015: delta_i = sum_{l<i} C(k,l)(e^{(k-l)e} - e^{(k-2i+l)e})/(1+e^e)^k
    epsilon, steps = 0.7, 6
    for i, (at, delta) in enumerate(theorems.optimal_composition_points(epsilon=epsilon, steps=steps)):
        numerator = sum(
            math.comb(steps, number)
            * (math.exp((steps - number) * epsilon) - math.exp((steps - 2 * i + number) * epsilon))
            for number in range(i)
        )
        assert at == pytest.approx((steps - 2 * i) * epsilon)
        assert delta == pytest.approx(numerator / (1 + math.exp(epsilon)) ** steps, rel=1e-9, abs=1e-15)
