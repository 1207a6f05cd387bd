"""Laplace noise: two atoms at plus and minus 1/scale and a continuous part between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction
from tallystick.accounting.leaf import Leaf, LossLattice
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair
from tallystick.numerics.law import Law, Segment

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw

FAR = 1600.0
"""Losses this far below the largest one have a density below e^-800 of the largest."""


@dataclass(frozen=True, slots=True)
class Laplace(Leaf):
    """Laplace noise of the given ``scale`` in units of the sensitivity; symmetric pair."""

    kind: ClassVar[str] = "laplace"
    scale: float

    def __post_init__(self) -> None:
        check.keep(self, scale=check.scale("scale", self.scale))

    def pair(self, direction: Direction) -> DominatingPair:
        """With e = 1/scale: mass 1/2 at e, e^{-e}/2 at -e, density e^{(l-e)/2}/4 between."""
        top = reciprocal_above(self.scale)
        between = Segment(
            low=-top,
            high=top,
            log_density=lambda x: 0.5 * (x - top) - math.log(4.0),
            loss=lambda x: x,
            inverse=lambda value: np.clip(value, -top, top),
            panel=min(4.0, top / 4.0),
            exponential=True,
            log_other=lambda x: -0.5 * (x + top) - math.log(4.0),
            bulk=((-top, -top + FAR), (top - FAR, top)) if top > FAR else (),
        )
        logs = np.array([-top, 0.0]) - math.log(2.0)
        law = Law(np.array([-top, top]), logs, (between,), lattice=2.0 * top, log_others=logs[::-1], rounded=False)
        return DominatingPair.exact(law)

    def loss_lattice(self, direction: Direction) -> LossLattice | None:
        largest = (1.0 + 2.0**-50) / self.scale
        return -largest, 2.0 * largest, False

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous.continuous import laplace_law

        return laplace_law(ask.ball(self.scale), ask.rate, ask.removing)


def reciprocal_above(value: float) -> float:
    """1 / value, rounded up: the largest loss must not be understated even by one unit.

    >>> reciprocal_above(2.0), reciprocal_above(3.0) * 3 >= 1
    (0.5, True)
    """
    reciprocal = 1.0 / value
    return reciprocal if Fraction(reciprocal) * Fraction(value) >= 1 else math.nextafter(reciprocal, math.inf)


@constructor
def laplace(*, scale: float, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None) -> PrivacyLoss:
    """Laplace noise of the given scale times the sensitivity; (1/scale)-DP.

    >>> laplace(scale=2).epsilon(delta=0)
    0.5
    """
    return loss_of(Laplace(scale), adjacency, unit)
