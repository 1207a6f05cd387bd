"""Which data are these? How the ledger recognises a source that has several names.

A file has a path, and other paths through links. A table of a server has a name, an oid, partitions and views. Every
name that leads to registered data must lead to the same registration: the population that pays, the unit it protects,
the least cost, and the closing after a failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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


TABLE: Final = "table"
"""Kind of a relation that stores its own rows. Every other kind shows rows that come from elsewhere."""

UNKNOWN: Final = "unknown"
"""A mark in ``near``: some of the rows may come from a place that cannot be identified."""


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


@dataclass(frozen=True, slots=True)
class Overlap:
    """The registered datasets that opened data are (``same``), and others whose rows they hold or read (``part``)."""

    same: tuple[Registered, ...]
    part: tuple[Registered, ...]

    @classmethod
    def of(cls, ledger: Ledger, own: Identity) -> Overlap:
        """Compare opened data with every registered dataset, by name and by mark."""
        same, part = [], []
        for dataset in ledger.datasets().values():
            marked = _Marked.of(dataset)
            if SourceId.of(own.name) in dataset.sources or own.all_marks & marked.marks:
                same.append(dataset)
            elif marked.touches(own):
                part.append(dataset)
        return cls(tuple(same), tuple(part))

    @property
    def all(self) -> tuple[Registered, ...]:
        """All datasets that share rows with the opened data."""
        return (*self.same, *self.part)


def recognise(ledger: Ledger, own: Identity) -> Recognised:
    """The registration of opened data. Data that cannot be told apart from registered ones are refused."""
    found = Overlap.of(ledger, own)
    if not found.same:
        _refuse_hidden(ledger, own, found)
        return Recognised((), SourceId.of(own.name), None)
    populations = {_population(ledger, dataset) for dataset in found.all}
    if len(populations) > 1:
        listed = ", ".join(repr(dataset.name) for dataset in found.all)
        raise Refused(f"these rows belong to datasets of several populations: {listed}. One account must pay for all")
    first = found.same[0]
    named = any(SourceId.of(own.name) in dataset.sources for dataset in found.same)
    source = SourceId.of(own.name) if named else SourceId(first.source)
    return Recognised(tuple(dataset.name for dataset in found.same), source, first.fixed)


def _refuse_hidden(ledger: Ledger, own: Identity, found: Overlap) -> None:
    """Refuse unregistered data that hold rows of registered ones, or might: their registration must not be escaped."""
    if found.part:
        name = found.part[0].name
        raise Refused(
            f"this table holds or reads rows of the registered dataset {name!r}, under another name. "
            f"Ask {name!r}, or register this table for the same population"
        )
    if not own.plain and UNKNOWN in own.near and ledger.datasets():
        raise Refused(
            "this is a view, a foreign table or a data frame whose rows cannot be identified, and this ledger has "
            "registered datasets. Register it, or ask a stored table"
        )


def _population(ledger: Ledger, dataset: Registered) -> int:
    return ledger.open(dataset.account).path[-1][0]


@dataclass(frozen=True, slots=True)
class _Marked:
    """A registered dataset with the marks that it has now. Inodes are looked up: owners replace files by rename."""

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
        return cls(frozenset(marks), frozenset(near))

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
        if marks & (known.marks | known.near) or SourceId.of(f"file {file.real}") in dataset.sources:
            raise Refused(f"{file.path} is the registered dataset {name!r}, so it is not public. Use {works}")
