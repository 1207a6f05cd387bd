"""Poisson sampling of what is only known by a Renyi curve: finite pairs on the boundary of their own curve."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tallystick as ts
from tallystick.accounting.adjacency import Direction

Pair = tuple[np.ndarray, np.ndarray]
RATES = (0.003, 0.03, 0.1, 0.35, 0.6, 0.9)
ORDERS = (1.05, 1.5, 1.9, 2.0, 2.5, 3.0, 4.3, 8.0, 20.5, 60.0, 410.0)
TESTED = np.concatenate([1.0 + np.geomspace(1e-4, 1.0, 80), np.linspace(2.0, 80.0, 400)])


def divergence(p: np.ndarray, q: np.ndarray, orders: np.ndarray) -> np.ndarray:
    exponents = orders[:, None] * np.log(p) + (1.0 - orders[:, None]) * np.log(q)
    peak = exponents.max(axis=1)
    return (peak + np.log(np.exp(exponents - peak[:, None]).sum(axis=1))) / (orders - 1.0)


def rho_of(p: np.ndarray, q: np.ndarray) -> float:
    """The least rho for which the pair is zCDP in both orders, a little more: divergence over order, beyond 80 by its
    limit."""
    within = max(float(np.max(divergence(a, b, TESTED) / TESTED)) for a, b in ((p, q), (q, p)))
    return max(within, float(np.max(np.abs(np.log(p / q)))) / TESTED[-1]) * (1.0 + 1e-3)


def sampled(p: np.ndarray, q: np.ndarray, rate: float, orders: np.ndarray) -> np.ndarray:
    mixed = (1.0 - rate) * q + rate * p
    return np.maximum(divergence(mixed, q, orders), divergence(q, mixed, orders))


def hostile_pairs() -> list[Pair]:
    """Two to five outcomes of very different weights; rare outcomes on either side are what a curve hides."""
    rng = np.random.default_rng(11)
    pairs: list[Pair] = []
    for size in (2, 2, 2, 3, 3, 4, 5) * 6:
        weights = np.exp(rng.uniform(-7.0, 0.0, size))
        ratios = np.exp(rng.normal(0.0, float(rng.choice([0.05, 0.4, 1.5])), size))
        pairs.append((weights * ratios / np.sum(weights * ratios), weights / np.sum(weights)))
    pairs.append((np.array([0.36, 0.64]), np.array([0.02, 0.98])))
    return pairs


def test_no_pair_of_a_curve_is_told_apart_better_than_the_bound_says() -> None:
    nearest, orders = 0.0, np.array(ORDERS)
    for p, q in hostile_pairs():
        rho = rho_of(p, q)
        for rate in RATES:
            truth = sampled(p, q, rate, orders)
            ((leaf, _),) = ts.zcdp(rho=rho).sampled(rate=rate).terms
            bound = np.array([max(leaf.renyi_above(way, order) for way in Direction) for order in ORDERS])
            assert np.all(truth <= bound * (1.0 + 1e-9)), (p, q, rate, truth / bound)
            nearest = max(nearest, float(np.max(truth / bound)))
    assert nearest > 0.97


def test_a_curve_at_a_few_orders_is_enough_for_those() -> None:
    for p, q in hostile_pairs()[::15]:
        known = {order: max(float(divergence(a, b, np.array([order]))[0]) for a, b in ((p, q), (q, p)))
                 for order in (1.5, 2.0, 4.0, 9.0)}  # fmt: skip
        for rate in RATES:
            loss = ts.renyi_dp(known).sampled(rate=rate)
            for order in (1.2, 1.5, 2.0, 3.5, 9.0):
                assert sampled(p, q, rate, np.array([order]))[0] <= loss.renyi(order=order) * (1.0 + 1e-9)
            assert math.isfinite(loss.renyi(order=8.5))
    once = ts.renyi_dp({1.5: 0.2}).sampled(rate=0.1)
    assert 0.0 < once.renyi(order=1.2) <= 0.2


@pytest.mark.parametrize("rho", [0.005, 0.125, 0.5])
@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_at_whole_orders_it_is_the_gaussian_and_between_nearly(rho: float, rate: float) -> None:
    curve, gaussian = ts.zcdp(rho=rho).sampled(rate=rate), ts.gaussian(sigma=(2 * rho) ** -0.5).sampled(rate=rate)
    for order in (2, 3, 5, 20, 50):
        assert curve.renyi(order=order) == pytest.approx(gaussian.renyi(order=order), rel=1e-8)
    for order in (1.5, 2.5, 3.5, 7.25):
        assert 1.0 - 1e-9 <= curve.renyi(order=order) / gaussian.renyi(order=order) < (1.08 if rate < 0.5 else 1.3)


def test_the_gaussian_is_not_the_worst_of_its_curve_between_whole_orders() -> None:
    """Others charge a sampled zCDP mechanism as the sampled Gaussian of its rho at every order: here one is worse."""
    p, q = np.array([0.36, 0.64]), np.array([0.02, 0.98])
    rho = rho_of(p, q)
    truth = float(sampled(p, q, 0.1, np.array([1.5]))[0])
    assert truth > 1.049 * ts.gaussian(sigma=(2 * rho) ** -0.5).sampled(rate=0.1).renyi(order=1.5)
    assert truth <= ts.zcdp(rho=rho).sampled(rate=0.1).renyi(order=1.5)


def test_the_two_inequalities_hold_point_by_point() -> None:
    """The lemmas of docs/theory/poisson-sampling.md at ratios from 1e-6 to 1e6, each against its definition."""
    ratio = np.exp(np.linspace(-14.0, 14.0, 2001))
    for rate in (0.01, 0.1, 0.4, 0.8, 0.99):
        mixed, gap = 1.0 - rate + rate * ratio, ratio - 1.0
        for order in (1.2, 2.0, 3.7, 10.0, 40.0):
            s = order - 1.0
            second, share = 0.5 * s * order * rate**2, (order + 1.0) * rate / 3.0
            excess = mixed**-s - 1.0 + s * rate * gap
            if share <= 1.0:
                limit = second * gap**2 * (1.0 - share + share / ratio)
                assert np.all(excess <= limit * (1.0 + 1e-9) + 1e-12 * (1.0 + s * rate * ratio))
            power = 3.0 * share - 2.0
            if power > 0.0 or power < -1.0:
                limit = 2.0 * second / (power * (power + 1.0)) * (ratio**-power - 1.0 + power * gap)
                assert np.all(excess <= limit * (1.0 + 1e-9) + 1e-12 * (1.0 + s * rate * ratio))
        for order in (1.1, 1.5, 1.99):
            power = 2.0 - rate * (2.0 - order)
            factor = order * (order - 1.0) * rate**2 / (power * (power - 1.0))
            excess = mixed**order - 1.0 - order * rate * gap
            limit = factor * (ratio**power - 1.0 - power * gap)
            assert np.all(excess <= limit * (1.0 + 1e-9) + 1e-12 * (1.0 + ratio**power))


@pytest.mark.parametrize(
    ("rho", "rate", "steps", "another"),
    [(0.5, 0.01, 1000, 2.436694), (0.005, 0.1, 100, 0.440249), (0.125, 0.02, 500, 1.154468), (0.1, 0.5, 3, 2.426280)],
)
def test_a_composition_is_read_from_its_curve(rho: float, rate: float, steps: int, another: float) -> None:
    """At delta 1e-6, and what dp_accounting 0.6.0 has for the Gaussian; ours was 3.026, .546, 1.458 and 2.663."""
    found = (steps * ts.zcdp(rho=rho).sampled(rate=rate)).epsilon(delta=1e-6)
    least = (steps * ts.gaussian(sigma=(2 * rho) ** -0.5).sampled(rate=rate)).epsilon(delta=1e-6)
    assert least <= found <= 1.002 * another


def test_extremes_stay_numbers() -> None:
    for rho in (1e-12, 1.0, 1e6, 1e12):
        for rate in (1e-200, 1e-9, 0.999999):
            loss = ts.zcdp(rho=rho).sampled(rate=rate)
            for order in (1.0, 1.0000001, 1.5, 2.0, 399.5, 400.0, 1e6, 1e9):
                found = loss.renyi(order=order)
                assert 0.0 <= found <= rho * order * (1.0 + 2e-6), (rho, rate, order)
    assert ts.zcdp(rho=0.1, delta=1e-7).sampled(rate=0.1).renyi(order=2) == math.inf
