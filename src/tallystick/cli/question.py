"""Options for a question about a dataset and its cost, shared by ``publish plan`` and ``query``."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.errors import InvalidInput, Refused, TallystickError
from tallystick.publish.datasets import check_column
from tallystick.rounding import fraction_down, read_amount

if TYPE_CHECKING:
    from tallystick.publish.datasets import Dataset
    from tallystick.tables.aggregates import Measure
    from tallystick.tables.expressions import Expression
    from tallystick.tables.plan import Plan
    from tallystick.tables.table import Query, Table

Name = Annotated[str, typer.Argument(help="The name of the dataset.")]
Measures = Annotated[
    list[str],
    typer.Option("--measures", help='What to compute: "count,mean(age)", or SQL: "avg(age), count(*) filter (...)".'),
]
By = Annotated[list[str] | None, typer.Option("--by", metavar="COLUMN,...", help="The columns to group by.")]
Keys = Annotated[Path | None, typer.Option("--keys", help="A public CSV file that lists the groups.")]
PrivateKeys = Annotated[
    float | None, typer.Option("--private-keys", help="Find the groups in the data, at this delta; instead of --keys.")
]
Other = Annotated[
    list[str] | None,
    typer.Option(
        "--other", metavar="COLUMN=VALUE", help="Name of the group for all other values, and none, of a column."
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="CONDITION", help="Only such rows: year=2026, or \"year >= 2026 AND ward <> 'x'\"."
    ),
]
Derive = Annotated[
    list[str] | None,
    typer.Option("--derive", metavar="NAME=EXPR", help='A new column: "net = amount * (1 - discount)".'),
]
Join = Annotated[
    list[Path] | None,
    typer.Option("--join", metavar="FILE", help="A public CSV or Parquet file to join by the column that both have."),
]


def amount(option: str, help: str) -> Any:
    """An option that names a cost: a number, or a fraction that is rounded down to the ledger's unit."""

    def read(text: str) -> float:
        try:
            return read_amount(option, text)
        except InvalidInput as problem:
            raise typer.BadParameter(f"{text!r} is not {problem.allowed}") from None

    return typer.Option(option, metavar="FLOAT", parser=read, help=help)


Rho = Annotated[float | None, amount("--rho", "The cost, in zCDP: 0.01, or a fraction such as 1/24.")]
Epsilon = Annotated[float | None, amount("--epsilon", "The cost, as epsilon (with --delta, or --pure).")]
Delta = Annotated[float | None, amount("--delta", "The delta that goes with the cost.")]
Pure = Annotated[
    bool, typer.Option("--pure", help="Epsilon is meant at delta 0, which costs much more than with delta.")
]
Error = Annotated[float | None, typer.Option("--error", help="Instead of a cost: the 95 % error of the first measure.")]
CapsShare = Annotated[
    float | None,
    typer.Option(
        "--caps-share", help="Share of the cost that measures the effect of limits (0.05); 0 measures nothing."
    ),
]
CapsSeenTo = Annotated[
    int | None, typer.Option("--caps-seen-to", help="Measure the effect on at most this many rows of a person.")
]
Together = Annotated[
    bool, typer.Option("--together", help="Widen the intervals, so that those of a column hold for all groups at once.")
]
Key = Annotated[
    str | None,
    typer.Option("--key", help="Name of this release: the same key returns the same answer, without a charge."),
]
Out = Annotated[
    Path | None, typer.Option("--out", help="Write the table to this .csv, .json, .parquet or .arrow file.")
]
Payer = Annotated[
    str | None, typer.Option("--account", help="Who pays: the population (default), your allowance, or a block.")
]
Moved = Annotated[str | None, typer.Option("--source", help="Where the data is now, if it moved.")]
CardFile = Annotated[Path | None, typer.Option("--card", help="Write the privacy card to this .html file.")]


def shared_out(budget: Mapping[str, Any], times: int | None) -> dict[str, Any]:
    """Return the cost of one of several equal releases, rounded down so that all of them fit; an error stays."""
    from tallystick.accounting import check

    if times is None:
        return dict(budget)
    count = check.count("times", times, least=1, most=10_000)
    shares = {word: budget[word] for word in AMOUNTS if budget.get(word) is not None}
    return {**budget, **{word: fraction_down(word, Fraction(repr(whole)) / count) for word, whole in shares.items()}}


AMOUNTS = ("rho", "epsilon", "delta")


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options that say which table is asked for."""

    measures: list[str]
    by: list[str] | None
    keys: Path | None
    private_keys: float | None
    where: list[str] | None
    budget: dict[str, Any]
    derive: list[str] | None = None
    join: list[Path] | None = None
    other: list[str] | None = None

    def query(self, table: Table, lists: Mapping[str, Sequence[Any]] | None = None) -> Query:
        """The question, checked; nothing private is opened (a keys file is public).

        ``lists`` are registered lists of the values of columns.
        """
        from tallystick.accounting import check
        from tallystick.tables.implied import implied_keys
        from tallystick.tables.keyset import PrivateKeys as Found
        from tallystick.tables.keyset import read_keys
        from tallystick.tables.sources import LISTED, public_input

        for path in self.join or ():
            table = joined(table, path)
        for column in self.derive or ():
            table = derived(column, table)
        for condition in self.where or ():
            table = table.filter(where(condition, table))
        columns = listed(self.by)
        for name in columns:
            check_column("by", name, table)
        if self.keys is not None and self.private_keys is not None:
            raise InvalidInput("keys", str(self.keys), "either --keys or --private-keys")
        chosen: Any = None
        if self.keys is not None:
            chosen = read_keys(public_input(self.keys, LISTED, table), columns, table.schema)
        elif self.private_keys is not None:
            chosen = Found(check.inside("private_keys", self.private_keys))
        elif columns:
            chosen = implied_keys(table, columns, lists)
        table, measures = asked(", ".join(self.measures), table)
        return self._grouped(table, columns, chosen, measures)

    def _others(self, table: Table) -> dict[str, Any]:
        """The groups for all other values, by column."""
        named = pairs("other", self.other, "COLUMN=VALUE, such as ward=other")
        for column in named:
            check_column("other", column, table)
        return {column: typed("other", value, table.schema.type_of(column)) for column, value in named.items()}

    def _grouped(self, table: Table, columns: Sequence[str], keys: Any, measures: Mapping[str, Any]) -> Query:
        """The measures of each group; groups from the data are offered only if this cost can pay for them."""
        other = self._others(table)

        def grouped(keys: Any) -> Query:
            return table.group_by(*columns, keys=keys, other=other).agg(**measures)

        try:
            return grouped(keys)
        except Refused as problem:
            if problem.code != "no_keys" or table.account is None or not self.price:
                raise
            from tallystick.tables.denial import with_payable_keys

            raise with_payable_keys(problem, table.account, grouped, self.price) from None

    @property
    def price(self) -> dict[str, Any]:
        """The budget words that were given."""
        return {name: value for name, value in self.budget.items() if value is not None}

    def check_price(self, query: Query) -> None:
        """Check that exactly one cost was named; else offer costs that the account can pay."""
        from tallystick.tables.denial import example_prices

        named = [f"--{word}" for word in ("rho", "epsilon", "error") if self.budget.get(word) is not None]
        if len(named) > 1:
            raise InvalidInput("price", named, "one of them", problem=f"{' and '.join(named)} are two costs")
        if not named:
            remedies = example_prices(query, query.table.account)
            raise InvalidInput("price", None, "", code="no_price", remedies=remedies, problem="no cost is named")

    def plans(self, table: Table, dataset: Dataset | None = None, *, suggest: bool = False) -> tuple[Plan, ...]:
        """The question with its cost, or with ``suggest`` three of them: cheaper, as asked, more exact."""
        from tallystick.publish.catalogue import lists_of

        query = self.query(table, None if dataset is None else lists_of(dataset, table))
        self.check_price(query)
        return query.suggest(**self.price) if suggest else (query.plan(**self.price),)

    def to_data(self) -> dict[str, Any]:
        """As plain data, for --json."""
        keys = None if self.keys is None else str(self.keys)
        return {
            "measures": ", ".join(self.measures),
            "by": listed(self.by),
            "keys": keys,
            "private_keys": self.private_keys,
            "where": list(self.where or ()),
            "derive": list(self.derive or ()),
            "join": [str(path) for path in self.join or ()],
            "other": list(self.other or ()),
            **self.price,
        }


def asked(text: str, table: Table) -> tuple[Table, dict[str, Measure]]:
    """Measures in our words, or else as aggregates of SQL."""
    from tallystick.tables import measures
    from tallystick.tables.sql import pieces

    try:
        return table, measures.parse(text)
    except InvalidInput as own:
        try:
            return pieces.measures(text, table)
        except TallystickError as problem:
            is_unknown = own.code == "unknown_measure"
            is_call = is_unknown and re.search(rf"\b{own.value}\s*\(", text) is not None
            is_parsed = not isinstance(problem, InvalidInput) or problem.argument != "sql"
            if is_call and is_parsed:  # a function of SQL that has another problem
                raise problem from None
            raise own from None


def joined(table: Table, path: Path) -> Table:
    """The table with the columns of a public file, by the one column that both have."""
    from tallystick.tables.keyset import read_public
    from tallystick.tables.sources import JOINED, public_input

    public = read_public(public_input(path, JOINED, table))
    shared = [name for name, _ in public.columns if name in table.schema.names]
    if len(shared) != 1:
        raise InvalidInput("join", str(path), "a public CSV file that has exactly one column of the table")
    return table.join(public, on=shared[0])


def derived(text: str, table: Table) -> Table:
    """``net = amount * (1 - discount)`` as a new column."""
    from tallystick.tables.sql import pieces

    if "=" not in text:
        raise InvalidInput("derive", text, "NAME = EXPRESSION")
    with _of_option("derive", text, table):
        return pieces.derived(text, table)


@contextmanager
def _of_option(option: str, text: str, table: Table) -> Iterator[None]:
    """A piece of SQL that cannot be read is named by its option; a text column in it may be of another type."""
    from tallystick.tables.schema import declared_number

    try:
        yield
    except InvalidInput as problem:
        words = set(re.findall(r"\w+", text))
        texts = [name for name, kind in table.schema.columns if kind == "text" and name in words]
        remedies = list(problem.remedies)
        if texts and table.source.castable and problem.code == "types_differ" and re.search(r"\d", text):
            remedies.append(declared_number(texts[0]))
        said = f"--{option}: {problem.message}"
        raise InvalidInput(
            option, problem.value, problem.allowed, code=problem.code, remedies=remedies, problem=said
        ) from None


def where(text: str, table: Table) -> Expression:
    """A condition in SQL; ``ward=north`` without quotes is a condition too, its value read as the column's type."""
    from tallystick.tables.expressions import col
    from tallystick.tables.sql import pieces

    try:
        with _of_option("where", text, table):
            return pieces.condition(text, table)
    except InvalidInput:
        name, equals, value = text.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or name not in table.schema.names or any(sign in value for sign in "=<>()'"):
            raise
        return col(name) == typed("where", value, table.schema.type_of(name), text)  # type: ignore[no-any-return]


def typed(option: str, value: str, kind: str, given: str | None = None) -> Any:
    """A constant on the command line, read as a column's type."""
    readers: dict[str, Any] = {
        "integer": int,
        "number": float,
        "text": str,
        "boolean": {"true": True, "false": False}.__getitem__,
        "date": datetime.date.fromisoformat,
    }
    try:
        return readers[kind](value)
    except (KeyError, ValueError):
        allowed = f"a value of type {kind}, such as {EXAMPLES.get(kind, 'text')}"
        raise InvalidInput(option, given or value, allowed) from None


EXAMPLES = {"integer": "7", "number": "0.5", "boolean": "true or false", "date": "2026-02-28"}


def listed(given: list[str] | None) -> list[str]:
    """Repeated or comma-separated names.

    >>> listed(["ward, sex", "year"])
    ['ward', 'sex', 'year']
    """
    return [name for text in given or () for piece in text.split(",") if (name := piece.strip())]


def pairs(option: str, given: list[str] | None, shape: str) -> dict[str, str]:
    """Repeated or comma-separated ``name=text`` options.

    >>> pairs("bounds", ["age=0:110", "cost=0:9,days=0:60"], "COLUMN=LOW:HIGH")
    {'age': '0:110', 'cost': '0:9', 'days': '0:60'}
    """
    named: dict[str, str] = {}
    for line in given or ():
        for piece in line.split(","):
            name, equals, value = piece.partition("=")
            if not equals or not name.strip() or not value.strip():
                raise InvalidInput(option, line, shape)
            if named.setdefault(name.strip(), value.strip()) != value.strip():
                raise InvalidInput(option, f"{name.strip()} twice", "one value for each name")
    return named


def intervals(option: str, given: list[str] | None) -> dict[str, tuple[Any, Any]]:
    """Repeated or comma-separated bounds of columns: numbers, or days of columns of dates.

    >>> intervals("bounds", ["age=0:110", "cost=0.5:9"])
    {'age': (0, 110), 'cost': (0.5, 9)}
    """
    shape = "COLUMN=LOW:HIGH, such as age=0:110 or day=2026-01-01:2026-12-31"
    bounds = dict[str, tuple[Any, Any]]()
    for column, text in pairs(option, given, shape).items():
        low, colon, high = text.partition(":")
        try:
            bounds[column] = (_end(low), _end(high if colon else ""))
            is_rising = bounds[column][0] < bounds[column][1]
        except (ValueError, TypeError):  # not a number or a date, or one of each
            raise InvalidInput(option, f"{column}={text}", shape) from None
        if not is_rising:
            raise InvalidInput(option, f"{column}={text}", "a lower bound below the upper one")
    return bounds


def _end(text: str) -> Any:
    """A bound: a number, or a date such as 2026-02-28."""
    return datetime.date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text.strip()) else _number(text)


def price(option: str, given: list[str] | None) -> dict[str, float]:
    """``rho=0.01`` or ``epsilon=0.5,delta=1e-6`` as words of a cost.

    >>> price("per_query", ["epsilon=0.5,delta=1e-6"])
    {'epsilon': 0.5, 'delta': 1e-06}
    """
    try:
        return {word: read_amount(word, value) for word, value in pairs(option, given, "rho=0.01").items()}
    except InvalidInput:
        raise InvalidInput(option, ",".join(given or ()), "rho=0.01, or epsilon=0.5,delta=1e-6") from None


def _number(text: str) -> float:
    return int(text) if text.strip().lstrip("+-").isdigit() else float(text)
