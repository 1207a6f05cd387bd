"""Subqueries about each unit's own rows: joins on the unit, aggregates grouped by it, windows inside it, sets of rows.

All of these keep a relation unit-local (docs/theory/unit-local.md), so that caps, keys and noise hold for what they
make. A step that mixes the rows of several units is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlglot import exp

from tallystick.tables.expressions import Call, Column, Expression, col, lift, missing, when
from tallystick.tables.local import MOST_PAIRS, has_one_row, once_by
from tallystick.tables.schema import UNSUPPORTED
from tallystick.tables.sql.bounds import limits_of, no_bounds
from tallystick.tables.sql.expressions import RowReader
from tallystick.tables.sql.options import Options
from tallystick.tables.sql.ranges import range_of
from tallystick.tables.sql.relations import Relation, Seen, free_name
from tallystick.tables.sql.tree import children, spelled
from tallystick.tables.steps import EachRow
from tallystick.tables.table import Table
from tallystick.tables.unit_functions import MOST_COUNTED, OfUnit

ROWS_OF_A_UNIT: Final = 100
"""Rows of one unit that a total counts where no limits are registered."""

MOST_LISTED: Final = 1_000
COUNTS: Final = ("count", "count_distinct")
_PLACES: Final = (exp.RowNumber, exp.Rank, exp.DenseRank)


def unit_of(relation: Relation) -> str:
    """The unit's column; single rows do not have one."""
    unit = relation.table.unit
    if isinstance(unit, EachRow):
        raise relation.text.refused("a step for each unit", 0, "a table with a unit: here every row is a separate unit")
    return unit


def rows_of(table: Table) -> int:
    """Number of rows of one unit that the registered caps let count."""
    in_all = table.max_rows_in_all
    if table.max_groups is not None and table.max_rows is not None:
        in_all = min(table.max_groups * table.max_rows, in_all or 10_000)
    return ROWS_OF_A_UNIT if in_all is None else max(1, min(in_all, 10_000))


def check_population(left: Relation, right: Relation, node: exp.Expr) -> None:
    """Tables of two populations number different people."""
    if left.known.population != right.known.population:
        raise left.text.refused(
            "a join of two populations", node, "tables of one population",
            why=f"{left.known.population} and {right.known.population} number different people",
        )  # fmt: skip


# ---- aggregates and windows


@dataclass(frozen=True, slots=True)
class Made(RowReader):
    """Reads what stands around aggregates or windows that are columns already."""

    known: Mapping[exp.Expr, Expression]
    key: Callable[[exp.Expr], Expression | None]

    def _read(self, node: exp.Expr) -> Expression:
        if node in self.known:
            return self.known[node]
        found = self.key(node)
        return found if found is not None else RowReader._read(self, node)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a unit's rows, and what is public about its values; a ``flag`` is a condition, 1 or 0."""

    made: OfUnit
    values: tuple[Any, ...] | None = None
    limits: tuple[float, float] | None = None
    flag: bool = False

    def seen_as(self, name: str) -> Expression:
        """Expression that stands for it further out."""
        shown: Expression = col(name) == 1 if self.flag else col(name)
        return shown


def function_of(relation: Relation, node: exp.Expr, options: Options) -> tuple[Relation, Function]:
    """An aggregate of a unit's rows, and the relation with the column it is about.

    A value beyond its bounds counts as the nearest bound, before it is added up, averaged or compared: one rule for
    SUM, AVG, MIN and MAX, that of aggregates of everybody.
    """
    text, condition = relation.text, None
    if isinstance(node, exp.Filter):
        condition, node = relation.reader.condition(node.expression.this), node.this
    if isinstance(node, exp.CountIf):
        own = relation.reader.condition(node.this)
        node, condition = exp.Count(this=exp.Star()), own if condition is None else own & condition
    if isinstance(node, exp.Count):
        return _count_of(relation, node, condition)
    kinds: dict[type[exp.Expr], str] = {
        exp.Sum: "sum", exp.Avg: "mean", exp.Min: "min", exp.Max: "max", exp.LogicalOr: "max", exp.LogicalAnd: "min",
    }  # fmt: skip
    if type(node) not in kinds:
        raise text.refused(spelled(node), node, "COUNT, SUM, AVG, MIN, MAX, BOOL_OR or BOOL_AND of a unit's rows")
    made, kind = relation.reader.typed(node.this), kinds[type(node)]
    value = made[0]
    flag = isinstance(node, exp.LogicalOr | exp.LogicalAnd)
    if flag:
        value = when(value, 1, when(~value, 0))  # missing where it is neither
    limits = (0.0, 1.0) if flag else limits_of(relation, node, value, options)
    values = relation.list_of(value)
    if values is not None and limits is not None and not flag:
        low, high = _ends(limits, relation.reader.type_of(value, node))
        values = tuple(dict.fromkeys(min(max(each, low), high) for each in values))
    if limits is not None and not flag and kind != "mean":  # a mean clamps its values itself
        value = clamped(value, limits, relation.reader.type_of(value, node))
    if condition is not None:
        value = when(condition, value)
    relation, column = relation.derived(value, f"{node.key}_of")
    if kind in ("min", "max"):
        limits = None if limits is None or limits[0] >= limits[1] else limits
        return relation, Function(OfUnit(kind, column), values, limits, flag)
    if limits is None:
        raise no_bounds(relation, node)
    low, high = limits if limits[0] < limits[1] else (limits[0], limits[0] + 1)
    if kind == "sum":
        most = rows_of(relation.table)
        low, high = min(0.0, low * most), max(0.0, high * most)
    return relation, Function(OfUnit(kind, column, low, high))


def clamped(value: Expression, limits: tuple[float, float], kind: str) -> Expression:
    """The nearest value within the limits; missing stays missing, and whole numbers stay whole where limits are."""
    low, high = _ends(limits, kind)
    return when(value < low, low, when(value > high, high, value))


def _ends(limits: tuple[float, float], kind: str) -> tuple[float, float]:
    whole = kind == "integer" and all(end == int(end) and abs(end) < 2**63 for end in limits)
    low, high = (int(end) if whole else float(end) for end in limits)
    return low, high


def _count_of(relation: Relation, node: exp.Count, condition: Expression | None) -> tuple[Relation, Function]:
    inner, most = node.this, rows_of(relation.table)
    distinct = isinstance(inner, exp.Distinct)
    listed = children(inner, "expressions") if distinct else [inner]
    if len(listed) != 1:
        raise relation.text.refused("COUNT(DISTINCT ...) of several columns", node, "one column")
    if isinstance(listed[0], exp.Star | exp.Literal):
        value = None if condition is None else when(condition, 1)
    else:
        value = relation.reader.read(listed[0])
        value = value if condition is None else when(condition, value)
    values = tuple(range(most + 1)) if most <= MOST_LISTED else None
    # A condition may be about every count; only where counts are measured are they clamped, and a note says so.
    limits = (0.0, float(most))
    if value is None:
        return relation, Function(OfUnit("count", most=MOST_COUNTED), values, limits)
    relation, column = relation.derived(value, "count_of")
    made = OfUnit("count_distinct" if distinct else "count", column, most=MOST_COUNTED)
    return relation, Function(made, values, limits)


def grouped_by_unit(
    relation: Relation, select: exp.Select, keys: list[tuple[Expression, str]], options: Options
) -> Relation:
    """SELECT ... GROUP BY unit and other columns: one row for each unit and values of these."""
    unit, text, before = unit_of(relation), relation.text, relation
    by: list[str] = []
    for made, wish in keys:
        if not relation.is_unit(made):
            relation, column = relation.derived(made, wish)
            by.append(column)
    having = select.args.get("having")
    places = [*select.expressions, *([having] if having is not None else [])]
    functions: dict[str, Function] = {}
    known: dict[exp.Expr, Expression] = {}
    values = {name: listed for name, listed in relation.values.items() if name in by}
    for node in _outermost(places, (exp.AggFunc, exp.Filter)):
        if node in known:
            continue
        relation, function = function_of(relation, node, options)
        name = free_name(_wish(select, node), [unit, *by, *functions])
        functions[name] = function
        known[node] = function.seen_as(name)
    if not functions:
        functions[free_name("rows", [unit, *by])] = Function(OfUnit("count", most=rows_of(relation.table)))
    table = relation.table.per_unit_rows(by=by, **{name: each.made for name, each in functions.items()})
    table = table.bounds(**{name: each.limits for name, each in functions.items() if each.limits is not None})
    values |= {name: each.values for name, each in functions.items() if each.values is not None}
    if not by:  # every unit has one row now, so tighter caps lose nothing
        table = table.per_unit(max_groups=1, max_rows_per_group=1)
        relation = replace(relation, capped_by=())
    data = {str(made.to_data()): col(unit) if before.is_unit(made) else None for made, _ in keys}
    data |= dict(zip([key for key, value in data.items() if value is None], map(col, by), strict=True))

    def key_of(node: exp.Expr) -> Expression | None:
        of_rows = before.knows(node) and node.find(exp.Column) and not node.find(exp.AggFunc)
        found = data.get(str(before.reader.read(node).to_data())) if of_rows else None
        if found is None and isinstance(node, exp.Column):
            raise text.refused(f"column {node.name}", node, "the column in GROUP BY, or inside an aggregate")
        return found

    origins = {name: origin for name, origin in relation.origins.items() if name in by}
    counted = frozenset(name for name, each in functions.items() if each.made.kind in COUNTS)
    made_of = replace(relation, table=table, values=values, origins=origins, unit_also=frozenset(), counted=counted)
    reader = Made(text, table.schema, made_of.find, known, key_of)
    seen = tuple(Seen("", each.alias_or_name, reader.read(each.unalias())) for each in select.expressions)
    if having is not None:
        made_of = replace(made_of, table=table.filter(reader.condition(having.this)))
    return replace(made_of, seen=seen)


def with_windows(relation: Relation, select: exp.Select, options: Options) -> tuple[Relation, RowReader]:
    """The relation with a column for every window of a select list, and a reader that knows them."""
    known: dict[exp.Expr, Expression] = {}
    values = dict(relation.values)
    for node in _outermost(select.expressions, (exp.Window,)):
        if node in known or not isinstance(node, exp.Window):
            continue
        name = free_name(_wish(select, node), relation.schema.names)
        relation, function = _window(replace(relation, values=values), node, name, options)
        known[node] = function.seen_as(name)
        if function.values is not None:
            values[name] = function.values
        if function.made.kind in COUNTS:
            relation = replace(relation, counted=relation.counted | {name})
    relation = replace(relation, values=values)
    return relation, Made(relation.text, relation.schema, relation.find, known, lambda node: None)


def _window(relation: Relation, node: exp.Window, name: str, options: Options) -> tuple[Relation, Function]:
    text, unit = relation.text, unit_of(relation)
    parts = [relation.reader.read(each) for each in children(node, "partition_by")]
    if not any(relation.is_unit(part) for part in parts):
        raise text.refused(
            "a window without PARTITION BY the unit", node, f"PARTITION BY {unit}", why="it compares several people"
        )
    by: list[str] = []
    for part in parts:
        if not relation.is_unit(part):
            relation, column = relation.derived(part, "part")
            by.append(column)
    order: list[tuple[str, str]] = []
    for each in children(node.args["order"], "expressions") if node.args.get("order") is not None else ():
        if each.args.get("nulls_first"):
            raise text.refused("NULLS FIRST", each, "missing values last, as they are")
        relation, column = relation.derived(relation.reader.read(each.this), "order")
        order.append((column, "desc" if each.args.get("desc") else "asc"))
    inner, spec = node.this, node.args.get("spec")
    if isinstance(inner, exp.FirstValue | exp.LastValue):
        raise text.refused(spelled(inner), node, "ROW_NUMBER() OVER (PARTITION BY the unit ORDER BY ...) = 1 around it")
    ordered = isinstance(inner, (*_PLACES, exp.Lag, exp.Lead))
    if ordered and not order:
        raise text.refused(f"{spelled(inner)} without ORDER BY", node, f"{spelled(inner)} OVER (... ORDER BY a column)")
    running = spec is not None and (spec.args.get("kind"), spec.args.get("start"), spec.args.get("end")) == (
        "ROWS", "UNBOUNDED", "CURRENT ROW",
    )  # fmt: skip
    if (spec is not None and not running) or (order and not ordered and not running):
        raise text.refused(
            "this frame of a window", node, "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW, or no ORDER BY"
        )
    if isinstance(inner, _PLACES):
        function = Function(OfUnit(spelled(inner).lower()))
    elif isinstance(inner, exp.Lag | exp.Lead):
        relation, column = relation.derived(relation.reader.read(inner.this), "value")
        distance = inner.args.get("offset")
        if distance is not None and not str(distance.this).isdigit():
            raise text.refused(spelled(inner), inner, "LAG(column, 1)")
        function = Function(OfUnit(inner.key, column, most=1 if distance is None else int(distance.this)))
    else:
        relation, function = function_of(relation, inner, options)
    table = relation.table.window(by=by, order_by=order, **{name: function.made})
    if function.limits is not None:
        table = table.bounds(**{name: function.limits})
    return replace(relation, table=table), function


def _wish(select: exp.Select, node: exp.Expr) -> str:
    return next(
        (each.alias for each in select.expressions if each.alias and each.unalias() == node), f"{node.key}_value"
    )


def _outermost(places: list[exp.Expr], kinds: tuple[type[exp.Expr], ...]) -> list[exp.Expr]:
    """Nodes of some kinds that stand in no other of them, in the order of the text; subqueries are left alone."""
    found: list[exp.Expr] = []
    waiting = list(reversed(places))
    while waiting:
        one = waiting.pop()
        if isinstance(one, kinds):
            found.append(one)
        elif not isinstance(one, exp.Query | exp.Subquery):
            waiting += reversed(list(one.iter_expressions()))
    return found


# ---- joins


def joined(
    left: Relation, right: Relation, how: str, pairs: list[tuple[Expression, Expression]], alias: str
) -> tuple[Relation, dict[str, Expression], list[str]]:
    """Rows of one unit side by side, alike in ``pairs``; what the right side's columns are called now; the pairs.

    With ``full`` a pair is a separate column, of the side that has a row, and may be what either side can be.
    """
    unit_of(left)
    linked: list[str] = []
    either: dict[str, tuple[Expression, Expression]] = {}
    before = (left, right)
    for mine, yours in pairs:
        same = isinstance(mine, Column) and isinstance(yours, Column) and mine.name == yours.name
        if same and how != "full":
            assert isinstance(mine, Column)
            linked.append(mine.name)
            continue
        name = free_name("link", [*left.schema.names, *right.schema.names])
        left = replace(left, table=left.table.derive(**{name: mine}))
        right = replace(right, table=right.table.derive(**{name: yours}))
        linked.append(name)
        either[name] = (mine, yours)
    marks = [free_name(word, [*left.schema.names, *right.schema.names]) for word in ("here", "there")]
    if how == "full":
        left = replace(left, table=left.table.derive(**{marks[0]: lift(1)}))
    if how != "inner":
        right = replace(right, table=right.table.derive(**{marks[1]: lift(1)}))
    brought = [c for c, kind in right.schema.columns if c not in (right.table.unit, *linked) and kind != UNSUPPORTED]
    prefix = next(p for p in _prefixes(alias) if all(free_name(p + c, left.schema.names) == p + c for c in brought))
    # A table that is registered with one row of a unit is cut to it, whichever is named first.
    first = has_one_row(left.table) and not has_one_row(right.table)
    most = {"max_rows": 1, "other_rows": MOST_PAIRS} if first else {}
    table = left.table.join_on_unit(right.table, how=how, also=linked, prefix=prefix, **most)
    table = with_larger_caps(table, left.table, right.table)
    shared: dict[str, Expression] = {str(right.table.unit): col(str(left.table.unit)), **{c: col(c) for c in linked}}
    now: dict[str, Expression] = {**{c: col(prefix + c) for c in brought}, **shared}
    own: tuple[Seen, ...] = left.seen
    seen = tuple(replace(each, value=standing(each.value, now)) for each in right.seen if _there(each.value, now))
    if how != "inner":
        seen = _where_there(seen, col(f"{prefix}{marks[1]}"), shared)
    if how == "full":
        own = _where_there(own, col(marks[0]), shared)
    values = {prefix + c: listed for c, listed in right.values.items() if c in brought}
    if how == "full":
        table, values = _of_either(table, values, before, either)
    origins = {prefix + c: origin for c, origin in right.origins.items() if c in brought}
    relation = replace(
        left,
        table=table,
        seen=(*own, *seen),
        unit_also=_unit_of_either(own, seen, str(left.table.unit)) if how == "full" else left.unit_also,
        values={**left.values, **values},
        origins={**left.origins, **origins},
        capped_by=_both(left.capped_by, right.capped_by),
    )
    return relation.with_uses_of(right), now, linked


def _of_either(
    table: Table, values: dict[str, tuple[Any, ...]], sides: tuple[Relation, Relation],
    pairs: Mapping[str, tuple[Expression, Expression]],
) -> tuple[Table, dict[str, tuple[Any, ...]]]:  # fmt: skip
    """Public lists and ranges of columns that come from the side that has a row: those of both sides together."""
    for name, pair in pairs.items():
        lists = [side.list_of(made) for side, made in zip(sides, pair, strict=True)]
        listed = _listed(lists[0], lists[1])
        if listed is not None:
            values = {**values, name: listed}
        ranges = [_range(side, Seen("", name, made)) for side, made in zip(sides, pair, strict=True)]
        table = _bounded(table, [name], [_within(ranges[0], ranges[1])])
    return table, values


def _where_there(seen: tuple[Seen, ...], mark: Expression, shared: Mapping[str, Expression]) -> tuple[Seen, ...]:
    """Columns of a side where it has a row; elsewhere nothing, because its own columns are missing there anyway."""
    names = {each.name for each in shared.values() if isinstance(each, Column)}
    there = ~mark.is_missing()
    return tuple(
        each
        if isinstance(each.value, Column) and each.value.name not in names
        else replace(each, value=when(there, each.value))
        for each in seen
    )


def _unit_of_either(mine: tuple[Seen, ...], yours: tuple[Seen, ...], unit: str) -> frozenset[str]:
    """COALESCE of the two sides' units, either way round, is the unit."""

    def units(seen: tuple[Seen, ...]) -> list[Expression]:
        values = [each.value for each in seen if isinstance(each.value, Call) and each.value.name == "when"]
        return [each for each in values if each.arguments[1].to_data() == ["col", unit]]

    pairs = [(a, b) for a in units(mine) for b in units(yours)]
    return frozenset(str(one.fill_missing(two).to_data()) for pair in pairs for one, two in (pair, pair[::-1]))


def with_larger_caps(table: Table, left: Table, right: Table) -> Table:
    """Return the table with the larger of the caps of the two that it is made of: a public rule.

    No unit counts for more than it could in one of them, and one whose rows are multiplied counts with less weight.
    """
    pairs = {word: (left.limits[word], right.limits[word]) for word in left.limits}
    known = {word: [cap for cap in pair if cap is not None] for word, pair in pairs.items()}
    return table.per_unit(**{word: max(caps, default=None) for word, caps in known.items()})


def _prefixes(alias: str) -> Any:
    yield f"{alias}."
    number = 1
    while True:
        number += 1
        yield f"{alias}_{number}."


def standing(made: Expression, now: Mapping[str, Expression]) -> Expression:
    """An expression with its columns exchanged for what they are now."""
    if isinstance(made, Column):
        return now[made.name]
    if isinstance(made, Call):
        return Call(made.name, tuple(standing(each, now) for each in made.arguments))
    return made


def _there(made: Expression, now: Mapping[str, Expression]) -> bool:
    if isinstance(made, Call):
        return all(_there(each, now) for each in made.arguments)
    return not isinstance(made, Column) or made.name in now


def one_row_each(relation: Relation) -> bool:
    """True if a unit has at most one row, by the steps that made the relation or by its registered caps."""
    return once_by(relation.table) == ()


def only_units(left: Relation, right: Relation, *, negated: bool) -> Relation:
    """Rows of units that have a row on the right, or do not have one."""
    unit_of(left)
    keep = left.table.without_units_in if negated else left.table.with_units_in
    return replace(left, table=keep(right.table)).with_uses_of(right)


def only_alike(
    left: Relation, right: Relation, pairs: list[tuple[Expression, Expression]], *, negated: bool
) -> Relation:
    """Rows for which the same unit has a row on the right that is alike in ``pairs``; or does not."""
    names: list[str] = []
    for mine, yours in pairs:
        name = free_name("link", [*left.schema.names, *right.schema.names])
        left = replace(left, table=left.table.derive(**{name: mine}))
        right = replace(right, table=right.table.derive(**{name: yours}))
        names.append(name)
    right = replace(right, table=right.table.distinct(*names), seen=())
    both: list[tuple[Expression, Expression]] = [(col(name), col(name)) for name in names]
    mark = free_name("found", [*left.schema.names, *right.schema.names])
    right = replace(right, table=right.table.derive(**{mark: lift(1)}))
    relation, now, _ = joined(left, right, "left" if negated else "inner", both, "other")
    if negated:
        relation = replace(relation, table=relation.table.filter(now[mark].is_missing()))
    table = relation.table.per_unit(**left.table.limits)
    return replace(relation, table=table, seen=left.seen, capped_by=left.capped_by)


# ---- sets of rows


def projected(relation: Relation, names: list[str]) -> tuple[Relation, list[str]]:
    """The relation with a column for everything that is seen, and these columns' names."""
    columns = []
    for each, wish in zip(relation.seen, names, strict=True):
        relation, column = relation.derived(each.value, wish)
        columns.append(column)
    return relation, columns


def different(relation: Relation, node: exp.Expr) -> Relation:
    """SELECT DISTINCT with the unit among the columns."""
    unit = unit_of(relation)
    if not any(relation.is_unit(each.value) for each in relation.seen):
        raise relation.text.refused("DISTINCT without the unit", node, f"SELECT DISTINCT {unit}, ...")
    names, limits = [each.name for each in relation.seen], [_range(relation, each) for each in relation.seen]
    relation, columns = projected(relation, names)
    table = _different(relation.table, [column for column in columns if column != unit])
    table = _bounded(table, columns, limits)
    seen = tuple(Seen("", name, col(column)) for name, column in zip(names, columns, strict=True))
    return replace(relation, table=table, seen=seen)


def _different(table: Table, columns: list[str]) -> Table:
    """The different rows of the unit and some columns; of the unit alone, one row for each."""
    if columns:
        return table.distinct(*columns)
    one = table.per_unit_rows(present=OfUnit("count", most=1))
    return one.per_unit(max_groups=1, max_rows_per_group=1)


def combined(left: Relation, right: Relation, node: exp.SetOperation) -> Relation:
    """UNION [ALL], EXCEPT or INTERSECT of rows, the unit in the same place on both sides."""
    unit, text = unit_of(left), left.text
    check_population(left, right, node)
    if len(left.seen) != len(right.seen):
        raise text.wrong(node.key.upper(), node, "as many columns on both sides")
    for mine, yours in zip(left.seen, right.seen, strict=True):
        if left.is_unit(mine.value) != right.is_unit(yours.value):
            raise text.refused(f"{node.key.upper()} with the unit in different places", node, "the unit in one place")
    if not any(left.is_unit(each.value) for each in left.seen):
        raise text.refused(f"{node.key.upper()} without the unit", node, f"{unit} among the columns of both sides")
    names = [each.name for each in left.seen]
    lists = [_listed(left.list_of(a.value), right.list_of(b.value)) for a, b in zip(left.seen, right.seen, strict=True)]
    fresh = [free_name(name, [*left.schema.names, *right.schema.names]) for name in names]
    columns = [unit if left.is_unit(s.value) else name for s, name in zip(left.seen, fresh, strict=True)]
    tables = [_only(side, fresh) for side in (left, right)]
    if isinstance(node, exp.Union) and not node.args.get("distinct"):
        table = tables[0].union_all(_padded(tables[1], tables[0], text, node))
        table = with_larger_caps(table, *tables)
    else:
        kept = [column for column in columns if column != unit]
        first, second = (_different(each, kept) for each in tables)
        table = (
            _different(with_larger_caps(first.union_all(second), first, second), kept)
            if isinstance(node, exp.Union)
            else first.except_rows(second) if isinstance(node, exp.Except) else first.intersect_rows(second)
        )  # fmt: skip
    limits = [_within(_range(left, a), _range(right, b)) for a, b in zip(left.seen, right.seen, strict=True)]
    table = _bounded(table, columns, limits)
    seen = tuple(Seen("", name, col(column)) for name, column in zip(names, columns, strict=True))
    values = {c: listed for c, listed in zip(columns, lists, strict=True) if listed is not None and c != unit}
    capped_by = _both(left.capped_by, right.capped_by) if isinstance(node, exp.Union) else left.capped_by
    return replace(left, table=table, seen=seen, values=values, origins={}, capped_by=capped_by).with_uses_of(right)


def _only(side: Relation, names: list[str]) -> Table:
    """The side's table with its outputs as columns of these names; the unit keeps its own."""
    table = side.table
    for each, name in zip(side.seen, names, strict=True):
        if not side.is_unit(each.value):
            table = table.derive(**{name: each.value})
    return table


def _padded(table: Table, first: Table, text: Any, node: exp.Expr) -> Table:
    """The second table with every column that the first has besides; these are not shown, so they are empty."""
    for column, kind in first.schema.columns:
        if kind == UNSUPPORTED or column == first.unit:
            continue
        if column not in table.schema.names:
            table = table.derive(**{column: missing(kind)})
        elif table.schema.type_of(column) != kind:
            raise text.refused(f"UNION ALL of tables whose column {column} has two types", node, "UNION")
    return table


def _range(relation: Relation, seen: Seen) -> tuple[float, float] | None:
    """The public range of what is seen; none of the unit."""
    if relation.is_unit(seen.value):
        return None
    declared = {name: (low, high) for name, low, high in relation.table.declared}
    return range_of(seen.value, declared, relation.schema)


def _within(one: tuple[float, float] | None, two: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if one is None or two is None else (min(one[0], two[0]), max(one[1], two[1]))


def _bounded(table: Table, columns: list[str], limits: list[tuple[float, float] | None]) -> Table:
    known = {c: pair for c, pair in zip(columns, limits, strict=True) if pair is not None}
    return table.bounds(**{c: (low, high if low < high else low + 1) for c, (low, high) in known.items()})


def _listed(one: tuple[Any, ...] | None, two: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return None if one is None or two is None else _both(one, two)


def _both(one: tuple[Any, ...], two: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys((*one, *two)))
