"""A private table on the way to a question, as a person sees it: one line, or a small page in a notebook. No data."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING

from tallystick.digits import typed
from tallystick.drawing import table as drawn
from tallystick.printing import html_text, visible
from tallystick.tables.keyset import PublicTable
from tallystick.tables.steps import EachRow

if TYPE_CHECKING:
    from tallystick.tables.sources import Source
    from tallystick.tables.table import Grouped, Table


def place(source: Source) -> str:
    """Return where the rows are, shortly and without a password.

    >>> from tallystick.tables.sources import source_of
    >>> place(source_of("/data/visits.csv"))
    'visits.csv'
    """
    names = ", ".join(PurePath(path).name for path in source.paths)
    return visible(names or source.to_data()["place"])


def line(table: Table) -> str:
    """Return where a table is, whom it protects, how much of one counts, and what was done to its rows."""
    done = Counter(step.kind for step in table.steps)
    steps = [f"{number} {kind}{'s' * (number > 1)}" for kind, number in done.items()]
    name = "" if table.source.one_table else f"{visible(table.name)} of "
    return "; ".join([f"{name}{place(table.source)}: {len(table.schema.names)} columns", _whom(table), *steps])


def _whom(table: Table) -> str:
    if isinstance(table.unit, EachRow):
        return "each row is a unit"
    caps = {"group{}": table.max_groups, "row{} in each": table.max_rows, "row{} in all": table.max_rows_in_all}
    capped = " and ".join(f"{n:,} {what.format('s' * (n > 1))}" for what, n in caps.items() if n is not None)
    return f"unit {visible(table.unit)}, {f'at most {capped}' if capped else 'without limits: .per_unit(...)'}"


def groups(grouped: Grouped) -> str:
    """Return a table and its groups, in a line."""
    if not grouped.columns:
        return f"{line(grouped.table)}; one total"
    which = f"{len(grouped.keys.rows):,} public" if isinstance(grouped.keys, PublicTable) else "found in the data"
    return f"{line(grouped.table)}; by {visible(', '.join(grouped.columns))} ({which})"


def page(table: Table, said: str | None = None) -> str:
    """Return the line of a table and its columns with their types and bounds, as HTML."""
    bounds = {name: f"{typed(low)} to {typed(high)}" for name, low, high in table.declared}
    bounds |= {name: f"{first} to {last}" for name, first, last in table.periods}
    rows = [[visible(name), kind, bounds.get(name, "")] for name, kind in table.schema.columns]
    return f"<p>{html_text(said or line(table))}</p>{drawn(['column', 'type', 'bounds'], rows)}"
