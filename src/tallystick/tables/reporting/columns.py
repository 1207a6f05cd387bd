"""What a column of a published table is, and what was done to its values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.tables.aggregates import ColumnMeasure
from tallystick.tables.reporting.limits import outside_parts
from tallystick.tables.reporting.words import contribution
from tallystick.tables.steps import EachRow

if TYPE_CHECKING:
    from tallystick.tables.aggregates import Measure
    from tallystick.tables.table import Query


def capped(query: Query, who: str) -> str:
    """Return how much of one unit counts in a question, for a reader who has never heard of caps."""
    if isinstance(query.table.unit, EachRow):
        return "every row counts once"
    rows = query.caps.max_rows if any(measure.by_rows for _, measure in query.measures) else None
    return contribution(who, groups=query.caps.max_groups if query.columns else None, rows=rows)


def described(query: Query, measure: Measure) -> str:
    """Return what a measure is and what is done to its values; nothing of bounds that no value can be beyond."""
    if isinstance(measure, ColumnMeasure) and not outside_parts(query, [measure]):
        return measure.named
    return measure.said


def measured(query: Query, who: str) -> dict[str, str]:
    """Return by name of measure what it is, what is done to its values, and which rows count."""
    caps = capped(query, who)
    return {name: f"{described(query, measure)}; {caps}" for name, measure in query.measures}
