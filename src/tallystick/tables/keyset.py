"""Which groups may appear: a public list, or a private choice of those in the data."""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from tallystick.accounting import check
from tallystick.errors import InvalidInput, Remedy
from tallystick.tables.files import OpenFile
from tallystick.tables.schema import Schema, constant, day, type_of_constant
from tallystick.tables.scratch import Scratch
from tallystick.tables.sources import pattern_of

MOST_KEYS = 5_000_000
_FITTING = {"number": ("number", "integer")}
GROUPABLE = ("integer", "text", "boolean", "date")


@dataclass(frozen=True, slots=True)
class PrivateKeys:
    """Groups from the data, shown only when their noisy number of units passes a threshold; ``delta`` is charged.

    >>> private_keys(delta=1e-8).delta
    1e-08
    """

    delta: float


def private_keys(*, delta: float) -> PrivateKeys:
    """Let the data propose the groups; with probability ``delta`` one that only one unit has may be shown."""
    return PrivateKeys(check.inside("delta", delta))


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A table everybody may see: keys, or the right side of a join. Values are int, float, str, bool or date."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data; dates are ISO text."""
        rows = [[v.isoformat() if isinstance(v, datetime.date) else v for v in row] for row in self.rows]
        return {"columns": [list(column) for column in self.columns], "rows": rows}

    @classmethod
    def from_data(cls, data: Any) -> PublicTable:
        """The table that ``to_data`` wrote."""
        columns = Schema.of(tuple((name, kind) for name, kind in data["columns"])).columns
        dates = [kind == "date" for _, kind in columns]
        if type(data["rows"]) is not list or not all(type(row) is list for row in data["rows"]):
            raise InvalidInput("public table", type(data["rows"]).__name__, "a list of rows, which are lists")
        return cls(columns, tuple(tuple(_given(v, d) for v, d in zip(row, dates, strict=True)) for row in data["rows"]))

    def __post_init__(self) -> None:
        """Wherever it comes from: every value is a public constant of its column's type."""
        names, kinds = [name for name, _ in self.columns], [kind for _, kind in self.columns]
        if not self.rows or len(self.rows) > MOST_KEYS:
            raise InvalidInput("public table", f"{len(self.rows)} rows", f"1 to {MOST_KEYS} rows")
        for row in self.rows:
            if type(row) is not tuple or len(row) != len(names):
                raise InvalidInput("public table", f"a row of {len(row)} values", f"{len(names)} values in each row")
            for value, name, kind in zip(row, names, kinds, strict=True):
                if (own := type_of_constant(constant(value))) not in _FITTING.get(kind, (kind,)):
                    remedies = [Remedy("declare_type", column=name, type=own)] if kind == "text" else []
                    raise InvalidInput(f"public column {name}", value, f"values of type {kind}", remedies=remedies)

    def most_matches(self, column: str) -> int:
        """In how many rows the most frequent value of a column stands."""
        at = [name for name, _ in self.columns].index(column)
        return max(Counter(row[at] for row in self.rows).values())


class Upload(NamedTuple):
    """A public table on its way into an engine, its columns under names of ours."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]


def public_keys(keys: Iterable[Any] | PublicTable, columns: Sequence[str], schema: Schema) -> PublicTable:
    """A list of keys for these columns: tuples, or plain values for one column.

    >>> public_keys(["a", "b"], ["ward"], Schema.of({"ward": "text"})).rows
    (('a',), ('b',))
    """
    if isinstance(keys, OpenFile):
        keys = read_keys(keys, columns, schema)
    allowed = "a list of keys, a data frame or CSV file, or ts.private_keys(delta=...)"
    if isinstance(keys, str | bytes | Path):
        raise InvalidInput("keys", keys, allowed)
    keys = _key_rows(keys, columns)
    if not isinstance(keys, PublicTable | Iterable):
        raise InvalidInput("keys", type(keys).__name__, allowed)
    kinds = [schema.type_of(name) for name in columns]
    wanted = tuple(zip(columns, kinds, strict=True))
    if isinstance(keys, PublicTable) and keys.columns != wanted:
        raise InvalidInput("keys", keys.columns, f"keys for {', '.join(columns)}, with the types of the columns")
    rows = tuple(_key(key, columns) for key in (keys.rows if isinstance(keys, PublicTable) else keys))
    table = PublicTable(wanted, rows)
    if len(set(rows)) != len(rows):
        raise InvalidInput("keys", "a list with repetitions", "each key once")
    return table


def _key_rows(keys: Any, columns: Sequence[str]) -> Any:
    """The keys of a data frame: its columns by name, each row once. Iterating it would give the names."""
    rows = _plain_rows(keys)
    if rows is keys:
        return [_day_of(key) for key in keys.tolist()] if hasattr(keys, "tolist") else keys
    missing = [name for name in columns if rows and name not in rows[0]]
    if missing:
        raise InvalidInput("keys", f"a table without {missing[0]}", f"a table with the columns {', '.join(columns)}")
    return list(dict.fromkeys(tuple(row[name] for name in columns) for row in rows))


def _key(key: Any, columns: Sequence[str]) -> tuple[Any, ...]:
    values = tuple(key) if isinstance(key, tuple | list) else (key,)
    if len(values) != len(columns):
        raise InvalidInput("keys", key, f"keys with {len(columns)} values, one for each of {', '.join(columns)}")
    return values


def _given(value: Any, date: bool) -> Any:
    return day(value) if date else value


def public_table(rows: Any) -> PublicTable:
    """A public table from a list of dicts, a dict of columns, a pandas, Polars or Arrow table, or an opened file.

    >>> public_table([{"ward": "a", "floor": 1}]).columns
    (('ward', 'text'), ('floor', 'integer'))
    """
    if isinstance(rows, OpenFile):
        return read_public(rows)
    listed = _listed_rows(_plain_rows(rows))
    if not listed or not all(isinstance(row, dict) and row.keys() == listed[0].keys() for row in listed):
        raise InvalidInput("public table", type(rows).__name__, "a list of dicts with the same keys, not empty")
    names = list(listed[0])
    kinds = []
    for name in names:
        types = {type_of_constant(constant(row[name])) for row in listed}
        kind = "number" if types == {"integer", "number"} else types.pop() if len(types) == 1 else None
        if kind is None:
            raise InvalidInput(f"public column {name}", "values of several types", "values of one type")
        kinds.append(kind)
    columns = Schema.of(tuple(zip(names, kinds, strict=True))).columns
    return PublicTable(columns, tuple(tuple(row[name] for name in names) for row in listed))


def _listed_rows(given: Any) -> list[Any]:
    """Return the rows of a list of dicts or of a dict of columns; an empty list for anything else."""
    try:
        if isinstance(given, dict):
            rows = zip(*given.values(), strict=True)
            return [dict(zip(given, values, strict=True)) for values in rows]
        return list(given)
    except (TypeError, ValueError):  # not a list, or columns of several lengths
        return []


def _plain_rows(given: Any) -> Any:
    """A data frame's rows as dicts of Python values, moments at midnight as days; anything else as it is."""
    if hasattr(given, "to_pylist"):  # Arrow
        rows = given.to_pylist()
    elif hasattr(given, "to_dicts"):  # Polars
        rows = given.to_dicts()
    elif hasattr(given, "itertuples"):  # pandas
        rows = given.to_dict("records")
    elif hasattr(given, "toLocalIterator"):  # Spark
        rows = [row.asDict() for row in given.toLocalIterator()]
    else:
        return given
    return [{name: _day_of(value) for name, value in row.items()} for row in rows]


def _day_of(value: Any) -> Any:
    midnight = isinstance(value, datetime.datetime) and value.time() == datetime.time()
    return value.date() if midnight else value


def read_keys(file: OpenFile, columns: Sequence[str], schema: Schema) -> list[tuple[Any, ...]]:
    """Keys from a public CSV file with a header that names the columns; the file is closed.

    The file is public, so an error may quote it.
    """
    try:
        with _text_of(file) as text:
            reader = csv.DictReader(text)
            missing = [name for name in columns if name not in (reader.fieldnames or [])]
            if missing:
                raise InvalidInput("keys", file.path, f"a CSV file with a header that has {', '.join(columns)}")
            rows = [tuple(_read(row[name], schema.type_of(name), name) for name in columns) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise InvalidInput("keys", file.path, "a readable CSV file in UTF-8") from None
    return list(dict.fromkeys(rows))


@contextlib.contextmanager
def _text_of(file: OpenFile) -> Iterator[TextIO]:
    """The text of an opened file, which is closed in the end."""
    with file, file.stream() as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        yield text


def _read(text: str | None, kind: str, name: str) -> Any:
    try:
        if kind == "integer":
            return int(text or "")
        if kind == "boolean":
            return {"true": True, "1": True, "false": False, "0": False}[(text or "").lower()]
        if kind == "date":
            return datetime.date.fromisoformat(text or "")
        return text or ""
    except (ValueError, KeyError):
        raise InvalidInput(f"keys of {name}", text, f"values of type {kind}") from None


def read_public(file: OpenFile) -> PublicTable:
    """A public Parquet file, or a CSV file with a header whose columns are of the first type that all cells are.

    The file is closed.
    """
    if Path(file.path).suffix.lower() in (".parquet", ".pq"):
        return _read_parquet(file)
    try:
        with _text_of(file) as text:
            header, *lines = csv.reader(text)
            columns = dict(zip(header, zip(*lines, strict=True), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error, ValueError):
        raise InvalidInput(
            "public", file.path, "a readable CSV file in UTF-8 with a header and rows of one length"
        ) from None
    return public_table({name: _typed(cells) for name, cells in columns.items()})


def _read_parquet(file: OpenFile) -> PublicTable:
    """The rows of a public Parquet file, which DuckDB reads from a private copy."""
    import duckdb  # start-up: it takes a quarter of a second of CPU to load

    try:
        with file, contextlib.closing(Scratch()) as folder, duckdb.connect(":memory:") as connection:
            copy = pattern_of(str(file.copy(folder.path / "public.parquet")))
            found = connection.execute("SELECT * FROM read_parquet(?, hive_partitioning = false)", [copy])
            names = [str(column[0]) for column in found.description or ()]
            rows = [dict(zip(names, map(_day_of, row), strict=True)) for row in found.fetchall()]
    except duckdb.Error:
        raise InvalidInput("public", file.path, "a readable Parquet file") from None
    return public_table(rows)


def _typed(cells: Sequence[str]) -> list[Any]:
    for reader in (int, float, datetime.date.fromisoformat, {"true": True, "false": False}.__getitem__):
        try:
            return [reader(cell) for cell in cells]
        except (ValueError, KeyError):
            continue
    return list(cells)
