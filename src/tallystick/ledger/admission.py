"""May a plan on this source be charged? The source is open, belongs to who pays, and the plan costs enough.

A failure after the start is an un-noised bit about the data, so it closes the source and its population: the burn and
the closing are one transaction, and no further plan is admitted until the owner has cleared it with a reason. The
first failure among N plans still tells log2(N + 1) bits; the least price bounds N (docs/decisions/0012).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tallystick.errors import LedgerIntegrity, Quarantined, Refused
from tallystick.ledger.filters import UNITS_0, Amount, Filter

if TYPE_CHECKING:
    from tallystick.ledger.journal import Line
    from tallystick.ledger.store import Transaction

LEAST_RHO: Final = UNITS_0 // 10_000  # rho 0.0001
LEAST_EPSILON: Final = UNITS_0 // 100  # epsilon 0.01


def default_least(currency: Filter) -> int:
    """The least price of a plan on registered data where its owner names none, in units of the account's currency.

    Rho 0.0001 and what one Gaussian release of that rho costs in the other currencies; epsilon 0.01 where epsilon adds.

    >>> default_least(Filter("zcdp")), default_least(Filter("gdp")), default_least(Filter("approx"))
    (100000000, 200000000, 10000000000)
    """
    if currency.kind == "approx":
        return LEAST_EPSILON
    return int(LEAST_RHO * {"zcdp": 1, "gdp": 2}.get(currency.kind, currency.order or 1))


def admit(transaction: Transaction, source: str, lines: Sequence[Line]) -> None:
    """Raise, before anything is taken, when a plan on ``source`` may not be charged to these accounts."""
    populations = sorted({line.population for line in lines})
    require_open(transaction, source, populations)
    owner = transaction.row("source_owner", source)
    if owner is not None and owner[0] not in populations:
        name = _account(transaction, owner[0])[1]
        raise Refused(
            f"this source belongs to population {name!r}, which must pay for plans on it; nothing was charged"
        )
    for line in lines:
        row = transaction.row("least_of_source", source) if owner else None
        least = (row or transaction.row("least_of_population", line.population) or (0,))[0]
        if line.a0 < least and (owner is None or owner[0] == line.population):
            currency = Filter.named(str(_account(transaction, line.account_id)[5]))
            raise Refused(
                f"this plan costs {Amount(currency, line.a0)}, and plans on this data cost at least "
                f"{Amount(currency, least)}, because whether a plan succeeds tells something too; "
                "works: the same plan with a smaller error. Nothing was charged"
            )


def require_open(transaction: Transaction, source: str, populations: Sequence[int]) -> None:
    """Raise ``Quarantined`` while a failure on this source, or on a source of these populations, is not cleared."""
    for population in populations:
        row = transaction.row("quarantine_of", source, population)
        if row is not None:
            raise Quarantined(
                f"closed: charge {row[0]} failed after it had started, and further plans could tell why; nothing was "
                "charged. The owner of the data opens it again, after a look at the operator's log, with "
                "'tallystick dataset clear NAME --why TEXT' or account.clear(why=...)"
            )


def _account(transaction: Transaction, account_id: int) -> Sequence[object]:
    row = transaction.row("account_by_id", account_id)
    if row is None:
        raise LedgerIntegrity(f"account {account_id} is missing; run: tallystick ledger verify")
    return row
