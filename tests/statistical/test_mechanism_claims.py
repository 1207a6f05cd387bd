"""Draws on neighbours do not contradict the price of any mechanism, and do contradict deliberately broken twins.

A million draws where they come in arrays; a few thousand where every release is a call (a million of those, for every
mechanism: ``make campaign-mechanisms``, results in benchmarks/results/mechanisms.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from statistical import batches
from statistical.cases import CASES, MANY, Case
from statistical.claims import bounds, judge
from statistical.goodness import NEVER
from statistical.twins import TWINS, Twin

QUICK = 15_000  # of the draws that come in arrays, where a full million would only repeat the campaign
SINGLES = 1_500
BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_draws_on_neighbours_do_not_contradict_the_price(case: Case) -> None:
    verdict = judge(*case.samples(min(case.draws, QUICK)), case.mechanism.privacy, delta=case.delta)
    assert not verdict.contradicted
    assert verdict.lower <= verdict.claimed


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: f"{twin.fault}, {twin.broken.name}")
def test_a_million_draws_contradict_a_broken_twin(twin: Twin) -> None:
    verdict = judge(*twin.broken.samples(MANY), twin.promised.privacy, delta=twin.broken.delta)
    assert verdict.contradicted
    assert verdict.lower > verdict.claimed


def test_the_five_faults_are_all_among_the_twins() -> None:
    assert {twin.fault for twin in TWINS} == {
        "half the noise",
        "epsilon for epsilon/2",
        "wrong adjacency",
        "reused noise",
        "unclamped sum",
    }


@pytest.mark.parametrize("name", ["Laplace, number", "discrete Laplace, number", "count, add_remove"])
def test_the_test_finds_nearly_all_of_a_price_that_is_attained(name: str) -> None:
    # A verdict "not contradicted" is worth something because the same events certify almost the whole epsilon.
    case = BY_NAME[name]
    verdict = judge(*case.samples(MANY), case.mechanism.privacy, delta=case.delta)
    assert verdict.lower > 0.95 * verdict.claimed


BATCHED = [
    "winsorised mean",
    "several quantiles, replace",
    "quantile, add_remove",
    "noisy max, laplace",
    "top-k",
    "permute-and-flip",
    "exponential on a line",
    "exponential by rejection",
    "sparse vector, 2 hits",
    "subsample and aggregate, add_remove",
    "winsorised mean, unknown range",
]


def same_units(case: Case, singles: np.ndarray) -> np.ndarray:
    """Single releases in the units in which batches come: whole numbers."""
    if name_starts(case, "exponential on a line"):
        return singles / case.mechanism.lattice.granularity
    if name_starts(case, "winsorised mean"):
        return np.rint(singles * len(case.left))
    return np.rint(singles * case.mechanism.blocks) if name_starts(case, "subsample") else singles


def name_starts(case: Case, start: str) -> bool:
    return case.name.startswith(start)


@pytest.mark.parametrize("name", BATCHED)
def test_batches_have_the_law_of_single_releases(name: str) -> None:
    # If they had not, one of them would show privacy loss about which was used.
    case = BY_NAME[name]
    if name == "sparse vector, 2 hits":
        found = (case.mechanism.release(case.left) for _ in range(SINGLES))
        singles = np.array([int("1" + "".join(str(int(above)) for above in answers), 2) for answers in found])
        batch = case.batch(case.mechanism, case.left, QUICK)
    elif name == "winsorised mean, unknown range":
        found = (case.mechanism.release(case.left) for _ in range(SINGLES // 4))
        singles = np.array([-1e6 if number is None else number for number in found])
        batch = case.batch(case.mechanism, case.left, 20_000)[:, 2]
    else:
        singles = same_units(case, batches.one_by_one(case.mechanism, case.left, SINGLES))
        batch = case.batch(case.mechanism, case.left, case.draws // 5)
    assert not judge(singles, batch, _Nothing()).contradicted


def test_a_batch_with_another_law_would_be_noticed() -> None:
    case = BY_NAME["winsorised mean"]
    singles = same_units(case, batches.one_by_one(case.mechanism, case.left, SINGLES))
    other = replace(case.mechanism, epsilon=2 * case.mechanism.epsilon)
    assert judge(singles, case.batch(other, case.left, MANY), _Nothing()).contradicted


class _Nothing:
    """The claim that two samples have one law."""

    def epsilon(self, *, delta: float) -> float:
        return 0.0

    def delta(self, *, epsilon: np.ndarray) -> np.ndarray:
        return np.zeros_like(epsilon)


def test_binomial_bounds_are_those_of_the_exact_tail() -> None:
    from scipy.stats import binom

    hits, trials, events = np.array([0, 3, 500, 1000]), 1000, 7
    low, high = bounds(hits, trials, events)
    tail = NEVER / (4 * events)
    assert binom.sf(hits[1:] - 1, trials, low[1:]) == pytest.approx(tail, rel=1e-6)
    assert binom.cdf(hits[:-1], trials, high[:-1]) == pytest.approx(tail, rel=1e-6)
    assert (low[0], high[-1]) == (0.0, 1.0)
