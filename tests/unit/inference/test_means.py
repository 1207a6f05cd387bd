"""Means against a search of the inequality itself; lines against finite differences; refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tallystick.errors import InvalidInput, Refused
from tallystick.inference import Mean, Noise, Quantile, Released, Statistics, cells, difference, line, ratio
from tallystick.inference.hypotheses import mean_equals, same_mean
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian

Z = 1.959963984540054


def made(total=120.0, count=400.0, *, s=8.0, t=6.0, bounds=(0.0, 3.0), origin=1.5, squares=None):
    size = Released(count, Noise.gaussian(sigma=t)) if t else int(count)
    more = None if squares is None else Released(squares, Noise.gaussian(sigma=9.0))
    return Mean(Released(total, Noise.gaussian(sigma=s)), count=size, bounds=bounds, origin=origin, squares=more)


@pytest.mark.parametrize("total", [-700.0, -590.0, -100.0, 120.0, 560.0])
@pytest.mark.parametrize("t", [0.0, 6.0, 60.0])
def test_the_population_set_is_every_mean_that_the_inequality_keeps(total, t):
    answer = made(total, t=t)
    low, high = answer.population_interval()
    grid = np.linspace(0.0, 3.0, 30_001)
    s, noise = (one + 8.0 * 2.0**-21 for one in (8.0, t))
    noise = t + t * 2.0**-21
    value, half = min(3.0, max(0.0, 1.5 + total / 400)), 1.5 / 400
    spread = Z**2 * (grid * (3 - grid) / 400 + (s**2 + (grid - 1.5) ** 2 * noise**2) / 400**2)
    estimates = np.clip([value - half, value + half], 0, 3)
    first, second = (grid[(estimate - grid) ** 2 <= spread] for estimate in estimates)
    assert low == pytest.approx(first.min(), abs=2e-4)
    assert high == pytest.approx(second.max(), abs=2e-4)


def test_ends_never_cross_however_small_the_noise_is():
    random = np.random.default_rng(4)
    for _ in range(300):
        low = float(random.normal() * 10 ** random.uniform(-3, 5))
        answer = Mean(
            Released(float(random.normal() * 10 ** random.uniform(-2, 8)), Noise.gaussian(sigma=1e-4)),
            count=int(random.integers(1, 10**6)),
            bounds=(low, low + float(10 ** random.uniform(-4, 5))),
            origin=low,
        )
        for interval in (answer.noise_interval(), answer.population_interval()):
            assert answer.bounds[0] <= interval.lower <= answer.value <= interval.upper <= answer.bounds[1]


def test_the_noise_set_is_that_of_fieller():
    low, high = made().noise_interval()
    for end in (low, high):
        gap = abs(120.0 - (end - 1.5) * 400.0)
        assert gap == pytest.approx(Z * math.hypot(8.0, (end - 1.5) * 6.0), rel=1e-5)


def test_every_interval_of_a_mean_says_that_it_is_about_the_clamped_mean():
    assert made().population_interval().about == "mean of the values clamped to [0, 3]"
    assert made().noise_interval().holds == "finite-sample"
    assert made().population_interval().holds == "asymptotic"


def test_released_squares_shorten_the_interval_and_never_leave_the_worst_case():
    plain, richer = made(), made(squares=100.0)
    assert richer.population_interval().width < plain.population_interval().width
    useless = made(squares=1e6)
    assert useless.population_interval().width == pytest.approx(plain.population_interval().width)


@pytest.mark.parametrize(("count", "t"), [(11.0, 6.0), (-5.0, 1.0), (0.0, 1.0)])
def test_a_count_that_does_not_exclude_zero_has_the_whole_bounds_and_no_value(count, t):
    answer = made(count=count, t=t)
    for interval in (answer.noise_interval(), answer.population_interval()):
        assert tuple(interval) == (0.0, 3.0)
        assert not interval.informative
        assert "does not exclude 0" in str(interval)
    assert math.isnan(answer.value)
    assert made(count=19.0, t=6.0, total=3.0).noise_interval().informative
    assert mean_equals(answer, 1.0).p_value == 1.0
    assert same_mean(answer, made()).p_value == 1.0


def test_a_difference_with_a_mean_that_has_no_value_allows_every_difference():
    interval = difference(made(count=2.0, t=6.0), made()).noise_interval()
    assert (interval.lower, interval.upper) == (-3.0, 3.0)


def test_a_high_confidence_needs_a_clearer_count():
    answer = made(count=20.0, t=6.0, total=3.0)
    assert answer.noise_interval(confidence=0.95).informative
    assert not answer.noise_interval(confidence=0.9999).informative


@pytest.mark.parametrize("bad", [{"bounds": (3.0, 0.0)}, {"origin": math.inf}, {"count": 0.5, "t": 0.0}])
def test_bad_input_of_a_mean_is_named(bad):
    with pytest.raises(InvalidInput):
        made(**bad)
    with pytest.raises(InvalidInput, match="suppressed"):
        Mean(Released(5, Noise.gaussian(sigma=1), shown_from=2), count=10, bounds=(0, 1))


# Lines

SUMS = {"n": 400.0, "x": 30.0, "xx": 140.0, "y": 25.0, "xy": 62.0, "yy": 55.0}
SIGMAS = {"n": 3.0, "x": 2.0, "xx": 4.0, "y": 1.0, "xy": 2.5, "yy": 5.0}


def slope_of(sums):
    return (sums["xy"] - sums["x"] * sums["y"] / sums["n"]) / (sums["xx"] - sums["x"] ** 2 / sums["n"])


def made_line(**changed):
    sums = {**SUMS, **changed}
    return line(**{name: Released(value, Noise.gaussian(sigma=SIGMAS[name])) for name, value in sums.items()})


def test_the_noise_variance_of_a_slope_is_that_of_finite_differences_with_the_count_in_it():
    gradient = {
        name: (slope_of({**SUMS, name: SUMS[name] + 1e-4}) - slope_of({**SUMS, name: SUMS[name] - 1e-4})) / 2e-4
        for name in SUMS
    }
    den = SUMS["xx"] - SUMS["x"] ** 2 / SUMS["n"]
    b = slope_of(SUMS)
    by_count = (SUMS["x"] * SUMS["y"] - b * SUMS["x"] ** 2) / (SUMS["n"] ** 2 * den)
    assert gradient["n"] == pytest.approx(by_count, rel=1e-4)
    expected = math.sqrt(sum((gradient[name] * SIGMAS[name]) ** 2 for name in SUMS))
    slope, _ = made_line()
    assert slope.value == pytest.approx(b)
    assert slope.noise_interval().width == pytest.approx(2 * Z * expected, rel=1e-4)
    assert slope.population_interval().width > slope.noise_interval().width


def test_a_line_whose_noise_decides_how_x_varies_is_refused():
    with pytest.raises(Refused, match="how much x varies"):
        made_line(xx=14.0)
    with pytest.raises(Refused, match="within three deviations of zero"):
        made_line(n=12.0)
    with pytest.raises(InvalidInput, match="Released sums"):
        line(n=10, x=1.0, xx=2.0, y=3.0, xy=4.0, yy=5.0)


def test_a_coefficient_of_an_estimators_statistics_is_refused_where_its_covariance_is():
    weak = np.full((2, 2), 4.0)
    good = Statistics(np.diag([90.0, 80.0]), np.array([40.0, 10.0]), 60.0, weak / 4, np.ones(2), 1.0, 200.0)
    answer = good.coefficient(0, about="slope", rows_per_unit=1)
    assert answer.value == pytest.approx(40 / 90)
    student = 1.9720174778338955  # of 198 degrees, from a table: the spread is estimated
    half = student * math.sqrt(good.covariance(good.solve(0.0), 0.0, rows_per_unit=1)[0, 0])
    assert answer.population_interval().width == pytest.approx(2 * half)
    bad = Statistics(np.diag([6.0, 5.0]), np.array([4.0, 1.0]), 6.0, weak, np.ones(2), 1.0, 200.0)
    with pytest.raises(Refused, match="the noise, or a ridge, decides"):
        bad.coefficient(0, rows_per_unit=1)


# Quantiles and contrasts


def test_a_quantile_walk_stops_where_the_answer_is_open():
    counts = [100, 300, 300, 300]
    bins = cells(counts, noise=DiscreteGaussian(3.0))
    answer = Quantile(bins, (0, 1, 2, 3, 4), p=0.55, of=1000)
    assert tuple(answer.noise_interval()) == (2.0, 3.0)
    assert tuple(answer.population_interval()) == (2.0, 3.0)
    assert 2.0 < answer.value < 3.0
    at_an_edge = Quantile(bins, (0, 1, 2, 3, 4), p=0.4, of=1000)
    assert tuple(at_an_edge.population_interval()) == (1.0, 3.0)
    assert at_an_edge.population_interval().holds == "finite-sample"


def test_quantiles_refuse_what_they_cannot_read():
    noisy = cells([1, 1], noise=DiscreteGaussian(30.0))
    with pytest.raises(Refused, match="within its noise of zero"):
        Quantile(noisy, (0, 1, 2)).noise_interval()
    with pytest.raises(Refused, match="positive count"):
        _ = Quantile(cells([-1, -1], noise=DiscreteGaussian(1.0)), (0, 1, 2)).value
    for edges in ((0, 1), (0, 2, 1)):
        with pytest.raises(InvalidInput):
            Quantile(noisy, edges)
    with pytest.raises(InvalidInput, match="one noise law"):
        Quantile((noisy[0], Released(1, DiscreteGaussian(3.0))), (0, 1, 2))


def test_without_noise_to_speak_of_contrasts_are_those_of_newcombe_and_fieller():
    tiny = Noise.gaussian(sigma=1e-6)
    a, b = Released(56, tiny, of=70), Released(48, tiny, of=80)
    low, high = difference(a, b).population_interval()
    (l1, u1), (l2, u2) = a.population_interval(), b.population_interval()
    assert (low, high) == pytest.approx(
        (0.2 - math.hypot(0.8 - l1, u2 - 0.6), 0.2 + math.hypot(u1 - 0.8, 0.6 - l2)), abs=1e-9
    )
    assert ratio(a, b).population_value == pytest.approx(0.8 / 0.6)
    # noise only: Fieller's set of two symmetric intervals
    x, y = Released(100, Noise.gaussian(sigma=5)), Released(50, Noise.gaussian(sigma=4))
    for end in ratio(x, y).noise_interval():
        assert abs(100 - end * 50) == pytest.approx(Z * math.hypot(5, 4 * end), rel=1e-4)


def test_a_ratio_whose_denominator_may_be_zero_says_that_it_knows_nothing():
    top, near = Released(100, Noise.gaussian(sigma=5)), Released(3, Noise.gaussian(sigma=4))
    interval = ratio(top, near).noise_interval()
    assert (interval.lower, interval.upper) == (-math.inf, math.inf)
    assert not interval.informative
    assert "says nothing" in str(interval)
    bounded = ratio(top, near, bounds=(0, 50)).noise_interval()
    assert tuple(bounded) == (0.0, 50.0)
    assert not bounded.informative
    shares = ratio(Released(100, Noise.gaussian(sigma=5), of=200), Released(3, Noise.gaussian(sigma=4), of=200))
    assert tuple(shares.population_interval()) == (0.0, math.inf)
    assert "says nothing" in str(shares.population_interval())
    with pytest.raises(InvalidInput, match="bounds"):
        ratio(top, near, bounds=(1, 1))
    with pytest.raises(Refused, match="denominator is 0"):
        _ = ratio(near, Released(0, Noise.gaussian(sigma=1))).value


def test_a_ratio_with_a_numerator_near_zero_has_an_interval():
    interval = ratio(Released(1, Noise.gaussian(sigma=5)), Released(100, Noise.gaussian(sigma=4))).noise_interval()
    assert interval.lower < 0.01 < interval.upper
    assert interval.holds == "finite-sample"
