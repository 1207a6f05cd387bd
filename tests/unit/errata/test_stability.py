"""Errata 41 to 46 and 66 of the adaptive-analysis lecture."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tallystick.theorems as theorems


def test_erratum_41_the_root_does_not_cover_samples_and_noise():
    samples, sigma = 1000, 0.05
    printed = 1 / math.sqrt(2 * math.pi * samples * sigma)
    found = theorems.gaussian_answer_tv(samples=samples, sigma=sigma)
    assert printed == pytest.approx(0.0564, abs=5e-5)
    assert found == pytest.approx(0.0080, abs=5e-5)
    # and with many noisy samples the printed number is too small instead
    assert 1 / math.sqrt(2 * math.pi * 1 * 0.05) < 1 / (math.sqrt(2 * math.pi) * 1 * 0.05)


def test_erratum_42_the_last_chain_understates_the_distance():
    x = 0.9
    assert (math.exp(x) - 1) / 2 > x / 2 + 0.25
    assert theorems.small_epsilon_tv(epsilon=x) >= (math.exp(x) - 1) / 2


def test_erratum_42_a_real_composition_exceeds_the_printed_final_bound():
    # printed: TV <= eps sqrt(2k log(1/d)) + d once eps < 1/(2 sqrt(2k log(1/d))); the middle step of the chain,
    # (e^(2y) - 1)/2 <= y with y = eps sqrt(2k log(1/d)), is false for every y > 0
    for y in np.linspace(0.01, 0.5, 20):
        assert (math.exp(2 * y) - 1) / 2 > y
    epsilon, queries, slack = 0.02, 40, 0.05
    exact = theorems.pure_answers_tv(epsilon=epsilon, queries=queries)
    sharp = theorems.pure_answers_tv_advanced(epsilon=epsilon, queries=queries, delta_slack=slack)
    assert exact <= sharp


def test_erratum_43_the_simplification_needs_little_noise():
    queries, sigma = 1, 0.9
    left = 2 * queries / (math.sqrt(2 * math.pi) * sigma) + 1
    printed = 3 * queries / (math.sqrt(2 * math.pi) * sigma)
    assert left > printed + 0.5  # although sigma < 1
    small = queries / math.sqrt(2 * math.pi)
    assert 2 * queries / (math.sqrt(2 * math.pi) * small) + 1 <= 3 * queries / (math.sqrt(2 * math.pi) * small) + 1e-12


def test_erratum_44_the_sample_size_needs_the_logarithm_and_not_its_root():
    # m = C k^2 L/tau^2 keeps the error of noise sigma = 1 below tau with L = log(1/d); with its root it is left behind
    queries, tau, constant = 10, 0.1, 0.5
    errors = {}
    for name, power in (("printed", 0.5), ("right", 1.0)):
        for exponent in (2, 200):
            failure = 10.0**-exponent
            samples = math.ceil(constant * queries**2 * math.log(1 / failure) ** power / tau**2)
            errors[name, exponent] = theorems.gaussian_answers_generalization(
                samples=samples, sigma=1.0, queries=queries, failure=failure
            )
    assert errors["right", 2] <= tau
    assert errors["right", 200] <= tau
    assert errors["printed", 200] > tau
    # and the noise must be at least k sqrt(log(1/d))/(tau sqrt(m)), not at most: less noise, larger error
    given = {"samples": 10**6, "queries": queries, "failure": 0.05}
    less, more = (theorems.gaussian_answers_generalization(sigma=sigma, **given) for sigma in (0.01, 1.0))
    assert less > more


def test_erratum_66_the_chain_needs_a_small_slack():
    epsilon, queries, slack = 0.09, 100, 0.9
    assert epsilon < 1 / math.sqrt(queries)
    root = epsilon * math.sqrt(2 * queries * math.log(1 / slack))
    assert queries * epsilon**2 == pytest.approx(0.81)
    assert root == pytest.approx(0.413, abs=5e-4)
    assert root + queries * epsilon**2 > 2 * root  # the chain's step, although epsilon < 1/sqrt(k)
    small = math.exp(-0.5)  # from here on it holds
    assert queries * epsilon**2 <= epsilon * math.sqrt(2 * queries * math.log(1 / small))


def test_erratum_45_the_missing_two_is_wasteful():
    distance, samples, failure = 0.001, 10_000, 0.05
    printed = distance + (2 * distance * samples + 1) * math.sqrt(math.log(2 / failure) / samples)
    found = theorems.generalization_error(distance=distance, samples=samples, failure=failure)
    assert found < printed
    assert (printed - distance) / (found - distance) == pytest.approx(math.sqrt(2), rel=1e-9)


def test_erratum_46_the_printed_distance_is_valid_and_loose():
    assert theorems.approx_to_tv(epsilon=1.0, delta=0.01) < theorems.approx_to_tv_printed(epsilon=1.0, delta=0.01) / 1.8
