"""The shift walk against a quadratic programme, closed forms, exact linear laws, and projected laws on a grid."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr

import tallystick as ts
from tallystick.accounting.expression import read_loss
from tallystick.accounting.iteration import Step, gradient_step_lipschitz, minorant, recurring, walk
from tallystick.accounting.leaves.last_iterate import iteration_of
from tallystick.accounting.loss import PrivacyLoss
from tallystick.errors import InvalidInput


def programme(steps: list[Step], start: float = 0.0) -> float:
    """The quadratic programme itself, by a general optimiser over the shifts z_1..z_{T-1} >= 0."""
    c, d, s = (np.array([getattr(step, name) for step in steps]) for name in ("contraction", "displacement", "noise"))

    def hidden(z: np.ndarray) -> np.ndarray:
        shifts = np.concatenate([[start], z, [0.0]])
        return (c * shifts[:-1] + d - shifts[1:]) / s

    def slope(z: np.ndarray) -> np.ndarray:
        part = hidden(z) / s
        return 2.0 * (c[1:] * part[1:] - part[:-1])

    found = minimize(
        lambda z: float(np.sum(hidden(z) ** 2)), np.full(len(steps) - 1, 0.1), jac=slope, method="L-BFGS-B",
        bounds=[(0.0, None)] * (len(steps) - 1),
        options={"maxiter": 20000, "maxfun": 200000, "ftol": 1e-16, "gtol": 1e-13},
    )  # fmt: skip
    return math.sqrt(found.fun)


def random_steps(rng: random.Random, count: int) -> list[Step]:
    return [
        Step(rng.choice([1.0, 0.9, rng.uniform(0.3, 1)]), rng.choice([0.0, 1.0, rng.random()]), rng.uniform(0.5, 3))
        for _ in range(count)
    ]


def linear_law(steps: list[Step]) -> float:
    """X' = cX + D + noise: mean and variance of the last iterate, sums of positive numbers to 1e-14."""
    mean = variance = 0.0
    for step in steps:
        mean = step.contraction * mean + step.displacement
        variance = step.contraction**2 * variance + step.noise**2
    return mean / math.sqrt(variance)


@pytest.mark.parametrize("seed", range(30))
def test_the_walk_is_the_least_of_the_programme(seed: int) -> None:
    rng = random.Random(seed)
    steps = random_steps(rng, rng.randint(2, 12))
    start = rng.choice([0.0, rng.uniform(0, 3)])
    least = programme(steps, start)
    assert walk(steps, start=start) == pytest.approx(least, rel=1e-6, abs=1e-9)
    assert walk(steps, start=start) <= least * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(("c", "every", "uses"), [(0.98, 10, 5), (0.9, 5, 4), (0.995, 20, 3), (1.0, 7, 6), (0.3, 1, 9)])
def test_closed_forms_are_the_walk_at_every_position(c: float, every: int, uses: int) -> None:
    for after in range(every):
        place = every - 1 - after
        steps = [Step(c, 1.0 if t % every == place else 0.0, 10.0) for t in range(every * uses)]
        found = recurring(uses=uses, every=every, after=after, contraction=c, sigma=10.0)
        assert found == pytest.approx(walk(steps), rel=1e-9)
    worst = [recurring(uses=uses, every=every, after=after, contraction=c, sigma=10.0) for after in range(every)]
    assert max(worst) == worst[0]


def test_the_printed_closed_forms() -> None:
    mu = ts.last_iterate(steps=50, contraction=0.9, sigma=50).gdp_bound()
    assert mu == pytest.approx(0.02 * math.sqrt((1 - 0.9**50) / (1 + 0.9**50) * 1.9 / 0.1), rel=1e-9)
    for c, every, uses, told in [(0.98, 10, 5, 0.114691), (0.9, 5, 4, 0.114942), (0.995, 20, 3, 0.104429)]:
        x = c ** (every * (uses - 1))
        square = 1 + c ** (2 * every - 2) * (1 - c * c) / (1 - c**every) ** 2 * (1 - x) / (1 + x)
        for order in (ts.cyclic(batches=every), ts.shuffled(batches=every)):
            loss = ts.last_iterate(steps=every * uses, contraction=c, sigma=10, batches=order)
            assert loss.gdp_bound() == pytest.approx(0.1 * math.sqrt(square), rel=1e-9)
            assert loss.gdp_bound() == pytest.approx(told, abs=1e-6)


def test_a_bounded_domain_is_the_best_of_all_tails() -> None:
    cases = itertools.product(((1, 0), (3, 0), (3, 2)), (1, 5, 12), (1.0, 0.97), (0.4, 2.0, 9.0))
    for (every, after), uses, c, diameter in cases:
        found = recurring(uses=uses, every=every, after=after, contraction=c, sigma=3.0, diameter=diameter)
        place, drift, tails = every - 1 - after, 0.0, []
        steps = [Step(c, 1.0 if t % every == place else 0.0, 3.0) for t in range(every * uses)]
        for start, step in enumerate(steps):
            tails.append(walk(steps[start:], start=min(diameter, drift)))
            drift = c * drift + step.displacement
        assert found == pytest.approx(min(tails), rel=1e-9)


def test_the_walk_bounds_exact_linear_laws_and_meets_the_steady_one() -> None:
    rng = random.Random(7)
    for _ in range(10_000):
        steps = random_steps(rng, rng.randint(1, 12))
        assert walk(steps) >= linear_law(steps) * (1 - 1e-14)
        steady = [steps[0]] * len(steps)
        if steps[0].displacement > 0:
            assert walk(steady) == pytest.approx(linear_law(steady), rel=1e-9)


def grid_delta(diameter: float, sigma: float, steps: int, use: set[int], step, epsilon: float) -> float:
    """Both orders of delta of x -> clip(step(x) + used + noise), the iterates on a fine grid of a domain."""
    x = np.linspace(0.0, diameter, 801)
    edges = np.concatenate([[-np.inf], (x[1:] + x[:-1]) / 2, [np.inf]])
    kernels = [np.diff(ndtr((edges[None] - (step(x) + shift)[:, None]) / sigma), axis=1) for shift in (0.0, 1.0)]
    p = q = np.eye(len(x))[0]
    for t in range(steps):
        p, q = p @ kernels[1 if t in use else 0], q @ kernels[0]
    a = math.exp(epsilon)
    return max(float(np.maximum(0, p - a * q).sum()), float(np.maximum(0, q - a * p).sum()))


@pytest.mark.parametrize("step", [lambda x: x, lambda x: 0.9 * x, lambda x: x - 0.5 * np.tanh(x), np.arctan])
def test_projected_nonlinear_iterations_on_a_grid_stay_below(step) -> None:
    c = 0.9 if float(step(np.array([1.0]))[0]) == 0.9 else 1.0
    for steps, every, epsilon in itertools.product((6, 18), (1, 3), (0.0, 0.2, 1.0)):
        loss = ts.last_iterate(steps=steps, contraction=c, sigma=2, diameter=5, batches=ts.cyclic(batches=every))
        exact = grid_delta(5.0, 2.0, steps, set(range(every - 1, steps, every)), step, epsilon)
        assert exact <= loss.delta(epsilon=epsilon) + 1e-9


def test_never_above_plain_composition_and_never_better_with_less_noise_or_more_steps() -> None:
    rng = random.Random(3)
    for _ in range(150):
        every, uses = rng.randint(1, 9), rng.choice([1, 2, 30, 10**5])
        c, sigma = rng.choice([1.0, 0.999, rng.random()]), rng.uniform(0.5, 100)
        diameter = rng.choice([None, rng.uniform(0.1, 50)])
        given = {"contraction": c, "diameter": diameter, "batches": ts.cyclic(batches=every)}
        loss = ts.last_iterate(steps=every * uses, sigma=sigma, **given)
        assert loss <= uses * ts.gaussian(sigma=sigma)
        assert loss <= ts.last_iterate(steps=every * uses, sigma=sigma / 2, **given)
        unbounded = {**given, "diameter": None}
        assert loss.gdp_bound() <= ts.last_iterate(steps=every * uses, sigma=sigma, **unbounded).gdp_bound() * (
            1 + 1e-11
        )


def test_one_pass_at_step_t() -> None:
    for t in (1, 40, 100):
        loss = ts.last_iterate(steps=100, contraction=1, sigma=5, batches=ts.cyclic(batches=100, position=t))
        assert loss.gdp_bound() == pytest.approx(0.2 / math.sqrt(101 - t), rel=1e-9)


def test_extreme_iterations_have_finite_positive_answers() -> None:
    for c, every, diameter in itertools.product((0.0, 1e-300, 0.5, 1 - 1e-15, 1.0), (1, 10**4), (None, 1e-6, 1e15)):
        for position in (None, 1):
            batches = ts.cyclic(batches=every, position=position)
            loss = ts.last_iterate(steps=10**8, contraction=c, sigma=100, diameter=diameter, batches=batches)
            assert 0 < loss.gdp_bound() <= math.sqrt(10**8 / every) / 100 * (1 + 1e-9)
            assert 0 <= loss.delta(epsilon=0.1) <= 1
    assert walk([Step(0.5, 1.0, 1.0)] * 5000) == pytest.approx(math.sqrt(3), rel=1e-9)
    assert minorant([(0.0, 1.0), (2.0, 1.0)]) == 2.0


def test_the_conditions_and_the_case_are_named() -> None:
    words = ts.last_iterate(
        steps=20, contraction=0.9, sigma=5, diameter=3, batches=ts.shuffled(batches=4)
    ).explain_computation()
    for told in ("strongly convex", "domain of 3", "shuffled(batches=4)", "Lipschitz", "nothing but the last", "slot"):
        assert told in words
    sampled = ts.last_iterate(steps=10_000, contraction=0.99, sigma=3, batches=ts.poisson(rate=0.01), delta=1e-5)
    for told in ("for every sample", "constant 0.99", "nothing but the last", "shift_walk"):
        assert told in sampled.explain_computation() + str(sampled)
    assert "last iterate" not in ts.gaussian(sigma=1).explain_computation()


@pytest.mark.parametrize(
    ("named", "changed"),
    [
        ("steps", {"steps": 0}),
        ("steps", {"steps": 2.5}),
        ("steps", {"steps": 21, "batches": ts.cyclic(batches=4)}),
        ("contraction", {"contraction": 1.0001}),
        ("contraction", {"contraction": math.nan}),
        ("sigma", {"sigma": 0}),
        ("sigma", {"sigma": 1e-6, "contraction": 1}),
        ("diameter", {"diameter": 0}),
        ("batches", {"batches": 4}),
        ("batches", {"batches": "cyclic"}),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(named: str, changed: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as refused:
        ts.last_iterate(**{"steps": 20, "contraction": 0.9, "sigma": 5, **changed})
    assert refused.value.argument == named


def test_positions_and_steps_are_checked() -> None:
    for make in (
        lambda: ts.cyclic(batches=0),
        lambda: ts.cyclic(batches=3, position=4),
        lambda: ts.shuffled(batches=0.5),
        lambda: walk([]),
        lambda: walk([Step(0.5, 1.0, 1.0)], start=-1),
        lambda: Step(0.5, -1.0, 1.0),
        lambda: Step(1.5, 1.0, 1.0),
    ):
        with pytest.raises(InvalidInput):
            make()


def test_it_composes_and_converts_as_the_gaussian_it_is() -> None:
    loss = ts.last_iterate(steps=100, contraction=0.9, sigma=5)
    mu = loss.gdp_bound()
    both = loss + ts.gaussian(sigma=2)
    assert both.gdp_bound() == pytest.approx(math.hypot(mu, 0.5), rel=1e-12)
    assert loss.renyi(order=3) == pytest.approx(1.5 * mu * mu, rel=1e-9)
    assert loss.for_groups(3).gdp_bound() == pytest.approx(3 * mu, rel=1e-12)
    assert isinstance(loss.as_replace(), PrivacyLoss)
    assert loss.as_replace().gdp_bound() == pytest.approx(2 * mu, rel=1e-12)


def sampled_grid_delta(rate: float, sigma: float, diameter: float, steps: int, epsilon: float) -> float:
    """Both orders of delta of x -> clip(x + Bernoulli + noise) against the same without the record, on a grid."""
    x = np.linspace(0.0, diameter, 801)
    edges = np.concatenate([[-np.inf], (x[1:] + x[:-1]) / 2, [np.inf]])
    still, moved = (np.diff(ndtr((edges[None] - (x + by)[:, None]) / sigma), axis=1) for by in (0.0, 1.0))
    p = q = np.eye(len(x))[0]
    for _ in range(steps):
        p, q = p @ ((1 - rate) * still + rate * moved), q @ still
    a = math.exp(epsilon)
    return max(float(np.maximum(0, p - a * q).sum()), float(np.maximum(0, q - a * p).sum()))


def test_sampled_batches_bound_exact_laws_and_gain_on_plain_composition() -> None:
    # q = .2, s = .5, D = .2, domain .5, 60 steps, in units of D: the case of the design notes.
    loss = ts.last_iterate(steps=60, contraction=1, sigma=2.5, diameter=2.5, batches=ts.poisson(rate=0.2), delta=0.08)
    plain = 60 * ts.gaussian(sigma=2.5).sampled(rate=0.2)
    assert loss.delta(epsilon=0.5) < 0.85 * plain.delta(epsilon=0.5)
    long = {"steps": 10_000, "contraction": 1, "sigma": 2, "diameter": 5, "batches": ts.poisson(rate=0.01)}
    steps = 10_000 * ts.gaussian(sigma=2).sampled(rate=0.01)
    assert ts.last_iterate(**long, delta=1e-5).epsilon(delta=1e-5) < steps.epsilon(delta=1e-5) / 2.3
    for epsilon in (0.1, 0.25, 0.5, 1.0):
        assert sampled_grid_delta(0.2, 2.5, 2.5, 60, epsilon) <= loss.delta(epsilon=epsilon)


def test_sampled_batches_are_a_sum_that_reads_back_and_never_above_plain_composition_at_delta() -> None:
    rng = random.Random(5)
    for _ in range(4):
        steps, sigma, c = rng.choice([1, 30, 500]), rng.uniform(1, 5), rng.choice([1.0, 0.9])
        for batches, who in ((ts.poisson(rate=0.05), "add_remove"), (ts.subset(batch=5, population=100), "replace")):
            given = {"steps": steps, "contraction": c, "sigma": sigma, "diameter": 4.0, "adjacency": who}
            loss = ts.last_iterate(**given, batches=batches, delta=1e-5)
            one = ts.gaussian(sigma=sigma, adjacency=who)
            plain = one.sampled(rate=0.05) if who == "add_remove" else one.subset(batch=5, population=100)
            assert loss.epsilon(delta=1e-5) <= (steps * plain).epsilon(delta=1e-5)
            assert read_loss(str(loss)) == loss
            assert loss.adjacency.value == who


def test_sampled_batches_need_a_sound_delta_and_the_right_neighbours() -> None:
    given = {"steps": 10, "contraction": 0.9, "sigma": 2}
    for changed in (
        {"batches": ts.poisson(rate=0.1), "delta": 0},
        {"batches": ts.poisson(rate=0.1), "delta": 1e-5, "adjacency": "replace"},
        {"batches": ts.subset(batch=1, population=9), "delta": 1e-5},
        {"delta": 1e-5},
    ):
        with pytest.raises(InvalidInput):
            ts.last_iterate(**given, **changed)


def test_a_gradient_step_contracts_up_to_two_over_the_smoothness() -> None:
    assert gradient_step_lipschitz(step_size=2, smoothness=1) == 1.0
    assert gradient_step_lipschitz(step_size=1.5, smoothness=1, strong_convexity=1) == 0.5
    assert gradient_step_lipschitz(step_size=0.1, smoothness=1, strong_convexity=0.1) >= 1 - Fraction(0.1) ** 2
    for step_size in (2.0000001, math.inf, 0.0, -1.0):
        with pytest.raises(InvalidInput):
            gradient_step_lipschitz(step_size=step_size, smoothness=1)
    # The step itself, on quadratics between the two curvatures, stretches no difference by more.
    for curvature in np.linspace(0.1, 1.0, 50):
        assert abs(1 - 1.7 * curvature) <= gradient_step_lipschitz(step_size=1.7, smoothness=1, strong_convexity=0.1)


def test_positions_of_a_pass_rise_to_the_worst_and_are_refused_without_batches() -> None:
    loss = ts.last_iterate(steps=40, contraction=0.99, sigma=5, batches=ts.shuffled(batches=8), unit="patient")
    found = iteration_of(loss)
    assert found is not None
    mus = [each.gdp_bound() for each in found.positions()]
    assert mus == sorted(mus)
    assert mus[-1] == loss.gdp_bound()
    assert all(each.protects == loss.protects for each in found.positions())
    assert found.last(5, delta=1e-6) == loss
    full = iteration_of(ts.last_iterate(steps=40, contraction=0.99, sigma=5))
    assert full is not None
    with pytest.raises(InvalidInput, match="cyclic"):
        full.positions()
    assert iteration_of(loss.for_groups(2)) is None
    assert iteration_of(2 * loss) is None
