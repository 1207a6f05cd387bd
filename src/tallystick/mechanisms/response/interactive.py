"""Interactive local privacy (Definition 4.1): the question put to one person may depend on earlier reports.

Person i's reports satisfy eps-LDP given everything said before, whoever chose the questions and however. The protocol
enforces it: it prices every question before the person's answer is touched and refuses one that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import BudgetExceeded, InvalidInput
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.randomness import SYSTEM, Source

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

Transcript = tuple[tuple[Hashable, Any], ...]


@dataclass(slots=True, kw_only=True)
class Protocol:
    """A conversation with many people, each of whom spends at most ``epsilon``; built by :func:`protocol`."""

    epsilon: float
    unit: str | None
    source: Source = field(repr=False)
    transcript: Transcript = ()
    _spent: dict[Hashable, float] = field(default_factory=dict, repr=False)

    @property
    def privacy(self) -> PrivacyLoss:
        """eps-LDP for each person, hence eps-DP under REPLACE (Remark 4.4)."""
        return losses.pure_dp(epsilon=self.epsilon, adjacency=Adjacency.REPLACE, unit=self.unit)

    def spent(self, person: Hashable) -> float:
        """Pure epsilon this person's reports have cost so far."""
        return self._spent.get(person, 0.0)

    def ask(self, person: Hashable, mechanism: Mechanism[Any, Any], answer: Any) -> Any:
        """One randomized report of one person, appended to the public transcript."""
        price = mechanism.privacy
        if price.adjacency is not Adjacency.REPLACE:
            raise InvalidInput(
                "mechanism", price.adjacency, "a local mechanism (REPLACE): the answer changes, not the person"
            )
        cost = float(price.epsilon(delta=0.0))
        total = self.spent(person) + cost
        if not total <= self.epsilon:
            raise BudgetExceeded(
                f"this question costs {cost:.6g} and the person has {self.epsilon - self.spent(person):.6g} of "
                f"{self.epsilon:.6g} left; their answer was not used",
                asked=cost,
                left=self.epsilon - self.spent(person),
                limit=self.epsilon,
            )
        self._spent[person] = total  # paid before the answer is touched
        report = mechanism.release(answer, source=self.source)
        self.transcript = (*self.transcript, (person, report))
        return report


def protocol(*, epsilon: float, unit: str | None = None, source: Source = SYSTEM) -> Protocol:
    """Open an interactive local protocol.

    >>> from tallystick.mechanisms.response import randomize
    >>> talk = protocol(epsilon=1.0)
    >>> _ = talk.ask("ann", randomize(epsilon=0.5), [1])
    >>> talk.spent("ann") <= 0.5 + 1e-9
    True
    """
    return Protocol(epsilon=check.positive("epsilon", epsilon), unit=check.unit(unit), source=source)


def in_turn(
    answers: Sequence[Any],
    question: Callable[[Transcript], Mechanism[Any, Any]],
    *,
    epsilon: float,
    unit: str | None = None,
    source: Source = SYSTEM,
) -> Protocol:
    """Sequentially interactive: person i gets the question chosen from the reports of the people before.

    >>> from tallystick.mechanisms.response import randomize
    >>> len(in_turn([0, 1, 1], lambda seen: randomize(epsilon=1.0), epsilon=1.01).transcript)
    3
    """
    talk = protocol(epsilon=epsilon, unit=unit, source=source)
    for person, answer in enumerate(answers):
        talk.ask(person, question(talk.transcript), [answer])
    return talk
