"""Real-valued releases: neighbours share their outputs, and the lowest bits of an output say nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from statistical import batches
from statistical.cases import CASES, Case
from statistical.claims import Cells, bounds, judge
from statistical.goodness import NEVER
from tallystick.accounting.adjacency import ANY_UNIT
from tallystick.mechanisms import aggregate, noise, response, select
from tallystick.mechanisms.exact.randomness import SYSTEM
from unit.mechanisms.coverage import LOW_BITS, SUPPORT, checks
from unit.mechanisms.registry import MECHANISMS

NAIVE = 1_000_000


def low_bit(outputs: np.ndarray) -> np.ndarray:
    """The exponent of the lowest bit set, per coordinate: -60 means bits finer than 2^-52. Zero has none: 99."""
    mantissa, exponent = np.frexp(np.asarray(outputs, dtype=np.float64))
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = np.log2(np.where(whole == 0, 1, whole & -whole)).astype(np.int64)
    return np.where(whole == 0, 99, np.clip(exponent - 53 + lowest, -80, 40))


LATTICE: dict[str, Any] = {"bounds": (0.0, 1.0)}  # the default lattice, a million points
BOX = select.uniform_box([(0.0, 1.0)])
NEAR = np.array([0.0] * 200 + [1.0] * 199)
FEWER, MORE = [0.0, 1.0], [0.0, 1.0, 1.0]
SHORT, LONG = [0.0, 0.0], [1.0, 0.0]
SIX, OTHER = [0.0] * 6, [0.0] * 5 + [1.0]
DIVIDED: dict[str, Any] = {"bounds": (0.0, 1.0), "granularity": 2.0**-4, "epsilon": 2.0}  # means: any low bits at all
REAL = [
    Case("Laplace", noise.add_laplace(epsilon=1.0, sensitivity=1.0), 0.0, 1.0, batches.scalars),
    Case("Gaussian", noise.add_gaussian(sigma=1.0, sensitivity=1.0), 0.0, 1.0, batches.scalars, delta=1e-3),
    Case("vector", noise.add_laplace(epsilon=1.0, sensitivity=1.0, dimension=2), SHORT, LONG, batches.vectors),
    Case("K-norm, l1", noise.add_knorm(epsilon=1.0, norm="l1", sensitivity=1.0), SHORT, LONG, draws=1_500),
    Case("K-norm, l2", noise.add_knorm(epsilon=1.0, norm="l2", sensitivity=1.0), SHORT, LONG, draws=1_500),
    Case("K-norm, linf", noise.add_knorm(epsilon=1.0, norm="linf", sensitivity=1.0), SHORT, LONG, draws=1_500),
    Case("quantile", select.median(epsilon=1.0, **LATTICE), FEWER, MORE, draws=700),
    Case("several quantiles", select.quantiles(alphas=[0.25, 0.75], epsilon=1.0, **LATTICE), FEWER, MORE, draws=400),
    Case(
        "on a line",
        select.on_line(epsilon=1.0, sensitivity=1.0, **LATTICE),
        select.Steps([0.5], [0.0, 1.0]),
        select.Steps([0.5], [1.0, 0.0]),
        draws=700,
    ),
    Case(
        "by rejection",
        select.by_rejection(epsilon=1.0, sensitivity=1.0, propose=BOX, score_bounds=(0, 1)),
        lambda point: float(point[0] > 0.5),
        lambda point: float(point[0] <= 0.5),
        draws=700,
    ),
    Case("local Laplace", response.laplace(epsilon=1.0, **LATTICE), 0.0, 1.0, batches.people),
    Case("sample", aggregate.sampled(select.median(epsilon=1.0, **LATTICE), rate=0.5), FEWER, MORE, draws=700),
    Case("winsorised mean", aggregate.winsorized_mean(**DIVIDED), SIX, OTHER, draws=700),
    Case(
        "subsample and aggregate",
        aggregate.subsample_and_aggregate(statistic=np.max, blocks=5, **DIVIDED),
        SIX,
        OTHER,
        draws=700,
    ),
    Case(
        "winsorised mean, unknown range",
        aggregate.unbounded_winsorized_mean(epsilon=8.0, delta=0.1),
        np.append(NEAR, 0.0),
        np.append(NEAR, 1.0),
        delta=0.1,
        draws=100,
    ),
]


@checks(LOW_BITS, *{type(case.mechanism) for case in REAL})
@pytest.mark.parametrize("case", REAL, ids=lambda case: case.name)
def test_low_bits_of_a_release_tell_nothing_about_the_value(case: Case) -> None:
    left, right = (np.where(np.isnan(x), 0.0, x) for x in case.samples(min(case.draws, 200_000)))
    verdict = judge(low_bit(left), low_bit(right), case.mechanism.privacy, delta=case.delta)
    assert not verdict.contradicted
    if case.name in ("Laplace", "Gaussian", "quantile", "on a line", "by rejection", "local Laplace"):
        assert low_bit(left).min() >= -52
        assert low_bit(right).min() >= -52


def test_low_bits_of_naive_releases_are_found() -> None:
    rng = np.random.default_rng(2)
    claim = noise.add_laplace(epsilon=1.0, sensitivity=1.0).privacy
    naive = [value + rng.laplace(scale=1.0, size=NAIVE) for value in (0.0, 1.0)]
    assert judge(low_bit(naive[0]), low_bit(naive[1]), claim).contradicted
    assert not judge(naive[0], naive[1], claim).contradicted  # ordinary events do not see it
    # A mean of six numbers in [0, 1] with noise of the right size, added in floating point.
    means = [np.mean(data) + rng.laplace(scale=1 / 6, size=NAIVE) for data in ([0.0] * 6, [0.0] * 5 + [1.0])]
    assert judge(low_bit(means[0]), low_bit(means[1]), claim).contradicted


def test_mechanisms_that_release_reals_are_all_here() -> None:
    chooses = {"AboveThreshold", "ExponentialMechanism", "NoisyMax", "PermuteAndFlip", "TopK"}
    counts = {"RandomizedResponse", "StableCounts", "StableKeys", "UnaryEncoding"}
    assert {m.__name__ for m in MECHANISMS} - chooses - counts == {type(case.mechanism).__name__ for case in REAL}


@dataclass(frozen=True, slots=True)
class Outside:
    """Outputs seen on one neighbour and not on the other, in half of the draws; how often they come in the rest."""

    least: float
    most_elsewhere: float

    @staticmethod
    def of(left: np.ndarray, right: np.ndarray) -> Outside:
        both = [np.atleast_2d(np.asarray(x, dtype=np.float64).T).T for x in (left, right)]
        cells = Cells.of(np.concatenate([x[: x.shape[0] // 2] for x in both]))
        ours, theirs = (cells.codes(x) for x in both)
        half = len(ours) // 2
        seen = [np.bincount(x[:half], minlength=cells.size) for x in (ours, theirs)]
        alone = (seen[0] > 0) & (seen[1] == 0)
        hits = [np.array([int(alone[x[half:]].sum())]) for x in (ours, theirs)]
        return Outside(float(bounds(hits[0], half, 1)[0][0]), float(bounds(hits[1], half, 1)[1][0]))

    def allowed(self, epsilon: float, delta: float) -> bool:
        return self.least <= np.exp(epsilon) * self.most_elsewhere + delta + NEVER


@checks(SUPPORT, *{type(case.mechanism) for case in CASES})
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_one_neighbour_can_release_the_other_can_too(case: Case) -> None:
    left, right = case.samples(min(case.draws, 10_000))
    epsilon = float(case.mechanism.privacy.epsilon(delta=case.delta))
    assert Outside.of(left, right).allowed(epsilon, case.delta)
    assert Outside.of(right, left).allowed(epsilon, case.delta)


def test_a_mean_that_divides_by_a_private_number_has_outputs_of_its_own() -> None:
    # What winsorized_mean refuses to build: four and five numbers under ADD_REMOVE.
    broken = replace(aggregate.winsorized_mean(bounds=(100, 101), epsilon=1.0, granularity=1.0), protects=ANY_UNIT)
    four, five = (batches.winsorized(broken, [101.0] * k, 50_000) / k for k in (4, 5))
    assert not Outside.of(five, four).allowed(1.0, 0.0)


def test_floating_point_noise_has_outputs_of_its_own() -> None:
    words = SYSTEM.words(100_000)
    naive = [value + np.log((words >> np.uint64(58)).astype(np.float64) + 1) for value in (0.0, 1.0)]
    assert not Outside.of(*naive).allowed(1.0, 0.0)
