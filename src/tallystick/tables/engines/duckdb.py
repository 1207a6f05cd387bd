"""DuckDB, in this process: Parquet, CSV, DuckDB files, and tables in memory."""

from __future__ import annotations

import atexit
import contextlib
import datetime
import math
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from tallystick.errors import InvalidInput, Unavailable
from tallystick.place import shown
from tallystick.tables.dialects import UNCHECKED, DuckWords, Words, name
from tallystick.tables.engines import csvfile
from tallystick.tables.engines.parquet_footer import unreadable_columns
from tallystick.tables.forms import delimiter
from tallystick.tables.identity import Identity, table_suffix
from tallystick.tables.program import read_stored
from tallystick.tables.schema import MILLISECONDS, UNREADABLE, UNSUPPORTED, Schema, family
from tallystick.tables.scratch import Scratch, private_root
from tallystick.tables.sources import pattern_of, whole_name

if TYPE_CHECKING:
    from tallystick.tables.files import OpenFile
    from tallystick.tables.keyset import Upload
    from tallystick.tables.reader import Reader

_SMALL = 4 << 20
"""Bytes that one thread reads in less time than it takes to wake another."""

_PARQUET: dict[str, Callable[[], exp.Expression]] = {
    # a byte that is not UTF-8 reads as a question mark; by default it would end the scan, after the charge
    "utf8_validation": lambda: exp.Literal.string("replace"),
    # rows are what the file holds: by default a folder called ward=north would say so of every row, whatever it holds
    "hive_partitioning": exp.false,
    "union_by_name": exp.false,
}
_PERHAPS_MILLISECONDS = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
_MILLISECONDS = """
    SELECT coalesce(num_children, 0),
        coalesce(converted_type = 'TIMESTAMP_MILLIS', false) OR coalesce(contains(logical_type, 'MilliSeconds'), false)
    FROM parquet_schema(?) ORDER BY column_id
"""
"""For each part of the schema how many parts it has, which come next, and whether it is a moment in milliseconds."""

_RELATIONS = """
    SELECT schema_name, table_name, contains(sql, 'GENERATED ALWAYS AS') FROM duckdb_tables() WHERE database_name = ?
    UNION ALL SELECT schema_name, view_name, true FROM duckdb_views() WHERE database_name = ?
"""
"""Tables and views of one file. What a view or a generated column shows is computed by SQL that the file brings."""

_TYPES: dict[str, Any] = {
    "integer": np.int64,
    "number": np.float64,
    "boolean": np.bool_,
    "text": object,
    "date": object,
}


def connect(reader: Reader) -> DuckEngine:
    """A fresh in-process database beside the opened files, which are read-only."""
    return DuckEngine(reader)


class DuckEngine:
    """A connection of our own to a private in-memory database; tables that it made disappear with it.

    Files are read from snapshots in a private folder, never by the name that was given.
    """

    words: Words = DuckWords()
    in_shares = True

    def __init__(self, reader: Reader) -> None:
        self.source = reader.source
        self.files = reader.files
        self.rows = reader.rows
        self.csv_names: dict[str, list[str]] = {}
        self.headers: dict[str, list[str]] = {}
        self.columns: dict[str, list[tuple[str, str]]] = {}
        self.parquet: dict[str, list[tuple[str, str]]] = {}
        self.small = _bytes(reader) <= _SMALL
        links = [file.allowed_folder for file in self.files.values()]
        self.linked = frozenset(folder for folder in links if folder is not None)
        self.database, self.folder = _lent(self.linked)
        self.scratch = Scratch(self.folder)
        try:
            self.snapshots = {place: self._snapshot(place) for place in self.files}
            self.connection = self.database.cursor()
            self._open()
        except BaseException:
            self.close()
            raise

    def _snapshot(self, place: str) -> Path:
        """A private path to the bytes of an opened file."""
        number = self.source.paths.index(place)
        file = self.files[place]
        if place in self.source.paths_of("csv"):
            raw = self.scratch.path / f"raw{number}.csv"
            if self.rows:
                file.copy(raw)
                csvfile.reserve(self._copy(place, rows=True), file.size)
            return raw
        if place in self.source.paths_of("duckdb"):
            _refuse_log(file)
            file.lock()
        kind = "duckdb" if place in self.source.paths_of("duckdb") else "parquet"
        return file.snapshot(self.scratch.path, f"file{number}.{kind}")

    def _open(self) -> None:
        self.connection.execute("SET threads = 1" if self.small else "RESET threads")
        for place, catalog in self._attached().items():
            path = self.words.render(exp.Literal.string(str(self.snapshots[place])))
            self.connection.execute(f"ATTACH {path} AS {catalog} (READ_ONLY)")
        self._name_sources()

    def _name_sources(self) -> None:
        """Give tables in memory and Parquet files names of ours, which are the same in every release."""
        if self.source.kind == "memory":
            for i, content in enumerate((self.source.handle or {}).values()):
                self.connection.register(f"_memory{i}", content)
        for place in self._opened("parquet"):
            try:
                columns = self._parquet_columns(place)
                # Columns that cannot be used are left out: DuckDB looks at the statistics of all that a view has, and
                # fails at some of their values.
                usable = [_quoted(column) for column, kind in columns if family(kind) != UNSUPPORTED]
                rows = f"SELECT {', '.join(usable) or 'NULL'} FROM {self._parquet_rows(place)}"
                self.connection.execute(f"CREATE TEMP VIEW {_quoted(self._parquet_name(place))} AS {rows}")
            except (duckdb.Error, ValueError):
                raise InvalidInput("source", place, "a readable parquet file") from None

    def _parquet_rows(self, place: str) -> str:
        return self.words.render(_parquet(self.snapshots[place]))

    def _parquet_columns(self, place: str) -> list[tuple[str, str]]:
        """The names of a Parquet file's columns and their types in DuckDB, asked once.

        DuckDB reads moments in milliseconds as microseconds and fails at those that are far away. Their type is the
        same as of others, so the file's own words are asked for. It fails at the first value of a column whose encoding
        it cannot read.
        """
        if place not in self.parquet:
            path = self.snapshots[place]
            described = self.connection.execute(f"SELECT * FROM {self._parquet_rows(place)} LIMIT 0").description or []
            columns = [(str(column[0]), str(column[1])) for column in described]
            if any(kind in _PERHAPS_MILLISECONDS for _, kind in columns):
                rows = self.connection.execute(_MILLISECONDS, [pattern_of(str(path))]).fetchall()
                unusable = _in_milliseconds(rows)
                columns = [
                    (column, MILLISECONDS if is_one else kind)
                    for (column, kind), is_one in zip(columns, unusable, strict=True)
                ]
            pairs = zip(columns, unreadable_columns(path), strict=True)
            self.parquet[place] = [(column, UNREADABLE if is_one else kind) for (column, kind), is_one in pairs]
        return self.parquet[place]

    def _parquet_name(self, place: str) -> str:
        return f"_parquet{self.source.paths.index(place)}"

    def reset(self) -> None:
        self.connection.close()
        self.connection = self.database.cursor()
        self._name_sources()

    def identify(self, table: str) -> Identity:
        """Return the identity: is a table of a DuckDB file stored there, and what else in that file is not?

        The file itself is identified by its descriptor.
        """
        own, stored = self.source.member(table)
        suffix = table_suffix(whole_name(stored))
        catalog = self._attached()[own.place]
        present, computed = set(), set()
        for schema, relation, is_computed in self.connection.execute(_RELATIONS, [catalog, catalog]).fetchall():
            each = table_suffix(f"{schema}.{relation}")
            present.add(each)
            if is_computed:
                computed.add(each)
        if suffix not in present:
            raise InvalidInput("table", table, "a table of this source")
        return Identity(stored, plain=suffix not in computed, views=frozenset(computed))

    def _attached(self) -> dict[str, str]:
        """DuckDB files, by place, and what each is called here."""
        if self.source.kind == "duckdb":
            return {self.source.place: "source"}
        files = self.source.paths_of("duckdb")
        return {place: f"source{i}" for i, place in enumerate(files) if place in self.files}

    def _opened(self, kind: str) -> list[str]:
        """The files of a kind that were opened: those of the tables that take part."""
        return [place for place in self.source.paths_of(kind) if place in self.files]

    def stored(self, table: str, schema: Schema, *, rows: bool = True) -> exp.Query:
        own, _ = self.source.member(table)
        source = self._csv(own.place, rows=rows) if own.kind == "csv" else self._stored(table)
        unchecked = schema.names if self.source.kind == "memory" else ()  # Arrow's text may be no text
        query = read_stored(schema, self.words, source, dict.fromkeys(unchecked, UNCHECKED))
        return query if rows else query.where(exp.false())

    def names(self, table: str) -> tuple[Any, ...] | None:
        if self.source.member(table)[0].kind == "csv":  # it is read from the copy of this engine alone
            return None
        known = tuple(self.source.handle or ()) if self.source.kind == "memory" else ()
        return (self.source.kind, self.source.place, known, table)

    def _stored(self, table: str) -> exp.Expression:
        own, table = self.source.member(table)
        if own.kind == "parquet":
            return exp.Table(this=exp.to_identifier(self._parquet_name(own.place), quoted=True))
        if own.kind == "memory":
            names = list(self.source.handle or {})
            if table not in names:
                raise InvalidInput("table", table, f"one of {', '.join(names)}")
            return exp.Table(this=exp.to_identifier(f"_memory{names.index(table)}", quoted=True))
        schema, _, plain = whole_name(table).rpartition(".")
        return exp.Table(
            this=exp.to_identifier(plain, quoted=True),
            db=exp.to_identifier(schema or "main", quoted=True),
            catalog=exp.to_identifier(self._attached()[own.place], quoted=True),
        )

    def _csv(self, place: str, *, rows: bool) -> exp.Expression:
        """Every cell is text; a cell not of its declared type is missing, a line with too few is dropped."""
        copy = self._copied(place) if rows else self._copy(place, rows=False)
        if not rows:
            copy.touch(mode=0o600)
        names = self.csv_names[place] if rows else self._header(place)
        columns = [
            exp.PropertyEQ(this=exp.to_identifier(column, quoted=True), expression=exp.Literal.string("VARCHAR"))
            for column in names
        ]
        options = {
            "auto_detect": exp.false(),
            "parallel": exp.false(),  # two threads disagree on where a line begins inside a long quoted cell
            "header": exp.false(),
            "delim": exp.Literal.string(delimiter(place)),
            "quote": exp.Literal.string('"'),
            "escape": exp.Literal.string('"'),
            "ignore_errors": exp.true(),
            "strict_mode": exp.false(),
            "null_padding": exp.false(),
            "max_line_size": exp.Literal.number(2 * csvfile.LONGEST_RECORD),
            "columns": exp.Struct(expressions=columns),
            "hive_partitioning": exp.false(),  # as in _PARQUET; the folder is the system's for temporary files
        }
        arguments: list[exp.Expression] = [exp.Literal.string(pattern_of(str(copy)))]
        arguments += [exp.PropertyEQ(this=exp.to_identifier(key), expression=v) for key, v in options.items()]
        return exp.Table(this=exp.Anonymous(this="READ_CSV", expressions=arguments))

    def _header(self, place: str) -> list[str]:
        """The names in the header of the snapshot, or of the opened file where no rows will be read."""
        if place not in self.headers:
            with self.files[place].stream() if not self.rows else self.snapshots[place].open("rb") as file:
                self.headers[place] = csvfile.header(file, place)
        return self.headers[place]

    def _copy(self, place: str, *, rows: bool) -> Path:
        """Return the file for the records. The rehearsal has a separate, empty file."""
        kind = "rows" if rows else "empty"
        return self.scratch.path / f"{kind}{self.source.paths.index(place)}.csv"

    def _copied(self, place: str) -> Path:
        """The well-formed records of the snapshot, made once."""
        copy = self._copy(place, rows=True)
        if place not in self.csv_names:
            self.csv_names[place] = csvfile.private_copy(self.snapshots[place], place, copy)
        return copy

    def schema(self, table: str) -> Schema:
        columns = self._columns(table)
        return Schema.of(tuple((column, family(kind)) for column, kind in columns))

    def try_reading(self, tables: Sequence[str]) -> None:
        """Do nothing: the settings are ours."""

    def like(self, tables: Sequence[str]) -> str | None:
        return repr([(self.source.member(table)[0].kind, table, self._columns(table)) for table in tables])

    def _columns(self, table: str) -> list[tuple[str, str]]:
        """The names of a table's columns and their types in DuckDB, asked once while it is open."""
        if table not in self.columns:
            self.columns[table] = self._described(table)
        return self.columns[table]

    def _described(self, table: str) -> list[tuple[str, str]]:
        own, _ = self.source.member(table)
        if own.kind == "csv":
            return [(column, "VARCHAR") for column in self._header(own.place)]
        if own.place not in self.files and own.kind != "memory":
            raise InvalidInput("table", table, "a table of the question")
        if own.kind == "parquet":
            return self._parquet_columns(own.place)
        try:
            shown = f"SELECT * FROM {self.words.render(self._stored(table))} LIMIT 0"
            described = self.connection.execute(shown).description or []
        except duckdb.CatalogException:
            raise InvalidInput("table", table, "a table of this source") from None
        except duckdb.Error:
            raise InvalidInput("source", own.place, f"a readable {own.kind} file") from None
        return [(str(column[0]), str(column[1])) for column in described]

    def upload(self, name: str, public: Upload) -> None:
        columns = {
            column: np.array([_handed(row[i]) for row in public.rows], dtype=_TYPES[kind])
            for i, (column, kind) in enumerate(public.columns)
        }
        self.connection.register(f"{name}_given", columns)
        casts = [exp.alias_(self.words.cast(_column(c), kind), c, quoted=True) for c, kind in public.columns]
        given = exp.Table(this=exp.to_identifier(f"{name}_given", quoted=True))
        self.keep(name, self.words.render(exp.select(*casts).from_(given)))

    def stored_rows(self, table: str) -> int:
        own, _ = self.source.member(table)
        if own.kind == "csv":
            return csvfile.line_ends(self._copied(own.place))
        counted = exp.select(exp.Count(this=exp.Star())).from_(self._stored(table))
        [(rows,)] = self.connection.execute(self.words.render(counted)).fetchall()
        return int(rows)

    def arrays(self, sql: str) -> list[NDArray[Any]]:
        try:
            return [np.asarray(column) for column in self.connection.execute(sql).fetchnumpy().values()]
        except (MemoryError, SystemError, duckdb.OutOfMemoryException):  # NumPy's word where an array cannot grow
            raise MemoryError from None

    def lend(self, name: str, columns: Mapping[str, NDArray[Any]]) -> None:
        self.connection.register(name, dict(columns))

    def show(self, name: str, sql: str) -> None:
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {_quoted(name)} AS {sql}")

    def keep(self, name: str, sql: str) -> None:
        self.connection.execute(f"CREATE TEMP TABLE {_quoted(name)} AS {sql}")

    def forget(self, name: str) -> None:
        self.connection.execute(f"DROP TABLE IF EXISTS {_quoted(name)}")

    def collect(self, sql: str) -> list[Sequence[Any]]:
        answer = self.connection.execute(sql)
        width = len(answer.description or [])
        rows = answer.fetchall()
        return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]

    def close(self) -> None:
        connection = getattr(self, "connection", None)
        if connection is not None:
            connection.close()
        self.scratch.close()
        _given_back(self.database, self.folder, self._attached().values(), keeps=not self.linked)


_column = name


def _bytes(reader: Reader) -> float:
    """Size of what there is to read, as far as that is known at once."""
    files = sum(file.size for file in reader.files.values())
    if reader.source.kind != "memory":
        return files
    return sum(getattr(content, "nbytes", math.inf) for content in reader.source.handle.values())


def _parquet(path: Path) -> exp.Table:
    """The rows of a Parquet file."""
    arguments: list[exp.Expression] = [exp.Literal.string(pattern_of(str(path)))]
    arguments += [exp.PropertyEQ(this=exp.to_identifier(key), expression=v()) for key, v in _PARQUET.items()]
    return exp.Table(this=exp.Anonymous(this="READ_PARQUET", expressions=arguments))


def _in_milliseconds(parts: list[tuple[int, bool]]) -> list[bool]:
    """Which columns are in milliseconds, or have a part that is; names of columns may occur twice.

    >>> _in_milliseconds([(2, False), (1, False), (0, True), (0, False)])
    [True, False]
    """
    found = []
    left = 0
    for children, is_one in parts[1:]:  # the first is the whole table
        if left == 0:
            found.append(is_one)
            left = 1
        found[-1] = found[-1] or is_one
        left += children - 1
    return found


def _refuse_log(file: OpenFile) -> None:
    """Refuse a DuckDB file whose newest rows are still in its write-ahead log: a snapshot would not have them."""
    log = Path(f"{file.real}.wal")
    if log.exists() and log.stat().st_size > 0:
        raise Unavailable(
            f"{shown(file.path)} has rows in a write-ahead log ({log.name}). Close the program that writes it, "
            "or run CHECKPOINT in it; nothing was charged"
        )


def _handed(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.date) else value


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


# An empty in-memory database takes longer to open and close than a small release takes to compute. So one that a
# release is done with waits for the next: for one release at a time, without the source (a file is opened anew by each
# release: it may be another by then, and other programs may write to it), and with nothing of the last one in it.

_MOST_WAITING = 4
_limits: dict[str, str] = {}
"""Settings of new databases, by name."""


def limit_memory(memory: int, spill: int) -> None:
    """Let databases of this process take so many bytes of memory from now on, and of the disk for what is more."""
    _limits["memory_limit"] = f"{memory}B"
    _limits["max_temp_directory_size"] = f"{spill}B"


_SPILL = "spill"
# A query is not rewritten by what the least and the largest value of a column are: version 2.0 folds branches of CASE
# that no row can reach, and trips over what it made of them. Failure would tell, without noise, whether somebody is
# there.
_LOOK_AT_VALUES = (
    "statistics_propagation",
    "compressed_materialization",
    "join_filter_pushdown",
    "row_group_pruner",
    "partitioned_execution",
)
_waiting: list[tuple[duckdb.DuckDBPyConnection, Path]] = []
_lock = threading.RLock()


def _lent(linked: frozenset[Path]) -> tuple[duckdb.DuckDBPyConnection, Path]:
    """An empty database, and its private folder: it opens files there and in ``linked`` only, and spills there."""
    root = private_root()
    with _lock:
        for i, (database, folder) in enumerate(_waiting):
            if folder.parent == root and not linked:
                del _waiting[i]
                return database, folder
    folder = Path(tempfile.mkdtemp(prefix="engine-", dir=root))
    (folder / _SPILL).mkdir(mode=0o700)
    database = duckdb.connect(":memory:")
    # A private job never installs or loads extensions, and never reads settings from the machine. What it read of a
    # file is not kept: the file may change.
    for setting in ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_file_cache"):
        database.execute(f"SET {setting} = false")
    database.execute("SET preserve_insertion_order = false")
    database.execute(f"SET disabled_optimizers = '{','.join(_LOOK_AT_VALUES)}'")
    database.execute("SET GLOBAL TimeZone = 'UTC'")  # the day of a moment is the same on every machine
    database.execute("SET temp_directory = ?", [str(folder / _SPILL)])
    for setting, value in _limits.items():
        database.execute(f"SET {setting} = '{value}'")
    # A view in a DuckDB file can name any other file. It is resolved when it is read, so no check would have recognised
    # that file: the engine opens the snapshots of its own release, and nothing else.
    every = [f"{each}/" for each in (folder, *linked)]
    spelled = dict.fromkeys((*every, *map(pattern_of, every)))  # readers of Parquet and CSV take patterns
    allowed = DuckWords().render(exp.Array(expressions=[exp.Literal.string(each) for each in spelled]))
    database.execute(f"SET allowed_directories = {allowed}")
    database.execute("SET enable_external_access = false")
    return database, folder


def _given_back(
    database: duckdb.DuckDBPyConnection, folder: Path, attached: Iterable[str], *, keeps: bool = True
) -> None:
    """Keep a database that is empty again for the next release, and close any other."""
    try:
        for other in attached:
            database.execute(f"DETACH {_quoted(other)}")  # refused where it was not opened
        is_clean = os.listdir(folder) == [_SPILL] and not os.listdir(folder / _SPILL)
    except (duckdb.Error, OSError):
        is_clean = False
    with _lock:
        if keeps and is_clean and len(_waiting) < _MOST_WAITING:
            _waiting.append((database, folder))
            return
    database.close()
    shutil.rmtree(folder, ignore_errors=True)


def close_waiting() -> None:
    """Close the databases that wait for a release."""
    with _lock:
        while _waiting:
            with contextlib.suppress(duckdb.Error):
                _waiting.pop()[0].close()


def _before_fork() -> None:
    _lock.acquire()
    close_waiting()  # a child would have their memory without their threads


os.register_at_fork(before=_before_fork, after_in_parent=_lock.release, after_in_child=_lock.release)
atexit.register(close_waiting)
