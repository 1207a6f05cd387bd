"""The winsorised mean and subsample-and-aggregate: integer arithmetic, price, degenerate inputs."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest

import tallystick as ts
from statistical.exact import placed_law, subsampled_law
from tallystick.accounting import losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput, Refused
from tallystick.mechanisms.aggregate import (
    blocks_for,
    subsample_and_aggregate,
    unbounded_winsorized_mean,
    winsorized_mean,
)
from tallystick.mechanisms.aggregate.subsample import SmallSample, SubsampleAndAggregate, shuffled
from tallystick.mechanisms.aggregate.winsorized import UnboundedWinsorizedMean, WinsorizedMean
from unit.mechanisms.coverage import ENUMERATION, INTERVAL, checks
from unit.mechanisms.neighbours import holds, log_ratio, refuses

POINTS, COUNT = 3, 3


def quartile_law(data: np.ndarray, alpha: float, rate: float) -> np.ndarray:
    weight = []
    for t in range(POINTS):
        below, through = (data < t).sum(), (data <= t).sum()
        weight.append(math.exp(-rate * max(below - alpha * COUNT, alpha * COUNT - through, 0.0)))
    return np.array(weight) / sum(weight)


def law(data: np.ndarray, mechanism) -> np.ndarray:
    """Exact joint law of the release and the two quartiles: more than is released."""
    rate, out, reach = float(mechanism.quartile_epsilon) / 2, [], 300
    lows, highs = quartile_law(data, 0.25, rate), quartile_law(data, 0.75, rate)
    for a, b in itertools.product(range(POINTS), repeat=2):
        low, high = mechanism.widened(a, b, COUNT)
        if low == high:
            out.append(np.array([lows[a] * highs[b]]))
            continue
        scale = 2 * (high - low) / mechanism.epsilon
        at = np.arange(-reach, reach + 1) - np.clip(data, low, high).sum()
        noise = np.exp(-np.abs(at) / scale) * math.tanh(1 / (2 * scale))
        out.append(lows[a] * highs[b] * noise)
    return np.concatenate(out)


@checks(ENUMERATION, WinsorizedMean)
def test_the_pure_price_holds_on_every_pair_that_differs_in_one_number() -> None:
    mechanism = winsorized_mean(bounds=(0, POINTS - 1), epsilon=1.0, granularity=1.0)
    data = [np.array(d) for d in itertools.product(range(POINTS), repeat=COUNT)]
    laws = {tuple(d): law(d, mechanism) for d in data}
    worst = 0.0
    for d in data:
        for i, value in itertools.product(range(COUNT), range(POINTS)):
            other = d.copy()
            other[i] = value
            worst = max(worst, float(np.abs(np.log(laws[tuple(d)] / laws[tuple(other)])).max()))
    assert 0.6 < worst <= 1.0 + 1e-9
    assert float(mechanism.privacy.epsilon(delta=0.0)) <= 1.0 + 1e-9


@checks(ENUMERATION, SubsampleAndAggregate)
def test_the_price_holds_on_every_pair_that_differs_in_one_record() -> None:
    mechanism = subsample_and_aggregate(statistic=np.max, blocks=4, bounds=(0, 2), granularity=1.0, epsilon=2.0)
    laws = {data: subsampled_law(mechanism, data) for data in itertools.combinations_with_replacement(range(3), 5)}
    pairs = [
        (laws[data], laws[tuple(sorted((*data[:i], value, *data[i + 1 :])))])
        for data in laws
        for i, value in itertools.product(range(5), range(3))
    ]
    assert log_ratio([(left[left > 1e-200], right[left > 1e-200]) for left, right in pairs]) <= 2.0 + 1e-9
    assert log_ratio([(left[left > 1e-200], right[left > 1e-200]) for left, right in pairs]) > 0.5


@checks(ENUMERATION, UnboundedWinsorizedMean)
def test_finding_the_range_costs_what_is_stated_on_every_pair_tried() -> None:
    mechanism = unbounded_winsorized_mean(epsilon=8.0, delta=0.2)
    histograms = mechanism.histogram
    part = 4 * losses.discrete_laplace(scale=histograms.scale, adjacency=Adjacency.REPLACE)
    part = part + 4 * losses.approx_dp(epsilon=0.0, delta=histograms.lone_probability, adjacency=Adjacency.REPLACE)
    numbers = (0.5, 0.75, 3.0, 1.0, 1.0, 1.25, 3.5, 5.0)
    here, pairs = placed_law(mechanism, numbers), []
    for i, value in itertools.product(range(8), (0.25, 7.0, 100.0, -3.0)):
        there = placed_law(mechanism, (*numbers[:i], value, *numbers[i + 1 :]))
        outcomes = list({*here, *there})
        pairs.append(tuple(np.array([law.get(outcome, 0.0) for outcome in outcomes]) for law in (here, there)))
    assert holds(part, pairs, levels=np.array([0.0, 1.0, 2.0]))
    # the mean that follows is a winsorised mean of epsilon/2, enumerated above
    assert mechanism.near(0, 1.0).privacy.epsilon(delta=0.0) <= 4.0 + 1e-9


def test_prices_are_two_quartiles_and_the_mean() -> None:
    quartile = losses.exponential(epsilon=0.25, adjacency=Adjacency.REPLACE)
    noise = losses.pure_dp(epsilon=0.5, adjacency=Adjacency.REPLACE)
    assert winsorized_mean(bounds=(0, 1), epsilon=1.0).privacy == 2 * quartile + noise
    gaussian = winsorized_mean(bounds=(0, 1), rho=0.5)
    assert gaussian.quartile_epsilon == pytest.approx(1.0)  # zCDP of each quartile is eps^2/8 = rho/4


def test_equal_numbers_come_back_exactly() -> None:
    for budget in ({"epsilon": 200.0}, {"rho": 1e5}):
        mechanism = winsorized_mean(bounds=(-1, 1), granularity=2.0**-8, **budget)
        for value in (-1.0, 0.25, 1.0):
            assert {mechanism.release([value] * 40) for _ in range(10)} == {value}


def test_outputs_lie_on_one_public_lattice_whatever_the_data() -> None:
    mechanism = winsorized_mean(bounds=(0, 1), epsilon=1.0, granularity=2.0**-10)
    for data in ([0.1, 0.2, 0.3, 0.4], [1.0, 0.0, math.pi / 4, 1e-9]):
        for _ in range(50):
            steps = mechanism.release(data) * 4 * 2**10
            assert steps == round(steps)


def test_outliers_are_clamped_and_the_mean_is_close() -> None:
    data = np.concatenate((np.random.default_rng(0).normal(3, 0.1, 2000), [1e6, -1e6]))
    for budget in ({"epsilon": 4.0}, {"rho": 1.0}):
        mechanism = winsorized_mean(bounds=(-1000, 1000), granularity=2.0**-12, **budget)
        assert abs(mechanism.release(data) - 3) < 0.5


@checks(INTERVAL, WinsorizedMean)
def test_the_noise_bound_covers_at_its_nominal_rate() -> None:
    mechanism = winsorized_mean(bounds=(0, 1), epsilon=1.0, granularity=2.0**-10)
    data = np.linspace(0, 1, 501)
    width = mechanism.error(confidence=0.9, count=501, width=1.0)
    inside = sum(abs(mechanism.release(data) - 0.5) <= width for _ in range(200))
    assert inside >= 150


def test_an_unknown_range_is_found_or_the_release_is_none() -> None:
    mechanism = unbounded_winsorized_mean(epsilon=8.0, delta=1e-6)
    data = -7e5 + np.random.default_rng(1).normal(0, 2, 2001)
    assert abs(mechanism.release(data) + 7e5) < 2
    assert unbounded_winsorized_mean(epsilon=1.0, delta=1e-9).release([1.0, 2.0, 3.0]) is None
    assert unbounded_winsorized_mean(epsilon=20.0, delta=1e-6).release([5.0] * 1000) == pytest.approx(5.0, abs=1e-6)


def test_an_unknown_range_may_be_zero_tiny_or_huge() -> None:
    mechanism = unbounded_winsorized_mean(epsilon=40.0, delta=1e-6)
    noise = np.random.default_rng(5).normal(size=801)
    for centre, spread in ((0.0, 0.0), (1e-30, 1e-33), (1e30, 1e25), (-3.0, 1e-20)):
        out = mechanism.release(centre + spread * noise)
        assert out is not None
        assert abs(out - centre) <= 3 * spread + 1e-9 * abs(centre) + 1e-280


def test_noise_too_large_to_draw_is_refused_before_a_charge() -> None:
    with pytest.raises(InvalidInput):
        unbounded_winsorized_mean(epsilon=1e-13, delta=1e-6)


def test_the_unknown_range_costs_delta_and_no_more_than_epsilon() -> None:
    mechanism = unbounded_winsorized_mean(epsilon=1.0, delta=1e-6)
    assert mechanism.histogram.max_keys == 2
    assert mechanism.privacy.adjacency is Adjacency.REPLACE
    pure = 4 / mechanism.histogram.scale + 0.5
    assert pure <= 1.0 + 1e-9
    assert 4 * mechanism.histogram.lone_probability <= 1e-6 * 1.001


def test_any_statistic_becomes_private() -> None:
    data = np.random.default_rng(3).normal([1.0, -2.0], 1.0, (20_000, 2))
    mechanism = subsample_and_aggregate(
        statistic=lambda block: np.median(block, axis=0), blocks=100, bounds=[(-10, 10), (-10, 10)], epsilon=20.0
    )
    assert np.abs(mechanism.release(data) - [1.0, -2.0]).max() < 0.5
    assert mechanism.privacy.adjacency is Adjacency.REPLACE
    assert float(mechanism.privacy.epsilon(delta=0.0)) <= 20 + 1e-6


def test_with_a_private_number_of_records_each_record_draws_its_own_block() -> None:
    mechanism = subsample_and_aggregate(
        statistic=np.mean, blocks=8, bounds=(0, 1), epsilon=50.0, adjacency=Adjacency.ADD_REMOVE
    )
    assert mechanism.privacy.adjacency is Adjacency.ADD_REMOVE
    assert mechanism.release(np.zeros(0)).shape == (1,)
    assert abs(mechanism.release(np.full(4000, 0.5))[0] - 0.5) < 0.1


def test_a_mean_of_a_private_number_of_numbers_is_refused() -> None:
    # It would divide by that number: outputs on 4 and on 5 numbers lie on different lattices.
    with pytest.raises(Refused, match="private number"):
        winsorized_mean(bounds=(100, 101), epsilon=1.0, adjacency=Adjacency.ADD_REMOVE)


def test_a_statistic_that_fails_on_a_block_says_nothing_after_a_charge() -> None:
    def fussy(block):
        raise ValueError("a value from the data")

    mechanism = subsample_and_aggregate(statistic=fussy, blocks=4, bounds=(0, 1), epsilon=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSample)
        assert 0 <= mechanism.release(np.ones(100))[0] <= 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="a value"):
            mechanism(np.ones(100))


NOISY = {"statistic": np.mean, "blocks": 4, "bounds": (0, 1), "epsilon": 1.0}


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_large_noise_is_warned_about_when_called_and_when_released(adjacency) -> None:
    mechanism = subsample_and_aggregate(**NOISY, adjacency=adjacency)
    for use in (mechanism, mechanism.release):
        with pytest.warns(SmallSample, match="times its sampling error") as caught:
            use(np.ones(100))
        assert [warning.filename for warning in caught if warning.category is SmallSample] == [__file__]


@pytest.mark.parametrize("deferred", [False, True])
def test_large_noise_is_warned_about_when_paid(deferred, tmp_path) -> None:
    mechanism = subsample_and_aggregate(**NOISY)
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.pure_dp(epsilon=9, adjacency="replace"))
        value = (lambda: np.ones(100)) if deferred else np.ones(100)
        with pytest.warns(SmallSample):
            account.release(mechanism, value, why="mean")
        assert len(account.history()) == 1


def test_a_warning_that_is_made_an_error_keeps_the_charge_or_the_answer(tmp_path) -> None:
    mechanism = subsample_and_aggregate(**NOISY)
    with ts.Ledger(tmp_path / "budget.db") as ledger, warnings.catch_warnings():
        warnings.simplefilter("error", SmallSample)
        account = ledger.open("clinic", budget=ts.pure_dp(epsilon=9, adjacency="replace"))
        with pytest.raises(SmallSample):
            account.release(mechanism, np.ones(100), why="mean")
        assert not account.history()
        answer = account.release(mechanism, lambda: np.ones(100), why="mean")
        assert 0 <= answer[0] <= 1


@pytest.mark.filterwarnings("ignore::tallystick.mechanisms.aggregate.subsample.SmallSample")
def test_no_answer_is_outside_the_public_bounds() -> None:
    mechanism = subsample_and_aggregate(
        statistic=lambda block: [block.mean(), -3.0], blocks=4, bounds=[(0.3, 1), (-3, 5)], epsilon=0.5
    )
    found = np.array([mechanism.release(np.ones(8)) for _ in range(60)])
    assert (found[:, 0] >= 0.3).all()
    assert (found[:, 0] <= 1.0).all()
    assert (found[:, 1] >= -3.0).all()
    assert (found[:, 1] <= 5.0).all()
    assert (found[:, 0] == found[:, 0].max()).sum() > 1, "the noise is so large that some answers are clamped"


def test_blocks_follow_the_notes_and_permutations_are_uniform() -> None:
    assert blocks_for(10**5) == 100
    assert blocks_for(3) == 4
    from tallystick.mechanisms.exact.randomness import SYSTEM

    seen = [tuple(shuffled(3, SYSTEM).tolist()) for _ in range(600)]
    assert all(40 < seen.count(p) < 180 for p in itertools.permutations(range(3)))


@pytest.mark.parametrize("value", [[], "x", [math.nan], None, 3.0])
def test_bad_numbers_are_refused_before_randomness_is_drawn(value) -> None:
    assert refuses(winsorized_mean(bounds=(0, 1), epsilon=1.0), value)
    assert refuses(unbounded_winsorized_mean(epsilon=1.0, delta=1e-6), value)


def test_too_few_records_for_the_blocks_are_refused() -> None:
    assert refuses(subsample_and_aggregate(statistic=np.mean, blocks=10, bounds=(0, 1), epsilon=1.0), np.ones(9))


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": 0}, {"epsilon": None}, {"rho": 1.0}, {"bounds": (1, 0)}, {"granularity": 2.0**-60}, {"widening": -1}],
)
def test_bad_parameters_are_refused(wrong) -> None:
    with pytest.raises(InvalidInput):
        winsorized_mean(**{"epsilon": 1.0, "bounds": (0, 1), **wrong})


@pytest.mark.parametrize(
    "wrong", [{"statistic": 3}, {"blocks": 2}, {"bounds": []}, {"bounds": 3}, {"bounds": [(1, 0)]}]
)
def test_bad_subsample_parameters_are_refused(wrong) -> None:
    with pytest.raises(InvalidInput):
        subsample_and_aggregate(**{"statistic": np.mean, "blocks": 4, "bounds": (0, 1), "epsilon": 1.0, **wrong})
