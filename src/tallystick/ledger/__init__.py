"""Remembers: accounts, filters, charges, stores, the hash chain. Draws no noise and touches no data."""

from __future__ import annotations

from tallystick.ledger.account import Account, Event
from tallystick.ledger.book import Ledger, import_ledger
from tallystick.ledger.budget import Budget
from tallystick.ledger.filters import Amount, Filter
from tallystick.ledger.partition import Partition
from tallystick.ledger.pay import Charge, Receipt
from tallystick.ledger.signing import Signer

__all__ = [
    "Account",
    "Amount",
    "Budget",
    "Charge",
    "Event",
    "Filter",
    "Ledger",
    "Partition",
    "Receipt",
    "Signer",
    "import_ledger",
]
