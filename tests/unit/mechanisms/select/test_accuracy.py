"""The accuracy theorems as functions, against exact laws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tallystick.errors import InvalidInput
from tallystick.mechanisms.noise import accuracy as accuracy_of_noise
from tallystick.mechanisms.select import accuracy
from tallystick.mechanisms.select.candidates import exponential, permute_and_flip


@pytest.mark.parametrize("candidates", [2, 3, 10, 1000])
def test_the_sharp_gap_is_below_proposition_5_2_and_above_the_truth(candidates: int) -> None:
    loose = accuracy.laplace_max_gap(candidates=candidates, epsilon=1.0)
    sharp = accuracy.laplace_max_gap_sharp(candidates=candidates, epsilon=1.0)
    assert sharp <= loose
    noise = np.random.default_rng(0).laplace(scale=2.0, size=(4000, candidates))
    scores = np.full(candidates, -5.0)
    scores[0] = 0.0
    lost = -scores[np.argmax(noise + scores, axis=1)].mean()
    assert lost <= sharp


def test_one_candidate_loses_nothing() -> None:
    assert accuracy.laplace_max_gap(candidates=1, epsilon=1.0) == 0.0
    assert accuracy.laplace_max_gap_sharp(candidates=1, epsilon=1.0) == 0.0


def test_lemma_3_with_exponential_moments_beats_the_notes_choice_of_t() -> None:
    mu = 2.0
    best = accuracy.mean_largest(count=50, log_moments=lambda t: -math.log1p(-mu * t), limit=1 / mu)
    assert mu * accuracy.harmonic(50) <= best <= 2 * mu * math.log(50) + 2 * mu * math.log(2)


def test_lemma_3_with_gaussian_moments_gives_the_usual_bound() -> None:
    best = accuracy.mean_largest(count=100, log_moments=lambda t: t * t / 2)
    assert best == pytest.approx(math.sqrt(2 * math.log(100)), rel=1e-6)


@pytest.mark.parametrize("optimal", [1, 5])
def test_theorem_7_2_bounds_the_exact_tail_of_the_exponential_mechanism(optimal: int) -> None:
    scores = np.concatenate((np.zeros(optimal), -np.arange(1, 60.0)))
    for build in (exponential, permute_and_flip):
        law = build(epsilon=0.7).probabilities(scores)
        for confidence in (0.5, 0.9, 0.99):
            gap = accuracy.exponential_gap(candidates=scores.size, epsilon=0.7, confidence=confidence, optimal=optimal)
            assert law[scores <= -gap].sum() <= 1 - confidence


def test_corollary_7_1_is_theorem_7_2_with_one_best_candidate() -> None:
    one = accuracy.exponential_gap(candidates=64, epsilon=1.0, confidence=0.9)
    assert one == pytest.approx(2 * (math.log(64) + math.log(10)))
    assert accuracy.exponential_gap(candidates=64, epsilon=1.0, confidence=0.9, optimal=2) < one


def test_example_7_2_the_wrong_condition_is_chosen_exactly_this_often() -> None:
    for gap in (0, 3, 20):
        exact = exponential(epsilon=1.0).probabilities([gap, 0])[1]
        assert accuracy.wrong_choice(gap=gap, epsilon=1.0) == pytest.approx(exact)
        assert exact <= 2 * math.exp(-gap / 2)


def test_theorem_7_6_halves_with_twice_the_data_density_or_epsilon() -> None:
    base = {"points": 1000, "epsilon": 1.0, "confidence": 0.95, "count": 100, "density": 0.3}
    whole = accuracy.quantile_error(**base)
    for change in ({"epsilon": 2.0}, {"count": 200}, {"density": 0.6}):
        assert accuracy.quantile_error(**{**base, **change}) == pytest.approx(whole / 2)


def test_example_10_1_pure_grows_with_d_and_approximate_with_its_root() -> None:
    sizes = {"accuracy": 0.05, "epsilon": 1.0}
    pure = [accuracy_of_noise.marginals_needed_pure(dimension=d, **sizes) for d in (100, 10_000)]
    approx = [accuracy_of_noise.marginals_needed_approx(dimension=d, delta=1e-6, **sizes) for d in (100, 10_000)]
    assert pure[1] / pure[0] == pytest.approx(100, rel=0.01)
    assert approx[1] / approx[0] == pytest.approx(10, rel=0.01)


def test_in_high_dimension_the_gaussian_mean_is_more_accurate_and_in_low_dimension_less() -> None:
    size = {"count": 1000, "epsilon": 1.0}
    gaussian = [accuracy_of_noise.gaussian_mean_error(dimension=d, delta=1e-6, **size) for d in (1, 100)]
    laplace = [accuracy_of_noise.laplace_mean_error(dimension=d, **size) for d in (1, 100)]
    assert laplace[0] < gaussian[0]
    assert gaussian[1] < laplace[1]


def test_bad_arguments_are_refused() -> None:
    for wrong in (
        lambda: accuracy.exponential_gap(candidates=0, epsilon=1.0, confidence=0.9),
        lambda: accuracy.exponential_gap(candidates=2, epsilon=1.0, confidence=1.0),
        lambda: accuracy.exponential_gap(candidates=2, epsilon=1.0, confidence=0.5, optimal=3),
        lambda: accuracy.wrong_choice(gap=-1, epsilon=1.0),
        lambda: accuracy_of_noise.laplace_mean_error(dimension=0, count=1, epsilon=1.0),
    ):
        with pytest.raises(InvalidInput):
            wrong()
