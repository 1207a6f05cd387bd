"""Composition of (epsilon, delta), Renyi, concentrated, Gaussian and TV steps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from unit.theorems import brute

STEPS = [(100, 0.1, 1e-6), (50, 1.0, 1e-3), (400, 0.5, 1e-2), (10, 1.0, 0.3), (2, 0.1, 0.5), (20, 2.0, 0.5)]


@pytest.mark.parametrize(("steps", "epsilon", "slack"), STEPS)
@pytest.mark.parametrize("form", [theorems.advanced_composition, theorems.advanced_composition_quadratic])
def test_both_forms_of_advanced_composition_hold_for_the_worst_pure_mechanism(steps, epsilon, slack, form):
    total, delta = form(epsilon=epsilon, steps=steps, delta_slack=slack)
    assert brute.worst_pure_delta(epsilon, steps, total) <= slack
    assert slack <= delta <= slack * (1 + 1e-9)


@pytest.mark.parametrize(("steps", "epsilon", "slack"), STEPS)
def test_the_tight_mean_form_holds_and_is_the_smallest(steps, epsilon, slack):
    total, _ = theorems.advanced_composition_tight_mean(epsilons=[epsilon] * steps, delta_slack=slack)
    quadratic, _ = theorems.advanced_composition_quadratic(epsilon=epsilon, steps=steps, delta_slack=slack)
    printed, _ = theorems.advanced_composition(epsilon=epsilon, steps=steps, delta_slack=slack)
    assert brute.worst_pure_delta(epsilon, steps, total) <= slack
    assert total <= quadratic <= printed


def test_the_tight_mean_form_holds_for_unlike_steps_by_enumeration():
    epsilons, slack = [0.3, 0.9, 1.4, 0.1, 0.7, 1.1, 0.2, 0.5], 0.05
    total, _ = theorems.advanced_composition_tight_mean(epsilons=epsilons, delta_slack=slack)
    p, q = np.array([1.0]), np.array([1.0])
    for epsilon in epsilons:
        one = 1 / (1 + math.exp(-epsilon))
        p, q = np.outer(p, [one, 1 - one]).ravel(), np.outer(q, [1 - one, one]).ravel()
    assert brute.hockey(p, q, total) <= slack


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.01), (1.0, 0.001)])
def test_advanced_composition_of_approximate_steps_holds_for_the_worst_approximate_pair(epsilon, delta):
    steps, slack = 6, 0.05
    one = (1 - delta) / (1 + math.exp(-epsilon))
    p, q = np.array([delta, one, 1 - delta - one, 0.0]), np.array([0.0, 1 - delta - one, one, delta])
    total, total_delta = theorems.advanced_composition(epsilon=epsilon, delta=delta, steps=steps, delta_slack=slack)
    assert brute.hockey(*brute.product(p, q, steps), total) <= total_delta


@given(st.lists(st.floats(0, 5), min_size=1, max_size=6), st.lists(st.floats(0, 0.1), max_size=6))
def test_basic_composition_is_the_sum_rounded_up(epsilons, deltas):
    epsilon, delta = theorems.basic_composition(epsilons=epsilons, deltas=deltas)
    assert math.fsum(epsilons) <= epsilon <= math.fsum(epsilons) * (1 + 1e-11)
    assert math.fsum(deltas) <= delta


@pytest.mark.parametrize(
    ("total", "steps", "slack"), [(1.0, 100, 1e-6), (0.5, 10, 1e-3), (5.0, 20, 1e-5), (0.9, 3, 0.9)]
)
def test_the_step_size_spends_no_more_than_the_total(total, steps, slack):
    step = theorems.step_epsilon(total_epsilon=total, steps=steps, delta_slack=slack)
    spent, _ = theorems.advanced_composition_tight_mean(epsilons=[step] * steps, delta_slack=slack)
    assert total * (1 - 1e-9) <= spent <= total * (1 + 2e-12)
    assert brute.worst_pure_delta(step, steps, total) <= slack


@pytest.mark.parametrize(("total", "steps", "slack"), [(0.5, 100, 1e-6), (0.99, 10, 1e-3), (0.99, 5, 0.95)])
def test_the_printed_step_size_is_safe_and_smaller(total, steps, slack):
    printed = theorems.step_epsilon_printed(total_epsilon=total, steps=steps, delta_slack=slack)
    assert brute.worst_pure_delta(printed, steps, total) <= slack
    assert printed <= theorems.step_epsilon(total_epsilon=total, steps=steps, delta_slack=slack)


@given(st.lists(brute.pairs(most=3), min_size=1, max_size=4))
def test_tv_composition_bounds_the_distance_of_products_and_is_at_most_the_sum(steps):
    distances = [float(np.abs(p - q).sum() / 2) for p, q in steps]
    p, q = np.array([1.0]), np.array([1.0])
    for first, second in steps:
        p, q = np.outer(p, first).ravel(), np.outer(q, second).ravel()
    found = theorems.tv_composition(distances=[min(1.0, d) for d in distances])
    assert np.abs(p - q).sum() / 2 <= found + 1e-12
    assert found <= min(1.0, sum(distances)) * (1 + 1e-9) + 1e-12


def test_tv_composition_is_attained_by_leaks():
    leaks = [0.1, 0.25, 0.5]
    p, q = np.array([1.0]), np.array([1.0])
    for leak in leaks:
        p = np.outer(p, [leak, 0.0, 1 - leak]).ravel()
        q = np.outer(q, [0.0, leak, 1 - leak]).ravel()
    assert theorems.tv_composition(distances=leaks) == pytest.approx(np.abs(p - q).sum() / 2, rel=1e-11)


@given(brute.pairs(zeros=False, most=3), brute.pairs(zeros=False, most=3), st.sampled_from([1.5, 2.0, 7.0]))
def test_renyi_epsilons_add_for_products(first, second, order):
    def renyi(p, q):
        return math.log(float(np.sum(p**order * q ** (1 - order)))) / (order - 1)

    p, q = np.outer(first[0], second[0]).ravel(), np.outer(first[1], second[1]).ravel()
    parts = [max(0.0, renyi(*first)), max(0.0, renyi(*second))]
    assert renyi(p, q) <= theorems.rdp_composition(epsilons=parts) + 1e-12


def test_gaussian_composition_is_pythagoras_by_quadrature_of_the_joint_test():
    # the best test of N(0,I) against N(m,I) looks at the projection on m: its mean shift is |m|
    mus = [0.3, 0.4, 1.2]
    assert theorems.gdp_composition(mus=mus) == pytest.approx(1.3, rel=1e-11)
    assert theorems.gdp_composition(mus=mus) >= 1.3


def test_concentrated_privacy_adds():
    assert theorems.zcdp_composition(rhos=[0.5, 0.25]) == pytest.approx(0.75, rel=1e-11)


def test_azuma_is_above_the_exact_tail_of_randomized_response():
    epsilon, steps = 0.1, 100
    mean = epsilon * math.tanh(epsilon / 2)
    p = 1 / (1 + math.exp(-epsilon))
    for threshold in (1.0, 2.0, 3.0, 5.0):
        exact = sum(
            math.comb(steps, i) * p**i * (1 - p) ** (steps - i)
            for i in range(steps + 1)
            if (2 * i - steps) * epsilon > threshold
        )
        found = theorems.azuma_tail(steps=steps, bound=epsilon, mean=mean, threshold=threshold)
        assert exact <= found <= 1
    assert theorems.azuma_tail(steps=steps, bound=epsilon, mean=mean, threshold=steps * epsilon + 1) == 0.0
