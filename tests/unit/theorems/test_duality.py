"""Profile and trade-off function: convex conjugates, without loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from tallystick.errors import InvalidInput
from tallystick.theorems import PiecewiseProfile, PiecewiseTradeoff
from unit.theorems import brute

GRID = np.linspace(0, 1, 37)


@given(brute.pairs(most=4), st.floats(-4, 4))
def test_the_profile_is_the_best_event(pair, epsilon):
    p, q = pair
    profile = theorems.profile_of_tradeoff(PiecewiseTradeoff.of_pair(p, q))
    # f = T(P, Q) gives H(Q||P)
    assert profile.delta(epsilon=epsilon) == pytest.approx(brute.delta_by_events(q, p, math.exp(epsilon)), abs=1e-9)
    other = theorems.profile_of_tradeoff(PiecewiseTradeoff.of_pair(p, q).inverse())
    assert other.delta(epsilon=epsilon) == pytest.approx(brute.delta_by_events(p, q, math.exp(epsilon)), abs=1e-9)


@given(brute.pairs())
def test_there_and_back_loses_nothing(pair):
    f = PiecewiseTradeoff.of_pair(*pair)
    again = theorems.tradeoff_of_profile(theorems.profile_of_tradeoff(f))
    assert np.max(np.abs(again(GRID) - f(GRID))) <= 1e-9


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 0.6)), min_size=1, max_size=4))
def test_claims_give_the_supremum_of_their_functions(points):
    f = theorems.tradeoff_of_points(points)
    best = np.max(
        [[theorems.least_type_two_error(alpha=a, epsilon=e, delta=d) for a in GRID] for e, d in points], axis=0
    )
    # the supremum of convex functions is convex, so the hull adds nothing
    assert np.max(np.abs(f(GRID) - best)) <= 1e-9


def test_one_pure_claim_bounds_every_other_epsilon():
    profile = PiecewiseProfile.of_points([(1.0, 0.0)])
    for epsilon in (0.0, 0.3, 0.9, 1.0, 2.0):
        exact = brute.worst_pure_delta(1.0, 1, epsilon)
        assert profile.delta(epsilon=epsilon) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize(
    ("ratios", "deltas"),
    [((1.0,), (1.5,)), ((1.0, 2.0), (0.1, 0.2)), ((0.5,), (0.2,)), ((1.0, 2.0, 3.0), (0.5, 0.49, 0.0)), ((), ())],
)
def test_profiles_that_no_pair_has_are_refused(ratios, deltas):
    with pytest.raises(InvalidInput):
        PiecewiseProfile(ratios, deltas)


def test_no_claims_are_refused():
    with pytest.raises(InvalidInput):
        PiecewiseProfile.of_points([])
