"""Milestones: the only valid way to say "so far".

The statement "everything until the total passes rho_j is rho_j-zCDP" holds for each declared milestone at once. Which
milestone was *reached* depends on the answers, so an (epsilon, delta) figure read there must share delta among all
the statements that could have been read: the union bound. Each raise of the limit adds one statement.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tallystick.accounting.adjacency import Protects
from tallystick.digits import typed, up
from tallystick.errors import InvalidInput, Refused
from tallystick.ledger.filters import UNITS_0, Amount, Filter, as_written, limit_units
from tallystick.ledger.journal import AccountRow


@dataclass(frozen=True, slots=True)
class SpendingStatement:
    """Facts that may be published about the spending until now."""

    milestone: Amount
    epsilon: float
    delta: float
    statements: int

    def __str__(self) -> str:
        return f"so far (epsilon {up(self.epsilon)}, delta {typed(self.delta)}), cut at {self.milestone}"


def checked_milestones(values: Sequence[float | Fraction], limit0: int) -> list[int]:
    """Milestones as integer amounts: strictly increasing and below the limit.

    >>> checked_milestones([0.1, 0.25], 5 * 10**11)
    [100000000000, 250000000000]
    """
    units = [limit_units("milestones", as_written("milestones", value), UNITS_0) for value in values]
    if len(units) > 1000:
        raise InvalidInput("milestones", f"{len(units)} of them", "at most 1000")
    if any(later <= earlier for earlier, later in zip([0, *units], units, strict=False)) or (
        units and units[-1] >= limit0
    ):
        raise InvalidInput("milestones", list(values), "increasing positive numbers below the limit")
    return units


def so_far(account: AccountRow, protects: Protects, *, delta: float) -> SpendingStatement:
    """The statement of the lowest milestone not passed yet; delta is shared among all statements."""
    milestones: list[int] = json.loads(account.milestones)
    if not milestones:
        raise Refused(
            f"account {account.name!r} declared no milestones when it was opened, so only its limit is a guarantee; "
            "use account.guarantee()"
        )
    if not 0 < delta < 1:
        raise InvalidInput("delta", delta, "a number in (0, 1)")
    statements = len(milestones) + 1 + account.raises
    reached = next((m for m in milestones if account.used0 <= m), account.limit0)
    currency = Filter.named(account.filter)
    milestone = Amount(currency, reached, account.limit1)
    share = delta / statements
    if currency.kind == "approx":
        if share < milestone.delta:
            raise InvalidInput("delta", delta, f"at least {up(statements * milestone.delta)} for this account")
        return SpendingStatement(milestone, float(milestone.first), delta, statements)
    loss = currency.guarantee(reached, account.limit1, protects)
    if share <= milestone.delta:
        raise InvalidInput("delta", delta, f"more than {up(statements * milestone.delta)} for this account")
    return SpendingStatement(milestone, float(loss.epsilon(delta=share)), delta, statements)
