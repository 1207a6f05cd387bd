"""Random allocation against quadrature, integer Renyi moments, simulation, and the loss of one step."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

import tallystick as ts
from tallystick.accounting.adjacency import Direction
from tallystick.accounting.finite import law_of_pair
from tallystick.accounting.leaves.allocated import allocated_profile
from tallystick.accounting.leaves.gaussian import Gaussian, gaussian_pair
from tallystick.accounting.leaves.laplace import Laplace
from tallystick.accounting.pair import DominatingPair, swapped
from tallystick.errors import InvalidInput
from tallystick.numerics.law import Law
from tallystick.numerics.ratio_grid import cells_of
from tallystick.numerics.stoploss import MeanOfRatios

LEVELS = np.exp(np.array([0.0, 0.2, 0.7, 1.5, 3.0]))


def two_step_call(mu: float, level: float) -> float:
    """E[((V_1 + V_2)/2 - a)_+] for the Gaussian: integrate over x_1, the inner expectation is Black-Scholes."""
    x = np.linspace(-12.0, 12.0 + 2.0 * mu, 200_001)
    v = np.exp(mu * x - 0.5 * mu * mu)
    strike = 2.0 * level - v
    with np.errstate(divide="ignore", invalid="ignore"):
        d = -np.log(np.maximum(strike, 1e-300)) / mu + 0.5 * mu
        inner = np.where(strike > 0.0, ndtr(d) - strike * ndtr(d - mu), 1.0 - strike)
    return float(np.trapezoid(np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * inner, x)) / 2.0


def multinomial_call(p: list[float], q: list[float], steps: int, level: float) -> tuple[float, float]:
    """E[(B - a)_+] and E[(a - B)_+] of a finite pair, outcome by outcome."""
    above = below = 0.0
    for kinds in combinations_with_replacement(range(len(q)), steps):
        counts = [kinds.count(k) for k in range(len(q))]
        ways = math.factorial(steps) / math.prod(math.factorial(c) for c in counts)
        chance = ways * math.prod(q[k] ** c for k, c in enumerate(counts))
        mean = sum(c * p[k] / q[k] for k, c in enumerate(counts)) / steps
        above += chance * max(mean - level, 0.0)
        below += chance * max(level - mean, 0.0)
    return above, below


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_two_steps_enclose_the_exact_integral(mu: float) -> None:
    upper, lower = MeanOfRatios(gaussian_pair(mu).upper, 2).above(LEVELS)
    truth = np.array([two_step_call(mu, float(a)) for a in LEVELS])
    assert np.all(lower <= truth * (1.0 + 1e-9))
    assert np.all(truth <= upper * (1.0 + 1e-9))
    assert np.all(upper - lower <= 2e-3 * truth)


@pytest.mark.parametrize("steps", [2, 5, 9])
def test_a_finite_pair_is_enclosed_outcome_by_outcome(steps: int) -> None:
    p, q = [0.6, 0.3, 0.1], [0.2, 0.3, 0.5]
    mean = MeanOfRatios(law_of_pair(np.array(p), np.array(q)), steps)
    levels = np.array([0.5, 0.9, 1.0, 1.3, 2.0])
    truth = np.array([multinomial_call(p, q, steps, float(a)) for a in levels])
    for (upper, lower), exact in zip((mean.above(levels), mean.below(levels)), truth.T, strict=True):
        assert np.all(lower <= exact + 1e-13)
        assert np.all(exact <= upper + 1e-13)
        assert np.all(upper - lower <= 2e-3 * exact + 1e-12)


def test_mass_that_only_one_side_has_is_kept() -> None:
    """P has .1 where Q has none, Q has .2 where P has none."""
    law = law_of_pair(np.array([0.1, 0.9, 0.0]), np.array([0.0, 0.8, 0.2]))
    mean = MeanOfRatios(law, 3)
    chances = [math.comb(3, k) * 0.8**k * 0.2 ** (3 - k) for k in range(4)]
    for level in (0.3, 0.6, 1.0):
        above = sum(c * max(k * 1.125 / 3.0 - level, 0.0) for k, c in enumerate(chances))
        below = sum(c * max(level - k * 1.125 / 3.0, 0.0) for k, c in enumerate(chances))
        for bounds, exact in ((mean.above, above), (mean.below, below)):
            upper, lower = bounds(np.array([level]))
            assert lower[0] <= exact + 1e-13
            assert exact <= upper[0] + 1e-13
            assert upper[0] - lower[0] <= 2e-3 * exact + 1e-12


@pytest.mark.parametrize("steps", [3, 12])
def test_the_second_and_third_moments_are_those_of_the_mean(steps: int) -> None:
    """E[B^2] = 1 + Var(V)/t and so on, from the profile: E[B^2] = 2 int E[(B-a)_+] da."""
    mu = 0.7
    grid = np.exp(np.linspace(-6.0, 5.0, 200))
    mean = MeanOfRatios(gaussian_pair(mu).upper, steps)
    upper, lower = mean.above(grid)
    second, third = math.exp(mu**2), math.exp(3 * mu**2)
    t = float(steps)
    truths = {
        2: (t * second + t * (t - 1)) / t**2,
        3: (t * third + 3 * t * (t - 1) * second + t * (t - 1) * (t - 2)) / t**3,
    }
    for order, truth in truths.items():
        weight = order * (order - 1) * grid ** (order - 2)
        # Chords overestimate a convex function, midpoints from tangents underestimate: allow both 0.2 %.
        start = weight[0] * grid[0] if order == 2 else 0.0
        high = float(np.trapezoid(weight * upper, grid)) + start
        low = float(np.trapezoid(weight * lower, grid)) + start * (1.0 - grid[0])
        assert low <= truth * 1.002
        assert high >= truth * 0.9999
        assert high - low <= 0.005 * truth


def test_a_simulation_agrees() -> None:
    mu, steps, draws = 1.5, 20, 200_000
    generator = np.random.default_rng(20)
    ratios = np.exp(mu * generator.standard_normal((draws, steps)) - 0.5 * mu * mu)
    below = np.maximum(1.0 - 2.0 * ratios.mean(axis=1), 0.0)
    upper, lower = MeanOfRatios(gaussian_pair(mu).upper, steps).below(np.array([0.5]))
    noise = 7.0 * float(below.std()) / math.sqrt(draws)
    assert abs(2.0 * upper[0] - below.mean()) < noise
    assert 2.0 * upper[0] * 1.2 - below.mean() > noise, "a profile wrong by 20 % would be noticed"
    assert (upper[0] - lower[0]) < 2e-3 * upper[0]


def test_deep_tails_keep_their_relative_accuracy() -> None:
    upper, lower = MeanOfRatios(gaussian_pair(0.5).upper, 100).below(np.array([0.5]))
    assert 0.0 < lower[0] <= upper[0] < 1e-20
    assert upper[0] - lower[0] < 2e-3 * upper[0]


@pytest.mark.parametrize("step", [0.4, 0.05])
def test_the_grid_measures_are_ordered_by_stop_loss(step: float) -> None:
    law = gaussian_pair(1.0).upper
    cells = cells_of(law, step=step, count=math.ceil(20.0 / step))
    up, down, mirrored = cells.upper(), cells.lower(increasing=True), cells.lower(increasing=False)
    x = np.linspace(-12.0, (math.log(cells.top) + 0.5), 400_001)
    v, density = np.exp(x - 0.5), np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    for place in np.linspace(0.0, cells.top, 57):
        call = float(np.trapezoid(density * np.maximum(v - place, 0.0), x))
        put = float(np.trapezoid(density * np.maximum(place - v, 0.0), x))
        assert float(np.dot(up.masses, np.maximum(up.values - place, 0.0))) >= call - 1e-9
        assert float(np.dot(up.masses, np.maximum(place - up.values, 0.0))) >= put - 1e-9
        assert float(np.dot(down.masses, np.maximum(down.values - place, 0.0))) <= call + 1e-9
        assert float(np.dot(mirrored.masses, np.maximum(place - mirrored.values, 0.0))) <= put + 1e-9
    assert float(np.sum(down.masses)) <= float(np.sum(up.masses))


def test_one_step_is_the_mechanism_itself() -> None:
    assert ts.laplace(scale=2).allocated(steps=1) == ts.laplace(scale=2)
    assert ts.no_loss().allocated(steps=7) == ts.no_loss()


@pytest.fixture(scope="module")
def epoch() -> ts.PrivacyLoss:
    return ts.gaussian(sigma=2).allocated(steps=10)


@pytest.mark.parametrize("direction", list(Direction))
def test_an_epoch_is_never_above_one_unamplified_step(direction: Direction) -> None:
    epsilon, upper, lower = allocated_profile(Gaussian(2.0), 10, direction)
    alone = Gaussian(2.0).pair(direction).upper.excess(epsilon)
    assert np.all(lower <= upper)
    assert np.all(upper <= alone * (1.0 + 1e-9))
    assert np.all(np.diff(upper) <= 0.0)
    assert np.median((upper - lower) / upper) < 1e-3


def test_the_two_directions_are_swaps_of_each_other(epoch: ts.PrivacyLoss) -> None:
    leaf = epoch.terms[0][0]
    remove, add = leaf.pair(Direction.REMOVE), leaf.pair(Direction.ADD)
    grid = np.linspace(-0.5, 0.5, 21)
    other = DominatingPair(swapped(remove.upper), swapped(remove.lower))
    assert np.allclose(other.upper.excess(grid), add.upper.excess(grid), rtol=2e-3)
    assert np.all(other.lower.excess(grid) <= add.upper.excess(grid) + 1e-12)


def test_epochs_compose_and_stay_enclosed(epoch: ts.PrivacyLoss) -> None:
    one, ten = epoch.epsilon_bounds(delta=1e-6), (10 * epoch).epsilon_bounds(delta=1e-6)
    assert 0.0 < one.lower <= one.upper <= ts.gaussian(sigma=2).epsilon(delta=1e-6)
    assert one.upper < ten.lower <= ten.upper < 10 * one.upper
    assert ten.upper - ten.lower < 0.01 * ten.upper


def test_allocation_is_worse_than_poisson_where_taking_part_is_certain() -> None:
    """delta at epsilon 0.5: a Poisson account of the same loader would be too small."""
    mean = MeanOfRatios(gaussian_pair(2.0).upper, 10)
    allocated = float(mean.above(np.exp(np.array([0.5])))[1][0])
    poisson = (10 * ts.gaussian(sigma=0.5).sampled(rate=0.1)).delta(epsilon=0.5)
    assert allocated > 1.15 * poisson


def test_a_shuffled_loader_of_fixed_batches_is_far_above_its_poisson_account() -> None:
    """Some batch sum exceeds c; other gradients are -1, the unit's is +1 or zeroed (docs, random allocation)."""
    sigma, steps, delta, place = 0.8, 1000, 1e-6, 5.567
    others = (steps - 1) * log_ndtr(place / sigma)
    seen = [-math.expm1(log_ndtr((place - mean) / sigma) + others) for mean in (2.0, 1.0)]
    shuffled = math.log((seen[0] - delta) / seen[1])
    poisson = (steps * ts.gaussian(sigma=sigma).sampled(rate=1.0 / steps)).epsilon(delta=delta)
    assert shuffled > 6.04
    assert poisson < 0.468
    assert shuffled < ts.gaussian(sigma=sigma).epsilon(delta=delta), "one participation is all there is"


def test_laplace_epochs_respect_the_pure_bound() -> None:
    pair = Laplace(1.0).pair(Direction.REMOVE)
    upper, _ = MeanOfRatios(pair.upper, 6).above(np.exp(np.array([0.5, 0.999, 1.0])))
    assert upper[0] > 0.0
    assert upper[1] <= 1e-4
    assert upper[2] <= 1e-9


def test_a_step_too_lossy_to_follow_is_charged_unamplified() -> None:
    base = ts.gaussian(sigma=0.08)
    bounds = base.allocated(steps=10).delta_bounds(epsilon=30.0)
    assert bounds.lower == 0.0
    assert base.delta(epsilon=30.0) <= bounds.upper <= base.delta(epsilon=30.0) * 1.001


def test_an_epoch_that_may_give_everything_away_keeps_its_amplification() -> None:
    bounds = ts.discrete_pair([0.1, 0.9, 0.0], [0.0, 0.8, 0.2]).allocated(steps=3).delta_bounds(epsilon=0.1)
    truth = sum(math.comb(3, k) * 0.8**k * 0.2 ** (3 - k) * max(0.0, 1.0 - math.exp(0.1) * 0.375 * k) for k in range(4))
    assert bounds.lower <= truth <= bounds.upper < 1.02 * truth


def test_a_written_epoch_reads_back() -> None:
    loss = 3 * ts.laplace(scale=2).allocated(steps=12)
    assert ts.PrivacyLoss.from_json(loss.to_json()) == loss
    assert str(loss) == "3 * laplace(scale=2).allocated(steps=12)"


@pytest.mark.parametrize("steps", [0, -1, 2.5, math.nan, True, "ten", None, 10**7])
def test_bad_numbers_of_steps_are_refused(steps: object) -> None:
    with pytest.raises(InvalidInput):
        ts.gaussian(sigma=1).allocated(steps=steps)  # type: ignore[arg-type]


def test_replace_and_grouped_losses_are_refused() -> None:
    with pytest.raises(InvalidInput, match="add/remove"):
        ts.gaussian(sigma=1, adjacency="replace").allocated(steps=3)
    with pytest.raises(InvalidInput, match="for_groups"):
        ts.gaussian(sigma=1).for_groups(2).allocated(steps=3)


def test_a_mechanism_that_ignores_its_input_loses_nothing() -> None:
    """Up to the step of the grid; the leaf takes the smaller of this and the loss of one step, which is 0."""
    still = Law(np.array([0.0]), np.array([0.0]))
    upper, _ = MeanOfRatios(still, 5).above(np.array([1.0, 2.0]))
    assert np.all(upper <= 1e-5)
    nothing = ts.discrete_pair([0.5, 0.5], [0.5, 0.5]).allocated(steps=5)
    assert nothing.delta(epsilon=0.0) <= 1e-12


@pytest.mark.parametrize("order", [5.0, 12.0, 20.0, 100.0])
def test_an_epoch_of_discrete_noise_keeps_its_divergence_beyond_the_listed_outcomes(order: float) -> None:
    # B >= V_i / t for every i, and powers add at least: E_Q[B^a] >= t^{1-a} E_Q[V^a], with a divergence of a / (2 s^2)
    # for one step of discrete Gaussian noise moved by an integer.
    for sigma, steps in ((0.3, 3), (0.5, 2)):
        least = order / (2.0 * sigma**2) - math.log(steps)
        found = ts.discrete_gaussian(sigma=sigma).allocated(steps=steps).renyi(order=order)
        assert least * (1.0 - 1e-12) <= found <= least + math.log(steps) + 1e-6


def test_an_epoch_of_two_steps_of_discrete_noise_is_listed() -> None:
    loss = ts.discrete_gaussian(sigma=0.5).allocated(steps=2)
    assert loss.epsilon(delta=1e-300) < 74.0
    narrow = loss.delta_bounds(epsilon=1.0)
    assert narrow.relative_width < 1e-9
