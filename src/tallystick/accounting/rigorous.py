"""Read-outs proved by ball arithmetic: from leaves to ``numerics.rigorous``. Needs ``tallystick[rigorous]``."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallystick.accounting.adjacency import Adjacency, Direction
from tallystick.accounting.bounds import Bounds
from tallystick.accounting.leaf import all_inside
from tallystick.errors import NotComputable, Unavailable

try:
    from tallystick.accounting.ask import Ask, Law, highest_of
    from tallystick.numerics.rigorous import exact as ball_exact
    from tallystick.numerics.rigorous import laws as ball_laws
    from tallystick.numerics.rigorous.continuous import gaussian_law
    from tallystick.numerics.rigorous.heights import chained, given_away, kinks_of, known_by, largest, whole
    from tallystick.numerics.rigorous.readout import BallSum
except ImportError as problem:
    raise Unavailable(
        "rigorous bounds need ball arithmetic, which is not installed: pip install '.[rigorous]'"
    ) from problem

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss


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
        start = time.thread_time()
        sides = [self._bounded(read, way, start) for way in self._ways]
        upper = max(pair[1] for pair in sides)
        if self._bracketed:
            try:
                sides = [self._bounded(read, way, start, upper=False) for way in self._ways]
            except NotComputable:
                return Bounds(0.0, upper)  # proved from above; nothing is claimed from below
        return Bounds(min(upper, max(pair[0] for pair in sides)), upper)

    def _bounded(
        self, read: Callable[[BallSum], tuple[float, float]], way: Direction, start: float, *, upper: bool = True
    ) -> tuple[float, float]:
        share, patience = (1.0, ball_laws.PATIENCE[0]) if upper else (0.5, ball_laws.PATIENCE[1])
        with ball_laws.bounded_work(share / len(self._ways), start + patience):
            return read(self._side(way, upper))

    @property
    def _ways(self) -> tuple[Direction, ...]:
        if self.loss.group > 1:
            return (Direction.REMOVE,)  # a group may mix both
        both = self.loss.adjacency is Adjacency.ADD_REMOVE and not all(leaf.symmetric for leaf, _ in self.loss.terms)
        return tuple(Direction) if both else (Direction.REMOVE,)

    @property
    def _bracketed(self) -> bool:
        """Parameters rounded up, several steps of bounded range (which have no single worst pair), bounds, groups."""
        inside = list(all_inside(self.loss.terms))
        alone = sum(n for _, n in self.loss.terms) == 1 and self.loss.terms[0][0].exact_alone
        several = not alone and any(leaf.exact_alone for leaf in inside)
        return self.loss.group > 1 or several or any(leaf.rounded_up or leaf.enclosed for leaf in inside)

    def _side(self, way: Direction, upper: bool) -> BallSum:
        count = sum(times for _, times in self.loss.terms)
        removing = way is Direction.REMOVE

        def laws(log_delta: float) -> list[tuple[Law, int]]:
            tiny = ball_exact.log_tiny(log_delta, count)
            ask = Ask(None, removing, tiny, upper)
            if self.loss.group > 1:
                return [(self._grouped(ask), 1)]
            return [(leaf.ball_law(ask), times) for leaf, times in self.loss.terms]

        return BallSum(laws, count)

    def _grouped(self, ask: Ask) -> Law:
        """Gaussians in closed form; of others a chain of neighbours from above, and one unit alone from below."""
        size = self.loss.group
        remove, add = ask.summed(self.loss.terms)
        if remove.variance is not None:
            return gaussian_law(remove.variance.sqrt() * size, None, True)
        if not ask.upper:
            return ask.worst([(remove, add), (add, remove)])
        one, bends = largest([whole(remove), whole(add)]), kinks_of(remove) + kinks_of(add)
        top = highest_of([remove, add])
        highest = None if top is None else top * size
        given = remove.infinite.max(add.infinite)
        return known_by(
            chained([one] * size, [bends] * size), infinite=given_away([one] * size, [given] * size), highest=highest
        )
