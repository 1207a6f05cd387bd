"""Long sums in which rare releases lose much: their distribution beside closed forms and listed numbers of jumps."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import binom, poisson

import tallystick as ts
from sweeps import share
from tallystick.accounting.jumps import Jumps


def test_a_mixture_that_moves_far_once_in_a_billion_is_a_poisson_number_of_normal_jumps() -> None:
    """A jump is log(1e-9) + 50 x - 1250 with x about N(50, 1); all others drift by 5e-4 - 1, with deviation .0316."""
    loss = 10**9 * ts.gaussian_mixture(sigma=1, sensitivities=[1e-6, 50.0], probabilities=[1 - 1e-9, 1e-9])
    variable = loss.privacy_loss(ts.Direction.REMOVE)
    middle, deviation = 1250 + math.log(1e-9), math.sqrt(1e-3)

    def truth(x: float) -> float:
        return math.fsum(
            poisson.pmf(k, 1) * ndtr((x + 1 - 5e-4 - k * middle) / math.hypot(deviation, 50 * math.sqrt(k)))
            for k in range(30)
        )

    for x in (-1.1, -1.03, -1.0, -0.98, -0.9, 0.0, 1100.0, middle, 1300.0, 2500.0, 4000.0, 9000.0):
        assert variable.cdf(x) == pytest.approx(truth(x), abs=2e-4), x
    assert variable.quantile(0.2) == pytest.approx(-1 + 5e-4, abs=0.02)
    assert variable.quantile(0.55) == pytest.approx(middle, abs=2)


@pytest.mark.parametrize("count", [15_000, 10**6, 10**9])
def test_jumps_of_three_sizes_are_the_sums_of_numbers_of_each(count: int) -> None:
    """Outcomes of 1e-6, 2 and 300 losses: every sum of jumps in its place."""
    rates = np.array([1.5, 0.4]) / count
    far = rates * np.exp([-2.0, -300.0])
    p = [1 - float(np.sum(rates)), *rates.tolist()]
    q = [1 - float(np.sum(far)), *far.tolist()]
    variable = (count * ts.discrete_pair(p, q)).privacy_loss(ts.Direction.REMOVE)
    losses = np.log(np.array(p) / np.array(q))
    for few, many in ((0, 0), (1, 0), (3, 0), (0, 1), (2, 1), (1, 2)):
        place = few * losses[1] + many * losses[2] + (count - few - many) * losses[0]
        for x in (place - 0.5, place + 0.5):
            listed = math.fsum(
                binom.pmf(a, count, p[1]) * binom.pmf(b, count - a, p[2] / (1 - p[1]))
                for a in range(40)
                for b in range(25)
                if a * losses[1] + b * losses[2] + (count - a - b) * losses[0] <= x
            )
            assert variable.cdf(x) == pytest.approx(listed, abs=1e-4)


def test_a_sampled_sum_agrees_with_draws_of_it_and_half_of_its_jumps_do_not() -> None:
    """1e6 releases at a rate of 1e-9: losses below x = 3.3 are normal together, the others are drawn."""
    count, mu, rate, cut, draws = 10**6, 5.0, 1e-9, 3.3, 10_000
    rng = np.random.default_rng(5)
    x = np.linspace(-12.0, cut, 200_001)
    weight = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    small = np.log1p(rate * np.expm1(mu * x - mu * mu / 2))
    mean, square = float(np.dot(weight, small)), float(np.dot(weight, small**2))
    numbers = rng.poisson(count * ndtr(-cut), draws)
    far = -ndtri(rng.random(int(np.sum(numbers))) * ndtr(-cut))
    jumps = np.log1p(rate * np.expm1(mu * far - mu * mu / 2))
    sums = np.bincount(np.repeat(np.arange(draws), numbers), jumps, draws)
    sums += count * mean + math.sqrt(count * square) * rng.standard_normal(draws)
    variable = (count * ts.gaussian(sigma=1 / mu).sampled(rate=rate)).privacy_loss(ts.Direction.REMOVE)
    rare = (count // 2 * ts.gaussian(sigma=1 / mu).sampled(rate=rate)).privacy_loss(ts.Direction.REMOVE)
    for part in (0.05, 0.3, 0.5, 0.8, 0.95):
        place = float(np.quantile(sums, part))
        assert variable.cdf(place) == pytest.approx(part, abs=4 * math.sqrt(part * (1 - part) / draws))
    place = float(np.quantile(sums, 0.5))
    assert abs(rare.cdf(place) - 0.5) > 0.02


def test_a_sum_without_rare_losses_has_no_levels_and_one_of_few_releases_is_left_to_others() -> None:
    noise = [(pair.upper, 10**6) for pair, _ in (10**6 * ts.laplace(scale=100)).privacy_loss()._side.saddle_pairs]
    found = Jumps.of(noise, 0.0)
    assert found is not None
    assert not found.levels
    few = (3 * ts.laplace(scale=0.1).sampled(rate=0.3)).privacy_loss()._side.saddle_pairs
    assert Jumps.of([(pair.upper, count) for pair, count in few], 0.0) is None


@pytest.mark.parametrize(
    "loss",
    share(
        [
            3 * ts.approx_dp(epsilon=22.4, delta=1e-14).sampled(rate=1e-5)
            + 50 * ts.gaussian_mixture(sigma=1.0, sensitivities=[3e-07, 17.0], probabilities=[1 - 3e-4, 3e-4]),
            1000 * ts.gaussian(sigma=0.074).sampled(rate=0.01) + 3 * ts.gaussian(sigma=25.0).sampled(rate=3e-6),
            3 * ts.laplace(scale=0.036).sampled(rate=4e-7) + 10000 * ts.laplace(scale=5.2).sampled(rate=3e-8),
        ],
        3,
    ),
    ids=str,
)
def test_sums_of_very_different_sizes_are_read_in_time(loss: ts.PrivacyLoss) -> None:
    """They took 8 to 22 seconds: grids of millions of points."""
    started = time.process_time()
    variable = loss.privacy_loss(ts.Direction.ADD)
    assert 0 <= variable.cdf(0.0) <= 1
    assert variable.quantile(0.1) <= variable.quantile(0.9)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("pair", "count"),
    [
        (([1 - 1e-6, 1e-6], [1e-6, 1 - 1e-6]), 10**6),
        (([1 - 1.5e-8, 1.5e-8], [1.5e-8, 1 - 1.5e-8]), 10**8),
        (([1 - 1e-6, 1e-6, 0.0], [0.01, 5e-9, 1 - 0.01 - 5e-9]), 10**6),
        (([1 - 3e-5, 3e-5], [0.6, 0.4]), 10**5),
    ],
)
def test_a_jump_takes_the_place_of_a_small_loss_that_is_not_small(
    pair: tuple[list[float], list[float]], count: int
) -> None:
    """A median loss of 14 or 18 was counted for jumping releases too: 1 for .63, a median off by the jump."""
    often, rare = (math.log(p / q) for p, q in zip(pair[0][:2], pair[1][:2], strict=True))
    variable = (count * ts.discrete_pair(*pair)).privacy_loss(ts.Direction.REMOVE)
    numbers = range(8)
    for k in numbers:
        place = (count - k) * often + k * rare
        between = place + 0.5 * (often - rare)
        known = binom.sf(k - 1, count, pair[0][1]) if rare < often else binom.cdf(k, count, pair[0][1])
        assert variable.cdf(between if rare < often else place - 0.5 * (often - rare)) == pytest.approx(known, abs=1e-4)
    middle = binom.median(count, pair[0][1])
    assert variable.quantile(0.5) == pytest.approx(
        (count - middle) * often + middle * rare, abs=0.01 * abs(often - rare)
    )


LONG_SUMS = [
    300 * ts.gaussian(sigma=0.2).sampled(rate=0.001),
    127 * ts.gaussian(sigma=0.15).sampled(rate=2.4e-9),
    1000 * ts.randomized_response(flip_prob=1e-9, choices=7, adjacency="add_remove"),
    10**6 * ts.gaussian(sigma=1).sampled(rate=0.001),
    10**5 * ts.gaussian(sigma=0.019).sampled(rate=7.9e-4),  # points of a grid that doubles do not tell apart
    10**6 * ts.gaussian_mixture(sigma=0.2, sensitivities=[0, 1, 2], probabilities=[1 - 1.1e-6, 1e-6, 1e-7]),
]


@pytest.mark.parametrize("loss", share(LONG_SUMS, 2), ids=str)
def test_every_quantile_is_possible_and_its_share_is_reached(loss: ts.PrivacyLoss) -> None:
    for way in ts.Direction:
        variable = loss.privacy_loss(way)
        found = [variable.quantile(p) for p in (0, 1e-9, 0.05, 0.5, 0.95, 1 - 1e-9, 1)]
        assert found == sorted(found)
        assert variable.cdf(1e15) == 1
        assert [variable.cdf(x) for x in found] == sorted(variable.cdf(x) for x in found)
        assert all(math.isfinite(x) for x in found[1:-1])


def test_three_hundred_sampled_releases_have_the_quantiles_of_a_fine_transform() -> None:
    """cdf was .20 for .05: a grid blurs every release. The truth is an FFT at steps a hundred times finer."""
    variable = (300 * ts.gaussian(sigma=0.2).sampled(rate=0.001)).privacy_loss(ts.Direction.REMOVE)
    assert variable.cdf(-0.29851) == pytest.approx(0.05, abs=5e-3)
    assert variable.quantile(0.5) == pytest.approx(-0.28107, abs=2e-4)


def test_jumps_beyond_a_window_do_not_come_back_on_its_other_side() -> None:
    """A jump of log 100 in a thousandth of all cases was found below everything else: .181 for 4.6, -.435 for -.18."""
    rare = ts.discrete_pair([1e-6, 1 - 1e-6], [1e-8, 1 - 1e-8])
    often = ts.randomized_response(epsilon=1e-3, adjacency="add_remove")
    variable = (1000 * rare + 3000 * often).privacy_loss(ts.Direction.REMOVE)
    assert 1 - variable.cdf(1.0) == pytest.approx(1 - (1 - 1e-6) ** 1000, rel=1e-3)
    assert variable.quantile(0.9995) == pytest.approx(math.log(100), abs=0.05)
    assert variable.quantile(5e-4) == pytest.approx(1.5e-3 + 3000**0.5 * 1e-3 * -3.29, abs=0.01)


@pytest.mark.parametrize("count", [2, 3])
def test_the_tail_of_few_sampled_releases_is_at_least_that_of_one(count: int) -> None:
    """1.8e-4 for 6.4e-4: what lies beyond fourteen deviations is most of it."""
    rate, mu, x = 1 / 3000, 10.0, 24.5
    variable = (count * ts.gaussian(sigma=1 / mu).sampled(rate=rate)).privacy_loss(ts.Direction.REMOVE)
    least = x - (count - 1) * math.log1p(-rate)  # the others lose at least log(1 - rate) each
    noise = (math.log(math.expm1(least) / rate + 1) + mu * mu / 2) / mu
    one = (1 - rate) * ndtr(-noise) + rate * ndtr(mu - noise)
    assert 1 - variable.cdf(x) >= (1 - (1 - one) ** count) * (1 - 1e-3)
    assert 1 - variable.cdf(x) <= (1 - (1 - one) ** count) * 1.01


def test_one_release_of_many_outcomes_beside_few_is_read_from_its_own_law() -> None:
    """-.5 for -1.19: losses of 2e8 left a grid no place for those of one."""
    apart = ts.discrete_gaussian(sigma=479.26, sensitivity=10**7).sampled(rate=0.5)
    variable = (apart + ts.pure_dp(epsilon=0.5)).privacy_loss(ts.Direction.REMOVE)
    assert variable.quantile([0.01, 0.3]) == pytest.approx([math.log(0.5) - 0.5, math.log(0.5) + 0.5], abs=1e-6)
