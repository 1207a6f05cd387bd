"""``tallystick dataset``: register a table under a population, once, with everything that is public about it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tallystick.cli.commands.suggest import suggest
from tallystick.cli.output import Answer, DryRun, Json, Place, Why, deliver
from tallystick.cli.proposing import AsRequest, Form, RequestWhy, reason_of, request
from tallystick.cli.question import Name, intervals, pairs, price
from tallystick.digits import typed
from tallystick.errors import InvalidInput
from tallystick.ledger.book import opened, opened_if_there, place_of
from tallystick.ledger.budget import Budget, read_limit
from tallystick.ledger.filters import Amount, Filter
from tallystick.publish import datasets
from tallystick.tables.sources import PublicUse, public_file

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger import Account, Ledger
    from tallystick.tables.table import Table

app = typer.Typer(help="Register tables under a population.", no_args_is_help=True, rich_markup_mode=None)

EACH_ROW = "each-row"
Repeated = list[str] | None

# What statements in SQL may rely on.
Keys = Annotated[
    Repeated, typer.Option("--keys", metavar="COLUMN=FILE", help="SQL: a public CSV file with a column's groups.")
]
KeyDelta = Annotated[
    float | None, typer.Option("--key-delta", help="SQL: find other groups in the data, at this delta a query.")
]
PerQuery = Annotated[
    Repeated, typer.Option("--per-query", metavar="rho=X,...", help="SQL: cost of a query that names none.")
]
MostPerQuery = Annotated[
    Repeated, typer.Option("--most-per-query", metavar="rho=X,...", help="SQL: the highest cost a query may name.")
]
Version = Annotated[
    str | None,
    typer.Option("--version", help="Your name for this data; a query without a key is answered once in each."),
]


Unit = Annotated[str, typer.Option("--unit", help="The column that identifies a person, or 'each-row'.")]
TableName = Annotated[str | None, typer.Option("--table", help="The table, if the source has several.")]
MaxGroups = Annotated[int | None, typer.Option("--max-groups", help="Count a person in at most this many groups.")]
MaxRows = Annotated[
    int | None, typer.Option("--max-rows-per-group", help="Count a person with at most this many rows in a group.")
]
GroupSize = Annotated[
    int | None, typer.Option("--group-size", help="A public number of rows in a usual group, to warn of noise.")
]
MostRows = Annotated[
    int | None,
    typer.Option("--most-rows", help="A public maximum of rows of one person, to estimate all rows from both sides."),
]
People = Annotated[
    int | None,
    typer.Option("--people", help="A public number of people in the data, to warn of a delta that is large."),
]
MaxRowsInAll = Annotated[
    int | None, typer.Option("--max-rows", help="Count a person with at most this many rows in all groups together.")
]
Bounds = Annotated[
    Repeated,
    typer.Option("--bounds", metavar="COLUMN=LOW:HIGH", help="Count values below LOW as LOW and above HIGH as HIGH."),
]
Types = Annotated[
    Repeated, typer.Option("--type", metavar="COLUMN=TYPE", help="CSV: integer, number, text, boolean, date.")
]
About = Annotated[
    Repeated, typer.Option("--about", metavar="FIELD=TEXT", help="For the card: window, bounds_from, limit_reason, ...")
]
LeastPrice = Annotated[
    Repeated,
    typer.Option(
        "--least-price", metavar="rho=X,...", help="Least cost of a query (default rho=0.0001 or epsilon=0.01)."
    ),
]


@dataclass(frozen=True, slots=True)
class Registration:
    """Statements of ``dataset add`` and ``dataset update`` about a table."""

    source: str
    table: str | None
    unit: str | None
    adjacency: str
    max_groups: int | None
    max_rows_per_group: int | None
    max_rows: int | None
    bounds: Repeated
    types: Repeated
    about: Repeated
    least_price: Repeated
    keys: Repeated
    key_delta: float | None
    prices: Mapping[str, Repeated]
    version: str | None
    group_size: int | None
    most_rows: int | None
    people: int | None
    declared: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Types of the columns in the registration that is updated."""

    def opened(self) -> Table:
        """The table with caps and bounds; its column names and types are read."""
        limits = intervals("bounds", self.bounds)
        kinds = pairs("types", self.types, "COLUMN=TYPE")
        place = (self.source, self.table)
        read = datasets.read_table(*place, self.unit, self.adjacency, limits, kinds, self.declared)
        capped = read.per_unit(
            max_groups=self.max_groups, max_rows_per_group=self.max_rows_per_group, max_rows=self.max_rows
        )
        return capped.bounds(**limits)

    def dataset(self, table: Table, name: str, population: str, ledger: str | None, *, ask: bool) -> datasets.Dataset:
        """The dataset as it is to be registered; ``ask`` asks a person at the terminal what only they can say."""
        listed = _key_lists(self.keys, table, ledger)
        more = {
            "key_delta": self.key_delta,
            "version": self.version,
            "group_size": self.group_size,
            "most_rows": self.most_rows,
            "people": self.people,
        }
        asking = _asking(table, listed, self.prices, **more)
        own = datasets.identified(table)
        about = _decisions(self.about, ask=ask)
        datasets.check_identifies(about, table)
        return datasets.Dataset(name, population, table.to_data(), about, asking, identity=own)

    @property
    def least(self) -> PrivacyLoss | None:
        """The least cost of a plan, if one is named."""
        return _limit("least_price", self.least_price, self.adjacency)


@app.command()
def add(
    source: Annotated[str, typer.Argument(help="A .parquet, .csv or .duckdb file, or a postgresql:// URL.")],
    population: Annotated[str, typer.Option("--population", help="The group of people who share one budget.")],
    unit: Unit,
    limit: Annotated[
        Repeated, typer.Option("--limit", metavar="rho=X,...", help="A new population's limit: rho=0.5,delta=1e-6.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="What to call it (default: the file's name).")] = None,
    table: TableName = None,
    max_groups: MaxGroups = None,
    max_rows_per_group: MaxRows = None,
    max_rows: MaxRowsInAll = None,
    bounds: Bounds = None,
    types: Types = None,
    person: Annotated[str | None, typer.Option("--person", help="Your word for a person, such as patient.")] = None,
    about: About = None,
    least_price: LeastPrice = None,
    keys: Keys = None,
    key_delta: KeyDelta = None,
    per_query: PerQuery = None,
    most_per_query: MostPerQuery = None,
    version: Version = None,
    group_size: GroupSize = None,
    most_rows: MostRows = None,
    people: People = None,
    replace: Annotated[
        bool,
        typer.Option("--replace-one", help="Protect against replacing a person's rows, not adding or removing them."),
    ] = False,
    update: Annotated[bool, typer.Option("--update", help="The same as 'dataset update'.")] = False,
    is_request: AsRequest = False,
    why: RequestWhy = None,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Register a table and open its budget. Column names and types become public."""
    reason = reason_of(is_request, why)
    protected = None if unit == EACH_ROW else unit
    adjacency = "replace" if replace else "add_remove"
    prices = {"per_query": per_query, "most_per_query": most_per_query}
    said = Registration(
        source, table, protected, adjacency, max_groups, max_rows_per_group, max_rows, bounds, types, about,
        least_price, keys, key_delta, prices, version, group_size, most_rows, people,
    )  # fmt: skip
    read = said.opened()
    called = name or (Path(source).stem if read.source.paths else read.name)
    dataset = said.dataset(read, called, population, ledger, ask=not (as_json or dry_run))
    word = person or ("row" if unit == EACH_ROW else unit.removesuffix("_id") or unit)
    budget = _limit("limit", limit, adjacency)
    if is_request:
        if budget is not None:
            raise InvalidInput("limit", ",".join(limit or ()), _ONE_CHANGE)
        _request(Form("dataset.add", ledger, as_json, dry_run), dataset, said.least, reason, update=update)
        return
    if dry_run:
        facts = datasets.rehearse(dataset, budget, word, ledger, update=update)
    else:
        dataset, facts = datasets.open_and_register(dataset, budget, said.least, word, ledger, update=update)
    asked = {"ledger": place_of(ledger), "source": _shown(read, source), "population": population}
    _deliver("dataset.add", asked, dataset, facts, dry_run=dry_run, update=update, as_json=as_json)


_ONE_CHANGE = (
    "--request without --limit: a request is for one change, and a new population is opened by an operator first, with "
    "'account open'"
)


def _request(
    form: Form, dataset: datasets.Dataset, least: PrivacyLoss | None, why: str, *, update: bool
) -> None:  # fmt: skip
    """Make a request for a registration under a population that is open."""
    request(form, lambda book: datasets.propose(dataset, book, least_price=least, update=update), why=why)


@app.command("update")
def update_(
    name: Name,
    source: Annotated[str | None, typer.Option("--source", help="Where the data is now, if it moved.")] = None,
    table: TableName = None,
    max_groups: MaxGroups = None,
    max_rows_per_group: MaxRows = None,
    max_rows: MaxRowsInAll = None,
    bounds: Bounds = None,
    types: Types = None,
    about: About = None,
    least_price: LeastPrice = None,
    keys: Keys = None,
    key_delta: KeyDelta = None,
    per_query: PerQuery = None,
    most_per_query: MostPerQuery = None,
    version: Version = None,
    group_size: GroupSize = None,
    most_rows: MostRows = None,
    people: People = None,
    is_request: AsRequest = False,
    why: RequestWhy = None,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Change limits, bounds, types, costs or place of a dataset. The rest stays."""
    reason = reason_of(is_request, why)
    with opened(ledger) as book:
        known = datasets.find(name, book)
    now = known.opened()
    place = str(now.source.place) if source is None else source
    named = table or (None if now.source.one_table else now.name)
    prices = {"per_query": per_query, "most_per_query": most_per_query}
    said = Registration(
        place, named, known.table["unit"], known.table["adjacency"], max_groups, max_rows_per_group, max_rows, bounds,
        types, about, least_price, keys, key_delta, prices, version, group_size, most_rows, people,
        dict(known.table["columns"]),
    )  # fmt: skip
    read = said.opened()
    dataset = said.dataset(read, name, known.population, ledger, ask=False)
    if is_request:
        _request(Form("dataset.update", ledger, as_json, dry_run), dataset, said.least, reason, update=True)
        return
    if dry_run:
        facts = datasets.rehearse(dataset, None, "", ledger, update=True)
        with opened(ledger) as book:
            dataset = datasets.updated(dataset, book)
        dataset = dataclasses.replace(dataset, least_price=_least(said.least) or known.least_price)
    else:
        dataset, facts = datasets.open_and_register(dataset, None, said.least, "", ledger, update=True)
    asked = {"ledger": place_of(ledger), "name": name, "source": _shown(read, place)}
    changes = datasets.changes(known, dataset)
    _deliver("dataset.update", asked, dataset, facts, dry_run=dry_run, update=True, as_json=as_json, changes=changes)


def _shown(table: Table, source: str) -> Any:
    """The place of a source; that of a server without its password."""
    return source if table.source.paths else table.source.place


def _deliver(
    command: str,
    asked: dict[str, Any],
    dataset: datasets.Dataset,
    account: dict[str, Any],
    *,
    dry_run: bool,
    update: bool,
    as_json: bool,
    changes: Mapping[str, tuple[Any, Any]] | None = None,
) -> None:
    result = {"name": dataset.name, **_facts(dataset), "account": account, "dry_run": dry_run}
    if changes is not None:
        result["changes"] = {name: list(ends) for name, ends in changes.items()}

    def say(out: Console) -> None:
        _say(out, dataset, account, dry_run=dry_run, update=update)
        for name, (before, after) in (changes or {}).items():
            out.print(f"  changed  {name}: {_told(before)} -> {_told(after)}", soft_wrap=True, markup=False)
        if changes is not None and not changes:
            out.print("  changed  nothing that is registered", markup=False)

    deliver(Answer(command, asked, result, say), as_json=as_json)


def _limit(option: str, given: Repeated, adjacency: str) -> PrivacyLoss | None:
    return read_limit(option, ",".join(given), adjacency=adjacency) if given else None


def _least(loss: PrivacyLoss | None) -> Amount | None:
    if loss is None:
        return None
    limit = Budget.of(loss)
    return Amount(limit.filter, limit.limit0)


def _key_lists(keys: Repeated, table: Table, ledger: str | None) -> dict[str, list[Any]]:
    """The public groups of each column, from files that this ledger has not registered."""
    from tallystick.tables.keyset import read_keys

    works = PublicUse("a list of groups that everybody may know, or --key-delta 1e-8, which finds them in the data")
    listed = {}
    with opened_if_there(ledger) or nullcontext() as book:
        for column, path in pairs("keys", keys, "COLUMN=FILE").items():
            file = public_file(path, works, table.source, book)
            listed[column] = [value for (value,) in read_keys(file, [column], table.schema)]
    return listed


def _asking(
    table: Table, listed: Mapping[str, list[Any]], prices: Mapping[str, Repeated], **others: Any
) -> dict[str, Any]:
    """Return what is registered for statements in SQL."""
    from tallystick.publish.catalogue import registered

    named = {name: price(name, text) for name, text in prices.items()}
    return registered(
        table, keys=listed, per_query=named["per_query"], most_per_query=named["most_per_query"], **others
    )


def _decisions(given: Repeated, *, ask: bool) -> dict[str, str]:
    """Return the decisions that only a person can make, after one question if a person is at the terminal."""
    from tallystick.cards.contents import FIELDS, check_answers

    decisions: dict[str, str] = {}
    for line in given or ():  # commas belong to the text here
        name, equals, text = line.partition("=")
        if not equals or not text.strip():
            raise InvalidInput("about", line, f"FIELD=TEXT with FIELD one of {', '.join(FIELDS)}")
        check_answers({name.strip(): text.strip()}, option="--about")
        if decisions.setdefault(name.strip(), text.strip()) != text.strip():
            raise InvalidInput("about", f"{name.strip()} twice", "one text for each field")
    if ask and sys.stdin.isatty() and sys.stdout.isatty():
        for name, question in FIELDS.items():
            if name not in decisions:
                answer = typer.prompt(f"{question} (for the card; empty to leave out)", default="", show_default=False)
                said = {name: answer.strip()} if answer.strip() else {}
                check_answers(said, option="--about")
                decisions |= said
    return decisions


def _facts(dataset: datasets.Dataset) -> dict[str, Any]:
    least = dataset.least_price
    ends = {"retired": dataset.retired} if dataset.retired is not None else {}
    return {**dataset.to_data(), "least_price": None if least is None else least.to_dict(), **ends}


def _say(out: Console, dataset: datasets.Dataset, account: dict[str, Any], *, dry_run: bool, update: bool) -> None:
    table = dataset.table
    done = ("update", "Updated") if update else ("add", "Added")
    verb = f"Would {done[0]}" if dry_run else done[1]
    columns = ", ".join(f"{name} {kind}" for name, kind in table["columns"])
    lines = [
        f"{verb} {dataset.name} {'of' if update else 'to'} population {dataset.population}",
        f"  columns  {columns}",
        f"  person   {table['unit'] or 'each row'}{_caps(table)}",
        *(f"  bounds   {name} {datasets.between_words(low, high)}" for name, low, high in table["bounds"]),
        *([f"  cost     at least {dataset.least_price} for each query"] if dataset.least_price else []),
    ]
    if "left" in account:
        left, limit = _amount(account["left"]), _amount(account["limit"])
        added = f" ({WHAT_RHO_DOES})" if left.filter.kind == "zcdp" else ""
        lines.append(f"  left     {left.of_limit(limit)}{added}")
    for line in lines:
        out.print(line, soft_wrap=True, markup=False)


WHAT_RHO_DOES: Final = "costs in rho add up"
"""Meaning of rho, where a person sees it first."""


def _amount(data: Mapping[str, Any]) -> Amount:
    """Return an amount from its plain data."""
    return Amount(Filter.named(data["filter"]), data["a0"], data["a1"])


def _caps(table: Mapping[str, Any]) -> str:
    if table["unit"] is None:
        return ""
    capped = [f"{n} {word.format('s' * (n > 1))}" for name, word in _CAPS.items() if (n := table.get(name)) is not None]
    missing = [_OPTIONS[name] for name in datasets.missing_caps(table)]
    known = f": at most {', '.join(capped)}" if capped else ""
    return known + (f" (without {' and '.join(missing)} only totals of people can be queried)" if missing else "")


def _told(said: Any) -> str:
    if said is None:
        return "not set"
    if not isinstance(said, Mapping):
        return typed(said) if isinstance(said, float) else str(said)
    return ", ".join(
        f"{name} ({len(v)} groups)" if isinstance(v, list) else f"{name}={typed(v)}" for name, v in said.items()
    )


_NEIGHBOURS = {"add_remove": "one person added or removed", "replace": "one person's rows replaced"}
_CAPS = {"max_groups": "group{}", "max_rows": "row{} in each", "max_rows_in_all": "row{} in all"}
_OPTIONS = {"max_groups": "--max-groups", "max_rows": "--max-rows-per-group"}


app.command()(suggest)


@app.command("list")
def list_(ledger: Place = None, as_json: Json = False) -> None:
    """List the datasets of a ledger, with their populations."""
    registered: dict[str, datasets.Dataset] = {}
    book = opened_if_there(ledger)
    if book is not None:
        with book:
            registered = datasets.known(book)
    facts = {"datasets": [{"name": name, **_facts(dataset)} for name, dataset in registered.items()]}

    def say(out: Console) -> None:
        for name, dataset in registered.items():
            place = dataset.table["source"]["place"]
            end = "  retired" if dataset.retired is not None else ""
            out.print(f"{name}  population {dataset.population}  {place}{end}", soft_wrap=True, markup=False)
        if not registered:
            out.print("No datasets yet: tallystick dataset add FILE --population ... --unit ... --limit rho=0.5")

    deliver(Answer("dataset.list", {"ledger": place_of(ledger)}, facts, say), as_json=as_json)


@app.command()
def show(name: Name, ledger: Place = None, as_json: Json = False) -> None:
    """Show columns, limits and bounds of a dataset. It also shows decisions, and what is left of its budget."""
    with opened(ledger) as book:
        dataset = datasets.find(name, book)
        account = book.open(dataset.population)
        book.recover()  # a worker that was killed closes its data, too
        facts, failed = account.to_dict(), account.failures()
        left = f"  left     {account.remaining.of_limit(account.limit)}"
    result = {"name": name, **_facts(dataset), "account": facts, "closed_by": failed}

    def say(out: Console) -> None:
        table = dataset.table
        lines = [f"{name}  population {dataset.population}  {table['source']['place']}", left]
        if dataset.retired is not None:
            lines.append(f"  retired  no new queries: {dataset.retired}")
        if failed:
            lines.append(
                f"  closed   by the failure of ledger entry {', '.join(map(str, failed))}: see 'dataset clear'"
            )
        lines.append(f"  cost     at least {dataset.least_price} for each query")
        lines.append(f"  person   {table['unit'] or 'each row'}{_caps(table)}")
        lines.append(f"  against  {_NEIGHBOURS[table['adjacency']]}")
        lines += [f"  column   {column} {kind}" for column, kind in table["columns"]]
        lines += [f"  bounds   {column} {datasets.between_words(low, high)}" for column, low, high in table["bounds"]]
        asking = {word: said for word, said in dataset.asking.items() if word != datasets.BOUGHT}
        lines += [f"  SQL      {word} {_told(said)}" for word, said in asking.items()]
        if datasets.BOUGHT in dataset.asking:
            lines.append(f"  size     about {datasets.bought_words(dataset)}")
        lines += [f"  {field}: {text}" for field, text in dataset.about.items()]
        for line in lines:
            out.print(line, soft_wrap=True, markup=False)

    deliver(Answer("dataset.show", {"ledger": place_of(ledger), "name": name}, result, say), as_json=as_json)


def _population(name: str, book: Ledger) -> Account:
    """The population of a registered dataset."""
    return book.open(datasets.find(name, book).population)


@app.command()
def retire(
    name: Name,
    why: Why,
    is_request: AsRequest = False,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Close a dataset for new queries, for good. Paid answers stay."""
    if is_request:
        form = Form("dataset.retire", ledger, as_json, dry_run)
        request(form, lambda book: _population(name, book).retire(name, why=why), why=why)
        return
    with opened(ledger) as book:
        dataset = datasets.find(name, book)
        book.open(dataset.population).retire(name, why=why, dry_run=dry_run)
    facts = {"name": name, "population": dataset.population, "dry_run": dry_run}

    def say(out: Console) -> None:
        verb = "Would retire" if dry_run else "Retired"
        out.print(f"{verb} {name}. It takes no new queries; answers already paid for stay.", markup=False)
        out.print(f"Its data stays bound to population {dataset.population}.", markup=False)

    asked = {"ledger": place_of(ledger), "name": name, "why": why}
    deliver(Answer("dataset.retire", asked, facts, say), as_json=as_json)


@app.command()
def remove(
    name: Name,
    is_request: AsRequest = False,
    why: RequestWhy = None,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Undo a wrong registration that no charge has used."""
    reason = reason_of(is_request, why)
    if is_request:
        form = Form("dataset.remove", ledger, as_json, dry_run)
        request(form, lambda book: _population(name, book).remove(name), why=reason)
        return
    with opened(ledger) as book:
        dataset = datasets.find(name, book)
        book.open(dataset.population).remove(name, dry_run=dry_run)
    facts = {"name": name, "population": dataset.population, "dry_run": dry_run}

    def say(out: Console) -> None:
        verb = "Would remove" if dry_run else "Removed"
        out.print(f"{verb} the registration of {name}. No charge has used it.", markup=False)

    deliver(Answer("dataset.remove", {"ledger": place_of(ledger), "name": name}, facts, say), as_json=as_json)


def _failed_line(charges: Sequence[int], *, is_complete: bool) -> str:
    """Say which charges failed. Before the clear only the first one is shown."""
    listed = ", ".join(map(str, charges))
    if not is_complete:
        return f"The charge in ledger entry {listed} failed. The clear shows all that failed."
    if len(charges) == 1:
        return f"1 charge failed and has no answer: ledger entry {listed}."
    return f"{len(charges)} charges failed and have no answer: ledger entries {listed}."


@app.command()
def clear(
    name: Name,
    why: Why,
    end_running: Annotated[
        bool, typer.Option("--end-running", help="End releases that still run: paid, and without an answer.")
    ] = False,
    is_request: AsRequest = False,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Open a dataset and its population again after a failure. Read the operator's log first."""
    if is_request:
        if end_running:
            with opened(ledger) as book:
                _population(name, book).end_running(dry_run=dry_run)
        form = Form("dataset.clear", ledger, as_json, dry_run)
        request(form, lambda book: _population(name, book).clear(why=why), why=why)
        return
    with opened(ledger) as book:
        account = book.open(datasets.find(name, book).population)
        charges = account.failures() if dry_run else account.clear(why=why, end_running=end_running)
    facts = {"name": name, "population": account.name, "charges": charges, "dry_run": dry_run}

    def say(out: Console) -> None:
        if not charges:
            out.print(f"Nothing about population {account.name} is closed.", soft_wrap=True, markup=False)
            return
        verb = "Would open" if dry_run else "Opened"
        out.print(f"{verb} {name} and population {account.name}.", soft_wrap=True, markup=False)
        out.print(_failed_line(charges, is_complete=not dry_run), soft_wrap=True, markup=False)

    deliver(
        Answer("dataset.clear", {"ledger": place_of(ledger), "name": name, "why": why}, facts, say), as_json=as_json
    )
