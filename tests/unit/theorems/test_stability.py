"""Total-variation stability against enumeration and quadrature."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from tallystick.errors import InvalidInput


@given(st.integers(1, 10**6), st.floats(1e-3, 10))
def test_the_gaussian_answer_is_never_below_the_exact_distance(samples, sigma):
    with mpmath.workdps(40):
        exact = mpmath.erf(1 / (2 * mpmath.mpf(samples) * mpmath.mpf(sigma) * mpmath.sqrt(2)))
        found = theorems.gaussian_answer_tv(samples=samples, sigma=sigma)
        assert exact <= found <= exact * (1 + mpmath.mpf("1e-10"))
    assert found <= 1 / (math.sqrt(2 * math.pi) * samples * sigma) * (1 + 1e-9) or found == 1.0


def test_many_answers_compose_like_gaussians_and_stay_under_the_sum():
    found = theorems.gaussian_answers_tv(samples=1000, sigma=0.05, queries=100)
    assert found == pytest.approx(theorems.normal_tv(mu=math.sqrt(100) / (1000 * 0.05)), rel=1e-9)
    assert found <= theorems.gaussian_answers_tv_printed(samples=1000, sigma=0.05, queries=100)


@given(st.floats(0.001, 1.0), st.integers(1, 10))
def test_pure_answers_by_enumeration_of_all_transcripts(epsilon, queries):
    p = np.array([1.0])
    q = np.array([1.0])
    one = 1 / (1 + math.exp(-epsilon))
    for _ in range(queries):
        p, q = np.outer(p, [one, 1 - one]).ravel(), np.outer(q, [1 - one, one]).ravel()
    exact = float(np.abs(p - q).sum() / 2)
    assert theorems.pure_answers_tv(epsilon=epsilon, queries=queries) == pytest.approx(exact, rel=1e-9)
    through = theorems.pure_answers_tv_advanced(epsilon=epsilon, queries=queries, delta_slack=0.01)
    assert exact <= through


def test_the_linear_bound_holds_up_to_one_and_is_refused_beyond():
    for x in np.linspace(0, 1, 101):
        assert (math.exp(x) - 1) / 2 <= theorems.small_epsilon_tv(epsilon=float(x)) + 1e-15
    with pytest.raises(InvalidInput):
        theorems.small_epsilon_tv(epsilon=1.1)


def test_generalization_is_mcdiarmid_with_the_differences_of_a_stable_analysis():
    distance, samples, failure = 0.001, 10_000, 0.05
    found = theorems.generalization_error(distance=distance, samples=samples, failure=failure)
    difference = 2 * distance + 1 / samples
    deviation = found - distance
    # McDiarmid: P[|f - E f| > t] <= 2 exp(-2 t^2 / (m c^2))
    assert 2 * math.exp(-2 * deviation**2 / (samples * difference**2)) == pytest.approx(failure, rel=1e-9)


def test_the_composed_generalization_bound_is_the_two_facts_together():
    distance = theorems.gaussian_answers_tv(samples=10_000, sigma=0.5, queries=10)
    both = theorems.gaussian_answers_generalization(samples=10_000, sigma=0.5, queries=10, failure=0.05)
    assert both == theorems.generalization_error(distance=distance, samples=10_000, failure=0.05)
