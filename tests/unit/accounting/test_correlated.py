"""Correlated noise: no pattern and no vectors move it further than is claimed; where it is exact, one does."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tallystick as ts
from tallystick.accounting.leaves.correlated import matrix_sensitivity, toeplitz_sensitivity, tree_sensitivity


def toeplitz(column: list[float], steps: int) -> np.ndarray:
    whole = np.zeros(steps)
    whole[: len(column)] = column
    return np.array([[whole[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])


def tree(steps: int) -> np.ndarray:
    sizes = [2**level for level in range((steps - 1).bit_length() + 1)]
    starts = [(size, start) for size in sizes for start in range(0, steps, size)]
    return np.array([[float(start <= j < start + size) for j in range(steps)] for size, start in starts])


def farthest(matrix: np.ndarray, uses: int, separation: int, rng: np.random.Generator) -> float:
    """The largest move of random patterns of random vectors in the plane, and of the tightest pattern of ones."""
    steps, most = matrix.shape[1], 0.0
    tight = [use * separation for use in range(uses) if use * separation < steps]
    chosen = [(tight, np.ones((len(tight), 1)))]
    for _ in range(300):
        pattern: list[int] = []
        for step in sorted(rng.choice(steps, size=min(steps, 4 * uses), replace=False).tolist()):
            if len(pattern) < uses and (not pattern or step - pattern[-1] >= separation):
                pattern.append(step)
        turns = rng.uniform(0, 2 * math.pi, len(pattern)) * rng.choice([0.0, 0.02, 1.0])
        chosen.append((pattern, np.stack([np.cos(turns), np.sin(turns)], axis=1)))
    for pattern, vectors in chosen:
        most = max(most, float(np.linalg.norm(matrix[:, pattern] @ vectors)))
    return most


@pytest.mark.parametrize(("uses", "separation"), [(1, 1), (3, 5), (6, 2), (4, 16), (2, 1)])
def test_no_pattern_moves_further(uses: int, separation: int) -> None:
    rng = np.random.default_rng(5)
    root = np.concatenate([[1.0], np.cumprod(1.0 - 0.5 / np.arange(1.0, 20))]).tolist()
    for column in (root, root[:4], [1.0, -0.5, 0.25], [0.2, 1.0, 0.1]):
        matrix = toeplitz(column, 40)
        claim = toeplitz_sensitivity(tuple(column), 40, min(uses, 1 + 39 // separation), separation)
        reached = farthest(matrix, uses, separation, rng)
        assert reached <= claim
        assert reached <= matrix_sensitivity(matrix, uses, separation)
        if column == root[: len(column)]:
            assert claim == pytest.approx(reached, rel=1e-9)
    claim = tree_sensitivity(40, min(uses, 1 + 39 // separation), separation)
    reached = farthest(tree(40), uses, separation, rng)
    assert reached <= claim
    assert reached <= matrix_sensitivity(tree(40), uses, separation)
    assert claim <= 1.35 * reached


def test_independent_noise_is_the_identity() -> None:
    for loss in (
        ts.correlated(sigma=3, steps=50, coefficients=[1], uses=5, separation=7),
        ts.correlated(sigma=3, matrix=np.eye(50), uses=5, separation=7),
    ):
        assert loss.epsilon(delta=1e-6) == pytest.approx((5 * ts.gaussian(sigma=3)).epsilon(delta=1e-6), rel=1e-9)


def test_the_trainers_band_costs_what_independent_noise_costs() -> None:
    torch_room = pytest.importorskip("tallystick.learn.torch.correlated")
    band, turns, noise = 25, 8, 1.5
    weights = torch_room.coefficients(band)
    size = math.sqrt(float(np.sum(weights**2)))
    loss = ts.correlated(sigma=noise * size, steps=band * turns, coefficients=weights, uses=turns, separation=band)
    assert loss.gdp_bound() == pytest.approx(math.sqrt(turns) / noise, rel=1e-9)


@pytest.mark.parametrize(
    "bad",
    [
        {"steps": 0}, {"steps": 4, "coefficients": []}, {"steps": 4, "coefficients": [0, 1]}, {"coefficients": [1]},
        {"steps": 4, "uses": 0}, {"steps": 4, "separation": 0}, {"matrix": [[1, 1], [0, 1]]}, {"matrix": [1, 2]},
        {"matrix": [[1, math.nan]]}, {"matrix": [[1]], "steps": 1}, {"steps": 4, "coefficients": [1e7]},
        {"steps": 2, "coefficients": [1, 1, 1]}, {"matrix": "tree"},
    ],
)  # fmt: skip
def test_what_is_no_strategy_is_refused(bad: dict) -> None:
    with pytest.raises(ts.errors.InvalidInput):
        ts.correlated(sigma=1, **bad)


def test_a_strategy_that_releases_nothing_costs_nothing() -> None:
    assert ts.correlated(sigma=1, matrix=[[0.0, 0.0]]) == ts.no_loss()
