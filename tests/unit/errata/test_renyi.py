"""Errata 15, 16, 47, 48 and 59: Renyi divergence in the notes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

import tallystick as ts
import tallystick.theorems as theorems


def normal(x, mean, sigma):
    return math.exp(-((x - mean) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))


def test_erratum_15_the_printed_first_order_is_not_kullback_leibler():
    printed = quad(lambda x: normal(x, 0, 1) ** 2 / normal(x, 1, 1), -14, 13)[0]
    assert printed == pytest.approx(math.e, rel=1e-6)
    assert ts.gaussian(sigma=1).kl() == pytest.approx(0.5)
    p, q = [0.9, 0.1], [0.5, 0.5]
    kl = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    assert theorems.renyi_divergence(p, q, order=1.0) == pytest.approx(kl)


def test_erratum_15_a_supremum_over_the_support_of_q_misses_what_gives_everything_away():
    p, q = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    printed = max(math.log(a / b) for a, b in zip(p, q, strict=True) if b > 0)
    assert printed < 0  # "more than perfectly private"
    assert theorems.renyi_divergence(p, q, order=math.inf) == math.inf
    assert theorems.renyi_divergence(p, q, order=2.0) == math.inf
    assert ts.discrete_pair(p, q).renyi(order=math.inf) == math.inf


def test_erratum_16_the_printed_gaussian_curve_does_not_grow_with_the_order():
    order, sigma, epsilon = 4.0, 2.0, 1.0
    printed = epsilon / (2 * sigma**2)
    truth = math.log(quad(lambda x: normal(x, 0, sigma) ** order * normal(x, 1, sigma) ** (1 - order), -25, 25)[0]) / 3
    assert truth == pytest.approx(0.5, rel=1e-6)
    assert printed < truth / 3
    assert theorems.gaussian_renyi(order=order, sigma=sigma) >= truth * (1 - 1e-9)
    assert ts.gaussian(sigma=sigma).renyi(order=order) >= truth * (1 - 1e-9)


def test_erratum_47_the_printed_shifted_divergence_is_zero():
    # inf over nu' of D(mu||nu') with nu' free is attained at nu' = mu
    order, sigma, distance, z = 2.0, 1.0, 1.0, 0.4
    free = min(order * (centre**2) / (2 * sigma**2) for centre in np.linspace(-2, 2, 4001))
    assert free == pytest.approx(0.0, abs=1e-12)
    right = min(order * (distance - shift) ** 2 / (2 * sigma**2) for shift in np.linspace(-z, z, 4001))
    found = theorems.gaussian_renyi(order=order, sigma=sigma, sensitivity=distance - z)
    assert found == pytest.approx(right, rel=1e-9)
    assert found > 0.3


def test_erratum_48_the_sensitivity_function_depends_on_the_shift():
    assert theorems.gaussian_renyi(order=3.0, sigma=2.0, sensitivity=0.5) == pytest.approx(3.0 * 0.25 / 8)


def test_erratum_59_the_sign_in_the_proof_for_gaussians():
    order, mu = 2.0, 1.0

    def line(sign):
        return quad(
            lambda x: math.exp(-order * x * x / 2 + sign * (1 - order) * (x - mu) ** 2 / 2) / math.sqrt(2 * math.pi),
            -30,
            30,
        )[0]

    assert math.log(line(+1)) / (order - 1) == pytest.approx(-0.883, abs=1e-3)  # a negative divergence
    ours = theorems.gaussian_renyi(order=order, sigma=1.0, sensitivity=mu)
    assert math.log(line(-1)) / (order - 1) == pytest.approx(ours)
