"""Identity of Spark data, from an analysed logical plan: which catalogue tables and files its rows come from."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tallystick.errors import Refused
from tallystick.regular_file import real_path
from tallystick.tables.engines.spark_local import LocalFiles, index_at, is_summary
from tallystick.tables.engines.spark_parquet import refuse_unreadable
from tallystick.tables.engines.spark_stores import FileSystems, Place
from tallystick.tables.identity import DEFINITION, LOCATION, SPARK, inode_marks
from tallystick.tables.schema import UNSUPPORTED, family

MOST_LISTED: Final = 1000
"""Most files of one relation whose marks a registration keeps. A table of more files is recognised by its folders."""

_IN_MEMORY: Final = ("LocalRelation", "Range", "OneRowRelation", "EmptyRelation")
_CLAIMING: Final = "LogicalRDD"
_RDDS: Final = (_CLAIMING, "ExternalRDD")
_HINT: Final = "ResolvedHint"
_OF_COMMAND: Final = "CommandResult"
_COPIES: Final = (
    "org.apache.spark.rdd.ParallelCollectionRDD",
    "org.apache.spark.rdd.EmptyRDD",
    "org.apache.spark.rdd.LocalCheckpointRDD",
    "org.apache.spark.rdd.ReliableCheckpointRDD",
)
"""Classes of RDD that hold rows. Every other RDD without a parent reads its rows from elsewhere."""
_ELSEWHERE_IN_THE_PLAN: Final = ("CTERelationRef",)
_FILES_V1: Final = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_LISTED_ONCE: Final = "org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex"
"""Class of the indexes that keep their list of files."""
_ADDED_OPTIONS: Final = ("path", "serialization.format")
_REBASED: Final = ("datetimerebasemode", "int96rebasemode")
"""Options of Parquet for days before 15 October 1582. By default the reader raises at one that Spark did not write."""
_LISTED_AGAIN: Final = "org.apache.spark.sql.execution.datasources.CatalogFileIndex"
"""Class of the index of a partitioned table. It asks the catalogue for partitions whenever rows are read."""
_OF_HIVE: Final = "HiveTableRelation"
"""Leaf of a Hive table that Spark reads through Hive's readers. Those of Parquet it reads by itself."""
_ADDED_FOR_HIVE: Final = {"mergeschema": "false", "partitionoverwritemode": "DYNAMIC"}
"""Options that Spark adds to tables of Hive: the default of other tables, and one for writers."""
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""Name of the folder of rows whose partition column has no value."""
_PARQUET: Final = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
"""The one format whose reader fails at no value, once the footers of the files were checked. Other readers fail at a
record of more than 20,480 fields (CSV), or at a moment that is far away (ORC, Avro).
"""
_CHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""Key under which the catalogue keeps the declared type of a CHAR or VARCHAR column."""
_STORES: Final = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}
"""Schemes of URIs that lead to one store, and the scheme that stands for them in a mark."""
_WITH_CONTAINER: Final = ("abfs", "wasb")
"""Stores of Azure, whose URIs have a container before the host."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of the rows of a plan. Only a bare table of the catalogue that stores files has marks."""

    name: str | None
    """Name in the catalogue, without its default parts; None for a temporary view and a data frame."""
    marks: frozenset[str] = frozenset()
    """Marks of the table, of its definition, and of its files and folders."""
    near: frozenset[str] = frozenset()
    """Marks that no registration keeps: of files that are too many for one, and of all folders above files. They only
    show that data share a file, or are inside a registered folder.
    """
    is_unknown: bool = False
    """True if the plan reads data that cannot be recognised, or that may change before Spark reads them."""
    is_cached: bool = False
    """True if Spark would read rows of its cache, which may be those of files that are gone."""


def origin_of(plan: Any, held: LocalFiles, java: Any) -> Origin:
    """Return where the rows of an analysed plan come from. The plan does not change, so neither does the origin.

    Views and data frames may list and open their files again, so they are unknown unless their rows are in memory.
    ``held`` are the opened files that are read instead of local paths, and ``java`` is the virtual machine.
    """
    top = _top(plan)
    entry = _entry_of(top)
    if entry is not None and _files_of(top) is not None:
        return _origin_of_table(top, entry, held, java)
    name = None if entry is None else short_name(full_name(entry))
    return Origin(name, is_unknown=not all(_is_in_memory(leaf) for leaf in _leaves(plan)))


def entry_of(plan: Any) -> tuple[str, ...] | None:
    """Return catalogue, database and table of the catalogue's entry that an analysed plan reads."""
    entry = _entry_of(_top(plan))
    return None if entry is None else _name_parts(entry)


def _definition_of(entry: Any) -> str:
    """Return a digest of everything in the catalogue that decides which rows and columns a table or view has.

    Two entries over the same files can name the columns in another order, or split lines elsewhere.
    """
    storage = entry.storage()
    facts = {
        "name": full_name(entry),
        "kind": entry.tableType().name(),
        "provider": _text(entry.provider()),
        "place": _text(storage.locationUri()),
        "serde": _text(storage.serde()),
        "columns": entry.schema().json(),
        "partitions": [str(each) for each in _items(entry.partitionColumnNames())],
        "options": sorted(_options(storage.properties()).items()),
        "view": _text(entry.viewText()),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _text(option: Any) -> str | None:
    """Return a Scala option as text; None if it is empty."""
    return str(option.get()) if option.isDefined() else None


def _options(options: Any) -> dict[str, str]:
    """Return options of a reader, without those that Spark or ``pinned`` adds to every table."""
    pairs = _items(options.toSeq())
    named = {str(pair._1()).lower(): str(pair._2()) for pair in pairs}
    added = (*_ADDED_OPTIONS, *_REBASED)
    return {name: value for name, value in named.items() if name not in added}


def has_cached_rows(plan: Any) -> bool:
    """True if a part of the plan is read from Spark's cache."""
    return any(_simple(leaf) == "InMemoryRelation" for leaf in _items(plan.collectLeaves()))


def pinned(plan: Any, session: Any) -> Any:
    """Return an analysed plan whose files are listed now, read under the settings of ``session``.

    Otherwise a partition that is added after the identification would be read, and a setting of another session would
    decide. A table inside a subquery of an expression is not exchanged; what reads one is unknown (see ``origin_of``).
    Claims about rows are left out: hints, and how the rows of an RDD are parted and sorted. A checkpoint keeps what a
    catalogue declared about the files that it was made from. One person's rows could be in several parts.
    """
    if _files_of(plan) is not None:
        return _settled(plan, session)
    if _simple(plan) == _HINT:
        return pinned(plan.child(), session)
    if _simple(plan) == _CLAIMING:
        return _without_claims(plan, session)
    children = _items(plan.children())
    if not children:
        return plan
    return plan.withNewChildren(session._jvm.PythonUtils.toSeq([pinned(child, session) for child in children]))


def rows_of(plan: Any) -> Any:
    """Return the RDD that a checkpoint keeps."""
    [leaf] = _items(plan.collectLeaves())
    return leaf.rdd()


def _without_claims(leaf: Any, session: Any) -> Any:
    """Return the rows of an RDD with no partitioning, order, size or constraints."""
    java = session._jvm
    columns, rows, _, _, *others = _parts(leaf)
    unknown = java.org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning(0)
    nothing = java.scala.Option.apply(None)
    unsorted = java.PythonUtils.toSeq([])
    return leaf.copy(columns, rows, unknown, unsorted, *others, session._jsparkSession, nothing, nothing)


def _settled(leaf: Any, session: Any) -> Any:
    """Return a relation of files with a list that stays, and with options that no setting overrides."""
    java = session._jvm
    relation = leaf.relation()
    index = relation.location()
    if _is_a(index, _LISTED_AGAIN):
        index = index.filterPartitions(java.PythonUtils.toSeq([]))
    elif _is_a(index, _LISTED_ONCE):
        index.refresh()  # Spark keeps a list of files as long as its session lasts
    options = relation.options()
    for name in _REBASED:
        options = _without_failure(options, name)
    _, partitions, columns, _, reader, _ = _parts(relation)
    no_buckets = java.scala.Option.apply(None)  # buckets that are not as declared would part the rows of one unit
    settled = relation.copy(index, partitions, columns, no_buckets, reader, options, session._jsparkSession)
    _, *others = _parts(leaf)
    return leaf.copy(settled, *others)


def readable(plan: Any, held: LocalFiles, session: Any) -> Any:
    """Return a pinned plan with snapshots for its local files, and with no entry of the catalogue.

    An entry can declare a size that is not the true one. Spark would then hold a large table in memory to join it.
    """
    java = session._jvm
    if _files_of(plan) is not None:
        relation, columns, _, *others = _parts(plan)
        _, *parts = _parts(relation)
        kept = relation.copy(held.index_of(relation, session), *parts, session._jsparkSession)
        return plan.copy(kept, columns, java.scala.Option.apply(None), *others)
    children = _items(plan.children())
    if not children:
        return plan
    return plan.withNewChildren(java.PythonUtils.toSeq([readable(child, held, session) for child in children]))


def _without_failure(options: Any, name: str) -> Any:
    """Return options with a rule for old days: the old calendar if it was given, and otherwise the new one."""
    given = options.get(name)
    if given.isDefined() and str(given.get()) == "LEGACY":
        return options
    return options.updated(name, "CORRECTED")


def other_format(plan: Any) -> str | None:
    """Return what a plan reads that is neither Parquet files nor rows that Spark holds; None if there is nothing."""
    return next((kind for leaf in _leaves(plan) if (kind := _other_kind(leaf)) is not None), None)


def _other_kind(leaf: Any) -> str | None:
    kind = _simple(leaf)
    if kind in (*_IN_MEMORY, *_RDDS, *_ELSEWHERE_IN_THE_PLAN, _OF_COMMAND):
        return None
    if _files_of(leaf) is not None:
        name = _format_of(leaf)
        return None if name == _PARQUET else name.rpartition(".")[2].removesuffix("FileFormat")
    return _simple(leaf.relation()) if kind == "LogicalRelation" else kind


_HARMLESS_OPTIONS: Final = frozenset(
    {"basepath", "compression", "mergeschema", "parquet.compression", "partitionoverwritemode"}
)
"""Options of a table or reader that decide neither which rows are read nor whether a file can be read."""


def refuse_options(plan: Any) -> None:
    """Refuse options that could leave out rows because of other rows: Spark hands them to the readers of files.

    A filter that a reader of Parquet gets this way leaves out whole groups of rows by their largest value.
    """
    for leaf in _leaves(plan):
        if _files_of(leaf) is None:
            continue
        others = sorted(set(_options(leaf.relation().options())) - _HARMLESS_OPTIONS)
        if others:
            raise Refused(
                f"option of a table or reader of Spark that is not known to be harmless: {', '.join(others[:10])}. It "
                "could decide which rows are read. Write the rows as a table without options"
            )


def refuse_files(plan: Any, session: Any) -> list[tuple[Any, list[str]]]:
    """Refuse files at which Spark could fail after the charge, by their footers.

    Return plans of which one row is to be read before the charge, each with the columns that a release can read: all
    files of each table, and one file of each schema if there are several. These plans have no expressions, which could
    fail at a value. A table inside a subquery is not among them: it is read under the settings of another session.
    """
    in_subqueries = [leaf for part in _items(plan.subqueriesAll()) for leaf in _items(part.collectLeaves())]
    for leaf in in_subqueries:
        _examples(leaf, session)
    tried = []
    for leaf in _items(plan.collectLeaves()):
        examples = _examples(leaf, session)
        if examples:
            names = [name for name, kind in _columns_in_files(leaf).items() if family(kind) != UNSUPPORTED]
            alone = [_of_one_file(leaf, file, session) for file in examples] if len(examples) > 1 else []
            tried += [(each, names) for each in (leaf, *alone)]
    return tried


def _examples(leaf: Any, session: Any) -> list[str]:
    """Refuse files of a leaf by their footers, and return one of each schema; none if the leaf does not read files."""
    if _files_of(leaf) is None:
        return []
    return refuse_unreadable(_data_files(leaf), _columns_in_files(leaf), _configuration_of(leaf), session._jvm)


def _columns_in_files(leaf: Any) -> dict[str, str]:
    """Types of the columns that a leaf reads from its files, by their names."""
    return {str(field.name()): _type_of(field) for field in _items(leaf.relation().dataSchema())}


def _of_one_file(leaf: Any, file: str, session: Any) -> Any:
    """Return a leaf that reads one of its files, and no columns of partitions."""
    java = session._jvm
    relation, columns, _, *others = _parts(leaf)
    _, _, *parts = _parts(relation)
    no_columns = java.org.apache.spark.sql.types.StructType()
    index = index_at(java.org.apache.hadoop.fs.Path(java.java.net.URI(file)), no_columns, session)
    alone = relation.copy(index, no_columns, *parts, session._jsparkSession)
    return leaf.copy(alone, columns, java.scala.Option.apply(None), *others)


def _data_files(leaf: Any) -> list[str]:
    """URIs of the files of a leaf that hold rows."""
    return [file for file in _files_of(leaf).inputFiles() if not is_summary(unquote(urlsplit(file).path))]


def _type_of(field: Any) -> str:
    return str(field.dataType().simpleString())


def refuse_padded(plan: Any) -> None:
    """Refuse columns of the type CHAR(n): Spark shows a table with one as a view, which adds spaces to the values."""
    for leaf in _leaves(plan):
        fields = [] if _files_of(leaf) is None else _items(leaf.relation().schema())
        padded = [str(field.name()) for field in fields if _is_padded(field)]
        if padded:
            raise Refused(
                f"column {padded[0]!r} of this table is CHAR(n), and Spark adds spaces to its values when it reads "
                "them. Declare the column as STRING or VARCHAR(n)"
            )


def refuse_layout(plan: Any) -> None:
    """Refuse files and folders that Spark does not read as they are listed."""
    for leaf in _leaves(plan):
        index = _files_of(leaf)
        if index is None:
            continue
        files = _data_files(leaf)
        if len(set(files)) < len(files):
            raise Refused("this table lists one file twice, so its people would count twice. Name its folder once")
        folders = {str(part.path().toUri().getPath()) for part in _items(index.partitionSpec().partitions())}
        above = {str(PurePosixPath(unquote(urlsplit(file).path)).parent) for file in files}
        if len(leaf.relation().partitionSchema().fields()) and not above <= folders:
            raise Refused(
                "a partition of this table has folders inside it, and Spark does not read the files there. Move the "
                "files into the folder of the partition, or to another place"
            )
        if not all(_are_named(folder, leaf.relation().partitionSchema()) for folder in folders):
            raise Refused(
                "a partition of this table is in a folder that is not named column=value. Write the table again with "
                "Spark, which names the folders so"
            )


def _is_padded(field: Any) -> bool:
    facts = field.metadata()
    return facts.contains(_CHAR) and str(facts.getString(_CHAR)).startswith("char")


def _are_named(folder: str, columns: Any) -> bool:
    """True if the last folders of a path are named for the columns of a partition."""
    names = [str(field.name()).casefold() for field in _items(columns)]
    last = PurePosixPath(folder).parts[-len(names) :] if names else ()
    return [unquote(name.partition("=")[0]).casefold() for name in last] == names


def _format_of(leaf: Any) -> str:
    """Name of the class that reads the files of a leaf."""
    return str(leaf.relation().fileFormat().getClass().getName())


def _parts(value: Any) -> list[Any]:
    """The parts of a Scala case class."""
    return [value.productElement(i) for i in range(value.productArity())]


def _top(plan: Any) -> Any:
    """The first node of a plan that does more than name what is under it."""
    while _simple(plan) == "SubqueryAlias":
        plan = plan.child()
    return plan


def _leaves(plan: Any) -> Iterator[Any]:
    """All leaves of a plan and of the subqueries in its expressions."""
    for part in [plan, *_items(plan.subqueriesAll())]:
        yield from _items(part.collectLeaves())


def _origin_of_table(leaf: Any, entry: Any, held: LocalFiles, java: Any) -> Origin:
    """Return the origin of a table of the catalogue that stores files."""
    index = _files_of(leaf)
    systems = FileSystems(_configuration_of(leaf), java)
    listed = _listed_in(index)
    paths = [path for _, _, path in listed]
    opened = frozenset[str]().union(*(held.marks.get(path, ()) for path in paths))
    files = _opened(listed, held)
    roots = _roots_of_table(index, entry, systems)
    own = _marks_of(roots) | {f"{SPARK}{full_name(entry)}", f"{DEFINITION}{_definition_of(entry)}"}
    stored, above = _marks_of(files) | opened, _marks_above(roots + files)
    is_kept = _is_a(index, _LISTED_ONCE) and held.missing.isdisjoint(paths)
    is_elsewhere = any(held.reals.get(path, path) != os.path.normpath(path) for path in paths)
    is_known = not is_elsewhere and all(systems.know(place) and not _is_linked(place) for place in roots + files)
    is_named = not entry.tracksPartitionsInCatalog() or _partitions_are_named(index, entry, systems, java)
    is_unknown = not (is_kept and is_known and is_named)
    name = short_name(full_name(entry))
    if len(files) > MOST_LISTED:
        return Origin(name, own, stored | above, is_unknown)
    return Origin(name, own | stored, above, is_unknown)


def _opened(places: list[Place], held: LocalFiles) -> list[Place]:
    """Return the places of files; a local file that was opened has the path to which its name led then."""
    return [(scheme, authority, held.reals.get(path, path)) for scheme, authority, path in places]


def _partitions_are_named(index: Any, entry: Any, systems: FileSystems, java: Any) -> bool:
    """True if each partition is the folder of the table that its values name.

    A catalogue can give a folder any values, and these could be the units: one unit would then count as many.
    """
    found = index.partitionSpec()
    fields = _items(found.partitionColumns())
    cast = java.org.apache.spark.sql.execution.datasources.PartitioningUtils.castPartValueToDesiredType
    zone = java.java.time.ZoneId.of("UTC")
    scheme, authority, root = _place_of(systems.qualified(entry.storage().locationUri().get()))
    for partition in _items(found.partitions()):
        uri = partition.path().toUri()
        path = str(uri.getPath())
        is_inside = (uri.getScheme(), uri.getAuthority() or "") == (scheme, authority)
        steps = [step.partition("=") for step in path.removeprefix(root.rstrip("/") + "/").split("/")]
        if not is_inside or [unquote(name) for name, _, _ in steps] != [field.name() for field in fields]:
            return False
        for place, ((_, _, text), field) in enumerate(zip(steps, fields, strict=True)):
            named = None if text == _NO_VALUE else cast(field.dataType(), text, zone)
            if named != partition.values().get(place, field.dataType()):
                return False
    return True


def _is_in_memory(leaf: Any) -> bool:
    """True if Spark holds the rows of a leaf, or if they are those of another leaf of the plan."""
    kind = _simple(leaf)
    return kind in _IN_MEMORY or kind in _ELSEWHERE_IN_THE_PLAN or (kind in _RDDS and _is_copy(leaf.rdd()))


def _is_copy(last: Any) -> bool:
    """True if all of the lineage of an RDD starts from rows that Spark holds."""
    seen: set[int] = set()
    waiting = [last]
    while waiting:
        rdd = waiting.pop()
        if rdd.id() in seen:
            continue
        seen.add(rdd.id())
        parents = [dependency.rdd() for dependency in _items(rdd.dependencies())]
        if not parents and rdd.getClass().getName() not in _COPIES:
            return False
        waiting += parents
    return True


def _files_of(leaf: Any) -> Any:
    """The index of the files that a leaf reads; None if it does not read files."""
    if _simple(leaf) == "LogicalRelation" and _is_a(leaf.relation(), _FILES_V1):
        return leaf.relation().location()
    return None


def _configuration_of(leaf: Any) -> Any:
    """Hadoop's configuration under which Spark reads the files of a leaf: that of its session, and its options."""
    relation = leaf.relation()
    return relation.sparkSession().sessionState().newHadoopConfWithOptions(relation.options())


def _roots_of_table(index: Any, entry: Any, systems: FileSystems) -> list[Place]:
    """The folder of a table, and the files and folders that its index was made for: partitions can be anywhere."""
    location = entry.storage().locationUri()
    own = [location.get()] if location.isDefined() else []
    uris = own + [root.toUri() for root in _items(index.rootPaths())]
    return [_place_of(systems.qualified(uri)) for uri in uris]


def _place_of(uri: Any) -> Place:
    return uri.getScheme(), uri.getAuthority() or "", uri.getPath()


def _listed_in(index: Any) -> list[Place]:
    """All files of an index."""
    uris = [urlsplit(file) for file in index.inputFiles()]
    return [(uri.scheme or "file", uri.netloc, unquote(uri.path)) for uri in uris]


def _marks_of(places: list[Place]) -> frozenset[str]:
    return frozenset().union(*(place_marks(*place) for place in places))


def _marks_above(places: list[Place]) -> frozenset[str]:
    """Marks of all folders above files and folders: a dataset that is registered there holds these files."""
    above: set[Place] = set()
    for scheme, authority, path in places:
        real = real_path(path) if _is_local((scheme, authority, path)) else path
        above |= {(scheme, authority, str(parent)) for parent in PurePosixPath(real).parents}
        host = authority.rpartition("@")[2]
        if host != authority:  # older registrations have no container in their marks
            above |= {(scheme, host, str(place)) for place in (real, *PurePosixPath(real).parents)}
    return frozenset().union(*(_marks_at(*place) for place in above))


def _is_local(place: Place) -> bool:
    scheme, _, _ = place
    return scheme.lower() == "file"


def _is_linked(place: Place) -> bool:
    """True if a symbolic link is part of a local path."""
    _, _, path = place
    return _is_local(place) and real_path(path) != os.path.normpath(path)


def place_marks(scheme: str, authority: str, path: str) -> frozenset[str]:
    """Marks of a file or folder. A file that a writer of Spark made has the mark of the folder of its table, too.

    >>> sorted(place_marks("s3a", "clinic", "/visits/year=2024/part-0.parquet"))
    ['location s3://clinic/visits', 'location s3://clinic/visits/year=2024/part-0.parquet']
    """
    places = [PurePosixPath(path), *_table_folder(PurePosixPath(path))]
    return frozenset().union(*(_marks_at(scheme, authority, str(place)) for place in places))


def _marks_at(scheme: str, authority: str, path: str) -> frozenset[str]:
    """Marks of one place. A user and a password before the host are not part of a mark; a container of Azure is."""
    if scheme.lower() != "file":
        store = _STORES.get(scheme.lower(), scheme.lower())
        owner, _, host = authority.lower().rpartition("@")
        has_container = store in _WITH_CONTAINER and owner and ":" not in owner
        container = f"{owner}@" if has_container else ""
        return frozenset({f"{LOCATION}{store}://{container}{host}{path}"})
    name = f"file {real_path(path)}"
    try:
        status = os.stat(path)
    except OSError:  # it is on another machine, or gone
        return frozenset({name})
    written = status.st_mtime_ns if stat.S_ISREG(status.st_mode) else None
    return inode_marks((status.st_dev, status.st_ino), written) | {name}


def _table_folder(path: PurePosixPath) -> list[PurePosixPath]:
    """The folder of the table that a part file or a folder ``column=value`` belongs to, if the path is one of these."""
    if not path.name.startswith("part-") and "=" not in path.name:
        return []
    folder = path.parent
    while "=" in folder.name:
        folder = folder.parent
    return [folder]


def _entry_of(node: Any) -> Any:
    """The catalogue's entry of a relation or a view; None without an entry."""
    kind = _simple(node)
    if kind == "View":
        return None if node.isTempView() else node.desc()
    if kind == _OF_HIVE:
        return node.tableMeta()
    if kind == "LogicalRelation" and node.catalogTable().isDefined():
        entry = node.catalogTable().get()
        return entry if _is_read_as_defined(node, entry) else None
    return None


def _is_read_as_defined(leaf: Any, entry: Any) -> bool:
    """True if a table is read with the options and the place of its catalogue entry: other ones change rows."""
    index = _files_of(leaf)
    if index is None:
        return True
    is_there = all(_is_inside(root.toUri(), entry) for root in _items(index.rootPaths()))
    defined = _options(entry.storage().properties())
    used = _options(leaf.relation().options())
    return is_there and {**_ADDED_FOR_HIVE, **used} == {**_ADDED_FOR_HIVE, **defined}


def _is_inside(root: Any, entry: Any) -> bool:
    """True if a root of an index is the folder of a table, or a folder in it if the catalogue lists its partitions."""
    location = entry.storage().locationUri()
    if not location.isDefined():
        return True
    place = location.get()
    store = (place.getScheme() or "file", place.getAuthority() or "")
    is_there = (root.getScheme() or "file", root.getAuthority() or "") == store
    path, folder = PurePosixPath(str(root.getPath())), PurePosixPath(str(place.getPath()))
    is_part = entry.tracksPartitionsInCatalog() and folder in path.parents
    return is_there and (path == folder or is_part)


def _name_parts(entry: Any) -> tuple[str, str, str]:
    """Return catalogue, database and table of an entry."""
    found = entry.identifier()
    catalogue = found.catalog().get() if found.catalog().isDefined() else "spark_catalog"
    database = found.database().get() if found.database().isDefined() else "default"
    return str(catalogue), str(database), str(found.table())


def full_name(entry: Any) -> str:
    """Catalogue, database and table of an entry, in one spelling of upper and lower case."""
    return ".".join(_name_parts(entry)).casefold()


def short_name(name: str) -> str:
    """A full name without the parts that Spark adds by default.

    >>> short_name("spark_catalog.default.visits"), short_name("spark_catalog.clinic.visits")
    ('visits', 'clinic.visits')
    """
    return name.removeprefix("spark_catalog.").removeprefix("default.")


def _simple(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _is_a(value: Any, name: str) -> bool:
    """True if a Java object is of a class with this name, or of one that extends it."""
    kind = value.getClass()
    while kind is not None:
        if kind.getName() == name:
            return True
        kind = kind.getSuperclass()
    return False


def _items(sequence: Any) -> list[Any]:
    """The items of a Scala sequence."""
    return [sequence.apply(i) for i in range(sequence.size())]
