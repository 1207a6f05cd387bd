"""Interactive local privacy (Definition 4.1): the question put to one person may depend on earlier reports.

Person i's reports satisfy eps-LDP given everything said before, for every choice of the questions. The protocol
enforces it: it takes one answer of one person to one local mechanism at a time, prices every question before the
answer is used, adds up exactly and refuses a question that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.digits import down, typed, up
from tallystick.errors import BudgetExceeded, InvalidInput
from tallystick.mechanisms.base import Mechanism, OnlyOne
from tallystick.mechanisms.exact.lattice import rounded_up
from tallystick.mechanisms.exact.randomness import SYSTEM, Source
from tallystick.mechanisms.response.choices import RandomizedResponse, UnaryEncoding
from tallystick.mechanisms.response.numbers import LocalLaplace

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

Local = RandomizedResponse | UnaryEncoding | LocalLaplace
Transcript = tuple[tuple[Hashable, Any], ...]


class Protocol(OnlyOne):
    """A conversation with many people, each of whom spends at most ``epsilon``; built by :func:`protocol`.

    Threads may share it; it cannot be copied, pickled or carried through a fork.
    """

    __slots__ = ("_epsilon", "_said", "_source", "_spent", "_unit")

    def __init__(self, *, epsilon: float, unit: str | None, source: Source) -> None:
        super().__init__()
        self._epsilon, self._unit, self._source = epsilon, unit, source
        self._spent: dict[Hashable, Fraction] = {}
        self._said: list[tuple[Hashable, Any]] = []

    @property
    def epsilon(self) -> float:
        """What each person may spend."""
        return self._epsilon

    @property
    def transcript(self) -> Transcript:
        """Everything said so far: (person, report)."""
        return tuple(self._said)

    @property
    def privacy(self) -> PrivacyLoss:
        """eps-LDP for each person, hence eps-DP under REPLACE (Remark 4.4)."""
        return losses.pure_dp(epsilon=self._epsilon, adjacency=Adjacency.REPLACE, unit=self._unit)

    def spent(self, person: Hashable) -> float:
        """Pure epsilon this person's reports have cost so far, rounded up."""
        return rounded_up(self._spent.get(person, Fraction(0)))

    def ask(self, person: Hashable, mechanism: Mechanism[Any, Any], answer: Any) -> Any:
        """One randomized report of one person, appended to the public transcript.

        ``answer`` is a list of exactly one answer: the price of a local mechanism is per person.
        """
        if not isinstance(mechanism, Local):
            allowed = "a local mechanism: what randomize, unary_encoding or laplace returned"
            raise InvalidInput("mechanism", type(mechanism).__name__, allowed)
        if not _named(person):
            allowed = "a name, an integer, a UUID or a tuple of them: what is the same for the same person every time"
            raise InvalidInput("person", f"a value of type {type(person).__name__}", allowed)
        cost = Fraction(float(mechanism.privacy.epsilon(delta=0.0)))
        prepared = mechanism.prepare(answer, strict=False)
        if prepared.size != 1:
            raise InvalidInput("answer", f"{prepared.size} answers", "a list of the one answer of this person")
        with self._mine():
            left = Fraction(self._epsilon) - self._spent.get(person, Fraction(0))
            if cost > left:
                raise BudgetExceeded(
                    f"this question costs {up(cost)} and the person has {down(left)} of "
                    f"{typed(self._epsilon)} left; their answer was not used",
                    asked=float(cost),
                    left=float(left),
                    limit=self._epsilon,
                )
            self._spent[person] = Fraction(self._epsilon) - left + cost  # paid before the answer is used
            report = mechanism.release_prepared(prepared, self._source)
            self._said.append((person, report))
        return report


def _named(person: Any) -> bool:
    """Is this equal to itself every time it is said? NaN is not: it would be a new person every time."""
    if isinstance(person, tuple):
        return all(_named(part) for part in person)
    return isinstance(person, (str, bytes, int, UUID, np.integer))


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
