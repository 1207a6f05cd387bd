"""Identity of Spark data, from an analysed logical plan: which catalogue tables and files its rows come from."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tallystick.errors import Refused
from tallystick.tables.engines.spark_local import LocalFiles
from tallystick.tables.engines.spark_stores import FileSystems, Place
from tallystick.tables.identity import DEFINITION, LOCATION, SPARK, TABLE, inode_marks

MOST_LISTED: Final = 1000
"""Most files of one relation whose marks a registration keeps. A table of more files is recognised by its folders."""

_IN_MEMORY: Final = ("LocalRelation", "Range", "OneRowRelation", "EmptyRelation")
_RDDS: Final = ("LogicalRDD", "ExternalRDD")
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
_BY_POSITION: Final = "orc.force.positional.evolution"
"""Setting of ORC that takes columns by their places instead of their names."""
_LISTED_AGAIN: Final = "org.apache.spark.sql.execution.datasources.CatalogFileIndex"
"""Class of the index of a partitioned table. It asks the catalogue for partitions whenever rows are read."""
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""Name of the folder of rows whose partition column has no value."""
_TOTAL_FORMATS: Final = (
    "org.apache.spark.sql.avro.AvroFileFormat",
    "org.apache.spark.sql.delta.DeltaParquetFileFormat",
    "org.apache.spark.sql.execution.datasources.orc.OrcFileFormat",
    "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat",
    "org.apache.spark.sql.hive.orc.OrcFileFormat",
)
"""Formats whose reader fails at no value. Readers of text do: at a record of more than 20,480 fields, for example."""
_STORES: Final = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}
"""Schemes of URIs that lead to one store, and the scheme that stands for them in a mark."""
_WITH_CONTAINER: Final = ("abfs", "wasb")
"""Stores of Azure, whose URIs have a container before the host."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of the rows of a plan."""

    kind: str
    """``TABLE`` for a catalogue table of files, otherwise words that say what the plan is."""
    name: str | None
    """Name in the catalogue, without its default parts; None for a temporary view and a data frame."""
    own: frozenset[str]
    """Marks of the table itself, or of the catalogue's view."""
    leaves: frozenset[str]
    """Marks of all tables and files that the plan reads."""
    near: frozenset[str] = frozenset()
    """Marks that no registration keeps: of files that are too many for one, and of all folders above files. They only
    show that data share a file, or are inside a registered folder.
    """
    is_unknown: bool = False
    """True if the plan reads data that cannot be recognised, or that may change before Spark reads them."""
    is_cached: bool = False
    """True if Spark would read rows of its cache, which may be those of files that are gone."""


@dataclass(frozen=True, slots=True)
class _Read:
    """Source that one leaf of a plan reads."""

    marks: frozenset[str] = frozenset()
    near: frozenset[str] = frozenset()
    is_unknown: bool = False
    reader: str | None = None
    """Name of the class that reads the rows, if it gives no marks."""


_NOTHING: Final = _Read()


def origin_of(plan: Any, held: LocalFiles, java: Any) -> Origin:
    """Return where the rows of an analysed plan come from. The plan does not change, so neither does the origin.

    ``held`` are the opened files that are read instead of local paths, and ``java`` is the virtual machine.
    """
    read = [_read_by(leaf, held, java) for leaf in _leaves(plan)]
    readers = [one.reader for one in read if one.reader is not None]
    top = _top(plan)
    entry = _entry_of(top)
    kind = f"data that Spark reads through {readers[0]}" if readers else _kind_of(top, entry)
    leaves = frozenset[str]().union(*(one.marks for one in read))
    near = frozenset[str]().union(*(one.near for one in read))
    is_bare = kind == TABLE  # what a view or a data frame reads may be listed and opened again
    is_unknown = any(one.is_unknown or (one.marks and not is_bare) for one in read)
    if entry is None:
        return Origin(kind, None, frozenset(), leaves, near, is_unknown)
    name = full_name(entry)
    own = frozenset({f"{SPARK}{name}", f"{DEFINITION}{_definition_of(entry)}"})
    return Origin(kind, short_name(name), own, leaves, near, is_unknown)


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
    added = (*_ADDED_OPTIONS, *_REBASED, _BY_POSITION)
    return {name: value for name, value in named.items() if name not in added}


def has_cached_rows(plan: Any) -> bool:
    """True if a part of the plan is read from Spark's cache."""
    return any(_simple(leaf) == "InMemoryRelation" for leaf in _items(plan.collectLeaves()))


def pinned(plan: Any, session: Any) -> Any:
    """Return an analysed plan whose files are listed now, read under the settings of ``session``.

    Otherwise a partition that is added after the identification would be read, and a setting of another session would
    decide. A table inside a subquery of an expression is not exchanged; its index shows that (see ``_read_by``).
    """
    if _files_of(plan) is not None:
        return _settled(plan, session)
    children = _items(plan.children())
    if not children:
        return plan
    return plan.withNewChildren(session._jvm.PythonUtils.toSeq([pinned(child, session) for child in children]))


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
    options = options.updated(_BY_POSITION, "false")
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


def text_format(plan: Any) -> str | None:
    """Return the format of files whose reader may fail at a value; None if the plan reads no such files."""
    formats = [_format_of(leaf) for leaf in _leaves(plan) if _files_of(leaf) is not None]
    others = [name for name in formats if name not in _TOTAL_FORMATS]
    return others[0].rpartition(".")[2].removesuffix("FileFormat") if others else None


_SAME_NAMES: Final = {"OrcFileFormat": "orc", "ParquetFileFormat": "parquet"}
"""Formats whose files say which columns they hold, and their names in Spark."""


def refuse_other_types(plan: Any, session: Any) -> None:
    """Refuse files whose columns have other types than the table: Spark fails at such a file, if it reads it.

    Spark skips files that cannot hold a row of the kind that is asked for.
    """
    for leaf in _leaves(plan):
        index = _files_of(leaf)
        name = _SAME_NAMES.get(_format_of(leaf).rpartition(".")[2]) if index is not None else None
        files = list(index.inputFiles()) if name else []
        if len(files) < 2:
            continue  # the one file was read
        declared = {field.name().casefold(): field.dataType() for field in _items(leaf.relation().dataSchema())}
        reader = session._jsparkSession.read().format(name).option("mergeSchema", "true")
        found = reader.load(session._jvm.PythonUtils.toSeq(files)).schema()
        for field in _items(found):
            wanted = declared.get(field.name().casefold(), field.dataType())
            if not wanted.sameType(field.dataType()):
                raise Refused(
                    f"some files of this table have another type for column {field.name()} than the table. "
                    "Write the table again with one type"
                )


def _format_of(leaf: Any) -> str:
    """Name of the class that reads the files of a leaf."""
    return str(leaf.relation().fileFormat().getClass().getName())


def _parts(value: Any) -> list[Any]:
    """The parts of a Scala case class."""
    return [value.productElement(i) for i in range(value.productArity())]


def _kind_of(top: Any, entry: Any) -> str:
    if _simple(top) == "View":
        return "temporary view" if top.isTempView() else "view"
    return "data frame" if entry is None else TABLE


def _top(plan: Any) -> Any:
    """The first node of a plan that does more than name what is under it."""
    while _simple(plan) == "SubqueryAlias":
        plan = plan.child()
    return plan


def _leaves(plan: Any) -> Iterator[Any]:
    """All leaves of a plan and of the subqueries in its expressions."""
    for part in [plan, *_items(plan.subqueriesAll())]:
        yield from _items(part.collectLeaves())


def _read_by(leaf: Any, held: LocalFiles, java: Any) -> _Read:
    """Return the data that a leaf reads."""
    kind = _simple(leaf)
    if kind in _IN_MEMORY or kind in _ELSEWHERE_IN_THE_PLAN:
        return _NOTHING
    if kind in _RDDS:
        return _read_by_rdd(leaf.rdd())
    files = _files_of(leaf)
    if files is None:
        return _Read(is_unknown=True, reader=_reader_of(leaf))
    entry = _entry_of(leaf)
    systems = FileSystems(_configuration_of(leaf), java)
    listed = _opened(_listed_in(files), held)
    if not _is_a(files, _LISTED_ONCE):
        return replace(_files_of_frame(files, listed, systems), is_unknown=True)
    if entry is None:
        return _files_of_frame(files, listed, systems)
    read = _files_of_table(files, listed, entry, systems)
    is_named = not entry.tracksPartitionsInCatalog() or _partitions_are_named(files, entry, systems, java)
    paths = [path for _, _, path in _listed_in(files)]
    opened = frozenset[str]().union(*(held.marks.get(path, ()) for path in paths))
    is_elsewhere = any(held.reals.get(path, path) != os.path.normpath(path) for path in paths)
    is_unknown = read.is_unknown or not is_named or is_elsewhere or not held.missing.isdisjoint(paths)
    if len(paths) > MOST_LISTED:
        return replace(read, near=read.near | opened, is_unknown=is_unknown)
    return replace(read, marks=read.marks | opened, is_unknown=is_unknown)


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


def _read_by_rdd(last: Any) -> _Read:
    """Sources that an RDD reads: nothing, if all of its lineage starts from rows that Spark holds."""
    seen: set[int] = set()
    waiting = [last]
    while waiting:
        rdd = waiting.pop()
        if rdd.id() in seen:
            continue
        seen.add(rdd.id())
        parents = [dependency.rdd() for dependency in _items(rdd.dependencies())]
        if not parents and rdd.getClass().getName() not in _COPIES:
            return _Read(is_unknown=True, reader=_simple(rdd))
        waiting += parents
    return _NOTHING


def _files_of(leaf: Any) -> Any:
    """The index of the files that a leaf reads; None if it does not read files."""
    if _simple(leaf) == "LogicalRelation" and _is_a(leaf.relation(), _FILES_V1):
        return leaf.relation().location()
    return None


def _configuration_of(leaf: Any) -> Any:
    """Hadoop's configuration under which Spark reads the files of a leaf: that of its session, and its options."""
    relation = leaf.relation()
    return relation.sparkSession().sessionState().newHadoopConfWithOptions(relation.options())


def _reader_of(leaf: Any) -> str:
    """Name of the class through which Spark reads a leaf."""
    if _simple(leaf) == "LogicalRelation":
        return _simple(leaf.relation())
    return _simple(leaf.table()) if _simple(leaf) == "DataSourceV2Relation" else _simple(leaf)


def _files_of_frame(index: Any, files: list[Place], systems: FileSystems) -> _Read:
    """Files that a path names. Spark opens a local path again when it reads, and the path may be another file then."""
    roots = _roots_of(index, systems)
    is_local = any(_is_local(place) for place in roots + files)
    is_long = len(files) > MOST_LISTED
    is_known = all(systems.know(place) for place in roots + files)
    marks = _marks_of(roots) if is_long else _marks_of(roots + files)
    return _Read(marks, _marks_above(roots + files), is_unknown=is_local or is_long or not is_known)


def _files_of_table(index: Any, files: list[Place], entry: Any, systems: FileSystems) -> _Read:
    """Files of a table of the catalogue. A local path through a symbolic link may lead elsewhere when Spark reads.

    Partitions can be anywhere, so the folder of the table is a root besides those of the index.
    """
    name = full_name(entry)
    location = entry.storage().locationUri()
    own = [_place_of(systems.qualified(location.get()))] if location.isDefined() else []
    roots = own + _roots_of(index, systems)
    is_linked = any(_is_linked(place) for place in roots + files)
    is_known = all(systems.know(place) for place in roots + files)
    is_unknown = is_linked or not is_known
    marks, above = _marks_of(roots) | {f"{SPARK}{name}"}, _marks_above(roots + files)
    if len(files) > MOST_LISTED:
        return _Read(marks, _marks_of(files) | above, is_unknown)
    return _Read(marks | _marks_of(files), above, is_unknown)


def _roots_of(index: Any, systems: FileSystems) -> list[Place]:
    """The files and folders that an index was made for."""
    return [_place_of(systems.qualified(root.toUri())) for root in _items(index.rootPaths())]


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
        real = os.path.realpath(path) if _is_local((scheme, authority, path)) else path
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
    return _is_local(place) and os.path.realpath(path) != os.path.normpath(path)


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
    name = f"file {os.path.realpath(path)}"
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
    if kind == "HiveTableRelation":
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
    return is_there and _options(leaf.relation().options()) == _options(entry.storage().properties())


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
