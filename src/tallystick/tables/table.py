"""A private table, the steps and the question asked of it, as data. Only ``Private`` opens a source, for the schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import AdjacencyMismatch, InvalidInput, Refused
from tallystick.strict_json import read, written
from tallystick.tables import expressions, local
from tallystick.tables.aggregates import Measure, measure_from_data
from tallystick.tables.each_unit import EachUnit
from tallystick.tables.expressions import Expression
from tallystick.tables.fixed_point import bounds
from tallystick.tables.keyset import GROUPABLE, PrivateKeys, PublicTable, private_keys, public_keys, public_table
from tallystick.tables.local import LocalStep
from tallystick.tables.meeting import meeting
from tallystick.tables.parts import Caps, OfTable, Part, Units
from tallystick.tables.reader import open_engine
from tallystick.tables.schema import UNSUPPORTED, Schema, all_different, column_name, new_name
from tallystick.tables.sources import JOINED, LISTED, Source, public_input, source_from_data, source_of

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.tables.plan import Plan

FORMAT = "tallystick/table/1"
MOST_GROUPS = 10_000
MOST_ROWS = 1_024
LONGEST_TEXT = 1 << 29
"""A plan or table as text may hold five million public keys."""


MOST_COPIES = 100
"""Rows that all public joins of a table together may make of one."""


@dataclass(frozen=True, slots=True)
class EachRow:
    """Row-level privacy: every row is its own unit."""


EACH_ROW = EachRow()


@dataclass(frozen=True, slots=True)
class Step:
    """One step between the stored table and the grouped rows: a filter, a derived column, a public join, or one that
    sees all rows of a unit (``local``).
    """

    kind: str
    name: str = ""
    expression: Expression | None = field(default=None, compare=False)
    public: PublicTable | None = None
    how: str = "inner"
    local: LocalStep | None = None

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data."""
        data: dict[str, Any] = {"kind": self.kind}
        if self.expression is not None:
            data["expression"] = self.expression.to_data()
        if self.name:
            data["name"] = self.name
        if self.public is not None:
            data |= {"public": self.public.to_data(), "how": self.how}
        if self.local is not None:
            data |= self.local.to_data()
            if self.local.other is not None:
                data["other"] = self.local.other.as_other()
        return data


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
    declared: tuple[tuple[str, float, float], ...] = ()

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
        from tallystick.tables.shown import line

        return f"<Table {line(self)}>"

    def _repr_html_(self) -> str:
        from tallystick.tables.shown import page

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
                "Give each value once, or a unit column, whose caps hold for what a join multiplies"
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
        table, step = meeting(self, step)
        columns, limits = step.after(table)
        schema = Schema.of(columns)
        kept = {name: (low, high) for name, low, high in table.declared if name in schema.names} | limits
        declared = tuple((name, *pair) for name, pair in sorted(kept.items()))
        steps = (*table.steps, Step(step.kind, local=step))
        return replace(table, stored=table.base, schema=schema, steps=steps, declared=declared)

    def leaves(self) -> Iterator[Table]:
        """Every stored table that takes part, this one first, as often as it is named."""
        yield self
        for step in self.steps:
            if step.local is not None and step.local.other is not None:
                yield from step.local.other.leaves()

    def bounds(self, **limits: tuple[float, float]) -> Table:
        """Declare public bounds of columns once, for every measure that names none."""
        kept = {name: (low, high) for name, low, high in self.declared}
        for name, pair in limits.items():
            self.schema.numeric(name)
            try:
                low, high = pair
            except (TypeError, ValueError):
                raise InvalidInput(f"bounds of {name}", pair, "a pair (lower, upper)") from None
            kept[name] = bounds(low, high)
        return replace(self, declared=tuple((name, *pair) for name, pair in sorted(kept.items())))

    def per_unit(self, *, max_groups: int | None = None, max_rows_per_group: int | None = None) -> Table:
        """Cap what one unit contributes: at most this many groups, and in each as much as this many rows.

        If a unit has more rows in a group, each counts less, and all together as that many; one with more groups keeps
        those whose keyed hash is smallest. Both depend on the unit's own rows alone.
        """
        groups = None if max_groups is None else check.count("max_groups", max_groups, least=1, most=MOST_GROUPS)
        rows = (
            None
            if max_rows_per_group is None
            else check.count("max_rows_per_group", max_rows_per_group, least=1, most=MOST_ROWS)
        )
        return replace(self, max_groups=groups, max_rows=rows)

    def group_by(self, *columns: str, keys: Iterable[Any] | PrivateKeys | None = None) -> Grouped:
        """Group by columns, with public ``keys`` (all of them appear) or ``ts.private_keys(delta=...)``."""
        for name in columns:
            kind = self.schema.type_of(column_name(name))
            if kind not in GROUPABLE:
                raise InvalidInput("group_by", name, f"a column of type {', '.join(GROUPABLE)} ({name} is {kind})")
        if len(set(columns)) != len(columns):
            raise InvalidInput("group_by", columns, "different columns")
        if not columns:
            if keys is not None:
                raise InvalidInput("keys", "keys", "no keys: without group_by columns there is one total")
            return Grouped(self, (), None)
        if keys is None:
            raise Refused(
                "which groups appear can itself reveal someone: give keys=[...] that are public knowledge, "
                "or keys=ts.private_keys(delta=1e-8)"
            )
        if isinstance(keys, PrivateKeys):
            return Grouped(self, tuple(columns), private_keys(delta=keys.delta))
        chosen = public_keys(public_input(keys, LISTED, self), columns, self.schema)
        return Grouped(self, tuple(columns), chosen)

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
            "bounds": [list(line) for line in self.declared],
        }

    def as_other(self) -> dict[str, Any]:
        """What a step says of its second table, whose source, neighbours and account are those of the first."""
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
            table = table.per_unit(max_groups=data["max_groups"], max_rows_per_group=data["max_rows"])
            return table.bounds(**{name: (low, high) for name, low, high in data["bounds"]})


def table_name(name: Any) -> str:
    """A name that a table of a source can have."""
    if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
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
        from tallystick.tables.shown import groups

        return f"<Grouped {groups(self)}; ask it with .agg(n=ts.count())>"

    def _repr_html_(self) -> str:
        from tallystick.tables.shown import groups, page

        return page(self.table, groups(self))


each_row: Final = EACH_ROW
"""``unit=ts.each_row``: protect single rows. Weaker than protecting the people the rows are about."""


class Private:
    """A source of private tables, and the account that pays for what is asked of them.

    >>> import pyarrow
    >>> visits = Private(pyarrow.table({"patient": [1, 1, 2], "ward": ["a", "b", "a"]})).table(unit="patient")
    >>> visits.schema.names
    ('patient', 'ward')
    """

    __slots__ = ("account", "adjacency", "source")

    def __init__(self, source: Any, *, account: Account | None = None, adjacency: Any = None) -> None:
        self.source = source_of(source)
        self.account = account
        own = None if account is None else Adjacency(account.adjacency)
        self.adjacency = check.adjacency(adjacency) if adjacency is not None else own or Adjacency.ADD_REMOVE
        if own is not None and own is not self.adjacency:
            raise AdjacencyMismatch(own, self.adjacency)

    def __repr__(self) -> str:
        from tallystick.tables.shown import place

        payer = "nobody pays yet" if self.account is None else f"paid by {self.account.name}"
        return f"<Private {place(self.source)}, {payer}; open a table of it with .table(unit=...)>"

    def _repr_html_(self) -> str:
        from tallystick.printing import html_text

        return f"<p>{html_text(repr(self)[1:-1])}</p>"

    def table(self, name: str | None = None, *, unit: str | EachRow, types: Mapping[str, str] | None = None) -> Table:
        """A table whose ``unit`` column says whom a row is about; reads its schema once, which is declared public.

        ``types`` declares column types where the source has none (CSV, objects of pandas: undeclared ones are text).
        """
        if name is None:
            if not self.source.one_table:
                raise InvalidInput("table", name, "the name of a table of this source")
            name = next(iter(self.source.handle)) if self.source.kind == "memory" else "table"
        with open_engine(self.source, rows=False) as engine:
            schema = engine.schema(table_name(name))
        return Table(
            source=self.source,
            name=name,
            schema=_declared(schema, types or {}, castable=self.source.member(name)[0].castable),
            unit=unit,
            adjacency=self.adjacency,
            account=self.account,
        )

    def sql(self, text: str, *tables: Table, **options: Any) -> Any:
        """Ask tables of this source in SQL; each is known by its name in the source.

        ``rho=``, ``epsilon=`` and ``delta=``, or ``error=`` say the price and ``why=`` the reason; ``keys=`` lists a
        column's public groups, ``key_delta=`` lets the data propose them, ``public=`` names public tables, and
        ``version=`` what you call these data: with it the same statement is answered once and then for nothing.

        >>> import pyarrow
        >>> source = Private({"visits": pyarrow.table({"patient": [1, 1, 2], "ward": ["a", "b", "a"]})})
        >>> visits = source.table("visits", unit="patient").per_unit(max_groups=2, max_rows_per_group=1)
        >>> wards = {"ward": ["a", "b"]}
        >>> print(source.sql("EXPLAIN SELECT ward, COUNT(*) FROM visits GROUP BY ward", visits, keys=wards, rho=0.1))
        price    zcdp(rho=0.1, delta=0)
        error    count +-6 in 95 of 100 cases
        ...
        """
        from tallystick.tables.sql.answer import asked_of

        return asked_of(text, tables, self.account, **options)


def _declared(schema: Schema, types: Mapping[str, str], *, castable: bool) -> Schema:
    for name, kind in types.items():
        own = schema.type_of(name)
        if own != kind and not (castable and own == "text"):
            raise InvalidInput(f"types[{name!r}]", kind, f"{own}, which is what the source says")
    return Schema.of(tuple((name, types.get(name, kind)) for name, kind in schema.columns))


# A question, complete and checked, but not yet paid for: table, groups and measures.

CAPS_SHARE = 0.05
MOST_MEASURES = 100
MOST_NUMBERS = 2_000_000
"""A release has at most this many noisy numbers; they are kept in the ledger."""

UNITS = Units()


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked. ``plan`` prices it; no data has been opened yet."""

    table: Table
    columns: tuple[str, ...]
    keys: PublicTable | PrivateKeys | None
    measures: tuple[tuple[str, Measure], ...]
    caps: Caps
    removed: tuple[OfTable, ...] = ()
    """What is also told of the table, where a plan pays for it: what caps and bounds leave out."""

    @classmethod
    def of(cls, grouped: Grouped, measures: dict[str, Measure]) -> Query:
        """Check everything that can be checked without data."""
        table = grouped.table
        if not 1 <= len(measures) <= MOST_MEASURES:
            raise InvalidInput("agg", f"{len(measures)} measures", f"1 to {MOST_MEASURES} named measures, n=ts.count()")
        declared = {name: (low, high) for name, low, high in table.declared}
        bound = []
        for name, measure in measures.items():
            new_name(name)
            if not isinstance(measure, Measure):
                raise InvalidInput(
                    f"agg({name})", type(measure).__name__, "a measure such as ts.count() or ts.mean(...)"
                )
            bound.append((name, measure.bound(table.schema, declared)))
        query = cls(table, grouped.columns, grouped.keys, tuple(bound), _caps(grouped, [m for _, m in bound]))
        query._check_size()
        return query

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
    def can_leave_out(self) -> tuple[bool, bool]:
        """Whether the cap on groups, and that on rows, can leave anything out, by what is public alone."""
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
        """Price it: ``rho=`` (and ``delta=``), ``epsilon=`` and ``delta=``, ``epsilon=`` alone, or ``error=``.

        The budget is the total charged, the delta of private keys included. ``error=20`` asks for +-20 at
        ``confidence=`` (0.95) on the first measure, ``error={"n": 20}`` on that one. ``weights={"n": 2}`` overrides
        how the budget is split. A population in rho or mu refuses ``epsilon=`` alone, unless ``pure=True`` is said.

        ``caps_share`` of it pays for saying what the caps and bounds leave out: units over each cap, rows, values
        beyond each bound. Rows left out are counted up to ``caps_seen_to`` of each unit, by default as many as it may
        keep, at least 10; a larger limit costs more noise. 0 says nothing. ``caps_totals=False`` leaves out the totals.
        """
        from tallystick.tables.plan import make_plan

        caps = {"caps_share": caps_share, "caps_seen_to": caps_seen_to, "caps_totals": caps_totals}
        return make_plan(self, {**budget, **caps})

    def suggest(self, **budget: Any) -> tuple[Plan, ...]:
        """Three plans on the frontier of price and error: a quarter of the budget, the budget, four times it."""
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
        """The same question about the same table in another place."""
        return replace(self, table=table)


def _caps(grouped: Grouped, measures: list[Measure]) -> Caps:
    table = grouped.table
    if isinstance(table.unit, EachRow):
        return Caps(1, 1)
    only_units = all(part == UNITS for measure in measures for part in measure.parts())
    rows = 1 if only_units and table.max_rows is None else table.max_rows
    groups = 1 if not grouped.columns else table.max_groups
    if isinstance(grouped.keys, PublicTable) and groups is not None:
        groups = min(groups, len(grouped.keys.rows))
    if rows is None or groups is None:
        wanted = "max_rows_per_group=" if groups is not None else "max_groups= and max_rows_per_group="
        raise Refused(f"one unit could contribute without limit; say .per_unit({wanted}) before group_by")
    return Caps(groups, rows)
