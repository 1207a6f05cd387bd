"""Errata 27 and 40: the classical Gaussian noise beyond epsilon one, and an asymptotic lemma used as a bound."""

from __future__ import annotations

import math

import pytest

import tallystick as ts
import tallystick.theorems as theorems
from tallystick.errors import Refused


@pytest.mark.parametrize(("epsilon", "least"), [(10.0, 2.0), (20.0, 100.0)])
def test_erratum_27_the_classical_noise_is_not_private_for_large_epsilon(epsilon, least):
    delta = 1e-5
    printed = math.sqrt(2 * math.log(1.32 / delta)) / epsilon
    assert theorems.gaussian_mechanism_delta(sigma=printed, epsilon=epsilon) > least * delta
    with pytest.raises(Refused):
        theorems.classical_gaussian_sigma(epsilon=epsilon, delta=delta, constant=1.32)
    right = theorems.analytic_gaussian_sigma(epsilon=epsilon, delta=delta)
    assert theorems.gaussian_mechanism_delta(sigma=right, epsilon=epsilon) <= delta * (1 + 1e-9)
    assert right > printed


def test_erratum_27_the_proof_needs_c_at_least_three_halves():
    # printed c^2 = max(2 log(1.32/delta), 3/2): at delta = 0.9 that is c = 1.22, where c - 1/2 < 1 and the proof stops
    printed = math.sqrt(max(2 * math.log(1.32 / 0.9), 1.5))
    assert printed - 0.5 < 1.0
    sigma = theorems.classical_gaussian_sigma(epsilon=1.0, delta=0.9, constant=1.32)
    assert sigma >= 1.5


def test_erratum_40_the_leading_term_of_lemma_7_is_not_a_bound_at_the_moments_that_accountants_use():
    rate, sigma = 0.01, 1.0
    for moment in (8, 16, 32):
        printed = rate**2 * moment * (moment + 1) / ((1 - rate) * sigma**2)
        exact = theorems.sampled_gaussian_log_moment(moment=moment, rate=rate, sigma=sigma)
        assert exact > printed
    # and an accountant built on it reports less than the certified truth
    claimed = theorems.moments_epsilon(lambda lam: rate**2 * lam * (lam + 1) / ((1 - rate) * sigma**2), delta=1e-9)
    truth = ts.gaussian(sigma=sigma).sampled(rate=rate).epsilon_bounds(delta=1e-9).lower
    honest = theorems.moments_epsilon(
        lambda lam: theorems.sampled_gaussian_log_moment(moment=lam, rate=rate, sigma=sigma), delta=1e-9
    )
    assert claimed < 0.7 * truth
    assert honest >= truth
