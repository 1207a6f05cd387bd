"""Which data are these? How the ledger recognises a source that has several names.

A file has a path, and other paths through links. A table of a server has a name, an oid, partitions and views. Every
name that leads to registered data must lead to the same registration: the population that pays, the unit it protects,
the least cost, and the closing after a failure.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NoReturn

from tallystick.errors import Refused, Remedy
from tallystick.ledger.chain import SourceId
from tallystick.ledger.registry import noted_table
from tallystick.place import shown
from tallystick.regular_file import files_below, real_path
from tallystick.tables.files import OpenFile
from tallystick.tables.forms import ENDINGS, form_of, kind_of, may_read

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.registry import Registered


@dataclass(frozen=True, slots=True)
class Identity:
    """Facts by which the ledger recognises data.

    ``name`` is the text that the ledger records. ``marks`` are other facts that every name of the same data shares.
    ``near`` are marks of what the data are stored in or made of: the file of a database table, the tables of a view,
    and the folders above a file, one of which may be the folder of a registered table.
    ``plain`` is False where the rows come from elsewhere: a view, a foreign table, a data frame over stored tables.
    ``views`` are relations of the same DuckDB file whose rows come from elsewhere, as ``table_suffix`` writes them.
    ``form`` is the form in which a file is read; see ``tables.forms``.
    """

    name: str
    marks: frozenset[str] = frozenset()
    near: frozenset[str] = frozenset()
    plain: bool = True
    views: frozenset[str] = frozenset()
    form: str = ""

    @property
    def all_marks(self) -> frozenset[str]:
        """The marks, with the name as one of them."""
        return self.marks | {self.name}


TABLE: Final = "table"
"""Kind of a relation that stores its own rows. Every other kind shows rows that come from elsewhere."""

FILE: Final = "file "
INODE: Final = "inode "
"""Beginnings of marks. An inode is remembered for the time when its file is not to be seen at its place."""

FILE_KINDS: Final = ("csv", "parquet", "duckdb")
"""Kinds of sources that are one file."""

WRITTEN: Final = "@"
"""Between an inode and the time of the file's last write. Numbers of inodes are used again, with another time."""

_OWNER: Final = "owner "
"""Beginning of a mark: a name of PostgreSQL with the role that owns the table."""

SPARK: Final = "spark "
LOCATION: Final = "location "
DEFINITION: Final = "definition in spark "
"""Beginnings of marks: a name in a catalogue of Spark, a place in a remote store, and a digest of an entry of the
catalogue (columns, format, options and place of a table, or the text of a view).
"""

UNKNOWN: Final = "unknown"
"""A mark in ``near``: some of the rows may come from a place that cannot be identified."""

CACHED: Final = "cached"
"""A mark in ``near``: Spark would read rows of its cache, which may be older than the files of the table."""


def of_file(file: OpenFile, kind: str, table: str) -> Identity:
    """The identity of a table in an opened file; CSV and Parquet files hold one table."""
    whole = inode_marks(file.id, file.written) | {f"file {file.real}"}
    above = frozenset(f"{FILE}{folder}" for folder in PurePosixPath(file.real).parents)
    if kind != "duckdb":
        return Identity(f"file {file.real}", whole, near=above, form=form_of(kind, file.path))
    suffix = table_suffix(table)
    marks = frozenset(f"{mark}{suffix}" for mark in whole)
    return Identity(f"file {file.real}{suffix}", marks, near=whole | above, form=kind)


def owned(name: str, owner: int) -> str:
    """The mark of a table of PostgreSQL with its owner, from the mark of its name.

    >>> owned("postgres 77 clinic public.visits", 10)
    'owner postgres 10 of postgres 77 clinic public.visits'
    """
    return f"{_OWNER}postgres {owner} of {name}"


def table_suffix(table: str) -> str:
    """A DuckDB table behind its file. Names ignore case, and main is where a table without a schema is.

    >>> table_suffix("main.Visits")
    ' visits'
    """
    return f" {table.casefold().removeprefix('main.')}"


def _inode(opened: tuple[int, int]) -> str:
    device, inode = opened
    return f"{INODE}{device}:{inode}"


def inode_marks(opened: tuple[int, int], written: int | None) -> frozenset[str]:
    """Marks of a file by device and inode, without and with the time of its last write.

    A folder has no such time (None): it is written with every file that it gets.

    >>> sorted(inode_marks((66, 12), 99))
    ['inode 66:12', 'inode 66:12@99']
    """
    inode = _inode(opened)
    return frozenset({inode} if written is None else {inode, f"{inode}{WRITTEN}{written}"})


@dataclass(frozen=True, slots=True)
class Recognised:
    """Facts that a ledger knows of opened data. ``names`` are the registered datasets that they are, perhaps none."""

    names: tuple[str, ...]
    source: SourceId
    fixed: Mapping[str, str | None] | None
    parts: tuple[str, ...] = ()
    """Other registered datasets whose rows they hold or read."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """The registered datasets that opened data are (``same``), and others whose rows they hold or read (``part``)."""

    same: tuple[Registered, ...]
    part: tuple[Registered, ...]

    @classmethod
    def of(cls, known: Known, own: Identity) -> Overlap:
        """Compare opened data with every registered dataset, by name and by mark.

        A registered path can be a link that leads elsewhere by now. It does not count if a dataset was registered
        for that place before the link was: a link must not take over the data of another dataset. A registration that
        came later, or that saw no file there, does not take over where a registered link leads: both count.
        """
        settled, moved, part = [], [], []
        for dataset, marked in known:
            if marked.names(own):
                settled.append(dataset)
            elif own.all_marks & marked.moved and not own.name.startswith(SPARK):
                moved.append(dataset)
            elif marked.touches(own):
                part.append(dataset)
        links = [link for link in moved if not any(_was_before(link, own, dataset) for dataset in settled)]
        return cls((*settled, *links), tuple(part))

    @property
    def all(self) -> tuple[Registered, ...]:
        """All datasets that share rows with the opened data."""
        return (*self.same, *self.part)


def _was_before(link: Registered, own: Identity, dataset: Registered) -> bool:
    """True if a dataset was registered as the opened data, with a file there, before a link that leads to them now.

    A name can be registered before its file exists. Such a registration has no inode.
    """
    first, _ = link.history[0]
    for entry, marks in dataset.history:
        has_seen = any(mark.startswith(INODE) for mark in marks)
        if has_seen and not marks.isdisjoint(own.all_marks):
            return entry < first
    return False


def known_to(ledger: Ledger) -> Known:
    """Every registered dataset with the marks that it has now. All registered folders are looked through."""
    return [(dataset, _Marked.of(dataset)) for dataset in ledger.datasets().values()]


def recognise(ledger: Ledger, opened: Iterable[Identity]) -> list[Recognised]:
    """The registrations of opened data. Data that look like registered ones are refused."""
    known = known_to(ledger)
    return [_recognised(ledger, own, Overlap.of(known, own)) for own in opened]


def _recognised(ledger: Ledger, own: Identity, found: Overlap) -> Recognised:
    """The registration of one of the opened data; see ``recognise``."""
    if not found.same:
        _refuse_hidden(ledger, own, found)
        return Recognised((), SourceId.of(own.name), None)
    populations = {_population(ledger, dataset) for dataset in found.all}
    if len(populations) > 1:
        listed = ", ".join(repr(dataset.name) for dataset in found.all)
        raise Refused(f"these rows belong to datasets of several populations: {listed}. One account must pay for all")
    refuse_other_form(found.same, own)
    first = found.same[0]
    if any(dataset.fixed != first.fixed for dataset in found.same):
        listed = ", ".join(repr(dataset.name) for dataset in found.same)
        raise Refused(f"these rows are registered with several units or neighbours: {listed}. Register them once")
    if own.name.startswith(SPARK) and found.part:
        _refuse_shared(found.part)
    named = any(SourceId.of(own.name) in dataset.sources for dataset in found.same)
    source = SourceId.of(own.name) if named else SourceId(first.source)
    names, parts = (tuple(dataset.name for dataset in datasets) for datasets in (found.same, found.part))
    return Recognised(names, source, first.fixed, parts)


def refuse_other_form(same: Iterable[Registered], own: Identity) -> None:
    """Refuse a registered file under a name that says another form: its bytes would be other rows.

    A link can give any ending to a file. Read with tabs, one record of a file with commas can be thousands of rows.
    Every registration of the file must allow the form: one of them may be a link that its owner did not make.
    """
    if not own.form:
        return
    forms = [(dataset.name, form) for dataset in same for form in sorted(_registered_forms(dataset, own))]
    others = [(name, form) for name, form in forms if not may_read(own.form, form)]
    if not others:
        return
    [name, form] = others[0]
    wanted = f"a {ENDINGS[form]} file" if form in ENDINGS else "another kind of source"
    raise Refused(
        f"these data are registered as dataset {name!r}, as {wanted}. This name ends as that of a "
        f"{ENDINGS[own.form]} file, whose rows would be other ones. Ask it under the registered name"
    )


def _registered_forms(dataset: Registered, own: Identity) -> set[str]:
    """The forms in the newest registration of the opened file.

    A registered link that leads to the file now has no say against an older registration: both count. Every file that
    is recognised has a form: those of all registrations count if none of them has one of its marks.
    """
    seen = own.all_marks | own.near
    given = {own.name} if SourceId.of(own.name) in dataset.sources else set[str]()
    linked, every = set[str](), set[str]()
    for note, (_, marks) in zip(reversed(dataset.notes), reversed(dataset.history), strict=True):
        forms = _forms(note, marks | given, own)
        settled, moved = _known_now(note, marks)
        if not seen.isdisjoint(settled):
            return linked | forms
        linked |= set() if seen.isdisjoint(moved) else forms
        every |= forms
    return linked or every


def _known_now(note: str, marks: frozenset[str]) -> tuple[set[str], set[str]]:
    """All marks of one registration: those that it noted with those of the files at its places now, and those of the
    files to which its links lead now.

    A registered link has two places: the link, and the file to which it led. An inode does not count without the time
    of the last write: another file may have its number by now.
    """
    settled = {mark for mark in marks if not mark.startswith(INODE) or WRITTEN in mark}
    places = [mark.removeprefix(FILE) for mark in marks if mark.startswith(FILE)]
    inside, moved = _in_folders(places)
    table = noted_table(note)
    if table is not None and table[0] in FILE_KINDS:
        places.append(table[1])
    for found in [_file_marks(place, ()) for place in places]:
        if marks.isdisjoint(mark for mark in found if mark.startswith(FILE)):
            moved |= found
        else:
            settled |= found
    return settled | inside, moved


def _forms(note: str, marks: Iterable[str], own: Identity) -> set[str]:
    """The forms that one registration gives to the opened file."""
    place = noted_table(note)
    return _named_forms(marks, own.all_marks) if place is None else {form_of(place[0], place[1])}


def newest_file(dataset: Registered) -> str | None:
    """The path of the file that a dataset was registered with last; None if that was not a file."""
    tables = dataset.tables()
    if tables:
        kind, place, _ = tables[-1]
        return place if kind in FILE_KINDS else None
    paths = sorted(mark.removeprefix(FILE) for mark in dataset.newest_marks if mark.startswith(FILE))
    return paths[0] if paths else None


def _named_forms(marks: Iterable[str], opened: Iterable[str] = ()) -> set[str]:
    """The forms of files that a program registered by their paths: of the opened one if it is among them.

    >>> sorted(_named_forms(["file /data/visits.tsv", "inode 66:12", "file /data/costs.csv"], ["file /data/costs.csv"]))
    ['csv']
    """
    paths = {mark for mark in marks if mark.startswith(FILE)}
    chosen = (paths & set(opened)) or paths
    kinds = [(kind_of(path), path) for path in chosen]
    return {form_of(kind, path) if kind else "" for kind, path in kinds} or {""}


def _refuse_shared(parts: Sequence[Registered]) -> NoReturn:
    """Refuse rows of Spark that are in files of another registration.

    Every application of Spark can have its own catalogue, which says how often a file is read, and whose its rows are.
    """
    name = parts[0].name
    raise Refused(
        f"this table of Spark holds or reads rows of the registered dataset {name!r}, under another name. "
        f"Ask {name!r} as it was registered"
    )


def _refuse_hidden(ledger: Ledger, own: Identity, found: Overlap) -> None:
    """Refuse unregistered data that hold rows of registered ones, or might: their registration must not be escaped."""
    is_in_doubt = bool(own.near & {UNKNOWN, CACHED})
    for dataset in ledger.datasets().values():
        if SourceId.of(own.name) in dataset.sources and is_in_doubt and own.name.startswith(SPARK):
            raise Refused(
                f"this name is registered as dataset {dataset.name!r}, but Spark may read its rows from another place "
                "now: from its cache, through a symbolic link, or through a file system that is not known. "
                "Remove the table from the cache, or give it the location that it had when it was registered"
            )
        if SourceId.of(own.name) in dataset.sources:
            raise Refused(
                f"this name is registered as dataset {dataset.name!r}, and leads to another table now. "
                "Write the table with its schema, or register it again",
                remedies=[Remedy("update_table", dataset=dataset.name)],
            )
    if found.part and own.name.startswith(SPARK):
        _refuse_shared(found.part)
    if found.part:
        name = found.part[0].name
        raise Refused(
            f"this table holds or reads rows of the registered dataset {name!r}, under another name. "
            f"Ask {name!r}, or register this table for the same population"
        )
    if not own.plain and own.name.startswith(FILE):
        raise Refused(
            "this is a view of a DuckDB file, or a table with generated columns: its own SQL decides which rows it "
            "shows, so they cannot be recognised. Make it a table (CREATE TABLE ... AS SELECT * FROM ...), or register "
            "it as a dataset"
        )
    if not own.plain and is_in_doubt and ledger.datasets():
        raise Refused(
            "this is a view, a foreign table, a data frame or a table on a file system that is not known. Its rows "
            "cannot be identified, and this ledger has registered datasets. Register it, or ask a stored table"
        )


def _population(ledger: Ledger, dataset: Registered) -> int:
    return ledger.open(dataset.account).path[-1][0]


@dataclass(frozen=True, slots=True)
class _Marked:
    """A registered dataset with the marks that it has now. Inodes are looked up: owners replace files by rename."""

    sources: frozenset[str]
    marks: frozenset[str]
    near: frozenset[str]
    tables: frozenset[str]
    """Names of tables in the DuckDB files of ``near``, as ``table_suffix`` writes them."""
    moved: frozenset[str]
    """Marks of the place where a registered link leads now, if that is not where it led when it was registered."""
    newest: frozenset[str] = frozenset()
    """Marks of the newest registration, without inodes."""

    @classmethod
    def of(cls, dataset: Registered) -> _Marked:
        lasting = {mark for mark in dataset.marks if not mark.startswith(INODE)}
        inodes = dataset.marks - lasting
        marks, near, tables, moved = set(lasting), set[str](), set[str](), set[str]()
        places = set[str]()
        stored = [each for each in dataset.tables() if each[0] in FILE_KINDS]
        for kind, place, table in stored:
            suffix = table_suffix(table) if kind == "duckdb" else ""
            is_newest = (kind, place, table) == stored[-1]
            whole = _file_marks(place, _remembered(inodes, suffix, is_newest=is_newest))
            if SourceId.of(f"file {real_path(place)}{suffix}") in dataset.sources:
                marks |= {f"{mark}{suffix}" for mark in whole}
                places.add(place)
            else:
                moved |= {f"{mark}{suffix}" for mark in whole}
            if suffix:
                tables.add(suffix)
                near |= whole
        tables |= _suffixes(inodes)
        for mark in lasting:
            if not mark.startswith(FILE):
                continue
            # where a registered link led before, a file beside others, or one that a program registered by its path
            suffix = max((each for each in tables if mark.endswith(each)), key=len, default="")
            place = mark.removeprefix(FILE).removesuffix(suffix)
            places.add(place)
            whole = _file_marks(place, _remembered(inodes, suffix, is_newest=SourceId.of(mark) == dataset.source))
            marks |= {f"{each}{suffix}" for each in whole}
            near |= whole if suffix else set()
        newest = frozenset(mark for mark in dataset.newest_marks if not mark.startswith(INODE))
        inside, linked = _in_folders(places)
        marks |= inside
        moved |= linked
        return cls(dataset.sources, frozenset(marks), frozenset(near), frozenset(tables), frozenset(moved), newest)

    def names(self, own: Identity) -> bool:
        """True if the opened data are this dataset.

        Where both sides have marks of a server, marks decide: the same name can lead to another table for another role.
        A table of a DuckDB file is part of a dataset that is the whole file, and a file in a folder is part of a
        dataset that is the folder.
        """
        if self._may_be_elsewhere(own):
            return False
        if own.name.startswith(SPARK) and self.definition:
            return not own.marks.isdisjoint(self.definition)
        if own.name.startswith(SPARK) and not self._has_name(own):
            return False  # files that are registered themselves, or as another table
        if not own.plain and not own.name.startswith(FILE):
            return self._is_view(own)
        is_inside = own.plain and own.name.startswith(FILE) and own.near & self.marks
        # the address and name of a table of a server are marks, too, and lead to other tables for other roles
        shared = (own.marks if _of_server(own.marks) else own.all_marks) & self.marks
        if (shared and not self._has_other_owner(own, shared)) or is_inside:
            return True
        if SourceId.of(own.name) not in self.sources:
            return False
        return not (_of_server(own.marks) and _of_server(self.marks))

    def _has_other_owner(self, own: Identity, shared: frozenset[str]) -> bool:
        """True if opened data share only a name of PostgreSQL with this dataset, and another role owns their table.

        A role that may create tables can make one under a name that is free. A registration of version 0.1.0 has no
        owner: its name is enough.
        """
        if _objects(shared) or not all(mark.startswith("postgres ") for mark in shared):
            return False
        owners = {mark for mark in self.newest if mark.startswith(f"{_OWNER}postgres ")}
        named = {mark for mark in owners if any(mark.endswith(f" of {name}") for name in shared)}
        return bool(named) and named.isdisjoint(own.marks)

    def _may_be_elsewhere(self, own: Identity) -> bool:
        """True if a table of Spark may have other rows than those at the registered place.

        Every Spark application can have its own catalogue, so a name in a catalogue does not say where rows are.
        """
        is_named = any(mark.startswith(SPARK) for mark in own.marks)
        places = {mark for mark in self.marks if mark.startswith((FILE, LOCATION))}
        if not is_named or not places:
            return False
        is_stale = CACHED in own.near and own.near.isdisjoint(places)
        return UNKNOWN in own.near or is_stale

    def _has_name(self, own: Identity) -> bool:
        """True if a registration of version 0.1.0, which has no definition, is for a table of Spark of this name.

        A table of Spark is never a registered file. It can list the file many times, and its folders can say whose the
        rows are: one person would count as many.
        """
        names = {mark for mark in own.all_marks if mark.startswith(SPARK)}
        return not names.isdisjoint(self.marks) or SourceId.of(own.name) in self.sources

    @property
    def definition(self) -> frozenset[str]:
        """The definition of a table or view of Spark, as it was registered: another one reads other rows."""
        return frozenset(mark for mark in self.newest if mark.startswith(DEFINITION))

    def _is_view(self, own: Identity) -> bool:
        """True if opened rows of a server that come from elsewhere are this dataset.

        A view shows the rows that its author chose, so a name does not make it a registered dataset: a view can be
        made under a name that is free, and a temporary view under any name. PostgreSQL must show the same object. Spark
        has no object identifiers. If a stored table was registered, it must be stored in the same place; if a view was
        registered, it must have all names of the registration. A temporary view has no mark.
        """
        if not own.marks:
            return False
        if _of_server(own.marks) and _of_server(self.marks):
            return not _objects(own.marks).isdisjoint(self.marks)
        places = {mark for mark in self.marks if mark.startswith((FILE, LOCATION))}
        if places:
            return not own.marks.isdisjoint(places)
        if not self.newest:  # a registration of version 0.1.0
            return SourceId.of(own.name) in self.sources
        return self.newest <= own.all_marks

    def touches(self, own: Identity) -> bool:
        """True if the rows overlap although this is not the same table, or may: of two relations of one DuckDB file,
        one of them a view, the view may read the other.
        """
        everywhere = self.marks | self.near | self.moved
        overlap = (own.all_marks & everywhere) | (own.near & (self.marks | self.moved))
        has_view = not own.plain or bool(own.views & self.tables)
        return bool(overlap) or (has_view and bool(own.near & self.near))


Known = Sequence[tuple["Registered", _Marked]]
"""Registered datasets and their marks."""


def _suffixes(inodes: Iterable[str]) -> set[str]:
    """The tables of DuckDB files whose inodes were remembered, as ``table_suffix`` writes them.

    >>> _suffixes(["inode 66:12 visits", "inode 66:12@99 visits", "inode 66:13"])
    {' visits'}
    """
    named = {mark.removeprefix(INODE).partition(" ")[2] for mark in inodes}
    return {f" {table}" for table in named if table}


def _of_server(marks: Iterable[str]) -> bool:
    return bool(_objects(marks))


def _objects(marks: Iterable[str]) -> frozenset[str]:
    """Marks that are object identifiers of PostgreSQL.

    >>> _objects(["postgres 77/5/1259", "postgres 77 clinic public.visits"])
    frozenset({'postgres 77/5/1259'})
    """
    return frozenset(mark for mark in marks if mark.startswith("postgres ") and "/" in mark.split()[1])


def _remembered(inodes: Iterable[str], suffix: str, *, is_newest: bool) -> set[str]:
    """The inodes of the files of a registration, without the table. At a place that it has left, only those count whose
    time of the last write is known: nothing may be there for good, and numbers of inodes are used again.
    """
    whole = {mark.removesuffix(suffix) for mark in inodes if mark.endswith(suffix)}
    return whole if is_newest else {mark for mark in whole if WRITTEN in mark}


def _file_marks(place: str, remembered: Iterable[str]) -> set[str]:
    """The marks of the file at a place: of the one that is there now, and of the one that was remembered.

    The remembered file may have been moved away, hidden or deleted. The number of its inode may be another file's by
    now: the next new file often gets it. So the remembered file must have its time of the last write as well. An inode
    without a time (a registration of version 0.1.0, a folder of Spark) stands for it while nothing is to be seen there.
    """
    real = {f"{FILE}{real_path(place)}"}
    try:
        status = os.stat(place)
    except (OSError, ValueError):
        return {*real, *_without_timed(remembered)}
    unmistakable = {mark for mark in remembered if WRITTEN in mark}
    return {*real, *unmistakable, _inode((status.st_dev, status.st_ino))}


def _in_folders(places: Iterable[str]) -> tuple[set[str], set[str]]:
    """Marks of the files in the folders at registered places: a hard link to one of them is the same file, and so is
    its name below a second mount of the folder. The second set is of files to which links in these folders lead.

    A folder inside another one is looked through once.
    """
    folders = {PurePosixPath(place) for place in places}
    inside, linked = set[str](), set[str]()
    for folder in folders:
        if folders.isdisjoint(folder.parents):
            _look_through(folder, inside, linked)
    return inside, linked


def _look_through(folder: PurePosixPath, inside: set[str], linked: set[str]) -> None:
    """Add the inodes of all files in a folder and in its folders, and the marks of files to which links there lead.

    Nothing is added if it is not a folder.
    """
    for path, status in files_below(folder):
        inside.add(_inode((status.st_dev, status.st_ino)))
        if stat.S_ISLNK(status.st_mode):
            linked |= _file_marks(path, ())


def _without_timed(inodes: Iterable[str]) -> set[str]:
    """Inodes without those whose time of the last write was remembered, too.

    >>> sorted(_without_timed(["inode 66:12", "inode 66:12@99", "inode 66:13"]))
    ['inode 66:12@99', 'inode 66:13']
    """
    marks = set(inodes)
    return marks - {mark.partition(WRITTEN)[0] for mark in marks if WRITTEN in mark}


def populations_of(file: OpenFile, ledger: Ledger) -> set[str]:
    """Return the accounts for which an opened file is registered, under any name. A copy is another file."""
    own = of_file(file, "csv", "")
    marks = own.all_marks | own.near
    found = set()
    for dataset, known in known_to(ledger):
        is_same = bool(marks & (known.marks | known.near | known.moved))
        if is_same or SourceId.of(f"file {file.real}") in dataset.sources:
            found.add(dataset.account)
    return found


def refuse_private_file(file: OpenFile, works: str, own_paths: Iterable[str], ledger: Ledger | None) -> None:
    """Refuse an opened file that is to be read as public but is the question's own source, or registered.

    A copy is another file: whose rows it holds cannot be seen.
    """
    own = of_file(file, "csv", "")
    marks = own.all_marks | own.near  # a file in the folder of a registered table is part of the table
    if any(marks & _file_marks(path, ()) for path in own_paths):
        raise Refused(f"{shown(file.path)} holds the rows that are asked about, so it is not public. Use {works}")
    for dataset, known in [] if ledger is None else known_to(ledger):
        if marks & (known.marks | known.near | known.moved) or SourceId.of(f"file {file.real}") in dataset.sources:
            name = repr(dataset.name)
            raise Refused(f"{shown(file.path)} is the registered dataset {name}, so it is not public. Use {works}")
