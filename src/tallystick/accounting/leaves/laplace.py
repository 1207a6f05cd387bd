"""Laplace noise: two atoms at plus and minus 1/scale and a continuous part between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tallystick.accounting.adjacency import Direction
from tallystick.accounting.leaf import Leaf
from tallystick.accounting.pair import DominatingPair
from tallystick.numerics.law import Law, Segment


@dataclass(frozen=True, slots=True)
class Laplace(Leaf):
    """Laplace noise of the given ``scale`` in units of the sensitivity; symmetric pair."""

    kind: ClassVar[str] = "laplace"
    scale: float

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
