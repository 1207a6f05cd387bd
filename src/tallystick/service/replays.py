"""Outcomes that were computed a moment ago, so that asking again does not plan again.

An outcome is returned only if the right to see it holds now, and the ledger still has this very answer: the ledger
checks its signature each time. What is remembered here is how the answer is shown.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tallystick.errors import TallystickError
from tallystick.ledger.book import Ledger
from tallystick.publish.outcome import Outcome

MOST: Final = 512
LONGEST: Final = 1 << 20
"""Characters of a request that is remembered; an outcome of as many rows is not."""
MOST_ROWS: Final = 10_000


class _Replay(NamedTuple):
    """An outcome, and the state of the ledger on which its words depend."""

    outcome: Mapping[str, Any]
    charge: int
    answer: str
    """The commitment to the answer, as the chain has it."""
    population: str
    registrations: int


class Replays:
    """Outcomes by who asked and what."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], _Replay] = OrderedDict()

    def add(self, view: Ledger, request: str, outcome: Outcome) -> None:
        """Remember the outcome of a request, unless it is large."""
        paid = outcome.paid
        is_large = outcome.table is not None and len(outcome.table.rows) > MOST_ROWS
        if paid is None or is_large or len(request) > LONGEST:
            return
        again = outcome.to_data()
        again["paid"] = {**again["paid"], "again": True}
        receipt = again["receipt"]
        replay = _Replay(
            again, paid.charge, receipt["answer_hash"], paid.population, self._ledger.newest_registration()
        )
        with self._lock:
            self._known[view.actor, request] = replay
            if len(self._known) > MOST:
                self._known.popitem(last=False)

    def find(self, view: Ledger, request: str) -> dict[str, Any] | None:
        """Return the outcome of a request that who asks may see now; None if it has to be looked for in the ledger."""
        key = (view.actor, request)
        with self._lock:
            replay = self._known.get(key)
        if replay is None:
            return None
        try:
            account = view.open(replay.population)
            is_allowed = view.may("replay", view.population_of(replay.population))
            charge = self._ledger.charge_row(replay.charge)[0]
            _, receipt = self._ledger.stored_answer(charge)
        except TallystickError:
            is_allowed = False
        is_same = is_allowed and receipt.answer_hash == replay.answer
        if not is_same or self._ledger.newest_registration() != replay.registrations:
            with self._lock:
                self._known.pop(key, None)
            return None
        left = account.remaining
        paid = {
            **replay.outcome["paid"],
            "left": left.text(upward=False),
            "left_of_limit": left.of_limit(account.limit),
        }
        return {**replay.outcome, "paid": paid}
