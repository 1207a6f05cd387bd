"""Moved laws: against linear programmes, a descent that knows nothing of strings, and fifty-digit quadrature."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog

from tallystick.errors import InvalidInput
from tallystick.theorems import (
    gaussian_shifted_renyi,
    noise_resistance,
    noisy_descent_excess_loss,
    renyi_divergence,
    shift_reduction,
    shifted_renyi,
    w_infinity,
)


def law(rng: random.Random, size: int, *, gaps: bool = False) -> list[float]:
    found = [0.0 if gaps and rng.random() < 0.3 else rng.random() for _ in range(size)]
    found[rng.randrange(size)] += 1.0
    return [mass / sum(found) for mass in found]


def can_be_carried(p: list[float], q: list[float], apart: np.ndarray, distance: float) -> bool:
    """By linear programming: couplings that move mass by at most ``distance``."""
    size = len(p)
    sums = np.zeros((2 * size, size * size))
    for i in range(size):
        sums[i, i * size : (i + 1) * size] = 1
        sums[size + i, i::size] = 1
    moved = np.where(apart.ravel() > distance, 1.0, 0.0)
    found = linprog(moved, A_eq=sums, b_eq=[*p, *q], bounds=(0, None), method="highs")
    return bool(found.fun < 1e-9)


@pytest.mark.parametrize("dimension", [1, 2])
def test_w_infinity_is_the_least_distance_at_which_a_coupling_exists(dimension: int) -> None:
    rng = random.Random(1)
    for _ in range(25):
        size = rng.randint(2, 7)
        p, q = law(rng, size, gaps=True), law(rng, size, gaps=True)
        points = [[rng.randint(-4, 4) / 2 for _ in range(dimension)] for _ in range(size)]
        apart = np.array([[math.dist(x, y) for y in points] for x in points])
        found = w_infinity(p, q, points=[x for [x] in points] if dimension == 1 else points)
        assert can_be_carried(p, q, apart, found)
        less = [distance for distance in np.unique(apart) if distance < found - 1e-9]
        assert not less or not can_be_carried(p, q, apart, less[-1])


def by_descent(p: list[float], q: list[float], points: list[float], order: float, shift: float) -> tuple[float, float]:
    """Frank-Wolfe over couplings: the divergence it reached and a lower bound from its duality gap."""
    size = len(p)
    near = [[j for j in range(size) if abs(points[i] - points[j]) <= shift] for i in range(size)]
    q_ = np.array(q)
    y = np.array(p, dtype=float)
    value = gap = 0.0
    for step in range(4000):
        value = float(np.sum(y**order * q_ ** (1 - order)))
        slope = order * (y / q_) ** (order - 1)
        target = np.zeros(size)
        for i in range(size):
            target[min(near[i], key=lambda j: slope[j])] += p[i]
        gap = float(np.dot(slope, y - target))
        y = y + 2 / (step + 2) * (target - y)
    logs = [math.log(max(total, 1e-300)) / (order - 1) for total in (value, value - gap)]
    return logs[0], logs[1]


def test_shifted_divergence_is_the_least_over_all_laws_within_the_shift() -> None:
    rng = random.Random(2)
    for _ in range(25):
        size, order = rng.randint(2, 8), rng.choice([1.5, 2.0, 4.0])
        p, q = law(rng, size, gaps=True), law(rng, size)
        points, shift = [float(rng.randint(0, 12)) for _ in range(size)], float(rng.randint(0, 4))
        found = shifted_renyi(p, q, points=points, order=order, shift=shift)
        merged = sorted(set(points))
        p_, q_ = (
            [sum(m for m, x in zip(masses, points, strict=True) if x == place) for place in merged] for masses in (p, q)
        )
        reached, bound = by_descent(p_, q_, merged, order, shift)
        assert bound - 1e-9 <= found <= reached + 1e-9


def test_shifted_divergence_falls_with_the_shift_and_moving_is_one_way_to_shift() -> None:
    rng = random.Random(3)
    for _ in range(60):
        size, order = rng.randint(2, 9), rng.choice([1.0, 1.5, 3.0, math.inf])
        p, q = law(rng, size, gaps=True), law(rng, size, gaps=rng.random() < 0.5)
        points = [float(k) for k in range(size)]
        values = [shifted_renyi(p, q, points=points, order=order, shift=z) for z in (0.0, 0.5, 1.0, 2.5, size)]
        assert all(after <= before * (1 + 1e-12) + 1e-14 for before, after in pairwise(values))
        assert values[0] == pytest.approx(renyi_divergence(p, q, order=order), rel=1e-11, abs=1e-13)
        assert values[-1] == 0.0
        moved = [0.0, *p[:-1]]
        moved[-1] += p[-1]  # all mass moves by one place, the last stays
        assert values[2] <= renyi_divergence(moved, q, order=order) * (1 + 1e-12) + 1e-13


def test_moved_gaussians_on_a_lattice_tend_to_the_closed_form() -> None:
    grid = np.arange(-8, 9.0001, 0.125)
    masses = [np.exp(-((grid - m) ** 2) / 2) for m in (1.0, 0.0)]
    p, q = ((m / m.sum()).tolist() for m in masses)
    found = shifted_renyi(p, q, points=grid.tolist(), order=2, shift=0.5)
    assert found == pytest.approx(gaussian_shifted_renyi(order=2, sigma=1, distance=1, shift=0.5), rel=2e-3)
    assert gaussian_shifted_renyi(order=2, sigma=1, distance=1, shift=1) == 0.0


def test_erratum_47_as_printed_the_shifted_divergence_would_be_zero() -> None:
    # The infimum over nu' of D(mu || nu') is reached at nu' = mu; the corrected one is not 0 for laws far apart.
    assert shifted_renyi([1, 0], [0.5, 0.5], points=[0, 5], order=2, shift=1) == pytest.approx(math.log(2))
    assert shifted_renyi([1, 0], [0, 1], points=[0, 5], order=2, shift=1) == math.inf


@pytest.mark.parametrize("order", [1.001, 1.5, 2.0, 30.0])
@pytest.mark.parametrize("shift", [1e-9, 1e-3, 0.3, 2.0, 40.0])
def test_noise_resistance_is_the_divergence_of_moved_noise(order: float, shift: float) -> None:
    with mpmath.workdps(50):
        a, s = mpmath.mpf(order), mpmath.mpf(shift)
        inside = a / (2 * a - 1) * mpmath.e ** ((a - 1) * s) + (a - 1) / (2 * a - 1) * mpmath.e ** (-a * s)
        truth = mpmath.log(inside) / (a - 1)
        # the closed form itself, by quadrature of the two densities
        if shift in (0.3, 2.0) and order < 3:
            area = mpmath.quad(
                lambda x: mpmath.e ** (-a * abs(x - s) - (1 - a) * abs(x)) / 2, [-60 / (2 * a - 1), 0, s, s + 200]
            )
            assert abs(mpmath.log(area) / (a - 1) - truth) < 1e-9
    found = noise_resistance(noise="laplace", order=order, scale=1, shift=shift)
    assert truth <= found <= float(truth) * (1 + 1e-3)
    gaussian = noise_resistance(noise="gaussian", order=order, scale=2, shift=shift)
    assert gaussian == pytest.approx(order * shift**2 / 8, rel=1e-11)
    assert shift_reduction(divergence=0, order=order, hidden=shift, sigma=2) == pytest.approx(gaussian, rel=1e-11)


def test_laplace_noise_moved_in_several_coordinates_hides_no_less() -> None:
    rng = random.Random(5)
    for _ in range(200):
        order, total, share = rng.choice([1.2, 2.0, 9.0]), rng.uniform(0.01, 9), rng.random()
        parts = [noise_resistance(noise="laplace", order=order, scale=1, shift=total * w) for w in (share, 1 - share)]
        assert sum(parts) <= noise_resistance(noise="laplace", order=order, scale=1, shift=total) * (1 + 1e-9)


@pytest.mark.parametrize("eta", [0.02, 0.2])
def test_excess_loss_holds_for_noisy_descent_on_absolute_values(eta: float) -> None:
    # |x - y| with y = +-1/2 by a coin of .7: the population loss is least at 1/2.
    rng = np.random.default_rng(7)
    steps, runs, noise = 200, 4000, 1.0
    x = np.full(runs, -1.0)
    for _ in range(steps):
        y = np.where(rng.random(runs) < 0.7, 0.5, -0.5)
        x = np.clip(x - eta * (np.sign(x - y) + noise * rng.normal(size=runs)), -1, 1)
    loss = 0.7 * np.abs(x - 0.5) + 0.3 * np.abs(x + 0.5)
    bound = noisy_descent_excess_loss(steps=steps, step_size=eta, lipschitz=1, diameter=2, noise=noise, dimension=1)
    assert loss.mean() - 0.3 <= bound
    without_noise = noisy_descent_excess_loss(steps=1, step_size=eta, lipschitz=1, diameter=2, noise=0, dimension=1)
    assert without_noise == pytest.approx(4 / (2 * eta) + eta / 2)


DESCENT = {"steps": 9, "step_size": 1, "lipschitz": 1, "diameter": 1, "noise": 0, "dimension": 1}


@pytest.mark.parametrize("steps", [1, 2, 101, 1000, 100_001, 100_002, 10**6, 10**9])
def test_excess_loss_is_its_formula_rounded_up(steps: int) -> None:
    exact = mpmath.mpf(1) / (2 * steps) + (1 + mpmath.harmonic(steps - 1)) / 2
    found = noisy_descent_excess_loss(**{**DESCENT, "steps": steps})
    assert exact <= found <= exact * (1 + mpmath.mpf("1e-11"))


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: w_infinity([1], [1], points=[0, 1]), "points"),
        (lambda: w_infinity([1, 0], [0, 1], points=[0, math.nan]), "points"),
        (lambda: w_infinity([1, 0], [0, 1], points=[[0, 1], [2]]), "points"),
        (lambda: w_infinity([1, 0.1], [0, 1], points=[0, 1]), "p"),
        (lambda: shifted_renyi([1, 0], [0, 1], points=[[0], [1]], order=2, shift=0), "points"),
        (lambda: shifted_renyi([1, 0], [0, 1], points=[0, 1], order=0.5, shift=0), "order"),
        (lambda: shifted_renyi([1, 0], [0, 1], points=[0, 1], order=2, shift=-1), "shift"),
        (lambda: noise_resistance(noise="cauchy", order=2, scale=1, shift=1), "noise"),
        (lambda: noise_resistance(noise="laplace", order=1, scale=1, shift=1), "order"),
        (lambda: noisy_descent_excess_loss(**{**DESCENT, "steps": 0}), "steps"),
        (lambda: noisy_descent_excess_loss(**{**DESCENT, "step_size": 0}), "step_size"),
        (lambda: noisy_descent_excess_loss(**{**DESCENT, "noise": 1e160}), "step_size"),
        (lambda: noisy_descent_excess_loss(**{**DESCENT, "dimension": 10**400}), "dimension"),
        (lambda: gaussian_shifted_renyi(order=2, sigma=0, distance=1, shift=0), "sigma"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(call: object, argument: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        call()  # type: ignore[operator]
    assert refused.value.argument == argument
