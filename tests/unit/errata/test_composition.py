"""Errata 17, 18, 51 and 52: the printed line and the printed calibration overspend."""

from __future__ import annotations

import math

import pytest

import tallystick.theorems as theorems
from unit.theorems.brute import worst_pure_delta


def printed_line(epsilon, steps, delta):
    """Composition notes (000), as typed: the 2 under the root is missing."""
    return steps * epsilon * (math.exp(epsilon) - 1) + epsilon * math.sqrt(steps * math.log(1 / delta))


def test_erratum_17_the_typed_line_of_advanced_composition_is_no_bound():
    epsilon, steps, delta = 0.1, 100, 1e-6
    assert worst_pure_delta(epsilon, steps, printed_line(epsilon, steps, delta)) > 1.03 * delta
    total, _ = theorems.advanced_composition(epsilon=epsilon, steps=steps, delta_slack=delta)
    assert worst_pure_delta(epsilon, steps, total) <= delta


def test_erratum_18_ignoring_the_first_term_overspends():
    # k queries with epsilon_0 = epsilon/sqrt(2k log(1/delta)), declared to cost epsilon in all
    steps, delta = 50, 1e-3
    total = math.sqrt(2 * steps * math.log(1 / delta))  # the declared epsilon of steps of size 1
    printed = total / math.sqrt(2 * steps * math.log(1 / delta))
    assert printed == pytest.approx(1.0)
    assert worst_pure_delta(printed, steps, total) > 250 * delta
    solved = theorems.step_epsilon(total_epsilon=total, steps=steps, delta_slack=delta)
    assert solved < printed
    assert worst_pure_delta(solved, steps, total) <= delta


def test_erratum_18_the_total_of_the_printed_calibration_is_what_the_erratum_says():
    epsilon, steps, delta = 2.0, 200, 1e-3
    step = epsilon / math.sqrt(2 * steps * math.log(1 / delta))
    total, _ = theorems.advanced_composition_quadratic(epsilon=step, steps=steps, delta_slack=delta)
    assert total == pytest.approx(epsilon + epsilon**2 / (4 * math.log(1 / delta)), rel=1e-9)
    assert total > epsilon


def test_erratum_51_randomized_response_pays_for_epsilon_and_not_for_its_root():
    people, epsilon = 10_000, 0.01
    exact = math.sqrt(theorems.randomized_response_variance(epsilon=epsilon, people=people, proportion=0.5))
    assert exact == pytest.approx(1.0, abs=0.001)
    assert 1 / math.sqrt(people * epsilon) == pytest.approx(0.1)  # the printed rate
    assert 1 / (epsilon * math.sqrt(people)) == pytest.approx(exact, rel=0.001)


def test_erratum_52_the_variance_of_many_queries_falls_by_k_and_not_by_its_root():
    queries, delta = 10**6, 1e-6
    basic = theorems.laplace_variance_basic(epsilon=1, queries=queries)
    ratio = basic / theorems.laplace_variance_advanced(epsilon=1, delta=delta, queries=queries)
    assert ratio > 30 * math.sqrt(queries)
    assert ratio == pytest.approx(queries / (2 * math.log(1 / delta)), rel=0.05)
