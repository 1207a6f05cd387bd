"""Proposition 13.7: a smaller Renyi divergence at every order does not mean harder to tell apart."""

from __future__ import annotations

import numpy as np
import pytest

import tallystick.theorems as theorems
from tallystick.theorems import PiecewiseTradeoff


@pytest.mark.parametrize("epsilon", [0.2, 0.5, 1.0])
def test_randomized_response_is_renyi_closer_than_gaussians_and_yet_easier_to_tell_apart(epsilon):
    for order in [1.0, 1.0001, 1.1, 1.5, 2.0, 5.0, 50.0, 5000.0]:
        assert theorems.randomized_response_renyi(order=order, epsilon=epsilon) <= theorems.gaussian_renyi(
            order=order, sigma=1.0, sensitivity=epsilon
        )
    p = np.array([np.exp(epsilon), 1.0]) / (1 + np.exp(epsilon))
    tv = float(np.abs(p - p[::-1]).sum() / 2)
    grid = np.linspace(-12, 12 + epsilon, 400_001)
    gauss = np.exp(-(grid**2) / 2) - np.exp(-((grid - epsilon) ** 2) / 2)
    normal_tv = float(np.abs(gauss).sum() * (grid[1] - grid[0]) / np.sqrt(2 * np.pi) / 2)
    assert theorems.normal_tv(mu=epsilon) == pytest.approx(normal_tv, rel=1e-6)
    assert tv > normal_tv * 1.1
    assert theorems.approx_to_tv(epsilon=epsilon) == pytest.approx(tv, rel=1e-9)


def test_the_tradeoff_functions_cross():
    f = PiecewiseTradeoff.of_approx_dp(epsilon=1.0)
    difference = [float(f(a)) - theorems.gaussian_tradeoff(mu=1.0, alpha=a) for a in (0.001, 0.3)]
    assert difference[0] > 0 > difference[1]
