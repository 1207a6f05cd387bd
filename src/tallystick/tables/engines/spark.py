"""Apache Spark, through a session of the user's: local, standalone or a cluster."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from tallystick.errors import InvalidInput, Refused
from tallystick.tables.dialects import SparkWords, Words, constant, name
from tallystick.tables.engines.spark_local import LocalFiles
from tallystick.tables.engines.spark_log import QuietLog
from tallystick.tables.engines.spark_plan import (
    Origin,
    entry_of,
    has_cached_rows,
    origin_of,
    other_format,
    pinned,
    readable,
    refuse_files,
    refuse_layout,
    refuse_options,
    refuse_padded,
    rows_of,
)
from tallystick.tables.engines.spark_settings import check_application, check_hadoop
from tallystick.tables.identity import CACHED, SPARK, UNKNOWN, Identity
from tallystick.tables.program import read_stored
from tallystick.tables.schema import Schema, family
from tallystick.tables.sources import check_files, check_limits

if TYPE_CHECKING:
    from tallystick.tables.keyset import Upload
    from tallystick.tables.reader import Reader

_PARTITIONS = "spark.sql.shuffle.partitions"
_KEPT_SETTINGS = (_PARTITIONS, "spark.sql.catalog.", "spark.sql.defaultCatalog", "fs.")
"""Beginnings of settings that our session takes from the user's: how many parts, where names lead, and file systems."""
_SETTINGS = {
    # sums must not raise on data, text must mean what it says, and joins must not depend on statistics
    "spark.sql.ansi.enabled": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    # files name columns in any case, and the reader of rows asks the session that runs
    "spark.sql.caseSensitive": "false",
    # by default Spark puts the value of a setting into a statement where a constant holds ${name}
    "spark.sql.variable.substitute": "false",
    "spark.sql.optimizer.excludedRules": ",".join(
        [
            # it turns CASE ... END * 0 into a CASE whose third branch holds a condition for a value, and fails on rows
            "org.apache.spark.sql.catalyst.optimizer.PushFoldableIntoBranches",
            # it computes expressions of rows in memory while a plan is made, so before the charge
            "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
        ]
    ),
    # it leaves out what would follow on no rows, of a rehearsal as of data
    "spark.sql.adaptive.optimizer.excludedRules": ("org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"),
    "spark.sql.session.timeZone": "UTC",
    # by default Spark raises at a text that its old and its new parser read as different days
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # by default a join fails if it takes more than five minutes to hand out its smaller side
    "spark.sql.broadcastTimeout": "-1",
    # this reader fails if 4,096 texts of a column have more than 2 GB
    "spark.sql.parquet.enableVectorizedReader": "false",
    # every row group is read, whatever is asked: what a file cannot do must not depend on its values
    "spark.sql.parquet.filterPushdown": "false",
}
"""Settings of our session. All others have Spark's own defaults: a setting can decide at which rows Spark fails."""
_BYTES_PER_PARTITION = 16 << 20
"""Of a stored table: in memory and as cells of (unit, group) they are a few times as many."""

_MOST_WRITTEN = 1_000
"""Rows of a public table that are written into the query. More are handed over by Python's own workers, which take
seconds to start and whose rows Spark cannot count before it chooses how to join.
"""

_TYPES = {"integer": "bigint", "number": "double", "text": "string", "boolean": "boolean", "date": "date"}


def connect(reader: Reader) -> SparkEngine:
    """A new session beside the user's, so that settings and temporary views are ours alone."""
    engine = SparkEngine(reader.source.handle, rows=reader.rows)
    reader.watched.append(engine.held.unchanged)
    return engine


class SparkEngine:
    """Stages are checkpointed temporary views, dropped at the end."""

    words: Words = SparkWords()
    in_shares = False  # Spark spills what does not fit

    def __init__(self, given: Any, *, rows: bool = True) -> None:
        self.given = given
        self.rows = rows
        self.held = LocalFiles()
        session = given.sparkSession if hasattr(given, "sparkSession") else given
        self.sizes: dict[str, int] = {}
        self.kept: dict[str, Any] = {}
        self.checkpoints: dict[str, Any] = {}
        self.views: dict[str, str] = {}
        self.frames: dict[str, Any] = {}
        self.sources: dict[str, Any] = {}
        self.origins: dict[str, Origin] = {}
        self.mark = uuid.uuid4().hex[:8]
        self.log = QuietLog(session)
        self.log.start()  # before the settings are read: Py4J would log their values
        try:
            self.session = self._checked(session)
            self.most_partitions = int(self.session.conf.get(_PARTITIONS))
        except BaseException:
            self.log.close()  # without an engine, nothing else closes it
            raise

    def _checked(self, session: Any) -> Any:
        """Return a session of our own. Refuse an application and a process in which rows could decide about success."""
        check_application(session)
        _check_process(session)
        own = _own_session(session)
        check_hadoop(own)
        return own

    def stored(self, table: str, schema: Schema, *, rows: bool = True) -> exp.Query:
        # The user's temporary views live in the user's session; ours gets the same rows under a name of ours. It is a
        # view of our session, which no other session can replace.
        name = self.views.setdefault(table, f"_stored_{self.mark}_{len(self.views)}")
        frame = self._of(table)
        _refuse_readers(frame)
        found = self.sources[table]
        size = _size(found)  # asked of an empty table too: what always fails must fail before the charge
        self._partition(table, size if rows else 0)
        given = found if rows else self._empty(frame)
        given.createOrReplaceTempView(name)
        self.kept[name] = given
        return read_stored(schema, self.words, exp.Table(this=exp.to_identifier(name, quoted=True)))

    def _frame(self, plan: Any, session: Any) -> Any:
        """A data frame of an analysed plan."""
        from pyspark.sql import DataFrame

        java = session._jsparkSession
        kind = java.emptyDataFrame().getClass().getName()  # version 4 keeps it elsewhere
        made = functools.reduce(getattr, kind.split("."), session._jvm).ofRows(java, plan)
        return DataFrame(made, session)

    def _empty(self, frame: Any) -> Any:
        """No rows with the columns of a frame. Spark does not know that it has no rows, and leaves out nothing that it
        would do with some: what WHERE FALSE is asked of it forgets before it has made any code of it.
        """
        from pyspark.sql import DataFrame  # optional

        java, context = self.session._jsparkSession, self.session.sparkContext
        return DataFrame(java.createDataFrame(context._jsc.emptyRDD(), frame._jdf.schema()), self.session)

    def _partition(self, table: str, size: int) -> None:
        """Shuffle into as many partitions as the tables are large, up to what the session says.

        A task for next to nothing costs as much as one for a lot, and 200 are usual. The number depends on the size of
        the stored tables, as does the time that all of it takes.
        """
        self.sizes[table] = size
        least = min(self.session.sparkContext.defaultParallelism, self.most_partitions)
        wanted = -(-sum(self.sizes.values()) // _BYTES_PER_PARTITION)
        self.session.conf.set(_PARTITIONS, str(max(1, min(max(least, wanted), self.most_partitions))))

    def names(self, table: str) -> tuple[Any, ...] | None:
        return None  # to read a table makes a view of it

    def _of(self, table: str) -> Any:
        """The frame of a table. What its columns are checked of, and what is identified, is what is read."""
        if table not in self.frames:
            frame = self._pinned(self._found(table))
            self.frames[table] = frame
            plan = frame._jdf.queryExecution().analyzed()
            kept = readable(plan, self.held, self.session) if self.rows else plan
            self.sources[table] = self._frame(kept, self.session)
        return self.frames[table]

    def try_reading(self, tables: Sequence[str]) -> None:
        """Read one row of the files of each table and forget it: what fails at every file must fail before the charge.

        A release that needs no file would not fail. So it would tell that there is no row of the kind it asks for.
        Nothing here may depend on a row, because nothing is charged yet. So no expression of a view or data frame is
        computed, and columns that a release cannot read are not read: a time inside a structure can fail.
        """
        for table in tables:
            frame = self._of(table)
            _refuse_readers(frame)
            refuse_layout(frame._jdf.queryExecution().analyzed())
            self.held.check_found()
            for files, columns in refuse_files(self.sources[table]._jdf.queryExecution().analyzed(), self.session):
                self._read_a_row(files, columns)

    def _read_a_row(self, files: Any, columns: Sequence[str]) -> None:
        """Read some columns of one row of a plan, or refuse it."""
        wanted = self._frame(files, self.session).select(*(_quoted([name]) for name in columns))
        with contextlib.suppress(Exception):  # Spark's message can quote data
            wanted.limit(1).write.format("noop").mode("overwrite").save()
            return
        raise Refused(
            "this version of Spark cannot read a file of this table, perhaps because of the type of one of its "
            "columns. Read the table with Spark to see the reason, and write it again with Spark"
        )

    def _pinned(self, frame: Any) -> Any:
        """Return the frame with the files of its tables listed once; see ``pinned``."""
        plan = frame._jdf.queryExecution().analyzed()
        return self._frame(pinned(plan, self.session), frame.sparkSession)

    def _found(self, table: str) -> Any:
        """Meaning of a name to Spark now."""
        from pyspark.errors import AnalysisException  # optional

        if hasattr(self.given, "sparkSession"):  # a data frame is the one table there is
            return self._ours(self.given)
        pieces = table.split(".")
        quoted = _quoted(pieces)
        # Spark reads parquet.folder as the files in a folder: a second name of whatever is known by its path
        if len(pieces) == 2 and not self.given.catalog.tableExists(quoted):
            raise InvalidInput("table", table, "a table or temporary view of this session")
        try:
            found = self.given.table(quoted)
        except AnalysisException:
            raise InvalidInput("table", table, "a table or temporary view of this session") from None
        return self._ours(found)

    def _ours(self, found: Any) -> Any:
        """Return an entry of the catalogue as our session finds it, under our settings; any other frame as it is."""
        entry = entry_of(found._jdf.queryExecution().analyzed())
        return found if entry is None else self.session.table(_quoted(entry))

    def _origin(self, table: str) -> Origin:
        """Origin of the rows of a table; read once from the plan of the frame that is read."""
        if table not in self.origins:
            plan = self._of(table)._jdf.queryExecution().analyzed()
            refuse_padded(plan)
            origin = origin_of(plan, self.held, self.session._jvm)
            self.origins[table] = replace(origin, is_cached=self._is_cached(plan))
        return self.origins[table]

    def _is_cached(self, plan: Any) -> bool:
        """True if Spark would read rows of its cache, which may be those of files that are gone."""
        manager = self.session._jsparkSession.sharedState().cacheManager()
        return has_cached_rows(manager.useCachedData(plan))

    def schema(self, table: str) -> Schema:
        fields = self._of(table).schema.fields
        if len({field.name.lower() for field in fields}) < len(fields):
            raise Refused("this table has two columns whose names differ only by case. Rename one of them")
        return Schema.of(tuple((field.name, family(field.dataType.simpleString())) for field in fields))

    def upload(self, name: str, public: Upload) -> None:
        if len(public.rows) <= _MOST_WRITTEN:
            self.show(name, _written(public, self.words))
            return
        columns = ", ".join(f"`{column.replace('`', '``')}` {_TYPES[kind]}" for column, kind in public.columns)
        frame = self.session.createDataFrame([tuple(row) for row in public.rows], schema=columns)
        frame.createOrReplaceTempView(name)

    def like(self, tables: Sequence[str]) -> str | None:
        """The application, what extends its sessions, all settings of ours, and the columns as Spark has them.

        Nothing else reaches our session, which is new. Settings can hold passwords, so their digest is remembered.
        """
        java, context = self.session._jsparkSession, self.session.sparkContext
        made_of = [
            context.applicationId,  # one version of Spark, in one process
            str(java.extensions().hashCode()),
            java.sessionState().conf().getAllConfs().mkString("\0"),
            *(self._of(table).schema.json() for table in tables),
        ]
        return hashlib.sha256(repr(made_of).encode()).hexdigest()

    def show(self, name: str, sql: str) -> None:
        self.session.sql(sql).createOrReplaceTempView(name)

    def keep(self, name: str, sql: str) -> None:
        # a checkpoint, not a cache: what a cache loses is computed again from a source that may have changed
        frame = self.session.sql(sql).localCheckpoint(eager=True)
        self.checkpoints[name] = rows_of(frame._jdf.queryExecution().analyzed())
        # the same names, but new columns: Spark cannot join a stage with what it was made of while they share columns
        frame = frame.toDF(*frame.columns)
        frame.createOrReplaceTempView(name)
        self.kept[name] = frame

    def forget(self, name: str) -> None:
        frame = self.kept.pop(name, None)
        if frame is not None:
            self.session.catalog.dropTempView(name)
        self._free(name)

    def _free(self, name: str) -> None:
        """Remove the blocks of a stage while Spark's log is off: Spark would log their sizes when it removes them."""
        rows = self.checkpoints.pop(name, None)
        if rows is not None:
            rows.unpersist(True)

    def collect(self, sql: str) -> list[Sequence[Any]]:
        frame = self.session.sql(sql)
        width = len(frame.columns)
        rows = frame.collect()
        return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]

    def identify(self, table: str) -> Identity:
        origin = self._origin(table)
        name = f"{SPARK}{origin.name or table.casefold()}"  # temporary views and data frames keep their own name
        doubts = {UNKNOWN} if origin.is_unknown else set()
        if origin.is_cached:
            doubts.add(CACHED)
        near = origin.near | origin.marks | doubts if doubts else origin.near
        return Identity(name, origin.marks, near, plain=not doubts)

    def reset(self) -> None:
        for kept in self.kept:
            self.session.catalog.dropTempView(kept)
        for stage in list(self.checkpoints):
            self._free(stage)
        self.kept.clear()
        self.views.clear()

    def close(self) -> None:
        try:
            self.reset()
        finally:
            self.held.close()
            self.log.close()


def _quoted(parts: Sequence[str]) -> str:
    """Return a name of several parts as Spark's SQL writes it."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def _own_session(session: Any) -> Any:
    """Return a new session with our settings, and with those that it takes from the user's."""
    own = session.newSession()
    is_static = own._jvm.org.apache.spark.sql.internal.SQLConf.isStaticConfigKey
    for setting in _settings_of(own):
        if not is_static(setting):
            own._jsparkSession.sessionState().conf().unsetConf(setting)
    for setting in _settings_of(session):
        if setting.startswith(_KEPT_SETTINGS):
            own.conf.set(setting, session.conf.get(setting))
    for setting, value in _SETTINGS.items():
        own.conf.set(setting, value)
    return own


def _settings_of(session: Any) -> list[str]:
    """Return the names of all settings of a session."""
    names = session._jsparkSession.sessionState().conf().getAllConfs().keys()
    return str(names.mkString("\n")).splitlines()


_FILES_OF_A_TASK: Final = 256
"""More than the files that one task of a shuffle writes at the same time: one for each of up to 200 partitions."""
_FILES_OF_A_PROCESS: Final = 1024
"""More than the libraries and connections of a driver."""
_FILES_HERE: Final = 256
"""More files than this process opens. Their number does not depend on the rows."""


def _check_process(session: Any) -> None:
    """Refuse limits of the driver's process, if it runs on this machine: rows are written by it.

    A task opens a file for each part that has rows, so a low limit on open files would depend on them.
    """
    check_files(_FILES_HERE)
    process = int(session._jvm.java.lang.ProcessHandle.current().pid())
    if not os.path.exists(f"/proc/{process}"):
        return
    check_limits(process)
    processors = int(session._jvm.java.lang.Runtime.getRuntime().availableProcessors())
    threads = re.match(r"local\[(\d+)", session.sparkContext.master)
    tasks = max(processors, int(threads[1]) if threads else 0)
    check_files(_FILES_OF_A_PROCESS + _FILES_OF_A_TASK * tasks, process)


def _refuse_readers(frame: Any) -> None:
    """Refuse readers with unknown options, and readers that fail at some records: all but that of Parquet."""
    plan = frame._jdf.queryExecution().analyzed()
    refuse_options(plan)
    format_name = other_format(plan)
    if format_name is not None:
        raise Refused(
            f"Spark does not read this table from Parquet files, but with {format_name}. Other readers can fail "
            "because of one record, after the charge. Write the table as Parquet "
            "(CREATE TABLE ... USING parquet AS SELECT ...)"
        )


def _written(public: Upload, words: Words) -> str:
    """A public table as SQL."""
    kinds = [kind for _, kind in public.columns]
    given = [[float(v) if kind == "number" else v for v, kind in zip(row, kinds, strict=True)] for row in public.rows]
    rows = [exp.Tuple(expressions=[constant(value, words) for value in row]) for row in given]
    named = exp.TableAlias(this=exp.to_identifier("_v"), columns=[exp.to_identifier(c) for c, _ in public.columns])
    casts = [exp.alias_(words.cast(name(c), kind), c, quoted=True) for c, kind in public.columns]
    return words.render(exp.select(*casts).from_(exp.Values(expressions=rows, alias=named)))


def _size(frame: Any) -> int:
    """Bytes that are stored, as far as Spark knows; where it does not, more than there are."""
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
