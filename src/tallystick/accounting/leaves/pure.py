"""(epsilon, delta)-differential privacy itself, as the pair of Kairouz, Oh and Viswanath (2015)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tallystick.accounting.adjacency import Direction
from tallystick.accounting.leaf import Leaf
from tallystick.accounting.pair import DominatingPair
from tallystick.numerics.law import Law


def two_point_law(epsilon: float, delta: float = 0.0) -> Law:
    """Randomized response of strength epsilon on the part 1 - delta; mass delta gives everything away."""
    lie = -float(np.logaddexp(0.0, epsilon))
    kept = math.log1p(-delta) if delta < 1.0 else -math.inf
    if delta == 1.0 or epsilon == 0.0:
        atoms, logs = (np.zeros(0), np.zeros(0)) if delta == 1.0 else (np.zeros(1), np.array([kept]))
        return Law(atoms, logs, infinity=delta, zero=delta, lattice=1.0)
    return Law(
        np.array([-epsilon, epsilon]),
        np.array([lie, lie + epsilon]) + kept,
        infinity=delta,
        zero=delta,
        lattice=2.0 * epsilon,
    )


@dataclass(frozen=True, slots=True)
class PureDp(Leaf):
    """Any epsilon-differentially private mechanism; binary randomized response dominates them all."""

    kind: ClassVar[str] = "pure_dp"
    epsilon: float

    def pair(self, direction: Direction) -> DominatingPair:
        return DominatingPair.exact(two_point_law(self.epsilon))

    def replaced(self) -> Leaf:
        return PureDp(2.0 * self.epsilon)


@dataclass(frozen=True, slots=True)
class ApproxDp(Leaf):
    """Any (epsilon, delta)-differentially private mechanism."""

    kind: ClassVar[str] = "approx_dp"
    epsilon: float
    delta: float

    def pair(self, direction: Direction) -> DominatingPair:
        return DominatingPair.exact(two_point_law(self.epsilon, self.delta))

    def replaced(self) -> Leaf:
        grown = (1.0 + math.exp(self.epsilon)) * self.delta if self.epsilon < 700.0 else 1.0
        return ApproxDp(2.0 * self.epsilon, min(1.0, grown * (1.0 + 1e-15)))
