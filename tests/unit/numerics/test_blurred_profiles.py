"""The lemmas behind the blurred contour, each against something that is not the engine."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tallystick as ts
from tallystick.accounting import gdp
from tallystick.accounting.compose import SaddleSum
from tallystick.accounting.direction import OneDirection
from tallystick.numerics.contour import LineDecay
from tallystick.numerics.law import Law, Line, Segment
from tallystick.numerics.nufft import nonuniform_transform
from tallystick.numerics.smoothing import BlurredNodes, kink


def blurred_kink(distance: float, blur: float) -> float:
    """E(1 - e^{m + Y})_+ with E[e^Y] = 1: the profile of one Gaussian release, read at m."""
    return gdp.delta_bounds(blur, distance).upper if distance >= 0 else _negative(distance, blur)


def _negative(distance: float, blur: float) -> float:
    """delta(-e) = 1 - e^{-e} + e^{-e} delta(e) for a symmetric pair."""
    shrunk = math.exp(distance)
    return 1.0 - shrunk + shrunk * gdp.delta_bounds(blur, -distance).upper


@pytest.mark.parametrize("blur", [1e-3, 0.02, 0.5, 2.0])
def test_extrapolating_two_blurs_of_a_kink_never_exceeds_it(blur: float) -> None:
    ratio = kink(blur) / kink(2 * blur)
    for distance in blur * np.linspace(-6.0, 6.0, 121):
        plain = max(0.0, -math.expm1(distance))
        once, twice = blurred_kink(float(distance), blur), blurred_kink(float(distance), 2 * blur)
        assert once >= plain - 1e-13
        assert (once - ratio * twice) / (1 - ratio) <= plain + 1e-12
    # A smaller ratio breaks it at the kink itself: the constant is the best one.
    smaller = 0.99 * ratio
    assert (blurred_kink(0.0, blur) - smaller * blurred_kink(0.0, 2 * blur)) / (1 - smaller) > 1e-7


def test_points_spread_on_a_grid_give_the_direct_sum() -> None:
    rng = np.random.default_rng(5)
    points, weights = rng.normal(scale=20.0, size=3000), rng.exponential(size=3000)
    weights /= weights.sum()
    found, error = nonuniform_transform(points, weights, 0.07, 500)
    times = 0.07 * np.arange(500)
    direct = np.array([np.sum(weights * np.exp(1j * t * points)) for t in times])
    slack = 4 * 2.0**-52 * times * np.mean(np.abs(points))
    assert np.all(np.abs(found - direct) <= error + 4 * slack)
    assert error < 1e-11
    shifted, _ = nonuniform_transform(points + 1e-6, weights, 0.07, 500)
    assert np.max(np.abs(shifted - direct)) > 100 * error


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.01), (0.3, 0.001), (3.0, 0.2), (0.5, 0.9)])
@pytest.mark.parametrize("theta", [0.5, 8.0, 40.0])
def test_the_shifted_path_bounds_the_transform(sign: int, mu: float, rate: float, theta: float) -> None:
    decay = LineDecay.of(Line(mu, rate, sign), theta)
    x = np.linspace(-60.0 - mu * theta, 60.0 + mu * theta, 400_001)
    loss = np.log1p(rate * np.expm1(np.minimum(mu * x - mu * mu / 2, 700.0)))
    exponent = (1 + theta if sign > 0 else -theta) * loss - x * x / 2
    weights = np.exp(exponent - exponent.max())
    weights /= weights.sum()
    closest = math.inf
    for time in (1.0, 10.0, 60.0, 300.0):
        size = abs(np.sum(weights * np.exp(1j * time * loss)))
        assert decay.bound(time) >= size - 1e-12
        closest = min(closest, decay.bound(time) - size)
    assert closest < 0.25
    assert decay.bound(1e6) < decay.bound(10.0)


@pytest.mark.parametrize("loss", [3 * ts.laplace(scale=2), 7 * ts.laplace(scale=1).sampled(rate=0.3)], ids=str)
def test_blurred_and_exact_bounds_enclose_the_same_number(loss: ts.PrivacyLoss) -> None:
    side = OneDirection.of(loss.terms, ts.Direction.REMOVE)
    contour, grid = side.saddle.epsilon_bounds(1e-3), side.grid.epsilon_bounds(1e-3)
    assert contour is not None
    assert contour.relative_width < 1e-6
    assert grid.lower <= contour.upper
    assert contour.lower <= grid.upper


def test_few_laplace_releases_are_enclosed_as_by_listing_their_atoms() -> None:
    """Two Laplace releases in closed form: atoms at the ends, an exponential piece between (integrated by hand)."""
    scale, epsilon = 2.0, 0.6
    x = np.linspace(-1 / scale, 1 / scale, 200_001)
    middle = np.exp(x / 2 - 1 / (2 * scale)) / 4
    cell = x[1] - x[0]
    half, small = 0.5, 0.5 * math.exp(-1 / scale)

    def beyond(level: float) -> float:
        gain = np.maximum(0.0, -np.expm1(level - x))
        inner = float(np.sum(middle * gain) * cell - 0.5 * cell * (middle[-1] * gain[-1]))
        low, high = max(0.0, -math.expm1(level + 1 / scale)), max(0.0, -math.expm1(level - 1 / scale))
        return inner + half * high + small * low

    steps = x[::20]
    weights = middle[::20] * cell * 20
    weights[[0, -1]] *= 0.5
    truth = half * beyond(epsilon - 1 / scale) + small * beyond(epsilon + 1 / scale)
    truth += float(np.sum(weights * np.array([beyond(epsilon - s) for s in steps[::20]]).repeat(20)[: steps.size]))
    bounds = (2 * ts.laplace(scale=scale)).delta_bounds(epsilon=epsilon)
    assert bounds.lower == pytest.approx(truth, rel=2e-3)
    assert bounds.relative_width < 3e-5


def test_trimming_moves_only_what_it_says() -> None:
    law = Law(np.array([0.0, 1.0, 50.0]), np.log([0.5, 0.5 - 1e-12, 1e-12]))
    rest, gone = law.trimmed(1e-11)
    assert rest.highest == 1.0
    assert gone == pytest.approx(1e-12, rel=1e-9)
    same, nothing = law.trimmed(1e-13)
    assert (same.highest, nothing) == (50.0, 0.0)


def test_rare_huge_losses_no_longer_hide_the_answer() -> None:
    """The tilt used to end at the second mode of the tilted law: [0, 0.4] for 0.129."""
    loss = 5840 * ts.gaussian(sigma=1.6).sampled(rate=0.00029)
    bounds = loss.epsilon_bounds(delta=5.8e-19)
    assert bounds.relative_width < 1e-3
    assert loss.epsilon(delta=5.8e-19) <= bounds.upper * (1 + 1e-9)


def test_aliases_are_bounded_beyond_the_reach_of_the_untilted_law() -> None:
    """A lower bound was once 1.5e-9 above the truth: the alias from above was computed from a law cut at 38 sigma."""
    rr = ts.randomized_response(epsilon=0.5094428764973769, choices=20, adjacency="add_remove")
    loss = 18 * ts.discrete_laplace(scale=47.02472097414444, sensitivity=4) + 2 * rr.sampled(rate=0.015987766206201535)
    loss += ts.gaussian(sigma=2.6832504746441814).sampled(rate=0.001183834637279894)
    bounds = loss.epsilon_bounds(delta=3.7231697710573434e-11)
    assert bounds.lower <= 1.548862013889815164076852 <= bounds.upper  # the sweep's oracle, 25 digits
    assert bounds.relative_width < 1e-5


def test_a_panel_rule_follows_large_tilts() -> None:
    """Eight nodes in a panel miss the end of a law that a tilt of 10^5 lives on."""
    segment = Segment(0.0, 1.0, np.zeros_like, lambda x: np.sinh(x), lambda v: np.arcsinh(v), panel=0.5)
    found = float(Law(segments=(segment,)).log_mgf(np.array([1e5]))[0])
    # Laplace's method: e^{theta sinh 1} / (theta cosh 1), corrections of order 1e-5.
    assert found == pytest.approx(1e5 * math.sinh(1.0) - math.log(1e5 * math.cosh(1.0)), abs=1e-4)


def test_nodes_with_a_blur_know_it() -> None:
    side = OneDirection.of((5 * ts.laplace(scale=2)).terms, ts.Direction.REMOVE)
    engine = SaddleSum.of(side.saddle_pairs, side.mu, side.mu).upper
    nodes = BlurredNodes.of(engine, 0.01, 3.0, -10.0, 1e-7)
    assert nodes is not None
    assert nodes.blur == 0.01
    assert nodes.lower(1.0) <= nodes.upper(1.0)


@pytest.mark.parametrize("mu", [1e-4, 0.3, 2.0, 20.0])
def test_the_gaussian_profile_at_many_thresholds_is_the_one_at_each(mu: float) -> None:
    thresholds = mu * np.array([-30.0, -5.0, -1.0, -0.1, 0.0, 0.1, 1.0, 5.0, 12.0, 30.0])
    values, errors = gdp.excess(mu, thresholds)
    for threshold, value, error in zip(thresholds.tolist(), values.tolist(), errors.tolist(), strict=True):
        assert value == pytest.approx(blurred_kink(threshold, mu), rel=1e-9, abs=2 * error)
        assert error <= 1e-10 * max(value, 1e-3) + 1e-13


def test_listed_outcomes_beside_a_gaussian_agree_with_the_contour() -> None:
    loss = ts.gaussian(sigma=2) + 3 * ts.pure_dp(epsilon=0.3)
    side = OneDirection.of(loss.terms, ts.Direction.REMOVE)
    assert side.listed is not None
    contour, listed = side.saddle.epsilon_bounds(1e-6), loss.epsilon_bounds(delta=1e-6)
    assert contour is not None
    assert contour.lower <= listed.upper
    assert listed.lower <= contour.upper
    assert listed.relative_width < 1e-12
    assert 0.0 < side.delta_bounds(contour.upper).lower <= 1e-6 * (1 + 1e-9)


def test_a_narrow_law_beside_wide_atoms_is_tilted_as_far_as_it_needs() -> None:
    """The tilt used to stop where the atoms had collapsed onto the largest: 156 instead of 58.58."""
    steps = 512_362 * ts.gdp(mu=7.3612430138812954e-06).sampled(rate=0.05842692771846827)
    bounds = (13 * ts.pure_dp(epsilon=4.506246536648545) + steps).epsilon_bounds(delta=1e-28)
    assert 13 * 4.506 < bounds.lower <= bounds.upper < 13 * 4.507
    assert bounds.relative_width < 1e-9


def test_the_route_is_visible() -> None:
    assert "blurred" in (3 * ts.laplace(scale=2)).explain_computation()
    assert "characteristic function" in (1000 * ts.gaussian(sigma=1).sampled(rate=0.01)).explain_computation()
    assert "listed" in (5 * ts.discrete_laplace(scale=3, sensitivity=2)).explain_computation()
    assert "closed form" in (5 * ts.gaussian(sigma=3)).explain_computation()
