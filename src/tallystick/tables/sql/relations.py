"""Rows that a statement speaks about before it adds anything up: a private table seen through names, or public rows."""

from __future__ import annotations

import operator
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from tallystick.errors import InvalidInput
from tallystick.printing import one_of
from tallystick.tables.dialects import DIALECTS, place
from tallystick.tables.expressions import Call, Column, Expression, Literal, Missing, col, columns_of, when
from tallystick.tables.functions import row_value
from tallystick.tables.keyset import PublicTable
from tallystick.tables.schema import Schema, all_different
from tallystick.tables.sql.catalogue import Known
from tallystick.tables.sql.expressions import RowReader
from tallystick.tables.sql.outside import Outside
from tallystick.tables.sql.refusals import spelled
from tallystick.tables.sql.tree import Reading, Text
from tallystick.tables.steps import EachRow
from tallystick.tables.table import Table


@dataclass(frozen=True, slots=True)
class Seen:
    """A name that a statement may use, and what it stands for: a function of one row."""

    owner: str
    name: str
    value: Expression
    named_fully: bool = False
    """Meant only with its owner's name: the same column of the other side of USING stands for both."""


@dataclass(frozen=True, slots=True)
class Named:
    """Rows under names."""

    text: Text
    seen: tuple[Seen, ...]

    @property
    def schema(self) -> Schema:
        """The columns that expressions are about."""
        raise NotImplementedError

    @property
    def reader(self) -> RowReader:
        """Reads expressions about a row of these."""
        return RowReader(self.text, self.schema, self.find)

    def find(self, node: exp.Column) -> Expression:
        """Meaning of a column's name; one that is unknown or means several things is refused with its position."""
        found = self.matches(node)
        if not found:
            raise self.unknown(node)
        if len({str(seen.value.to_data()) for seen in found}) > 1:
            owners = " or ".join(f"{seen.owner}.{seen.name}" for seen in found)
            raise self.text.wrong(f"column {node.name}, of several tables,", node, owners)
        return found[0].value

    def unknown(self, node: exp.Column, others: Iterable[str] = ()) -> InvalidInput:
        """Return the error for a name that is not a column here; ``others`` are names that would do, too."""
        owners = list(dict.fromkeys(seen.owner for seen in self.seen if seen.owner))
        if node.table and node.table.casefold() not in [owner.casefold() for owner in owners]:
            return self.text.wrong(
                f"{node.table} before column {node.name}", node, f"one of: {one_of(node.table, owners)}, or nothing"
            )
        names = dict.fromkeys([*others, *(seen.name for seen in self.seen)])
        listed = one_of(node.name, names, most=40) or "none"
        text = f"; a text stands in single quotes, '{node.name}'" if node.this.args.get("quoted") else ""
        what = f"there is no column {node.name}"
        return self.text.wrong(what, node, f"one of: {listed[:400]}{text}", is_problem=True)

    def matches(self, node: exp.Column) -> list[Seen]:
        """Everything that a name could mean here."""
        owner, name = node.table.casefold(), node.name.casefold()
        found = [s for s in self.seen if s.name.casefold() == name and owner in ("", s.owner.casefold())]
        return found if owner else [s for s in found if not s.named_fully]

    def knows(self, node: exp.Expr) -> bool:
        """True if every column of an expression is one of these."""
        return all(self.matches(each) for each in node.find_all(exp.Column))

    def called(self, alias: str, columns: list[str]) -> tuple[Seen, ...]:
        """Return the names under an alias of the whole, and with new names for the first columns where given."""
        if len(columns) > len(self.seen):
            raise self.text.wrong(f"{alias} with {len(columns)} names", 0, f"at most {len(self.seen)}, one a column")
        names = [*columns, *(seen.name for seen in self.seen[len(columns) :])]
        return tuple(Seen(alias, name, seen.value) for name, seen in zip(names, self.seen, strict=True))


@dataclass(frozen=True, slots=True)
class Public(Named):
    """Public rows."""

    rows: PublicTable

    @property
    def schema(self) -> Schema:
        return Schema(self.rows.columns)

    def where(self, conditions: Iterable[exp.Expr]) -> Public:
        """The rows where conditions hold."""
        chosen = [self.reader.condition(each) for each in conditions]
        if not chosen:
            return self
        kept = evaluated(self.rows, chosen, [col(name) for name in self.schema.names])
        if not kept:
            raise self.text.wrong(
                "a condition on a public table that no row meets", 0, "a condition that some row meets"
            )
        return replace(self, rows=PublicTable(self.rows.columns, tuple(kept)))

    def different(self) -> Public:
        """The different rows of what is seen."""
        made = [each.value for each in self.seen]
        columns = tuple((f"column{i + 1}", value.type_in(self.schema)) for i, value in enumerate(made))
        rows = [row for row in evaluated(self.rows, [], made) if None not in row]
        seen = tuple(replace(each, value=col(name)) for each, (name, _) in zip(self.seen, columns, strict=True))
        return replace(self, seen=seen, rows=PublicTable(columns, tuple(dict.fromkeys(rows))))

    def values(self, made: Expression) -> list[Any]:
        """The different values of an expression, none for missing."""
        return list(dict.fromkeys(row[0] for row in evaluated(self.rows, [], [made]) if row[0] is not None))


def evaluated(rows: PublicTable, conditions: list[Expression], made: list[Expression]) -> list[tuple[Any, ...]]:
    """Expressions of the public rows where conditions hold."""
    if all(_plain(each) for each in (*conditions, *made)):
        named = [dict(zip((name for name, _ in rows.columns), row, strict=True)) for row in rows.rows]
        kept = [row for row in named if all(_computed(each, row) for each in conditions)]
        return [tuple(_computed(each, row) for each in made) for row in kept]
    schema, words = Schema(rows.columns), DIALECTS["duckdb"]
    stored = [(place(schema, name), kind) for name, kind in rows.columns]
    tree = exp.select(*(row_value(each, schema, words, "_r") for each in made)).from_(
        exp.alias_(exp.to_table("_rows"), "_r", table=True)
    )
    for condition in conditions:
        tree = tree.where(row_value(condition, schema, words, "_r"))
    with Outside({"_rows": (stored, rows.rows)}) as outside:
        return outside.rows(tree)[1]


_IN_PYTHON: dict[str, Callable[..., bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "and": lambda a, b: a and b, "or": lambda a, b: a or b, "not": operator.not_,
    "in": lambda value, *listed: value in listed,
}  # fmt: skip
"""Public rows miss no value, so these mean in Python what they mean in SQL, and no engine has to be started."""


def _plain(made: Expression) -> bool:
    if isinstance(made, Call):
        return made.name in _IN_PYTHON and all(_plain(each) for each in made.arguments)
    return not isinstance(made, Missing)


def _computed(made: Expression, row: Mapping[str, Any]) -> Any:
    if isinstance(made, Column):
        return row[made.name]
    if isinstance(made, Call):
        return _IN_PYTHON[made.name](*(_computed(each, row) for each in made.arguments))
    assert isinstance(made, Literal)
    return made.value


@dataclass(frozen=True, slots=True)
class Relation(Named):
    """Rows of people: a private table, each row still with its unit.

    ``values`` are public lists of what a column can be. ``origins`` says which columns came from one public table.
    ``uses`` are all registered tables that it is made of, ``capped_by`` those whose caps it has, of several the larger.
    ``unit_also`` are the expressions that are the unit besides its column. ``counted`` are columns with counts of a
    unit's rows, whose lists of values end at what the caps let count.
    """

    table: Table
    known: Known
    values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    origins: Mapping[str, tuple[Public, str]] = field(default_factory=dict)
    spine: Public | None = None
    uses: tuple[Known, ...] = ()
    capped_by: tuple[str, ...] = ()
    unit_also: frozenset[str] = frozenset()
    counted: frozenset[str] = frozenset()

    @property
    def schema(self) -> Schema:
        return self.table.schema

    def is_unit(self, made: Expression) -> bool:
        """True if an expression is the unit itself."""
        own = isinstance(made, Column) and made.name == self.table.unit
        return own or (bool(self.unit_also) and str(made.to_data()) in self.unit_also)

    def with_uses_of(self, other: Relation) -> Relation:
        """Return the relation, made of what the other is made of, too."""
        return replace(self, uses=(*self.uses, *other.uses))

    def filter(self, node: exp.Expr) -> Relation:
        """Rows where a condition holds; a column that must be one of some constants has these for its values."""
        condition = self.reader.condition(node)
        values, listed = dict(self.values), _constants(condition)
        self._check_met(condition, listed, node)
        if listed is not None:
            column, chosen = listed
            known = values.get(column, chosen)
            values[column] = tuple(value for value in chosen if value in known) or chosen
        return replace(self, table=self.table.filter(condition), values=values)

    def _check_met(self, condition: Expression, listed: _Listed | None, node: exp.Expr) -> None:
        """Refuse, before anything is paid, what no row can meet by what is public: an unregistered group, or 1=0.

        Rows may have other values than the registered groups; who means one says so in other words.
        """
        if not columns_of(condition) and not evaluated(_ONE_ROW, [condition], [Literal(1)]):
            raise self.text.refused("a condition that no row meets", node, "EXPLAIN, for the cost and the columns")
        column, chosen = listed or ("", ())
        known = self.values.get(column)
        if known is None or not any(known == keys for use in self.uses for keys in use.keys.values()):
            return
        for value in chosen:
            if value not in known:
                said = str(value) if isinstance(value, int | float) else f"'{value}'"  # a date is written as a text
                other = f"LIKE {said}" if isinstance(value, str) else f"BETWEEN {said} AND {said}"
                works = f"a registered group: {one_of(value, map(str, known))}; or {other}, where this value is meant"
                raise self.text.wrong(f"{column} = {said}", node, works)

    def derived(self, made: Expression, wish: str) -> tuple[Relation, str]:
        """The relation with a column for an expression, and the column's name."""
        if isinstance(made, Column):
            return self, made.name
        data = str(made.to_data())  # as text: to Python 1, 1.0 and True are one
        for step in reversed(self.table.steps):
            if step.local is not None and step.kind in _NEW_ROWS:
                break  # a name may mean something else before it
            if step.expression is not None and step.kind == "derive" and str(step.expression.to_data()) == data:
                return self, step.name
        name, listed = free_name(wish, self.schema.names), self.list_of(made)
        values = self.values if listed is None else {**self.values, name: listed}
        return replace(self, table=self.table.derive(**{name: made}), values=values), name

    def list_of(self, made: Expression) -> tuple[Any, ...] | None:
        """Everything public that an expression can be, where it follows from public lists and constants."""
        if isinstance(made, Column) and made.name in self.values:
            return self.values[made.name]
        if isinstance(made, Literal | Missing):
            return (made.value,) if isinstance(made, Literal) else ()
        if isinstance(made, Call) and made.name in ("when", "coalesce"):
            lists = [self.list_of(each) for each in made.arguments[made.name == "when" :]]
            known = [each for each in lists if each is not None]
            return tuple(dict.fromkeys(value for each in known for value in each)) if len(known) == len(lists) else None
        if isinstance(made, Call) and made.name == "cut":
            return tuple(range(len(made.arguments)))
        if isinstance(made, Call) and made.name in _PARTS:
            return tuple(_PARTS[made.name])
        return (False, True) if made.type_in(self.schema) == "boolean" else None

    def with_public(self, right: Public, on: Expression, at: str, how: str) -> Relation:
        """Joined with public rows where ``on`` equals their column ``at``."""
        relation, column = self.derived(on, at)
        taken, renamed = list(relation.schema.names), dict[str, str]()
        for name in right.schema.names:
            renamed[name] = column if name == at else free_name(name, taken)
            taken.append(renamed[name])
        rows = PublicTable(tuple((renamed[name], kind) for name, kind in right.rows.columns), right.rows.rows)
        seen = tuple(replace(each, value=renaming(each.value, renamed)) for each in right.seen)
        if how == "left":  # public rows miss no value: where one is missing, no row was like this one
            own = [renamed[name] for name in right.schema.names if name != at]
            if not own:
                own = [free_name("there", taken)]
                rows = PublicTable((*rows.columns, (own[0], "integer")), tuple((*row, 1) for row in rows.rows))
            there = ~col(own[0]).is_missing()
            seen = tuple(
                each if isinstance(each.value, Column) and each.value.name in own
                else replace(each, value=when(there, each.value))
                for each in seen
            )  # fmt: skip
        new = {renamed[name]: (right, name) for name in right.schema.names if name != at or how == "inner"}
        return replace(
            relation,
            table=relation.table.join(rows, on=column, how=how),
            seen=(*relation.seen, *seen),
            origins={**relation.origins, **new},
        )


_Listed = tuple[str, tuple[Any, ...]]
_ONE_ROW = PublicTable((("one", "integer"),), ((1,),))
_NEW_ROWS = ("per_unit_rows", "distinct", "union_all", "except", "intersect")
_PARTS = {"month": range(1, 13), "quarter": range(1, 5), "weekday": range(1, 8)}


def _constants(condition: Expression) -> _Listed | None:
    """Column and constants of ``column IN (...)`` or ``column = constant``."""
    if not isinstance(condition, Call) or condition.name not in ("in", "=="):
        return None
    first, *rest = condition.arguments
    values = [each.value for each in rest if isinstance(each, Literal)]
    if isinstance(first, Column) and len(values) == len(rest):
        return first.name, tuple(dict.fromkeys(values))
    return None


def renaming(made: Expression, names: Mapping[str, str]) -> Expression:
    """An expression about renamed columns."""
    if isinstance(made, Column):
        return col(names.get(made.name, made.name))
    if isinstance(made, Call):
        return Call(made.name, tuple(renaming(each, names) for each in made.arguments))
    return made


def in_own_words(what: str, value: exp.Expr | None, condition: exp.Expr | None, *, most: int = 80) -> str:
    """Name of a column that stands for an expression: as the statement says it, for the reader of a card.

    >>> import sqlglot
    >>> in_own_words("rows", sqlglot.parse_one("age"), sqlglot.parse_one("ward='b'")), in_own_words("", None, None)
    ("rows with age where ward = 'b'", 'expression')
    """
    parts = ["" if each is None else _as_typed(each) for each in (value, condition)]
    said = " with ".join(filter(None, (what, parts[0]))) + (f" where {parts[1]}" if parts[1] else "")
    plain = unicodedata.normalize("NFKC", "".join(letter for letter in said if letter.isprintable())).strip()
    return (plain if len(plain) <= most else f"{plain[: most - 3]}...") or "expression"


def function_name(node: exp.Expr) -> str:
    """Name of a grouping by a function of a column, if it has no alias; empty for other expressions.

    >>> import sqlglot
    >>> function_name(sqlglot.parse_one("YEAR(v.seen)")), function_name(sqlglot.parse_one("a + b"))
    ('year_seen', '')
    """
    column = node.find(exp.Column)
    named = isinstance(node, exp.Func) and not isinstance(node, exp.Case | exp.If | exp.Connector)
    return f"{spelled(node)}_{column.name}".lower() if named and column is not None else ""


def _as_typed(node: exp.Expr) -> str:
    typed = node.copy()
    for division in typed.find_all(exp.Div):  # which the reader may have made safe
        division.set("typed", True)
        division.set("safe", False)
    return str(typed.sql(dialect=Reading, comments=False))


def free_name(wish: str, taken: Iterable[str]) -> str:
    """The name itself, or with a number behind it where it is taken.

    >>> free_name("n", ["N", "ward"])
    'n_2'
    """
    names, number, name = list(taken), 1, wish
    while not all(all_different((name, other)) for other in names):
        number += 1
        name = f"{wish}_{number}"
    return name


def of_table(text: Text, known: Known, alias: str) -> Relation:
    """A registered private table under a name."""
    table = known.table
    hidden = () if isinstance(table.unit, EachRow) else (table.unit,)
    seen = tuple(Seen(alias, name, col(name)) for name in table.schema.names)
    keys = {name: tuple(values) for name, values in known.keys.items() if name not in hidden}
    return Relation(text, seen, table, known, keys, uses=(known,), capped_by=(table.name,))


def of_public(text: Text, rows: PublicTable, alias: str) -> Public:
    """A public table under a name."""
    return Public(text, tuple(Seen(alias, name, col(name)) for name, _ in rows.columns), rows)
