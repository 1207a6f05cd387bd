"""The privacy loss variable: hockey stick, tails, cdfs, characteristic functions."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

import tallystick.theorems as theorems
from tallystick.errors import InvalidInput
from tallystick.theorems import DiscreteLoss, PiecewiseTradeoff
from tallystick.theorems.normal import cdf, quantile
from unit.theorems import brute


@given(brute.pairs(most=5), st.floats(-3, 3))
def test_hockey_stick_is_the_best_event_and_never_below_it(pair, epsilon):
    exact = brute.delta_by_events(*pair, math.exp(epsilon))
    found = theorems.hockey_stick(*pair, epsilon=epsilon)
    assert exact - 1e-16 <= found <= exact + 1e-11


def test_hockey_stick_at_zero_is_total_variation():
    p, q = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.1, 0.3])
    assert theorems.hockey_stick(p, q, epsilon=0.0) == pytest.approx(np.abs(p - q).sum() / 2)


def test_mass_where_the_other_has_none_counts_in_full():
    assert theorems.hockey_stick([0.5, 0.5], [1.0, 0.0], epsilon=30.0) == pytest.approx(0.5)


@given(brute.pairs(), st.floats(-3, 3))
def test_three_formulas_for_delta_agree(pair, epsilon):
    p, q = pair
    by_events = brute.hockey(p, q, epsilon)
    by_conjugate = theorems.profile_of_tradeoff(PiecewiseTradeoff.of_pair(q, p)).delta(epsilon=epsilon)
    loss, back = DiscreteLoss.of_pair(p, q), DiscreteLoss.of_pair(q, p)
    by_cdfs = theorems.delta_of_loss_cdfs(loss.cdf, back.cdf_left, epsilon=epsilon)
    assert by_conjugate == pytest.approx(by_events, abs=1e-9)
    # an atom exactly at epsilon may fall on either side of a rounded comparison, and then contributes nothing anyway
    assert by_cdfs == pytest.approx(by_events, abs=1e-9)


def test_the_left_limit_matters_where_there_is_an_atom():
    loss = DiscreteLoss.of_pair([0.75, 0.25], [0.25, 0.75])
    back = DiscreteLoss.of_pair([0.25, 0.75], [0.75, 0.25])
    epsilon = loss.losses[1]  # the atom itself
    right = 1 - loss.cdf(epsilon) - math.exp(epsilon) * back.cdf_left(-epsilon)
    wrong = 1 - loss.cdf(epsilon) - math.exp(epsilon) * back.cdf(-epsilon)
    assert right == pytest.approx(0.0, abs=1e-12)
    assert wrong < -0.5


@given(brute.pairs(zeros=False), st.floats(-3, 3))
def test_the_reversed_loss_is_that_of_the_swapped_pair(pair, x):
    p, q = pair
    found = DiscreteLoss.of_pair(p, q).reversed_cdf(x)
    direct = float(q[np.log(q / p) <= x].sum())
    near = float(q[np.abs(np.log(q / p) - x) < 1e-9].sum())
    assert abs(found - direct) <= near + 1e-9


@given(brute.pairs(), st.floats(-3, 3))
def test_the_loss_cdf_is_read_off_the_tradeoff_function(pair, x):
    p, q = pair
    found = theorems.loss_cdf_of_tradeoff(PiecewiseTradeoff.of_pair(p, q), x=x)
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(p / q)
    direct = float(p[(p > 0) & (losses <= x)].sum())
    near = float(p[(p > 0) & (np.abs(losses - x) < 1e-9)].sum())
    assert abs(found - direct) <= near + 1e-9


def test_a_symmetric_function_has_one_loss_law_and_an_asymmetric_one_two():
    assert DiscreteLoss.of_pair([0.75, 0.25], [0.25, 0.75]) == DiscreteLoss.of_pair([0.25, 0.75], [0.75, 0.25])
    assert DiscreteLoss.of_pair([0.9, 0.1], [0.5, 0.5]) != DiscreteLoss.of_pair([0.5, 0.5], [0.9, 0.1])


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3, 0.7])
def test_the_tradeoff_function_from_gaussian_loss_cdfs(alpha):
    mu = 1.3
    found = theorems.tradeoff_of_loss_cdfs(
        lambda a: mu * mu / 2 + mu * quantile(a), lambda x: cdf((x - mu * mu / 2) / mu), alpha=alpha
    )
    assert found == pytest.approx(theorems.gaussian_tradeoff(mu=mu, alpha=alpha), rel=1e-8)


@given(brute.pairs(), brute.pairs(most=3), st.floats(-3, 3))
def test_characteristic_functions_multiply_under_composition(first, second, t):
    p, q = np.outer(first[0], second[0]).ravel(), np.outer(first[1], second[1]).ravel()
    seen = (p > 0) & (q > 0)
    direct = complex(np.sum(p[seen] * np.exp(1j * t * np.log(p[seen] / q[seen]))))
    found = theorems.composed_characteristic_function(
        [DiscreteLoss.of_pair(*first), DiscreteLoss.of_pair(*second)], t=t
    )
    assert abs(found - direct) <= 1e-9


@pytest.mark.parametrize("t", [-2.0, 0.0, 0.7])
def test_the_gaussian_characteristic_function_by_quadrature(t):
    mu = 0.8

    def density(x):
        return math.exp(-((x - mu * mu / 2) ** 2) / (2 * mu * mu)) / (mu * math.sqrt(2 * math.pi))

    real = quad(lambda x: math.cos(t * x) * density(x), -10, 10)[0]
    imaginary = quad(lambda x: math.sin(t * x) * density(x), -10, 10)[0]
    assert abs(theorems.gaussian_characteristic_function(mu=mu, t=t) - complex(real, imaginary)) <= 1e-9
    assert abs(cmath.log(theorems.gaussian_characteristic_function(mu=mu, t=0.1)).imag - 0.1 * mu * mu / 2) <= 1e-12


@given(brute.pairs(), st.floats(0, 3))
def test_the_tail_is_a_valid_delta_and_never_below_the_exact_one(pair, epsilon):
    p, q = pair
    tail = theorems.loss_tail_delta(p, q, epsilon=epsilon)
    assert brute.hockey(p, q, epsilon) <= tail + 1e-12
    with np.errstate(divide="ignore", invalid="ignore"):
        direct = float(p[(p > 0) & (np.log(p / q) >= epsilon)].sum())
    assert direct <= tail + 1e-12


def test_the_tail_solved_for_epsilon():
    found = theorems.loss_tail_epsilon(lambda e: cdf(0.5 - e), delta=1e-5, highest=50.0)
    assert cdf(0.5 - found) <= 1e-5
    assert found == pytest.approx(0.5 - quantile(1e-5), rel=1e-9)
    assert found > theorems.gdp_epsilon(mu=1.0, delta=1e-5)  # Remark 9.2: crude
    with pytest.raises(InvalidInput):
        theorems.loss_tail_epsilon(lambda e: cdf(0.5 - e), delta=1e-5, highest=1.0)
