"""Identity of Spark data, from an analysed logical plan: which catalogue tables and files its rows come from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tallystick.tables.identity import TABLE

MOST_LISTED: Final = 1000
"""Most files of one relation that get marks of their own. A relation of more files is recognised by its folders."""

_IN_MEMORY: Final = ("LocalRelation", "LogicalRDD", "ExternalRDD", "Range", "OneRowRelation", "EmptyRelation")
_ELSEWHERE_IN_THE_PLAN: Final = ("CTERelationRef",)
_FILES_V1: Final = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_FILES_V2: Final = "org.apache.spark.sql.execution.datasources.v2.FileTable"
_STORES: Final = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}
"""Schemes of URIs that lead to one store, and the scheme that stands for them in a mark."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where rows of a plan come from."""

    kind: str
    """``TABLE`` for a catalogue table of files, otherwise words that say what the plan is."""
    name: str | None
    """Name in the catalogue, without its default parts; None for a temporary view and a data frame."""
    own: frozenset[str]
    """Marks of the table itself, or of the catalogue's view."""
    leaves: frozenset[str]
    """Marks of all tables and files that the plan reads."""
    is_unknown: bool = False
    """True if the plan reads data that cannot be recognised."""


def origin_of(plan: Any) -> Origin:
    """Return where the rows of an analysed plan come from. The plan does not change, so neither does the origin."""
    leaves: set[str] = set()
    unknown: list[str] = []
    for leaf in _leaves(plan):
        marks = _marks_of(leaf)
        if marks is None:
            unknown.append(_reader_of(leaf))
        else:
            leaves |= marks
    top = _top(plan)
    entry = _entry_of(top)
    name = None if entry is None else full_name(entry)
    kind = f"data that Spark reads through {unknown[0]}" if unknown else _kind_of(top, entry)
    own = frozenset() if name is None else frozenset({f"spark {name}"})
    short = None if name is None else short_name(name)
    return Origin(kind, short, own, frozenset(leaves), is_unknown=bool(unknown))


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


def _marks_of(leaf: Any) -> frozenset[str] | None:
    """Marks of the data that a leaf reads; None if they cannot be recognised."""
    kind = _simple(leaf)
    if kind in _IN_MEMORY or kind in _ELSEWHERE_IN_THE_PLAN:
        return frozenset()
    files = _files_of(leaf)
    if files is None:
        return None
    entry = _entry_of(leaf)
    named = frozenset() if entry is None else frozenset({f"spark {full_name(entry)}"})
    return named | _of_files(files)


def _files_of(leaf: Any) -> Any:
    """The index of the files that a leaf reads; None if it does not read files."""
    if _simple(leaf) == "LogicalRelation" and _is_a(leaf.relation(), _FILES_V1):
        return leaf.relation().location()
    if _simple(leaf) == "DataSourceV2Relation" and _is_a(leaf.table(), _FILES_V2):
        return leaf.table().fileIndex()
    return None


def _reader_of(leaf: Any) -> str:
    """Name of the class through which Spark reads a leaf."""
    if _simple(leaf) == "LogicalRelation":
        return _simple(leaf.relation())
    return _simple(leaf.table()) if _simple(leaf) == "DataSourceV2Relation" else _simple(leaf)


def _of_files(index: Any) -> frozenset[str]:
    """Marks of the folders and files of an index."""
    marks: set[str] = set()
    for root in _items(index.rootPaths()):
        uri = root.toUri()
        marks |= place_marks(uri.getScheme() or "file", uri.getAuthority() or "", uri.getPath())
    files = list(index.inputFiles())
    if len(files) <= MOST_LISTED:
        for file in files:
            parts = urlsplit(file)
            marks |= place_marks(parts.scheme, parts.netloc, unquote(parts.path))
    return frozenset(marks)


def place_marks(scheme: str, authority: str, path: str) -> frozenset[str]:
    """Marks of a file or folder. A file that a writer of Spark made has the mark of the folder of its table, too.

    >>> sorted(place_marks("s3a", "clinic", "/visits/year=2024/part-0.parquet"))
    ['location s3://clinic/visits', 'location s3://clinic/visits/year=2024/part-0.parquet']
    """
    places = [PurePosixPath(path), *_table_folder(PurePosixPath(path))]
    if scheme.lower() != "file":
        store = _STORES.get(scheme.lower(), scheme.lower())
        return frozenset(f"location {store}://{authority.lower()}{place}" for place in places)
    marks: set[str] = set()
    for place in places:
        marks |= _local_marks(str(place))
    return frozenset(marks)


def _local_marks(path: str) -> set[str]:
    marks = {f"file {os.path.realpath(path)}"}
    try:
        status = os.stat(path)
    except OSError:  # it is on another machine, or gone
        return marks
    return marks | {f"inode {status.st_dev}:{status.st_ino}"}


def _table_folder(path: PurePosixPath) -> list[PurePosixPath]:
    """The folder of the table that a part file or a folder ``column=value`` belongs to, if the path is one of these."""
    if not path.name.startswith("part-") and "=" not in path.name:
        return []
    folder = path.parent
    while "=" in folder.name:
        folder = folder.parent
    return [folder]


def _entry_of(node: Any) -> Any:
    """The catalogue's entry of a relation or a view; None if it has none."""
    kind = _simple(node)
    if kind == "View":
        return None if node.isTempView() else node.desc()
    if kind == "HiveTableRelation":
        return node.tableMeta()
    if kind == "LogicalRelation" and node.catalogTable().isDefined():
        return node.catalogTable().get()
    return None


def full_name(entry: Any) -> str:
    """Catalogue, database and table of an entry, in one spelling of upper and lower case."""
    found = entry.identifier()
    catalogue = found.catalog().get() if found.catalog().isDefined() else "spark_catalog"
    database = found.database().get() if found.database().isDefined() else "default"
    return f"{catalogue}.{database}.{found.table()}".casefold()


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
