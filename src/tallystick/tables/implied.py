"""Groups that follow from what is registered: truth values, whole numbers between bounds, parts of dates, choices.

They are public: nothing here reads data. Rows with another value, or without one, are in none of these groups, unless
the question names a group for them (``with_other``).
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tallystick.errors import InvalidInput
from tallystick.printing import visible
from tallystick.tables.expressions import Call, Column, Expression, Literal, Missing, col, when
from tallystick.tables.keyset import GROUPABLE, PublicTable
from tallystick.tables.schema import constant, day, type_of_constant

if TYPE_CHECKING:
    from tallystick.tables.table import Table

MOST_IMPLIED: Final = 1_000
"""Groups that follow by themselves, at most: more are listed by a person, who then knows how many there are."""
PARTS_OF_DATES: Final = {"month": 12, "quarter": 4, "day": 31, "weekday": 7}
MONTHS_IN: Final = {"month": 1, "quarter": 3, "year": 12}
"""Months in the parts of time that begin on the first day of a month."""
DAYS_IN: Final = {"day": 1, "week": 7}
Lists = Mapping[str, Sequence[Any]]
"""Public lists of values, by column."""
Period = tuple[datetime.date, datetime.date]


def period(column: str, first: Any, last: Any) -> Period:
    """Return the first and the last day of a column of dates; ISO texts are read as dates.

    >>> period("day", "2026-01-01", datetime.date(2026, 12, 31))[0]
    datetime.date(2026, 1, 1)
    """
    ends = [each if type(each) is datetime.date else day(each) for each in (first, last)]
    if not ends[0] <= ends[1]:
        raise InvalidInput(f"bounds of {column}", (first, last), "a first day that is not after the last one")
    return ends[0], ends[1]


def implied_keys(
    table: Table, columns: Sequence[str], lists: Lists | None = None, *, most: int = MOST_IMPLIED
) -> PublicTable | None:
    """Return all combinations of the values that columns can have by what is public; None if that is not known.

    ``lists`` are registered lists of values, which go before everything else. More than ``most`` combinations do not
    follow.
    """
    known = [_listed(table, column, lists or {}) for column in columns]
    values = [each for each in known if each]
    if len(values) < len(columns) or math.prod(map(len, values)) > most:
        return None
    return _all_combinations(table, columns, values)


def _all_combinations(table: Table, columns: Sequence[str], values: Iterable[Iterable[Any]]) -> PublicTable:
    kinds = tuple((column, table.schema.type_of(column)) for column in columns)
    return PublicTable(kinds, tuple(itertools.product(*values)))


def _listed(table: Table, column: str, lists: Lists) -> tuple[Any, ...] | None:
    return tuple(lists[column]) if column in lists else values_of(table, column)


def values_of(table: Table, column: str) -> tuple[Any, ...] | None:
    """Return every value that a column can have by its type, its bounds, or how it is made; None if not known."""
    kind = table.schema.type_of(column)
    if kind == "boolean":
        return False, True
    made = _made(table, column)
    if made is not None:
        named = _with_a_rest(made)
        if named is not None:
            return (*named[0], named[1])
        found = _results(table, made)
        return tuple(sorted(found)) if found is not None and kind in GROUPABLE else None
    if kind == "date":
        return _starts(table, column, "day")
    declared = {name: (low, high) for name, low, high in table.declared}
    return _between(*declared[column]) if kind == "integer" and column in declared else None


def _between(low: float, high: float) -> tuple[int, ...] | None:
    first, last = math.ceil(low), math.floor(high)
    return tuple(range(first, last + 1)) if last - first < MOST_IMPLIED else None


def _made(table: Table, column: str) -> Expression | None:
    """Return how a column is derived, unless a later step may have given its name to something else."""
    for step in reversed(table.steps):
        if step.kind == "derive" and step.name == column:
            return step.expression
        if step.kind not in ("derive", "filter"):
            break
    return None


def _results(table: Table, made: Expression) -> set[Any] | None:
    """Return every value of an expression that is a part of a date, a cut, or a choice among constants."""
    if isinstance(made, Missing):
        return set()
    if isinstance(made, Literal):
        return {made.value}
    if not isinstance(made, Call):
        return None
    if made.name in PARTS_OF_DATES:
        return set(range(1, PARTS_OF_DATES[made.name] + 1))
    if made.name == "cut":
        return set(range(len(made.arguments)))
    if made.name in ("year", "date_trunc"):
        return _in_period(table, made)
    return _chosen(table, made.arguments[1:]) if made.name == "when" else None


def _chosen(table: Table, made: Iterable[Expression]) -> set[Any] | None:
    found: set[Any] = set()
    for each in made:
        values = _results(table, each)
        if values is None:
            return None
        found |= values
    return found


# Dates between a declared first and last day.


def _in_period(table: Table, made: Call) -> set[Any] | None:
    """Return the years, or the first days of months or other parts of time, that a column of dates can be in."""
    of, *more = made.arguments
    if not isinstance(of, Column):
        return None
    if made.name == "year":
        starts = _starts(table, of.name, "year")
        return None if starts is None else {start.year for start in starts}
    part = more[0].value if isinstance(more[0], Literal) else None
    starts = _starts(table, of.name, str(part))
    return None if starts is None else set(starts)


def _starts(table: Table, column: str, part: str) -> tuple[datetime.date, ...] | None:
    """Return the first day of each part of a declared period, such as its months; None if they are too many."""
    periods = {name: (first, last) for name, first, last in table.periods}
    if column not in periods or part not in (*MONTHS_IN, *DAYS_IN):
        return None
    starts = tuple(itertools.islice(_each_start(*periods[column], part), MOST_IMPLIED + 1))
    return starts if len(starts) <= MOST_IMPLIED else None


def _each_start(first: datetime.date, last: datetime.date, part: str) -> Iterator[datetime.date]:
    if part in DAYS_IN:
        back = first.weekday() if part == "week" else 0
        for number in range(first.toordinal() - back, last.toordinal() + 1, DAYS_IN[part]):
            yield datetime.date.fromordinal(number)  # the first day of all, 0001-01-01, is a Monday
        return
    months = MONTHS_IN[part]
    begin = first.year * 12 + (first.month - 1) // months * months
    for number in range(begin, last.year * 12 + last.month, months):
        yield datetime.date(number // 12, number % 12 + 1, 1)


# A group for all rows that are in no other one.


def with_other(
    table: Table, columns: Sequence[str], keys: PublicTable, other: Mapping[str, Any]
) -> tuple[Table, tuple[str, ...], PublicTable]:
    """Return the table, the columns and the groups of a question that has a group for other values of some columns.

    Such a column is replaced by one of the row itself: its value if that is listed, else the name of the other group.
    So each row is in exactly one group of it, and a unit's rows with other values are in one group together.
    """
    places = {column: [name for name, _ in keys.columns].index(column) for column in columns}
    values = {column: list(dict.fromkeys(row[at] for row in keys.rows)) for column, at in places.items()}
    if math.prod(map(len, values.values())) != len(keys.rows):
        raise InvalidInput("other", dict(other), "keys that are all combinations of the values of each column")
    named = {column: column for column in columns}
    for column, value in other.items():
        _check_rest(table, column, value, values)
        named[column] = f"{column}_or_other"
        table = table.derive(**{named[column]: when(col(column).isin(values[column]), col(column), value)})
        values[column].append(value)
    return table, tuple(named.values()), _all_combinations(table, tuple(named.values()), values.values())


def _check_rest(table: Table, column: str, value: Any, values: Mapping[str, Sequence[Any]]) -> None:
    """Refuse the name of an other group that its column cannot hold, or that is a listed group."""
    if column not in values:
        raise InvalidInput("other", column, f"one of the columns to group by: {', '.join(values)}")
    kind = table.schema.type_of(column)
    if type_of_constant(constant(value)) != kind:
        raise InvalidInput("other", value, f"a value of type {kind}, as {column} has")
    if value in values[column]:
        raise InvalidInput("other", value, f"a value of {column} that is not one of the listed groups")


def _with_a_rest(made: Expression) -> tuple[tuple[Any, ...], Any] | None:
    """Return the listed values and the other group of a column that ``with_other`` made; None for another one."""
    if not (isinstance(made, Call) and made.name == "when" and len(made.arguments) == 3):
        return None
    condition, kept, rest = made.arguments
    if not (isinstance(condition, Call) and condition.name == "in" and isinstance(rest, Literal)):
        return None
    of, *listed = condition.arguments
    same = isinstance(of, Column) and isinstance(kept, Column) and of.name == kept.name
    values = tuple(each.value for each in listed if isinstance(each, Literal))
    return (values, rest.value) if same and len(values) == len(listed) and rest.value not in values else None


# What a plan says.


def said(table: Table, columns: Sequence[str], keys: PublicTable) -> str:
    """Return which groups a question has, by what is public, and what happens to rows that are in none of them."""
    if implied_keys(table, columns, most=len(keys.rows)) != keys:
        return f"listed; {_dropped(columns, len(columns))}"
    listed, left = [], []
    for column in columns:
        made = _made(table, column)
        named = None if made is None else _with_a_rest(made)
        if named is None:
            left.append(visible(column))
            listed.append(f"{visible(column)} {_range(values_of(table, column) or ())}")
        else:
            rest = f"{_shown(named[1])} for another value or none"
            listed.append(f"{visible(column)} {_range(named[0])}, and {rest}")
    return f"{', '.join(listed)}, by what is public; {_dropped(left, len(columns))}"


def _dropped(left: Sequence[str], columns: int) -> str:
    """Return which rows are in no group; ``left`` are the columns without a group for other values."""
    if not left:
        return "no row is left out"
    of = "" if len(left) == columns else f" of {' or '.join(left)}"
    return f"rows with another value{of}, or without one, are left out"


def _range(values: Sequence[Any]) -> str:
    shown = [_shown(value) for value in values]
    are_numbers = all(type(value) is int for value in values)
    if are_numbers and len(values) > 2 and values[-1] - values[0] == len(values) - 1:
        return f"{shown[0]} to {shown[-1]}"
    if len(shown) <= 3:
        return " or ".join(shown)
    are_dates = all(isinstance(value, datetime.date) for value in values)
    return f"{shown[0]}, {shown[1]}, ..., {shown[-1]}" if are_dates else f"{shown[0]}, {shown[1]}, ..."


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else visible(str(value))
