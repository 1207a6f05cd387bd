"""Noisy gradient descent and the two reductions, against exact laws of quadratic objectives and the walk."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import tallystick as ts
from tallystick.accounting.iteration import Step, walk
from tallystick.errors import InvalidInput
from tallystick.theorems import contraction_reduction, noisy_gradient_descent, shift_reduction, shuffled_pass_delta

GIVEN = {"steps": 60, "step_size": 0.5, "smoothness": 1.0, "lipschitz": 2.0, "batch_size": 100, "noise": 0.1}


def exact_mu(steps: int, curvature: float, moves: float, noise: float, step_size: float) -> float:
    """Full-batch descent on curvature x^2/2 + <g, x>, one record more in g: two Gaussians of one variance."""
    mean = variance = 0.0
    for _ in range(steps):
        mean = mean - step_size * (curvature * mean + moves)
        variance = (1 - step_size * curvature) ** 2 * variance + (step_size * noise) ** 2
    return abs(mean) / math.sqrt(variance)


@pytest.mark.parametrize(("adjacency", "records"), [("add_remove", 1), ("replace", 2)])
def test_descent_on_quadratics_is_bounded_and_met_at_the_least_curvature(adjacency: str, records: int) -> None:
    for least in (0.05, 0.3, 1.0):
        loss = noisy_gradient_descent(**GIVEN, strong_convexity=least, adjacency=adjacency)
        laws = [exact_mu(60, curve, records * 2 / 100, 0.1, 0.5) for curve in np.linspace(least, 1, 20)]
        assert loss.gdp_bound() >= max(laws)
        assert loss.gdp_bound() == pytest.approx(laws[0], rel=1e-9)


def test_a_domain_and_batches_are_in_the_same_unit_of_length() -> None:
    # One record moves a step by 0.5 * 2/100 = 0.01: a domain of 0.05 is five displacements, noise 0.1 is 0.1/0.02 = 5.
    order = ts.cyclic(batches=6)
    loss = noisy_gradient_descent(**GIVEN, diameter=0.05, batches=order)
    same = ts.last_iterate(steps=60, contraction=1, sigma=5, diameter=5, batches=order)
    assert loss.gdp_bound() == pytest.approx(same.gdp_bound(), rel=1e-9)
    assert loss.gdp_bound() >= same.gdp_bound() * (1 - 1e-12)
    sampled = noisy_gradient_descent(**GIVEN, diameter=0.05, batches=ts.poisson(rate=0.1), delta=1e-5)
    assert sampled.epsilon(delta=1e-5) <= (60 * ts.gaussian(sigma=5).sampled(rate=0.1)).epsilon(delta=1e-5) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("named", "value"),
    [("step_size", 2.01), ("smoothness", 0), ("lipschitz", -1), ("batch_size", 0), ("noise", 0), ("diameter", 0),
     ("strong_convexity", 1.5), ("adjacency", "near")],
)  # fmt: skip
def test_what_is_no_contractive_descent_is_refused_by_name(named: str, value: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        noisy_gradient_descent(**{**GIVEN, named: value})
    assert refused.value.argument == named


def test_the_reductions_step_by_step_are_a_walk() -> None:
    # Any walk by the two lemmas is an upper bound on what the least walk pays, and the least walk is one of them.
    rng = random.Random(11)
    for _ in range(200):
        steps = [Step(rng.uniform(0.5, 1), rng.choice([0.0, 1.0]), rng.uniform(1, 3)) for _ in range(rng.randint(1, 8))]
        shift, paid = 0.0, 0.0
        for at, step in enumerate(steps):
            shift = contraction_reduction(shift=shift, contraction=step.contraction, displacement=step.displacement)
            hidden = shift if at == len(steps) - 1 else shift * rng.random()
            paid = shift_reduction(divergence=paid, order=2, hidden=hidden, sigma=step.noise)
            shift -= hidden
        assert walk(steps) ** 2 <= paid * (1 + 1e-9) + 1e-30  # order 2: D_2 = mu^2


@pytest.mark.parametrize("c", [1.0, 0.9, 0.5])
def test_one_shuffled_pass_bounds_the_exact_mixture_of_a_linear_iteration(c: float) -> None:
    # x -> cx + (record's step? 1 : 0) + noise: the last iterate is a mixture of Gaussians over the record's position.
    steps, sigma = 12, 2.0
    spread = sigma * math.sqrt(sum(c ** (2 * k) for k in range(steps)))
    x = np.linspace(-12 * spread, 12 * spread, 200_001)

    def density(mean: float) -> np.ndarray:
        return np.exp(-0.5 * ((x - mean) / spread) ** 2) / (spread * math.sqrt(2 * math.pi))

    without, record = density(0.0), np.mean([density(c**k) for k in range(steps)], axis=0)
    for epsilon in (0.0, 0.05, 0.2, 1.0):
        bound = shuffled_pass_delta(epsilon=epsilon, steps=steps, contraction=c, sigma=sigma)
        for p, q in ((record, without), (without, record)):
            exact = float(np.maximum(0.0, p - math.exp(epsilon) * q).sum() * (x[1] - x[0]))
            assert exact <= bound + 1e-12
        worst = ts.last_iterate(steps=steps, contraction=c, sigma=sigma, batches=ts.shuffled(batches=steps))
        assert bound <= worst.delta(epsilon=epsilon)
    alone = shuffled_pass_delta(epsilon=0.1, steps=1, contraction=c, sigma=sigma)
    assert alone == pytest.approx(ts.gaussian(sigma=sigma).delta(epsilon=0.1), rel=1e-9)
