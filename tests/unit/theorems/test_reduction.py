"""The reduction from approximate to pure, checked outcome by outcome."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from unit.theorems import brute


@given(brute.pairs(), st.floats(0, 3))
def test_the_new_pair_is_pure_and_near(pair, epsilon):
    p, q = pair
    found = theorems.reduce_to_pure(p, q, epsilon=epsilon)
    near, far = np.array(found.p), np.array(found.q)
    assert abs(near.sum() - 1) <= 1e-12
    assert abs(far.sum() - 1) <= 1e-12
    ratio = math.exp(epsilon)
    assert np.all(near <= ratio * far * (1 + 1e-9) + 1e-13)
    assert np.all(far <= ratio * near * (1 + 1e-9) + 1e-13)
    delta = max(brute.hockey(p, q, epsilon), brute.hockey(q, p, epsilon))
    for old, new in ((p, near), (q, far)):
        distance = float(np.abs(old - new).sum() / 2)
        assert distance <= found.distance + 1e-15
        # the composition notes (000) asks for delta; the construction gives delta / (1 + e^epsilon)
        assert distance <= delta / (1 + ratio) + 1e-12
    assert found.delta >= delta - 1e-15


def test_a_pure_pair_is_left_alone():
    found = theorems.reduce_to_pure([0.6, 0.4], [0.5, 0.5], epsilon=1.0)
    assert found.p == (0.6, 0.4)
    assert found.q == (0.5, 0.5)
    assert found.distance <= 1e-15
