"""Read-outs proved by ball arithmetic: from leaves to ``numerics.rigorous``. Needs ``tallystick[rigorous]``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tallystick.accounting.adjacency import Adjacency, Direction
from tallystick.accounting.bounds import Bounds
from tallystick.errors import NotComputable, Unavailable

try:
    from flint import arb

    from tallystick.numerics.rigorous import exact as ball_exact
    from tallystick.numerics.rigorous import laws as ball_laws
    from tallystick.numerics.rigorous.continuous import gaussian_law
    from tallystick.numerics.rigorous.readout import BallSum
except ImportError as problem:
    raise Unavailable(
        "rigorous=True needs ball arithmetic, which is not installed: pip install tallystick[rigorous]"
    ) from problem

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

ROUNDED_UP = 2.0**-49
"""Parameters made from others (``flip_prob=``, ``as_replace()``) are at most this much too large, relatively."""

Law = ball_laws.BallLaw
Ball = Any


@dataclass(frozen=True, slots=True)
class Ask:
    """What a leaf's law is wanted for."""

    rate: Ball | None
    removing: bool
    log_tiny: float
    """Mass of an infinite lattice that may be left out and is added as an error."""
    upper: bool
    """The dominating pair, or (bounded range composed) the one that is dominated."""

    @staticmethod
    def ball(value: float) -> Ball:
        """A parameter, exactly as the double it is."""
        return arb(value)

    def at_rate(self, rate: float) -> Ask:
        """The same question about a Poisson sample."""
        return replace(self, rate=arb(rate))

    def discrete(self, base: ball_laws.Base) -> Law:
        """The law of a discrete pair."""
        return ball_laws.discrete_law(base, self.rate, self.removing)

    def two_points(self, epsilon: float, delta: float = 0.0, choices: int = 2) -> Law:
        """The law of randomized response, with mass delta that gives everything away."""
        return self.discrete(ball_laws.two_points(arb(epsilon), arb(delta), choices))

    def unrounded(self, value: float) -> float:
        """A parameter that may have been rounded up by some units: from below they are taken off."""
        return value if self.upper else value * (1.0 - ROUNDED_UP)


@dataclass(frozen=True, slots=True)
class RigorousReader:
    """Both read-outs of one loss, the worse of its directions."""

    loss: PrivacyLoss

    def delta_bounds(self, epsilon: float) -> Bounds:
        """delta at epsilon, proved on both sides."""
        return self._worst(lambda side: side.delta(epsilon))

    def epsilon_bounds(self, delta: float) -> Bounds:
        """epsilon at delta, proved on both sides."""
        return self._worst(lambda side: side.epsilon(delta))

    def _worst(self, read: Callable[[BallSum], tuple[float, float]]) -> Bounds:
        if not self.loss.terms:
            return Bounds(0.0, 0.0)
        sides = [self._bounded(read, way, True) for way in self._ways]
        upper = max(pair[1] for pair in sides)
        if self._bracketed:
            sides = [self._bounded(read, way, False) for way in self._ways]
        return Bounds(max(pair[0] for pair in sides), upper)

    def _bounded(
        self, read: Callable[[BallSum], tuple[float, float]], way: Direction, upper: bool
    ) -> tuple[float, float]:
        with ball_laws.bounded_work(1.0 / (len(self._ways) * (1 + self._bracketed))):
            return read(self._side(way, upper))

    @property
    def _ways(self) -> tuple[Direction, ...]:
        both = self.loss.adjacency is Adjacency.ADD_REMOVE and not all(leaf.symmetric for leaf, _ in self.loss.terms)
        return tuple(Direction) if both else (Direction.REMOVE,)

    @property
    def _bracketed(self) -> bool:
        """Parameters rounded up, and several steps of bounded range (which have no single worst pair)."""
        several = sum(n for _, n in self.loss.terms) > 1
        return any(leaf.rounded_up or (leaf.exact_alone and several) for leaf, _ in self.loss.terms)

    def _side(self, way: Direction, upper: bool) -> BallSum:
        count = sum(times for _, times in self.loss.terms)
        removing = way is Direction.REMOVE

        def laws(log_delta: float) -> list[tuple[Law, int]]:
            tiny = ball_exact.log_tiny(log_delta, count)
            found = [(leaf.ball_law(Ask(None, removing, tiny, upper)), times) for leaf, times in self.loss.terms]
            return found if self.loss.group == 1 else [(_grouped(law, self.loss.group), times) for law, times in found]

        return BallSum(laws, count)


def _grouped(law: Law, size: int) -> Law:
    """A chain of so many Gaussian neighbours is one of so many times the distance; of others only bounds are known."""
    if law.variance is None:
        raise NotComputable("no rigorous read-out of losses for groups of other than Gaussian noise")
    return gaussian_law(law.variance.sqrt() * size, None, True)
