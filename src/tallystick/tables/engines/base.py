"""Interface of an engine: name a table, take public tables, keep a stage, and hand back small integer results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from tallystick.tables.dialects import Words
from tallystick.tables.schema import Schema

if TYPE_CHECKING:
    from sqlglot import exp

    from tallystick.tables.identity import Identity
    from tallystick.tables.keyset import Upload


class Engine(Protocol):
    """A query engine bound to one source. Only aggregates leave it."""

    words: Words
    in_shares: bool
    """Whether large tables are worked through in disjoint sets of units, one after the other."""

    def schema(self, table: str) -> Schema:
        """Names and types of a table's columns."""

    def stored(self, table: str, schema: Schema, *, rows: bool = True) -> exp.Query:
        """The stored table with columns of the declared types, called by their places; without ``rows``, empty."""

    def names(self, table: str) -> tuple[Any, ...] | None:
        """All that ``stored`` makes SQL of besides schema and rows; None if that is more than names."""

    def upload(self, name: str, public: Upload) -> None:
        """Make a public table available under a name of ours."""

    def try_reading(self, tables: Sequence[str]) -> None:
        """Fail now if settings of the engine would make it fail at the first row of a stored table."""

    def like(self, tables: Sequence[str]) -> str | None:
        """Facts besides its text that decide how SQL over no rows of these tables fares; None if that is unknown."""

    def show(self, name: str, sql: str) -> None:
        """Give a query a name; it is computed wherever the name is used."""

    def keep(self, name: str, sql: str) -> None:
        """Compute a stage once and keep it under a name."""

    def forget(self, name: str) -> None:
        """Let go of a stage."""

    def collect(self, sql: str) -> list[Sequence[Any]]:
        """Run a query and return its columns as sequences."""

    def identify(self, table: str) -> Identity:
        """Which data a table holds. The marks are read where the rows will be read, so they are about those rows."""

    def reset(self) -> None:
        """Forget every stage and every uploaded table. The source stays as it was opened."""

    def close(self) -> None:
        """Forget every stage and let go of the source."""


class SortingEngine(Engine, Protocol):
    """An engine whose rows can be counted and had as arrays: one with ``words.sorts`` that is ``in_shares``."""

    def stored_rows(self, table: str) -> int:
        """Number of rows of a stored table, or a few more; asked of engines ``in_shares``, and once."""

    def arrays(self, sql: str) -> list[NDArray[Any]]:
        """The columns of a query of whole numbers and texts, none missing, as arrays of ours."""

    def lend(self, name: str, columns: Mapping[str, NDArray[Any]]) -> None:
        """Let SQL read arrays under a name of ours, in place of what had it."""
