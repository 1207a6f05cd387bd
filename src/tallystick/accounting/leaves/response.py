"""k-ary randomized response: the truth with odds e^epsilon over each other answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction
from tallystick.accounting.leaf import Leaf, LossLattice
from tallystick.accounting.leaves.pure import two_point_law
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair
from tallystick.errors import InvalidInput
from tallystick.numerics.law import Law

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw

MOST_CHOICES = 10**9


@dataclass(frozen=True, slots=True)
class RandomizedResponse(Leaf):
    """Two answers of one person: losses epsilon (told the truth), -epsilon (the other's truth), 0 (neither)."""

    kind: ClassVar[str] = "randomized_response"
    relations: ClassVar[tuple[Adjacency, ...]] = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)
    epsilon: float
    choices: int = 2

    def __post_init__(self) -> None:
        choices = check.count("choices", self.choices, least=2, most=MOST_CHOICES)
        check.keep(self, epsilon=check.epsilon(self.epsilon), choices=choices)

    def pair(self, direction: Direction) -> DominatingPair:
        if self.choices == 2 or self.epsilon == 0.0:
            return DominatingPair.exact(two_point_law(self.epsilon))
        # The truth has 1 / (1 + (choices - 1) e^-epsilon).
        truth = -float(np.logaddexp(0.0, math.log(self.choices - 1) - self.epsilon))
        logs = truth + np.array([-self.epsilon, math.log(self.choices - 2) - self.epsilon, 0.0])
        atoms = np.array([-self.epsilon, 0.0, self.epsilon])
        return DominatingPair.exact(Law(atoms, logs, lattice=self.epsilon, log_others=logs[::-1], rounded=False))

    @property
    def point(self) -> tuple[float, float] | None:
        return (self.epsilon, 0.0) if self.choices == 2 else None

    @property
    def rounded_up(self) -> bool:
        return True

    def loss_lattice(self, direction: Direction) -> LossLattice | None:
        steps = 2.0 if self.choices == 2 else 1.0
        return (-self.epsilon, steps * self.epsilon, True) if self.epsilon else None

    def ball_law(self, ask: Ask) -> BallLaw:
        return ask.two_points(ask.unrounded(self.epsilon), choices=self.choices)


@constructor
def randomized_response(
    *,
    epsilon: float | None = None,
    flip_prob: float | None = None,
    choices: int = 2,
    adjacency: Any = Adjacency.REPLACE,
    unit: str | None = None,
) -> PrivacyLoss:
    """k-ary randomized response. ``flip_prob`` is the probability of not telling the truth (p/2 of the notes).

    One person's answer is changed, so the adjacency is REPLACE unless you say otherwise.

    >>> round(randomized_response(flip_prob=0.25).epsilon(delta=0), 6)
    1.098612
    """
    options = check.count("choices", choices, least=2, most=MOST_CHOICES)
    if (epsilon is None) == (flip_prob is None):
        raise InvalidInput("epsilon", epsilon, "either epsilon or flip_prob, not both")
    if flip_prob is not None:
        lie = check.probability("flip_prob", flip_prob)
        if not 0.0 < lie <= (options - 1) / options:
            raise InvalidInput("flip_prob", flip_prob, f"a number above 0 and at most {(options - 1) / options:g}")
        # log((1 - f)(k - 1) / f), accurate near zero and rounded up.
        strength = max(0.0, math.log1p(((options - 1) - options * lie) / lie)) * (1.0 + 1e-15)
    else:
        strength = check.epsilon(epsilon)
    return loss_of(RandomizedResponse(strength, options), adjacency, unit)
