"""The algebra of trade-off functions against every test of a finite pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from tallystick.errors import InvalidInput
from tallystick.theorems import PiecewiseTradeoff
from unit.theorems import brute

GRID = np.linspace(0, 1, 37)


@given(brute.pairs(most=4))
def test_neyman_pearson_is_the_best_of_all_randomised_tests(pair):
    f = PiecewiseTradeoff.of_pair(*pair)
    for alpha in (0.0, 0.03, 0.2, 0.5, 0.77, 1.0):
        assert float(f(alpha)) == pytest.approx(brute.type_two_by_tests(*pair, alpha), abs=1e-9)


@given(brute.pairs())
def test_pair_and_function_are_one_object(pair):
    f = PiecewiseTradeoff.of_pair(*pair)
    again = PiecewiseTradeoff.of_pair(*f.pair())
    assert np.max(np.abs(f(GRID) - again(GRID))) <= 1e-12


@given(brute.pairs())
def test_the_inverse_is_the_function_of_the_swapped_pair(pair):
    p, q = pair
    assert (
        np.max(np.abs(PiecewiseTradeoff.of_pair(p, q).inverse()(GRID) - PiecewiseTradeoff.of_pair(q, p)(GRID))) <= 1e-12
    )
    twice = PiecewiseTradeoff.of_pair(p, q).inverse().inverse()
    assert np.max(np.abs(twice(GRID) - PiecewiseTradeoff.of_pair(p, q)(GRID))) <= 1e-12


@given(brute.pairs(), brute.pairs())
def test_the_maximum_is_a_tradeoff_function_and_exact(first, second):
    f, g = PiecewiseTradeoff.of_pair(*first), PiecewiseTradeoff.of_pair(*second)
    both = theorems.pointwise_max(f, g)
    assert np.max(np.abs(both(GRID) - np.maximum(f(GRID), g(GRID)))) <= 1e-12


@given(brute.pairs())
def test_symmetrisation_is_symmetric_and_holds_for_symmetric_families(pair):
    p, q = pair
    f = PiecewiseTradeoff.of_pair(p, q)
    sym = theorems.symmetrised(f)
    assert np.max(np.abs(sym(GRID) - sym.inverse()(GRID))) <= 1e-9
    assert np.all(sym(GRID) >= f(GRID) - 1e-12)
    # a family that is f-DP in both orders is max(f, f^-1)-DP: randomized response at f's pure level
    losses = np.log(p[(p > 0) & (q > 0)] / q[(p > 0) & (q > 0)])
    if losses.size == p.size:
        rr = PiecewiseTradeoff.of_approx_dp(epsilon=float(np.min(np.abs(losses))))
        if np.all(rr(GRID) >= f(GRID) - 1e-15):
            assert np.all(rr(GRID) >= sym(GRID) - 1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_chained_bounds_the_ends_of_any_chain(seed, size):
    p, q, r = np.random.default_rng(seed).dirichlet(np.ones(size) * 0.5, size=3)
    f, g = PiecewiseTradeoff.of_pair(p, q), PiecewiseTradeoff.of_pair(q, r)
    assert np.all(PiecewiseTradeoff.of_pair(p, r)(GRID) >= theorems.chained(g, f)(GRID) - 1e-9)


@given(brute.pairs(), brute.pairs())
def test_chained_is_exactly_g_of_one_minus_f_and_its_inverse_swaps(first, second):
    f, g = PiecewiseTradeoff.of_pair(*first), PiecewiseTradeoff.of_pair(*second)
    chain = theorems.chained(g, f)
    assert np.max(np.abs(chain(GRID) - g(1 - f(GRID)))) <= 1e-9
    swapped = theorems.chained(f.inverse(), g.inverse())
    assert np.max(np.abs(chain.inverse()(GRID) - swapped(GRID))) <= 1e-9


@given(brute.pairs(most=3), brute.pairs(most=3))
def test_the_tensor_product_is_the_function_of_the_product_pair(first, second):
    f, g = PiecewiseTradeoff.of_pair(*first), PiecewiseTradeoff.of_pair(*second)
    p, q = np.outer(first[0], second[0]).ravel(), np.outer(first[1], second[1]).ravel()
    for alpha in (0.0, 0.1, 0.4, 0.8):
        exact = PiecewiseTradeoff.of_pair(p, q)(alpha)
        assert float(theorems.tensor_product(f, g)(alpha)) == pytest.approx(float(exact), abs=1e-9)
        assert float(theorems.tensor_product(g, f)(alpha)) == pytest.approx(float(exact), abs=1e-9)


@given(brute.pairs())
def test_the_identity_is_neutral_for_the_tensor_product(pair):
    f = PiecewiseTradeoff.of_pair(*pair)
    alone = theorems.tensor_product(f, PiecewiseTradeoff.identity())
    assert np.max(np.abs(alone(GRID) - f(GRID))) <= 1e-12


def test_the_approximate_function_is_the_maximum_of_its_three_lines():
    epsilon, delta = 0.7, 0.1
    f = PiecewiseTradeoff.of_approx_dp(epsilon=epsilon, delta=delta)
    lines = np.maximum.reduce(
        [np.zeros_like(GRID), 1 - delta - np.exp(epsilon) * GRID, np.exp(-epsilon) * (1 - delta - GRID)]
    )
    assert np.max(np.abs(f(GRID) - lines)) <= 1e-12


@pytest.mark.parametrize(
    ("alphas", "betas"),
    [
        ((0.0, 0.5, 1.0), (1.0, 0.9, 0.0)),  # above 1 - alpha
        ((0.0, 0.5, 1.0), (0.5, 0.6, 0.0)),  # increasing
        ((0.0, 0.3, 0.6, 1.0), (1.0, 0.5, 0.38, 0.0)),  # not convex
        ((0.0, 0.5), (1.0, 0.0)),  # does not reach 1
        ((0.0, 0.5, 1.0), (1.0, float("nan"), 0.0)),
    ],
)
def test_functions_that_are_no_tradeoff_functions_are_refused(alphas, betas):
    with pytest.raises(InvalidInput):
        PiecewiseTradeoff(alphas, betas)
