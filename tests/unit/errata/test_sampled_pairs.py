"""Errata 2, 3, 4 and 34: which pairs dominate a sampled mechanism."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tallystick as ts
import tallystick.theorems as theorems
from tallystick.theorems import PiecewiseTradeoff
from unit.theorems.brute import hockey


def test_erratum_2_the_printed_remove_pair_claims_perfect_privacy():
    without, present, rate = np.array([1.0, 0.0]), np.array([0.5, 0.5]), 0.1
    # Theorem 14.3(1): "(P, Q) dominates add" has P = without, Q = present; printed remove pair ((1-g)Q + gP, Q)
    printed = ((1 - rate) * present + rate * without, present)
    truth = hockey((1 - rate) * without + rate * present, without, 0.5)
    assert truth == pytest.approx(0.05)
    assert hockey(*printed, 0.5) < truth / 100
    remove, _ = theorems.poisson_pairs(without, present, rate=rate)
    assert theorems.hockey_stick(*remove, epsilon=0.5) >= truth


def test_erratum_2_holds_in_the_accountant_for_an_asymmetric_pair():
    # the core's sampling, read on the same pair: REMOVE is (with, without)
    loss = ts.discrete_pair([0.5, 0.5], [1.0, 0.0]).sampled(rate=0.1)
    assert loss.delta(epsilon=0.5) >= 0.05 * (1 - 1e-9)


def test_erratum_3_the_printed_gaussian_remove_pair_loses_the_amplification():
    grid = np.linspace(-12, 13, 200_001)
    step = grid[1] - grid[0]
    without = np.exp(-(grid**2) / 2) * step / math.sqrt(2 * math.pi)
    present = np.exp(-((grid - 1) ** 2) / 2) * step / math.sqrt(2 * math.pi)
    mix = 0.99 * without + 0.01 * present
    assert hockey(mix, present, 1.0) == pytest.approx(0.1245, abs=5e-4)  # printed ((1-g)P + gQ, Q)
    right = hockey(mix, without, 1.0)
    assert right < 1e-8
    assert ts.gaussian(sigma=1).sampled(rate=0.01).delta(epsilon=1.0) == pytest.approx(right, rel=1e-3)


def composed_two(first, second, ratio):
    return float(np.maximum(np.outer(first[0], second[0]) - ratio * np.outer(first[1], second[1]), 0).sum())


def test_erratum_4_the_maximum_after_composition_misses_alternating_neighbours_under_replace():
    # under replace the record's place may be heavier in one step and lighter in the next
    without, present, rate = np.array([0.8, 0.2]), np.array([0.2, 0.8]), 0.3
    mix = (1 - rate) * without + rate * present
    remove, add = (mix, without), (without, mix)
    exceeded = False
    for epsilon in np.linspace(0.0, 1.0, 51):
        ratio = math.exp(epsilon)
        printed = max(composed_two(remove, remove, ratio), composed_two(add, add, ratio))
        alternating = composed_two(remove, add, ratio)
        exceeded |= alternating > printed * (1 + 1e-6)
        # the per-step hull C_q(f), composed, is above all three
        f = theorems.subsampling_operator(PiecewiseTradeoff.of_pair(without, present), rate=rate)
        twice = theorems.profile_of_tradeoff(theorems.tensor_product(f, f)).delta(epsilon=epsilon)
        assert twice >= max(printed, alternating) - 1e-12
    assert exceeded


def test_erratum_4_the_accountant_composes_the_hull_under_replace():
    # W9 of the design: the truth is at least 13.361; the maximum after composition would stay far below
    loss = ts.gaussian(sigma=1, adjacency="replace").subset(batch=10, population=100)
    one = loss.delta(epsilon=1.0)
    hull = theorems.subsampling_operator(_gaussian_function(1.0), rate=0.1)
    assert one >= theorems.profile_of_tradeoff(hull).delta(epsilon=1.0) * (1 - 1e-3)


def _gaussian_function(mu):
    grid = np.concatenate([[0.0], np.geomspace(1e-9, 0.5, 4000), 1 - np.geomspace(0.5, 1e-9, 4000)[1:], [1.0]])
    return theorems.lower_hull(grid, np.array([theorems.gaussian_tradeoff(mu=mu, alpha=a) for a in grid]))


def test_erratum_34_the_rate_counts_the_larger_data_set():
    # subset sampling m = 1 of {x_1..x_n}: the record that may be absent is picked with probability 1/n, n counting it
    def law(records):
        return sum(np.array([1.0, 0.0]) if r == 0 else np.array([0.5, 0.5]) for r in records) / len(records)

    larger, smaller = [0, 0, 0, 1], [0, 0, 0]
    remove, _ = theorems.subset_pairs([1.0, 0.0], [0.5, 0.5], batch=1, larger_population=len(larger))
    for epsilon, (p, q) in itertools.product((0.0, 0.1), [(law(larger), law(smaller))]):
        assert hockey(p, q, epsilon) <= theorems.hockey_stick(*remove, epsilon=epsilon)
        assert hockey(p, q, epsilon) == pytest.approx(hockey(*remove, epsilon))
