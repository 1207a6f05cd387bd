"""A million draws on neighbours do not contradict any price, and do contradict deliberately broken twins."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from statistical.goodness import at_least, at_most
from tallystick.accounting.adjacency import Adjacency
from tallystick.mechanisms.categorical import choose_many
from tallystick.mechanisms.partition import stable
from tallystick.mechanisms.quantile import Cells, quantile
from tallystick.mechanisms.randomness import SYSTEM
from tallystick.mechanisms.response import randomize, unary_encoding
from tallystick.mechanisms.selection import exponential, weights
from tallystick.mechanisms.winsorized import winsorized_mean

DRAWS = 1_000_000


def contradicted(left: np.ndarray, right: np.ndarray, claim) -> bool:
    """Does any single outcome, in either order, show more than the claimed pure epsilon (or epsilon and delta)?"""
    epsilon, delta = claim
    size = int(max(left.max(), right.max())) + 1
    ours, theirs = (np.bincount(x, minlength=size) for x in (left, right))
    return any(
        at_least(int(a), left.size) > math.exp(epsilon) * at_most(int(b), right.size) + delta
        for one, other in ((ours, theirs), (theirs, ours))
        for a, b in zip(one, other, strict=True)
    )


def chosen(scores, rate: Fraction) -> np.ndarray:
    return choose_many(weights(np.array(scores, dtype=float), rate), DRAWS, SYSTEM)


def test_choices_keep_their_price_and_half_the_noise_does_not() -> None:
    mechanism = exponential(epsilon=1.0)
    here, there = [0, 3, 3, 3], [1, 2, 2, 2]
    assert not contradicted(chosen(here, mechanism.rate), chosen(there, mechanism.rate), (1.0, 0.0))
    assert contradicted(chosen(here, 2 * mechanism.rate), chosen(there, 2 * mechanism.rate), (1.0, 0.0))


def cells_drawn(data, rate: Fraction) -> np.ndarray:
    """A million quantile draws as lattice points 0..9."""
    cells = Cells.of(np.array(data), 0, 9)
    found = choose_many(cells.weights(Fraction(1, 2), rate), DRAWS, SYSTEM)
    spread = SYSTEM.words(DRAWS).astype(np.float64) * 2.0**-64 * cells.counts[found]
    return cells.starts[found] + np.floor(spread).astype(np.int64)


def test_quantiles_keep_their_price_and_epsilon_for_half_epsilon_does_not() -> None:
    here, there = [1, 1, 9, 9], [0, 1, 1, 9]
    right = quantile(alpha=0.5, epsilon=1.0, bounds=(0, 9), granularity=1.0, adjacency=Adjacency.REPLACE)
    assert not contradicted(cells_drawn(here, right.rate), cells_drawn(there, right.rate), (1.0, 0.0))
    printed = Fraction(1)  # the notes' Algorithm 4: exp(-eps |i - alpha k|)
    assert contradicted(cells_drawn(here, printed), cells_drawn(there, printed), (1.0, 0.0))


def test_a_price_for_added_records_does_not_hold_for_replaced_ones() -> None:
    added = quantile(alpha=0.5, epsilon=1.0, bounds=(0, 9), granularity=1.0)
    here, there = [1, 1, 9, 9], [0, 1, 1, 9]
    assert contradicted(cells_drawn(here, added.rate), cells_drawn(there, added.rate), (1.0, 0.0))
    assert not contradicted(cells_drawn([1, 8], added.rate), cells_drawn([1, 8, 8], added.rate), (1.0, 0.0))


@pytest.mark.parametrize("choices", [2, 6])
def test_answers_keep_their_price_and_asking_twice_with_fresh_noise_does_not(choices: int) -> None:
    mechanism = randomize(epsilon=1.0, choices=choices)
    here, there = (np.array(mechanism.release(np.full(DRAWS, truth))) for truth in (0, 1))
    assert not contradicted(here, there, (1.0, 0.0))
    again = [np.array(mechanism.release(np.full(DRAWS, truth))) for truth in (0, 1)]
    assert contradicted(here * choices + again[0], there * choices + again[1], (1.0, 0.0))


def test_bits_keep_their_price_and_reused_noise_does_not() -> None:
    mechanism = unary_encoding(epsilon=1.0, choices=2)
    codes = [mechanism.release(np.full(DRAWS // 2, truth)) @ np.array([1, 2]) for truth in (0, 1)]
    assert not contradicted(codes[0], codes[1], (1.0, 0.0))
    # One uniform for both bits of a person: the bits are no longer independent, and (1, 0) tells the answer.
    uniform = SYSTEM.words(DRAWS).astype(np.float64) * 2.0**-64
    low = 1 / (math.e + 1)
    reused = [(uniform < (0.5, low)[t]) * 1 + (uniform < (low, 0.5)[t]) * 2 for t in (0, 1)]
    assert contradicted(reused[0], reused[1], (1.0, 0.0))


def test_groups_keep_their_price_and_a_rule_with_twice_the_delta_does_not() -> None:
    mechanism = stable(epsilon=0.5, delta=0.01)
    groups = 60_000

    def shown(rule, size: int) -> np.ndarray:
        kept = len(rule.release(dict.fromkeys(range(groups), size)))
        return np.repeat([1, 0], [kept, groups - kept])

    for size in (0, 1, 3, 8):
        assert not contradicted(shown(mechanism, size), shown(mechanism, size + 1), (0.5, 0.01))
    generous = stable(epsilon=0.5, delta=0.02)
    assert contradicted(shown(generous, 0), shown(generous, 1), (0.5, 0.01))


def test_a_mean_keeps_its_price_and_an_unclamped_one_does_not() -> None:
    mechanism = winsorized_mean(bounds=(0, 3), epsilon=2.0, granularity=1.0)
    data = [np.array([1, 1, 1, 1, 2, 2]), np.array([1, 1, 1, 1, 2, 0])]
    outs = [np.array([round(6 * mechanism.draw(d, SYSTEM)) for _ in range(1500)]) for d in data]
    assert not contradicted(outs[0] + 400, outs[1] + 400, (2.0, 0.0))
    # The same noise on a mean of numbers that were not clamped to the bounds.
    wild = [np.array([1, 1, 1, 1, 2, 2]), np.array([1, 1, 1, 1, 2, 3000])]
    shifts = [np.sum(d) - np.sum(np.clip(d, 0, 3)) for d in wild]
    large = [(outs[0] + shift > 1000).astype(np.int64) for shift in shifts]
    assert contradicted(large[0], large[1], (2.0, 0.0))
