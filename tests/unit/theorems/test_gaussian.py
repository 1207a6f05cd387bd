"""The Gaussian profile to high precision, and both calibrations."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from tallystick.errors import InvalidInput, Refused


def exact_delta(mu, epsilon):
    with mpmath.workdps(80):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


@given(st.floats(-5, 2), st.floats(0, 30))
def test_the_profile_is_never_below_eighty_digits_and_within_1e_11(log_mu, deviations):
    mu = 10**log_mu
    epsilon = max(0.0, mu * mu / 2 + mu * (deviations - 5))
    exact = exact_delta(mu, epsilon)
    found = theorems.gdp_delta(mu=mu, epsilon=epsilon)
    assert found >= exact
    assert found <= exact * (1 + mpmath.mpf("1e-11")) + mpmath.mpf(10) ** -320


@pytest.mark.parametrize(
    ("delta", "epsilon"), [(1e-5, 4.3771781), (1e-10, 6.54792407), (1e-15, 8.1655797), (1e-30, 11.743883)]
)
def test_the_published_figures_of_a_hundred_gaussians(delta, epsilon):
    mu = theorems.gdp_composition(mus=[0.1] * 100)
    assert theorems.gdp_epsilon(mu=mu, delta=delta) == pytest.approx(epsilon, rel=1e-7)


def test_epsilon_of_fifty_loud_gaussians():
    assert theorems.gdp_epsilon(mu=math.sqrt(50) / 0.3, delta=1e-5) == pytest.approx(377.383456, rel=1e-8)


@given(st.floats(0.01, 20), st.floats(-40, -0.5))
def test_epsilon_is_the_inverse_of_delta_on_the_safe_side(mu, log_delta):
    delta = 10**log_delta
    epsilon = theorems.gdp_epsilon(mu=mu, delta=delta)
    assert exact_delta(mu, epsilon) <= delta
    if epsilon > 0:
        assert exact_delta(mu, epsilon * (1 - 1e-9)) >= delta * (1 - 1e-6)


@given(st.floats(0.0, 10), st.floats(-12, -0.5))
def test_the_budget_as_mu_meets_the_budget(epsilon, log_delta):
    delta = 10**log_delta
    mu = theorems.gdp_from_approx(epsilon=epsilon, delta=delta)
    assert exact_delta(mu, epsilon) <= delta <= exact_delta(mu * (1 + 1e-8), epsilon) * (1 + 1e-6)


@pytest.mark.parametrize("constant", [1.25, 1.32])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 0.99, 1.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 1e-2, 0.5, 0.9])
def test_the_classical_noise_is_private_up_to_epsilon_one(constant, epsilon, delta):
    sigma = theorems.classical_gaussian_sigma(epsilon=epsilon, delta=delta, constant=constant)
    assert exact_delta(1 / sigma, epsilon) <= delta
    assert sigma >= theorems.analytic_gaussian_sigma(epsilon=epsilon, delta=delta)


def test_the_classical_noise_is_refused_beyond_epsilon_one():
    with pytest.raises(Refused, match="epsilon > 1"):
        theorems.classical_gaussian_sigma(epsilon=1.01, delta=1e-5)
    with pytest.raises(InvalidInput):
        theorems.classical_gaussian_sigma(epsilon=0.5, delta=1e-5, constant=1.0)


@given(st.floats(0.0, 50), st.floats(-15, -1), st.floats(0.1, 10))
def test_the_analytic_noise_is_just_enough(epsilon, log_delta, sensitivity):
    delta = 10**log_delta
    sigma = theorems.analytic_gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
    assert exact_delta(sensitivity / sigma, epsilon) <= delta
    assert exact_delta(sensitivity / (sigma * (1 - 1e-7)), epsilon) >= delta * (1 - 1e-9)


def test_the_false_step_of_the_literature_is_false():
    c, epsilon = 100.0, 1.0
    assert c**2 - epsilon + epsilon**2 / (4 * c**2) < c**2 - 8 / 9


@given(st.floats(0.01, 10), st.floats(0.0, 1.0))
def test_the_tradeoff_is_the_neyman_pearson_test_rounded_down(mu, alpha):
    with mpmath.workdps(400):
        if alpha in (0.0, 1.0):
            exact = mpmath.mpf(1 - alpha)
        else:
            threshold = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(alpha))
            exact = mpmath.ncdf(threshold - mu)
        found = theorems.gaussian_tradeoff(mu=mu, alpha=alpha)
        assert found <= exact + mpmath.mpf("1e-25")
        assert found >= exact * (1 - mpmath.mpf("1e-9")) - mpmath.mpf("1e-12")


def test_noise_for_many_counts_grows_like_d_and_like_its_root():
    laplace, gauss = np.array([theorems.count_vector_noise(dimension=d, epsilon=1.0, delta=1e-6) for d in (100, 400)]).T
    assert laplace[1] / laplace[0] == pytest.approx(4.0)
    assert gauss[1] / gauss[0] == pytest.approx(2.0)


def test_mechanism_delta_reads_the_profile_at_sensitivity_over_sigma():
    assert theorems.gaussian_mu(sigma=4.0, sensitivity=2.0) == pytest.approx(0.5, rel=1e-9)
    found = theorems.gaussian_mechanism_delta(sigma=4.0, epsilon=0.5, sensitivity=2.0)
    assert exact_delta(0.5, 0.5) <= found <= float(exact_delta(0.5, 0.5)) * (1 + 1e-9)
