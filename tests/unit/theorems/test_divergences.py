"""Every divergence from the trade-off function, against the pair itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from tallystick.theorems import PiecewiseTradeoff
from unit.theorems import brute


@given(brute.pairs())
def test_total_variation_is_half_the_l1_distance(pair):
    p, q = pair
    tv = float(np.abs(p - q).sum() / 2)
    found = theorems.tradeoff_to_tv(PiecewiseTradeoff.of_pair(p, q))
    assert tv - 1e-15 <= found <= tv * (1 + 1e-9) + 1e-14


@given(brute.pairs(), st.sampled_from([1.0, 1.5, 3.0, math.inf]))
def test_renyi_from_the_function_is_renyi_of_the_pair(pair, order):
    p, q = pair
    direct = theorems.renyi_divergence(p, q, order=order)
    found = theorems.tradeoff_to_renyi(PiecewiseTradeoff.of_pair(p, q), order=order)
    assert found == pytest.approx(direct, rel=1e-6, abs=1e-7) or math.isinf(direct) == math.isinf(found) is True


@given(brute.pairs())
def test_any_f_divergence_is_read_off_the_function(pair):
    p, q = pair
    f = PiecewiseTradeoff.of_pair(p, q)
    hellinger = float(np.sum((np.sqrt(p) - np.sqrt(q)) ** 2))
    found = theorems.tradeoff_to_f_divergence(f, lambda t: (math.sqrt(t) - 1) ** 2, at_zero=1.0, slope_at_infinity=1.0)
    assert found == pytest.approx(hellinger, abs=1e-9)
    chi = math.inf if np.any((q == 0) & (p > 0)) else float(np.sum((p[q > 0] - q[q > 0]) ** 2 / q[q > 0]))
    found = theorems.tradeoff_to_f_divergence(f, lambda t: (t - 1) ** 2, at_zero=1.0, slope_at_infinity=math.inf)
    assert found == pytest.approx(chi, rel=1e-6, abs=1e-9)


def test_kl_of_the_pure_corner_is_epsilon_tanh():
    for epsilon in (0.1, 1.0, 4.0):
        f = PiecewiseTradeoff.of_approx_dp(epsilon=epsilon)
        assert theorems.tradeoff_to_kl(f) == pytest.approx(epsilon * math.tanh(epsilon / 2), rel=1e-9)


def test_a_function_that_reaches_zero_early_has_infinite_renyi_divergence():
    f = PiecewiseTradeoff.of_approx_dp(epsilon=1.0, delta=0.1)
    assert theorems.tradeoff_to_renyi(f, order=2.0) == math.inf
    assert theorems.tradeoff_to_kl(f) == math.inf
