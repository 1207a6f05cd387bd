"""DuckDB, in this process: Parquet, CSV, DuckDB files, and tables in memory."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
from sqlglot import exp

from tallystick.errors import InvalidInput
from tallystick.tables.dialects import UNCHECKED, DuckWords, Words, name
from tallystick.tables.engines import csvfile
from tallystick.tables.program import read_stored
from tallystick.tables.schema import Schema, family
from tallystick.tables.sources import Scratch, Source

if TYPE_CHECKING:
    from tallystick.tables.keyset import Upload

ROWS_PER_SHARE = 10_000_000
"""Cells of this many rows take about a gigabyte; larger tables are read once per share, which costs little."""

_TYPES: dict[str, Any] = {
    "integer": np.int64,
    "number": np.float64,
    "boolean": np.bool_,
    "text": object,
    "date": object,
}


def connect(source: Source) -> DuckEngine:
    """A fresh in-process database beside the source; files are opened read-only."""
    if source.kind in ("parquet", "csv", "duckdb") and not Path(source.place).is_file():  # a pipe would be waited for
        raise InvalidInput("source", source.place, "an existing file; patterns such as *.parquet are not read")
    return DuckEngine(source)


class DuckEngine:
    """One private in-memory database per release; it disappears with the connection."""

    words: Words = DuckWords()
    in_shares = True

    def __init__(self, source: Source) -> None:
        self.source = source
        self.csv_names: list[str] | None = None
        self.connection = duckdb.connect(":memory:")
        # A private job never installs or loads extensions, and never reads settings from the machine.
        for setting in ("autoinstall_known_extensions", "autoload_known_extensions"):
            self.connection.execute(f"SET {setting} = false")
        self.connection.execute("SET preserve_insertion_order = false")
        self.connection.execute("SET TimeZone = 'UTC'")  # the day of a moment is the same on every machine
        self.scratch = Scratch()
        self.connection.execute("SET temp_directory = ?", [str(self.scratch.path)])
        if source.kind == "duckdb":
            path = self.words.render(exp.Literal.string(source.place))
            self.connection.execute(f"ATTACH {path} AS source (READ_ONLY)")
        if source.kind == "memory":
            for i, content in enumerate((source.handle or {}).values()):
                self.connection.register(f"_memory{i}", content)

    def stored(self, table: str, schema: Schema, *, rows: bool = True) -> exp.Query:
        source = self._csv(rows=rows) if self.source.kind == "csv" else self._stored(table)
        unchecked = schema.names if self.source.kind == "memory" else ()  # Arrow's text may be no text
        query = read_stored(schema, self.words, source, dict.fromkeys(unchecked, UNCHECKED))
        return query if rows else query.where(exp.false())

    def _stored(self, table: str) -> exp.Expression:
        if self.source.kind == "parquet":
            # A file of this very name: files that match it would be a source of another name for the same people.
            place = re.sub(r"([*?\[])", r"[\1]", self.source.place)
            # A byte that is not UTF-8 reads as a question mark; by default it would end the scan, after the charge.
            total = exp.PropertyEQ(this=exp.to_identifier("utf8_validation"), expression=exp.Literal.string("replace"))
            reader = exp.Anonymous(this="READ_PARQUET", expressions=[exp.Literal.string(place), total])
            return exp.Table(this=reader)
        if self.source.kind == "memory":
            names = list(self.source.handle or {})
            if table not in names:
                raise InvalidInput("table", table, f"one of {', '.join(names)}")
            return exp.Table(this=exp.to_identifier(f"_memory{names.index(table)}", quoted=True))
        schema, _, plain = table.rpartition(".")
        return exp.Table(
            this=exp.to_identifier(plain, quoted=True),
            db=exp.to_identifier(schema or "main", quoted=True),
            catalog=exp.to_identifier("source", quoted=True),
        )

    def _csv(self, *, rows: bool) -> exp.Expression:
        """Every cell is text; a cell not of its declared type is missing, a line with too few is dropped."""
        copy = self.scratch.path / "rows.csv"
        if not rows:
            names = csvfile.header(self.source.place)
            copy.touch(mode=0o600)
        elif self.csv_names is None:
            names = self.csv_names = csvfile.private_copy(self.source.place, copy)
        else:
            names = self.csv_names
        columns = [
            exp.PropertyEQ(this=exp.to_identifier(column, quoted=True), expression=exp.Literal.string("VARCHAR"))
            for column in names
        ]
        options = {
            "auto_detect": exp.false(),
            "parallel": exp.false(),  # two threads disagree on where a line begins inside a long quoted cell
            "header": exp.false(),
            "delim": exp.Literal.string(csvfile.delimiter(self.source.place)),
            "quote": exp.Literal.string('"'),
            "escape": exp.Literal.string('"'),
            "ignore_errors": exp.true(),
            "strict_mode": exp.false(),
            "null_padding": exp.false(),
            "max_line_size": exp.Literal.number(2 * csvfile.LONGEST_RECORD),
            "columns": exp.Struct(expressions=columns),
        }
        arguments: list[exp.Expression] = [exp.Literal.string(str(copy))]
        arguments += [exp.PropertyEQ(this=exp.to_identifier(key), expression=v) for key, v in options.items()]
        return exp.Table(this=exp.Anonymous(this="READ_CSV", expressions=arguments))

    def schema(self, table: str) -> Schema:
        if self.source.kind == "csv":
            return Schema.of(tuple((column, "text") for column in csvfile.header(self.source.place)))
        try:
            shown = exp.select("*").from_(self._stored(table)).limit(0)
            described = self.connection.execute(self.words.render(shown)).description or []
        except duckdb.CatalogException:
            raise InvalidInput("table", table, "a table of this source") from None
        except duckdb.Error:
            raise InvalidInput("source", self.source.place, f"a readable {self.source.kind} file") from None
        return Schema.of(tuple((str(column[0]), family(str(column[1]))) for column in described))

    def upload(self, name: str, public: Upload) -> None:
        columns = {
            column: np.array([_handed(row[i]) for row in public.rows], dtype=_TYPES[kind])
            for i, (column, kind) in enumerate(public.columns)
        }
        self.connection.register(f"{name}_given", columns)
        casts = [exp.alias_(self.words.cast(_column(c), kind), c, quoted=True) for c, kind in public.columns]
        self.keep(name, exp.select(*casts).from_(exp.Table(this=exp.to_identifier(f"{name}_given", quoted=True))))

    def shares(self, table: str) -> int:
        if self.source.kind == "csv":  # reading it is most of the work
            return 1
        counted = exp.select(exp.Count(this=exp.Star())).from_(self._stored(table))
        [(rows,)] = self.connection.execute(self.words.render(counted)).fetchall()
        return max(1, -(-int(rows) // ROWS_PER_SHARE))

    def keep(self, name: str, query: exp.Query) -> None:
        self.connection.execute(f"CREATE TEMP TABLE {_quoted(name)} AS {self.words.render(query)}")

    def forget(self, name: str) -> None:
        self.connection.execute(f"DROP TABLE IF EXISTS {_quoted(name)}")

    def collect(self, query: exp.Query) -> list[Sequence[Any]]:
        answer = self.connection.execute(self.words.render(query))
        width = len(answer.description or [])
        rows = answer.fetchall()
        return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]

    def close(self) -> None:
        self.connection.close()
        self.scratch.close()


_column = name


def _handed(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.date) else value


def _quoted(text: str) -> str:
    return exp.to_identifier(text, quoted=True).sql(dialect="duckdb")
