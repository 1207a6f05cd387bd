"""Linear estimates from independent noisy numbers: the best weights, and how far such an estimate is off.

Everything that combines released numbers uses this file: ``combine`` and ``consistent_table``, the columns of a table,
and tables that are made to add up. By Gauss and Markov no unbiased linear estimate has a smaller variance than weighted
least squares. All of it is post-processing (docs/theory/inference.md, docs/theory/query-consistent.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tallystick.inference.noise import Floats


def half_width(deviations: float, errors: Iterable[float], steps: float = 0.0) -> float:
    """Return the half-width of the interval of a sum of independent noisy numbers.

    ``deviations`` is how many standard deviations an interval of this confidence has to either side, ``errors`` are
    the standard deviations of the terms, and ``steps`` pays for noise that lies on a lattice.

    >>> half_width(2.0, (3.0, 4.0), 0.5)
    10.5
    """
    return deviations * math.hypot(*errors) + steps


def least_squares(design: Floats, values: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Return the best linear unbiased estimate and its covariance, for independent numbers of these variances."""
    weights = 1.0 / variances
    inverse = np.linalg.inv(design.T @ (weights[:, None] * design))
    return np.asarray(inverse @ (design.T @ (weights * values))), np.asarray(inverse)


def tree_leaves(levels: list[Floats]) -> Floats:
    """Return the least-squares leaf counts of a binary tree from its noisy levels, the top one first.

    All nodes have the same variance. Level i has twice as many nodes as level i - 1, for each group in a row of its
    own. Parents then equal the sum of their children (Hay, Rastogi, Miklau and Suciu 2010).

    >>> tree_leaves([np.array([[3.0, 3.0]]), np.array([[1.0, 2.0, 3.0, 0.0]])]).tolist()
    [[1.0, 2.0, 3.0, 0.0]]
    """
    # Upwards: the best estimate of a node from itself and its subtree. With k levels in the subtree, the sum of the
    # two children has 2^(k-1) / (2^(k-1) - 1) times the variance of the node, and each weighs by one over its variance.
    best = [levels[-1]]
    for k, level in enumerate(reversed(levels[:-1]), start=2):
        own = 2.0 ** (k - 1) / (2.0**k - 1.0)
        best.append(own * level + (1.0 - own) * _pairs(best[-1]))
    # Downwards: what a parent knows better is shared equally by its two children. There is no root above the top level.
    settled = best.pop()
    for level in reversed(best):
        gap = settled - _pairs(level)
        settled = level + np.repeat(gap, 2, axis=1) / 2.0
    return settled


def _pairs(level: Floats) -> Floats:
    """Return the sums of neighbours: of the two children of each node."""
    return np.asarray(level[:, 0::2] + level[:, 1::2])


def nonnegative(values: Floats) -> Floats:
    """Return the nearest numbers that are not negative and have the same sum (0 where that is negative).

    Kuhn and Tucker: x_i = max(0, y_i - t), with t such that the sum is right.

    >>> nonnegative(np.array([5.0, 3.0, -2.0])).tolist()
    [4.0, 2.0, 0.0]
    """
    total = float(values.sum())
    if total <= 0.0:
        return np.zeros_like(values)
    falling = np.sort(values)[::-1]
    # with the k largest kept, t = (their sum - total) / k; the right k is the last whose smallest stays positive
    levels = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    kept = int(np.flatnonzero(falling > levels)[-1])
    return np.asarray(np.maximum(0.0, values - levels[kept]))


def whole(values: Floats) -> Floats:
    """Return whole numbers whose sum is that of the values, rounded: the largest fractions are rounded up.

    >>> whole(np.array([1.6, 1.6, 0.8])).tolist()
    [2.0, 1.0, 1.0]
    """
    floor = np.floor(values)
    more = round(float(values.sum()) - float(floor.sum()))
    floor[np.argsort(floor - values, kind="stable")[:more]] += 1.0
    return floor
