"""One row for each unit: how many rows it has in a group, in how many groups it is, and one value of each column.

What a unit's row says is a function of that unit's rows and of public numbers alone, so a table with one unit more has
one row more and is otherwise the same. That is all that privacy needs: the caps of a plan hold for this table as for
any other, and with max_rows_per_group=1 they leave its rows as they are.

The value of a column is that of one of the unit's rows that have one, each as likely as any other: they are put in
order, and the keyed hash of the unit says which. No order in which the source keeps its rows matters, and all engines
choose the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tallystick.errors import InvalidInput, Refused
from tallystick.tables.dialects import Tree, Words, case, compare, missing, name, place, whole
from tallystick.tables.keyset import GROUPABLE
from tallystick.tables.schema import Schema

MOST_ROWS = "most rows in a group"
GROUPS = "groups"
"""The columns that say how much of the table a unit has; in a table that has such columns they are refused."""

_CELL, _FIRST, _DIGEST = "_cell", "_first", "_md5"


def schema_of(schema: Schema, unit: str, by: Sequence[str], values: Sequence[str]) -> Schema:
    """The columns of a table with one row per unit; what cannot be counted or chosen is refused."""
    for column in by:
        if schema.type_of(column) not in GROUPABLE:
            raise InvalidInput("by", column, f"a column of type {', '.join(GROUPABLE)}")
    for column in values:
        if schema.type_of(column) not in ("integer", "number"):
            raise InvalidInput("values", column, f"a numeric column ({column} is {schema.type_of(column)})")
    if unit in (*by, *values) or len(set(by)) != len(by):
        raise Refused("rows of one unit are counted by other columns than the unit, each named once")
    own = ((unit, schema.type_of(unit)), (MOST_ROWS, "integer"), (GROUPS, "integer"))
    return Schema.of((*own, *((column, schema.type_of(column)) for column in values)))


def one_row_each(
    rows: exp.Query, schema: Schema, made: Schema, by: Sequence[str], words: Words, salt: str
) -> exp.Select:
    """The table ``made`` from rows with the columns of ``schema``; its first column is the unit."""
    (unit, kind), *_ = made.columns
    values = made.names[3:]
    who = name(place(schema, unit), "_t")
    keys = [name(place(schema, column), "_t") for column in by]
    inner = exp.select(exp.alias_(who, "_unit", quoted=True)).from_(rows.subquery("_t", copy=False), copy=False)
    inner.where(exp.Not(this=missing(who)), copy=False)
    # a row without a group counts in none, as in every table
    lost = exp.or_(*(missing(key) for key in keys)) if keys else exp.false()
    size = _over(exp.Count(this=exp.Star()), [who, *keys])
    first = compare(exp.EQ, _over(exp.RowNumber(), [who, *keys], order=who), whole(1))
    digest = words.digest(f"{salt}:row", [(who, kind)])
    for column, tree in (
        (_CELL, case([(lost, exp.Null())], size)),
        (_FIRST, case([(lost.copy(), whole(0)), (first, whole(1))], whole(0))),
        (_DIGEST, digest),
    ):
        inner.select(exp.alias_(tree, column, quoted=True), copy=False)
    for i, column in enumerate(values):
        value = name(place(schema, column), "_t")
        inner.select(exp.alias_(value, f"_v{i}", quoted=True), copy=False)
        inner.select(exp.alias_(_over(exp.Count(this=value.copy()), [who]), f"_n{i}", quoted=True), copy=False)
        order = _over(exp.RowNumber(), [who], order=value)
        inner.select(exp.alias_(order, f"_o{i}", quoted=True), copy=False)
    chosen = exp.select(exp.alias_(name("_unit", "_w"), place(made, unit), quoted=True))
    totals = {MOST_ROWS: exp.Max(this=name(_CELL, "_w")), GROUPS: exp.Sum(this=name(_FIRST, "_w"))}
    for column, total in totals.items():
        chosen.select(exp.alias_(words.cast(total, "integer"), place(made, column), quoted=True), copy=False)
    for i, column in enumerate(values):
        chosen.select(exp.alias_(_chosen(words, i), place(made, column), quoted=True), copy=False)
    return words.apart(chosen.from_(inner.subquery("_w"), copy=False).group_by(name("_unit", "_w"), copy=False))


def _chosen(words: Words, i: int) -> Tree:
    """The value at the place that the unit's hash names among those it has; without any, missing."""
    there = compare(exp.GT, name(f"_n{i}", "_w"), whole(0))
    # the divisor is at least 1 whatever an engine computes first
    count = case([(there, name(f"_n{i}", "_w"))], whole(1))
    at = exp.Mod(this=words.digits(name(_DIGEST, "_w"), 0), expression=exp.Paren(this=count))
    here = compare(exp.EQ, name(f"_o{i}", "_w"), compare(exp.Add, at, whole(1)))
    return exp.Max(this=case([(exp.and_(there, here), name(f"_v{i}", "_w"))], exp.Null()))


def _over(function: Tree, partition: list[exp.Column], order: exp.Column | None = None) -> Tree:
    """A window over the rows of a unit, or of a unit in a group; values before those that are missing."""
    ordered = None if order is None else exp.Order(expressions=[exp.Ordered(this=order.copy(), nulls_first=False)])
    return exp.Window(this=function, partition_by=[column.copy() for column in partition], order=ordered)
