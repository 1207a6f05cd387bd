"""The one core of linear estimates gives what each of its users computed before they shared it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tallystick.inference.combined import combine, consistent_table
from tallystick.inference.linear import half_width, least_squares, nonnegative, tree_leaves, whole
from tallystick.inference.noise import Noise
from tallystick.inference.released import Released
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian
from tallystick.mechanisms.noise.laplace import DiscreteLaplace
from tallystick.tables.estimates import Noisy, shifted_total
from tallystick.tables.parts import level_sizes

SEEDS = range(20)
CLOSE = 1e-12


def _old_tree(nodes: Any, height: int) -> Any:
    """Leaf counts as ``tables.estimates`` computed them."""
    starts = np.concatenate([[0], np.cumsum(level_sizes(height))])
    levels = [nodes[:, starts[i] : starts[i + 1]] for i in range(height)]
    best = [levels[-1]]
    for i in range(height - 2, -1, -1):
        k = height - i
        children = best[0][:, 0::2] + best[0][:, 1::2]
        own = (2.0**k - 2.0 ** (k - 1)) / (2.0**k - 1.0)
        best.insert(0, own * levels[i] + (1.0 - own) * children)
    settled = best[0]
    for i in range(1, height):
        gap = settled - (best[i][:, 0::2] + best[i][:, 1::2])
        settled = best[i] + np.repeat(gap, 2, axis=1) / 2.0
    return settled


def _old_nonnegative(values: Any) -> Any:
    """Nearest cells as ``tables.consistent`` computed them."""
    total = float(values.sum())
    if total <= 0.0:
        return np.zeros_like(values)
    falling = np.sort(values)[::-1]
    levels = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    kept = int(np.flatnonzero(falling > levels)[-1])
    return np.maximum(0.0, values - levels[kept])


def _old_rounded(values: Any) -> Any:
    """Whole cells as ``tables.consistent`` computed them."""
    floor = np.floor(values)
    more = round(float(values.sum()) - float(floor.sum()))
    floor[np.argsort(floor - values, kind="stable")[:more]] += 1.0
    return floor


def _releases(random: np.random.Generator, count: int) -> list[Released]:
    scales = random.uniform(0.5, 60.0, count)
    noises = [Noise.gaussian(sigma=scale) if i % 2 else Noise.laplace(scale=scale) for i, scale in enumerate(scales)]
    return [
        Released(float(round(value)), noise) for value, noise in zip(random.normal(90, 50, count), noises, strict=True)
    ]


def _old_combined(design: Any, answers: list[Released]) -> tuple[Any, Any, list[float]]:
    """Estimates, standard deviations and half steps as ``inference.combined`` computed them."""
    values = np.array([one.value for one in answers])
    variances = np.array([max(one.noise.deviation, 1e-150) ** 2 for one in answers])
    weights = 1.0 / variances
    inverse = np.linalg.inv(design.T @ (weights[:, None] * design))
    estimates = inverse @ (design.T @ (weights * values))
    shares = inverse @ design.T / variances
    steps = np.array([one.noise.step for one in answers])
    half_steps = [float(np.max(np.abs(share) * steps)) / 2.0 for share in shares]
    return estimates, [math.sqrt(inverse[k, k]) for k in range(len(inverse))], half_steps


@pytest.mark.parametrize("height", range(1, 11))
def test_leaves_of_a_tree_are_those_of_the_formula_of_tables_to_the_bit(height: int) -> None:
    random = np.random.default_rng(height)
    sizes = level_sizes(height)
    nodes = np.rint(random.normal(40, 30, (7, sum(sizes)))) * 2.0**-16
    levels = np.split(nodes, np.cumsum(sizes)[:-1], axis=1)
    assert tree_leaves(levels).tolist() == _old_tree(nodes, height).tolist()


def test_leaves_of_a_tree_are_those_of_general_least_squares() -> None:
    """Every node is a row of the design: ones at the leaves below it."""
    height = 4
    levels = [np.kron(np.eye(size), np.ones((1, 2**height // size))) for size in level_sizes(height)]
    design = np.concatenate(levels)
    nodes = np.random.default_rng(3).normal(50, 20, len(design))
    estimates, _ = least_squares(design, nodes, np.ones(len(design)))
    split = np.split(nodes[None, :], np.cumsum(level_sizes(height))[:-1], axis=1)
    assert tree_leaves(split)[0] == pytest.approx(estimates, rel=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_cells_that_add_up_are_those_of_the_formula_of_tables_to_the_bit(seed: int) -> None:
    values = np.random.default_rng(seed).normal(seed - 4.0, 9.0, 60)
    near = nonnegative(values)
    assert near.tolist() == _old_nonnegative(values).tolist()
    assert whole(near).tolist() == _old_rounded(near).tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_combination_is_that_of_the_formula_of_inference(seed: int) -> None:
    random = np.random.default_rng(seed)
    answers = _releases(random, 2 + seed % 5)
    both = combine(*answers)
    estimates, deviations, half_steps = _old_combined(np.ones((len(answers), 1)), answers)
    assert both.value == pytest.approx(estimates[0], rel=CLOSE)
    assert both.deviation == pytest.approx(deviations[0], rel=CLOSE)
    assert both.half_step == pytest.approx(half_steps[0], rel=CLOSE)
    half = max(one.noise.deviations(0.95) for one in answers) * deviations[0] + half_steps[0]
    interval = both.noise_interval()
    assert (interval.upper - interval.lower) / 2 == pytest.approx(half, rel=CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_table_with_margins_is_that_of_the_formula_of_inference(seed: int) -> None:
    random = np.random.default_rng(seed)
    answers = _releases(random, 6 + 2 + 3 + 1)
    table, rows, columns, total = [answers[:3], answers[3:6]], answers[6:8], answers[8:11], answers[11]
    better = consistent_table(table, rows=rows, columns=columns, total=total)
    cells = np.arange(6).reshape(2, 3)
    design = np.zeros((12, 6))
    for line, members in enumerate([*range(6), *cells, *cells.T, cells]):
        design[line, np.ravel(members)] = 1.0
    estimates, deviations, half_steps = _old_combined(design, answers)
    flat = [cell for row in better for cell in row]
    assert [cell.value for cell in flat] == pytest.approx(list(estimates), rel=CLOSE)
    assert [cell.deviation for cell in flat] == pytest.approx(deviations, rel=CLOSE)
    assert [cell.half_step for cell in flat] == pytest.approx(half_steps, rel=CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_half_widths_are_those_of_the_formulas_of_tables(seed: int) -> None:
    random = np.random.default_rng(seed)
    law = DiscreteGaussian(float(random.uniform(1, 90))) if seed % 2 else DiscreteLaplace(float(random.uniform(1, 90)))
    total, present = (Noisy(random.integers(-500, 500, (5, 1)), law, 2.0 ** -random.integers(0, 9)) for _ in range(2))
    lower, deviations = float(random.uniform(-40, 40)), law.deviations(0.95)
    spread = math.hypot(total.deviation, lower * present.deviation)
    half = deviations * spread + 0.5 * (total.scale + abs(lower) * present.scale)
    value = total.column + lower * present.column
    made = shifted_total(total, present, lower, 0.95)
    assert made.lower.tolist() == (value - half).tolist()
    assert made.upper.tolist() == (value + half).tolist()
    many = deviations * total.deviation * math.sqrt(seed + 2)  # a margin of a table that adds up
    assert half_width(deviations, (total.deviation * math.sqrt(seed + 2),)) == pytest.approx(many, rel=CLOSE)
    sums = deviations * math.hypot(total.deviation, present.deviation) + total.scale  # rows over the caps and the rest
    assert half_width(deviations, (total.deviation, present.deviation), total.scale) == sums
