"""Noise for k queries."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from unit.theorems import brute


@given(st.floats(0.1, 5), st.integers(1, 300), st.sampled_from([1e-9, 1e-6, 1e-2]))
def test_the_advanced_laplace_noise_meets_its_budget_exactly_counted(epsilon, queries, delta):
    variance = theorems.laplace_variance_advanced(epsilon=epsilon, delta=delta, queries=queries)
    step = math.sqrt(2 / variance)  # what a query of this variance costs
    assert brute.worst_pure_delta(step, min(queries, 300), epsilon) <= delta


def test_basic_noise_is_k_over_epsilon_per_query():
    assert theorems.laplace_variance_basic(epsilon=0.5, queries=10) == pytest.approx(2 * 20**2)


def test_advanced_wins_from_the_number_it_says_and_not_before():
    first = theorems.queries_where_advanced_wins(epsilon=1.0, delta=1e-6)
    for queries, wins in ((first - 1, False), (first, True), (10 * first, True)):
        advanced = theorems.laplace_variance_advanced(epsilon=1.0, delta=1e-6, queries=queries)
        assert (advanced < theorems.laplace_variance_basic(epsilon=1.0, queries=queries)) is wins


def test_the_best_slack_beats_both_options_of_the_notes():
    epsilon, delta, queries = 1.0, 1e-6, 50
    slack, variance = theorems.best_delta_slack(epsilon=epsilon, delta=delta, queries=queries)
    assert 0 < slack < delta
    for option in (delta / 2, delta / (queries + 1)):
        assert variance <= theorems.gaussian_variance_advanced(
            epsilon=epsilon, delta=delta, queries=queries, delta_slack=option
        )
    half, even = (
        theorems.gaussian_variance_advanced(epsilon=epsilon, delta=delta, queries=queries, delta_slack=option)
        for option in (delta / 2, delta / (queries + 1))
    )
    assert half < even  # "strictly worse than what we had before"


def test_exact_gaussian_composition_needs_far_less_than_either():
    tight = theorems.gaussian_variance_tight(epsilon=1.0, delta=1e-6, queries=100)
    _, advanced = theorems.best_delta_slack(epsilon=1.0, delta=1e-6, queries=100)
    assert tight < advanced / 10
    mu = math.sqrt(100 / tight)
    assert theorems.gdp_delta(mu=mu, epsilon=1.0) <= 1e-6 * (1 + 1e-9)


def test_a_slack_that_eats_the_whole_delta_leaves_no_finite_noise():
    assert theorems.gaussian_variance_advanced(epsilon=1.0, delta=1e-6, queries=5, delta_slack=1e-6) == math.inf


def test_error_of_a_mean_grows_faster_with_laplace():
    small = theorems.mean_release_error(dimension=100, records=1000, epsilon=1.0, delta=1e-6)
    large = theorems.mean_release_error(dimension=400, records=1000, epsilon=1.0, delta=1e-6)
    assert large[0] / small[0] == pytest.approx(8.0)
    assert large[1] / small[1] == pytest.approx(4.0)
