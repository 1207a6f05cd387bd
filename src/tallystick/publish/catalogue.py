"""Registered tables as statements in SQL see them, and what an owner registers for statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.publish import datasets
from tallystick.tables.keyset import PublicTable, public_keys, public_table
from tallystick.tables.schema import day
from tallystick.tables.sources import JOINED, public_file
from tallystick.tables.sql.catalogue import Catalogue, Known

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.book import Ledger
    from tallystick.publish.datasets import Dataset
    from tallystick.tables.table import Table


def catalogue(book: Ledger, public: Mapping[str, PublicTable], account: str | None = None) -> Catalogue:
    """Return everything that is registered in a ledger, and public tables beside it.

    ``account`` pays for the datasets of its population.
    """
    private = {}
    chosen = None if account is None else book.open(account)
    for name, dataset in datasets.known(book).items():
        account_of = _payer(dataset, book, chosen)
        private[name] = known_of(dataset, dataset.opened(account_of))
    for name in public:
        if name.casefold() in {each.casefold() for each in private}:
            raise InvalidInput("public", name, "another name: a private dataset is registered under this one")
    return Catalogue(private, public)


def _payer(dataset: Dataset, book: Ledger, chosen: Account | None) -> Account:
    """Who pays for a dataset: the chosen account, if it is below the population, or who pays by default."""
    population = book.open(dataset.population)
    if chosen is not None and population.id in [number for number, _, _ in chosen.path]:
        return chosen
    mine = datasets.allowances(population, book)
    return mine[0] if len(mine) == 1 else population


def public_tables(given: Mapping[str, Any], book: Ledger) -> dict[str, PublicTable]:
    """Return public tables that are named or given; a file is opened once, and none of the private ones."""
    tables = {}
    for name, rows in given.items():
        is_path = isinstance(rows, str | Path)
        file = public_file(rows, JOINED, None, book) if is_path else rows
        tables[name] = file if isinstance(file, PublicTable) else public_table(file)
    return tables


def known_of(dataset: Dataset, table: Table) -> Known:
    """Facts of a registration that statements need."""
    asking = dataset.asking
    return Known(
        table,
        dataset.population,
        lists_of(dataset, table),
        asking.get("key_delta"),
        asking.get("per_query", {}),
        asking.get("most_per_query", {}),
        dataset.name,
        asking.get("version", ""),
    )


def lists_of(dataset: Dataset, table: Table) -> dict[str, tuple[Any, ...]]:
    """Return the registered lists of the values of columns."""
    listed = _keys(dataset.asking.get("keys", {}), table)
    return {name: tuple(row[0] for row in rows) for name, rows in listed.items()}


def _keys(listed: Mapping[str, Iterable[Any]], table: Table) -> dict[str, tuple[Any, ...]]:
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
    group_size: int | None = None,
    most_rows: int | None = None,
    people: int | None = None,
) -> dict[str, Any]:
    """Return what an owner registers for queries, checked, as plain data; missing facts are left out."""
    plain = {
        name: [getattr(v, "isoformat", lambda v=v: v)() for (v,) in rows] for name, rows in _keys(keys, table).items()
    }
    for argument, price in (("per_query", per_query), ("most_per_query", most_per_query)):
        for word, amount in price.items():
            if word not in ("rho", "epsilon", "delta"):
                raise InvalidInput(argument, word, "rho=0.01, or epsilon=0.5,delta=1e-6")
            check.positive(f"{argument}[{word}]", amount)
    said: dict[str, Any] = {
        "keys": plain,
        "key_delta": None if key_delta is None else check.inside("key_delta", key_delta),
        "per_query": dict(per_query),
        "most_per_query": dict(most_per_query),
        "version": version,
        "people": None if people is None else check.count("people", people, least=1),
        "most_rows": None if most_rows is None else check.count("most_rows", most_rows, least=1),
        "group_size": None if group_size is None else check.count("group_size", group_size, least=1),
    }
    return {name: value for name, value in said.items() if value not in (None, {})}
