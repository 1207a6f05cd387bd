"""A question as the SELECT statement it stands for, where SQL has the words."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from tallystick.tables.aggregates import ColumnMeasure, Measure
from tallystick.tables.expressions import Call, Column, Expression, Literal
from tallystick.tables.keyset import PrivateKeys, PublicTable
from tallystick.tables.reporting.limits import outside_parts
from tallystick.tables.table import Query


def statement_of(query: Query, name: str) -> str:
    """The SELECT for a question about the dataset ``name``; what SQL cannot say stands in a comment.

    >>> from tallystick.tables.private import Private
    >>> import pyarrow, tallystick as ts
    >>> visits = Private(pyarrow.table({"patient": [1], "ward": ["a"], "year": [2026]})).table(unit="patient")
    >>> capped = visits.per_unit(max_groups=1, max_rows_per_group=1).filter(ts.col("year") >= 2026)
    >>> print(statement_of(capped.group_by("ward", keys=["a", "b"]).agg(n=ts.count()), "visits"))
    SELECT "ward", COUNT(*) AS "n" FROM "visits" WHERE "year" >= 2026 GROUP BY "ward" -- 2 public groups
    """
    made = {step.name: step.expression for step in query.table.steps if step.kind == "derive"}
    tree = exp.Select()
    for column in query.columns:
        tree = tree.select(_alias(_value(Column(column), made), column), copy=False)
    for called, measure in query.measures:
        tree = tree.select(_alias(_aggregate(measure, query, made), called), copy=False)
    tree = tree.from_(exp.to_table(_quoted(name)), copy=False)
    comments = _clamped(query)
    for number, step in enumerate(query.table.steps):
        if step.kind == "filter" and step.expression is not None:
            tree = tree.where(_value(step.expression, made), copy=False)
        elif step.public is not None:
            tree = tree.join(
                exp.to_table(f'"public{number}"'), using=[_quoted(step.name)], join_type=step.how, copy=False
            )
            comments.append(f"public{number} is a public table of {len(step.public.rows)} rows")
    if query.columns:
        tree = tree.group_by(*(_value(Column(column), made) for column in query.columns), copy=False)
    if isinstance(query.keys, PublicTable):
        comments.append(f"{len(query.keys.rows)} public groups")
    elif isinstance(query.keys, PrivateKeys):
        comments.append(f"groups from the data, at delta {query.keys.delta:g}")
    return tree.sql(dialect="postgres") + (f" -- {'; '.join(comments)}" if comments else "")


def _clamped(query: Query) -> list[str]:
    """Bounds that are not those of the column itself, which a statement would take from the registration."""
    known = {column: (low, high) for column, low, high in query.table.declared}
    asked = [(name, one) for name, one in query.measures if isinstance(one, ColumnMeasure)]
    asked = [(name, one) for name, one in asked if known.get(one.column) != one.limits and outside_parts(query, [one])]
    return [f"{name} CLAMPED BETWEEN {one.lower:g} AND {one.upper:g}" for name, one in asked]


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect="postgres")


def _alias(value: exp.Expr, name: str) -> exp.Expr:
    if isinstance(value, exp.Column) and value.name == name:
        return value
    return exp.alias_(value, name, quoted=True)


def _aggregate(measure: Measure, query: Query, made: dict[str, Any]) -> exp.Expr:
    data = measure.to_data()
    kind = data["kind"]
    unit = query.table.unit
    if kind == "count":
        return exp.Count(this=exp.Star())
    if kind == "count_units":
        return exp.Count(this=exp.Distinct(expressions=[exp.column(str(unit), quoted=True)]))
    value = _value(Column(data["column"]), made)
    if kind == "quantile":
        ordered = exp.Order(expressions=[exp.Ordered(this=value, nulls_first=False)])
        return exp.WithinGroup(this=exp.PercentileCont(this=exp.Literal.number(data["p"])), expression=ordered)
    if kind == "variance" and data.get("root"):
        return exp.StddevPop(this=value)
    words: dict[str, type[exp.Func]] = {"sum": exp.Sum, "mean": exp.Avg, "variance": exp.VariancePop}
    return words[kind](this=value) if kind in words else exp.Anonymous(this=kind, expressions=[value])


def _value(made: Expression, columns: dict[str, Any]) -> exp.Expr:
    if isinstance(made, Column):
        inner = columns.get(made.name)
        return exp.column(made.name, quoted=True) if inner is None else _value(inner, columns)
    if isinstance(made, Literal):
        return _constant(made.value)
    if isinstance(made, Call):
        arguments = [_value(each, columns) for each in made.arguments]
        maker = _MADE.get(made.name)
        return maker(*arguments) if maker is not None else exp.Anonymous(this=made.name, expressions=arguments)
    return exp.Null()


def _constant(value: Any) -> exp.Expr:
    if isinstance(value, datetime.date):
        return exp.Cast(this=exp.Literal.string(value.isoformat()), to=exp.DataType.build("DATE"))
    return exp.convert(value)


def _two(kind: type[exp.Binary]) -> Callable[..., exp.Expr]:
    return lambda a, b: kind(this=_bracket(a), expression=_bracket(b))


def _bracket(value: exp.Expr) -> exp.Expr:
    return exp.Paren(this=value) if isinstance(value, exp.Binary) else value


def _when(condition: exp.Expr, then: exp.Expr, otherwise: exp.Expr | None = None) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=then)], default=otherwise)


_MADE: dict[str, Callable[..., exp.Expr]] = {
    "+": _two(exp.Add),
    "-": _two(exp.Sub),
    "*": _two(exp.Mul),
    "/": _two(exp.Div),
    "<": _two(exp.LT),
    "<=": _two(exp.LTE),
    ">": _two(exp.GT),
    ">=": _two(exp.GTE),
    "==": _two(exp.EQ),
    "!=": _two(exp.NEQ),
    "and": _two(exp.And),
    "or": _two(exp.Or),
    "not": lambda a: exp.Not(this=_bracket(a)),
    "missing": lambda a: exp.Is(this=_bracket(a), expression=exp.Null()),
    "in": lambda a, *rest: exp.In(this=_bracket(a), expressions=list(rest)),
    "when": _when,
    "year": lambda a: exp.Extract(this=exp.var("YEAR"), expression=a),
    "month": lambda a: exp.Extract(this=exp.var("MONTH"), expression=a),
}
