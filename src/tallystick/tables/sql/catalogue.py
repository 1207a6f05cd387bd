"""Tables that a statement may name: private tables as they are registered, and public tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from tallystick.errors import Remedy
from tallystick.place import shown
from tallystick.printing import one_of
from tallystick.tables.keyset import PublicTable
from tallystick.tables.sql.tree import Text
from tallystick.tables.table import Table


@dataclass(frozen=True, slots=True)
class Known:
    """A private table with what its owner registered for statements.

    ``keys`` are public lists of a column's groups, ``key_delta`` lets the data propose them; ``price`` is what a
    statement costs that does not say, ``most`` the most it may say. ``dataset`` is the registered name, and ``version``
    what its owner calls the data as they are now.
    """

    table: Table
    population: str = ""
    keys: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    key_delta: float | None = None
    price: Mapping[str, float] = field(default_factory=dict)
    most: Mapping[str, float] = field(default_factory=dict)
    dataset: str | None = None
    version: str | None = None


def default_price(tables: Iterable[Known]) -> dict[str, float]:
    """Cost of a statement about these tables that does not name one: the least of their defaults, in one currency."""
    prices = [dict(known.price) for known in tables if known.price]
    words = {"rho" if "rho" in price else "epsilon" for price in prices}
    if len(words) != 1:
        return {}
    [word] = words
    return min(prices, key=lambda price: price[word])


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Tables by the names that statements use; case does not count."""

    private: Mapping[str, Known]
    public: Mapping[str, PublicTable] = field(default_factory=dict)

    def find(self, text: Text, node: exp.Table) -> Known | PublicTable:
        """The table that a name means."""
        schema = node.args.get("db")
        if schema is not None and schema.name.casefold() not in ("public", "main"):
            raise text.wrong(f"schema {schema.name}", node, "a table's name alone")
        name = node.name.casefold()
        for tables in (self.private, self.public):
            for known, table in tables.items():
                if known.casefold() == name:
                    return table
        names = [*self.private, *self.public]
        known = one_of(node.name, names) or "none is registered"
        raise text.wrong(f"table {shown(node.name)}", node, f"one of: {known}", remedies=[Remedy("name_public_table")])

    def most_of(self, tree: exp.Expr, price: Mapping[str, Any]) -> dict[str, float]:
        """The least of what the owners of all private tables that a statement names let it cost.

        An owner whose own default this cost is has allowed it.
        """
        named = {node.name.casefold() for node in tree.find_all(exp.Table)}
        most: dict[str, float] = {}
        for name, known in self.private.items():
            if name.casefold() in named and dict(known.price) != price:
                most |= {word: min(limit, most.get(word, limit)) for word, limit in known.most.items()}
        return most
