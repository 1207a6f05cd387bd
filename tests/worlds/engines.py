"""Where packed tables can lie: in memory, in files, in PostgreSQL with hostile collations, on Spark."""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from worlds.tables import COLUMNS, Row, Worlds

TABLE = "worlds"
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_FAR_DAYS = {"first": -(2**31) + 1, "year 0": -719_163, "year 10000": 2_932_897, "last": 2**31 - 1}
_number = itertools.count()


@dataclass(frozen=True)
class Places:
    """Where two neighbouring tables are; ``third`` is the first one again, on another engine."""

    kind: str
    one: Any
    two: Any
    third: Any = None


class Host(Protocol):
    """Somewhere that packed tables can be put."""

    name: str

    def places(self, worlds: Worlds, draw: random.Random) -> Places:
        """Put both tables there."""


def arrow(worlds: Worlds, rows: list[Row], order: list[str]) -> pa.Table:
    """The rows as Arrow has them."""
    keys = {"text": pa.string(), "integer": pa.int64(), "date": pa.date32(), "boolean": pa.bool_()}
    types = {
        "w": pa.int32(), "u": keys[worlds.unit], "k": keys[worlds.key], "i": pa.int64(), "x": pa.float64(),
        "d": pa.decimal128(38, worlds.scale), "t": pa.string(), "b": pa.bool_(), "day": pa.date32(),
        "f": pa.float32(), "n": pa.int64() if worlds.plain else pa.uint64(), "Small": pa.int8(),
    }  # fmt: skip
    columns = {}
    for column in order:
        kind = types[column]
        values = [row[column] for row in rows]
        if kind == pa.date32():
            columns[worlds.names[column]] = pa.array([_days(value) for value in values], pa.int32()).cast(kind)
        else:
            columns[worlds.names[column]] = pa.array(values, kind)
    return pa.table(columns)


def _days(value: Any) -> int | None:
    return _FAR_DAYS[value] if isinstance(value, str) else None if value is None else value.toordinal() - _EPOCH


class Files:
    """DuckDB over Arrow tables in memory, Parquet, CSV and DuckDB files."""

    name = "DuckDB"
    kinds = ("memory", "parquet", "csv", "duckdb", "csv")

    def __init__(self, folder: Path, kinds: tuple[str, ...] = kinds) -> None:
        self.folder, self.kinds = folder, kinds

    def places(self, worlds: Worlds, draw: random.Random) -> Places:
        kind = draw.choice(self.kinds)
        one, two = (self._put(kind, worlds, rows, worlds.order(draw), draw) for rows in (worlds.one, worlds.two))
        return Places(kind, one, two)

    def _put(self, kind: str, worlds: Worlds, rows: list[Row], order: list[str], draw: random.Random) -> Any:
        if kind == "memory":
            return {TABLE: arrow(worlds, rows, order)}
        path = self.folder / f"worlds{next(_number)}.{kind}"
        if kind == "parquet":
            pq.write_table(arrow(worlds, rows, order), path)
        elif kind == "csv":
            path.write_bytes(csv_of(worlds, rows, order, quoting=draw.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))))
        else:
            self._duckdb(path, arrow(worlds, rows, order), worlds)
        return str(path)

    @staticmethod
    def _duckdb(path: Path, table: pa.Table, worlds: Worlds) -> None:
        """A DuckDB file whose texts compare without case and accents."""
        import duckdb

        loose = {worlds.names[column] for column in COLUMNS if worlds.types[worlds.names[column]] == "text"}
        quoted = ['"' + name.replace('"', '""') + '"' for name in table.column_names]
        chosen = [
            f"{shown}::varchar collate nocase.noaccent as {shown}" if name in loose else shown
            for name, shown in zip(table.column_names, quoted, strict=True)
        ]
        with duckdb.connect(str(path)) as connection:
            connection.register("given", table)
            connection.execute(f"create table {TABLE} as select {', '.join(chosen)} from given")


def csv_of(worlds: Worlds, rows: list[Row], order: list[str], *, quoting: Any = csv.QUOTE_MINIMAL) -> bytes:
    """A CSV file; lines that are broken are so in ways that a unit's own line can be."""
    names = [worlds.names[column] for column in order]
    lines = [_line(names, quoting)]
    for row in rows:
        cells = ["" if row[column] is None else str(row[column]) for column in order]
        lines.append(
            _broken(cells, order.index("t"), row["broken"], quoting) if "broken" in row else _line(cells, quoting)
        )
    return b"".join(lines)


def _line(cells: list[str], quoting: Any) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, quoting=quoting).writerow(cells)
    return text.getvalue().encode()


def _broken(cells: list[str], at: int, how: str, quoting: Any) -> bytes:
    """One line, or one quoted record, that is not as it should be."""
    if how == "short":
        return _line(cells[:-1], quoting)
    if how == "wide":
        return _line([*cells, "more"], quoting)
    if how in ("long", "too long"):
        cells = [*cells[:at], 'x,"\n0,0,0,0' * (60_000 if how == "long" else 1_500_000), *cells[at + 1 :]]
        return _line(cells, quoting)
    cells = [cell.replace('"', "").replace("\n", "").replace("\r", "").replace(",", "") for cell in cells]
    told = {"unclosed": b'"open', "closed early": b'"a"b', "no text": b"\xff\xfe", "null byte": b"a\0b"}[how]
    return b",".join(told if i == at else cell.encode() for i, cell in enumerate(cells)) + b"\n"


class Postgres:
    """PostgreSQL: numerics without scale, infinite dates, and text that a collation compares without case."""

    name = "PostgreSQL"

    def __init__(self, url: str, folder: Path, *, mark: int = 0) -> None:
        import psycopg

        self.url, self.folder = url, folder
        self.schemas = (f"one{mark}", f"two{mark}")
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute("SET client_min_messages = warning")
        for schema in self.schemas:
            self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        try:  # texts that differ in case or accents are equal to it; a build without ICU cannot have such a collation
            self.connection.execute(
                "CREATE COLLATION IF NOT EXISTS public.loose "
                "(provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
            )
            self.loose = " COLLATE public.loose"
        except psycopg.Error:
            self.loose = ""

    def places(self, worlds: Worlds, draw: random.Random) -> Places:
        """The same table name in two schemas, each with a URL that finds its own first."""
        kinds = self._kinds(worlds, draw)
        urls = []
        for schema, rows in zip(self.schemas, (worlds.one, worlds.two), strict=True):
            self._fill(schema, worlds, rows, kinds)
            mark = "&" if "?" in self.url else "?"
            urls.append(f"{self.url}{mark}options=-csearch_path%3D{schema}%2Cpublic")
        third = None
        if worlds.plain:
            third = str(self.folder / f"worlds{next(_number)}.parquet")
            pq.write_table(arrow(worlds, worlds.one, list(COLUMNS)), third)
        return Places("table", *urls, third)

    def _kinds(self, worlds: Worlds, draw: random.Random) -> dict[str, str]:
        if worlds.plain:
            number = {"d": "numeric", "n": "bigint"}
        else:
            digits = f"numeric(60,{worlds.scale})"
            number = {"d": draw.choice(("numeric", digits)), "n": "numeric"}
        text = f"text{self.loose}"
        # char(n) takes "a" and "a " for one value, so no unit may be stored in it
        kinds = {"text": text, "integer": "bigint", "date": "date", "boolean": "boolean"}
        short = text if worlds.plain else draw.choice((text, f"char(400){self.loose}", f"varchar(400){self.loose}"))
        return {
            "w": "int", "u": kinds[worlds.unit], "k": kinds[worlds.key], "i": "bigint", "x": "double precision",
            "t": short, "b": "boolean", "day": "date", "f": "real", "Small": "smallint", **number,
        }  # fmt: skip

    def _fill(self, schema: str, worlds: Worlds, rows: list[Row], kinds: dict[str, str]) -> None:
        columns = ", ".join('"' + worlds.names[column].replace('"', '""') + f'" {kinds[column]}' for column in COLUMNS)
        self.connection.execute(f"DROP TABLE IF EXISTS {schema}.{TABLE}")
        self.connection.execute(f"CREATE TABLE {schema}.{TABLE} ({columns})")
        with self.connection.cursor() as cursor, cursor.copy(f"COPY {schema}.{TABLE} FROM STDIN") as copy:
            for row in rows:
                copy.write_row([_as_postgres(row[column], kinds[column]) for column in COLUMNS])

    def close(self) -> None:
        self.connection.close()


def _as_postgres(value: Any, kind: str) -> Any:
    """What no other engine has: numbers beyond doubles, infinite days, years before Christ."""
    if kind == "date" and isinstance(value, str):
        return {"first": "-infinity", "year 0": "0001-12-31 BC", "year 10000": "10000-01-01", "last": "infinity"}[value]
    if kind == "numeric" and isinstance(value, int):
        return {2**64 - 1: "1e400", 2**63: "NaN", 2**53 + 1: "Infinity", 1: "1e-400"}.get(value, value)
    return value


class Spark:
    """Spark over Parquet: two sessions, each with a view of the same name."""

    name = "Spark"

    def __init__(self, session: Any, folder: Path) -> None:
        self.folder = folder
        self.sessions = [session.newSession(), session.newSession()]

    def places(self, worlds: Worlds, draw: random.Random) -> Places:
        paths = []
        for session, rows in zip(self.sessions, (worlds.one, worlds.two), strict=True):
            path = self.folder / f"worlds{next(_number)}.parquet"
            pq.write_table(arrow(worlds, rows, worlds.order(draw)), path)
            session.read.parquet(str(path)).createOrReplaceTempView(TABLE)
            paths.append(str(path))
        return Places("view", *self.sessions, paths[0] if worlds.plain else None)
