"""Registered datasets: what is public about a table, kept in the ledger's chain, and who may ask it.

A registration says where the data lie, their schema, unit, caps and bounds, the least cost of a plan, and the answers
to what only a person can say; no data and no password.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tallystick import strict_json
from tallystick.accounting import check
from tallystick.digits import typed
from tallystick.errors import InvalidInput, LedgerIntegrity, Refused, Remedy
from tallystick.ledger.book import opened, opened_if_there
from tallystick.ledger.budget import Budget
from tallystick.ledger.chain import SourceId
from tallystick.ledger.denial import written
from tallystick.ledger.registry import NOTE_FORMAT, lasts, registered, retired_again
from tallystick.place import names_server
from tallystick.printing import columns_of, one_of
from tallystick.tables.identity import SPARK, Identity, Overlap, known_to, refuse_other_form
from tallystick.tables.reader import open_reader
from tallystick.tables.reporting.registered import identifying
from tallystick.tables.sources import identity

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger import Account, Amount, Ledger
    from tallystick.tables.sources import Source
    from tallystick.tables.table import Table

NOTE_FAMILY = NOTE_FORMAT.rpartition("/")[0] + "/"
"""How the format of every note of ours begins. A note of another version is refused, not passed over."""
BOUGHT: Final = "bought_size"
"""The fact of a registration about the size of a group that a suggestion paid for."""
OLD_FILE = ".datasets.json"  # where registrations of a ledger in a file were kept before they were chained


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table under a population."""

    name: str
    population: str
    table: Mapping[str, Any]
    about: Mapping[str, str] = field(default_factory=dict)
    asking: Mapping[str, Any] = field(default_factory=dict)
    """What is registered for statements in SQL, as ``publish.sql`` reads it; empty where nothing is."""
    least_price: Amount | None = field(default=None, compare=False)
    identity: Identity | None = field(default=None, compare=False)
    """Which data these are, where they were opened to register them."""
    first_version: str | None = field(default=None, compare=False)
    """The version of the data when they were registered first."""
    retired: str | None = field(default=None, compare=False)
    """The reason, if the owner closed the dataset for new queries."""

    @property
    def later_version(self) -> str | None:
        """The version of the data, if they were registered first with another one or with none."""
        version = self.asking.get("version")
        return None if version == self.first_version else version

    @property
    def group_size(self) -> int | None:
        """The number of rows in a usual group, if the owner registered it as public."""
        size = self.asking.get("group_size")
        return None if size is None else check.count("group_size", size, least=1)

    @property
    def people(self) -> int | None:
        """The number of people in the data, if the owner registered it as public."""
        number = self.asking.get("people")
        return None if number is None else check.count("people", number, least=1)

    @property
    def most_rows(self) -> int | None:
        """The largest number of rows that one person can have, if the owner registered it as public."""
        most = self.asking.get("most_rows")
        return None if most is None else check.count("most_rows", most, least=1)

    def opened(self, account: Account | None = None) -> Table:
        """The table as a question can be asked of it; its file is not opened."""
        from tallystick.tables.table import Table

        return Table.from_json(json.dumps(self.table), account=account)

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {"population": self.population, "table": dict(self.table), "about": dict(self.about), **self._asking()}

    def to_note(self) -> str:
        """Return the facts that the ledger keeps."""
        note = {"format": NOTE_FORMAT, "table": dict(self.table), "about": dict(self.about), **self._asking()}
        return json.dumps(note, sort_keys=True, separators=(",", ":"))

    def _asking(self) -> dict[str, Any]:
        return {"asking": dict(self.asking)} if self.asking else {}

    def identified(self) -> Identity:
        """Which data these are. A file is opened for this; a server was asked when its table was read."""
        table = self.opened()
        if self.identity is not None:
            return self.identity
        if table.source.paths:
            return identified(table)
        return Identity(identity(table.source, table.name))


def identified(table: Table) -> Identity:
    """Which data a table holds: its source is opened for this, and no row is read."""
    with open_reader(table.source, rows=False, tables=[table.name]) as reader:
        own = reader.identity(table.name)
    if own.name.startswith(SPARK) and not own.plain:
        raise Refused(
            "Spark's views, data frames and tables whose files are not known cannot be registered. What a view reads "
            "depends on the catalogue and the settings of each application. Write the rows as a table of Parquet "
            "files (CREATE TABLE ... USING parquet AS SELECT ...), and register that"
        )
    return own


def known(book: Ledger) -> dict[str, Dataset]:
    """Return every dataset that ``dataset add`` registered, by name.

    A program may register data with a note in its own words, or without a note. Those datasets are not listed here,
    nor are those of populations that who acts may not see.
    """
    _refuse_old_file(book)
    datasets = {}
    for name, row in book.datasets().items():
        if is_own_note(row.note) and book.sees(row.account):
            dataset = read_note(name, row.account, row.note, row.least_price)
            datasets[name] = replace(dataset, first_version=_version(row.notes[0]), retired=row.retired)
    return datasets


def _version(note: str) -> str | None:
    """The version that a note declares; None if it declares none or is in the words of a program."""
    if not is_own_note(note):
        return None
    version = json.loads(note).get("asking", {}).get("version")
    return None if version is None else str(version)


def is_own_note(note: str) -> bool:
    """True if a note has a format of ours, in any version."""
    try:
        data = json.loads(note)
    except (ValueError, RecursionError):
        return False
    if not isinstance(data, dict):
        return False
    return str(data.get("format", "")).startswith(NOTE_FAMILY)


def read_note(name: str, account: str, note: str, least: Amount | None) -> Dataset:
    """The dataset that a registration's note is about."""
    data = strict_json.read(note, name="note", allowed=f"JSON of format {NOTE_FORMAT}")
    try:
        dataset = Dataset(name, account, dict(data["table"]), dict(data["about"]), dict(data.get("asking", {})), least)
        if not strict_json.same(data, json.loads(dataset.to_note())):
            raise ValueError
        return dataset
    except (KeyError, TypeError, ValueError):
        raise LedgerIntegrity(f"the registration of dataset {name!r} cannot be read") from None


def find(name: str, book: Ledger) -> Dataset:
    """A dataset by name, or an error that lists the registered ones."""
    datasets = known(book)
    if name not in datasets:
        listed = one_of(name, sorted(datasets)) or "none yet"
        other = book.datasets().get(name)
        if other is not None and book.sees(other.account):
            listed += " (a program registered this one, so that program has to query it)"
        remedies = [] if datasets else [Remedy("add_dataset")]
        raise InvalidInput("dataset", name, f"one of: {listed}", remedies=remedies)
    return datasets[name]


def missing_caps(table: Mapping[str, Any]) -> list[str]:
    """Return the caps that a registered table lacks for questions with groups.

    A cap on rows in all is one on groups, and on rows in each, unless it is larger than those may be.
    """
    from tallystick.tables.table import MOST_GROUPS, MOST_ROWS  # a question needs it; a list of datasets does not

    in_all = table.get(CAPS[2])
    largest = {CAPS[0]: MOST_GROUPS, CAPS[1]: MOST_ROWS}
    return [cap for cap, most in largest.items() if table[cap] is None and (in_all is None or in_all > most)]


def check_column(argument: str, name: str, table: Table, *, is_number: bool = False) -> None:
    """Refuse a name that is not a column of a table, or not a numeric one, by the argument that names it."""
    try:
        if is_number:  # the caller names a range of it
            table.schema.numeric(name, "range", is_bounded=True)
        else:
            table.schema.type_of(name)
    except InvalidInput as problem:
        raise problem.about(argument, name) from None


def check_identifies(about: Mapping[str, str], table: Table) -> None:
    """Refuse columns of other people that are not columns of the table, or identify the person who is protected."""
    for name in identifying(about):
        check_column("about", name, table)
        if name == table.unit:
            allowed = "columns of other people: this one identifies the person who is protected"
            raise InvalidInput("about", f"identifies={name}", allowed)


def payer(dataset: Dataset, book: Ledger, name: str | None) -> Account:
    """Who pays for a question: the account that was named, the only allowance of who asks, or the population."""
    account = book.open(name) if name else own_account(dataset.population, book)
    above = account
    while above.name != dataset.population and above.parent is not None:
        above = above.parent
    if above.name != dataset.population:
        raise Refused(
            f"account {account.name!r} is not {dataset.population!r} nor a block of it, so the people in "
            f"{dataset.name!r} would not be paid for"
        )
    return account


def own_account(population: str, book: Ledger) -> Account:
    """Return the population, or in a ledger with roles the only allowance of the caller.

    Owners pay from the population. An analyst with several allowances names one.
    """
    account = book.open(population)
    mine = allowances(account, book)
    if len(mine) > 1:
        names = ", ".join(each.name for each in mine)
        raise InvalidInput("account", None, f"one of your allowances: {names}", code="several_allowances")
    return mine[0] if mine else account


def allowances(account: Account, book: Ledger) -> list[Account]:
    """The open allowances of who asks below an account; none in a ledger without roles, and none for owners."""
    if not book.has_roles or "owner" in book.team.roles(account.name):
        return []
    below = list(account.children)
    found = []
    while below:
        each = below.pop(0)
        below += each.children
        if each.kind == "analyst" and each.owner == book.actor and not each.closed:
            found.append(each)
    return found


CAPS: Final = ("max_groups", "max_rows", "max_rows_in_all")
"""The names of limits in stored tables; one without the last has no such entry."""
CHANGED = "were changed since, without a reason given)"


def updated(dataset: Dataset, book: Ledger) -> Dataset:
    """The dataset with what its registration already says and this one does not: caps, bounds and decisions."""
    datasets = known(book)
    known_as = datasets.get(dataset.name)
    if known_as is None:  # a mistyped name would be a second registration, with caps of its own
        raise _nothing_to_update(dataset.name, datasets)
    old, new = known_as.table, dict(dataset.table)
    for cap in CAPS:
        if new.get(cap) is None and old.get(cap) is not None:
            new[cap] = old[cap]
    limits = {column: [column, low, high] for column, low, high in (*old["bounds"], *new["bounds"])}
    new["bounds"] = [limits[column] for column in sorted(limits)]
    kinds = dict(old["columns"])  # a CSV column is text until somebody says otherwise
    new["columns"] = [[column, kinds.get(column, kind) if kind == "text" else kind] for column, kind in new["columns"]]
    about, asking = {**known_as.about, **dataset.about}, {**known_as.asking, **dataset.asking}
    changed = any(old.get(key) != new.get(key) for key in (*CAPS, "bounds"))
    reason = about.get("bounds_from")
    if changed and reason and "bounds_from" not in dataset.about and CHANGED not in reason:
        about["bounds_from"] = f"{reason} (limits or bounds {CHANGED}"  # a reason for others than those that hold now
    return replace(dataset, table=new, about=about, asking=asking)


def changes(before: Dataset, after: Dataset) -> dict[str, tuple[Any, Any]]:
    """Return the differences from the registration before, by name; None stands for a missing value."""
    old, new = _said(before), _said(after)
    names = dict.fromkeys((*old, *new))
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def differences(before: Dataset | None, after: Dataset) -> list[str]:
    """Lines with the differences from the registration before, or with all that a first registration says."""
    found = (
        changes(before, after) if before is not None else {name: (None, said) for name, said in _said(after).items()}
    )
    compared = {name: ends for name, ends in found.items() if name != "least_price"}
    first = "" if before is None else "{} -> "
    return [f"{name}: {first.format(_shown(old))}{_shown(new)}" for name, (old, new) in compared.items()]


def _shown(said: Any) -> str:
    """A fact of a registration in a line."""
    if said is None:
        return "not set"
    if isinstance(said, Mapping):
        return ", ".join(
            f"{name} ({len(each)} groups)" if isinstance(each, list) else f"{name}={each}"
            for name, each in said.items()
        )
    return typed(said) if isinstance(said, float) else str(said)


def bought_words(dataset: Dataset) -> str:
    """Return the size of a group that a suggestion paid for, in words."""
    known = dataset.asking[BOUGHT]
    return f"{known['rows']:,} rows in a middle group (ledger entry {known['charge']})"


def _said(dataset: Dataset) -> dict[str, Any]:
    """Return the facts of a registration by name."""
    table = dataset.table
    said: dict[str, Any] = {"source": table["source"]["place"], "table": table["name"]}
    said |= {cap: table[cap] for cap in CAPS if table.get(cap) is not None}
    said |= {f"type of {column}": kind for column, kind in table["columns"]}
    said |= {f"bounds of {column}": between_words(low, high) for column, low, high in table["bounds"]}
    said |= {name: value for name, value in dataset.asking.items() if name != BOUGHT} | dict(dataset.about)
    if BOUGHT in dataset.asking:
        said["size"] = bought_words(dataset)
    if dataset.least_price is not None:
        said["least_price"] = str(dataset.least_price)
    return said


def between_words(low: float | str, high: float | str) -> str:
    """The bounds of a column: numbers, or days as ISO text."""
    return " to ".join(end if isinstance(end, str) else typed(end) for end in (low, high))


def _nothing_to_update(name: str, known: Iterable[str]) -> InvalidInput:
    listed = one_of(name, sorted(known))
    works = f"a registered name, one of: {listed}" if listed else "no update: nothing is registered yet"
    return InvalidInput("update", f"no dataset {name}", works)


def _no_limit() -> InvalidInput:
    remedies = [Remedy("set_argument", argument="limit", value="rho=0.5,delta=1e-6")]
    return InvalidInput("limit", None, "a limit, which opens a new population, and its ledger", remedies=remedies)


def check_new(dataset: Dataset, book: Ledger, *, update: bool) -> None:
    """Refuse, before anything is opened or written, what the ledger would refuse, and a file under a second name."""
    datasets = known(book)
    known_dataset = datasets.get(dataset.name)
    if known_dataset is not None and known_dataset.retired is not None:
        raise retired_again(dataset.name)
    if known_dataset is not None and known_dataset.to_data() != dataset.to_data():
        if (known_dataset.population, protected_by(known_dataset)) != (dataset.population, protected_by(dataset)):
            raise Refused(
                f"dataset {dataset.name!r} is registered for population {known_dataset.population!r} with unit "
                f"{known_dataset.table['unit']!r}, which no update changes. Ask {dataset.name!r} as it is. Other data "
                "need another name, and a trial of the same data another ledger"
            )
        if not update:
            remedies = [Remedy("set_argument", argument="update", value=True)]
            raise InvalidInput(
                "name", dataset.name, "a new name; limits, bounds or place are changed by an update", remedies=remedies
            )
    populations = {account.name: account.path[-1][0] for account in book.accounts()}
    own = dataset.identified()
    _check_removed(dataset, own, book)
    found = Overlap.of(known_to(book), own)
    for other in found.all:
        if other.retired is not None:
            raise retired_again(other.name)
        if populations[other.account] != populations.get(dataset.population):
            raise Refused(
                f"these data are registered as {other.name!r} under population {other.account!r}; a source belongs "
                "to one population, or the people in it would be paid for twice over"
            )
    refuse_other_form([other for other in found.same if other.name != dataset.name], own)
    for other in found.same:
        if other.fixed and other.name != dataset.name and dict(other.fixed) != protected_by(dataset):
            raise Refused(
                f"these data are registered as {other.name!r}, about unit {other.fixed.get('unit') or 'each row'!r}; "
                "whom they protect does not depend on the name"
            )


def _check_removed(dataset: Dataset, own: Identity, book: Ledger) -> None:
    """Refuse the name or the place of a removed registration for another population or unit: the record keeps both."""
    wanted = dataset.population, protected_by(dataset)
    for other in registered(book, removed=True).values():
        if (other.account, dict(other.fixed)) == wanted:
            continue
        before = f"A removed registration, {other.name!r}, has population {other.account!r} and unit "
        before += repr(other.fixed.get("unit") or "each row")
        if other.name == dataset.name:
            raise Refused(f"{before}. Its name stays bound to them. Use another name")
        marks = own.all_marks & other.marks
        if SourceId.of(own.name) in other.sources or any(map(lasts, marks)):
            raise Refused(f"{before}. Its place stays bound to them. Move the data to another place and register that")


def protected_by(dataset: Dataset) -> dict[str, str | None]:
    """Whom a dataset protects."""
    return {"unit": dataset.table["unit"], "adjacency": dataset.table["adjacency"]}


def register(
    dataset: Dataset, account: Account, *, least_price: PrivacyLoss | None = None, update: bool = False
) -> Dataset:
    """Write a dataset into the chain; returns it as the ledger has it."""
    _append(dataset, account, least_price=least_price, update=update)
    return find(dataset.name, account.ledger)


def propose(dataset: Dataset, book: Ledger, *, least_price: PrivacyLoss | None = None, update: bool = False) -> None:
    """Write a dataset into the chain of a ledger whose writes become a request; its population must be open."""
    wanted = updated(dataset, book) if update else dataset
    account = book.open(wanted.population)
    wanted.opened(account)
    _append(wanted, account, least_price=least_price, update=update)


def _append(dataset: Dataset, account: Account, *, least_price: PrivacyLoss | None, update: bool) -> None:
    check_new(dataset, account.ledger, update=update)
    own = dataset.identified()
    if dataset.table["unit"] is None and account.unit != "row":
        raise Refused(
            f"population {account.name!r} promises something to each {account.unit}; data whose single rows are the "
            "unit belong to a population of rows"
        )
    account.register(
        dataset.name,
        source=own.name,
        note=dataset.to_note(),
        fixed=protected_by(dataset),
        least_price=least_price,
        update=update,
        marks=own.all_marks,
    )


def read_table(
    source: str,
    table: str | None,
    unit: str | None,
    adjacency: str,
    bounds: Mapping[str, tuple[Any, Any]],
    types: Mapping[str, str],
    declared: Mapping[str, str] | None = None,
) -> Table:
    """The table with its schema; ``unit`` None means each row.

    A CSV column with bounds is a date if they are dates, and else a number, unless ``types`` or an earlier
    registration (``declared``) says integer.
    """
    from tallystick.accounting.adjacency import Adjacency
    from tallystick.tables.private import Private
    from tallystick.tables.steps import each_row

    place = source if names_server(source) or "://" in source else str(Path(source).absolute())
    private = Private(place, adjacency=Adjacency(adjacency))
    if table is None and not private.source.one_table:
        raise InvalidInput("table", None, f"one of the tables of this source: {_tables(private.source)}")
    kinds = dict(types)
    if private.source.kind == "csv":
        _check_separator(private.table(table, unit=each_row).schema.names, source)
        earlier = declared or {}
        bounded = {}
        for column, (low, _) in bounds.items():
            is_whole = earlier.get(column) == "integer"
            bounded[column] = "date" if isinstance(low, datetime.date) else "integer" if is_whole else "number"
        kinds = bounded | kinds
    read = private.table(table, unit=each_row, types=kinds)
    if unit is None:
        return read
    if unit not in read.schema.names:
        raise InvalidInput("unit", unit, f"a column of the table: {columns_of(unit, read.schema.names)}, or each-row")
    return replace(read, unit=unit)


SEPARATORS: Final = {";": "semicolons", "|": "vertical bars"}
"""Separators that spreadsheets write in place of commas, in words."""


def _check_separator(names: Sequence[str], source: str) -> None:
    """Raise if a CSV file has one column because its values are not separated by commas."""
    found = [sign for sign in SEPARATORS if len(names) == 1 and sign in names[0]]
    if not found:
        return
    name = Path(source).name
    to = (
        f"the file with commas, for example: pandas.read_csv({name!r}, sep={found[0]!r})"
        ".to_csv('commas.csv', index=False)"
    )
    problem = f"the values of {name} are separated by {SEPARATORS[found[0]]}. A CSV file here has commas"
    raise InvalidInput("source", name, "", problem=problem, remedies=[Remedy("rewrite", to=to)])


def _tables(source: Source) -> str:
    """The names of a database's tables, which a registration makes public one by one."""
    from tallystick.tables.reader import open_engine

    own = "table_schema NOT IN ('information_schema', 'pg_catalog')"
    own += " AND table_catalog = 'source'" if source.kind == "duckdb" else ""  # beside the engine's own tables
    with open_engine(source, rows=False) as engine:
        found = engine.collect(f"SELECT table_schema, table_name FROM information_schema.tables WHERE {own}")
    names = sorted(
        name if schema in ("main", "public") else f"{schema}.{name}" for schema, name in zip(*found, strict=True)
    )
    return ", ".join(names[:40]) + (", ..." if len(names) > 40 else "") or "(it has no columns)"


@contextmanager
def told_of_moves(book: Ledger) -> Iterator[None]:
    """A registered file that is not where it was: say how to register where it is now."""
    try:
        yield
    except InvalidInput as problem:
        for dataset in known(book).values() if problem.argument == "source" else ():
            table = dataset.table
            if table["source"]["place"] == problem.value and not Path(str(problem.value)).exists():
                remedies = [Remedy("move_source", dataset=dataset.name)]
                raise InvalidInput("source", problem.value, "the file where it was", remedies=remedies) from None
        raise


def _check_opened(dataset: Dataset, budget: PrivacyLoss | None, word: str, book: Ledger) -> None:
    """Refuse to open a population in a ledger with roles: an operator opens it, and its owner registers the data."""
    names = [account.name for account in book.accounts()]
    if budget is None or not book.has_roles or dataset.population in names:
        return
    limit = Budget.of(budget)
    text = written(limit.filter, limit.limit0, limit.limit1, limit.protects.adjacency.value)
    raise Refused(
        f"in a ledger with roles, an operator first opens population {dataset.population!r} with unit {word!r}, and "
        "names its owner. Nothing was changed",
        code="needs_owner",
        remedies=[Remedy("open_account", account=dataset.population, budget=text)],
    )


def rehearse(
    dataset: Dataset, budget: PrivacyLoss | None, word: str, ledger: str | None, *, update: bool
) -> dict[str, Any]:
    """Everything that would be refused is refused; nothing is written."""
    book = opened_if_there(ledger)
    if book is None and update:
        raise _nothing_to_update(dataset.name, ())
    if book is not None:
        with book:
            check_new(updated(dataset, book) if update else dataset, book, update=update)
            _check_opened(dataset, budget, word, book)
    if budget is None:
        if book is None:
            raise _no_limit()
        return {"name": dataset.population, "unit": word}
    limit = Budget.of(budget)
    return {"name": dataset.population, "unit": word, "filter": limit.filter.name, "limit": str(budget)}


def open_and_register(
    dataset: Dataset,
    budget: PrivacyLoss | None,
    least: PrivacyLoss | None,
    word: str,
    ledger: str | None,
    *,
    update: bool,
) -> tuple[Dataset, dict[str, Any]]:
    """Check, open or find the account, register; in that order, so that a refusal leaves nothing behind."""
    book = opened_if_there(ledger) if budget is None else opened(ledger, create=True)
    if book is None:
        raise _no_limit()
    with book:
        dataset = updated(dataset, book) if update else dataset
        check_new(dataset, book, update=update)
        _check_opened(dataset, budget, word, book)
        names = [account.name for account in book.accounts()]
        if budget is None and dataset.population not in names:
            remedies = _no_limit().remedies
            raise InvalidInput("population", dataset.population, f"one of: {', '.join(names)}", remedies=remedies)
        unit = book.open(dataset.population).unit if dataset.population in names else word
        account = book.open(dataset.population, budget=budget, unit=unit if budget is not None else None)
        dataset.opened(account)
        return register(dataset, account, least_price=least, update=update), account.to_dict()


def _refuse_old_file(book: Ledger) -> None:
    if book.store.place.path is None:
        return
    old = Path(f"{book.store.place.path}{OLD_FILE}")
    if old.exists():
        raise Refused(
            f"{old} is from before registrations were kept in the ledger, where they cannot be edited unseen; register "
            "those datasets again, then delete the file",
            remedies=[Remedy("add_dataset")],
        )
