"""Errata 13, 19, 35, 49, 58 and 63 to 65: who the neighbours are, and what is released."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tallystick as ts
import tallystick.theorems as theorems
from tallystick.accounting.adjacency import Adjacency
from tallystick.audit.reconstruction import wrong_entries_polynomial
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


def test_erratum_63_data_sets_of_one_size_have_no_neighbours_by_adding_or_removing():
    everybody = ["a", "b", "c"]
    neighbours = [everybody[:i] + everybody[i + 1 :] for i in range(3)] + [[*everybody, "d"]]
    assert all(len(one) != len(everybody) for one in neighbours)  # as printed, M on X^n sees none of them
    assert theorems.replace_from_add_remove(epsilon=0.5)[0] == pytest.approx(1.0)  # through X^(n - 1)


def test_erratum_64_given_later_reports_the_definition_says_nothing():
    # the first person tells the truth, the second repeats it; given the second report the first one is certain
    joint = {bit: {(bit, bit): 1.0} for bit in (0, 1)}
    for later in (0, 1):
        given = [{z: mass for (z, last), mass in law.items() if last == later} for law in joint.values()]
        assert all(law in ({}, {later: 1.0}) for law in given)  # no ratio above one: private, as printed
    outcomes = [(0, 0), (1, 1)]
    p, q = ([law.get(outcome, 0.0) for outcome in outcomes] for law in joint.values())
    assert theorems.hockey_stick(p, q, epsilon=10.0) == 1.0  # and nothing is private


def test_erratum_65_misprints_that_a_reader_might_copy():
    eta = 0.1
    assert 0.5 + eta < 1  # "1/2 + eta questions": it is a fraction of them
    assert wrong_entries_polynomial(error=1.0, advantage=eta) == pytest.approx((2 / eta) ** 2)
    scores, draws = np.array([0.0, 5.0]), np.abs(np.random.default_rng(6).laplace(size=(2000, 2)))
    assert scores.max() == 5.0  # "E max f_i(X)" is a constant of the data; the proof bounds the noise, E max X_i
    assert 1.0 < draws.max(axis=1).mean() < 2.0
