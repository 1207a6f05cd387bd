"""The exponential mechanism: bounded range (Durfee and Rogers 2019; Dong, Durfee, Rogers 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction
from tallystick.accounting.leaf import Leaf
from tallystick.accounting.leaves.laplace import FAR
from tallystick.accounting.leaves.pure import two_point_law
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair
from tallystick.digits import typed
from tallystick.errors import InvalidInput
from tallystick.numerics.law import UNIT, Array, Law, Segment
from tallystick.rounding import as_written

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw


LEAST = 1e-300
"""The density of losses in a smaller range is no double."""
SQUARED = 1e-150
"""Moments of smaller ranges are bounded by those of this one, whose square is a double."""


@dataclass(frozen=True, slots=True)
class Exponential(Leaf):
    """All mechanisms whose losses lie in an interval of length epsilon that contains 0.

    The worst of them for one release has delta(e0) = (e^{epsilon/2} - e^{e0/2})^2 / (e^epsilon - 1); that
    profile is a pair with loss density e^{(epsilon + l)/2} / (2 (e^epsilon - 1)) on [-epsilon, epsilon].
    It is attained by no single mechanism at all e0 at once, so it is tight for one release and only an upper
    bound under composition, where the lower bound is randomized response of strength epsilon/2.
    """

    kind: ClassVar[str] = "exponential"
    epsilon: float

    def __post_init__(self) -> None:
        check.keep(self, epsilon=check.epsilon(self.epsilon))
        if 0.0 < self.epsilon < LEAST:
            raise InvalidInput(
                "epsilon", self.epsilon, f"0, or a number from {typed(LEAST)} to {typed(check.LARGEST_EPSILON)}"
            )

    def pair(self, direction: Direction) -> DominatingPair:
        top = self.epsilon
        if top == 0.0:
            return DominatingPair.exact(two_point_law(0.0))
        log_norm = math.log(-2.0 * math.expm1(-top))
        segment = Segment(
            low=-top,
            high=top,
            log_density=lambda x: 0.5 * (x - top) - log_norm,
            loss=lambda x: x,
            inverse=lambda value: np.clip(value, -top, top),
            panel=min(4.0, top / 4.0),
            exponential=True,
            log_other=lambda x: -0.5 * (x + top) - log_norm,
            bulk=((-top, -top + FAR), (top - FAR, top)) if top > FAR else (),
        )
        return DominatingPair(Law(segments=(segment,), rounded=False), two_point_law(top / 2.0))

    @property
    def exact_alone(self) -> bool:
        return True

    def log_mgf_bound(self, theta: Array) -> Array:
        """The worst two losses that are epsilon apart; never above epsilon^2/8-zCDP (Cesar and Rogers 2021)."""
        if self.epsilon == 0.0:
            return np.zeros_like(theta)
        top = max(self.epsilon, SQUARED)
        concentrated = theta * (theta + 1.0) * top**2 / 8.0 * (1.0 + 8.0 * UNIT)
        return np.minimum(concentrated, _worst_of_two(top, theta))

    def concentrated(self) -> tuple[Fraction, Fraction]:
        """Bounded range epsilon implies epsilon^2/8-zCDP (Cesar and Rogers 2021)."""
        return as_written("epsilon", self.epsilon) ** 2 / 8, Fraction(0)

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous.continuous import bounded_range_law

        if ask.upper and self.epsilon > 0.0:
            return bounded_range_law(ask.ball(self.epsilon), ask.rate, ask.removing)
        return ask.two_points(self.epsilon / 2.0)


def _worst_of_two(epsilon: float, theta: Array) -> Array:
    """log of the largest E[e^{theta L}] with all losses in one interval of length epsilon, rounded up.

    E[e^{-L}] = 1 and e^{theta L} is convex in e^{-L}, so the two ends t and t - epsilon are worst. With
    A = e^epsilon - e^{-theta epsilon} and B = 1 - e^{-theta epsilon} the moment is
    (A e^{theta t} - B e^{(theta + 1) t})/(e^epsilon - 1), largest at e^t = theta A/((theta + 1) B).
    docs/theory/bounded-range.md
    """
    a, b = (np.log(-np.expm1(-x)) for x in ((1.0 + theta) * epsilon, theta * epsilon))
    c = math.log(-math.expm1(-epsilon))
    end = np.log(theta) - np.log1p(theta) + epsilon + a - b
    size = (1.0 + theta) * (1.0 + epsilon + np.abs(np.log(theta)) + np.log1p(theta) + np.abs(a) + np.abs(b) + abs(c))
    rounded: Array = theta * end + a - c - np.log1p(theta) + 8.0 * UNIT * size
    return rounded


@constructor
def exponential(*, epsilon: float, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None) -> PrivacyLoss:
    """The exponential mechanism: bounded range epsilon. Tight for one release, valid under composition.

    >>> from tallystick.accounting.leaves.pure import pure_dp
    >>> exponential(epsilon=1).delta(epsilon=0) < pure_dp(epsilon=1).delta(epsilon=0)
    True
    """
    return loss_of(Exponential(epsilon), adjacency, unit)
