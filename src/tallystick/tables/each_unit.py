"""One row for each unit: how many rows it has in a group, in how many groups it is, and one value of each column.

What a unit's row says is a function of that unit's rows and of public numbers alone, so a table with one unit more has
one row more and is otherwise the same. That is all that privacy needs: the caps of a plan hold for this table as for
any other, and with max_rows_per_group=1 they leave its rows as they are.

The value of a column is that of one of the unit's rows that have one, each as likely as any other: they are put in
order, and the keyed hash of the unit says which. No order in which the source keeps its rows matters, and all engines
choose the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import exp

from tallystick.errors import InvalidInput, Refused
from tallystick.tables.dialects import Tree, Words, case, compare, missing, name, place, whole
from tallystick.tables.keyset import GROUPABLE
from tallystick.tables.local import LocalStep, Side
from tallystick.tables.schema import Schema

if TYPE_CHECKING:
    from tallystick.tables.table import Table
    from tallystick.tables.unit_functions import Bounds

MOST_ROWS = "most rows in a group"
GROUPS = "groups"
"""The columns that say how much of the table a unit has; a column with such a name cannot be asked for."""

SALT = "each_unit"
_CELL, _FIRST, _DIGEST = "_cell", "_first", "_md5"


@dataclass(frozen=True, slots=True)
class EachUnit(LocalStep):
    """One row for each unit, with one value of each of ``values``; groups are those of ``by``."""

    kind: ClassVar[str] = "each_unit"
    by: tuple[str, ...]
    values: tuple[str, ...]

    def after(self, table: Table) -> tuple[tuple[tuple[str, str], ...], dict[str, Bounds]]:
        return _columns(table.schema, str(table.unit), self.by, self.values), {}

    def to_data(self) -> dict[str, Any]:
        return {"by": list(self.by), "values": list(self.values)}

    def rows(self, words: Words, left: Side, right: Side | None) -> tuple[exp.Query, Schema]:
        made = Schema(_columns(left.schema, left.unit, self.by, self.values))
        chosen = exp.select(exp.alias_(name("_unit", "_w"), place(made, left.unit), quoted=True))
        totals = {MOST_ROWS: exp.Max(this=name(_CELL, "_w")), GROUPS: exp.Sum(this=name(_FIRST, "_w"))}
        for column, total in totals.items():
            chosen.select(exp.alias_(words.cast(total, "integer"), place(made, column), quoted=True), copy=False)
        for i, column in enumerate(self.values):
            chosen.select(exp.alias_(_chosen(words, i), place(made, column), quoted=True), copy=False)
        inner = self._numbered(words, left).subquery("_w")
        return words.apart(chosen.from_(inner, copy=False).group_by(name("_unit", "_w"), copy=False)), made

    def _numbered(self, words: Words, left: Side) -> exp.Select:
        """Every row with the size of its cell, and its place among the unit's values of each column."""
        who, keys = left.at(left.unit), [left.at(column) for column in self.by]
        # a row without a group counts in none, as in every table
        lost = exp.or_(*(missing(key) for key in keys)) if keys else exp.false()
        size = _over(exp.Count(this=exp.Star()), [who, *keys])
        first = compare(exp.EQ, _over(exp.RowNumber(), [who, *keys], order=who), whole(1))
        columns: list[tuple[str, Tree]] = [
            ("_unit", who),
            (_CELL, case([(lost, exp.Null())], size)),
            (_FIRST, case([(lost.copy(), whole(0)), (first, whole(1))], whole(0))),
            (_DIGEST, words.digest(SALT, [(who, left.schema.type_of(left.unit))])),
        ]
        for i, column in enumerate(self.values):
            value = left.at(column)
            columns += [
                (f"_v{i}", value),
                (f"_n{i}", _over(exp.Count(this=value.copy()), [who])),
                (f"_o{i}", _over(exp.RowNumber(), [who], order=value)),
            ]
        chosen = left.chosen()
        return chosen.select(*(exp.alias_(tree, column, quoted=True) for column, tree in columns), copy=False)


def _columns(schema: Schema, unit: str, by: tuple[str, ...], values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
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
    return Schema.of((*own, *((column, schema.type_of(column)) for column in values))).columns


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
