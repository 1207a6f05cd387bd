"""Which ledger is meant (``--ledger``, else ``$TALLYSTICK_LEDGER``, else ``./tallystick.db``), and what it says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tallystick.errors import InvalidInput

if TYPE_CHECKING:
    from tallystick.ledger import Account, Amount, Event, Ledger


def place_of(given: str | None) -> str:
    """The path or URL a command works on.

    >>> place_of("team.db")
    'team.db'
    """
    return given or os.environ.get("TALLYSTICK_LEDGER") or "tallystick.db"


def opened(given: str | None, *, create: bool = False) -> Ledger:
    """The ledger a command works on; only ``init`` and ``account open`` may create it."""
    from tallystick.ledger import Ledger

    return Ledger(place_of(given), create=create)


def opened_if_there(given: str | None) -> Ledger | None:
    """The ledger, or ``None`` when there is none yet."""
    try:
        return opened(given)
    except InvalidInput:  # what needs one opens it for good and says so
        return None


def account_facts(account: Account) -> dict[str, Any]:
    """An account as plain data."""
    parent = account.parent
    return {
        "name": account.name,
        "kind": account.kind,
        "unit": account.unit,
        "adjacency": account.adjacency,
        "filter": account.filter,
        "theorem": account.currency.rule.theorem,
        "limit": amount_facts(account.limit),
        "used": amount_facts(account.used),
        "left": amount_facts(account.remaining),
        "closed": account.closed,
        "parent": parent.name if parent else None,
        "lifetime": amount_facts(parent.used) if parent else None,
        "blocks": [child.name for child in account.children],
    }


def amount_facts(amount: Amount) -> dict[str, Any]:
    """An amount as plain data: the integers are the record."""
    return amount.to_dict()


def event_facts(event: Event) -> dict[str, Any]:
    """A charge as plain data, its state by name."""
    return {
        "charge": event.charge,
        "at": event.at,
        "state": event.state,
        "key": event.key,
        "why": event.why,
        "amount": amount_facts(event.amount),
        "plan": event.plan,
    }
