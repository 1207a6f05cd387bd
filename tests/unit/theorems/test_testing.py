"""The attacker's power."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from unit.theorems import brute


@given(brute.pairs(most=4), st.floats(0, 1), st.floats(0, 2))
def test_no_test_of_any_pair_beats_the_bound(pair, alpha, epsilon):
    p, q = pair
    delta = max(brute.delta_by_events(p, q, np.exp(epsilon)), brute.delta_by_events(q, p, np.exp(epsilon)))
    power = 1 - brute.type_two_by_tests(p, q, alpha)
    assert power <= theorems.power_bound(alpha=alpha, epsilon=epsilon, delta=min(1.0, delta)) + 1e-9


@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.3, 0.5, 0.9, 1.0])
def test_the_worst_pair_attains_the_bound(alpha):
    epsilon, delta = 1.0, 0.05
    one = (1 - delta) / (1 + np.exp(-epsilon))
    p, q = np.array([delta, one, 1 - delta - one, 0.0]), np.array([0.0, 1 - delta - one, one, delta])
    power = 1 - brute.type_two_by_tests(p, q, alpha)
    assert power == pytest.approx(theorems.power_bound(alpha=alpha, epsilon=epsilon, delta=delta), abs=1e-9)


@given(st.floats(0, 1), st.floats(0, 5), st.floats(0, 1))
def test_type_two_error_and_power_are_complements(alpha, epsilon, delta):
    power = theorems.power_bound(alpha=alpha, epsilon=epsilon, delta=delta)
    error = theorems.least_type_two_error(alpha=alpha, epsilon=epsilon, delta=delta)
    assert power + error == pytest.approx(1.0, abs=1e-9)


def test_huge_epsilon_is_full_power_without_overflow():
    assert theorems.power_bound(alpha=0.1, epsilon=5000.0) == 1.0
    assert theorems.least_type_two_error(alpha=0.1, epsilon=5000.0) == 0.0
