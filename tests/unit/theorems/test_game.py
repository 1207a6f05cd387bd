"""Algorithm 5 played out: adaptive composition theorems hold, forbidden filters do not."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from tallystick.errors import InvalidInput
from tallystick.theorems import FinitePair, play, worst_delta
from unit.theorems import brute


def finite(pair):
    return FinitePair(tuple(pair[0].tolist()), tuple(pair[1].tolist()))


@given(st.lists(brute.pairs(most=3), min_size=3, max_size=3), st.floats(0, 2))
def test_an_adversary_who_does_not_adapt_gets_the_product(pairs, epsilon):
    outcome = play(lambda view: finite(pairs[len(view)]), rounds=3)
    p, q = np.array([1.0]), np.array([1.0])
    for first, second in pairs:
        p, q = np.outer(p, first).ravel(), np.outer(q, second).ravel()
    exact = max(brute.hockey(p, q, epsilon), brute.hockey(q, p, epsilon))
    assert float(outcome.delta(ratio=math.exp(epsilon))) == pytest.approx(exact, abs=1e-12)


def test_views_are_probabilities_and_name_the_choices():
    coin, leak = FinitePair.randomized_response(ratio=Fraction(2)), FinitePair.leak(probability=Fraction(1, 10))
    outcome = play(lambda view: coin if not view else leak if view[-1] == 0 else None, rounds=2)
    assert sum(p for _, p, _ in outcome.views) == 1
    assert sum(q for _, _, q in outcome.views) == 1
    assert {view for view, _, _ in outcome.views} == {(0, 0), (0, 1), (0, 2), (1,)}


def strategies(choices, rounds, outputs):
    """Every deterministic adversary: a choice for each view."""
    views = [view for depth in range(rounds) for view in itertools.product(range(outputs), repeat=depth)]
    for picks in itertools.product(range(len(choices)), repeat=len(views)):
        yield dict(zip(views, picks, strict=True))


@given(st.lists(brute.pairs(least=2, most=2), min_size=2, max_size=3), st.sampled_from([1.0, 1.5, 3.0]))
def test_the_worst_adversary_is_the_worst_of_all_strategies(pairs, ratio):
    choices = [finite(pair) for pair in pairs]
    best = 0.0
    for strategy in strategies(choices, rounds=2, outputs=2):
        outcome = play(lambda view, strategy=strategy: choices[strategy[view]], rounds=2)
        best = max(best, float(outcome.delta(ratio=ratio)))
    assert float(worst_delta(choices, rounds=2, ratio=ratio)) == pytest.approx(best, abs=1e-12)


@given(st.lists(st.sampled_from([Fraction(5, 4), Fraction(2), Fraction(3)]), min_size=1, max_size=2), st.integers(1, 4))
def test_no_adaptive_adversary_beats_basic_advanced_or_optimal_composition(ratios, rounds):
    choices = [FinitePair.randomized_response(ratio=ratio) for ratio in ratios]
    epsilon = math.log(max(ratios))
    for total in (0.0, 0.7, 1.5):
        worst = float(worst_delta(choices, rounds=rounds, ratio=math.exp(total)))
        assert worst <= theorems.optimal_composition_delta(epsilon=epsilon, steps=rounds, total_epsilon=total) + 1e-12
    basic, _ = theorems.basic_composition(epsilons=[epsilon] * rounds)
    assert float(worst_delta(choices, rounds=rounds, ratio=math.exp(basic))) <= 1e-12
    advanced, slack = theorems.advanced_composition(epsilon=epsilon, steps=rounds, delta_slack=0.01)
    assert float(worst_delta(choices, rounds=rounds, ratio=math.exp(advanced))) <= slack


def test_a_sum_of_epsilons_is_a_valid_filter():
    ratios = [Fraction(5, 4), Fraction(6), Fraction(2)]
    choices = [FinitePair.randomized_response(ratio=ratio) for ratio in ratios]
    budget = Fraction(8)

    def within(spent, choice):
        total = ratios[choice]
        for number in spent:
            total *= ratios[number]
        return total <= budget

    assert worst_delta(choices, rounds=3, ratio=budget, admits=within) == 0
    assert worst_delta(choices, rounds=3, ratio=budget) > 0


def test_a_natural_filter_of_optimal_totals_overspends():
    # the two-round counter-example of the ledger's design: each branch alone fits the budget (log 7, 0.031746)
    first = FinitePair.randomized_response(ratio=Fraction(5, 4))
    second, leak = FinitePair.randomized_response(ratio=Fraction(6)), FinitePair.leak(probability=Fraction(2, 63))
    budget = Fraction(2, 63)
    for after in (second, leak):
        branch = play(lambda view, after=after: (first, after)[len(view)], rounds=2)
        assert branch.delta(ratio=Fraction(7)) <= budget
    adaptive = play(lambda view: first if not view else second if view == (0,) else leak, rounds=2)
    realised = float(adaptive.delta(ratio=Fraction(7)))
    assert realised == pytest.approx(0.045855, abs=5e-7)
    assert realised / float(budget) == pytest.approx(1.444, abs=1e-3)


def test_the_view_has_a_tradeoff_function():
    coin = FinitePair.randomized_response(ratio=Fraction(3))
    f = play(lambda view: coin, rounds=2).tradeoff()
    one = theorems.PiecewiseTradeoff.of_approx_dp(epsilon=math.log(3))
    grid = np.linspace(0, 1, 21)
    assert np.allclose(f(grid), theorems.tensor_product(one, one)(grid))
    assert play(lambda view: coin, rounds=1).total_variation() == Fraction(1, 2)
    assert coin.delta(ratio=Fraction(2)) == Fraction(1, 4)


@pytest.mark.parametrize("zero", [(0.5, 0.6), (1.5, -0.5), (), (float("nan"), 1.0)])
def test_masses_that_are_no_probabilities_are_refused(zero):
    with pytest.raises(InvalidInput):
        FinitePair(zero, (0.5, 0.5))
    with pytest.raises(InvalidInput):
        FinitePair.leak(probability=1.5)
    with pytest.raises(InvalidInput):
        FinitePair.randomized_response(ratio=0.5)
    with pytest.raises(InvalidInput):
        worst_delta([], rounds=1, ratio=2.0)
