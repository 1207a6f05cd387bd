"""The Gaussian profile and trade-off curve against 60-digit arithmetic, from mu = 1e-6 to 1e5 and into the tails."""

from __future__ import annotations

import math
import random

import mpmath as mp
import numpy as np
import pytest

import tallystick as ts
from tallystick.accounting import gdp

pytestmark = pytest.mark.filterwarnings("error")


def profile(mu: float, epsilon: float) -> mp.mpf:
    m, e = mp.mpf(mu), mp.mpf(epsilon)
    return mp.ncdf(m / 2 - e / m) - mp.e**e * mp.ncdf(-m / 2 - e / m)


def draws(seed: int, count: int, largest: float) -> list[tuple[float, float]]:
    """mu over the whole range, epsilon where delta is between one and 1e-310."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        mu = 10 ** draw.uniform(-6, largest)
        z = draw.choice([draw.uniform(-10, 38), draw.uniform(-1, 3), draw.gauss(0, 1e-3)])
        found.append((mu, mu * (z + mu / 2)))
    return found


def test_delta_is_enclosed() -> None:
    """For mu above 1e3 a quarter of these were wrong: rounding epsilon/mu moves it by as much as mu units."""
    with mp.workdps(60):
        for mu, epsilon in draws(1, 600, 5):
            bounds, truth = gdp.delta_bounds(mu, max(0.0, epsilon)), profile(mu, max(0.0, epsilon))
            assert mp.mpf(bounds.lower) <= truth <= mp.mpf(bounds.upper), (mu, epsilon)
            if truth > 1e-290:
                assert bounds.width <= 1e-8 * float(truth)


def test_many_thresholds_at_once() -> None:
    with mp.workdps(60):
        for mu, epsilon in draws(2, 400, 4):
            value, error = gdp.excess(mu, np.array([epsilon]))
            assert abs(mp.mpf(float(value[0])) - profile(mu, epsilon)) <= mp.mpf(float(error[0])), (mu, epsilon)


def test_power_and_tradeoff_are_on_their_sides() -> None:
    draw = random.Random(3)
    with mp.workdps(60):
        for _ in range(400):
            mu = 10 ** draw.uniform(-6, 4)
            alpha = draw.choice([draw.random(), 10 ** draw.uniform(-35, 0), 1 - 10 ** draw.uniform(-16, -1)])
            place = mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(alpha)) - mp.mpf(mu)
            assert mp.mpf(gdp.tradeoff(mu, alpha)) <= mp.ncdf(place)
            assert mp.mpf(gdp.power(mu, alpha)) >= mp.ncdf(-place)


def test_a_small_gaussian_keeps_its_digits() -> None:
    """delta(0) = 2 Phi(mu/2) - 1: it was 1.5e-10 of itself too low."""
    mu = 4.740953281011936e-06
    with mp.workdps(40):
        assert mp.mpf(ts.gdp(mu=mu).delta(epsilon=0)) >= 2 * mp.ncdf(mp.mpf(mu) / 2) - 1


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 9e-4, 0.0099, 0.0101, 1.0, 30.0, 300.0])
def test_the_gaussian_above_a_pure_loss(epsilon: float) -> None:
    with mp.workdps(400):
        truth = 2 * mp.sqrt(2) * mp.erfinv(1 - 2 / (1 + mp.e ** mp.mpf(epsilon)))
        assert truth <= mp.mpf(gdp.mu_of_pure(epsilon)) <= truth * (1 + mp.mpf("1e-12"))


def test_the_gaussian_above_a_huge_pure_loss() -> None:
    assert gdp.mu_of_pure(1e6) == pytest.approx(2 * math.sqrt(2e6), rel=1e-4)
