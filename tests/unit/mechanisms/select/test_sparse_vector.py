"""Sparse vector: the standard form keeps its price; the famous broken variants are contradicted by computation."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tallystick.accounting import losses as accounting
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput, Refused
from tallystick.mechanisms.exact.lazy_noise import LazyNoise, Noise
from tallystick.mechanisms.exact.randomness import SYSTEM, SeededSource
from tallystick.mechanisms.select.sparse_vector import AboveThreshold, above_threshold, best_threshold_share
from unit.mechanisms.coverage import ENUMERATION, INTERVAL, checks
from unit.mechanisms.neighbours import refuses

GRID = np.linspace(-400, 400, 160_001)
STEP = GRID[1] - GRID[0]


def cdf(x: np.ndarray, scale: float) -> np.ndarray:
    return np.where(x < 0, np.exp(np.minimum(x, 0) / scale) / 2, 1 - np.exp(-np.maximum(x, 0) / scale) / 2)


def output_probability(answers, pattern, *, threshold_scale: float, answer_scale: float | None) -> float:
    """P(pattern) with threshold 0: integrate over the threshold's noise. None: no answer noise."""
    density = np.exp(-np.abs(GRID) / threshold_scale) / (2 * threshold_scale)
    for answer, above in zip(answers, pattern, strict=True):
        if answer_scale is None:
            low = (answer < GRID).astype(float)
        else:
            low = cdf(GRID - answer, answer_scale)
        density = density * ((1 - low) if above else low)
    return float(density.sum() * STEP)


def patterns(length: int, hits: int):
    """Every output: ends at the ``hits``-th True or after ``length`` answers."""
    for size in range(1, length + 1):
        for pattern in itertools.product((False, True), repeat=size):
            total = sum(pattern)
            if (total == hits and pattern[-1]) or (size == length and total < hits):
                yield pattern


def worst_ratio(hits: int, *, threshold_scale, answer_scale, moves) -> float:
    worst = 0.0
    for base in ([0.0, 0.0, 0.0], [0.0, 3.0, -2.0]):
        for move in moves:
            for pattern in patterns(3, hits):
                size = len(pattern)
                left, right = (
                    output_probability(
                        list(a)[:size], pattern, threshold_scale=threshold_scale, answer_scale=answer_scale
                    )
                    for a in (base, np.add(base, move))
                )
                worst = max(worst, abs(math.log(left / right)))
    return worst


FREE = [(1, 1, 1), (-1, -1, 1), (1, -1, 1), (1, -1, -1), (-1, 1, 1)]


@checks(ENUMERATION, AboveThreshold)
@pytest.mark.parametrize("hits", [1, 2])
def test_the_standard_form_keeps_its_price(hits: int) -> None:
    mechanism = above_threshold(threshold=0.0, epsilon=1.0, hits=hits)
    ratio = worst_ratio(
        hits,
        threshold_scale=float(mechanism.threshold_scale),
        answer_scale=float(mechanism.answer_scale),
        moves=FREE,
    )
    assert ratio <= 1 + 1e-3


def test_the_monotone_form_keeps_its_price_and_halving_further_breaks_it() -> None:
    mechanism = above_threshold(threshold=0.0, epsilon=1.0, hits=1, monotone=True)
    scales = {"threshold_scale": float(mechanism.threshold_scale)}
    upward = [(1, 1, 1), (0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 0, 0)]
    assert worst_ratio(1, answer_scale=float(mechanism.answer_scale), moves=upward, **scales) <= 1 + 1e-3


def test_noise_that_does_not_grow_with_the_number_of_hits_is_contradicted() -> None:
    # Lyu, Su and Li 2017, Algorithm 4 (Lee and Clifton 2014): answer noise independent of c.
    answers, neighbours = [0.0] * 6 + [0.0] * 6, [1.0] * 6 + [-1.0] * 6
    pattern = [False] * 6 + [True] * 6
    scales = {"threshold_scale": 4.0, "answer_scale": 4.0 / 3}
    left, right = (output_probability(a, pattern, **scales) for a in (answers, neighbours))
    assert math.log(left / right) > 1.5
    mechanism = above_threshold(threshold=0.0, epsilon=1.0, hits=6)
    right_scales = {"threshold_scale": float(mechanism.threshold_scale), "answer_scale": float(mechanism.answer_scale)}
    left, right = (output_probability(a, pattern, **right_scales) for a in (answers, neighbours))
    assert math.log(left / right) <= 1 + 1e-3


def test_answers_without_noise_are_contradicted() -> None:
    # Algorithm 5 (Stoddard et al. 2014): with (0, 1) against (1, 0) one pattern has probability zero on one side only.
    pattern = (False, True)
    here = output_probability([0.0, 1.0], pattern, threshold_scale=2.0, answer_scale=None)
    there = output_probability([1.0, 0.0], pattern, threshold_scale=2.0, answer_scale=None)
    assert here > 0.01
    assert there == 0.0


def test_no_limit_on_hits_is_contradicted() -> None:
    # Algorithm 6 (Chen et al. 2015): noise of scale 2/eps everywhere and no cut-off; the ratio grows with the answers.
    ratios = []
    for m in (2, 8, 16):
        pattern = [False] * m + [True] * m
        left = output_probability([0.0] * (2 * m), pattern, threshold_scale=2.0, answer_scale=2.0)
        right = output_probability([1.0] * m + [-1.0] * m, pattern, threshold_scale=2.0, answer_scale=2.0)
        ratios.append(math.log(left / right))
    assert ratios == sorted(ratios)
    assert ratios[-1] > 4.0


def test_releasing_the_noisy_answer_that_was_compared_is_contradicted() -> None:
    # Algorithm 3 (Roth 2011): the noisy answer 0 at the hit tells that the noisy threshold was below 0, so m misses
    # before it lose e^{m / answer scale} when their answers rise, whatever the threshold's noise.
    def density(answer: float, misses: int) -> float:
        threshold = np.exp(-np.abs(GRID) / 2.0) / 4.0 * (GRID <= 0)
        return float((threshold * cdf(GRID - answer, 4.0) ** misses).sum())

    ratios = [math.log(density(0.0, m) / density(1.0, m)) for m in (1, 8, 20)]
    assert ratios == pytest.approx([1 / 4, 2.0, 5.0], rel=1e-6)


def test_hits_end_the_run_and_misses_cost_nothing() -> None:
    mechanism = above_threshold(threshold=0.0, epsilon=1.0, hits=2)
    assert mechanism.release([1e9, -1e9, 1e9, 1e9]) == (True, False, True)
    assert len(mechanism.release([-1e9] * 50)) == 50
    assert mechanism.privacy == accounting.pure_dp(epsilon=1.0)


def test_a_stream_refuses_to_go_on_after_its_hits() -> None:
    stream = above_threshold(threshold=0.0, epsilon=1.0, hits=1).start()
    assert stream.ask(-1e9) is False
    assert stream.ask(1e9) is True
    with pytest.raises(Refused):
        stream.ask(0.0)


def test_comparisons_in_floats_are_those_of_decimals_on_the_same_bits() -> None:
    mechanism = above_threshold(threshold=0.1, epsilon=1.0, hits=400)
    stream, words = mechanism._comparison(SeededSource(5)), SeededSource(6)
    for answer in np.linspace(-3000, 3000, 300).tolist():
        mine = LazyNoise.fresh(Noise.LAPLACE, words)
        clear = stream._clear(answer, mine)
        assert clear is not None
        assert clear is stream._compare(Fraction(answer) - stream.threshold, mine)


def test_a_comparison_too_close_for_floats_is_left_to_decimals() -> None:
    stream = above_threshold(threshold=0.0, epsilon=1.0)._comparison(SYSTEM)
    mine = LazyNoise(Noise.LAPLACE, stream.noise.negative, stream.noise.numerator, stream.noise.bits)
    ratio = float(stream.scales[1] / stream.scales[0])
    balance = stream.noise.near() * float(stream.scales[0]) * (1 - ratio)
    assert stream._clear(balance, mine) is None
    assert stream._clear(1.7e308, mine) in (True, None)
    mine.numerator = (1 << 63) - 1  # noise that its first bits do not bound
    assert stream._clear(0.0, mine) is None


@checks(INTERVAL, AboveThreshold)
def test_the_error_bound_covers_at_its_nominal_rate() -> None:
    mechanism = above_threshold(threshold=0.0, epsilon=1.0, hits=1)
    width = mechanism.error(confidence=0.9, queries=20)
    wrong = sum(any(mechanism.release([-width] * 20)) for _ in range(300))
    assert wrong <= 300 * 0.1 + 30


def test_the_default_split_is_the_published_optimum() -> None:
    assert best_threshold_share(4, monotone=False) == pytest.approx(1 / (1 + 8 ** (2 / 3)))
    assert best_threshold_share(4, monotone=True) == pytest.approx(1 / (1 + 4 ** (2 / 3)))


@pytest.mark.parametrize("value", [[], "x", [math.nan], None, [[1.0]]])
def test_bad_answers_are_refused_before_randomness_is_drawn(value) -> None:
    assert refuses(above_threshold(threshold=0.0, epsilon=1.0), value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"hits": 0},
        {"threshold": math.nan},
        {"sensitivity": -1},
        {"threshold_share": 1.0},
        {"monotone": True, "adjacency": Adjacency.REPLACE},
    ],
)
def test_bad_parameters_are_refused(wrong) -> None:
    with pytest.raises(InvalidInput):
        above_threshold(**{"threshold": 0.0, "epsilon": 1.0, **wrong})
