"""The tight pair of Poisson-sampled Gaussian noise under replace, against quadratures of its own."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tallystick as ts
from sweeps import share
from tallystick.accounting.leaves.substituted import SampledReplaced


def normal(x: np.ndarray, centre: float) -> np.ndarray:
    return np.exp(-0.5 * (x - centre) ** 2) / math.sqrt(2 * math.pi)


def profile(mu: float, rate: float, epsilon: float) -> float:
    x, cell = np.linspace(-14.0 - mu, 14.0 + mu, 1_000_001, retstep=True)
    p = (1 - rate) * normal(x, 0) + rate * normal(x, mu)
    q = (1 - rate) * normal(x, 0) + rate * normal(x, -mu)
    return float(np.sum(np.maximum(0.0, p - math.exp(epsilon) * q)) * cell)


def replaced(sigma: float, rate: float) -> ts.PrivacyLoss:
    return ts.gaussian(sigma=sigma).sampled(rate=rate).as_replace()


@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.01), (0.5, 0.3), (3.0, 0.9), (0.3, 0.05)])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0])
def test_one_step_has_the_profile_of_the_pair(sigma: float, rate: float, epsilon: float) -> None:
    bounds = replaced(sigma, rate).delta_bounds(epsilon=epsilon)
    truth = profile(1 / sigma, rate, epsilon)
    assert bounds.upper == pytest.approx(truth, rel=1e-6, abs=1e-11)
    assert bounds.lower <= truth * (1 + 1e-6) + 1e-11
    assert bounds.relative_width < 1e-9


def test_no_two_records_are_told_apart_better() -> None:
    """The plane, by quadrature: random changes u, v of norm at most mu, several levels, both orders."""
    mu, rate = 1.3, 0.2
    side, cell = np.linspace(-8.0, 8.0, 401, retstep=True)
    x, y = np.meshgrid(side, side)
    base = normal(x, 0) * normal(y, 0)
    rng = np.random.default_rng(11)
    largest, most = 0.0, {epsilon: profile(mu, rate, epsilon) for epsilon in (-0.2, 0.0, 0.1, 0.3, 0.8)}
    for _ in range(40):
        points = []
        for _ in range(2):
            angle, length = rng.uniform(0, 2 * math.pi), mu * math.sqrt(rng.uniform())
            points.append((length * math.cos(angle), length * math.sin(angle)))
        p, q = ((1 - rate) * base + rate * normal(x, a) * normal(y, b) for a, b in points)
        for epsilon, bound in most.items():
            found = float(np.sum(np.maximum(0.0, p - math.exp(epsilon) * q)) * cell**2)
            assert found <= bound + 1e-6
            largest = max(largest, found / bound)
    assert largest > 0.6  # the random changes come near the worst ones, so the bound could fail


def test_without_sampling_it_is_twice_the_sensitivity() -> None:
    almost = replaced(2.0, 1 - 1e-9).epsilon(delta=1e-6)
    assert almost == pytest.approx(ts.gaussian(sigma=1.0).epsilon(delta=1e-6), rel=1e-6)


@pytest.mark.parametrize("steps", share([2, 40, 1000], 2))
def test_compositions_lie_between_one_record_more_and_the_general_rule(steps: int) -> None:
    step = ts.gaussian(sigma=1.0).sampled(rate=0.02)
    bounds = (steps * step).as_replace().epsilon_bounds(delta=1e-6)
    assert bounds.relative_width < 3e-6
    assert (steps * step).epsilon_bounds(delta=1e-6).lower < bounds.lower
    general = (steps * ts.gdp(mu=1.0).sampled(rate=0.02)).as_replace().epsilon(delta=1e-6)
    assert bounds.upper < general


def test_a_composition_is_that_of_an_own_grid() -> None:
    """30 steps, losses rounded up to a grid of 1e-4 and added by FFT: an upper bound a little above ours."""
    steps, mu, rate = 30, 1.0, 0.1
    x, cell = np.linspace(-12.0, 13.0, 2_000_001, retstep=True)
    p = ((1 - rate) * normal(x, 0) + rate * normal(x, mu)) * cell
    loss = np.log1p(rate * np.expm1(mu * x - mu**2 / 2)) - np.log1p(rate * np.expm1(-mu * x - mu**2 / 2))
    width, size = 1e-4, 2**20
    place = np.ceil(loss / width).astype(int)
    masses = np.bincount(np.clip(place, -size // 2, size // 2 - 1) % size, p, minlength=size)
    total = np.fft.irfft(np.fft.rfft(masses) ** steps, size)
    values = width * np.where(np.arange(size) < size // 2, np.arange(size), np.arange(size) - size)
    loss_30 = steps * replaced(1.0, rate)
    for epsilon in (1.0, 2.0):
        grid = float(np.sum(np.maximum(0.0, total) * np.maximum(0.0, -np.expm1(epsilon - values)) * (values > epsilon)))
        bounds = loss_30.delta_bounds(epsilon=epsilon)
        assert bounds.lower <= grid
        assert bounds.upper == pytest.approx(grid, rel=2e-2)


def test_it_is_written_and_read_back() -> None:
    loss = 10 * replaced(1.5, 0.01)
    assert loss.terms[0][0] == SampledReplaced(1.5, 0.01)
    assert ts.PrivacyLoss.from_json(loss.to_json()) == loss
    assert "as_replace()" in str(loss)
