"""Laplace noise: two atoms at plus and minus 1/scale and a continuous part between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction
from tallystick.accounting.leaf import Leaf
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair
from tallystick.numerics.law import Law, Segment

if TYPE_CHECKING:
    from tallystick.accounting.rigorous import Ask
    from tallystick.numerics.rigorous_laws import BallLaw


@dataclass(frozen=True, slots=True)
class Laplace(Leaf):
    """Laplace noise of the given ``scale`` in units of the sensitivity; symmetric pair."""

    kind: ClassVar[str] = "laplace"
    scale: float

    def __post_init__(self) -> None:
        check.keep(self, scale=check.scale("scale", self.scale))

    def pair(self, direction: Direction) -> DominatingPair:
        """With e = 1/scale: mass 1/2 at e, e^{-e}/2 at -e, density e^{(l-e)/2}/4 between."""
        top = 1.0 / self.scale
        between = Segment(
            low=-top,
            high=top,
            log_density=lambda x: 0.5 * (x - top) - math.log(4.0),
            loss=lambda x: x,
            inverse=lambda value: np.clip(value, -top, top),
            panel=min(4.0, top / 4.0),
            linear=(-0.5 * top - math.log(4.0), 0.5),
        )
        atoms = np.array([-top, top])
        return DominatingPair.exact(Law(atoms, np.array([-top, 0.0]) - math.log(2.0), (between,), lattice=2.0 * top))

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous_continuous import laplace_law

        return laplace_law(ask.ball(self.scale), ask.rate, ask.removing)


@constructor
def laplace(*, scale: float, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None) -> PrivacyLoss:
    """Laplace noise of the given scale times the sensitivity; (1/scale)-DP.

    >>> laplace(scale=2).epsilon(delta=0)
    0.5
    """
    return loss_of(Laplace(scale), adjacency, unit)
