"""``error`` covers at its nominal rate, on inputs where it is nearly tight: a quarter of it would not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from statistical import batches
from statistical.goodness import at_most
from tallystick.mechanisms import aggregate, keys, response, select
from tallystick.mechanisms.aggregate.subsample import SubsampleAndAggregate
from tallystick.mechanisms.aggregate.winsorized import UnboundedWinsorizedMean
from tallystick.mechanisms.keys.counts import StableCounts
from tallystick.mechanisms.keys.partition import StableKeys
from tallystick.mechanisms.response.choices import UnaryEncoding
from tallystick.mechanisms.response.numbers import LocalLaplace
from tallystick.mechanisms.select.candidates import ExponentialMechanism, NoisyMax, PermuteAndFlip, TopK
from tallystick.mechanisms.select.continuum import LineExponential, RejectionExponential, Steps
from tallystick.mechanisms.select.order_statistics import Quantiles
from unit.mechanisms.coverage import INTERVAL, checks

LEVEL = 0.9
DRAWS = 20_000


def covers(good: np.ndarray, level: float = LEVEL) -> bool:
    """Is it possible that each is True with at least this probability?"""
    return at_most(int(good.sum()), good.size) >= level


CHOOSERS: dict[str, tuple[Any, batches.Batch]] = {
    "exponential": (select.exponential(epsilon=1.0), batches.choices),
    "exponential, monotone": (select.exponential(epsilon=1.0, monotone=True), batches.choices),
    "permute-and-flip": (select.permute_and_flip(epsilon=1.0), batches.flips),
    "noisy max, laplace": (select.noisy_max(epsilon=1.0, noise="laplace"), batches.races),
    "noisy max, exponential": (select.noisy_max(epsilon=1.0, noise="exponential"), batches.races),
    "noisy max, gumbel": (select.noisy_max(epsilon=1.0, noise="gumbel"), batches.races),
    "top-k": (select.top_k(k=2, epsilon=1.0), batches.races),
}


@checks(INTERVAL, ExponentialMechanism, NoisyMax, PermuteAndFlip, TopK)
@pytest.mark.parametrize("name", CHOOSERS)
def test_a_chosen_score_is_seldom_further_from_the_best_than_stated(name: str) -> None:
    mechanism, batch = CHOOSERS[name]
    best = getattr(mechanism, "k", 1)
    error = mechanism.error(confidence=LEVEL, candidates=8)

    def good(gap: float) -> np.ndarray:
        found = batch(mechanism, [0.0] * best + [-gap] * (8 - best), DRAWS).reshape(DRAWS, -1)
        return (found < best).all(axis=1)

    assert covers(good(error * 1.001))
    assert not covers(good(error / 4))


TIED = {
    "all equal": np.full(4_000, 7),
    "all at the lower bound": np.zeros(4_000, dtype=int),
    "all at the upper bound": np.full(4_000, 63),
    "half equal": np.concatenate((np.full(2_000, 40), np.repeat(np.arange(40), 50))),
    "spread": np.repeat(np.arange(64), 64),
}


@checks(INTERVAL, Quantiles)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
@pytest.mark.parametrize("name", TIED)
def test_ranks_of_several_quantiles_are_off_by_no_more_than_stated(name: str, adjacency: Any) -> None:
    about: dict[str, Any] = {"alphas": [0.25, 0.5, 0.75], "bounds": (0, 63), "granularity": 1.0}
    mechanism = select.quantiles(epsilon=1.0, adjacency=adjacency, **about)
    data = np.sort(TIED[name])

    def covered(releases: Any, error: float) -> bool:
        found = batches.one_by_one(releases, data, 150)
        target = np.array(mechanism.alphas) * data.size
        below, through = np.searchsorted(data, found), np.searchsorted(data, found, side="right")
        return covers(np.maximum(below - target, target - through).max(axis=1) <= error)

    stated = mechanism.error(confidence=LEVEL)
    assert stated < data.size / 4
    assert covered(mechanism, stated)
    if name == "spread":
        assert not covered(replace(mechanism, epsilon=0.01), stated)
    elif name in ("all equal", "all at the lower bound", "half equal"):
        assert not covered(replace(mechanism, tie_bits=0), stated), "all equal records to one side of a cut"


@checks(INTERVAL, LineExponential)
def test_a_point_on_the_line_scores_close_to_the_best_there_is() -> None:
    mechanism = select.on_line(epsilon=1.0, sensitivity=1.0, bounds=(0, 4), granularity=0.5, base=([3.0], [1, 2]))

    def good(gap: float) -> np.ndarray:
        one = Steps([1.0, 1.25], [-gap, 0.0, -gap])  # one lattice point of the least weight is best
        return batches.line_points(mechanism, one, DRAWS) == 2

    error = mechanism.error(confidence=LEVEL)
    assert covers(good(error * 1.001))
    assert not covers(good(error / 2))


@checks(INTERVAL, RejectionExponential)
def test_a_point_by_rejection_scores_close_to_what_a_share_of_the_space_reaches() -> None:
    def good(part: float) -> np.ndarray:
        rejection = select.by_rejection(
            epsilon=1.0, sensitivity=1.0, propose=select.uniform_box([(0, 4)], granularity=0.5), score_bounds=(-12, 0)
        )
        gap = part * rejection.error(confidence=LEVEL, share=1 / 9)
        found = batches.proposals(rejection, lambda point: 0.0 if point == (1.0,) else -gap, 2_000)
        return found[:, 0] == 1.0

    assert covers(good(1.001))
    assert not covers(good(0.5))


@checks(INTERVAL, StableKeys)
def test_groups_of_the_stated_size_are_shown_as_often_as_stated() -> None:
    mechanism = keys.stable(epsilon=0.5, delta=0.01)
    size = mechanism.error(confidence=LEVEL)
    assert mechanism.keep_probability(size - 1) < LEVEL <= mechanism.keep_probability(size)
    assert covers(batches.groups(mechanism, (size,), DRAWS) > 0)
    assert not covers(batches.groups(mechanism, (size - 3,), DRAWS) > 0)


@checks(INTERVAL, StableCounts)
@pytest.mark.parametrize("budget", [{"epsilon": 0.1}, {"rho": 0.005}])
def test_noisy_sizes_are_as_close_as_stated(budget: dict[str, float]) -> None:
    mechanism = keys.stable_counts(delta=0.01, **budget)  # type: ignore[arg-type]
    off = np.abs(batches.groups(mechanism, (mechanism.threshold + 1000,), DRAWS) - mechanism.threshold - 1000)
    assert covers(off <= mechanism.error(confidence=LEVEL))
    assert not covers(off <= mechanism.error(confidence=LEVEL) * 0.9)


@checks(INTERVAL, SubsampleAndAggregate)
@pytest.mark.parametrize("budget", [{"epsilon": 2.0}, {"rho": 0.5}])
def test_the_mean_of_the_blocks_is_as_close_as_stated(budget: dict[str, float]) -> None:
    mechanism = aggregate.subsample_and_aggregate(statistic=np.max, blocks=4, bounds=(0, 16), granularity=1.0, **budget)
    records = [0.0, 0.0, 16.0, 16.0]  # one in each block, so the range found is nearly always all of the bounds
    off = np.abs(batches.blocks(mechanism, records, DRAWS) / mechanism.blocks - 8)
    error = mechanism.error(confidence=LEVEL, width=16.0)
    assert covers(off <= error)
    assert not covers(off <= error / 4)


@checks(INTERVAL, UnboundedWinsorizedMean)
def test_a_mean_in_an_unknown_range_is_as_close_as_stated() -> None:
    mechanism = aggregate.unbounded_winsorized_mean(epsilon=8.0, delta=0.1)
    data = np.array([1.0, 1.5] * 200)
    found = batches.unknown_range(mechanism, np.concatenate((data[::2], data[1::2])), DRAWS)[:, 2]
    error = mechanism.error(confidence=LEVEL, count=400, width=18.0)  # nine bins of width 2
    assert covers(np.abs(found - 1.25) <= error)
    assert not covers(np.abs(found - 1.25) <= error / 4)


def surveys(mechanism: Any, answers: list[Any], truth: float, count: int) -> Callable[[float], np.ndarray]:
    """Whether the interval of each of many surveys of the same people holds the truth."""
    found = [mechanism.estimate(mechanism.release(answers), confidence=LEVEL) for _ in range(count)]

    def held(part: float) -> np.ndarray:
        middle = np.array([(e.lower[0] + e.upper[0]) / 2 for e in found])
        half = np.array([(e.upper[0] - e.lower[0]) / 2 for e in found])
        return np.abs(middle - truth) <= part * half + 1e-12

    return held


@checks(INTERVAL, UnaryEncoding)
def test_intervals_of_unary_shares_hold_the_truth() -> None:
    mechanism = response.unary_encoding(epsilon=1.0, choices=3)
    held = surveys(mechanism, [0] * 120 + [1] * 180 + [2] * 100, 0.3, 600)
    assert covers(held(1.0))
    assert not covers(held(0.25))


@checks(INTERVAL, LocalLaplace)
def test_intervals_of_local_means_hold_the_truth() -> None:
    mechanism = response.laplace(epsilon=1.0, bounds=(0, 1))
    held = surveys(mechanism, [0.25] * 200 + [0.75] * 200, 0.5, 600)
    assert covers(held(1.0))
    assert not covers(held(0.25))
