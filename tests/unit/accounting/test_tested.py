"""Mechanisms that test first, and draws with replacement: small ones, their whole laws listed or integrated."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import tallystick as ts

LEVELS = (0.0, 0.3, 1.0, 2.0)


def below(gap: float, scale: float) -> float:
    return 0.5 * math.exp(-gap / scale) if gap >= 0 else 1 - 0.5 * math.exp(gap / scale)


def released(data: tuple[int, ...], scale: float, delta: float, bound: float) -> tuple[float, float]:
    """Chance of a pass, and the statistic: 10 if anybody is a 1 and nobody a 2, else the number of people."""

    def statistic(people: tuple[int, ...]) -> float:
        return 10.0 if 1 in people and 2 not in people else float(len(people))

    def local(people: tuple[int, ...]) -> float:
        more = [(*people, new) for new in (0, 1, 2)]
        less = [people[:i] + people[i + 1 :] for i in range(len(people))]
        return max(abs(statistic(people) - statistic(other)) for other in more + less)

    reached, distance = {tuple(sorted(data))}, 0
    while distance < 4 and not any(local(people) > bound for people in reached):
        more = {tuple(sorted((*people, new))) for people in reached for new in (0, 1, 2)}
        less = {people[:i] + people[i + 1 :] for people in reached for i in range(len(people))}
        reached, distance = more | less, distance + 1
    return below(scale * math.log(1 / (2 * delta)) - distance, scale), statistic(data)


@pytest.mark.parametrize("delta", [0.3, 0.01])
def test_every_pair_of_neighbours_of_a_tested_release(delta: float) -> None:
    scale, noise = 1.5, 2.0
    loss = ts.propose_test_release(ts.gaussian(sigma=noise), scale=scale, delta=delta)
    x, cell = np.linspace(-20.0, 30.0, 8001, retstep=True)
    worst = 0.0
    for size in range(4):
        for data in product((0, 1, 2), repeat=size):
            for new in (0, 1, 2):
                laws = []
                for people in (data, (*data, new)):
                    chance, value = released(people, scale, delta, 1.0)
                    laws.append((1 - chance, chance * np.exp(-0.5 * ((x - value) / noise) ** 2) / noise / 2.5066282746))
                for (no, yes), (other_no, other_yes) in (laws, laws[::-1]):
                    for epsilon in LEVELS:
                        a = math.exp(epsilon)
                        found = max(0.0, no - a * other_no) + float(np.sum(np.maximum(yes - a * other_yes, 0.0))) * cell
                        claim = loss.delta(epsilon=epsilon)
                        assert found <= claim * (1 + 1e-6) + 1e-9
                        worst = max(worst, found / claim)
    assert worst > 0.5


def test_sparse_vector_is_what_the_mechanism_says() -> None:
    for monotone in (False, True):
        alarm = ts.select.above_threshold(threshold=0, epsilon=1, hits=4, monotone=monotone)
        loss = ts.sparse_vector(
            threshold_scale=float(alarm.threshold_scale),
            answer_scale=float(alarm.answer_scale),
            hits=4,
            monotone=monotone,
        )
        assert loss.epsilon(delta=0) == pytest.approx(alarm.privacy.epsilon(delta=0), rel=1e-12)


@pytest.mark.parametrize(("draws", "population"), [(1, 2), (2, 3), (3, 3), (4, 5)])
def test_draws_with_replacement_can_be_listed(draws: int, population: int) -> None:
    """Numbers in [-1, 1] with N(0, 2) noise on the sum of the draws: every sequence of draws, one number changed."""
    loss = ts.gaussian(sigma=1, adjacency="replace").subset(batch=draws, population=population, replacement=True)
    x, cell = np.linspace(-20.0, 20.0, 8001, retstep=True)

    def law(values: list[float]) -> np.ndarray:
        sums = [sum(batch) for batch in product(values, repeat=draws)]
        return sum(np.exp(-0.5 * ((x - s) / 2.0) ** 2) / 2.0 / 2.5066282746 for s in sums) / len(sums)

    reached = 0.0
    for others in (-1.0, 0.0, 1.0):
        for one, two in ((1.0, -1.0), (1.0, 0.0), (-1.0, 1.0)):
            p, q = (law([value] + [others] * (population - 1)) for value in (one, two))
            for epsilon in LEVELS:
                found = float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0))) * cell
                assert found <= loss.delta(epsilon=epsilon) * (1 + 1e-6) + 1e-12
                reached = max(reached, found / loss.delta(epsilon=0.0))
    assert reached > 0.6


def test_a_draw_is_a_subset_of_one() -> None:
    one = ts.gaussian(sigma=1, adjacency="replace")
    drawn = one.subset(batch=1, population=10, replacement=True)
    assert drawn.epsilon(delta=1e-5) == pytest.approx(one.subset(batch=1, population=10).epsilon(delta=1e-5), rel=1e-6)


@pytest.mark.parametrize(
    "asked",
    [
        lambda: ts.laplace(scale=1, adjacency="replace").subset(batch=1, population=10, replacement=True),
        lambda: ts.gaussian(sigma=1).subset(batch=1, population=10, replacement=True),
        lambda: ts.gaussian(sigma=1, adjacency="replace").subset(batch=1, population=10, replacement="yes"),
        lambda: ts.gaussian(sigma=1, adjacency="replace").subset(batch=2000, population=10, replacement=True),
        lambda: ts.sparse_vector(threshold_scale=1, answer_scale=1, hits=0),
        lambda: ts.sparse_vector(threshold_scale=0, answer_scale=1),
        lambda: ts.propose_test_release(ts.gdp(mu=1, adjacency="replace"), scale=1, delta=0.1),
        lambda: ts.propose_test_release(ts.gdp(mu=1), scale=1, delta=0.0),
    ],
)
def test_what_has_no_price_is_refused(asked: object) -> None:
    with pytest.raises(ts.errors.InvalidInput):
        asked()  # type: ignore[operator]
