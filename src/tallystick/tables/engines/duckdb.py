"""DuckDB, in this process: Parquet, CSV, DuckDB files, and tables in memory."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
from sqlglot import exp

from tallystick.errors import InvalidInput
from tallystick.tables.dialects import DuckWords, Words, name
from tallystick.tables.schema import Schema, family
from tallystick.tables.sources import Source

if TYPE_CHECKING:
    from tallystick.tables.keyset import PublicTable

ROWS_PER_SHARE = 10_000_000
"""Cells of this many rows take about a gigabyte; larger tables are read once per share, which costs little."""

LONGEST_HEADER = 1 << 20

_TYPES: dict[str, Any] = {
    "integer": np.int64,
    "number": np.float64,
    "boolean": np.bool_,
    "text": object,
    "date": "datetime64[D]",
}


def connect(source: Source) -> DuckEngine:
    """A fresh in-process database beside the source; files are opened read-only."""
    if source.kind in ("parquet", "csv", "duckdb") and "*" not in source.place and not Path(source.place).exists():
        raise InvalidInput("source", source.place, "an existing file")
    return DuckEngine(source)


class DuckEngine:
    """One private in-memory database per release; it disappears with the connection."""

    words: Words = DuckWords()

    def __init__(self, source: Source) -> None:
        self.source = source
        self.connection = duckdb.connect(":memory:")
        # A private job never installs or loads extensions, and never reads settings from the machine.
        for setting in ("autoinstall_known_extensions", "autoload_known_extensions"):
            self.connection.execute(f"SET {setting} = false")
        self.connection.execute("SET preserve_insertion_order = false")
        # what does not fit in memory goes to a folder that only this user can read, and that goes with the engine
        self.spill = tempfile.TemporaryDirectory(prefix="tallystick-", ignore_cleanup_errors=True)
        self.connection.execute("SET temp_directory = ?", [self.spill.name])
        if source.kind == "duckdb":
            path = self.words.render(exp.Literal.string(source.place))
            self.connection.execute(f"ATTACH {path} AS source (READ_ONLY)")
        if source.kind == "memory":
            for i, held in enumerate((source.handle or {}).values()):
                self.connection.register(f"_memory{i}", held)

    def relation(self, table: str, schema: Schema) -> exp.Expression:
        if self.source.kind == "csv":
            return self._csv(schema)
        return self._stored(table)

    def _stored(self, table: str) -> exp.Expression:
        if self.source.kind == "parquet":
            reader = exp.Anonymous(this="READ_PARQUET", expressions=[exp.Literal.string(self.source.place)])
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

    def _csv(self, schema: Schema) -> exp.Expression:
        """Every cell is text; a cell not of its declared type is missing, a line with too few is dropped."""
        columns = exp.Struct(
            expressions=[
                exp.PropertyEQ(this=exp.to_identifier(column, quoted=True), expression=exp.Literal.string("VARCHAR"))
                for column in schema.names
            ]
        )
        delimiter = "\t" if self.source.place.lower().endswith(".tsv") else ","
        options = {
            "auto_detect": exp.false(),
            "header": exp.true(),
            "delim": exp.Literal.string(delimiter),
            "quote": exp.Literal.string('"'),
            "escape": exp.Literal.string('"'),
            "ignore_errors": exp.true(),
            "strict_mode": exp.false(),  # in strict mode a stray line ending is an error that nothing ignores
            "null_padding": exp.false(),
            "max_line_size": exp.Literal.number(1 << 24),
            "columns": columns,
        }
        arguments: list[exp.Expression] = [exp.Literal.string(self.source.place)]
        arguments += [exp.PropertyEQ(this=exp.to_identifier(key), expression=v) for key, v in options.items()]
        reader = exp.Anonymous(this="READ_CSV", expressions=arguments)
        cells = [
            exp.alias_(name(column) if kind == "text" else self.words.try_cast(name(column), kind), column, quoted=True)
            for column, kind in schema.columns
        ]
        return exp.select(*cells).from_(reader).subquery()

    def schema(self, table: str) -> Schema:
        if self.source.kind == "csv":
            return Schema.of(dict.fromkeys(_header(self.source.place), "text"))
        try:
            shown = exp.select("*").from_(self._stored(table)).limit(0)
            described = self.connection.execute(self.words.render(shown)).description or []
        except duckdb.CatalogException:
            raise InvalidInput("table", table, "a table of this source") from None
        except duckdb.Error:
            raise InvalidInput("source", self.source.place, f"a readable {self.source.kind} file") from None
        return Schema.of(tuple((str(column[0]), family(str(column[1]))) for column in described))

    def upload(self, name: str, public: PublicTable) -> None:
        columns = {
            column: np.array([row[i] for row in public.rows], dtype=_TYPES[kind])
            for i, (column, kind) in enumerate(public.columns)
        }
        self.connection.register(f"{name}_given", columns)
        casts = [exp.alias_(self.words.cast(_column(c), kind), c, quoted=True) for c, kind in public.columns]
        self.keep(name, exp.select(*casts).from_(exp.Table(this=exp.to_identifier(f"{name}_given", quoted=True))))

    def understand(self, query: exp.Query) -> None:
        self.connection.execute(f"EXPLAIN {self.words.render(query)}").fetchall()

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
        self.spill.cleanup()


_column = name


def _quoted(text: str) -> str:
    return exp.to_identifier(text, quoted=True).sql(dialect="duckdb")


def _header(place: str) -> list[str]:
    """The first line of a CSV file: the only part of it that is read before a charge, and declared public."""
    try:
        with Path(place).open("rb") as file:
            line = file.readline(LONGEST_HEADER)  # bytes: decoding more than this line would look at data
        text = line.decode("utf-8-sig")
        names = next(csv.reader([text], delimiter="\t" if place.lower().endswith(".tsv") else ",", strict=True), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        raise InvalidInput("source", place, "a readable CSV file in UTF-8 with a header line") from None
    if not names:
        raise InvalidInput("source", place, "a CSV file with a header line")
    return names
