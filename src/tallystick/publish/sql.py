"""``ts.sql``: a statement about registered datasets, paid and answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from tallystick.ledger.book import Ledger, opened
from tallystick.publish.catalogue import public_tables
from tallystick.publish.kinds.statement import Statement
from tallystick.publish.request import Cost, Request, answer

if TYPE_CHECKING:
    from tallystick.tables.sql.answer import Answered, Explained


def sql(
    text: str,
    *,
    ledger: Ledger | str | None = None,
    rho: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    error: float | None = None,
    pure: bool = False,
    why: str | None = None,
    key: str | None = None,
    public: Mapping[str, Any] | None = None,
    account: str | None = None,
    explain: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Answered | Explained:
    """Ask registered datasets in SQL, at a cost; a statement that was asked before is answered again without a charge.

    ``public`` names tables that everybody may see and that a statement may join. ``account`` pays: an allowance, or a
    block of the population. ``EXPLAIN`` in front of the statement
    (or ``explain=True``) gives cost and error, opens no data and costs nothing. An epsilon without a delta is refused
    where the population counts rho or mu, unless ``pure=True`` says that pure epsilon is meant.

    >>> import tallystick as ts
    >>> ts.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", ledger="budget.db", rho=0.01,
    ...        why="weekly report")  # doctest: +SKIP
    """
    cost = Cost(rho, epsilon, delta, error, pure)
    with nullcontext(ledger) if isinstance(ledger, Ledger) else opened(ledger) as book:
        statement = Statement(text, public_tables(public or {}, book), account)
        request = Request(statement, cost, key, why)
        if explain:
            return statement.work(request, book).explained()
        made: Answered | Explained = answer(request, book, progress=progress).made
        return made
