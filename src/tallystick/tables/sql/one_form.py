"""One form of a question, for all names of its columns and all orders in which it can be written.

The automatic key of a statement is that of this form, so a caller who asks the same is answered from the record. What
is stored has the names of the form; what is shown has those of the statement, which is post-processing. Only what means
the same on every table is brought to one form: names, the order of columns, measures, groups, conditions and sides of
``=``, caps that cannot bind, and bounds that are registered anyway. A question that fits none keeps its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tallystick.errors import TallystickError
from tallystick.tables.aggregates import Measure
from tallystick.tables.estimates import Estimate
from tallystick.tables.expressions import Call, Column, Expression, Literal, col, columns_of
from tallystick.tables.keyset import PublicTable
from tallystick.tables.local import Distinct, JoinOnUnit, PerUnitRows, TwoTables, UnionAll, Window, WithUnits
from tallystick.tables.measures import measure_from_data
from tallystick.tables.output import Columns
from tallystick.tables.parts import ColumnPart, Part
from tallystick.tables.release import Release
from tallystick.tables.schema import UNSUPPORTED
from tallystick.tables.sql.relations import free_name
from tallystick.tables.steps import EachRow, Step
from tallystick.tables.table import Plan, Query, Table, make_plan
from tallystick.tables.unit_functions import OfUnit

Names = dict[str, str]
"""What a column of the question is called in its one form."""

_ENDS: Final = ("", "_lower", "_upper")
_SWAPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EITHER_WAY: Final = ("and", "or", "==", "!=", "+", "*")
"""Functions of two arguments that mean the same the other way round, also where something is missing."""


class _NoForm(Exception):
    """This question has no form but its own."""


@dataclass(frozen=True, slots=True)
class OneForm:
    """A plan in the one form of its question.

    ``names`` says what each column of its release is called there, ``columns`` the same of the table that is asked.
    """

    plan: Plan
    query: Query
    names: Mapping[str, str]
    columns: Mapping[str, str]

    def part(self, own: Part) -> Part:
        """A part of the question as it is called in the form."""
        return replace(own, column=self.columns.get(own.column, own.column)) if isinstance(own, ColumnPart) else own

    def shown(self, release: Release) -> Shown:
        """A release of the form under the question's own names, its groups in the question's own order."""
        data = release.data
        found = {name: data[own] for name, own in self.names.items()}
        groups = list(zip(*(found[column] for column in self.query.columns), strict=True))
        if isinstance(self.query.keys, PublicTable):
            places = {key: i for i, key in enumerate(groups)}
            order = [places[key] for key in self.query.keys.rows]
        else:
            order = sorted(range(len(groups)), key=lambda i: groups[i])
        if not groups:
            order = list(range(len(release)))
        shown = {name: [column[i] for i in order] for name, column in found.items()}
        return Shown(shown, release, self.names, tuple(order))


@dataclass(frozen=True, slots=True)
class Shown(Columns):
    """Columns under the names of a question."""

    given: dict[str, list[Any]]
    release: Release
    names: Mapping[str, str]
    """Of each column its name in the release."""
    order: tuple[int, ...]

    @property
    def data(self) -> dict[str, list[Any]]:
        return self.given

    def estimates(self, *, confidence: float) -> dict[str, Estimate]:
        """Every measure's column or columns under these names, with intervals at any confidence."""
        found = self.release.estimates(confidence=confidence)
        places = list(self.order)
        return {
            name: Estimate(found[own].value[places], found[own].lower[places], found[own].upper[places])
            for name, own in self.names.items()
            if own in found
        }

    def level(self, confidence: float) -> float:
        """Confidence of one interval, so that those of all groups hold together if they are joint."""
        return self.release.level(confidence)

    def total_of(self, field: str, *, confidence: float) -> tuple[float, float]:
        """Interval of the sum of a column over all groups."""
        return self.release.total_of(self.names[field], confidence=confidence)


def one_form(plan: Plan, query: Query) -> OneForm:
    """The form of a planned question, at the same cost. ``query`` is the question before it had a cost."""
    try:
        made, names, columns = _query(query)
        return OneForm(_priced_like(plan, made), query, names, columns)
    except (_NoForm, TallystickError):
        released = [*query.columns, *_fields(query.measures)]
        kept = {name: name for name in query.table.schema.names}
        return OneForm(plan, query, {name: name for name in released}, kept)


def _priced_like(plan: Plan, query: Query) -> Plan:
    """Another question at the cost of a plan."""
    return make_plan(query, {**plan.budget, "pure": plan.pure}, account=plan.account)


def _fields(measures: Iterable[tuple[str, Measure]]) -> list[str]:
    return [f"{field}{end}" for name, measure in measures for field in measure.fields(name) for end in _ENDS]


def _query(query: Query) -> tuple[Query, Names, Names]:
    table, names = _table(query.table, {})
    if not isinstance(table.unit, EachRow):  # a cap above the number of groups is none
        caps = query.caps
        table = table.per_unit(max_groups=caps.max_groups, max_rows_per_group=caps.max_rows, max_rows=caps.in_all)
    columns = sorted(names[column] for column in query.columns)
    keys: Any = query.keys
    if isinstance(keys, PublicTable):
        places = [[names[column] for column in query.columns].index(column) for column in columns]
        rows = sorted((tuple(row[i] for i in places) for row in keys.rows), key=_written)
        kinds = tuple((column, keys.columns[i][1]) for column, i in zip(columns, places, strict=True))
        keys = PublicTable(kinds, tuple(rows))
    named, fields = _measures(query, names, columns)
    made = table.group_by(*columns, keys=keys).agg(**named)
    return made, {column: names[column] for column in query.columns} | fields, names


def _measures(query: Query, names: Names, columns: list[str]) -> tuple[dict[str, Measure], Names]:
    """Measures in the order of what they are, named after it; and their fields by the old names."""
    renamed = []
    for own, measure in query.measures:
        data = measure.to_data()
        if "column" in data:
            data["column"] = names[data["column"]]
        renamed.append((_written(data), own, measure, measure_from_data(data)))
    named: dict[str, Measure] = {}
    fields: Names = {}
    for _, own, before, measure in sorted(renamed, key=lambda each: each[0]):
        data = measure.to_data()
        wish = "_".join(str(data[word]) for word in ("kind", "column") if word in data)
        name = free_name(wish[:150], [*columns, *_fields(named.items())])
        named[name] = measure
        fields |= dict(zip(_fields([(own, before)]), _fields([(name, measure)]), strict=True))
    return named, fields


def _written(data: Any) -> str:
    return json.dumps(data, sort_keys=True, default=str)


# ---- tables


def _table(table: Table, wanted: Names) -> tuple[Table, Names]:
    """A table with its steps in one form; derived columns that a partner shares have the names ``wanted`` there."""
    made = replace(table, schema=table.base, stored=None, steps=(), declared=(), periods=()).per_unit()
    names = {name: name for name in table.base.names}
    last = {step.name: i for i, step in enumerate(table.steps) if step.kind == "derive"}
    run: list[tuple[Step, str]] = []
    for i, step in enumerate(table.steps):
        if step.kind in ("filter", "derive"):
            run.append((step, wanted.get(step.name, "") if last.get(step.name) == i else ""))
            continue
        made, names = _row_steps(made, names, run)
        run = []
        made, names = _of(step)(made, names, step)
    made, names = _row_steps(made, names, run)
    if any(names.get(old) != new for old, new in wanted.items()):
        raise _NoForm
    return made, names


def _row_steps(table: Table, names: Names, run: list[tuple[Step, str]]) -> tuple[Table, Names]:
    """Conditions and derived columns: they see one row, so any order that has what each needs means the same."""
    names, derived = dict(names), dict[str, str]()
    waiting = [(piece, wish) for step, wish in run for piece in _pieces(step)]
    while waiting:
        ready = []
        for at, (step, wish) in enumerate(waiting):
            assert step.expression is not None
            if columns_of(step.expression) <= names.keys():
                made = in_one_form(step.expression, names)
                ready.append(((step.kind != "filter", _written(made.to_data())), at, step, made, wish))
        (_, text), at, step, made, wish = min(ready, key=lambda each: each[:2])
        waiting.pop(at)
        if step.kind == "filter":
            table = table if f"filter {text}" in derived else table.filter(made)
            derived[f"filter {text}"] = ""
        elif text in derived and not wish:
            names[step.name] = derived[text]
        else:
            free = free_name("_".join(("made_of", *sorted(columns_of(made))))[:100], table.schema.names)
            derived[text] = names[step.name] = wish or free
            table = table.derive(**{names[step.name]: made})
    return table, names


def _pieces(step: Step) -> list[Step]:
    """A condition as the conditions that AND connects: a row stays where all of them hold."""
    waiting, found = [step.expression], list[Expression]()
    while waiting:
        one = waiting.pop()
        assert one is not None
        if step.kind == "filter" and isinstance(one, Call) and one.name == "and":
            waiting += one.arguments
        else:
            found.append(one)
    return [replace(step, expression=each) for each in found]


def in_one_form(made: Expression, names: Mapping[str, str]) -> Expression:
    """An expression about the columns as they are called now, its arguments in order where order means nothing.

    >>> in_one_form(18 <= col("age"), {"age": "age"}).to_data()
    ['>=', ['col', 'age'], ['lit', 18]]
    """
    if isinstance(made, Column):
        return col(names[made.name])
    if not isinstance(made, Call):
        return made
    name, given = made.name, [in_one_form(each, names) for each in made.arguments]
    if name in _SWAPPED and isinstance(given[0], Literal) and not isinstance(given[1], Literal):
        return Call(_SWAPPED[name], (given[1], given[0]))
    if name in _EITHER_WAY:
        given.sort(key=lambda each: (isinstance(each, Literal), _written(each.to_data())))
    if name == "in":
        listed = {_written(each.to_data()): each for each in given[1:]}
        given[1:] = [listed[text] for text in sorted(listed)]
    return Call(name, tuple(given))


# ---- steps that see more than a row


def _public(table: Table, names: Names, step: Step) -> tuple[Table, Names]:
    """A public join: its columns by their places, its rows in order."""
    assert step.public is not None
    names, taken = dict(names), list(table.schema.names)
    for name, _ in step.public.columns:
        if name != step.name:
            names[name] = free_name("public", taken)
            taken.append(names[name])
    rows = sorted(step.public.rows, key=_written)
    public = PublicTable(tuple((names[name], kind) for name, kind in step.public.columns), tuple(rows))
    return table.join(public, on=names[step.name], how=step.how), names


def _join(table: Table, names: Names, step: Step) -> tuple[Table, Names]:
    made = step.local
    assert isinstance(made, JoinOnUnit)
    shared = {column: names[column] for column in made.also}
    other, theirs = _table(made.second, shared)
    brought = {column: theirs[column] for column in made.brought()}
    number = 1
    while not all(free_name(f"t{number}.{c}", table.schema.names) == f"t{number}.{c}" for c in brought.values()):
        number += 1
    prefix = f"t{number}."
    step_made = replace(made, second=other, also=tuple(sorted(shared.values())), prefix=prefix)
    return table._local(step_made), names | {f"{made.prefix}{c}": f"{prefix}{new}" for c, new in brought.items()}


def _units(table: Table, names: Names, step: Step) -> tuple[Table, Names]:
    made = step.local
    assert isinstance(made, TwoTables)
    return table._local(replace(made, second=_table(made.second, {})[0])), names


def _sets(table: Table, names: Names, step: Step) -> tuple[Table, Names]:
    """Both sides have the columns of the first, under the same names."""
    made = step.local
    assert isinstance(made, UnionAll)
    kept = [column for column, kind in table.schema.columns if kind != UNSUPPORTED and column != table.unit]
    shared = {old: new for old, new in names.items() if new in kept}
    table = table._local(replace(made, second=_table(made.second, shared)[0]))
    return table, {old: new for old, new in names.items() if new in table.schema.names}


def _distinct(table: Table, names: Names, step: Step) -> tuple[Table, Names]:
    made = step.local
    assert isinstance(made, Distinct)
    kept = {column: names[column] for column in made.columns}
    table = table._local(Distinct(tuple(sorted(set(kept.values())))))
    return table, _with_unit(table, kept)


def _totals(table: Table, names: Names, step: Step) -> tuple[Table, Names]:
    made = step.local
    assert isinstance(made, PerUnitRows)
    by = {column: names[column] for column in made.by}
    functions, called = _functions(made.made, names, [*by.values(), *table.base.names])
    table = table._local(PerUnitRows(tuple(sorted(by.values())), functions))
    return table, _with_unit(table, by | called)


def _window(table: Table, names: Names, step: Step) -> tuple[Table, Names]:
    made = step.local
    assert isinstance(made, Window)
    functions, called = _functions(made.made, names, table.schema.names)
    order = tuple((names[column], way) for column, way in made.order)
    by = tuple(sorted(names[column] for column in made.by))
    return table._local(Window(by, order, functions)), names | called


def _functions(
    made: tuple[tuple[str, OfUnit], ...], names: Names, taken: Iterable[str]
) -> tuple[tuple[tuple[str, OfUnit], ...], Names]:
    """Functions of a unit's rows in the order of what they are, the same twice once."""
    moved = [(old, each if each.column is None else replace(each, column=names[each.column])) for old, each in made]
    found: dict[str, tuple[str, OfUnit]] = {}
    for _, each in sorted(moved, key=lambda pair: _written(pair[1].to_data())):
        text = _written(each.to_data())
        if text not in found:
            used = [*taken, *(name for name, _ in found.values())]
            found[text] = free_name(f"unit_{each.kind}", used), each
    return tuple(found.values()), {old: found[_written(each.to_data())][0] for old, each in moved}


def _with_unit(table: Table, names: Names) -> Names:
    assert isinstance(table.unit, str)
    return {table.unit: table.unit} | names


_Reader = Callable[[Table, Names, Step], tuple[Table, Names]]
_READERS: Final[dict[type[Any], _Reader]] = {
    JoinOnUnit: _join,
    WithUnits: _units,
    UnionAll: _sets,
    Distinct: _distinct,
    PerUnitRows: _totals,
    Window: _window,
}


def _of(step: Step) -> _Reader:
    if step.public is not None:
        return _public
    for kind, reader in _READERS.items():
        if isinstance(step.local, kind):
            return reader
    raise _NoForm
