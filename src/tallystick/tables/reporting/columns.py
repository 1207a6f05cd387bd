"""Words for a column of a published table: what it is, what was done to its values, and who counts how often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tallystick.digits import typed
from tallystick.printing import visible
from tallystick.tables.aggregates import ColumnMeasure, Histogram
from tallystick.tables.output import Columns, with_limits
from tallystick.tables.reporting.limits import outside_parts
from tallystick.tables.reporting.words import Touched, contribution, too_noisy_to_use
from tallystick.tables.steps import EachRow

if TYPE_CHECKING:
    from tallystick.tables.aggregates import Measure
    from tallystick.tables.table import Plan, Query


def person(plan: Plan) -> str:
    """Return the word for one person: the owner's word, else the name of the column that tells people apart."""
    unit = plan.query.table.unit
    if isinstance(unit, EachRow):
        return "row"
    account = plan.account or plan.query.table.account
    return visible(unit if account is None else account.unit)


def limits_of(query: Query) -> tuple[int | None, int | None]:
    """Return the limits on groups and on rows of one person, as far as they matter for the measures.

    A limit that only follows from that on rows in all is not one by itself.
    """
    if isinstance(query.table.unit, EachRow):
        return None, None
    caps, in_all = query.caps, limit_in_all(query)
    rows = caps.max_rows if any(measure.by_rows for _, measure in query.measures) else None
    groups = caps.max_groups if query.columns else None
    if in_all is None:
        return groups, rows
    return (None if caps.max_groups >= in_all else groups), (None if caps.max_rows >= in_all else rows)


def limit_in_all(query: Query) -> int | None:
    """Return the limit on rows of one person in all groups, if the other limits allow more."""
    return query.caps.in_all if any(measure.by_rows for _, measure in query.measures) else None


def capped(query: Query, who: str) -> str:
    """Return how much of one person counts in a question, for a reader who has never heard of limits."""
    if isinstance(query.table.unit, EachRow):
        return "every row counts once"
    groups, rows = limits_of(query)
    return contribution(who, groups=groups, rows=rows, in_all=limit_in_all(query))


def touched(query: Query) -> Touched:
    """Return which columns of a table limits per person touch."""
    return Touched.of((measure.limited, getattr(measure, "lower", None)) for _, measure in query.measures)


def bounded(query: Query) -> list[str]:
    """Return for each column with bounds what happens to values outside them."""
    said: dict[str, None] = {}
    for _, measure in query.measures:
        if not outside_parts(query, [measure]):
            continue
        if isinstance(measure, ColumnMeasure):
            low, high = (typed(end) for end in measure.limits)
            said[f"{visible(measure.column)} below {low} counts as {low}, above {high} as {high}"] = None
        elif isinstance(measure, Histogram):
            low, high = typed(measure.edges[0]), typed(measure.edges[-1])
            said[f"{visible(measure.column)} below {low} or above {high} is left out"] = None
    return list(said)


def described(query: Query, measure: Measure, who: str) -> str:
    """Return what a measure is and what is done to its values; bounds only if a value can be outside them."""
    if isinstance(measure, ColumnMeasure) and not outside_parts(query, [measure]):
        return measure.named
    return measure.said(who)


def too_noisy(table: Columns, bounds: Mapping[str, tuple[float, float]]) -> str:
    """Return which columns of a published table, with these public bounds, are too noisy to use, in a sentence."""
    names = with_limits(table.columns, table.limited)
    data = {names[name]: values for name, values in table.data.items()}
    return too_noisy_to_use(data, {names[name]: ends for name, ends in bounds.items()}, table.groups)


def measured(query: Query, who: str) -> dict[str, str]:
    """Return by name of measure what it is, what is done to its values, and which rows count."""
    caps = capped(query, who)
    return {name: f"{described(query, measure, who)}; {caps}" for name, measure in query.measures}
