"""Post-processing never helps the attacker (Proposition 3.1, Lemma 8), and Blackwell's converse on an example."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from tallystick.theorems import PiecewiseTradeoff
from unit.theorems import brute

GRID = np.linspace(0, 1, 31)


@given(brute.pairs(), st.integers(0, 2**32 - 1), st.floats(0, 3))
def test_a_random_channel_lowers_every_divergence_and_raises_the_tradeoff(pair, seed, epsilon):
    p, q = pair
    channel = np.random.default_rng(seed).dirichlet(np.ones(3), size=len(p))
    after = (p @ channel, q @ channel)
    assert brute.hockey(*after, epsilon) <= theorems.hockey_stick(p, q, epsilon=epsilon) + 1e-12
    before = PiecewiseTradeoff.of_pair(p, q)
    assert np.all(PiecewiseTradeoff.of_pair(*after)(GRID) >= before(GRID) - 1e-9)


def test_an_invertible_map_changes_nothing():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.3, 0.6])
    order = [2, 0, 1]
    assert np.allclose(PiecewiseTradeoff.of_pair(p, q)(GRID), PiecewiseTradeoff.of_pair(p[order], q[order])(GRID))


def test_blackwell_a_larger_tradeoff_function_is_reached_by_a_channel():
    # T(RR(2)) <= T(RR(1)): the channel that flips RR(2)'s output with the right probability gives RR(1)
    strong, weak = 1 / (1 + np.exp(-2.0)), 1 / (1 + np.exp(-1.0))
    flip = (strong - weak) / (2 * strong - 1)
    channel = np.array([[1 - flip, flip], [flip, 1 - flip]])
    assert np.array([strong, 1 - strong]) @ channel == pytest.approx([weak, 1 - weak])
    finer, coarser = PiecewiseTradeoff.of_approx_dp(epsilon=2.0), PiecewiseTradeoff.of_approx_dp(epsilon=1.0)
    assert np.all(finer(GRID) <= coarser(GRID) + 1e-15)
