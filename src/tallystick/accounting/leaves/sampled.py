"""Amplification by sampling, as maps of pairs: Poisson sampling and fixed-size subsets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tallystick.accounting.adjacency import Direction
from tallystick.accounting.leaf import Leaf, shown
from tallystick.accounting.pair import DominatingPair, joined_at_zero


@dataclass(frozen=True, slots=True)
class Sampled(Leaf):
    """Each unit takes part independently with probability ``rate`` (Poisson sampling), add/remove neighbours.

    REMOVE pair (P, Q) -> ((1-q) Q + q P, Q); ADD pair (P, Q) -> (P, (1-q) P + q Q)
    (Zhu, Dong, Wang 2022; the notes print it wrongly, errata 2 and 3).
    """

    kind: ClassVar[str] = "sampled"
    base: Leaf
    rate: float

    def pair(self, direction: Direction) -> DominatingPair:
        mixed = self.base.pair(Direction.REMOVE).mixed(self.rate)
        return mixed if direction is Direction.REMOVE else mixed.swapped()

    @property
    def symmetric(self) -> bool:
        return False

    @property
    def exact_alone(self) -> bool:
        """A sampled step's delta is q times the step's own at another epsilon, so it is attained where that is."""
        return self.base.exact_alone

    def replaced(self) -> Leaf | None:
        return self.base.sampled_replaced(self.rate)

    def ceiling(self, direction: Direction) -> float:
        """A unit that stays out with probability 1 - q is missed at most 1/(1 - q) times as often."""
        return math.inf if direction is Direction.REMOVE else -math.log1p(-self.rate) * (1.0 + 1e-15)

    def __str__(self) -> str:
        return f"{self.base}.sampled(rate={shown(self.rate)})"


@dataclass(frozen=True, slots=True)
class Subset(Leaf):
    """A uniformly random subset of ``batch`` of ``population`` units, replace-one neighbours.

    C_q(f) = hull(min(f_q, f_q^{-1})), f_q = q f + (1 - q) Id, q = batch/population, taken **per step**
    (Dong, Roth, Su 2019, Theorem 4.2; errata 4). For a symmetric f the two halves meet at slope -1, so the
    pair is the mixture above loss 0, its mirror below, and an atom at 0.
    """

    kind: ClassVar[str] = "subset"
    base: Leaf
    batch: int
    population: int

    def pair(self, direction: Direction) -> DominatingPair:
        mixed = self.base.pair(Direction.REMOVE).mixed(self.batch / self.population)
        mirror = mixed.swapped()
        upper = joined_at_zero(mixed.upper, mirror.upper)
        if mixed.lower is mixed.upper:
            return DominatingPair.exact(upper)
        return DominatingPair(upper, joined_at_zero(mixed.lower, mirror.lower))

    def __str__(self) -> str:
        return f"{self.base}.subset(batch={self.batch}, population={self.population})"
