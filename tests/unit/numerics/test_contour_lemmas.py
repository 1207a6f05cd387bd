"""Each lemma behind the contour engine, against something that is not the engine."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import tallystick as ts
from tallystick.accounting.direction import OneDirection
from tallystick.numerics.contour import NODE_ULPS, Decay, envelope, transform
from tallystick.numerics.law import UNIT, Law
from tallystick.numerics.nufft import direct_transform

CASES = {
    "remove": (ts.gaussian(sigma=1).sampled(rate=0.01), ts.Direction.REMOVE, 3.0),
    "add": (ts.gaussian(sigma=1).sampled(rate=0.01), ts.Direction.ADD, 4.0),
    "rare big jump": (ts.gaussian(sigma=2).sampled(rate=0.01), ts.Direction.REMOVE, 35.0),
    "laplace": (ts.laplace(scale=3), ts.Direction.REMOVE, 2.0),
    "subset": (
        ts.gaussian(sigma=0.5, adjacency="replace").subset(batch=1, population=100),
        ts.Direction.REMOVE,
        1.1,
    ),
    "bounded range": (ts.exponential(epsilon=1), ts.Direction.REMOVE, 5.0),
}


def law_of(name: str) -> tuple[Law, float]:
    loss, direction, theta = CASES[name]
    return loss.terms[0][0].pair(direction).upper, theta


def reference_transform(law: Law, theta: float, times: np.ndarray) -> np.ndarray:
    """M(theta + it)/M(theta) from a quadrature twenty times finer than the engine's, of another kind."""
    values, logs = [law.atoms], [law.log_masses]
    for segment in law.segments:
        x = np.linspace(segment.low, segment.high, 100_001)
        weight = np.full(x.size, math.log(x[1] - x[0]))
        weight[[0, -1]] -= math.log(2.0)
        values.append(segment.loss(x))
        logs.append(segment.log_density(x) + weight)
    points, exponents = np.concatenate(values), theta * np.concatenate(values) + np.concatenate(logs)
    weights = np.exp(exponents - exponents.max())
    weights /= weights.sum()
    return np.array([np.sum(weights * np.exp(1j * t * points)) for t in times])


@pytest.mark.parametrize("name", CASES)
def test_the_transform_is_within_its_stated_error(name: str) -> None:
    law, theta = law_of(name)
    spacing, count = 0.37, 30
    found = transform(law, theta, spacing, count)
    assert found is not None
    truth = reference_transform(law, theta, spacing * np.arange(count))
    # The reference is a trapezoid rule on finite pieces: its own error is near 1e-9 where they end abruptly.
    assert np.all(np.abs(found.ratios - truth) <= found.errors + 2e-8)
    assert np.max(found.errors) < 1e-11


@pytest.mark.parametrize("name", CASES)
def test_the_decay_bound_holds_at_every_larger_time(name: str) -> None:
    law, theta = law_of(name)
    decay = Decay.of(law, theta)
    found = transform(law, theta, 0.91, 200)
    assert found is not None
    times = 0.91 * np.arange(200)
    sizes = np.log(np.abs(found.ratios) + 1e-300)
    largest_later = np.maximum.accumulate(sizes[::-1])[::-1]
    bounds = np.array([decay.log_bound(float(t)) for t in times[1:]])
    assert np.all(bounds >= largest_later[1:] - 1e-9)
    # It does decay, down to what the atoms hold: a bound that never could fail is no bound.
    held = float(np.sum(np.exp(theta * law.atoms + law.log_masses - found.log_norm)))
    assert decay.log_bound(1e5) < math.log(held + 0.35 * (1.0 - held))


def test_the_envelope_is_a_decreasing_majorant_of_sinc() -> None:
    x = np.linspace(1e-6, 400.0, 100_001)
    values = envelope(x)
    assert np.all(values >= np.abs(np.sin(x) / x) - 1e-15)
    assert np.all(np.diff(values) <= 1e-15)


EXPRESSIONS = [
    1000 * ts.gaussian(sigma=1).sampled(rate=0.01),
    1000 * ts.laplace(scale=20),
    50 * ts.gaussian(sigma=2).sampled(rate=0.2) + 30 * ts.laplace(scale=5).sampled(rate=0.1) + ts.gaussian(sigma=4),
    1000 * ts.gaussian(sigma=0.5, adjacency="replace").subset(batch=5, population=500),
]


@pytest.mark.parametrize("loss", EXPRESSIONS, ids=str)
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_both_engines_enclose_the_same_number(loss: ts.PrivacyLoss, delta: float) -> None:
    for direction in ts.Direction:
        side = OneDirection.of(loss.terms, direction)
        fine = side.saddle.epsilon_bounds(delta)
        coarse = side.grid.epsilon_bounds(delta, tolerance=1e-3)
        assert fine is not None
        assert coarse.lower <= fine.upper
        assert fine.lower <= coarse.upper
        assert fine.relative_width < 1e-6
        assert coarse.relative_width < 2e-2


def test_a_long_lattice_composition_keeps_its_side() -> None:
    """Ten thousand discrete Gaussians once read 1e-8 below the truth: values cancelled in the grid."""
    bounds = (10_000 * ts.discrete_gaussian(sigma=30)).epsilon_bounds(delta=1e-9)
    assert 24.97772388 in bounds or abs(bounds.upper - 24.97772388105) < 1e-9
    assert bounds.relative_width < 1e-6


def test_the_sum_is_a_bound_although_the_window_misses_zero() -> None:
    """A bounded sum tilted onto its largest value once read epsilon 0."""
    bounds = (5 * ts.discrete_laplace(scale=300_000, sensitivity=100_000)).epsilon_bounds(delta=1e-6)
    assert 1.666 < bounds.lower <= bounds.upper <= 5 / 3 + 1e-9
    assert bounds.upper >= 1.66663


@pytest.mark.parametrize("epsilon", [2.5, 4.0, 5.0])
def test_tilted_mass_that_wraps_round_does_not_enter_a_lower_bound(epsilon: float) -> None:
    """With rare big jumps a tenth of the tilted mass lay above the grid's window and came back as evidence."""
    loss = 2000 * ts.gaussian(sigma=1.5).sampled(rate=0.01)
    side = OneDirection.of(loss.terms, ts.Direction.REMOVE)
    contour, grid = side.saddle.delta_bounds(epsilon), side.grid.delta_bounds(epsilon, tolerance=1e-3)
    assert contour is not None
    assert grid.lower <= contour.upper
    assert contour.lower <= grid.upper
    if epsilon == 4.0:
        # A trapezoid rule of its own (no engine, 140,001 points, two tilts) gave 2.70833166e-27.
        assert contour.upper == pytest.approx(2.70833166412e-27, rel=1e-7)
        assert contour.lower == pytest.approx(2.70833166412e-27, rel=1e-7)


def test_far_beyond_the_reach_of_a_law_nothing_is_claimed() -> None:
    """Once [1, 1] where delta is negligible, and a lower bound of 1.8e-25 where it is below 1e-170."""
    loss = 1465 * ts.gaussian(sigma=8).sampled(rate=0.02048)
    assert loss.delta(epsilon=8) < 1e-100
    assert loss.delta_bounds(epsilon=8).lower < 1e-100


def test_the_trade_off_of_a_strong_gaussian_is_true_at_tiny_false_alarm_rates() -> None:
    assert ts.gdp(mu=8).tradeoff(alpha=1e-17) == pytest.approx(0.68927389, rel=1e-6)


@pytest.mark.parametrize("sigma", [1e-2, 641.0, 1966.4, 1e4, 1e7])
def test_large_epsilons_of_weak_and_strong_steps_are_bounded(sigma: float) -> None:
    """A calibration once failed: delta(8) of 1465 steps of sigma 1966 was called 0.006."""
    loss = 1465 * ts.gaussian(sigma=sigma).sampled(rate=0.02048)
    for epsilon in (8.0, 1000.0):
        assert loss.delta(epsilon=epsilon) <= (1e-200 if sigma > 1.0 else 1.0)


def test_the_largest_loss_is_not_taken_for_exact() -> None:
    """49 releases of 1/49 add up to 1; in doubles to 1 - 1e-16, where delta is positive and was once called zero."""
    loss = 49 * ts.laplace(scale=49.0)
    below_one = math.nextafter(1.0, 0.0)
    assert loss.delta(epsilon=below_one) > 0.0
    assert loss.delta(epsilon=1.0 + 1e-12) == 0.0


@pytest.mark.parametrize(("size", "count"), [(1, 1), (3, 20_000), (40, 700), (700, 90)])
def test_a_table_of_times_is_the_sum_of_its_exponentials_within_the_stated_rounding(size: int, count: int) -> None:
    rng = np.random.default_rng(size)
    points, weights, spacing = 3.0 * rng.normal(size=size), rng.exponential(size=size), 0.07
    found = direct_transform(points, weights, spacing, count)
    assert found.shape == (count,)
    with mpmath.workdps(40):
        for k in sorted({0, 1, count // 3, count - 1} & set(range(count))):
            turns = (
                mpmath.mpf(w) * mpmath.expj(mpmath.mpf(spacing) * k * mpmath.mpf(x))
                for w, x in zip(weights, points, strict=True)
            )
            error = float(abs(mpmath.mpc(found[k]) - mpmath.fsum(turns)))
            allowed = UNIT * (NODE_ULPS * weights.sum() + spacing * k * np.dot(weights, np.abs(points)))
            assert error <= allowed
