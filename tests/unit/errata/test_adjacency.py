"""Errata 13, 19, 35 and 49: who the neighbours are, and what is released."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tallystick as ts
import tallystick.theorems as theorems
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput, Refused


def test_erratum_19_swapping_the_names_halves_the_noise():
    # a clamped sum on [-1, 1]: replacing moves it by 2, adding or removing by 1
    values = np.linspace(-1, 1, 21)
    replace = max(abs(a - b) for a, b in itertools.product(values, repeat=2))
    add = max(abs(a) for a in values)
    assert (replace, add) == (2.0, 1.0)
    assert theorems.clamped_sum_sensitivity(lower=-1, upper=1, adjacency=Adjacency.REPLACE) >= replace
    assert theorems.clamped_sum_sensitivity(lower=-1, upper=1, adjacency=Adjacency.ADD_REMOVE) >= add
    # noise for "bounded = add/delete" claims epsilon where replacing costs 2 epsilon
    epsilon = 0.5
    printed_scale = add / epsilon
    assert replace / printed_scale == pytest.approx(2 * epsilon)
    assert theorems.replace_from_add_remove(epsilon=epsilon)[0] >= 2 * epsilon


def test_erratum_19_adjacency_is_never_implicit_in_the_accountant():
    loss = ts.pure_dp(epsilon=0.5)
    assert loss.adjacency is Adjacency.ADD_REMOVE
    assert loss.as_replace().epsilon(delta=0) == pytest.approx(2 * loss.epsilon(delta=0))
    with pytest.raises(InvalidInput):
        loss + ts.randomized_response(epsilon=1)


def test_erratum_35_the_printed_regression_budget_leaves_a_sum_out():
    covariates, epsilon = 3, 1.0
    printed = 3 * covariates + covariates * (covariates - 1) // 2
    needed = theorems.regression_statistics(covariates=covariates)
    # every sum changes by up to 1, so noise printed/epsilon on each of `needed` sums costs more than epsilon
    assert needed * epsilon / printed > epsilon
    scale = theorems.laplace_scale(epsilon=epsilon, sensitivity=needed)
    assert needed / scale <= epsilon


def test_erratum_58_without_an_intercept_the_sums_of_x_are_not_needed():
    # the normal equations of p columns without a constant one: p(p + 1)/2 different entries of X'X and p of X'y
    p = 3
    needed = p * (p + 1) // 2 + p
    assert theorems.regression_statistics(covariates=p, intercept=False) == needed == 9  # the notes' list has 12


def test_erratum_49_a_split_that_looks_at_the_whole_table_breaks_parallel_composition():
    # release the size of the lower half, split at the rounded mean: one new record moves several others
    def lower_half(records):
        return sum(r < round(sum(records) / max(1, len(records))) for r in records)

    epsilon, worst = 0.5, 0
    for records in itertools.combinations_with_replacement(range(6), 5):
        for extra in range(0, 60, 10):
            worst = max(worst, abs(lower_half([*records, extra]) - lower_half(list(records))))
    # Laplace noise of scale 1/epsilon on each part, said to be epsilon-DP in all
    assert worst * epsilon > 3 * epsilon
    with pytest.raises(Refused):
        theorems.parallel_composition(epsilons=[epsilon, epsilon], split_by_record=False)
