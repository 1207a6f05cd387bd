"""The moments accountant against quadrature and against the exact profile."""

from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from unit.theorems import brute


def moment_by_quadrature(moment, rate, sigma, direction):
    with mpmath.workdps(25):
        s, q = mpmath.mpf(sigma), mpmath.mpf(rate)

        def plain(x):
            return mpmath.exp(-(x**2) / (2 * s * s)) / (s * mpmath.sqrt(2 * mpmath.pi))

        def ratio(x):
            return 1 - q + q * mpmath.exp((2 * x - 1) / (2 * s * s))

        power = (moment + 1) if direction == "remove" else -moment
        points = [-12 * s, -4 * s, 0, 1, 1 + 4 * s, moment + 1, moment + 1 + 12 * s]
        return mpmath.log(mpmath.quad(lambda x: plain(x) * ratio(x) ** power, sorted(points)))


@pytest.mark.parametrize(("moment", "rate", "sigma"), [(1, 0.01, 1.0), (3, 0.1, 2.0), (8, 0.02, 1.5), (2, 0.5, 0.7)])
def test_the_sampled_gaussian_moment_by_quadrature_in_the_worse_direction(moment, rate, sigma):
    found = theorems.sampled_gaussian_log_moment(moment=moment, rate=rate, sigma=sigma)
    remove = moment_by_quadrature(moment, rate, sigma, "remove")
    add = moment_by_quadrature(moment, rate, sigma, "add")
    assert found == pytest.approx(float(remove), rel=1e-9)
    assert add <= remove


def test_rate_one_and_zero_are_the_plain_and_the_empty_mechanism():
    plain = theorems.gaussian_log_moment(moment=5, sigma=2.0)
    assert theorems.sampled_gaussian_log_moment(moment=5, rate=1.0, sigma=2.0) == plain
    assert theorems.sampled_gaussian_log_moment(moment=5, rate=0.0, sigma=2.0) == 0.0
    assert theorems.sampled_gaussian_log_moment(moment=5, rate=1 - 1e-12, sigma=2.0) == pytest.approx(plain, rel=1e-6)


@given(brute.pairs(zeros=False), st.integers(1, 10))
def test_log_moments_are_expectations_and_add_for_products(pair, moment):
    p, q = pair
    exact = math.log(float((p * (p / q) ** moment).sum()))
    assert theorems.log_moment(p, q, moment=moment) == pytest.approx(max(0.0, exact), rel=1e-6, abs=1e-9)
    twice = brute.product(p, q, 2)
    assert theorems.log_moment(*twice, moment=moment) == pytest.approx(max(0.0, 2 * exact), rel=1e-6, abs=1e-9)


@given(brute.pairs(zeros=False), st.floats(0, 4), st.sampled_from([1e-6, 1e-2]))
def test_the_tail_bound_holds_for_every_pair(pair, epsilon, delta):
    p, q = pair
    curve = lambda lam: theorems.log_moment(p, q, moment=lam)  # noqa: E731
    assert brute.hockey(p, q, epsilon) <= theorems.moments_delta(curve, epsilon=epsilon) + 1e-12
    found = theorems.moments_epsilon(curve, delta=delta)
    assert brute.hockey(p, q, found) <= delta
    assert theorems.moments_delta(curve, epsilon=found) <= delta * (1 + 1e-6)


def test_the_historical_accountant_is_mironovs_conversion_at_whole_orders():
    delta = 1e-5
    found = theorems.moments_epsilon(lambda lam: theorems.gaussian_log_moment(moment=lam, sigma=1.0), delta=delta)
    orders = [theorems.rdp_to_approx_printed(order=lam + 1, epsilon=(lam + 1) / 2, delta=delta) for lam in range(1, 33)]
    assert found == pytest.approx(min(orders), rel=1e-9)
    assert found >= theorems.gdp_epsilon(mu=1.0, delta=delta)


def test_noise_for_dpsgd_is_accepted_by_the_accountant_and_just_so():
    sigma, constant = theorems.moments_noise(rate=0.01, steps=1000, epsilon=1.0, delta=1e-5)

    def epsilon(noise):
        curve = lambda lam: 1000 * theorems.sampled_gaussian_log_moment(moment=lam, rate=0.01, sigma=noise)  # noqa: E731
        return theorems.moments_epsilon(curve, delta=1e-5, largest=128)

    assert epsilon(sigma) <= 1.0 < epsilon(sigma * 0.999)
    assert constant == pytest.approx(sigma / (0.01 * math.sqrt(1000 * math.log(1e5))))
