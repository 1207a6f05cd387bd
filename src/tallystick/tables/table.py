"""A private table, its groups, the question asked of them and its plan: four types of data that make each other.

``table.group_by(...).agg(...).plan(...)`` goes from one to the next, and ``Plan.from_json`` makes them all again. Only
``Plan.release`` opens rows.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.errors import AdjacencyMismatch, InvalidInput, Refused, Remedy
from tallystick.ledger.pay import charged_delta
from tallystick.printing import html_text, is_visible, json_text
from tallystick.strict_json import read, same, written
from tallystick.tables import expressions, local, run
from tallystick.tables.aggregates import Count, Measure
from tallystick.tables.budget import PartNoise, errors, for_gaussian_account, lone_probability, priced, threshold
from tallystick.tables.denial import payable_examples, ways_to_groups
from tallystick.tables.dialects import DIALECTS
from tallystick.tables.each_unit import EachUnit
from tallystick.tables.expressions import Expression
from tallystick.tables.fixed_point import bounds
from tallystick.tables.implied import implied_keys, period, with_other
from tallystick.tables.keyset import GROUPABLE, PrivateKeys, PublicTable, private_keys, public_keys, public_table
from tallystick.tables.local import LocalStep
from tallystick.tables.measures import measure_from_data
from tallystick.tables.meeting import meeting
from tallystick.tables.parts import MOST_NUMBERS, UNITS, Caps, OfTable, Part
from tallystick.tables.program import text_of
from tallystick.tables.reporting.plan import GROUP_SIZES, cost_words, explained, facts, one_line, screen
from tallystick.tables.reporting.table import groups, line, page
from tallystick.tables.schema import UNSUPPORTED, Schema, all_different, column_name, new_name, said
from tallystick.tables.sources import JOINED, LISTED, Source, of_source, public_input, source_from_data, source_of
from tallystick.tables.steps import EACH_ROW, EachRow, Step, within_block

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.filters import Amount
    from tallystick.tables.release import Release

FORMAT = "tallystick/table/1"
MOST_GROUPS = 10_000
MOST_ROWS = 1_024
IN_ALL = "max_rows_in_all"
"""The name of the limit on rows in all in stored tables. There, ``max_rows`` is the limit in each group."""
LONGEST_TEXT = 1 << 29
"""A plan or table as text may hold five million public keys."""


MOST_COPIES = 100
"""Rows that all public joins of a table together may make of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(local.UnitSteps):
    """A table of rows about units. Each method returns a new table.

    Filters and derived columns see one row at a time. ``per_unit`` caps what one unit can contribute; without it
    nothing can be proved private.
    """

    source: Source
    name: str
    schema: Schema
    unit: str | EachRow
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    account: Account | None = field(default=None, compare=False, repr=False)
    stored: Schema | None = None
    steps: tuple[Step, ...] = ()
    max_groups: int | None = None
    max_rows: int | None = None
    """Rows of a unit in each group."""
    max_rows_in_all: int | None = None
    declared: tuple[tuple[str, float, float], ...] = ()
    periods: tuple[tuple[str, datetime.date, datetime.date], ...] = ()
    """First and last day of columns of dates, as declared: groups follow from them, and no row is changed."""

    def __post_init__(self) -> None:
        table_name(self.name)
        if not isinstance(self.unit, EachRow):
            self._check_unit(self.unit)

    def _check_unit(self, unit: Any) -> None:
        """The unit column is whole numbers or text, and stored: a float has no stable text."""
        if not isinstance(unit, str):
            wanted = "the name of the column that identifies the protected unit, or ts.each_row"
            raise InvalidInput("unit", unit, wanted)
        kind = self.base.type_of(unit)
        if kind not in ("integer", "text"):
            how = ". For a domain or an enum, ask a view that casts it to text" if kind == UNSUPPORTED else ""
            raise Refused(f"unit column {unit!r} has type {kind}; a unit is identified by integers or text{how}")

    def __repr__(self) -> str:
        return f"<Table {line(self)}>"

    def _repr_html_(self) -> str:
        return page(self)

    @property
    def base(self) -> Schema:
        """The columns of the stored table, before any step."""
        return self.stored or self.schema

    def filter(self, condition: Expression) -> Table:
        """Keep the rows where a condition on the row itself holds (missing counts as not)."""
        if not isinstance(condition, Expression):
            raise Refused(
                "a filter is a condition on the row, such as ts.col('year') == 2026; anything else is refused"
            )
        if (kind := condition.type_in(self.schema)) != "boolean":
            raise InvalidInput("filter", kind, "a condition, such as ts.col('year') == 2026")
        return replace(self, stored=self.base, steps=(*self.steps, Step("filter", expression=condition)))

    def derive(self, **columns: Expression) -> Table:
        """Add columns computed from the row itself."""
        table = self
        for name, expression in columns.items():
            made = expressions.lift(expression)
            schema = table.schema.with_column(name, made.type_in(table.schema))
            step = Step("derive", name=name, expression=made)
            table = replace(table, stored=table.base, schema=schema, steps=(*table.steps, step))
        return table

    def join(self, public: Any, *, on: str, how: str = "inner") -> Table:
        """Add the columns of a **public** table; one row may match several, the caps still hold.

        Private tables meet on their unit alone, ``join_on_unit``: otherwise a row of one could bring rows of another.
        """
        if isinstance(public, Table):
            raise Refused(
                "joins are with public tables only: a private table can link the rows of several units. "
                "Two private tables meet on their unit: join_on_unit(other), with_units_in(other)"
            )
        given = public_input(public, JOINED, self)
        right = given if isinstance(given, PublicTable) else public_table(given)
        if how not in ("inner", "left"):
            raise InvalidInput("how", how, "'inner' or 'left'")
        kinds = dict(right.columns)
        if on not in kinds or self.schema.type_of(on) != kinds[on] or kinds[on] not in GROUPABLE:
            raise InvalidInput(
                "on", on, f"a column that both tables have, with the same type, {' or '.join(GROUPABLE)}"
            )
        copies = right.most_matches(on)
        if isinstance(self.unit, EachRow) and copies > 1:
            raise Refused(
                f"where single rows are protected a row may match one row of a public table; {on!r} repeats in it. "
                "Give each value once, or a unit column, whose limits hold for what a join multiplies"
            )
        for step in self.steps:
            copies *= step.public.most_matches(step.name) if step.public else 1
        if copies > MOST_COPIES:
            raise Refused(
                f"the public joins of this table can make {copies} rows of one, at most {MOST_COPIES} are allowed: how "
                "long a release takes would tell whose rows are there"
            )
        schema = self.schema
        for name, kind in right.columns:
            schema = schema if name == on else schema.with_column(name, kind)
        step = Step("join", name=on, public=right, how=how)
        return replace(self, stored=self.base, schema=schema, steps=(*self.steps, step))

    def each_unit(self, *, by: Iterable[str] = (), values: Iterable[str] = ()) -> Table:
        """One row for each unit: its ``most rows in a group`` of ``by``, its ``groups``, and a value of each column.

        The value is that of one of its rows, chosen by the unit's keyed hash. A unit that is in the table has one row
        in this one, so ``per_unit(max_groups=1, max_rows_per_group=1)`` leaves nothing out.
        """
        return self._local(EachUnit(tuple(by), tuple(values)))

    # -- steps that see all rows of a unit, and no others (local.py)

    def _local(self, step: LocalStep) -> Table:
        if isinstance(self.unit, EachRow):
            raise Refused("where single rows are protected a unit has one row: name the column that says whose it is")
        if step.other is not None and not isinstance(step.other, Table):
            raise InvalidInput("other", type(step.other).__name__, "a private table of the same source")
        table, step = meeting(self, step)
        columns, limits = step.after(table)
        schema = Schema.of(columns)
        kept = {name: (low, high) for name, low, high in table.declared if name in schema.names} | limits
        declared = tuple((name, *pair) for name, pair in sorted(kept.items()))
        steps = (*table.steps, Step(step.kind, local=step))
        periods = tuple(each for each in table.periods if each[0] in schema.names)
        return replace(table, stored=table.base, schema=schema, steps=steps, declared=declared, periods=periods)

    def leaves(self) -> Iterator[Table]:
        """Every stored table that takes part, this one first, as often as it is named."""
        yield self
        for step in self.steps:
            if step.local is not None and step.local.other is not None:
                yield from step.local.other.leaves()

    def bounds(self, **limits: tuple[Any, Any]) -> Table:
        """Declare public bounds of columns once, for every measure that names none.

        Bounds of dates are a first and a last day: months and other parts between them are groups that follow.
        """
        kept = {name: (low, high) for name, low, high in self.declared}
        days = {name: (first, last) for name, first, last in self.periods}
        for name, pair in limits.items():
            if not isinstance(pair, tuple | list) or len(pair) != 2:  # a column of two rows is not a pair
                raise InvalidInput(f"bounds of {name}", pair, "a pair (lower, upper)")
            if self.schema.type_of(name) == "date":
                days[name] = period(name, *pair)
                continue
            self.schema.numeric(name, "bound", is_bounded=True)
            kept[name] = bounds(*pair)
        return replace(
            self,
            declared=tuple((name, *pair) for name, pair in sorted(kept.items())),
            periods=tuple((name, *ends) for name, ends in sorted(days.items())),
        )

    def per_unit(
        self,
        *,
        max_groups: int | None = None,
        max_rows_per_group: int | None = None,
        max_rows: int | None = None,
    ) -> Table:
        """Cap what one unit contributes: at most this many groups, in each as much as this many rows, and rows in all.

        If a unit has more rows in a group, each counts less, and all together as that many; one with more groups keeps
        those whose keyed hash is smallest. If ``max_rows`` is less than what that leaves, so many rows count: the same
        share of each group's, rounded up or down by the keyed hash. All of it depends on the unit's own rows alone.
        ``max_rows`` alone is enough: a unit with that many rows is in no more groups, and has no more rows in one.
        """
        if max_groups is not None:
            max_groups = check.count("max_groups", max_groups, least=1, most=MOST_GROUPS)
        if max_rows_per_group is not None:
            max_rows_per_group = check.count("max_rows_per_group", max_rows_per_group, least=1, most=MOST_ROWS)
        if max_rows is not None:
            max_rows = check.count("max_rows", max_rows, least=1, most=MOST_GROUPS * MOST_ROWS)
        return replace(self, max_groups=max_groups, max_rows=max_rows_per_group, max_rows_in_all=max_rows)

    @property
    def limits(self) -> dict[str, int | None]:
        """The caps as ``per_unit`` takes them."""
        return {
            "max_groups": self.max_groups,
            "max_rows_per_group": self.max_rows,
            "max_rows": self.max_rows_in_all,
        }

    @property
    def rows_in_a_group(self) -> int | None:
        """The number of rows of a unit that count in one group, at most; None without a cap that says so."""
        known = [cap for cap in (self.max_rows, self.max_rows_in_all) if cap is not None]
        return min(known, default=None)

    def as_groups(self, column: str) -> list[Remedy]:
        """The type under which a column of numbers makes groups, if the caller declares its type."""
        is_declared = self.source.castable and (column, "number") in self.base.columns
        return [Remedy("declare_type", column=column, type="integer")] if is_declared else []

    def group_by(
        self,
        *columns: str,
        keys: Iterable[Any] | PrivateKeys | None = None,
        other: Mapping[str, Any] | None = None,
    ) -> Grouped:
        """Group by columns, with public ``keys`` (all of them appear) or ``ts.private_keys(delta=...)``.

        Keys that follow from what is public need not be listed: truth values, whole numbers between bounds, months and
        other parts of dates, days, months or years between declared dates, cuts and choices among constants, up to
        1,000 of them together.

        Rows with another value, or without one, are in none of these groups. ``other={"ward": "other"}`` names a group
        of a column for them, in the type of the column; the column of the answer is then ``ward_or_other``.
        """
        for name in columns:
            kind = self.schema.type_of(column_name(name))
            if kind not in GROUPABLE:
                allowed = f"a column of type {', '.join(GROUPABLE)} ({name} is {said(kind)})"
                raise InvalidInput("group_by", name, allowed, remedies=self.as_groups(name))
        if len(set(columns)) != len(columns):
            raise InvalidInput("group_by", columns, "different columns")
        if not columns:
            if keys is not None:
                raise InvalidInput("keys", "keys", "no keys: without group_by columns there is one total")
            if other:
                raise InvalidInput("other", dict(other), "no other group: without group_by columns there is one total")
            return Grouped(self, (), None)
        if isinstance(keys, PrivateKeys):
            if other:
                raise InvalidInput("other", dict(other), "no other group where the data propose the groups")
            return Grouped(self, tuple(columns), private_keys(delta=keys.delta))
        known = self._public_groups(columns, keys)
        if known is None:
            raise Refused(
                "which groups appear can itself reveal someone",
                code="no_keys",
                remedies=ways_to_groups(self.account, 1e-8),
            )
        if other:
            return Grouped(*with_other(self, columns, known, other))
        return Grouped(self, tuple(columns), known)

    def _public_groups(self, columns: Sequence[str], keys: Iterable[Any] | None) -> PublicTable | None:
        """Return the listed groups, or those that follow from what is public; None if none do."""
        if keys is None:
            return implied_keys(self, columns)
        return public_keys(public_input(keys, LISTED, self), columns, self.schema)

    def agg(self, **measures: Measure) -> Query:
        """Aggregates of the whole table: the same as ``group_by().agg(...)``."""
        return self.group_by().agg(**measures)

    def to_json(self) -> str:
        """This table as text: source, schema, unit, caps, bounds and steps; no data and no password."""
        return json.dumps(self.to_data(), sort_keys=True)

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            **self.as_other(),
            "format": FORMAT,
            "source": self.source.to_data(),
            "adjacency": self.adjacency.value,
            "max_groups": self.max_groups,
            "max_rows": self.max_rows,
            "bounds": sorted([*map(list, self.declared), *map(_in_text, self.periods)]),
            # tables without this cap keep the form, and plans the hash, that they had before there was one
            **({} if self.max_rows_in_all is None else {IN_ALL: self.max_rows_in_all}),
        }

    def as_other(self) -> dict[str, Any]:
        """Facts of a step about its second table, whose source, neighbours and account are those of the first."""
        return {
            "name": self.name,
            "columns": [list(column) for column in self.base.columns],
            "unit": None if isinstance(self.unit, EachRow) else self.unit,
            "steps": [step.to_data() for step in self.steps],
        }

    @classmethod
    def from_json(cls, text: str, *, account: Account | None = None) -> Table:
        """The table that ``to_json`` wrote; its file is not opened."""
        with written("table", FORMAT):
            return cls.from_data(read(text, name="table", longest=LONGEST_TEXT), account=account)

    @classmethod
    def from_data(cls, data: dict[str, Any], *, account: Account | None = None) -> Table:
        """The table that ``to_data`` wrote, every step checked again."""
        with written("table", FORMAT):
            if data["format"] != FORMAT:
                raise InvalidInput("format", data["format"], FORMAT)
            source, adjacency = source_from_data(data["source"]), check.adjacency(data["adjacency"])
            table = _stepped(data, source, adjacency, account)
            table = table.per_unit(
                max_groups=data["max_groups"], max_rows_per_group=data["max_rows"], max_rows=data.get(IN_ALL)
            )
            return table.bounds(**{name: (low, high) for name, low, high in data["bounds"]})


def _in_text(period: tuple[str, datetime.date, datetime.date]) -> list[str]:
    """Return a column of dates with its first and last day, as JSON has them."""
    name, first, last = period
    return [name, first.isoformat(), last.isoformat()]


def table_name(name: Any) -> str:
    """A name that a table of a source can have."""
    if not isinstance(name, str) or not 0 < len(name) <= 200 or not is_visible(name):
        raise InvalidInput("table", name, "the name of a table of this source")
    return name


def _stepped(data: dict[str, Any], source: Source, adjacency: Adjacency, account: Account | None) -> Table:
    """The table that ``as_other`` wrote."""
    table = Table(
        source=source,
        name=data["name"],
        schema=Schema.of(tuple((name, kind) for name, kind in data["columns"])),
        unit=EACH_ROW if data["unit"] is None else data["unit"],
        adjacency=adjacency,
        account=account,
    )
    for step in data["steps"]:
        table = _again(table, step)
    return table


def _again(table: Table, step: dict[str, Any]) -> Table:
    if step["kind"] == "filter":
        return table.filter(expressions.from_data(step["expression"]))
    if step["kind"] == "derive":
        return table.derive(**{step["name"]: expressions.from_data(step["expression"])})
    if step["kind"] == "join":
        return table.join(PublicTable.from_data(step["public"]), on=step["name"], how=step["how"])
    if step["kind"] == "each_unit":
        return table.each_unit(by=step["by"], values=step["values"])
    if step["kind"] in local.KINDS:
        there = "other" in step
        other = _stepped(step["other"], table.source, table.adjacency, table.account) if there else None
        return table._local(local.from_data(step, other))
    raise InvalidInput("step", step["kind"], f"filter, derive, join, each_unit, {', '.join(local.KINDS)}")


@dataclass(frozen=True, slots=True)
class Grouped:
    """A table with its groups; ask it with ``agg``."""

    table: Table
    columns: tuple[str, ...]
    keys: PublicTable | PrivateKeys | None

    def agg(self, **measures: Measure) -> Query:
        """The aggregates of each group, by name."""
        return Query.of(self, measures)

    def __repr__(self) -> str:
        return f"<Grouped {groups(self)}; next: .agg(n=ts.count())>"

    def _repr_html_(self) -> str:
        return page(self.table, groups(self))


# A question, complete and checked, but not yet paid for: table, groups and measures.

CAPS_SHARE = 0.05
MOST_MEASURES = 100


@dataclass(frozen=True, slots=True, repr=False)
class Query:
    """A query. ``plan`` computes its cost; no data has been opened yet."""

    table: Table
    columns: tuple[str, ...]
    keys: PublicTable | PrivateKeys | None
    measures: tuple[tuple[str, Measure], ...]
    caps: Caps
    removed: tuple[OfTable, ...] = ()
    """Parts that report on the table, where a plan pays for them: what limits and bounds leave out."""

    @classmethod
    def of(cls, grouped: Grouped, measures: dict[str, Measure]) -> Query:
        """Check everything that can be checked without data."""
        table = grouped.table
        if not 1 <= len(measures) <= MOST_MEASURES:
            problem = f"{len(measures)} measures were named"
            raise InvalidInput("agg", len(measures), f"1 to {MOST_MEASURES} measures", problem=problem)
        declared = {name: (low, high) for name, low, high in table.declared}
        bound = []
        for name, measure in measures.items():
            new_name(name)
            if not isinstance(measure, Measure):
                raise InvalidInput(
                    f"agg({name})", type(measure).__name__, "a measure such as ts.count() or ts.mean(...)"
                )
            with of_source(table.source):
                bound.append((name, measure.bound(table.schema, declared)))
        query = cls(table, grouped.columns, grouped.keys, tuple(bound), _caps(grouped, [m for _, m in bound]))
        query = replace(query, measures=tuple((name, query._named(measure)) for name, measure in bound))
        query._check_size()
        return query

    def _named(self, measure: Measure) -> Measure:
        """Return the measure with a column that says whether limits per person can touch it."""
        return measure.under(is_limited=self.is_limited(measure)) if isinstance(measure, Count) else measure

    def is_limited(self, measure: Measure) -> bool:
        """True if limits per person can touch the column of a measure, by what is public alone."""
        groups, rows = self.can_leave_out
        return groups or (rows and measure.by_rows)

    def __repr__(self) -> str:
        return f"<Query {one_line(self)}; no cost yet: .plan(rho=...)>"

    def _check_size(self) -> None:
        fields = [field for name, measure in self.measures for field in measure.fields(name)]
        shown = [f"{field}{end}" for field in fields for end in ("", "_lower", "_upper")]
        if not all_different((*shown, *self.columns)):
            raise InvalidInput(
                "agg", fields[:10], "measures whose columns differ in name from each other and the groups"
            )
        numbers = self.width * (len(self.keys.rows) if isinstance(self.keys, PublicTable) else 1)
        if numbers > MOST_NUMBERS:
            raise InvalidInput(
                "agg", f"{numbers} noisy numbers", f"at most {MOST_NUMBERS}: fewer keys, measures or bins"
            )

    @property
    def parts(self) -> tuple[Part, ...]:
        """The different parts of all measures, and the number of units where it decides which groups appear."""
        needed = [UNITS] if isinstance(self.keys, PrivateKeys) else []
        return tuple(dict.fromkeys(needed + [part for _, measure in self.measures for part in measure.parts()]))

    @property
    def fields(self) -> dict[str, Measure]:
        """Columns of the answer, each with its measure."""
        return {field: measure for name, measure in self.measures for field in measure.fields(name)}

    @property
    def can_leave_out(self) -> tuple[bool, bool]:
        """True if the cap on groups, and that on rows, can leave anything out, by what is public alone."""
        if isinstance(self.table.unit, EachRow):
            return False, False
        few = isinstance(self.keys, PublicTable) and len(self.keys.rows) <= self.caps.max_groups
        rows_count = any(part != UNITS for _, measure in self.measures for part in measure.parts())
        return bool(self.columns) and not few, rows_count

    @property
    def width(self) -> int:
        """Noisy numbers per group."""
        return sum(part.width for part in self.parts)

    def plan(
        self,
        *,
        caps_share: float = CAPS_SHARE,
        caps_seen_to: int | None = None,
        caps_totals: bool = True,
        **budget: Any,
    ) -> Plan:
        """Plan at a cost: ``rho=`` (and ``delta=``), ``epsilon=`` and ``delta=``, ``epsilon=`` alone, or ``error=``.

        The budget is the total charged, the delta of private keys included. ``error=20`` asks for ±20 at
        ``confidence=`` (0.95) on the first measure, ``error={"n": 20}`` on that one. ``weights={"n": 2}`` overrides
        how the budget is split. A population in rho or mu refuses ``epsilon=`` alone, unless ``pure=True`` is said.

        ``caps_share`` of it pays for saying what the caps and bounds leave out: units over each cap, rows, values
        beyond each bound. Rows left out are counted up to ``caps_seen_to`` of each unit, by default as many as it may
        keep, at least 10; a larger limit costs more noise. 0 says nothing. ``caps_totals=False`` leaves out the totals.
        """
        caps = {"caps_share": caps_share, "caps_seen_to": caps_seen_to, "caps_totals": caps_totals}
        return make_plan(self, {**budget, **caps})

    def suggest(self, **budget: Any) -> tuple[Plan, ...]:
        """Three plans on the frontier of cost and error: a quarter of the budget, the budget, four times it."""
        name = next((word for word in ("rho", "epsilon") if budget.get(word) is not None), None)
        if name is None:
            raise InvalidInput("budget", sorted(budget), "rho= or epsilon=")
        asked = self.plan(**budget).budget[name]
        return tuple(self.plan(**{**budget, name: asked * times}) for times in (0.25, 1, 4))

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data."""
        keys: Any = None
        if isinstance(self.keys, PrivateKeys):
            keys = {"private": self.keys.delta}
        elif self.keys is not None:
            keys = {"public": self.keys.to_data()}
        return {
            "table": self.table.to_data(),
            "group_by": list(self.columns),
            "keys": keys,
            "measures": [[name, measure.to_data()] for name, measure in self.measures],
        }

    @classmethod
    def from_data(cls, data: dict[str, Any], **options: Any) -> Query:
        """The question that ``to_data`` wrote, checked again from the start."""
        table = Table.from_data(data["table"], **options)
        keys: Any = data["keys"]
        if keys is not None:
            given = "private" in keys
            keys = private_keys(delta=keys["private"]) if given else PublicTable.from_data(keys["public"])
        grouped = table.group_by(*data["group_by"], keys=keys)
        return grouped.agg(**{name: measure_from_data(measure) for name, measure in data["measures"]})

    def about(self, table: Table) -> Query:
        """Return the question about the same table in another place."""
        return replace(self, table=table)


def _caps(grouped: Grouped, measures: list[Measure]) -> Caps:
    table, in_all = grouped.table, grouped.table.max_rows_in_all
    if isinstance(table.unit, EachRow):
        return Caps(1, 1)
    only_units = all(part == UNITS for measure in measures for part in measure.parts())
    rows = 1 if only_units and table.max_rows is None else table.max_rows
    groups = 1 if not grouped.columns else table.max_groups
    if in_all is not None:  # it is a limit on groups, and on the rows in one, too
        groups = _smaller(groups, in_all, MOST_GROUPS)
        rows = _smaller(rows, in_all, MOST_ROWS)
    if isinstance(grouped.keys, PublicTable) and groups is not None:
        groups = min(groups, len(grouped.keys.rows))
    if rows is None or groups is None:
        missing = ["max_rows_per_group"] if groups is not None else ["max_groups", "max_rows_per_group"]
        remedies = [Remedy("declare_caps", caps=missing)]
        raise Refused("one unit could contribute without limit", code="no_caps", remedies=remedies)
    if only_units or in_all is None or groups * rows <= in_all:
        return Caps(groups, rows)
    return Caps(groups, rows, in_all)


def _smaller(cap: int | None, in_all: int, most: int) -> int | None:
    """The smaller of a cap and that on rows in all, which alone is one if it is not larger than caps may be."""
    if cap is None:
        return in_all if in_all <= most else None
    return min(cap, in_all)


# A plan: a question with its price and its error, frozen before any data is opened.

PLAN_FORMAT = "tallystick/plan/1"


@dataclass(frozen=True, slots=True)
class Plan:
    """A query with its bounds, its noise, its cost and its error.

    Plans with the same hash ask the same question at the same cost, on every engine.
    """

    query: Query
    budget: Mapping[str, Any]
    noises: tuple[PartNoise, ...]
    privacy: PrivacyLoss
    threshold: int | None
    account: Account | None = field(default=None, compare=False, repr=False)
    pure: bool = field(default=False, compare=False, repr=False)
    """Whether the caller said that an epsilon without a delta is meant as pure epsilon. It is not part of the hash."""
    _digests: dict[str, str] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Hash and question, by what could be changed of the plan: a release asks for them several times."""

    @property
    def hash(self) -> str:
        """SHA-256 over question, budget and noise; not over the place of the data."""
        key = repr(self.budget)
        if key not in self._digests:
            self._digests[key] = self._digest({"budget": dict(self.budget), "noise": self._noise_data()})
        return self._digests[key]

    @property
    def question(self) -> str:
        """Hash of the question alone: plans that differ in cost and noise have it in common."""
        if "" not in self._digests:
            self._digests[""] = self._digest({})
        return self._digests[""]

    def _digest(self, more: dict[str, Any]) -> str:
        query = self.query.to_data()
        query["table"] = {key: value for key, value in query["table"].items() if key != "source"}
        return hashlib.sha256(_canonical({"format": PLAN_FORMAT, "query": query, **more}).encode()).hexdigest()

    @property
    def salt(self) -> str:
        """The key of the hash that picks which groups of a unit count; public, and the same on every engine."""
        return self.hash[:32]

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures."""
        return tuple(name for name, _ in self.query.measures)

    @property
    def delta(self) -> float | None:
        """The delta this plan spends: that of the budget, or of private keys."""
        if self.budget.get("delta"):
            return float(self.budget["delta"])
        return self.query.keys.delta if isinstance(self.query.keys, PrivateKeys) else None

    @property
    def lone_probability(self) -> float:
        """The chance that some group of one unit alone is shown: at most the delta of private keys."""
        return 0.0 if self.threshold is None else lone_probability(self.query, self.noises, self.threshold)

    def error(self, *, confidence: float = 0.95, group_size: float = 1000.0) -> dict[str, float]:
        """Half-width of the privacy noise of each measure, before any data is read.

        Exact for counts, sums and histograms. Means, variances and quantiles depend on how many rows a group has:
        ``group_size`` is what is assumed.
        """
        size = check.positive("group_size", group_size)
        return errors(self.query, self.noises, check.inside("confidence", confidence), size)

    def error_by_size(
        self, sizes: Iterable[float] = GROUP_SIZES, *, confidence: float = 0.95
    ) -> dict[str, dict[float, float]]:
        """``error`` for each size of a group in rows, of the measures whose error depends on it.

        >>> import pyarrow, tallystick as ts
        >>> visits = ts.Private(pyarrow.table({"who": [1], "age": [40.0]})).table(unit="who")
        >>> plan = visits.per_unit(max_rows_per_group=1).agg(n=ts.count(), age=ts.mean("age", 0, 100)).plan(rho=0.1)
        >>> {name: list(by_size) for name, by_size in plan.error_by_size([50, 500]).items()}
        {'age': [50, 500]}
        """
        needed = [name for name, measure in self.query.measures if measure.error_needs_size]
        found = {size: self.error(confidence=confidence, group_size=size) for size in sizes} if needed else {}
        return {name: {size: halves[name] for size, halves in found.items()} for name in needed}

    def explain(self) -> str:
        """Stages, sensitivities, noise and shares, in words."""
        return explained(self)

    def facts(self) -> dict[str, Any]:
        """Everything a privacy card says about this plan, as plain data."""
        return facts(self)

    def sql(self, *, dialect: str = "duckdb") -> str:
        """The SQL it runs: 'duckdb', 'spark' or 'postgres'."""
        if dialect not in DIALECTS:
            raise InvalidInput("dialect", dialect, ", ".join(DIALECTS))
        return text_of(self.query, DIALECTS[dialect], self.salt)

    def on(self, source: Any) -> Plan:
        """Return the plan, with its hash, with the table in another place."""
        return replace(self, query=self.query.about(replace(self.query.table, source=source_of(source))))

    def with_account(self, account: Account) -> Plan:
        """Return the plan, paid by this account."""
        if account.adjacency != str(self.query.table.adjacency.value):
            raise AdjacencyMismatch(account.adjacency, self.query.table.adjacency.value)
        return replace(make_plan(self.query, self.budget, account=account), account=account, pure=self.pure)

    def reprice(self, budget: Mapping[str, Any], account: Account | None = None, query: Query | None = None) -> Plan:
        """Return the plan with these words of its cost changed, of the same question or of another one."""
        return make_plan(query or self.query, {**self.budget, **budget}, account=account)

    def price(self, account: Account) -> Amount:
        """Return what this account would be charged."""
        return account.price(self.privacy, delta=charged_delta(account, self.delta))

    def release(
        self,
        *,
        why: str,
        key: str | None = None,
        progress: Callable[[str], None] | None = None,
        dataset: str | None = None,
    ) -> Release:
        """Reserve, start, compute, add noise, store the answer in the ledger, and return it.

        The same ``key`` again returns the stored answer, byte for byte, and charges nothing; asked of other data it is
        refused. Without a key every call is a new release, with new noise and a new charge: where the record
        has an answer to the same question, ``ts.errors.ChargedAgain`` warns before the charge and names its key. Data
        are known by their place, or by the name they are registered under, ``dataset``, wherever they
        are. What can be checked without data is checked before the charge; after that every failure keeps the charge.
        ``progress`` gets the name of each stage as it begins; names and number of stages are public. An error of it
        becomes the warning ``ProgressFailed`` after the answer is stored; it does not stop the release.
        """
        if self.account is None:
            raise Refused(
                "no account pays for this plan: ts.Private(source, account=...) or plan.with_account(account)"
            )
        return run.release(self, self.account, why=why, key=key, progress=progress, dataset=dataset)

    def to_json(self) -> str:
        """The plan as text. It holds the public keys, no data and no password."""
        content: dict[str, Any] = {
            "format": PLAN_FORMAT,
            "query": self.query.to_data(),
            "budget": dict(self.budget),
            "noise": self._noise_data(),
            "hash": self.hash,
        }
        if self.pure:
            content["pure"] = True
        return json_text(json.dumps(content, indent=1, sort_keys=True))

    @classmethod
    def from_json(cls, text: str, *, account: Account | None = None, source: Any = None) -> Plan:
        """Plan that ``to_json`` wrote. Its cost is computed again, so an edited cost or noise is refused."""
        with written("plan", PLAN_FORMAT):
            content = read(text, name="plan", longest=LONGEST_TEXT)
            if content["format"] != PLAN_FORMAT:
                raise InvalidInput("format", content["format"], PLAN_FORMAT)
            query = Query.from_data(content["query"], account=account)
            stated = {"pure": True} if content.get("pure") is True else {}
            plan = make_plan(query, {**content["budget"], **stated}, account=account)
            unchanged = same(content, json.loads(plan.to_json()))
        if not unchanged:
            raise Refused("this plan was edited: its question and budget do not give what else it says")
        return plan if source is None else plan.on(source)

    def _noise_data(self) -> dict[str, Any]:
        return {
            "law": self.noises[0].law.name,
            "scales": [noise.law.scale for noise in self.noises],
            "threshold": self.threshold,
        }

    def __repr__(self) -> str:
        return f"<Plan {one_line(self.query)}; costs {cost_words(self)}>"

    def _repr_html_(self) -> str:
        lines = "\n".join(screen(self))
        return f"<pre>{html_text(lines)}</pre>"


def make_plan(query: Query, budget: Mapping[str, Any], *, account: Account | None = None) -> Plan:
    """Return the plan of a question. The unit's name is that of the account, if there is one."""
    try:
        return _make_plan(query, budget, account)
    except Refused as problem:
        payer = account or query.table.account
        if problem.code != "noise_too_small" or payer is None:
            raise

        def price(words: Mapping[str, Any]) -> Amount:
            return _make_plan(query, words, payer).price(payer)

        raise problem.with_remedies(payable_examples(payer, price, ("rho",))) from None


def _make_plan(query: Query, budget: Mapping[str, Any], account: Account | None) -> Plan:
    """Return the plan of a question, without remedies for a refusal."""
    payer = account or query.table.account
    query = query if payer is None else within_block(query, payer)
    unit = None if payer is None else payer.unit
    if isinstance(query.table.unit, EachRow) and unit not in (None, "row"):
        assert payer is not None
        raise Refused(
            f"account {payer.name!r} promises something to each {unit}, and this plan protects single rows, of which a "
            f"{unit} may have many; name the column that says whose row it is, or pay from an account with unit='row'"
        )
    protects = Protects(query.table.adjacency, unit)
    words = dict(budget)
    pure = _stated_pure(words)
    offer = priced(query, words, protects)
    query, privacy = offer.query, offer.privacy
    if payer is not None and payer.currency.kind == "gdp":
        privacy = for_gaussian_account(query, offer, protects)
    return Plan(query, offer.budget, offer.noises, privacy, threshold(query, offer.noises), payer, pure)


def _stated_pure(words: dict[str, Any]) -> bool:
    """Take ``pure`` out of the words of a cost: whether epsilon without a delta is said to be pure epsilon."""
    pure = words.pop("pure", None)
    if pure is None or pure is False:
        return False
    if pure is not True:
        raise InvalidInput("pure", pure, "True or False")
    if words.get("epsilon") is None or words.get("delta"):
        problem = "pure means that the delta is 0"
        raise InvalidInput("pure", True, "an epsilon, and no delta", problem=problem)
    return True


def _canonical(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
