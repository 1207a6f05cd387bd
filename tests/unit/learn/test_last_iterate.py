"""Noisy descent that releases its last iterate: the exact law in one dimension, contraction on the lattice, twins."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

import tallystick as ts
from tallystick.errors import InvalidInput
from tallystick.learn import LogisticRegression
from tallystick.learn.descent import NoisyDescent
from tallystick.learn.last_iterate import LastIterate
from tallystick.learn.logistic import Rows
from tallystick.learn.records import given
from tallystick.mechanisms.exact.randomness import SeededSource

pytestmark = pytest.mark.filterwarnings("ignore::tallystick.mechanisms.base.UnrecordedRelease")
LINE = LastIterate(Rows(1.0, False, (0, 1)), 3.0, 12, False, 0.4, 6, "add_remove")
OTHERS = [(1.0, -1.0)] * 4


def laws(recipe: LastIterate, records: list[tuple[float, float]], *, noise: float = 1.0) -> np.ndarray:
    """Masses of theta after all steps on one feature, pushed from step to step on a grid, from the definition."""
    deviation = noise * recipe.sigma * recipe.move
    half = 4.0 + 9.0 * deviation / math.sqrt(1.0 - recipe.contraction**2)
    grid = np.linspace(-half, half, 1201)
    slope = recipe.ridge * grid
    for x, y in records:
        slope = slope - x * y * np.minimum(expit(-x * y * grid), 0.5 * recipe.rows.longest / abs(x))
    there = grid - recipe.rate * slope
    step = np.exp(-(((grid[None, :] - there[:, None]) / deviation) ** 2) / 2)
    step /= step.sum(axis=1, keepdims=True)
    mass = np.zeros(len(grid))
    mass[600] = 1.0
    for _ in range(recipe.steps):
        mass = mass @ step
    return mass


def stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(0.0, p - math.exp(epsilon) * q).sum())


def apart(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return max(stick(p, q, epsilon), stick(q, p, epsilon))


@pytest.mark.parametrize("steps", [1, 4, 12])
def test_the_exact_law_is_within_the_price_which_is_below_composition_and_half_the_noise_is_caught(steps):
    recipe = replace(LINE, steps=steps)
    published = steps * ts.gaussian(sigma=recipe.sigma)
    for others in ([], OTHERS, [(0.5, 1.0), (-0.8, 1.0)]):
        p, q = laws(recipe, [*others, (1.0, 1.0)]), laws(recipe, others)
        for epsilon in (0.0, 0.3, 0.8):
            assert apart(p, q, epsilon) <= 1.0005 * recipe.privacy.delta(epsilon=epsilon) + 1e-9  # cells of a grid
    p, q = (laws(recipe, data) for data in ([*OTHERS, (1.0, 1.0)], OTHERS))
    assert apart(p, q, 0.3) >= 0.45 * recipe.privacy.delta(epsilon=0.3)  # the price is no fantasy
    half = [laws(recipe, data, noise=0.5) for data in ([*OTHERS, (1.0, 1.0)], OTHERS)]
    assert apart(*half, 0.3) > recipe.privacy.delta(epsilon=0.3)
    assert recipe.privacy <= published
    if steps == 12:
        assert recipe.privacy.delta(epsilon=0.3) < 0.75 * published.delta(epsilon=0.3)


def test_it_holds_together_with_another_release():
    both, truth = LINE.privacy + ts.pure_dp(epsilon=1), 1 / (1 + math.exp(-1))
    pair = laws(LINE, [*OTHERS, (1.0, 1.0)]), laws(LINE, OTHERS)
    for p, q in (pair, pair[::-1]):
        joint = np.concatenate([p * truth, p * (1 - truth)]), np.concatenate([q * (1 - truth), q * truth])
        for epsilon in (0.5, 1.0, 1.4):
            assert stick(*joint, epsilon) <= 1.0005 * both.delta(epsilon=epsilon) + 1e-9


def test_a_twin_that_claims_to_forget_faster_than_it_does_is_caught():
    p, q = (laws(LINE, found) for found in ([*OTHERS, (1.0, 1.0)], OTHERS))
    claimed = ts.last_iterate(steps=LINE.steps, contraction=LINE.contraction / 4, sigma=LINE.sigma)
    assert apart(p, q, 0.3) > claimed.delta(epsilon=0.3)


def test_releases_follow_that_law():
    source = SeededSource(3)
    X, y = np.array([[1.0]] * 4 + [[0.7]]), [0, 0, 0, 0, 1]
    drawn = np.sort([LINE.train(given(X, y), source)["theta"][0, 0] for _ in range(250)])
    records = [*OTHERS, (0.7, 1.0)]
    places = (np.arange(250) + 0.5) / 250
    deviation = LINE.sigma * LINE.move
    half = 4.0 + 9.0 * deviation / math.sqrt(1.0 - LINE.contraction**2)
    assert (
        np.max(np.abs(np.interp(drawn, np.linspace(-half, half, 1201), np.cumsum(laws(LINE, records))) - places)) < 0.13
    )
    thin = 4.0 + 9.0 * 0.5 * deviation / math.sqrt(1.0 - LINE.contraction**2)
    wrong = np.interp(drawn, np.linspace(-thin, thin, 1201), np.cumsum(laws(LINE, records, noise=0.5)))
    assert np.max(np.abs(wrong - places)) > 0.13


@pytest.mark.parametrize(("classes", "softmax"), [((0, 1), False), ((0, 1, 2), False), ((0, 1, 2), True)])
def test_on_the_lattice_a_step_contracts_and_one_row_moves_it_by_what_is_priced(classes, softmax):
    rows = Rows(1.0, True, classes)
    recipe = LastIterate(rows, 5.0, 50, softmax, 2.0, 40, "add_remove")
    random = np.random.default_rng(2)
    values, places = rows.extended(random.normal(size=(40, 3))), random.integers(0, len(classes), 40)
    slack = recipe.slack(4) / recipe.lattice
    assert slack < 1e-3 * recipe.move / recipe.lattice
    whole, found = recipe.objectives(values, places), 0.0
    for gone in range(40):
        kept = np.arange(40) != gone
        fewer = recipe.objectives(values[kept], places[kept])
        wide = 10.0 ** random.uniform(-3, 1)
        one, two = (np.rint(random.normal(size=4 * rows.problems) * wide / recipe.lattice) for _ in range(2))
        one, two = one.astype(np.int64), two.astype(np.int64)
        here, there = recipe.stepped(whole, one), recipe.stepped(whole, two)
        assert np.linalg.norm(here - there) <= recipe.contraction * np.linalg.norm(one - two) + slack
        moved = np.linalg.norm(here - recipe.stepped(fewer, one)) * recipe.lattice
        assert moved <= recipe.move + recipe.slack(4)
        found = max(found, moved / recipe.move)
    assert found > 0.5
    # Half the move, as a broken twin would price it, is exceeded.
    assert found * recipe.move > 0.5 * recipe.move + recipe.slack(4)


def test_it_is_used_where_a_strong_ridge_makes_it_pay_and_priced_as_asked():
    common = {"delta": 1e-6, "row_norm": 1.0, "classes": [0, 1], "solver": "noisy_gd", "most_rows": 500}
    weak, strong = (LogisticRegression(1.0, **common, regularization=r) for r in (1.0, 30.0))
    assert isinstance(weak._recipe(), NoisyDescent)
    assert isinstance(strong._recipe(), LastIterate)
    assert strong._recipe().sigma < 0.5 * weak._recipe().sigma
    for model in (strong, LogisticRegression(1.0, **common, regularization=30.0, rows_per_unit=3, adjacency="replace")):
        assert 0.999 <= model.privacy.epsilon(delta=1e-6) <= 1.0
    more = LogisticRegression(1.0, **{**common, "most_rows": 10**6}, regularization=30.0)
    assert isinstance(more._recipe(), NoisyDescent)  # so short a step forgets nothing


def test_it_learns_and_refuses_what_rounding_would_spoil():
    random = np.random.default_rng(1)
    X = random.normal(size=(400, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (X @ [2.0, -1.0, 0.0, 1.0, 0.5] > 0).astype(int)
    common = {"delta": 1e-6, "row_norm": 1.0, "solver": "noisy_gd", "regularization": 30.0, "most_rows": 500}
    assert LogisticRegression(1.0, **common, classes=[0, 1]).fit(X, y).score(X, y, public=True) > 0.85
    three = LogisticRegression(8.0, **{**common, "regularization": 300.0}, classes=[0, 1, 2], multiclass="softmax")
    assert isinstance(three._recipe(), LastIterate)
    assert three.fit(X, X[:, :3].argmax(1)).score(X, X[:, :3].argmax(1), public=True) > 0.6
    odd = np.array([[np.nan] * 5, [1e308] * 5, [5e-324] * 5])
    assert np.isfinite(LogisticRegression(1.0, **common, classes=[0, 1]).fit(odd, [0, 1, 7]).coef_).all()
    with pytest.raises(InvalidInput, match="most_rows"):
        replace(LINE, most_rows=2**31, ridge=2.0**31).ready(10_000)
