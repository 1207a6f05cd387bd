"""A source of private tables: the way into this package. It opens a source for its schema only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import AdjacencyMismatch, InvalidInput
from tallystick.printing import html_text
from tallystick.tables.reader import open_engine
from tallystick.tables.reporting.table import place
from tallystick.tables.schema import Schema
from tallystick.tables.sources import source_of
from tallystick.tables.sql.answer import asked_of
from tallystick.tables.steps import EachRow
from tallystick.tables.table import Table, table_name

if TYPE_CHECKING:
    from tallystick.ledger.account import Account


class Private:
    """A source of private tables, and the account that is charged for queries of them.

    >>> import pyarrow
    >>> visits = Private(pyarrow.table({"patient": [1, 1, 2], "ward": ["a", "b", "a"]})).table(unit="patient")
    >>> visits.schema.names
    ('patient', 'ward')
    """

    __slots__ = ("account", "adjacency", "source")

    def __init__(self, source: Any, *, account: Account | None = None, adjacency: Any = None) -> None:
        self.source = source_of(source)
        self.account = account
        own = None if account is None else Adjacency(account.adjacency)
        self.adjacency = check.adjacency(adjacency) if adjacency is not None else own or Adjacency.ADD_REMOVE
        if own is not None and own is not self.adjacency:
            raise AdjacencyMismatch(own, self.adjacency)

    def __repr__(self) -> str:
        payer = "no account pays yet" if self.account is None else f"paid by {self.account.name}"
        return f"<Private {place(self.source)}, {payer}; open a table of it with .table(unit=...)>"

    def _repr_html_(self) -> str:
        return f"<p>{html_text(repr(self)[1:-1])}</p>"

    def table(self, name: str | None = None, *, unit: str | EachRow, types: Mapping[str, str] | None = None) -> Table:
        """A table whose ``unit`` column says whom a row is about; reads its schema once, which is declared public.

        ``types`` declares column types if the source has no types (CSV, objects of pandas: undeclared ones are text).
        """
        if name is None:
            if not self.source.one_table:
                raise InvalidInput("table", name, "the name of a table of this source")
            name = next(iter(self.source.handle)) if self.source.kind == "memory" else "table"
        with open_engine(self.source, rows=False, tables=[table_name(name)]) as engine:
            schema = engine.schema(name)
        return Table(
            source=self.source,
            name=name,
            schema=_declared(schema, types or {}, castable=self.source.member(name)[0].castable),
            unit=unit,
            adjacency=self.adjacency,
            account=self.account,
        )

    def sql(self, text: str, *tables: Table, **options: Any) -> Any:
        """Ask tables of this source in SQL; each is known by its name in the source.

        ``rho=``, ``epsilon=`` and ``delta=``, or ``error=`` say the cost and ``why=`` the reason; ``keys=`` lists a
        column's public groups, ``key_delta=`` lets the data propose them, ``public=`` names public tables, and
        ``version=`` what you call these data: with it the same statement is answered once, and then without a charge.

        >>> import pyarrow
        >>> source = Private({"visits": pyarrow.table({"patient": [1, 1, 2], "ward": ["a", "b", "a"]})})
        >>> visits = source.table("visits", unit="patient").per_unit(max_groups=2, max_rows_per_group=1)
        >>> wards = {"ward": ["a", "b"]}
        >>> print(source.sql("EXPLAIN SELECT ward, COUNT(*) FROM visits GROUP BY ward", visits, keys=wards, rho=0.1))
        Cost     rho 0.1 (epsilon 2.15 at delta 1e-6)
        Error    count  ±6 in every group (95 times in 100, privacy noise only)
        ...
        """
        return asked_of(text, tables, self.account, **options)


def _declared(schema: Schema, types: Mapping[str, str], *, castable: bool) -> Schema:
    for name, kind in types.items():
        own = schema.type_of(name)
        if own != kind and not (castable and own == "text"):
            raise InvalidInput(f"types[{name!r}]", kind, f"{own}, which is what the source says")
    return Schema.of(tuple((name, types.get(name, kind)) for name, kind in schema.columns))
