"""What an engine must do: name a table, take public tables, keep a stage, and hand back small integer results."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tallystick.errors import InvalidInput, TallystickError, Unavailable
from tallystick.tables.dialects import Words
from tallystick.tables.schema import Schema
from tallystick.tables.sources import Source

if TYPE_CHECKING:
    from sqlglot import exp

    from tallystick.tables.keyset import Upload

_HOMES = {
    "parquet": "duckdb",
    "csv": "duckdb",
    "duckdb": "duckdb",
    "memory": "duckdb",
    "spark": "spark",
    "postgres": "postgres",
}


class Engine(Protocol):
    """A query engine bound to one source. Only aggregates leave it."""

    words: Words
    in_shares: bool
    """Whether large tables are worked through in disjoint sets of units, one after the other."""

    def schema(self, table: str) -> Schema:
        """Names and types of a table's columns."""

    def stored(self, table: str, schema: Schema, *, rows: bool = True) -> exp.Query:
        """The stored table with columns of the declared types, called by their places; without ``rows``, empty."""

    def upload(self, name: str, public: Upload) -> None:
        """Make a public table available under a name of ours."""

    def shares(self, table: str) -> int:
        """In how many sets of units the table is best worked through; asked only where ``in_shares``."""

    def keep(self, name: str, query: exp.Query) -> None:
        """Compute a stage once and keep it under a name."""

    def forget(self, name: str) -> None:
        """Let go of a stage."""

    def collect(self, query: exp.Query) -> list[Sequence[Any]]:
        """Run a query and return its columns as sequences."""

    def close(self) -> None:
        """Forget every stage and let go of the source."""


@contextlib.contextmanager
def open_engine(source: Source) -> Iterator[Engine]:
    """The engine of a source. What goes wrong inside is said without the engine's words: they may quote data."""
    if source.kind in ("memory", "spark") and source.handle is None:
        raise InvalidInput("source", source.kind, "the table or session again: plan.on(source)")
    module = importlib.import_module(f"tallystick.tables.engines.{_HOMES[source.kind]}")
    with quiet("opening the source"):
        engine: Engine = module.connect(source)
    try:
        with quiet("reading the table"):
            yield engine
    finally:
        with contextlib.suppress(Exception):
            engine.close()


@contextlib.contextmanager
def quiet(doing: str) -> Iterator[None]:
    """Replace any foreign exception by one of ours that says what was being done, and nothing of what was found."""
    try:
        yield
    except TallystickError:
        raise
    except Exception:
        message = f"the engine failed while {doing}; its message is withheld, it could quote data"
        raise Unavailable(message) from None
