"""A private table on the way to a question, as a person sees it: one line, or a small page in a notebook. No data."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING

from tallystick.drawing import table as drawn
from tallystick.printing import html_text, plain, visible
from tallystick.tables.aggregates import ColumnMeasure
from tallystick.tables.budget import outside_parts
from tallystick.tables.keyset import PublicTable
from tallystick.tables.table import EachRow

if TYPE_CHECKING:
    from tallystick.tables.aggregates import Measure
    from tallystick.tables.sources import Source
    from tallystick.tables.table import Grouped, Query, Table


def place(source: Source) -> str:
    """Where the rows are, shortly and without a password.

    >>> from tallystick.tables.sources import source_of
    >>> place(source_of("/data/visits.csv"))
    'visits.csv'
    """
    names = ", ".join(PurePath(path).name for path in source.paths)
    return visible(names or source.to_data()["place"])


def line(table: Table) -> str:
    """Where it is, whom it protects, how much of one counts, and what was done to its rows."""
    done = Counter(step.kind for step in table.steps)
    steps = [f"{number} {kind}{'s' * (number > 1)}" for kind, number in done.items()]
    name = "" if table.source.one_table else f"{visible(table.name)} of "
    return "; ".join([f"{name}{place(table.source)}: {len(table.schema.names)} columns", _whom(table), *steps])


def _whom(table: Table) -> str:
    if isinstance(table.unit, EachRow):
        return "each row is a unit"
    caps = {"group{}": table.max_groups, "row{} in each": table.max_rows}
    capped = " and ".join(f"{n:,} {what.format('s' * (n > 1))}" for what, n in caps.items() if n is not None)
    return f"unit {visible(table.unit)}, {f'at most {capped}' if capped else 'not capped yet: .per_unit(...)'}"


def groups(grouped: Grouped) -> str:
    """The table and its groups."""
    if not grouped.columns:
        return f"{line(grouped.table)}; one total"
    which = f"{len(grouped.keys.rows):,} public" if isinstance(grouped.keys, PublicTable) else "found in the data"
    return f"{line(grouped.table)}; by {visible(', '.join(grouped.columns))} ({which})"


def page(table: Table, said: str | None = None) -> str:
    """The line and the columns with their types and bounds, as HTML."""
    bounds = {name: f"{plain(low)} to {plain(high)}" for name, low, high in table.declared}
    rows = [[visible(name), kind, bounds.get(name, "")] for name, kind in table.schema.columns]
    return f"<p>{html_text(said or line(table))}</p>{drawn(['column', 'type', 'bounds'], rows)}"


def capped(query: Query, who: str) -> str:
    """How much of one unit counts, for somebody who has never heard of caps."""
    if isinstance(query.table.unit, EachRow):
        return "every row counts once"
    rows = query.caps.max_rows if any(measure.by_rows for _, measure in query.measures) else None
    return counts(who, groups=query.caps.max_groups if query.columns else None, rows=rows)


def counts(who: str, *, groups: int | None, rows: int | None) -> str:
    """The same from the caps; None is no such cap.

    >>> counts("patient", groups=2, rows=None)
    'one patient counts in at most 2 groups'
    >>> counts("patient", groups=None, rows=5)
    'at most 5 rows of one patient count in full (if there are more, each counts less, and all together as 5)'
    """
    inside, one = "" if groups is None else " in a group", rows == 1
    in_groups = f"one {who} counts in at most {groups:,} group{'s' * (groups > 1)}" if groups is not None else ""
    in_full = (
        f"at most {rows:,} row{'s' * (not one)} of one {who}{inside} count{'s' * one} in full (if there are more, each "
        f"counts less, and all together as {rows:,})"
        if rows is not None
        else ""
    )
    return "; ".join(filter(None, (in_groups, in_full))) or f"every {who} counts once"


def measured(query: Query, who: str) -> dict[str, str]:
    """By name of measure: what it is, what is done to its values, and which rows count."""
    caps = capped(query, who)
    return {name: f"{said(query, one)}; {caps}" for name, one in query.measures}


def said(query: Query, measure: Measure) -> str:
    """What a measure is and what is done to its values; nothing of bounds that no value can be beyond."""
    if isinstance(measure, ColumnMeasure) and not outside_parts(query, [measure]):
        return measure.named
    return measure.said
