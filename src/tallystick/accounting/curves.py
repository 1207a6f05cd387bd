"""What the Renyi route needs of single leaves: their pairs, their divergences, and curves summed to one pair."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tallystick.accounting.adjacency import Direction
from tallystick.accounting.leaf import Leaf
from tallystick.accounting.leaves.renyi import renyi_pair
from tallystick.accounting.pair import DUST, DominatingPair
from tallystick.numerics.law import UNIT, Array, Law
from tallystick.numerics.lost import lost_above

Terms = tuple[tuple[Leaf, int], ...]

MASS_ULPS = 256.0
"""Rounding and quadrature error of a law's total, in units of UNIT: what a log-mgf may be too small by."""


@lru_cache(maxsize=1024)
def pair_of(leaf: Leaf, direction: Direction) -> DominatingPair:
    """A leaf's pair, computed once; engines cache by the laws in it."""
    return leaf.pair(direction)


def leaf_renyi(leaf: Leaf, direction: Direction, order: float) -> float:
    """Upper bound for one leaf. Divergence grows with the order, so orders just above 1 take the value at 1 + 1e-6."""
    probe = np.array([max(order - 1.0, 1e-6)])
    theta = float(probe[0])
    bound = leaf.log_mgf_bound(probe)
    curve = math.inf if bound is None else float(bound[0] / theta)
    if leaf.only_renyi:
        return curve if getattr(leaf, "delta", 0.0) == 0.0 else math.inf
    law = pair_of(leaf, direction).upper
    own = _law_renyi(law, theta, order == 1.0) if law.infinity <= DUST and theta <= law.orders else math.inf
    largest = leaf.ceiling(direction) if law.infinity > 0.0 else min(law.highest_above, leaf.ceiling(direction))
    return min(own, curve, largest, leaf.renyi_above(direction, theta + 1.0) if math.isinf(own) else math.inf)


def _law_renyi(law: Law, theta: float, mean: bool) -> float:
    """The divergence by integrating the law: its log-mgf over theta, or its mean."""
    if theta <= 0.1 and theta * max(abs(law.lowest), abs(law.highest)) < 30.0:
        # Losses of both signs cancel. Against total mass one only their gains are summed, so the rounding of the
        # masses counts against the mean *size* of a gain and not against one.
        values, logs = law.nodes()
        weights = np.exp(logs)
        gains = values if mean else np.expm1(theta * values)
        # The exponential of a log-density errs by the rounding of that, which is of the size of the losses.
        error = (MASS_ULPS + abs(law.highest) + abs(law.lowest)) * UNIT
        total = float(np.dot(weights, gains)) + error * float(np.dot(weights, np.abs(gains)))
        return max(0.0, total if mean else math.log1p(total) / theta)
    return (float(law.log_mgf(np.array([theta]))[0]) + MASS_ULPS * UNIT) / theta


@lru_cache(maxsize=64)
def curve_pair(curves: Terms) -> DominatingPair:
    return renyi_pair(_CurveSum(curves), lost_above([(getattr(leaf, "delta", 0.0), count) for leaf, count in curves]))


@dataclass(frozen=True)
class _CurveSum(Leaf):
    """The sum of Renyi-only leaves, as one curve."""

    curves: Terms

    def pair(self, direction: Direction) -> DominatingPair:
        return curve_pair(self.curves)

    def log_mgf_bound(self, theta: Array) -> Array:
        total = np.zeros(theta.shape)
        for leaf, count in self.curves:
            bound = leaf.log_mgf_bound(theta)
            assert bound is not None
            total = total + count * bound
        return total
