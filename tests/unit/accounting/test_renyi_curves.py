"""What follows from a Renyi curve, and the curve of a bounded range: as tight as the formulas, on the safe side."""

from __future__ import annotations

import math
import random

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import tallystick as ts


def best_conversion(curve: object, delta: float, low: float, high: float) -> float:
    """Canonne, Kamath and Steinke 2020, Proposition 12, by a general optimiser over the order."""

    def epsilon(order: float) -> float:
        return curve(order) + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)  # type: ignore[operator]

    return float(minimize_scalar(epsilon, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).fun)


@pytest.mark.parametrize(("rho", "delta"), [(0.5, 1e-5), (0.01, 1e-9), (3.0, 0.01), (1e-6, 1e-6), (200.0, 1e-12)])
def test_zcdp_is_converted_at_the_best_real_order(rho: float, delta: float) -> None:
    guess = 1 + math.sqrt(math.log(1 / delta) / rho)
    truth = best_conversion(lambda order: rho * order, delta, 1 + (guess - 1) / 30, 1 + (guess - 1) * 3)
    found = ts.zcdp(rho=rho).epsilon(delta=delta)
    assert truth * (1 - 1e-12) <= found <= truth * (1 + 1e-8)
    assert ts.zcdp(rho=rho).delta(epsilon=found) == pytest.approx(delta, rel=1e-6)


def test_two_values_that_others_had_tighter() -> None:
    assert 4.728386 < ts.zcdp(rho=0.5).epsilon(delta=1e-5) < 4.72839
    curve = ts.renyi_dp(dict.fromkeys(range(2, 33), 1.1))
    assert 1.327838 < curve.epsilon(delta=1e-5) < 1.327839  # at order 32 itself, which no ladder of orders hits


def test_sums_with_a_gaussian_are_converted_as_one_curve() -> None:
    both = ts.zcdp(rho=0.25) + ts.gaussian(sigma=math.sqrt(2))
    assert both.epsilon(delta=1e-5) <= ts.zcdp(rho=0.5).epsilon(delta=1e-5) * (1 + 1e-9)


def worst_range(epsilon: float, order: float) -> float:
    """The largest divergence of two losses that are epsilon apart, over where they lie, by scanning."""
    ends = np.linspace(0, epsilon, 20_001)
    p = (np.exp(epsilon) - np.exp(ends)) / np.expm1(epsilon)
    if order == 1.0:
        return float(np.max(p * ends + (1 - p) * (ends - epsilon)))
    theta = order - 1
    return float(np.max(np.log(p * np.exp(theta * ends) + (1 - p) * np.exp(theta * (ends - epsilon))))) / theta


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("order", [1.0, 1.5, 2.0, 8.0, 40.0])
def test_renyi_of_a_bounded_range_is_that_of_the_worst_two_losses(epsilon: float, order: float) -> None:
    found, truth = ts.exponential(epsilon=epsilon).renyi(order=order), worst_range(epsilon, order)
    assert truth * (1 - 1e-9) <= found <= truth * (1 + 1e-4)
    assert found <= order * epsilon**2 / 8 * (1 + 1e-5)


def test_no_exponential_mechanism_has_a_larger_divergence() -> None:
    rng = random.Random(4)
    for _ in range(300):
        epsilon, size = rng.choice([0.2, 1.0, 3.0]), rng.randint(2, 6)
        scores = [rng.uniform(-3, 3) for _ in range(size)]
        moved = [score + rng.choice([0.0, epsilon, rng.uniform(0, epsilon)]) for score in scores]
        p, q = (np.exp(s) / np.exp(s).sum() for s in (np.array(scores), np.array(moved)))
        for order in (1.5, 3.0, 20.0):
            pair = math.log(float(np.sum(p**order * q ** (1 - order)))) / (order - 1)
            assert pair <= ts.exponential(epsilon=epsilon).renyi(order=order) * (1 + 1e-12)


def test_the_closed_form_is_rounded_up_at_any_size() -> None:
    rng = random.Random(5)
    for _ in range(400):
        epsilon, theta = math.exp(rng.uniform(-25, 11)), math.exp(rng.uniform(-13, 13))
        with mp.workdps(80):
            e, t = mp.mpf(epsilon), mp.mpf(theta)
            a, b = mp.exp(e) - mp.exp(-t * e), 1 - mp.exp(-t * e)
            truth = mp.log(a) + t * mp.log(t * a / ((t + 1) * b)) - mp.log(t + 1) - mp.log(mp.exp(e) - 1)
        leaf = ts.exponential(epsilon=epsilon).terms[0][0]
        assert leaf.log_mgf_bound(np.array([theta]))[0] >= truth


def composed_delta(ends: tuple[float, ...], epsilon: float, at: float) -> float:
    """delta of a product of two-point pairs, each with losses t and t - epsilon: mechanisms of that range."""
    outcomes = [(1.0, 0.0)]
    for t in ends:
        p = (math.exp(epsilon) - math.exp(t)) / math.expm1(epsilon)
        outcomes = [(m * q, total + x) for m, total in outcomes for q, x in ((p, t), (1 - p, t - epsilon))]
    return sum(m * max(0.0, -math.expm1(at - total)) for m, total in outcomes)


@pytest.mark.parametrize(("count", "epsilon"), [(2, 0.5), (3, 2.0), (4, 3.0)])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
def test_no_composition_of_bounded_ranges_exceeds_the_claim_and_the_best_come_close(
    count: int, epsilon: float, delta: float
) -> None:
    claimed = (count * ts.exponential(epsilon=epsilon)).epsilon(delta=delta)
    alike = max(composed_delta((float(t),) * count, epsilon, claimed) for t in np.linspace(0, epsilon, 4001))
    rng = random.Random(6)
    unlike = max(
        composed_delta(tuple(rng.uniform(0, epsilon) for _ in range(count)), epsilon, claimed) for _ in range(400)
    )
    assert max(alike, unlike) <= delta
    assert alike >= 0.8 * delta
