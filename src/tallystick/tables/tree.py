"""Counts along a line, from a noisy binary tree: consistent, and read at any quantile.

The tree has levels of 2, 4, ..., 2^h nodes, all with the same noise. Least squares makes parents equal the sum of
their children (Hay, Rastogi, Miklau and Suciu 2010); by Gauss and Markov no unbiased estimate of a prefix count has a
smaller variance, in particular not the sum of at most h nodes, so h times the variance of a node bounds it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tallystick.tables.parts import level_sizes

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def consistent(nodes: Floats, height: int) -> Floats:
    """Least-squares leaf counts from noisy levels of equal variance.

    >>> consistent(np.array([[3.0, 3.0, 1.0, 2.0, 3.0, 0.0]]), 2).tolist()
    [[1.0, 2.0, 3.0, 0.0]]
    """
    sizes = level_sizes(height)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    levels = [nodes[:, starts[i] : starts[i + 1]] for i in range(height)]
    # Upwards: the best estimate of a node from itself and its subtree; k levels below and with it.
    best = [levels[-1]]
    for i in range(height - 2, -1, -1):
        k = height - i
        children = best[0][:, 0::2] + best[0][:, 1::2]
        own = (2.0**k - 2.0 ** (k - 1)) / (2.0**k - 1.0)
        best.insert(0, own * levels[i] + (1.0 - own) * children)
    # Downwards: what the parent knows better is shared by its two children. There is no noisy root above level 0.
    settled = best[0]
    for i in range(1, height):
        gap = settled - (best[i][:, 0::2] + best[i][:, 1::2])
        settled = best[i] + np.repeat(gap, 2, axis=1) / 2.0
    return settled


def quantile_positions(leaves: Floats, p: float, margin: float) -> tuple[NDArray[np.int64], Integers, Integers]:
    """For each group the first leaf at which a share ``p`` is reached, and the first and last that noise allows.

    The first leaf whose running count reaches p * total is monotone in p. ``margin`` is the half-width of
    running count - p * total; true leaves have it >= 0 at the leaf and < 0 before, hence the two ends.
    """
    running = np.cumsum(leaves, axis=1)
    total = running[:, -1:]
    rest = running - p * total
    last = leaves.shape[1] - 1

    def first(holds: NDArray[np.bool_]) -> Integers:
        found: Integers = np.where(holds.any(axis=1), holds.argmax(axis=1), last).astype(np.int64)
        return found

    reached = first(rest >= 0)
    lower = first(rest > -margin)
    before = np.concatenate([np.full((len(leaves), 1), -np.inf), rest[:, :-1]], axis=1)
    upper = last - first((before < margin)[:, ::-1])
    return reached, np.minimum(lower, reached), np.maximum(upper, reached)
