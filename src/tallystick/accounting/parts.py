"""Lower bounds from parts: a composition reveals at least what its part does (docs/theory/certification.md)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tallystick.accounting.adjacency import Direction
from tallystick.accounting.leaf import Leaf, merged

Terms = tuple[tuple[Leaf, int], ...]

MANY_TERMS = 64
"""Different terms from which on the grid gets coarser with each term: then lower bounds of parts are asked for too."""

FEWEST_TERMS = 4
"""Terms of the smallest part that is asked for."""

WIDE = 0.01
"""Relative width of bounds from which on the lower bound of a part may be better."""

PART = 0.75
"""Share of the terms that the next smaller part has."""


def best_of_parts(terms: Terms, direction: Direction, lower: Callable[[Terms], float]) -> float:
    """The largest lower bound of the strongest terms, fewer and fewer.

    The grids of smaller parts are finer, and smaller parts reveal less: the best of them is in between.
    """
    ordered, best = strongest_first(terms, direction), 0.0
    size = int(PART * len(terms))
    while size >= FEWEST_TERMS:
        best = max(best, lower(merged(ordered[:size])))
        size = int(PART * size)
    return best


def strongest_first(terms: Terms, direction: Direction) -> Terms:
    """The terms in falling order of log E[e^L]; no bound rests on this order."""

    def strength(term: tuple[Leaf, int]) -> float:
        leaf, count = term
        if leaf.gaussian_mu is not None:
            return count * leaf.gaussian_mu**2
        level = float(leaf.pair(direction).lower.log_mgf(np.ones(1))[0])
        return count * level if math.isfinite(level) else math.inf

    return tuple(sorted(terms, key=strength, reverse=True))
