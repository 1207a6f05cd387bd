"""Optimal composition of unlike steps: the enclosure holds the enumerated truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from tallystick.errors import InvalidInput


def exact_epsilon(epsilons, deltas, target):
    p, q = np.array([1.0]), np.array([1.0])
    for e, d in zip(epsilons, deltas, strict=True):
        one = (1 - d) / (1 + math.exp(-e))
        p = np.outer(p, [d, one, 1 - d - one, 0.0]).ravel()
        q = np.outer(q, [0.0, 1 - d - one, one, d]).ravel()
    low, high = 0.0, sum(epsilons) + 1.0
    if np.maximum(p - q, 0).sum() <= target:
        return 0.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if np.maximum(p - math.exp(middle) * q, 0).sum() <= target else (middle, high)
    return high


STEPS = st.lists(st.tuples(st.floats(0.01, 1.5), st.sampled_from([0.0, 1e-6, 1e-3])), min_size=1, max_size=6)


@given(STEPS, st.sampled_from([0.01, 0.05, 0.2]))
def test_the_enclosure_holds_the_truth_of_all_transcripts(steps, target):
    epsilons, deltas = [e for e, _ in steps], [d for _, d in steps]
    bounds = theorems.heterogeneous_optimal_composition(epsilons=epsilons, deltas=deltas, total_delta=target)
    exact = exact_epsilon(epsilons, deltas, target)
    assert bounds.lower <= exact + 1e-9
    assert exact <= bounds.upper + 1e-9
    assert bounds.upper - bounds.lower <= 2e-3 * max(bounds.upper, 0.1)


@pytest.mark.parametrize(("epsilon", "steps", "delta", "total"), [(0.1, 1000, 0.0, 1e-6), (0.02, 5000, 1e-9, 1e-5)])
def test_equal_steps_agree_with_the_closed_form(epsilon, steps, delta, total):
    closed = theorems.optimal_composition_epsilon(epsilon=epsilon, steps=steps, delta=delta, total_delta=total)
    bounds = theorems.heterogeneous_optimal_composition(
        epsilons=[epsilon], counts=[steps], deltas=[delta], total_delta=total
    )
    assert bounds.lower <= closed * (1 + 1e-9)
    assert closed <= bounds.upper * (1 + 1e-9)
    assert bounds.relative_width < 1e-3


def test_more_points_narrow_the_enclosure():
    def width(points):
        return theorems.heterogeneous_optimal_composition(
            epsilons=np.linspace(0.01, 0.1, 40), deltas=[0.0] * 40, total_delta=1e-6, points=points
        ).width

    assert width(2**14) < width(2**11) / 4


def test_two_unlike_steps_at_small_delta():
    bounds = theorems.heterogeneous_optimal_composition(epsilons=[0.5, 1.0], deltas=[0.0, 0.0], total_delta=1e-30)
    # only the sum of both losses is left above this level: delta = p1 p2 (1 - e^(E - 1.5))
    both = 1 / (1 + math.exp(-0.5)) / (1 + math.exp(-1.0))
    exact = 1.5 + math.log1p(-1e-30 / both)
    assert bounds.lower <= exact <= bounds.upper
    assert bounds.upper == pytest.approx(1.5, abs=1e-6)


def test_too_much_leaking_has_no_finite_epsilon_and_bad_lists_are_refused():
    assert theorems.heterogeneous_optimal_composition(epsilons=[0.1], deltas=[0.2], total_delta=0.1).lower == math.inf
    with pytest.raises(InvalidInput):
        theorems.heterogeneous_optimal_composition(epsilons=[0.1, 0.2], deltas=[0.0], total_delta=0.1)
    with pytest.raises(InvalidInput):
        theorems.heterogeneous_optimal_composition(epsilons=[], deltas=[], total_delta=0.1)


def test_steps_that_cost_nothing_cost_nothing():
    assert theorems.heterogeneous_optimal_composition(epsilons=[0.0], deltas=[0.0], total_delta=0.1).upper == 0.0
