"""A mechanism on a Poisson sample: its law, its amplified price by enumeration, and what it refuses."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import binom, chisquare

import tallystick as ts
from tallystick.errors import InvalidInput, Refused
from tallystick.mechanisms import noise, select
from tallystick.mechanisms.aggregate import subsample_and_aggregate
from tallystick.mechanisms.aggregate.sampled import Sampled, sampled
from tallystick.mechanisms.aggregate.subsample import SmallSample
from unit.mechanisms.coverage import ENUMERATION, INTERVAL, LAW, checks
from unit.mechanisms.neighbours import holds, log_ratio

COUNT = noise.clamp(1, 1)
REACH = 60


def law(records: int, rate: float, epsilon: float) -> np.ndarray:
    """A noisy count of a binomial number of records, on -REACH..REACH."""
    at = np.arange(-2 * REACH, 2 * REACH + 1)
    weights = np.exp(-epsilon * np.abs(at))
    masses = np.convolve(binom.pmf(np.arange(records + 1), records, rate), weights / weights.sum())
    return masses[REACH : 3 * REACH + 1]


def fits(draws: np.ndarray, masses: np.ndarray) -> bool:
    kept = masses * draws.size > 5
    seen = np.array([np.sum(draws == k) for k in np.arange(-REACH, REACH + 1)[kept]])
    expected = np.append(masses[kept], 1 - masses[kept].sum()) * draws.size
    return bool(chisquare(np.append(seen, draws.size - seen.sum()), expected).pvalue > 1e-7)


@checks(LAW, Sampled)
def test_the_count_of_a_sample_is_binomial_plus_noise() -> None:
    mechanism = sampled(noise.add_discrete_laplace(epsilon=1.0), rate=0.3, total=COUNT)
    draws = np.array([mechanism.release([5.0] * 6) for _ in range(5000)])
    assert fits(draws, law(6, 0.3, 1.0))
    assert not fits(draws, law(6, 0.4, 1.0))
    assert not fits(draws, law(6, 0.3, 1.3))


@checks(ENUMERATION, Sampled)
@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_the_amplified_price_holds_on_every_neighbouring_pair(rate: float) -> None:
    mechanism = sampled(noise.add_discrete_laplace(epsilon=1.0), rate=rate, total=COUNT)
    pairs = [(law(n, rate, 1.0), law(n + 1, rate, 1.0)) for n in range(6)]
    assert holds(mechanism.privacy, pairs)
    # and the amplification is really claimed, and really needed
    assert mechanism.privacy.epsilon(delta=0.0) == pytest.approx(np.log1p(rate * np.expm1(1.0)))
    assert log_ratio(pairs) > 0.9 * np.log1p(rate * np.expm1(1.0))
    wrong = ts.pure_dp(epsilon=0.8 * np.log1p(rate * np.expm1(1.0)))
    assert not holds(wrong, pairs)


@checks(INTERVAL, Sampled)
def test_the_error_is_about_the_sample() -> None:
    mechanism = sampled(noise.add_laplace(epsilon=1.0, sensitivity=2.0), rate=1.0, total=noise.clamp(-2, 2))
    values = np.linspace(-3, 3, 41)
    limit = mechanism.error(confidence=0.9)
    off = [abs(mechanism.release(values) - np.clip(values, -2, 2).sum()) for _ in range(1000)]
    assert 0.85 < np.mean(np.array(off) <= limit) < 0.95


def test_a_median_of_few_or_no_records_is_released() -> None:
    mechanism = sampled(select.median(epsilon=1.0, bounds=(0, 8), granularity=1.0), rate=0.01)
    assert all(0 <= mechanism.release(data) <= 8 for data in ([], [1.0], [1.0, 7.0, np.nan]))
    assert mechanism.privacy == select.median(epsilon=1.0, bounds=(0, 8)).privacy.sampled(rate=0.01)


@pytest.mark.parametrize(
    ("mechanism", "more"),
    [
        (3.0, {}),
        (select.median(epsilon=1.0, bounds=(0, 1)), {"rate": 0.0}),
        (select.median(epsilon=1.0, bounds=(0, 1)), {"total": COUNT}),
        (select.median(epsilon=1.0, bounds=(0, 1)), {"total": 1}),
        (select.exponential(epsilon=1.0), {}),
        (select.above_threshold(threshold=1.0, epsilon=1.0), {}),  # one record changes every answer
        (noise.add_laplace(epsilon=1.0, sensitivity=1.0), {}),
        (noise.add_laplace(epsilon=1.0, sensitivity=1.0), {"total": noise.clamp(0, 2)}),
        (noise.add_discrete_laplace(epsilon=1.0, sensitivity=9), {"total": noise.clamp(0, 2)}),
        (noise.add_laplace(epsilon=1.0, sensitivity=1.0, dimension=2), {"total": COUNT}),
    ],
)
def test_what_would_fail_after_the_charge_is_refused_before(mechanism, more) -> None:
    with pytest.raises(InvalidInput):
        sampled(mechanism, **({"rate": 0.5} | more))


def test_statistics_of_unknown_sensitivity_may_be_sampled_too() -> None:
    blocks = subsample_and_aggregate(
        statistic=np.mean, blocks=4, bounds=(0, 8), epsilon=1.0, adjacency="add_remove", granularity=1.0
    )
    mechanism = sampled(blocks, rate=0.5)
    with pytest.warns(SmallSample):
        assert mechanism.release([1.0] * 10).shape == mechanism.release([]).shape == (1,)
    with warnings.catch_warnings():  # a filter must not lose an answer that is paid for
        warnings.simplefilter("error", SmallSample)
        assert mechanism.release([1.0] * 10).shape == (1,)
        with pytest.raises(SmallSample):
            mechanism([1.0] * 10)
    assert mechanism.error(confidence=0.9, width=1.0) == blocks.error(confidence=0.9, width=1.0)


def test_an_account_pays_the_amplified_price(tmp_path) -> None:
    mechanism = sampled(noise.add_discrete_laplace(epsilon=1.0), rate=0.1, total=COUNT)
    account = ts.Ledger(tmp_path / "book.db").open("people", budget=ts.pure_dp(epsilon=0.16))
    account.release(mechanism, [0.0] * 50, why="test")
    with pytest.raises(ts.errors.BudgetExceeded):
        account.release(mechanism, [0.0] * 50, why="again")


def test_replacing_a_record_is_not_amplified_this_way() -> None:
    with pytest.raises(Refused, match="add_remove"):
        sampled(select.median(epsilon=1.0, bounds=(0, 1), adjacency="replace"), rate=0.5)
