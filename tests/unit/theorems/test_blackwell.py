"""A channel is found whenever the curves allow one, and a separating test otherwise; tight pairs need no data sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import InvalidInput
from tallystick.theorems import Channel, PiecewiseTradeoff, SeparatingTest, TightPair, blackwell_channel, tight_pair
from unit.theorems import brute

DIRECTIONS = [[0.8, 0.2, 0.0], [0.8, 0.0, 0.2], [0.75, 0.25, 0.0], [0.25, 0.75, 0.0]]


@settings(max_examples=40, deadline=None)
@given(brute.pairs(), st.integers(0, 2**32 - 1))
def test_whatever_came_through_a_channel_has_one(pair, seed):
    p, q = pair
    rows = np.random.default_rng(seed).dirichlet(np.ones(3), size=p.size)
    found = blackwell_channel(p, q, p @ rows, q @ rows)
    assert isinstance(found, Channel)
    assert np.allclose(p @ found.matrix, p @ rows, atol=1e-8)
    assert np.allclose(q @ found.matrix, q @ rows, atol=1e-8)


def test_what_tells_more_apart_has_no_channel_and_the_test_says_why():
    found = blackwell_channel([0.7, 0.3], [0.3, 0.7], [0.9, 0.1], [0.1, 0.9])
    assert isinstance(found, SeparatingTest)
    assert brute.type_two_by_tests(np.array([0.9, 0.1]), np.array([0.1, 0.9]), found.level) < found.before - 0.5


def test_a_renyi_order_is_no_reason_for_a_channel():
    # Proposition 13.7: a pair that is smaller at every order, and yet cannot be made from the other
    both = blackwell_channel([0.6, 0.4], [0.4, 0.6], [1.0, 0.0], [0.9, 0.1])
    assert isinstance(both, SeparatingTest)


@pytest.mark.parametrize("bad", [([1.0], [0.5, 0.5]), ([0.5, 0.6], [0.5, 0.5])])
def test_bad_pairs_are_refused(bad):
    with pytest.raises(InvalidInput):
        blackwell_channel([0.5, 0.5], [0.5, 0.5], *bad)


def test_too_large_a_channel_is_refused():
    wide = [1 / 200] * 200
    with pytest.raises(InvalidInput, match="cells"):
        blackwell_channel(wide, wide, wide, wide)


def test_worst_data_sets_need_not_exist():
    found = tight_pair(DIRECTIONS, [(0, 1), (2, 3)])
    assert isinstance(found, TightPair)
    assert found.data_sets is None
    alone = tight_pair(DIRECTIONS, [(2, 3)])
    assert alone.data_sets == (2, 3)
    assert alone.tradeoff == PiecewiseTradeoff.of_pair(*DIRECTIONS[2:])


@pytest.mark.parametrize(
    ("laws", "places"), [(DIRECTIONS, []), (DIRECTIONS, [(0, 4)]), ([[1.0], [0.5, 0.5]], [(0, 1)])]
)
def test_bad_families_are_refused(laws, places):
    with pytest.raises(InvalidInput):
        tight_pair(laws, places)
