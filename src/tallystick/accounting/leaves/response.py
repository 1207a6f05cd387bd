"""k-ary randomized response: the truth with odds e^epsilon over each other answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tallystick.accounting.adjacency import Direction
from tallystick.accounting.leaf import Leaf
from tallystick.accounting.leaves.pure import two_point_law
from tallystick.accounting.pair import DominatingPair
from tallystick.numerics.law import Law


@dataclass(frozen=True, slots=True)
class RandomizedResponse(Leaf):
    """Two answers of one person: losses epsilon (told the truth), -epsilon (the other's truth), 0 (neither)."""

    kind: ClassVar[str] = "randomized_response"
    epsilon: float
    choices: int = 2

    def pair(self, direction: Direction) -> DominatingPair:
        if self.choices == 2 or self.epsilon == 0.0:
            return DominatingPair.exact(two_point_law(self.epsilon))
        log_total = float(np.logaddexp(self.epsilon, math.log(self.choices - 1)))
        logs = np.array([0.0, math.log(self.choices - 2), self.epsilon]) - log_total
        return DominatingPair.exact(Law(np.array([-self.epsilon, 0.0, self.epsilon]), logs, lattice=self.epsilon))
