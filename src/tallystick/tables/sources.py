"""Place of a table, as a description that can be written down (in memory, the table itself): which data that is, and
the engine that opens it.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import numbers
import os
import re
import resource
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallystick.errors import IdempotencyConflict, InvalidInput, Refused, Remedy, Unavailable
from tallystick.ledger.book import Ledger, opened, opened_if_there
from tallystick.ledger.denial import payable_delta
from tallystick.place import Place, is_foreign_url, names_server, shown
from tallystick.regular_file import real_path
from tallystick.strict_json import read
from tallystick.tables.files import OpenFile
from tallystick.tables.forms import kind_of
from tallystick.tables.identity import FILE_KINDS, refuse_private_file, table_suffix

if TYPE_CHECKING:
    from tallystick.tables.table import Table

_ALLOWED = "a .parquet, .csv or .duckdb file, or a postgresql:// URL"
_FRAME_TOO = (Remedy("pass_frame"),)
FRAME = "spark data frame"
FILES: Final = FILE_KINDS
BESIDE: Final = "files"
"""Several files that one engine reads, so that their tables can meet."""
MOST_FILES: Final = 16


@dataclass(frozen=True, slots=True)
class Source:
    """``kind`` is parquet, csv, duckdb, postgres, memory or spark; ``place`` is its path or URL.

    Of several ``files`` beside each other the place is JSON: for each table its kind, path and name there.
    """

    kind: str
    place: str
    handle: Any = field(default=None, compare=False, repr=False)

    @property
    def castable(self) -> bool:
        """True if text may be declared to be of another type: a CSV file and objects in memory have no other."""
        return self.kind in ("csv", "memory", BESIDE)

    def member(self, table: str) -> tuple[Source, str]:
        """The source that holds a table, and its name there; another than this one where there are several files."""
        if self.kind != BESIDE:
            return self, table
        members = json.loads(self.place)
        if table not in members:
            raise InvalidInput("table", table, f"one of {', '.join(members)}")
        kind, place, name = members[table]
        return Source(kind, place), name

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of this source."""
        return self.paths_of(*FILES)

    def paths_with(self, tables: Iterable[str]) -> tuple[str, ...]:
        """The files that hold some tables."""
        return tuple(dict.fromkeys(path for table in tables for path in self.member(table)[0].paths))

    def paths_of(self, *kinds: str) -> tuple[str, ...]:
        """Those of some kinds; a link says what kind of file it leads to, which may be called otherwise."""
        if self.kind == BESIDE:
            members = json.loads(self.place).values()
            return tuple(dict.fromkeys(place for kind, place, _ in members if kind in kinds))
        return (self.place,) if self.kind in kinds else ()

    @property
    def one_table(self) -> bool:
        """True if it holds exactly one table, so that no name is needed."""
        return self.kind in ("parquet", "csv") or (self.unnamed and self._tables == 1)

    @property
    def unnamed(self) -> bool:
        """True if these are tables of a program, which are known by who pays for them."""
        return self.kind == "memory" or (self.kind == "spark" and self.place == FRAME)

    @property
    def _tables(self) -> int:
        return 1 if self.kind == "spark" else len(self.handle or ())

    def to_data(self) -> dict[str, str]:
        """As plain JSON data. The URL of a PostgreSQL source keeps its user and has no password: see ``Place``."""
        return {"kind": self.kind, "place": self.place}

    def __post_init__(self) -> None:
        """Keep the password of a PostgreSQL URL in ``handle`` alone, a ``Place``."""
        if self.kind == "postgres" and self.handle is None:
            server = Place.of(self.place, "source")
            object.__setattr__(self, "handle", server)
            object.__setattr__(self, "place", str(server))


def source_of(given: Any) -> Source:
    """The source that a user named.

    >>> source_of("clinic.duckdb").kind, source_of("visits.csv").kind
    ('duckdb', 'csv')
    """
    if isinstance(given, Source):
        return given
    if isinstance(given, OpenFile):
        return replace(_of_place(given.path), handle=given)
    if isinstance(given, str | Path):
        return _of_place(str(given))
    if hasattr(given, "sparkContext"):
        return Source("spark", "spark", given)
    if hasattr(given, "sparkSession") and hasattr(given, "createOrReplaceGlobalTempView"):
        return Source("spark", FRAME, given)
    if isinstance(given, dict) and given and all(isinstance(each, str | Path) for each in given.values()):
        return _of_places(given)
    if isinstance(given, dict) and given and all(isinstance(name, str) and _tabular(t) for name, t in given.items()):
        return Source("memory", "memory", {name: _typed(table) for name, table in given.items()})
    if _tabular(given):
        return Source("memory", "memory", {"table": _typed(given)})
    raise InvalidInput("source", type(given).__name__, _ALLOWED, remedies=_FRAME_TOO)


def _tabular(given: Any) -> bool:
    """A table that can be looked at twice: a stream of batches is gone after the look that comes before a charge."""
    arrow = hasattr(given, "__arrow_c_stream__") and not hasattr(given, "read_next_batch")
    return arrow or (hasattr(given, "columns") and hasattr(given, "itertuples"))


def _typed(table: Any) -> Any:
    """The table, every column of a type that no single value decides, and at which DuckDB fails for no value.

    Pandas' columns of objects and categories are text, value by value: DuckDB would take their type from a sample of
    the rows and fail, after the charge, at a value that does not fit. Moments with a time zone are moments in UTC: in
    seconds and milliseconds DuckDB would fail at those that are far away.
    """
    if not hasattr(table, "itertuples"):
        return _in_utc(table)
    typed = table.copy(deep=False)
    for i, kind in enumerate(table.dtypes):
        if _has_zone(getattr(kind, "pyarrow_dtype", kind)):
            typed.isetitem(i, _pandas_in_utc(table.iloc[:, i], kind))
        if kind.kind == "O" and getattr(kind, "storage", "") != "pyarrow" and not hasattr(kind, "pyarrow_dtype"):
            column = table.iloc[:, i]
            typed.isetitem(i, type(column)([_text(value) for value in column], index=column.index, dtype="string"))
    return typed


def _in_utc(table: Any) -> Any:
    """An Arrow table with its moments in UTC; the table itself if no moment has a time zone."""
    if isinstance(getattr(table, "types", None), Mapping):  # rows that were made up here: they have no moments
        return table
    try:
        import pyarrow as pa
    except ImportError:
        raise InvalidInput("source", type(table).__name__, "an Arrow table, where pyarrow is installed") from None
    kinds = pa.RecordBatchReader.from_stream(table).schema.types
    if not any(map(_has_zone, kinds)):
        return table
    typed = pa.table(table)
    for i, kind in enumerate(kinds):
        if _has_zone(kind):
            typed = typed.set_column(i, typed.schema.names[i], typed.column(i).cast(pa.timestamp(kind.unit)))
    return typed


def _pandas_in_utc(column: Any, kind: Any) -> Any:
    if not hasattr(kind, "pyarrow_dtype"):
        return column.dt.tz_convert("UTC").dt.tz_localize(None)
    import pyarrow as pa

    return column.astype(type(kind)(pa.timestamp(kind.pyarrow_dtype.unit)))


def _has_zone(kind: Any) -> bool:
    """True for moments of pandas or Arrow with a time zone, in seconds or milliseconds."""
    return getattr(kind, "tz", None) is not None and getattr(kind, "unit", "") in ("s", "ms")


def _text(value: Any) -> str | None:
    """A text, a number or a day as text; anything else, and what cannot be written, is missing.

    >>> [_text(value) for value in ("a", 7, float("nan"), "\\ud800", [1])]
    ['a', '7', None, None, None]
    """
    try:
        if not isinstance(value, str | numbers.Number | datetime.date) or bool(value != value):
            return None
        return str(value).encode().decode()
    except (ValueError, ArithmeticError):  # half a pair; an integer too long to print; a NaN that signals
        return None


def _of_place(text: str) -> Source:
    if names_server(text):
        return Source("postgres", text)
    kind = kind_of(text)
    if kind is None or "\0" in text or is_foreign_url(text):
        raise InvalidInput("source", shown(text), _ALLOWED, remedies=_FRAME_TOO)
    return Source(kind, text)


def _of_places(given: dict[Any, str | Path]) -> Source:
    """Files by the names of their tables; in a DuckDB file the table is called so, too."""
    members = {}
    for name, place in given.items():
        source = _of_place(str(place))
        if source.kind not in FILES or not isinstance(name, str):
            raise InvalidInput("source", name, "files by the names of their tables: {'visits': 'visits.csv', ...}")
        members[name] = (source, name if source.kind == "duckdb" else "table")
    return beside(members)


def beside(members: dict[str, tuple[Source, str]]) -> Source:
    """Several files as one source: for each table its file and its name there.

    >>> source_of({"visits": "visits.csv", "costs": "costs.parquet"}).member("costs")
    (Source(kind='parquet', place='costs.parquet'), 'table')
    """
    if not 1 <= len(members) <= MOST_FILES:
        raise InvalidInput("source", f"{len(members)} files", f"1 to {MOST_FILES} files")
    place = {name: [source.kind, source.place, table] for name, (source, table) in members.items()}
    return Source(BESIDE, json.dumps(place, sort_keys=True))


def _again_beside(place: str) -> Source:
    """Files beside each other as a plan in a file names them: an analyst's word, so all of it is looked at."""
    members, given = {}, read(place, name="source")
    for name, member in (given if isinstance(given, dict) else {}).items():
        kind, path, table = member if isinstance(member, list) and len(member) == 3 else (None, None, None)
        if not isinstance(path, str) or not isinstance(table, str) or _of_place(path).kind != kind or kind not in FILES:
            raise InvalidInput("source", BESIDE, "for each table the kind of its file, its path and its name there")
        members[name] = (Source(kind, path), table)
    return beside(members)


def source_from_data(data: Any) -> Source:
    """The source that ``to_data`` wrote; a table in memory must be given again with ``plan.on(table)``."""
    kind, place = str(data["kind"]), str(data["place"])
    if kind == BESIDE:
        return _again_beside(place)
    if kind not in ("parquet", "csv", "duckdb", "postgres", "memory", "spark"):
        raise InvalidInput("source", shown(kind), _ALLOWED, remedies=_FRAME_TOO)
    if kind == "postgres":  # version 0.1.0 wrote postgresql:///clinic as postgresql:/clinic
        place = re.sub(r"^(postgres(?:ql)?):(?!//)", r"\1://", place)
    return Source(kind, place)


def identity(source: Source, table: str) -> str:
    """The name under which the ledger knows these data; never with user name or password.

    A file is known by its real path (symbolic links resolved), a database table by server, database and name. A table
    in memory has no name; the account that is charged for it is its name.

    >>> from tallystick.tables.sources import source_of
    >>> identity(source_of("postgresql://ana:secret@DB.example/clinic"), "visits")
    'postgres db.example:5432/clinic visits'
    """
    source, table = source.member(table)
    if source.kind in ("csv", "parquet"):
        return f"file {real_path(source.place)}"
    if source.kind in ("duckdb", "postgres", "spark"):
        whole_name(table)
    if source.kind == "duckdb":
        return f"file {real_path(source.place)}{table_suffix(table)}"
    if source.kind == "postgres":
        return f"postgres {_server(source, table)} {table.removeprefix('public.')}"
    if source.kind == "spark" and not source.unnamed:
        return f"spark {_spark_name(source.handle, table)}"
    return f"{source.kind} {table}"


def _spark_name(session: Any, table: str) -> str:
    """The name of a table in Spark's catalogue, after ``USE``, without the default catalogue and database."""
    name = table.casefold()
    if session is not None and name.count(".") < 2:
        catalogue = session.catalog
        try:
            found = catalogue.getTable(table)
        except Exception:  # Spark's own error; a table that is not there is refused when it is opened
            found = None
        if found is not None and not found.isTemporary:
            namespace = ".".join(found.namespace or [])
            name = f"{found.catalog}.{namespace}.{found.name}".casefold()
    return name.removeprefix("spark_catalog.").removeprefix("default.")


def whole_name(table: str) -> str:
    """The name of a table, if none of its pieces is empty: ``.visits`` was a second name of main.visits to engines.

    >>> whole_name("main.visits")
    'main.visits'
    """
    if not all(table.split(".")):
        raise InvalidInput("table", table, "the name of a table, or a schema's name and a table's with a dot between")
    return table


def pattern_of(path: str) -> str:
    """A path for engines that read patterns: files that match it would be another name for the same people.

    >>> pattern_of("/data/visits[1].parquet")
    '/data/visits[[]1].parquet'
    """
    return re.sub(r"([*?\[])", r"[\1]", path)


def same_file(one: Path | str, two: Path | str) -> bool:
    """True if two names lead to one file, through links of either kind; a URL leads to no file."""
    try:
        return os.path.samefile(one, two)
    except (OSError, ValueError):  # one of them is not there
        return real_path(one) == real_path(two)


class PublicUse(NamedTuple):
    """A use of a public file: what may stand there, and what to do with private data instead."""

    allowed: str
    remedies: tuple[Remedy, ...] = ()


LISTED: Final = PublicUse("a list of groups that everybody may know")
KEY_DELTA: Final = 1e-8
"""The delta for groups from the data that is offered, unless less is left."""
JOINED: Final = PublicUse("a table that everybody may see", (Remedy("join_on_unit"),))


@contextmanager
def of_source(source: Source) -> Iterator[None]:
    """Take back the remedy of declared types if the source has its own types."""
    try:
        yield
    except InvalidInput as problem:
        if not source.castable:
            problem.remedies = tuple(each for each in problem.remedies if each.kind != "declare_type")
        raise


def public_file(path: Path | str, use: PublicUse, source: Source | None, ledger: Ledger | None) -> OpenFile:
    """Open a file that is to be read as public.

    It is refused if it is a file of the question's own source, or if a ledger has registered it: the account's, or the
    default ledger, which is asked as well. The descriptor is what was checked, so what is read from it is what was
    checked.
    """
    file = OpenFile(path, "public")
    try:
        refuse_private_file(file, use.allowed, () if source is None else source.paths, ledger)
        with opened_if_there(None) or contextlib.nullcontext() as book:
            refuse_private_file(file, use.allowed, (), book)
    except BaseException as problem:
        file.close()
        if isinstance(problem, Refused):
            problem.remedies = use.remedies
        raise
    return file


def public_input(given: Any, use: PublicUse, table: Table) -> Any:
    """A path as an opened public file; anything else as it is."""
    if not isinstance(given, str | Path):
        return given
    if use is LISTED:
        delta = payable_delta(table.account, KEY_DELTA)
        use = PublicUse(use.allowed, () if delta is None else (Remedy("find_keys", delta=delta),))
    return public_file(given, use, table.source, None if table.account is None else table.account.ledger)


MADE_UP: Final = "a table that was made up"


def unpaid_file(path: Path | str, argument: str, works: str = MADE_UP, place: str | None = None) -> OpenFile:
    """Open a file whose rows are read without a charge: it may not be registered.

    A ledger that is named must exist. The default ledger is asked as well: naming another one is not a way around it.
    A copy is another file: to recognise one, private rows would have to be read without a charge.
    """
    file = OpenFile(path, argument)
    try:
        for meant in dict.fromkeys((place, None)):
            book = opened_if_there(None) if meant is None else opened(meant)
            with book or contextlib.nullcontext():
                refuse_private_file(file, works, (), book)
    except BaseException:
        file.close()
        raise
    return file


def request(plan: str, table: str, data: str, names: Mapping[str, str] | None = None) -> str:
    """The public text of a request: the hash of the plan, the table's name, the data, and the names of the columns.

    ``names`` maps columns of the plan to the names that a statement in SQL gives them; a plan by itself has no names.

    >>> request("ab12", "visits", "dataset visits", {"sum": "total"})
    'query ab12 visits of dataset visits as {"sum": "total"}'
    """
    text = f"query {plan} {table} of {data}"
    return f"{text} as {json.dumps(dict(names), sort_keys=True)}" if names else text


COMPUTED: Final = "computed_intervals"
"""The field of a stored answer that says: a statement gives intervals to what it computes from released numbers.
Answers of earlier versions lack it, and keep the columns that they had.
"""


FORM: Final = "form"
"""The field of a stored answer with the form in which it is shown: ``SAYS_LIMITED`` or later. Answers of earlier
versions lack it, and are shown as they were.
"""
SAYS_LIMITED: Final = 2
"""Columns that limits per person touch say so in their names, and a computed number has an interval or no value."""


def says_limited(answer: Mapping[str, Any]) -> bool:
    """True if an answer is shown in the form of this version."""
    form = answer.get(FORM)
    return type(form) is int and form >= SAYS_LIMITED


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a statement in SQL gives to columns of its plan; they are stored with the answer.

    If ``is_shared``, statements with other names share the answer, so the names are not part of the request.
    """

    called: Mapping[str, str] = field(default_factory=dict)
    is_shared: bool = False

    def to_data(self) -> dict[str, Any]:
        """The fields of a stored answer."""
        made = {"names": dict(self.called), COMPUTED: True, FORM: SAYS_LIMITED}
        return made | ({"shared": True} if self.is_shared else {})

    def require_same(self, answer: Mapping[str, Any], key: str | None) -> None:
        """Raise if the answer was stored for a request with other names; answers of earlier versions have no names."""
        if not self.is_shared and answer.get("names", self.called) != self.called:
            raise IdempotencyConflict(
                f"key {key!r} was used for another request (it has other column names); use a new key for a new request"
            )


NO_NAMES: Final = Names()


def check_one_server(source: Source) -> Place:
    """The place of a PostgreSQL source, if it names one server, and if a registration can hold all its settings."""
    place: Place = source.handle
    if len(place.hosts) > 1:
        raise Refused(
            f"{place} names {len(place.hosts)} servers, and a table must have one: the ledger could not tell whose "
            "rows were read. Name one host"
        )
    if place.hides_settings:
        raise Refused(
            f"the options of {place} set something that may be a secret, which is not stored with a table. "
            "Put the options into a service file and name it: postgresql:///database?service=NAME"
        )
    return place


def _server(source: Source, table: str) -> str:
    """Host, port and database of a PostgreSQL source, with libpq's defaults; this machine has one name.

    Options count where they may say which schema a table without one is in; others would be names for the same data.
    """
    place = check_one_server(source)
    server = place.server()
    host = server.host
    if host.startswith("/") or host.lower() in ("", "localhost", "127.0.0.1", "::1"):
        host = "localhost"
    has_path = "." not in table and "search" in place.options.replace("\\", "").lower()
    path = f" {place.options}" if has_path else ""
    return f"{host.lower()}:{server.port.strip().lstrip('+0')}/{server.dbname}{path}"


LIMITS: Final = ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_CPU")
"""Limits of a process that large data alone would meet. Beyond a limit nothing gets slow: the next request fails. So
one person's rows could decide, after the charge, whether a release succeeds.
"""


def check_limits(process: int = 0) -> None:
    """Raise ``Unavailable`` if a process has a limit that large data alone would meet, after the charge.

    0 is this process. Another one is that of an engine on this machine.
    """
    for name in LIMITS:
        soft, _ = resource.prlimit(process, getattr(resource, name))
        if soft != resource.RLIM_INFINITY:
            raise Unavailable(
                f"this process has a limit {name}, and a release could fail at it after the charge; lift it (ulimit)"
            )


def check_files(least: int, process: int = 0) -> None:
    """Raise ``Unavailable`` if a process may open fewer than ``least`` files at a time. 0 is this process."""
    soft, _ = (
        resource.prlimit(process, resource.RLIMIT_NOFILE) if process else resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    if soft != resource.RLIM_INFINITY and soft < least:
        owner = f"process {process}" if process else "this process"
        raise Unavailable(
            f"the limit RLIMIT_NOFILE of {owner} is below {least:,}, "
            "and a release could fail at it after the charge. Raise it (ulimit -n) before you start the process"
        )
