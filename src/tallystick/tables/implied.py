"""Groups that follow from what is registered: truth values, whole numbers between bounds, parts of a date, choices.

They are public: nothing here reads data. Rows with another value, or without one, are in none of these groups.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tallystick.printing import visible
from tallystick.tables.expressions import Call, Expression, Literal, Missing
from tallystick.tables.keyset import GROUPABLE, PublicTable

if TYPE_CHECKING:
    from tallystick.tables.table import Table

MOST_IMPLIED: Final = 1_000
"""Groups that follow by themselves, at most: more are listed by a person, who then knows how many there are."""
PARTS_OF_DATES: Final = {"month": 12, "quarter": 4, "day": 31, "weekday": 7}
Lists = Mapping[str, Sequence[Any]]
"""Public lists of values, by column."""


def implied_keys(table: Table, columns: Sequence[str], lists: Lists | None = None) -> PublicTable | None:
    """Return all combinations of the values that columns can have by what is public; None if that is not known.

    ``lists`` are registered lists of values, which go before everything else.
    """
    known = [_listed(table, column, lists or {}) for column in columns]
    values = [each for each in known if each]
    if len(values) < len(columns) or math.prod(map(len, values)) > MOST_IMPLIED:
        return None
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
    found = None if made is None else _results(made)
    if found is not None:
        return tuple(sorted(found)) if kind in GROUPABLE else None
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


def _results(made: Expression) -> set[Any] | None:
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
    return _chosen(made.arguments[1:]) if made.name == "when" else None


def _chosen(made: Iterable[Expression]) -> set[Any] | None:
    found: set[Any] = set()
    for each in made:
        values = _results(each)
        if values is None:
            return None
        found |= values
    return found


def said(table: Table, columns: Sequence[str], keys: PublicTable) -> str:
    """Return that the groups of a question are those that follow from what is registered; empty if they are others."""
    if implied_keys(table, columns) != keys:
        return ""
    listed = [f"{visible(column)} {_range(values_of(table, column) or ())}" for column in columns]
    return f"{', '.join(listed)}, by what is public; rows with another value, or without one, are left out"


def _range(values: Sequence[Any]) -> str:
    shown = [str(value).lower() if isinstance(value, bool) else visible(str(value)) for value in values]
    are_numbers = all(type(value) is int for value in values)
    if are_numbers and len(values) > 2 and values[-1] - values[0] == len(values) - 1:
        return f"{shown[0]} to {shown[-1]}"
    return " or ".join(shown) if len(shown) <= 3 else f"{shown[0]}, {shown[1]}, ..."
