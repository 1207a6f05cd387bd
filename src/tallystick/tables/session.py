"""The front door: ``ts.Private(source, account=...)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import AdjacencyMismatch, InvalidInput
from tallystick.tables.engines.base import open_engine
from tallystick.tables.schema import Schema
from tallystick.tables.sources import source_of
from tallystick.tables.table import EACH_ROW, EachRow, Table, table_name

if TYPE_CHECKING:
    from tallystick.ledger.account import Account

each_row: Final = EACH_ROW
"""``unit=ts.each_row``: protect single rows. Weaker than protecting the people the rows are about."""


class Private:
    """A source of private tables, and the account that pays for what is asked of them.

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

    def table(self, name: str | None = None, *, unit: str | EachRow, types: Mapping[str, str] | None = None) -> Table:
        """A table whose ``unit`` column says whom a row is about; reads its schema once, which is declared public.

        ``types`` declares column types where the source has none (CSV: undeclared columns are text).
        """
        if name is None:
            if not self.source.one_table:
                raise InvalidInput("table", name, "the name of a table of this source")
            name = next(iter(self.source.handle)) if self.source.kind == "memory" else "table"
        with open_engine(self.source) as engine:
            schema = engine.schema(table_name(name))
        return Table(
            source=self.source,
            name=name,
            schema=_declared(schema, types or {}, castable=self.source.kind == "csv"),
            unit=unit,
            adjacency=self.adjacency,
            account=self.account,
        )


def _declared(schema: Schema, types: Mapping[str, str], *, castable: bool) -> Schema:
    for name, kind in types.items():
        found = schema.type_of(name)
        if not castable and found != kind:
            raise InvalidInput(f"types[{name!r}]", kind, f"{found}, which is what the source says")
    return Schema.of(tuple((name, types.get(name, kind)) for name, kind in schema.columns))
