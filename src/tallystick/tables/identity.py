"""Which data are these? How the ledger recognises a source that has several names.

A file has a path, and other paths through links. A table of a server has a name, an oid, partitions and views. Every
name that leads to registered data must lead to the same registration: the population that pays, the unit it protects,
the least cost, and the closing after a failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallystick.errors import Refused
from tallystick.ledger.chain import SourceId
from tallystick.tables.files import OpenFile, file_id

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.registry import Registered


@dataclass(frozen=True, slots=True)
class Identity:
    """How the ledger recognises data.

    ``name`` is the text that the ledger records. ``marks`` are other facts that every name of the same data shares.
    ``near`` are marks of what the data are stored in or made of: the file of a database table, the tables of a view.
    ``plain`` is False where the rows come from elsewhere: a view, a foreign table, a data frame over stored tables.
    """

    name: str
    marks: frozenset[str] = frozenset()
    near: frozenset[str] = frozenset()
    plain: bool = True

    @property
    def all_marks(self) -> frozenset[str]:
        """The marks, with the name as one of them."""
        return self.marks | {self.name}


UNKNOWN = "unknown"
"""A mark in ``near``: part of the rows come from where nothing can be identified."""


def of_file(file: OpenFile, kind: str, table: str, *, plain: bool = True) -> Identity:
    """The identity of a table in an opened file; CSV and Parquet files hold one table."""
    whole = frozenset({f"file {file.real}", _inode(file.id)})
    if kind != "duckdb":
        return Identity(f"file {file.real}", whole)
    suffix = table_suffix(table)
    marks = frozenset(f"{mark}{suffix}" for mark in whole)
    return Identity(f"file {file.real}{suffix}", marks, near=whole, plain=plain)


def lasting_marks(own: Identity) -> frozenset[str]:
    """The marks that a registration keeps. The inode of a file changes when its owner replaces the file."""
    return frozenset(mark for mark in own.all_marks if not mark.startswith("inode "))


def table_suffix(table: str) -> str:
    """A DuckDB table behind its file. Names ignore case, and main is where a table without a schema is.

    >>> table_suffix("main.Visits")
    ' visits'
    """
    return f" {table.casefold().removeprefix('main.')}"


def _inode(opened: tuple[int, int]) -> str:
    device, inode = opened
    return f"inode {device}:{inode}"


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a ledger knows of opened data. ``names`` are the registered datasets that they are, perhaps none."""

    names: tuple[str, ...]
    source: SourceId
    fixed: Mapping[str, str | None] | None


def recognise(ledger: Ledger, own: Identity) -> Recognised:
    """The registration of opened data, by name or by mark. Data of two populations are refused."""
    datasets = ledger.datasets()
    known = {name: _Marked.of(dataset) for name, dataset in datasets.items()}
    name_id = SourceId.of(own.name)
    names = [name for name, each in known.items() if name_id in each.sources or own.all_marks & each.marks]
    touched = [name for name, each in known.items() if name not in names and each.touches(own)]
    if not names and touched:
        raise Refused(
            f"this table holds or reads rows of the registered dataset {touched[0]!r}, under another name. "
            f"Ask {touched[0]!r}, or register this table for the same population"
        )
    if not names and not own.plain and UNKNOWN in own.near and known:
        raise Refused(
            "this view or data frame reads from a place that cannot be identified, and this ledger has registered "
            "datasets. Register the view, or ask a stored table"
        )
    populations = {_population(ledger, datasets[name]) for name in (*names, *touched)}
    if len(populations) > 1:
        listed = ", ".join(repr(name) for name in sorted((*names, *touched)))
        raise Refused(
            f"these rows belong to datasets of several populations: {listed}. No one account can pay for them"
        )
    if not names:
        return Recognised((), name_id, None)
    first = datasets[names[0]]
    source = name_id if any(name_id in known[name].sources for name in names) else SourceId(first.source)
    return Recognised(tuple(names), source, first.fixed)


def _population(ledger: Ledger, dataset: Registered) -> int:
    return ledger.open(dataset.account).path[-1][0]


@dataclass(frozen=True, slots=True)
class _Marked:
    """A registered dataset with the marks that it has now. Inodes are looked up: owners replace files by rename."""

    sources: frozenset[str]
    marks: frozenset[str]
    near: frozenset[str]

    @classmethod
    def of(cls, dataset: Registered) -> _Marked:
        marks, near = set(dataset.marks), set[str]()
        for kind, place, table in dataset.tables():
            whole = _file_marks(place)
            if kind == "duckdb":
                near |= whole
                whole = {f"{mark}{table_suffix(table)}" for mark in whole}
            if kind in ("csv", "parquet", "duckdb"):
                marks |= whole
        for mark in dataset.marks:
            if mark.startswith("file "):  # a file that a program registered by its path
                marks |= _file_marks(mark.removeprefix("file "))
        return cls(dataset.sources, frozenset(marks), frozenset(near))

    def touches(self, own: Identity) -> bool:
        """Whether the rows overlap although this is not the same table."""
        overlap = (own.marks & self.near) | (own.near & self.marks)
        return bool(overlap) or (not own.plain and bool(own.near & self.near))


def _file_marks(place: str) -> set[str]:
    """The marks of the file that is at a place now."""
    found = file_id(place)
    real = {f"file {os.path.realpath(place)}"}
    return real if found is None else {*real, _inode(found)}


def refuse_private_file(file: OpenFile, works: str, own_paths: Iterable[str], ledger: Ledger | None) -> None:
    """Refuse an opened file that is to be read as public but is the question's own source, or registered.

    A copy is another file: whose rows it holds cannot be seen.
    """
    marks = of_file(file, "csv", "").all_marks
    if any(marks & _file_marks(path) for path in own_paths):
        raise Refused(f"{file.path} holds the rows that are asked about, so it is not public. Use {works}")
    for name, dataset in ({} if ledger is None else ledger.datasets()).items():
        known = _Marked.of(dataset)
        if marks & (known.marks | known.near) or SourceId.of(f"file {file.real}") in known.sources:
            raise Refused(f"{file.path} is the registered dataset {name!r}, so it is not public. Use {works}")
