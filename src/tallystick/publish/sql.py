"""``ts.sql``: a statement about registered data sets, priced, paid and answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.ledger.book import Ledger, opened
from tallystick.publish import datasets
from tallystick.tables.keyset import PublicTable, public_keys, public_table
from tallystick.tables.sources import JOINED, public_file
from tallystick.tables.sql.answer import Answered, Explained, answered, explained
from tallystick.tables.sql.catalogue import Catalogue, Known
from tallystick.tables.sql.statement import Statement, planned

if TYPE_CHECKING:
    from tallystick.publish.datasets import Dataset
    from tallystick.tables.table import Table


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
    explain: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Answered | Explained:
    """Ask registered data sets in SQL, at a price; a statement that was asked before is answered again for nothing.

    ``public`` names tables that everybody may see and that a statement may join. ``EXPLAIN`` in front of the statement
    (or ``explain=True``) gives price and error, opens no data and costs nothing. An epsilon without a delta is refused
    where the population counts rho or mu, unless ``pure=True`` says that pure epsilon is meant.

    >>> import tallystick as ts
    >>> ts.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", ledger="budget.db", rho=0.01,
    ...        why="weekly report")  # doctest: +SKIP
    """
    budget = {"rho": rho, "epsilon": epsilon, "delta": delta, "error": error, "pure": pure}
    with nullcontext(ledger) if isinstance(ledger, Ledger) else opened(ledger) as book:
        statement = planned(text, catalogue(book, public or {}), **budget)
        account = statement.plan.account
        if explain or statement.options.explain:
            return explained(statement, account, key=key)
        with datasets.told_of_moves(book):
            return answered(statement, account, why=why, key=key, progress=progress)


def catalogue(book: Ledger, public: Mapping[str, Any]) -> Catalogue:
    """Everything that is registered in a ledger, and public tables beside it."""
    private = {}
    for name, dataset in datasets.known(book).items():
        account = book.open(dataset.population)
        private[name] = known_of(dataset, dataset.opened(account))
    tables = {name: _public(rows, book) for name, rows in public.items()}
    for name in tables:
        if name.casefold() in {each.casefold() for each in private}:
            raise InvalidInput("public", name, "another name: a private data set is registered under this one")
    return Catalogue(private, tables)


def _public(rows: Any, book: Ledger) -> PublicTable:
    """A public table that was named or given; a file is opened once, and none of the private ones."""
    if isinstance(rows, PublicTable):
        return rows
    return public_table(public_file(rows, JOINED, None, book) if isinstance(rows, str | Path) else rows)


def known_of(dataset: Dataset, table: Table) -> Known:
    """What a registration says to statements."""
    asking = dataset.asking
    keys = {name: tuple(row[0] for row in rows) for name, rows in _keys(asking.get("keys", {}), table).items()}
    return Known(
        table,
        dataset.population,
        keys,
        asking.get("key_delta"),
        asking.get("per_query", {}),
        asking.get("most_per_query", {}),
        dataset.name,
        asking.get("version", ""),
    )


def _keys(listed: Mapping[str, Iterable[Any]], table: Table) -> dict[str, tuple[Any, ...]]:
    from tallystick.tables.schema import day

    found = {}
    for name, values in listed.items():
        typed = [day(v) for v in values] if table.schema.type_of(name) == "date" else values
        found[name] = public_keys([(value,) for value in typed], [name], table.schema).rows
    return found


def registered(
    table: Table,
    *,
    keys: Mapping[str, list[Any]],
    key_delta: float | None,
    per_query: Mapping[str, float],
    most_per_query: Mapping[str, float],
    version: str | None,
) -> dict[str, Any]:
    """What an owner registers for statements, checked, as plain data; what is not said is left out."""
    plain = {
        name: [getattr(v, "isoformat", lambda v=v: v)() for (v,) in rows] for name, rows in _keys(keys, table).items()
    }
    for option, price in (("--per-query", per_query), ("--most-per-query", most_per_query)):
        for word, amount in price.items():
            if word not in ("rho", "epsilon", "delta"):
                raise InvalidInput(option, word, "rho=0.01, or epsilon=0.5,delta=1e-6")
            check.positive(f"{option} {word}", amount)
    said: dict[str, Any] = {
        "keys": plain,
        "key_delta": None if key_delta is None else check.inside("--key-delta", key_delta),
        "per_query": dict(per_query),
        "most_per_query": dict(most_per_query),
        "version": version,
    }
    return {name: value for name, value in said.items() if value not in (None, {})}


__all__ = ["Statement", "catalogue", "known_of", "registered", "sql"]
