"""Predictions of chapter 8 against the mechanism itself, and diagnostics on statistics whose answer is known."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from tallystick.errors import InvalidInput
from tallystick.mechanisms.aggregate import asymptotics
from tallystick.mechanisms.aggregate.subsample import SmallSample, subsample_and_aggregate
from tallystick.mechanisms.aggregate.winsorized import winsorized_mean


def test_the_predicted_noise_is_what_the_mechanism_adds() -> None:
    rng, n = np.random.default_rng(4), 10_000
    data = rng.normal(size=n)
    means = data.reshape(100, 100).mean(axis=1)  # the blocks' numbers, as the mechanism hands them on
    mechanism = winsorized_mean(bounds=(-5, 5), epsilon=20.0)
    off = np.array([mechanism.release(means) for _ in range(80)]) - data.mean()
    predicted = asymptotics.subsample_noise(records=n, epsilon=20.0, blocks=100)
    assert 0.45 * predicted.noise < off.std() < 2 * predicted.noise
    assert predicted.sampling == pytest.approx(1 / math.sqrt(n))


def test_the_notes_words_no_asymptotic_cost_begin_at_ten_to_the_fifty_five() -> None:
    found = asymptotics.subsample_noise(records=10**6, epsilon=1.0)
    assert found.ratio == pytest.approx(21.1, abs=0.05)
    assert found.equal_at == pytest.approx(55.7, abs=0.05)
    assert asymptotics.subsample_noise(records=10**6, epsilon=1.0, widening=0.01).equal_at == pytest.approx(
        19.3, abs=0.05
    )
    assert asymptotics.subsample_noise(records=10**6, epsilon=1.0, widening=0.2).equal_at == math.inf


@pytest.mark.parametrize("widening", [0.0, 0.05, 0.1])
def test_the_exponent_is_that_of_the_prediction(widening: float) -> None:
    rate = asymptotics.error_rate(
        lambda n: (
            asymptotics.subsample_noise(
                records=n, epsilon=1.0, widening=widening, blocks=round(n ** (0.5 - widening))
            ).noise
        ),
        sizes=[10**5, 10**7, 10**9],
    )
    assert rate.slope == pytest.approx(asymptotics.subsample_exponent(widening=widening), abs=1e-3)


def test_the_warning_says_how_many_times_and_a_generous_budget_is_not_warned_about() -> None:
    mechanism = subsample_and_aggregate(statistic=np.mean, blocks=251, bounds=(0, 1), epsilon=1.0)
    with pytest.warns(SmallSample, match="21 times"):
        mechanism.prepare(np.zeros(1_000_000), strict=True)
    rich = subsample_and_aggregate(statistic=np.mean, blocks=251, bounds=(0, 1), epsilon=50.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rich.prepare(np.zeros(1000), strict=True)


def test_normality_of_a_mean_and_of_a_maximum() -> None:
    rng = np.random.default_rng(7)
    mean = asymptotics.asymptotic_normality(
        np.mean, lambda n, source: source.exponential(size=n), truth=1.0, sizes=[50, 800], repeats=4000, rng=rng
    )
    for row in mean:
        assert abs(row.bias) < 5 * row.bias_error
        assert row.spread == pytest.approx(1.0, abs=0.05)
        assert row.third == pytest.approx(1.596, abs=0.15)
    assert mean[1].distance < mean[0].distance
    # n (max - 1) of uniforms is exponential: the bias is 1/n, but the law is not normal and spread sqrt(n) vanishes
    top = asymptotics.asymptotic_normality(
        np.max, lambda n, source: source.random(n), truth=1.0, sizes=[50, 800], repeats=2000, rng=rng
    )
    assert top[1].distance > 0.2
    assert top[1].spread < 0.5 * top[0].spread
    assert top[1].bias == pytest.approx(-1.0, abs=0.15)


def test_a_rate_is_found_with_an_interval_that_holds_it() -> None:
    rng = np.random.default_rng(8)
    rate = asymptotics.error_rate(lambda n: rng.normal() / math.sqrt(n), sizes=[100, 1000, 10_000], repeats=500)
    assert rate.lower < -0.5 < rate.upper
    assert rate.upper - rate.lower < 0.1


@pytest.mark.parametrize(
    "call",
    [
        lambda: asymptotics.subsample_noise(records=0, epsilon=1.0),
        lambda: asymptotics.subsample_noise(records=10, epsilon=0.0),
        lambda: asymptotics.subsample_exponent(widening=0.5),
        lambda: asymptotics.error_rate(lambda n: 0.0, sizes=[1, 2]),
        lambda: asymptotics.error_rate(lambda n: 1.0, sizes=[5, 5]),
        lambda: asymptotics.asymptotic_normality(lambda x: 1.0, lambda n, rng: rng.random(n), truth=0.0, sizes=[5]),
    ],
)
def test_bad_questions_are_refused(call) -> None:
    with pytest.raises(InvalidInput):
        call()
