"""The loss variables of a sampled Gaussian against the accountant, against draws, and against each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

import tallystick as ts
from tallystick.errors import InvalidInput
from tallystick.theorems import SampledGaussianLoss


def delta(variable, epsilon):
    """E(1 - e^(epsilon - L))_+ from the cdf, by parts."""
    return quad(lambda x: math.exp(epsilon - x) * (1 - variable.cdf(x)), epsilon, epsilon + 40, limit=400)[0]


@pytest.mark.parametrize(("rate", "sigma"), [(0.1, 1.0), (0.01, 0.7), (1.0, 2.0)])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5])
def test_the_worse_direction_has_the_accountants_delta(rate, sigma, epsilon):
    both = [delta(SampledGaussianLoss(rate, sigma, way), epsilon) for way in ("remove", "add")]
    certified = ts.gaussian(sigma=sigma).sampled(rate=rate).delta(epsilon=epsilon)
    assert max(both) == pytest.approx(certified, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("way", ["remove", "add"])
def test_the_cdf_and_the_characteristic_function_are_those_of_draws(way):
    rng, variable = np.random.default_rng(5), SampledGaussianLoss(0.3, 1.5, way)
    outputs = rng.normal(0, 1.5, 20_000) + (rng.random(20_000) < (0.3 if way == "remove" else 0.0))
    losses = np.array([variable.loss(x) for x in outputs])
    for level in (-0.1, 0.0, 0.1):
        assert abs(np.mean(losses <= level) - variable.cdf(level)) < 0.02
    assert abs(np.mean(np.exp(1j * losses)) - variable.characteristic_function(1.0)) < 0.02
    assert variable.characteristic_function(0.0) == pytest.approx(1.0, abs=1e-9)


def test_without_sampling_it_is_the_gaussian_loss():
    whole = SampledGaussianLoss(1.0, 2.0)
    assert whole.loss(3.0) == pytest.approx(5 / 8)
    assert whole.characteristic_function(1.5) == pytest.approx(
        np.exp(1j * 1.5 / 8 - 1.5**2 / 8), abs=1e-9
    )  # N(1/(2 s^2), 1/s^2)


def test_losses_no_float_can_exponentiate_stay_finite():
    sharp = SampledGaussianLoss(0.5, 1e-3)
    assert sharp.loss(1e3) == pytest.approx(math.log(0.5) + (2e3 - 1) / 2e-6)
    assert SampledGaussianLoss(0.5, 1e-3, "add").cdf(-800.0) < SampledGaussianLoss(0.5, 1e-3, "add").cdf(0.7) == 1.0
    assert sharp.cdf(-0.7) == 0.0


@pytest.mark.parametrize("bad", [{"rate": 0.0}, {"rate": 1.5}, {"sigma": 0.0}, {"way": "both"}])
def test_bad_parameters_are_refused(bad):
    with pytest.raises(InvalidInput):
        SampledGaussianLoss(**({"rate": 0.1, "sigma": 1.0} | bad))
