"""A trial: every function of a program, called on made-up constants before the charge.

Functions are absent on some servers: MD5 in FIPS mode, say. An empty table calls none of them, and the data might call
one for some people alone. So success or failure after the charge would tell who is there.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from sqlglot import exp

from tallystick.tables.dialects import Tree, Words, constant, fresh, name, place
from tallystick.tables.expressions import Call, Column, Expression
from tallystick.tables.functions import row_value
from tallystick.tables.schema import Schema

_VALUES: Final = {
    "integer": (7, -7, 0),
    "number": (1.5, -1.5, 0.0),
    "text": ("7", "2000-02-29", "ä b"),
    "boolean": (True, False, True),
    "date": (datetime.date(2000, 2, 29), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)),
}
"""Values of each type: three rows of a table with one column of each."""

_COLUMNS: Final = Schema.of({kind: kind for kind in _VALUES})
_OPERATORS: Final = frozenset(
    ("<", "<=", ">", ">=", "==", "!=", "and", "or", "not", "missing", "in", "cut", "when", "coalesce")
)
"""Calls that are made of comparisons alone, some of them with thousands of constants."""

_MOST_AT_ONCE: Final = 500
"""Columns of one query; servers have limits."""


def made_up(kind: str) -> exp.Column:
    """The column of made-up values of a type, in rows that are called ``_t``."""
    return name(place(_COLUMNS, kind), "_t")


def queries(trees: list[Tree], words: Words) -> tuple[str, ...]:
    """SQL that computes every tree for every made-up row. Equal ones are computed once."""
    values = list(dict.fromkeys(words.render(fresh(tree)) for tree in trees))
    parts = [values[i : i + _MOST_AT_ONCE] for i in range(0, len(values), _MOST_AT_ONCE)]
    return tuple(_of_rows(part, words) for part in parts)


def _of_rows(values: list[str], words: Words) -> str:
    """Return the query of these columns. It is joined as text: to write the trees again takes as long as before."""
    named = [f"{value} AS {words.render(exp.to_identifier(f'r{i}', quoted=True))}" for i, value in enumerate(values)]
    return f"SELECT {', '.join(named)} FROM {_rows_text(words)}"


@lru_cache(maxsize=8)
def _rows_text(words: Words) -> str:
    """Return the made-up rows as a table of a query; they are the same for every program of a dialect."""
    return words.render(_rows(words).subquery("_t"))


def _rows(words: Words) -> exp.Select:
    """The made-up rows."""
    rows = [_row(values, words) for values in zip(*_VALUES.values(), strict=True)]
    given = [f"v{i}" for i in range(len(_VALUES))]
    alias = exp.TableAlias(this=exp.to_identifier("_v"), columns=[exp.to_identifier(column) for column in given])
    chosen = exp.select().from_(exp.Values(expressions=rows, alias=alias))
    for column, kind in zip(given, _VALUES, strict=True):
        value = words.cast(exp.column(column), kind)
        chosen.select(exp.alias_(value, place(_COLUMNS, kind), quoted=True), copy=False)
    return chosen


def _row(values: Iterable[Any], words: Words) -> exp.Tuple:
    return exp.Tuple(expressions=[constant(value, words) for value in values])


def calls(expression: Expression, schema: Schema, words: Words) -> Iterator[Tree]:
    """Every call inside an expression, each with made-up values in place of what it is called with."""
    if not isinstance(expression, Call):
        return
    for argument in expression.arguments:
        yield from calls(argument, schema, words)
    if expression.name not in _OPERATORS:
        arguments = [_stand_in(argument, schema) for argument in expression.arguments]
        yield row_value(Call(expression.name, tuple(arguments)), _COLUMNS, words, "_t")


def _stand_in(argument: Expression, schema: Schema) -> Expression:
    return Column(argument.type_in(schema)) if isinstance(argument, Column | Call) else argument


def exchanged_columns(tree: Tree, kinds: Mapping[str, str]) -> Tree:
    """The tree with made-up values in place of columns, whose types are given."""

    def change(node: Tree) -> Tree:
        return made_up(kinds[node.name]) if isinstance(node, exp.Column) else node

    return fresh(tree).transform(change, copy=True)
