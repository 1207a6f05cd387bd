"""Steps that look at all rows of one unit at once, and never at another's: joins on the unit, totals, windows.

A table stays unit-local: its rows are the union, over units u, of f(rows of u), each row with its u
(docs/theory/unit-local.md). So caps, keys and noise hold for it as for a stored table. Every step here is a function
of the unit's rows as a bag; rows without a unit are dropped first; orders are by all columns, so that ties are between
equal rows; and a side that a join could multiply is cut to a public number of rows of each unit before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from sqlglot import exp

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.tables.dialects import Tree, Words, case, compare, missing, name, place, whole
from tallystick.tables.keyset import GROUPABLE
from tallystick.tables.schema import UNSUPPORTED, Schema, all_different, column_name, new_name
from tallystick.tables.unit_functions import RANKS, Bounds, OfUnit, plain

if TYPE_CHECKING:
    from tallystick.tables.table import Table

MOST_LINKED: Final = 100
"""Rows of one unit on each side of a join, where nothing else is said."""

MOST_PAIRS: Final = MOST_LINKED**2
"""Pairs of rows of one unit that a join may make."""

MOST_MADE: Final = 100
ASCENDING, DESCENDING = "asc", "desc"


class Side(NamedTuple):
    """Rows on their way through the steps: their SQL, their columns by place, and which of these is the unit."""

    rows: exp.Query
    schema: Schema
    unit: str

    @property
    def kept(self) -> Schema:
        """The columns that have a name: without those that hold parts of an expression."""
        return Schema(tuple((c, kind) for c, kind in self.schema.columns if kind != UNSUPPORTED and c[0] != "\0"))

    def at(self, column: str, of: str = "_t") -> exp.Column:
        """A column of the rows called ``of``."""
        return name(place(self.schema, column), of)

    def chosen(self, of: str = "_t") -> exp.Select:
        """All rows with a unit, and no column yet."""
        there = exp.Not(this=missing(self.at(self.unit, of)))
        return exp.select().from_(self.rows.subquery(of, copy=False), copy=False).where(there, copy=False)

    def everything(self, of: str = "_t") -> exp.Select:
        """All rows with a unit, and the columns that are kept, by their places among these."""
        columns = [exp.alias_(self.at(c, of), place(self.kept, c), quoted=True) for c in self.kept.names]
        return self.chosen(of).select(*columns, copy=False)


@dataclass(frozen=True, slots=True)
class LocalStep(ABC):
    """One step. ``other`` is the second private table, where there is one."""

    kind: ClassVar[str]

    @property
    def other(self) -> Table | None:
        """The second table."""
        return None

    def with_other(self, change: Callable[[Table], Table]) -> LocalStep:
        """Return the step with the second table changed."""
        return self

    @abstractmethod
    def after(self, table: Table) -> tuple[tuple[tuple[str, str], ...], dict[str, Bounds]]:
        """The columns of what this step makes of a table, and new bounds; refuses what does not fit it."""

    @abstractmethod
    def rows(self, words: Words, left: Side, right: Side | None) -> tuple[exp.Query, Schema]:
        """The SQL, and the columns that it has by their places."""

    @abstractmethod
    def to_data(self) -> dict[str, Any]:
        """As plain JSON data, ``other`` left out."""


@dataclass(frozen=True, slots=True)
class TwoTables(LocalStep):
    """A step with a second table."""

    second: Table

    @property
    def other(self) -> Table | None:
        return self.second

    def with_other(self, change: Callable[[Table], Table]) -> LocalStep:
        return replace(self, second=change(self.second))

    def to_data(self) -> dict[str, Any]:
        return {}


# ---- units of another table


@dataclass(frozen=True, slots=True)
class WithUnits(TwoTables):
    """The rows of units that have a row in the other table."""

    kind: ClassVar[str] = "with_units"

    def after(self, table: Table) -> tuple[tuple[tuple[str, str], ...], dict[str, Bounds]]:
        return table.schema.columns, {}

    def rows(self, words: Words, left: Side, right: Side | None) -> tuple[exp.Query, Schema]:
        assert right is not None
        theirs = right.chosen("_s").select(exp.alias_(right.at(right.unit, "_s"), "_other", quoted=True)).distinct()
        same = exp.EQ(this=left.at(left.unit), expression=name("_other", "_o"))
        how = "inner" if self.kind == "with_units" else "left"
        joined = left.everything().join(theirs.subquery("_o"), on=same, join_type=how, copy=False)
        if how == "left":
            joined.where(missing(name("_other", "_o")), copy=False)
        return joined, left.kept


@dataclass(frozen=True, slots=True)
class WithoutUnits(WithUnits):
    """The rows of units that have no row in the other table."""

    kind: ClassVar[str] = "without_units"


# ---- joins


@dataclass(frozen=True, slots=True)
class JoinOnUnit(TwoTables):
    """Pairs of rows of one unit, ``also`` alike in other columns; of each unit ``most`` rows on the left meet
    ``most_other`` on the right.

    With ``full`` rows without a partner stay on both sides; unit and ``also`` are those of the side that is there.
    """

    kind: ClassVar[str] = "join_on_unit"
    how: str = "inner"
    also: tuple[str, ...] = ()
    prefix: str = ""
    most: int = MOST_LINKED
    most_other: int = MOST_LINKED

    def after(self, table: Table) -> tuple[tuple[tuple[str, str], ...], dict[str, Bounds]]:
        if self.how not in ("inner", "left", "full"):
            raise InvalidInput("how", self.how, "'inner', 'left' or 'full'")
        most, other_most = (check.count("max_rows", n, least=1, most=MOST_PAIRS) for n in (self.most, self.most_other))
        if most * other_most > MOST_PAIRS:
            wish = "numbers of rows for both tables whose product is at most 10,000, or none"
            raise InvalidInput("max_rows", (most, other_most), wish)
        if not isinstance(self.prefix, str):
            raise InvalidInput("prefix", self.prefix, "a text, put before the names of the other table's columns")
        other = self.second
        if len(set(self.also)) != len(self.also) or other.unit in self.also or table.unit in self.also:
            raise InvalidInput("also", self.also, "different columns besides the unit")
        for column in self.also:
            kind = table.schema.type_of(column_name(column))
            if kind not in GROUPABLE or other.schema.type_of(column) != kind:
                raise InvalidInput("also", column, f"a column of both, of one type, {' or '.join(GROUPABLE)}")
        schema = table.schema
        limits: dict[str, Bounds] = {}
        for column in self.brought():
            called = new_name(f"{self.prefix}{column}")
            if not all_different((*schema.names, called)):
                raise InvalidInput("column", called, "other names for joined columns, prefix='other_': both have it")
            schema = schema.with_column(called, other.schema.type_of(column))
            limits |= {f"{self.prefix}{c}": (low, high) for c, low, high in other.declared if c == column}
        return schema.columns, limits

    def _alike(self, unit: str, other: str) -> list[tuple[str, str]]:
        """Columns of the two sides that must be equal: the units first of all."""
        return [(unit, other), *((column, column) for column in self.also)]

    @property
    def cuts(self) -> bool:
        """True if a row of the left can have two partners, so that both sides are cut."""
        unique = once_by(self.second)
        return unique is None or not set(unique) <= set(self.also)

    def brought(self) -> list[str]:
        """The columns that the other table adds."""
        left_out = (self.second.unit, *self.also)
        return [c for c, kind in self.second.schema.columns if c not in left_out and kind != UNSUPPORTED]

    def rows(self, words: Words, left: Side, right: Side | None) -> tuple[exp.Query, Schema]:
        assert right is not None
        if self.cuts:
            left, right = cut(words, left, self.most), cut(words, right, self.most_other)
        joined, schema, partners = left.everything(), left.kept, right.kept
        if self.how == "full":
            left, joined = self._either(left, right)
        for column in self.brought():
            schema = schema.with_column(f"{self.prefix}{column}", partners.type_of(column))
            value = name(place(partners, column), "_o")
            joined.select(exp.alias_(value, place(schema, f"{self.prefix}{column}"), quoted=True), copy=False)
        same = [
            exp.EQ(this=left.at(one), expression=name(place(partners, two), "_o"))
            for one, two in self._alike(left.unit, right.unit)
        ]
        theirs = right.everything("_s").subquery("_o", copy=False)
        return joined.join(theirs, on=exp.and_(*same), join_type=self.how, copy=False), schema

    def _either(self, left: Side, right: Side) -> tuple[Side, exp.Select]:
        """Left side with all rows that have a unit, and its columns, the shared ones from the side that has them."""
        left = Side(left.everything(), left.kept, left.unit)
        shared = dict(self._alike(left.unit, right.unit))
        chosen = exp.select().from_(left.rows.subquery("_t", copy=False), copy=False)
        for column in left.kept.names:
            value: Tree = left.at(column)
            if column in shared:
                value = exp.Coalesce(this=value, expressions=[name(place(right.kept, shared[column]), "_o")])
            chosen.select(exp.alias_(value, place(left.kept, column), quoted=True), copy=False)
        return left, chosen

    def to_data(self) -> dict[str, Any]:
        made = {"most": self.most, "most_other": self.most_other}
        return {"how": self.how, "also": list(self.also), "prefix": self.prefix, **made}


def cut(words: Words, side: Side, most: int) -> Side:
    """At most ``most`` rows of each unit, at equal distances in the order of all columns: those that tie are equal.

    The first ones would be the earliest, and every later month would seem to have fewer. Of c rows the n-th stays where
    (n most + c/2) / c reaches the next whole number.
    """
    order = exp.Order(expressions=_order(words, side, ()))
    numbered = exp.Window(this=exp.RowNumber(), partition_by=[side.at(side.unit)], order=order)
    many = exp.Window(this=exp.Count(this=exp.Star()), partition_by=[side.at(side.unit)])
    rows = side.everything().select(exp.alias_(numbered, "_n", quoted=True), copy=False)
    rows = rows.select(exp.alias_(many, "_c", quoted=True), copy=False)
    columns = [name(place(side.kept, column), "_u") for column in side.kept.names]

    def reached(n: Tree) -> Tree:
        half = words.divide(name("_c", "_u"), whole(2))
        return words.divide(compare(exp.Add, compare(exp.Mul, n, whole(most)), half), name("_c", "_u"))

    before = compare(exp.Sub, name("_n", "_u"), whole(1))
    few = compare(exp.GT, reached(name("_n", "_u")), reached(before))
    kept = exp.select(*columns).from_(rows.subquery("_u", copy=False), copy=False).where(few, copy=False)
    return Side(kept, side.kept, side.unit)


def rows_that_meet(other: Table, max_rows: int | None, other_rows: int | None) -> tuple[int, int]:
    """Number of rows of a unit that a join takes from both tables."""
    if max_rows is not None and other_rows is None:
        return max_rows, max_rows
    if other_rows is None:
        other_rows = 1 if has_one_row(other) else MOST_LINKED
    return MOST_PAIRS // check.count("other_rows", other_rows, least=1) if max_rows is None else max_rows, other_rows


def has_one_row(table: Table) -> bool:
    """True if its caps say that one row of a unit counts."""
    return table.max_groups == table.max_rows == 1


def told_of_joins(table: Table) -> tuple[str, ...]:
    """Words for what joins leave out."""
    found: list[str] = []
    for step in table.steps:
        made = step.local
        if made is not None and made.other is not None:
            found += told_of_joins(made.other)
        if isinstance(made, JoinOnUnit) and made.cuts:
            found.append(
                f"in the join with {made.second.name}, at most {made.most:,} rows of one {table.unit} are joined with "
                f"at most {made.most_other:,} others. Of more rows, some at equal distances are taken; how many are "
                "left out is not measured"
            )
    return tuple(dict.fromkeys(found))


def _order(words: Words, side: Side, first: Sequence[tuple[str, str]], *, then_all: bool = True) -> list[Tree]:
    """By some columns, then by all others, missing values last: engines disagree on where these go."""
    named = {column for column, _ in first}
    ways = [*first, *((column, ASCENDING) for column in side.kept.names if then_all and column not in named)]
    found: list[Tree] = []
    for column, way in ways:
        value = plain(words, side.schema, column, "_t")
        absent = case([(missing(side.at(column)), whole(1))], whole(0))
        found += [exp.Ordered(this=absent), exp.Ordered(this=value, desc=way == DESCENDING)]
    return found


def once_by(table: Table) -> tuple[str, ...] | None:
    """Columns by which a table has at most one row of each unit, where that follows from its steps."""
    for step in reversed(table.steps):
        made = step.local
        if step.kind == "each_unit":
            return ()
        if isinstance(made, PerUnitRows):
            return made.by
        if isinstance(made, Distinct):
            return made.columns
        fans_out = step.public is not None and step.public.most_matches(step.name) > 1
        if fans_out or isinstance(made, JoinOnUnit | UnionAll):
            return None
    return None


# ---- totals and windows of a unit


@dataclass(frozen=True, slots=True)
class PerUnitRows(LocalStep):
    """One row for each unit, and each value of ``by`` that it has: functions of the rows there."""

    kind: ClassVar[str] = "per_unit_rows"
    by: tuple[str, ...]
    made: tuple[tuple[str, OfUnit], ...]

    def after(self, table: Table) -> tuple[tuple[tuple[str, str], ...], dict[str, Bounds]]:
        schema = Schema(((_unit(table), table.schema.type_of(_unit(table))), *_grouping(table, self.by)))
        for column, made in _named(self.made):
            if made.ordered:
                raise InvalidInput("per_unit_rows", made.kind, "window(..., order_by=[...]), which keeps the rows")
            schema = schema.with_column(column, made.type_in(table.schema))
        return schema.columns, _limits(table, self.made)

    def rows(self, words: Words, left: Side, right: Side | None) -> tuple[exp.Query, Schema]:
        keys = [left.unit, *self.by]
        schema = Schema(tuple((column, left.schema.type_of(column)) for column in keys))
        chosen = left.chosen().select(*(exp.alias_(left.at(c), place(schema, c), quoted=True) for c in keys))
        for column, made in self.made:
            schema = schema.with_column(column, made.type_in(left.schema))
            value = made.sql(words, left.schema, None)
            chosen.select(exp.alias_(value, place(schema, column), quoted=True), copy=False)
        return chosen.group_by(*(left.at(c) for c in keys)), schema

    def to_data(self) -> dict[str, Any]:
        return {"by": list(self.by), "made": [[column, made.to_data()] for column, made in self.made]}


@dataclass(frozen=True, slots=True)
class Window(LocalStep):
    """All rows with more columns: functions of the rows of the same unit and ``by``, in order of the earlier ones."""

    kind: ClassVar[str] = "window"
    by: tuple[str, ...]
    order: tuple[tuple[str, str], ...]
    made: tuple[tuple[str, OfUnit], ...]

    def after(self, table: Table) -> tuple[tuple[tuple[str, str], ...], dict[str, Bounds]]:
        _grouping(table, self.by)
        for column, way in self.order:
            if table.schema.type_of(column_name(column)) == UNSUPPORTED or way not in (ASCENDING, DESCENDING):
                raise InvalidInput("order_by", (column, way), "columns, or pairs such as ('day', 'desc')")
        schema = table.schema
        for column, made in _named(self.made):
            if made.ordered and not self.order:
                raise InvalidInput("order_by", "none", f"order_by=[...], without which {made.kind} means nothing")
            if made.kind == "count_distinct":
                raise InvalidInput("window", made.kind, "per_unit_rows(...): no engine counts values in a window")
            schema = schema.with_column(column, made.type_in(table.schema))
        return schema.columns, _limits(table, self.made)

    def rows(self, words: Words, left: Side, right: Side | None) -> tuple[exp.Query, Schema]:
        chosen, schema = left.everything(), left.kept
        over = exp.Window(partition_by=[left.at(c) for c in (left.unit, *self.by)])
        if self.order:
            over.set("order", exp.Order(expressions=_order(words, left, self.order)))
        for column, made in self.made:
            frame = over.copy()
            if made.kind in RANKS:  # those that tie have one rank, so no other column may tell them apart
                frame.set("order", exp.Order(expressions=_order(words, left, self.order, then_all=False)))
            elif self.order and not made.ordered:  # rows up to this one
                spec = {"kind": "ROWS", "start": "UNBOUNDED", "start_side": "PRECEDING", "end": "CURRENT ROW"}
                frame.set("spec", exp.WindowSpec(**spec))
            schema = schema.with_column(column, made.type_in(left.schema))
            value = made.sql(words, left.schema, frame)
            chosen.select(exp.alias_(value, place(schema, column), quoted=True), copy=False)
        return chosen, schema

    def to_data(self) -> dict[str, Any]:
        made = [[column, made.to_data()] for column, made in self.made]
        return {"by": list(self.by), "order": [list(pair) for pair in self.order], "made": made}


def _unit(table: Table) -> str:
    assert isinstance(table.unit, str)
    return table.unit


def _grouping(table: Table, by: tuple[str, ...]) -> list[tuple[str, str]]:
    """The columns ``by`` with their types: different, none of them the unit, none a double."""
    kinds = [(column, table.schema.type_of(column_name(column))) for column in by]
    if len(set(by)) != len(by) or table.unit in by or not all(kind in GROUPABLE for _, kind in kinds):
        raise InvalidInput("by", by, f"different columns besides the unit, of type {', '.join(GROUPABLE)}")
    return kinds


def _named(made: tuple[tuple[str, OfUnit], ...]) -> tuple[tuple[str, OfUnit], ...]:
    if not 1 <= len(made) <= MOST_MADE or not all(isinstance(each, OfUnit) for _, each in made):
        raise InvalidInput("columns", [column for column, _ in made], "1 to 100 columns such as n=ts.unit_count()")
    return made


def _limits(table: Table, made: tuple[tuple[str, OfUnit], ...]) -> dict[str, Bounds]:
    declared = {column: (low, high) for column, low, high in table.declared}
    found = ((column, each.bounds_in(declared)) for column, each in made)
    return {column: limits for column, limits in found if limits is not None}


# ---- sets of rows


@dataclass(frozen=True, slots=True)
class Distinct(LocalStep):
    """Different rows of the unit and some columns, all where none is named."""

    kind: ClassVar[str] = "distinct"
    columns: tuple[str, ...]

    def after(self, table: Table) -> tuple[tuple[tuple[str, str], ...], dict[str, Bounds]]:
        kinds = [(column, table.schema.type_of(column_name(column))) for column in (_unit(table), *self.columns)]
        if not all_different(column for column, _ in kinds) or UNSUPPORTED in dict(kinds).values():
            raise InvalidInput("distinct", self.columns, "different columns besides the unit")
        return tuple(kinds), {}

    def rows(self, words: Words, left: Side, right: Side | None) -> tuple[exp.Query, Schema]:
        schema = Schema(tuple((column, left.schema.type_of(column)) for column in (left.unit, *self.columns)))
        return _listed(words, left, left, schema).distinct(), schema

    def to_data(self) -> dict[str, Any]:
        return {"columns": list(self.columns)}


@dataclass(frozen=True, slots=True)
class UnionAll(TwoTables):
    """The rows of both tables, each with the columns of the first."""

    kind: ClassVar[str] = "union_all"

    def after(self, table: Table) -> tuple[tuple[tuple[str, str], ...], dict[str, Bounds]]:
        kept = {column: kind for column, kind in table.schema.columns if kind != UNSUPPORTED}
        for column, kind in kept.items():
            if column != table.unit and self.second.schema.type_of(column) != kind:
                raise InvalidInput("other", column, f"a table whose column {column!r} is {kind}, too")
        return tuple(kept.items()), {}

    def rows(self, words: Words, left: Side, right: Side | None) -> tuple[exp.Query, Schema]:
        assert right is not None
        schema = left.kept
        first, second = _listed(words, left, left, schema), _listed(words, left, right, schema)
        if self.kind == "union_all":
            return exp.union(first, second, distinct=False, copy=False), schema
        made = exp.except_ if self.kind == "except" else exp.intersect
        return made(first, second, distinct=True, copy=False), schema


@dataclass(frozen=True, slots=True)
class Except(UnionAll):
    """The different rows of the first table that are not in the second."""

    kind: ClassVar[str] = "except"


@dataclass(frozen=True, slots=True)
class Intersect(UnionAll):
    """The different rows that both tables have."""

    kind: ClassVar[str] = "intersect"


def _listed(words: Words, left: Side, side: Side, schema: Schema) -> exp.Select:
    """The columns of ``schema`` from a side whose unit may have another name, each value in its one form."""
    chosen = side.chosen()
    for column in schema.names:
        own = side.unit if column == left.unit else column
        chosen.select(exp.alias_(plain(words, side.schema, own, "_t"), place(schema, column), quoted=True), copy=False)
    return chosen


# ---- whether two tables may meet


def pairs(order_by: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    """Columns as pairs of a name and a way: ``"day"`` is ``("day", "asc")``.

    >>> pairs(["ward", ("day", "desc")])
    (('ward', 'asc'), ('day', 'desc'))
    """
    given = [order_by] if isinstance(order_by, str) else list(order_by)
    found = [(each, ASCENDING) if isinstance(each, str) else tuple(each) for each in given]
    if not all(len(pair) == 2 for pair in found):
        raise InvalidInput("order_by", given, "columns, or pairs such as ('day', 'desc')")
    return tuple((str(column), str(way)) for column, way in found)


def from_data(data: dict[str, Any], other: Table | None) -> LocalStep:
    """The step that ``to_data`` wrote; what it may be is checked where it is applied."""
    kind = data["kind"]
    if kind in _OF_TWO:
        if other is None:
            raise InvalidInput("step", kind, "a step with its second table")
        if kind == "join_on_unit":
            how, also, prefix, most = (data[key] for key in ("how", "also", "prefix", "most"))
            return JoinOnUnit(other, how, _texts(also), prefix, most, data["most_other"])
        return _OF_TWO[kind](other)
    if kind == "distinct":
        return Distinct(_texts(data["columns"]))
    made = tuple((new_name(column), OfUnit.from_data(each)) for column, each in data["made"])
    if kind == "per_unit_rows":
        return PerUnitRows(_texts(data["by"]), made)
    return Window(_texts(data["by"]), pairs(data["order"]), made)


_OF_TWO: Final[dict[str, type[TwoTables]]] = {
    step.kind: step for step in (WithUnits, WithoutUnits, JoinOnUnit, UnionAll, Except, Intersect)
}
KINDS: Final = (*_OF_TWO, "distinct", "per_unit_rows", "window")


def _texts(data: Any) -> tuple[str, ...]:
    if not isinstance(data, list) or not all(isinstance(each, str) for each in data):
        raise InvalidInput("step", type(data).__name__, "lists of column names")
    return tuple(data)


class UnitSteps:
    """The words for these steps; ``Table`` has them."""

    __slots__ = ()
    schema: Schema
    unit: Any

    def _local(self, step: LocalStep) -> Table:
        raise NotImplementedError

    def with_units_in(self, other: Table) -> Table:
        """Keep the rows of units that have a row in another private table: ``unit IN (SELECT unit ...)``."""
        return self._local(WithUnits(other))

    def without_units_in(self, other: Table) -> Table:
        """Keep the rows of units that have no row in another private table: NOT EXISTS."""
        return self._local(WithoutUnits(other))

    def join_on_unit(
        self,
        other: Table,
        *,
        how: str = "inner",
        also: Iterable[str] = (),
        prefix: str = "",
        max_rows: int | None = None,
        other_rows: int | None = None,
    ) -> Table:
        """Pair the rows of each unit in two private tables, ``also`` alike in other columns that both have.

        Of each unit at most ``max_rows`` rows of this table meet ``other_rows`` of the other, at equal distances in the
        order of all their columns; all of them where no row can have two partners. Their product is at most 10,000:
        without them each is 100, or 10,000 and 1 if the other table's caps are one group and one row. ``max_rows``
        alone is for both. The other table's columns come with ``prefix`` before their names.
        ``how`` is "inner", "left" (rows without a partner stay) or "full" (those of the other table, too).
        """
        most = rows_that_meet(other, max_rows, other_rows)
        return self._local(JoinOnUnit(other, how, tuple(also), prefix, *most))

    def per_unit_rows(self, *, by: Iterable[str] = (), **columns: OfUnit) -> Table:
        """One row for each unit, and each value of ``by`` that it has: ``n=ts.unit_count()``, ``ts.unit_sum(...)``."""
        return self._local(PerUnitRows(tuple(by), tuple(columns.items())))

    def window(self, *, by: Iterable[str] = (), order_by: Iterable[Any] = (), **columns: OfUnit) -> Table:
        """Add columns computed from the rows of the same unit (and ``by``): ``ts.row_number()``, ``ts.lag(...)``.

        With ``order_by``, columns or pairs such as ``("day", "desc")``, totals are of the rows up to this one. Rows
        that tie are put in the order of all their columns.
        """
        return self._local(Window(tuple(by), pairs(order_by), tuple(columns.items())))

    def distinct(self, *columns: str) -> Table:
        """The different rows of the unit and these columns, or of all columns."""
        chosen = columns or tuple(column for column, kind in self.schema.columns if kind != UNSUPPORTED)
        return self._local(Distinct(tuple(column for column in chosen if column != self.unit)))

    def union_all(self, other: Table) -> Table:
        """The rows of both private tables; the other has all columns of this one, its unit under any name."""
        return self._local(UnionAll(other))

    def except_rows(self, other: Table) -> Table:
        """The different rows that another private table, with the same columns, has not."""
        return self._local(Except(other))

    def intersect_rows(self, other: Table) -> Table:
        """The different rows that another private table, with the same columns, has too."""
        return self._local(Intersect(other))
