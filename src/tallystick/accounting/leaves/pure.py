"""(epsilon, delta)-differential privacy itself, as the pair of Kairouz, Oh and Viswanath (2015)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction
from tallystick.accounting.leaf import End, Leaf, Limit, LossLattice, rounded_by_constructor
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair
from tallystick.numerics.law import Law, above_dust
from tallystick.rounding import as_written, times_up

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw

SLACK = 1 + 1e-14
"""Two roundings of elementary functions, on the safe side."""


def two_point_law(epsilon: float, delta: float = 0.0) -> Law:
    """Randomized response of strength epsilon on the part 1 - delta; mass delta gives everything away."""
    truth = -math.log1p(math.exp(-epsilon))
    kept = math.log1p(-delta) if delta < 1.0 else -math.inf
    lost = above_dust(delta)
    if delta == 1.0 or epsilon == 0.0:
        atoms, logs = (np.zeros(0), np.zeros(0)) if delta == 1.0 else (np.zeros(1), np.array([kept]))
        return Law(atoms, logs, infinity=lost, zero=lost, lattice=1.0, rounded=False)
    logs = np.array([truth - epsilon, truth]) + kept
    return Law(
        np.array([-epsilon, epsilon]),
        logs,
        infinity=lost,
        zero=lost,
        lattice=2.0 * epsilon,
        log_others=logs[::-1],
        rounded=False,
    )


def response_rho(epsilon: float) -> Fraction:
    """The supremum over orders of D_a / a of randomized response: epsilon tanh(epsilon / 2), rounded up.

    >>> response_rho(1e-200) > 0  # no double
    True
    """
    return Fraction(epsilon) * Fraction(max(math.tanh(epsilon / 2.0) * SLACK, min(epsilon, 5e-324)))


def grouped_delta(epsilon: float, delta: float, size: int) -> float:
    """delta (1 + e^epsilon + ... + e^{(size - 1) epsilon}), what a group loses, rounded up to the next double.

    >>> grouped_delta(0.0, 0.25, 3), grouped_delta(1.0, 1e-6, 2) > 1e-6 * (1 + math.e)
    (0.75, True)
    """
    if delta == 0.0:
        return 0.0
    if math.log(delta) + (size - 1) * epsilon > 1.0:
        return 1.0
    with localcontext() as context:
        # The digits that e^epsilon - 1 loses beside one, and fifty more.
        context.prec = 60 + (max(0, -math.floor(math.log10(epsilon))) if epsilon else 0)
        step = Decimal(epsilon)
        terms = ((size * step).exp() - 1) / (step.exp() - 1) if epsilon else Decimal(size)
        total = Decimal(delta) * terms * (1 + Decimal("1e-50") if epsilon else 1)
        total_delta = float(min(total, Decimal(1)))
        return total_delta if Decimal(total_delta) >= total or total_delta >= 1.0 else math.nextafter(total_delta, 1.0)


@dataclass(frozen=True, slots=True)
class PureDp(Leaf):
    """Any epsilon-differentially private mechanism; binary randomized response dominates them all."""

    kind: ClassVar[str] = "pure_dp"
    epsilon: float
    rounded: bool = rounded_by_constructor()

    def __post_init__(self) -> None:
        check.keep(self, epsilon=check.epsilon(self.epsilon))

    def pair(self, direction: Direction) -> DominatingPair:
        return DominatingPair.exact(two_point_law(self.epsilon))

    def replaced(self) -> Leaf:
        return PureDp(2.0 * self.epsilon, self.rounded)

    def grouped(self, size: int) -> Leaf | None:
        epsilon = times_up(size, self.epsilon)
        return PureDp(epsilon) if epsilon <= check.LARGEST_EPSILON else None

    def end(self, direction: Direction) -> End:
        return End(Fraction(0), self.epsilon)

    @property
    def point(self) -> tuple[float, float]:
        return self.epsilon, 0.0

    def concentrated(self) -> tuple[Fraction, Fraction]:
        return response_rho(self.epsilon), Fraction(0)

    def limit(self) -> Limit:
        return Limit("approx", self.epsilon)

    def loss_lattice(self, direction: Direction) -> LossLattice | None:
        return (-self.epsilon, 2.0 * self.epsilon, True) if self.epsilon else None

    @property
    def rounded_up(self) -> bool:
        return self.rounded

    def ball_law(self, ask: Ask) -> BallLaw:
        return ask.two_points(ask.unrounded(self.epsilon) if self.rounded else self.epsilon)


@constructor
def pure_dp(*, epsilon: float, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None) -> PrivacyLoss:
    """Any epsilon-DP mechanism; exactly the loss of binary randomized response (Kairouz, Oh, Viswanath 2015).

    >>> (2 * pure_dp(epsilon=0.5)).epsilon(delta=0)
    1.0
    """
    return loss_of(PureDp(epsilon), adjacency, unit)


@dataclass(frozen=True, slots=True)
class ApproxDp(Leaf):
    """Any (epsilon, delta)-differentially private mechanism."""

    kind: ClassVar[str] = "approx_dp"
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check.keep(self, epsilon=check.epsilon(self.epsilon), delta=check.probability("delta", self.delta))

    def pair(self, direction: Direction) -> DominatingPair:
        return DominatingPair.exact(two_point_law(self.epsilon, self.delta))

    def replaced(self) -> Leaf:
        return ApproxDp(2.0 * self.epsilon, grouped_delta(self.epsilon, self.delta, 2))

    def grouped(self, size: int) -> Leaf | None:
        epsilon, delta = times_up(size, self.epsilon), grouped_delta(self.epsilon, self.delta, size)
        return ApproxDp(epsilon, delta) if epsilon <= check.LARGEST_EPSILON else None

    def end(self, direction: Direction) -> End:
        return End(Fraction(self.delta), self.epsilon)

    @property
    def point(self) -> tuple[float, float]:
        return self.epsilon, self.delta

    def concentrated(self) -> tuple[Fraction, Fraction]:
        return response_rho(self.epsilon), as_written("delta", self.delta)

    def limit(self) -> Limit:
        return Limit("approx", self.epsilon, self.delta)

    @property
    def rounded_up(self) -> bool:
        return True

    def loss_lattice(self, direction: Direction) -> LossLattice | None:
        return (-self.epsilon, 2.0 * self.epsilon, True) if self.epsilon else None

    def ball_law(self, ask: Ask) -> BallLaw:
        return ask.two_points(self.epsilon, ask.unrounded(self.delta))


@constructor
def approx_dp(
    *, epsilon: float, delta: float, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None
) -> PrivacyLoss:
    """Any (epsilon, delta)-DP mechanism. Also a goal: ``loss <= approx_dp(epsilon=2, delta=1e-6)``.

    >>> approx_dp(epsilon=1, delta=1e-6).delta(epsilon=1) >= 1e-6
    True
    """
    return loss_of(ApproxDp(epsilon, delta), adjacency, unit)
