"""Chapter 6 of the notes with its errata mended."""

from __future__ import annotations

import numpy as np
import pytest

from tallystick.theorems import best_split, perturbation_error, perturbation_ridge, softmax_perturbation_delta

PLACE = {"rows": 100, "dimension": 8, "epsilon": 1.0, "sensitivity": 1.0, "curvature": 0.25, "bound": 2.0}


def test_erratum_55_the_noise_is_counted_once():
    # E|V| = m Delta/(epsilon q) of a Gamma(m) length; counted twice it is 320 instead of 40 here.
    random = np.random.default_rng(0)
    lengths = random.gamma(8, 1.0 / (1.0 * 0.2), 200_000)
    _, spread = perturbation_error(share=0.2, **{**PLACE, "rows": 1})
    assert spread == pytest.approx(40.0)
    assert spread == pytest.approx(lengths.mean(), rel=0.01)


def test_erratum_54_the_norm_of_the_inverse_not_one_over_the_norm():
    # theta# - theta_hat = (H + gamma I)^{-1} gamma theta_hat for a quadratic loss.
    hessian, gamma, theta = np.diag([1.0, 0.01]), 0.001, np.array([0.0, 1.0])
    exact = np.linalg.norm(np.linalg.solve(hessian + gamma * np.eye(2), gamma * theta)) / gamma
    right, printed = np.linalg.norm(np.linalg.inv(hessian), 2), 1 / np.linalg.norm(hessian, 2)
    assert exact == pytest.approx(90.909, abs=0.01)
    assert printed < exact <= right


def test_the_best_split_is_best():
    q = best_split(epsilon=1.0, dimension=8, sensitivity=1.0, curvature=0.25, bound=2.0)
    least = sum(perturbation_error(share=q, **PLACE))
    for other in np.linspace(0.01, 0.99, 99):
        assert least <= sum(perturbation_error(share=float(other), **PLACE)) + 1e-9


def test_the_ridge_pays_for_the_determinant():
    gamma = perturbation_ridge(epsilon=2.0, share=0.25, curvature=0.25)
    assert np.log1p(0.25 / gamma) == pytest.approx(2.0 * 0.75)


def test_softmax_needs_its_own_bound():
    # Exact at K = 10, ridge .02, sigma 1, epsilon 3: .138; one Gaussian of sqrt 2 would claim .032.
    assert softmax_perturbation_delta(epsilon=3.0, classes=10, sigma=1.0, ridge=0.02) >= 0.138
    two = softmax_perturbation_delta(epsilon=3.0, classes=2, sigma=2.0, ridge=1.0)
    assert 0 < two < softmax_perturbation_delta(epsilon=3.0, classes=3, sigma=2.0, ridge=1.0) < 1
