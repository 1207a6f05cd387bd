"""Group privacy and the way from add/remove to replace."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from tallystick.theorems import PiecewiseTradeoff
from unit.theorems import brute

GRID = np.linspace(0, 1, 41)


def chain_of_worst_pairs(epsilon, delta, size, total):
    """delta(total) between the ends of the worst chain, by linear programming's answer: push every inequality."""
    # P_0(S) <= e^eps P_1(S) + delta <= ... : the largest possible P_0(S) - e^total P_k(S), P_k(S) = x
    best = 0.0
    for x in np.linspace(0, 1, 2001):
        mass = x
        for _ in range(size):
            mass = min(1.0, math.exp(epsilon) * mass + delta)
        best = max(best, mass - math.exp(total) * x)
    return best


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (1.0, 1e-2), (0.0, 0.01)])
def test_group_delta_is_what_the_chain_of_inequalities_gives(epsilon, delta, size):
    total, found = theorems.group_approx(epsilon=epsilon, delta=delta, size=size)
    assert found == pytest.approx(min(1.0, chain_of_worst_pairs(epsilon, delta, size, size * epsilon)), rel=1e-9)
    assert total == pytest.approx(size * epsilon, rel=1e-9)
    assert found <= theorems.group_approx_printed(epsilon=epsilon, delta=delta, size=size)[1] * (1 + 1e-9)


def test_group_of_pure_is_k_epsilon_and_attained_by_a_geometric_chain():
    epsilon, size = 0.4, 3
    masses = np.exp(-epsilon * np.abs(np.arange(40)))
    worst = abs(math.log(masses[0] / masses[size]))
    assert theorems.group_pure(epsilon=epsilon, size=size) == pytest.approx(worst)


def test_gaussian_groups_shift_by_k_mu():
    for alpha in (0.01, 0.2, 0.6):
        chain = alpha
        for _ in range(3):
            chain = 1 - theorems.gaussian_tradeoff(mu=0.7, alpha=chain)
        direct = theorems.gaussian_tradeoff(mu=theorems.group_gdp(mu=0.7, size=3), alpha=alpha)
        assert 1 - chain == pytest.approx(direct, rel=1e-8)


@pytest.mark.parametrize("size", [2, 4])
def test_concentrated_groups_grow_with_the_square(size):
    # Gaussians a distance k apart have k^2 times the Renyi divergence
    rho = theorems.gdp_to_zcdp(mu=0.3)
    assert theorems.group_zcdp(rho=rho, size=size) == pytest.approx(theorems.gdp_to_zcdp(mu=0.3 * size), rel=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_group_tradeoff_is_below_the_ends_of_every_chain_of_three(seed, size):
    rng = np.random.default_rng(seed)
    first, middle, last = rng.dirichlet(np.ones(size) * 0.7, size=3)
    steps = [(first, middle), (middle, first), (middle, last), (last, middle)]
    f = PiecewiseTradeoff.of_pair(*steps[0])
    for step in steps[1:]:
        f = theorems.hull_of_min(f, PiecewiseTradeoff.of_pair(*step))
    grouped = theorems.group_tradeoff(f, size=2)
    for ends in ((first, last), (last, first)):
        assert np.all(PiecewiseTradeoff.of_pair(*ends)(GRID) >= grouped(GRID) - 1e-9)


def test_mixed_groups_need_both_directions():
    # one direction's f claims too much for a group that adds one record and removes another
    f = PiecewiseTradeoff.of_pair([1.0, 0.0], [0.9, 0.1])
    one_way = theorems.chained(f, f)
    both = theorems.group_tradeoff(f, size=2)
    truth = theorems.chained(f.inverse(), f)
    assert np.any(truth(GRID) < one_way(GRID) - 1e-6)
    assert np.all(both(GRID) <= truth(GRID) + 1e-12)


@given(st.floats(0, 2), st.sampled_from([0.0, 1e-6, 0.05]))
def test_replace_is_two_steps(epsilon, delta):
    total, found = theorems.replace_from_add_remove(epsilon=epsilon, delta=delta)
    assert total == pytest.approx(2 * epsilon, rel=1e-9)
    assert found == pytest.approx(min(1.0, (1 + math.exp(epsilon)) * delta), rel=1e-9)


def test_replace_tradeoff_of_gaussians_doubles_mu():
    grid = np.linspace(0, 1, 5_001)
    knots = np.array([theorems.gaussian_tradeoff(mu=0.7, alpha=a) for a in grid])
    f = theorems.lower_hull(grid, knots)
    for alpha in (0.01, 0.2, 0.6):
        assert float(theorems.replace_tradeoff(f, f)(alpha)) == pytest.approx(
            theorems.gaussian_tradeoff(mu=1.4, alpha=alpha), abs=2e-6
        )


@given(brute.pairs(most=3), brute.pairs(most=3))
def test_replace_tradeoff_bounds_any_pair_that_meets_in_the_middle(first, second):
    # with -> without -> with', and with -> both -> with': every removal is f_REM, every addition f_ADD
    size = min(len(first[0]), len(second[0]))
    laws = [law[:size] for law in (*first, *second)]
    if min(law.sum() for law in laws) == 0:
        return
    present, absent, other, both = (law / law.sum() for law in laws)
    remove = theorems.hull_of_min(PiecewiseTradeoff.of_pair(present, absent), PiecewiseTradeoff.of_pair(both, other))
    add = theorems.hull_of_min(PiecewiseTradeoff.of_pair(absent, other), PiecewiseTradeoff.of_pair(present, both))
    bound = theorems.replace_tradeoff(remove, add)
    truth = PiecewiseTradeoff.of_pair(present, other)
    assert np.all(truth(GRID) >= bound(GRID) - 1e-9)
