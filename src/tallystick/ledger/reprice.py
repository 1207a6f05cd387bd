"""Was every charge enough? Plans are priced again from their text, by today's accountant.

This is apart from ``verify``: a record can be whole and a price too low, because an accountant had a fault that was
found later, or because somebody wrote a cheap charge into a ledger of their own making.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from tallystick.accounting.loss import PrivacyLoss
from tallystick.errors import TallystickError
from tallystick.ledger.filters import UNITS_1
from tallystick.ledger.pricing import price

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.filters import Amount


def underpriced(ledger: Ledger) -> list[str]:
    """One line for every charge that paid less than its plan costs, or whose plan cannot be priced."""
    found = []
    for account in ledger.accounts():
        known: dict[tuple[str, Amount], str] = {}
        for event in account.history():
            asked = (event.plan, event.amount)
            if event.paid and asked not in known:
                known[asked] = _shortfall(account, *asked)
            if event.paid and known[asked]:
                found.append(f"charge {event.charge} on {account.name}: {known[asked]}")
    return found


def _shortfall(account: Account, plan: str, paid: Amount) -> str:
    delta = Fraction(paid.a1, UNITS_1) if paid.a1 else None
    try:
        loss = PrivacyLoss.from_json(plan)
        today = price(loss, account.currency, adjacency=account.adjacency, unit=account.unit, delta=delta)
    except TallystickError as error:
        return f"its plan cannot be priced today ({type(error).__name__})"
    enough = today.a0 <= paid.a0 and today.a1 <= paid.a1
    return "" if enough else f"paid {paid}, and its plan costs {today} today"
