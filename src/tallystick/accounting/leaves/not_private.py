"""A release that is not private at all, said so: two laws that share no outcome, so every read-out is the worst one.

Any mechanism is a function of the whole data set, so the pair of two points that do not overlap dominates it (tell the
attacker everything). Epsilon and every divergence are infinite, delta, power and total variation are one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.leaf import End, Leaf, written_call
from tallystick.accounting.leaves.pure import two_point_law
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair
from tallystick.errors import InvalidInput

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw

LONGEST = 200


@dataclass(frozen=True, slots=True)
class NotPrivate(Leaf):
    """``why`` says what was released without protection; it is repeated by every text and explanation."""

    kind: ClassVar[str] = "not_private"
    why: str

    def __post_init__(self) -> None:
        if not isinstance(self.why, str) or not 0 < len(self.why) <= LONGEST or not self.why.isprintable():
            raise InvalidInput("why", self.why, f"one line of 1 to {LONGEST} characters: what was not protected")

    def pair(self, direction: Direction) -> DominatingPair:
        return DominatingPair.exact(two_point_law(0.0, 1.0))

    def end(self, direction: Direction) -> End:
        return End(Fraction(1), 0.0)

    def replaced(self) -> Leaf:
        return self

    def grouped(self, size: int) -> Leaf:
        return self

    def conditions(self) -> str:
        return f"not private: {self.why}"

    def ball_law(self, ask: Ask) -> BallLaw:
        return ask.everything()

    def text(self, protects: Protects) -> str:
        return written_call(self, protects, f"why={self.why!r}")


@constructor
def not_private(*, why: str, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None) -> PrivacyLoss:
    """Something was released without protection: epsilon is infinite and delta one, and no account pays for it.

    >>> loss = not_private(why="the model was chosen on the test set")
    >>> loss.epsilon(delta=0.5), loss.delta(epsilon=100), loss.power(alpha=0)
    (inf, 1.0, 1.0)
    """
    return loss_of(NotPrivate(why), adjacency, unit)
