"""Parallel composition: true record by record under add/remove, false otherwise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tallystick.theorems as theorems
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput, Refused
from tallystick.theorems import PiecewiseTradeoff


def geometric(centre, epsilon, support):
    masses = np.exp(-epsilon * np.abs(np.arange(-support, support + 1) - centre))
    return masses / masses.sum()


def noisy_count_law(count, epsilon, support=60):
    """Two-sided geometric noise on a count, cut so far out that the cut does not show."""
    return geometric(count, epsilon, support)


def joint(counts, epsilons):
    law = np.array([1.0])
    for count, epsilon in zip(counts, epsilons, strict=True):
        law = np.outer(law, noisy_count_law(count, epsilon)).ravel()
    return law


def test_disjoint_counts_cost_the_worst_part():
    epsilons = [0.3, 0.8]
    bound, _ = theorems.parallel_composition(epsilons=epsilons, split_by_record=True)
    base = (4, 7)
    for part in range(2):
        neighbour = tuple(count + (index == part) for index, count in enumerate(base))
        ratio = np.abs(np.log(joint(base, epsilons)) - np.log(joint(neighbour, epsilons)))
        # the cut at +-60 bends the ratio by e^-18 at most
        assert ratio.max() <= bound + 1e-7


def test_sizes_of_parts_are_no_secret_under_replace():
    # Remark 4.3: releasing n is 0-DP when n is fixed; releasing the size of each part tells who moved
    def sizes(records):
        return (sum(r == "a" for r in records), sum(r == "b" for r in records))

    before, after = sizes(["a", "a", "b"]), sizes(["a", "b", "b"])
    assert before != after  # deterministic and different: delta = 1 at every epsilon, where parallel would claim 0
    assert sum(before) == sum(after)
    with pytest.raises(Refused, match="replace"):
        theorems.parallel_composition(epsilons=[0.0, 0.0], adjacency=Adjacency.REPLACE, split_by_record=True)


def test_a_median_split_moves_other_records():
    # erratum 49: every part's noisy sum is epsilon-DP, but adding one record shifts the median and swaps parts
    def parts(records):
        middle = sorted(records)[len(records) // 2]
        return [r for r in records if r < middle], [r for r in records if r >= middle]

    epsilon, worst = 0.5, 0.0
    values = [0, 1, 2, 3]
    for records in itertools.combinations_with_replacement(values, 4):
        for extra in values:
            low, high = parts(list(records))
            low_after, high_after = parts([*records, extra])
            # Laplace noise of scale 1/epsilon on the size of each part: the worst log-ratio is epsilon times the moves
            moves = abs(len(low) - len(low_after)) + abs(len(high) - len(high_after))
            worst = max(worst, epsilon * moves)
    claimed, _ = theorems.parallel_composition(epsilons=[epsilon, epsilon], split_by_record=True)
    assert worst > claimed * 1.5
    with pytest.raises(Refused, match="median"):
        theorems.parallel_composition(epsilons=[epsilon, epsilon], split_by_record=False)


def test_the_tradeoff_version_is_below_every_part_and_convex():
    f = PiecewiseTradeoff.of_approx_dp(epsilon=1.0)
    g = PiecewiseTradeoff.of_approx_dp(epsilon=0.0, delta=0.3)
    hull = theorems.parallel_tradeoff([f, g])
    grid = np.linspace(0, 1, 1001)
    assert np.all(hull(grid) <= np.minimum(f(grid), g(grid)) + 1e-12)
    assert np.all(np.diff(hull(grid), 2) >= -1e-12)
    # and it is the largest such function: at every corner of the hull one of the two touches it
    assert np.allclose(hull(np.array(hull.alphas)), np.minimum(f(np.array(hull.alphas)), g(np.array(hull.alphas))))


def test_an_empty_list_of_parts_is_refused():
    with pytest.raises(InvalidInput):
        theorems.parallel_tradeoff([])
    with pytest.raises(InvalidInput):
        theorems.parallel_composition(epsilons=[], split_by_record=True)
    assert math.isfinite(theorems.parallel_composition(epsilons=[0.0], split_by_record=True)[0])
