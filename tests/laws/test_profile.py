"""delta(epsilon) is a privacy profile: decreasing, convex in e^epsilon, and one face of the trade-off curve."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick as ts
from laws.strategies import CURVES, LEAVES, PAIRED, few, leaf, one, probabilities, quick_losses

LEVELS = [0.0, 0.05, 0.2, 0.5, 1.0, 1.7, 3.0]


def profile_of(loss: ts.PrivacyLoss) -> tuple[np.ndarray, np.ndarray]:
    bounds = [loss.delta_bounds(epsilon=e) for e in LEVELS]
    return np.array([b.lower for b in bounds]), np.array([b.upper for b in bounds])


def assert_is_a_profile(loss: ts.PrivacyLoss, *, convex: bool = True) -> None:
    lower, upper = profile_of(loss)
    assert np.all(np.isfinite(upper))
    assert np.all(lower <= upper)
    assert np.all(upper <= 1.0)
    assert np.all(lower >= 0.0)
    assert np.all(lower[1:] <= upper[:-1]), "delta increases"
    if convex:  # at no level may the certified lower bound exceed the chord of the upper bounds around it
        a = np.exp(LEVELS)
        chord = upper[:-2] + (upper[2:] - upper[:-2]) * (a[1:-1] - a[:-2]) / (a[2:] - a[:-2])
        assert np.all(lower[1:-1] <= chord + 1e-15)


@pytest.mark.parametrize("name", LEAVES)
@given(data=st.data())
def test_one_step_has_a_profile(name: str, data: st.DataObject) -> None:
    assert_is_a_profile(data.draw(leaf(name)))


@pytest.mark.parametrize("name", LEAVES)
@given(data=st.data(), times=st.integers(2, 40))
@one
def test_a_composition_has_a_profile(name: str, data: st.DataObject, times: int) -> None:
    assert_is_a_profile(times * data.draw(leaf(name)))


@given(a=quick_losses(), b=quick_losses())
@few
def test_a_mixture_has_a_profile(a: ts.PrivacyLoss, b: ts.PrivacyLoss) -> None:
    assert_is_a_profile(a + b)


@given(a=quick_losses(), delta=st.floats(-60, -1).map(math.exp))
def test_epsilon_and_delta_are_inverse(a: ts.PrivacyLoss, delta: float) -> None:
    bounds = a.epsilon_bounds(delta=delta)
    assert 0 <= bounds.lower <= bounds.upper <= a.epsilon(delta=delta) * (1 + 1e-15)
    if math.isfinite(bounds.upper):
        assert a.delta_bounds(epsilon=bounds.upper).lower <= delta
    if 0 < bounds.lower < math.inf:
        assert a.delta_bounds(epsilon=bounds.lower * (1 - 1e-12)).upper >= delta * (1 - 1e-9)


# ------------------------------------------------------------------------------------------------ brute force


def brute_force(p: list[float], q: list[float], times: int, epsilon: float) -> float:
    """max over sets of P(S) - e^epsilon Q(S) on the product space, outcome by outcome, in both directions."""
    worst = 0.0
    for left, right in ((p, q), (q, p)):
        gains = []
        for outcome in itertools.product(range(len(p)), repeat=times):
            a = math.prod(left[i] for i in outcome)
            b = math.prod(right[i] for i in outcome)
            gains.append(max(0.0, a - math.exp(epsilon) * b))
        worst = max(worst, math.fsum(gains))
    return worst


@given(p=probabilities(2), q=probabilities(2), times=st.integers(1, 8), epsilon=st.floats(0, 3))
def test_two_point_pairs_by_brute_force(p: list[float], q: list[float], times: int, epsilon: float) -> None:
    truth = brute_force(p, q, times, epsilon)
    bounds = (times * ts.discrete_pair(p, q)).delta_bounds(epsilon=epsilon)
    assert bounds.lower <= truth + 1e-13
    assert bounds.upper >= truth - 1e-13
    assert bounds.upper <= truth + 1e-9


@given(p=probabilities(3), q=probabilities(3), times=st.integers(1, 5), epsilon=st.floats(0, 3))
def test_three_point_pairs_by_brute_force(p: list[float], q: list[float], times: int, epsilon: float) -> None:
    truth = brute_force(p, q, times, epsilon)
    bounds = (times * ts.discrete_pair(p, q)).delta_bounds(epsilon=epsilon)
    assert bounds.lower <= truth + 1e-13
    assert bounds.upper >= truth - 1e-13
    assert bounds.upper <= truth + 1e-9


# --------------------------------------------------------------------------------- trade-off, divergences, posteriors


@pytest.mark.parametrize("name", PAIRED)
@given(data=st.data(), alpha=st.floats(0.001, 0.999))
@few
def test_the_trade_off_curve_is_the_conjugate_of_the_profile(name: str, data: st.DataObject, alpha: float) -> None:
    """Every (epsilon, delta) is a supporting line: f(alpha) >= 1 - delta - e^epsilon alpha, and both sides of it."""
    loss = data.draw(leaf(name))
    claimed = loss.tradeoff(alpha=alpha)
    assert 0 <= claimed <= 1 - alpha + 1e-12
    for epsilon in LEVELS:
        true_delta = loss.delta_bounds(epsilon=epsilon)
        line = max(
            1 - true_delta.upper - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - true_delta.upper - alpha)
        )
        assert claimed >= line - 1e-4, "the curve lies below a line it must lie above"
        # validity: the claimed least error, raised by nothing, must not exceed what a known attacker reaches
    best = max(
        max(1 - loss.delta_bounds(epsilon=e).lower - math.exp(e) * alpha,
            math.exp(-e) * (1 - loss.delta_bounds(epsilon=e).lower - alpha))
        for e in np.linspace(0, 6, 61)
    )  # fmt: skip
    assert claimed <= best + 0.02


@pytest.mark.parametrize("name", PAIRED)
@given(data=st.data())
@few
def test_trade_off_decreases_and_is_convex(name: str, data: st.DataObject) -> None:
    loss = data.draw(leaf(name))
    grid = np.linspace(0, 1, 21)
    values = np.asarray(loss.tradeoff(alpha=grid))
    assert values.shape == grid.shape
    assert np.all(np.diff(values) <= 1e-9)
    assert np.all(values[1:-1] <= (values[:-2] + values[2:]) / 2 + 1e-6)
    assert np.allclose(np.asarray(loss.power(alpha=grid)), 1 - values, atol=1e-12)


@pytest.mark.parametrize("name", PAIRED)
@given(data=st.data())
@few
def test_total_variation_is_delta_at_zero(name: str, data: st.DataObject) -> None:
    loss = data.draw(leaf(name))
    bounds = loss.delta_bounds(epsilon=0.0)
    assert bounds.lower - 1e-12 <= loss.total_variation() <= bounds.upper + 1e-4


@pytest.mark.parametrize("name", LEAVES)
@given(data=st.data())
@few
def test_renyi_divergence_grows_with_the_order(name: str, data: st.DataObject) -> None:
    loss = data.draw(leaf(name))
    values = [loss.renyi(order=a) for a in (1.0, 1.5, 2.0, 4.0, 16.0, math.inf)]
    assert not any(math.isnan(v) for v in values)
    assert all(a <= b * (1 + 1e-9) + 1e-12 for a, b in itertools.pairwise(values))


@pytest.mark.parametrize("name", [n for n in PAIRED if n != "exponential"])
@given(data=st.data())
@few
def test_kl_obeys_pinsker_and_is_the_renyi_divergence_of_order_one(name: str, data: st.DataObject) -> None:
    loss = data.draw(leaf(name))
    kl = loss.kl()
    assert kl >= 2 * loss.delta_bounds(epsilon=0.0).lower ** 2 - 1e-12
    assert kl == pytest.approx(loss.renyi(order=1.0), rel=1e-6, abs=1e-12)


@given(a=quick_losses(), order=st.sampled_from([1.0, 2.0, 5.5]))
@few
def test_renyi_divergences_add(a: ts.PrivacyLoss, order: float) -> None:
    assert (3 * a).renyi(order=order) == pytest.approx(3 * a.renyi(order=order), rel=1e-9)


@given(a=quick_losses())
@few
def test_posteriors_rise_with_the_prior_and_never_fall_below_it(a: ts.PrivacyLoss) -> None:
    priors = [0.0, 0.01, 0.2, 0.5, 0.9, 1.0]
    posteriors = [a.posterior(prior=p, delta=1e-3) for p in priors]
    assert all(later >= prior - 1e-12 for prior, later in zip(priors, posteriors, strict=True))
    assert all(x <= y + 1e-12 for x, y in itertools.pairwise(posteriors))
    assert max(posteriors) <= 1.0


@pytest.mark.parametrize("name", [*PAIRED, *CURVES])
@given(data=st.data())
@one
def test_arrays_in_arrays_out(name: str, data: st.DataObject) -> None:
    loss = data.draw(leaf(name))
    deltas = np.array([[1e-3, 1e-5], [1e-7, 1e-9]])
    epsilons = np.asarray(loss.epsilon(delta=deltas))
    assert epsilons.shape == deltas.shape
    assert epsilons[0, 1] == loss.epsilon(delta=1e-5)
    assert not np.any(np.isnan(epsilons))
