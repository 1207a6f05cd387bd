"""An engine that sees public or released rows and nothing else: no file, no network, no private table.

What stands after the noise in a statement (HAVING, ORDER BY, LIMIT, arithmetic, windows over the answer) runs here, and
so does a subquery about public tables only.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from sqlglot import exp

from tallystick.errors import Refused

Columns = Sequence[tuple[str, str]]
_SQL_TYPES: Final = {"integer": "BIGINT", "number": "DOUBLE", "text": "VARCHAR", "boolean": "BOOLEAN", "date": "DATE"}
_PATIENCE: Final = 10.0
_ALONE: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "threads": "1",
    "memory_limit": "2GB",
    "max_temp_directory_size": "0B",
}


class Outside:
    """One connection with nothing in it but what is put there."""

    def __init__(self, tables: Mapping[str, tuple[Columns, Iterable[Sequence[Any]]]]) -> None:
        import duckdb  # start-up: it takes a quarter of a second of CPU to load

        self._connection = duckdb.connect(":memory:", config=_ALONE)
        # Released tables are small, and an optimizer writes nested columns out wherever they are used.
        self._connection.execute("PRAGMA disable_optimizer")
        self._connection.execute("SET lock_configuration = true")
        for name, (columns, rows) in tables.items():
            self._put(name, columns, list(rows))

    def _put(self, name: str, columns: Columns, rows: list[Sequence[Any]]) -> None:
        given = {f"c{i}": np.array([_handed(row[i]) for row in rows], dtype=object) for i in range(len(columns))}
        casts = ", ".join(
            f"CAST(c{i} AS {_SQL_TYPES[kind]}) AS {_quoted(column)}" for i, (column, kind) in enumerate(columns)
        )
        if rows:
            self._connection.register("given", given)
            self._connection.execute(f"CREATE TABLE {_quoted(name)} AS SELECT {casts} FROM given")
            self._connection.unregister("given")
        else:
            kinds = ", ".join(f"{_quoted(column)} {_SQL_TYPES[kind]}" for column, kind in columns)
            self._connection.execute(f"CREATE TABLE {_quoted(name)} ({kinds})")

    def rows(self, tree: exp.Query) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Run a query; what the engine says when it fails is not repeated."""
        import duckdb  # start-up, as above

        # Texts that are put together from themselves double at every level: where that ends, it ends in the rehearsal,
        # which is before the charge.
        patience = threading.Timer(_PATIENCE, self._connection.interrupt)
        patience.start()
        try:
            answer = self._connection.execute(tree.sql(dialect="duckdb"))
            return [str(column[0]) for column in answer.description or []], answer.fetchall()
        except duckdb.Error:
            raise Refused(
                "what the statement does after the noise does not fit the released table (a type, a function, a "
                f"number too large) or takes more than {_PATIENCE:g} seconds; where it was charged it stays so, and "
                "the same aggregates alone cost no more. Try: the aggregates alone, and the rest in your own program"
            ) from None
        finally:
            patience.cancel()

    def __enter__(self) -> Outside:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _handed(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.date) else value


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect="duckdb")
