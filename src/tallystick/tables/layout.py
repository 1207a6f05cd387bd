"""Layout of a table for people: header, cells and alignment, the same for terminal and notebook.

An error that is the same in every group is in the header (``count_units ±20``). Otherwise each cell
has its interval: ``48.3 (46.8 to 49.8)``.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tallystick.digits import decimals_beside, fixed, interval, nearest, up, value_within
from tallystick.printing import escaped
from tallystick.tables.estimates import cut_at_zero

TOGETHER = "_together"
"""Before the ends of intervals that hold for all groups together, in the names of columns."""
MISSING = "-"
"""The cell of a number that is missing."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table for people: its name, and the text of each value with its interval."""

    name: str
    values: tuple[str, ...]
    intervals: tuple[str, ...] = ()
    error: str = ""
    is_text: bool = False
    all_groups: bool = False
    """True if the error or the intervals hold for all groups together."""

    @property
    def header(self) -> str:
        """The name, and the error if it is the same for all values."""
        if self.error:
            return f"{self.name} {self.error}" + " (all groups)" * self.all_groups
        interval = "95 % interval" + ", all groups" * self.all_groups
        return f"{self.name} ({interval})" if self.intervals else self.name

    @property
    def cells(self) -> list[str]:
        """Values with their intervals; in a fixed-width font the values end in the same place."""
        if not self.intervals:
            return list(self.values)
        width = max(map(len, self.values))
        pairs = zip(self.values, self.intervals, strict=True)
        return [f"{value:>{width}} {ends}".rstrip() for value, ends in pairs]

    def padded(self) -> list[str]:
        """Return header and cells in one width: numbers to the right, texts to the left."""
        texts = [self.header, *self.cells]
        width = max(map(len, texts))
        is_left = self.is_text or bool(self.intervals)
        return [text.ljust(width) if is_left else text.rjust(width) for text in texts]


def lines(columns: Sequence[Column]) -> list[str]:
    """Return the lines of a table: the header, then one line for each row.

    >>> wards = Column("ward", ("n", "west"), is_text=True)
    >>> lines([wards, Column("n", ("12", "1,860"), error="±2")])
    ['ward   n ±2', 'n        12', 'west  1,860']
    """
    rows = zip(*(column.padded() for column in columns), strict=True)
    return ["  ".join(row).rstrip() for row in rows]


def layout(data: Mapping[str, Sequence[Any]], groups: Sequence[str] = (), counts: Sequence[str] = ()) -> list[Column]:
    """Return the columns for people: value and interval of a measure are one column.

    ``groups`` are names even if they are numbers. Intervals of ``counts`` are cut at 0.

    >>> data = {"ward": ["n"], "n": [12], "n_lower": [-8], "n_upper": [32], "ratio": [0.51234]}
    >>> [(column.header, *column.cells) for column in layout(data, ["ward"], ["n"])]
    [('ward', 'n'), ('n ±20', '12'), ('ratio', '0.512')]
    """
    return [_column(data, name, groups, counts) for name in data if not _is_end(data, name)]


def _is_end(data: Mapping[str, Sequence[Any]], name: str) -> bool:
    """True if a column is an end of the interval of another one."""
    of = name[:-6]
    return name.endswith(("_lower", "_upper")) and (of in data or of.removesuffix(TOGETHER) in data)


def _column(data: Mapping[str, Sequence[Any]], name: str, groups: Sequence[str], counts: Sequence[str]) -> Column:
    values = data[name]
    all_groups = f"{name}{TOGETHER}_lower" in data
    lower, upper = (data.get(f"{name}{TOGETHER * all_groups}{end}") for end in ("_lower", "_upper"))
    if name in groups:
        names = tuple(escaped(plain_text(value)) for value in values)
        return Column(escaped(name), names, is_text=True)
    if lower is None or upper is None:
        is_text = not any(_is_number(value) for value in values)
        return Column(escaped(name), tuple(map(cell, values)), is_text=is_text)
    ends = list(zip(lower, upper, strict=True))
    column = _with_one_error(name, values, ends)
    made = column or _with_intervals(name, values, ends, is_count=name in counts)
    return replace(made, all_groups=all_groups)


def _with_one_error(name: str, values: Sequence[Any], ends: Sequence[tuple[Any, Any]]) -> Column | None:
    """Return the column with its error in the header; None if no error fits all values."""
    halves = set()
    for value, (low, high) in zip(values, ends, strict=True):
        if None in (value, low, high):
            return None
        halves |= {value - low, high - value}
    if len(halves) != 1:
        return None
    [half] = halves
    decimals = decimals_beside(half, values)
    if decimals is None:
        return None
    return Column(escaped(name), tuple(fixed(value, decimals) for value in values), error=f"±{up(half)}")


def _with_intervals(name: str, values: Sequence[Any], ends: Sequence[tuple[Any, Any]], *, is_count: bool) -> Column:
    """Return the column with an interval in each cell."""
    shown, intervals = [], []
    for value, (low, high) in zip(values, ends, strict=True):
        if low is None or high is None:
            shown.append(cell(value))
            intervals.append("")
            continue
        least, most = cut_at_zero(value, low, high) if is_count and value is not None else (low, high)
        shown.append(value_within(value, least, most))
        intervals.append(f"({interval(least, most)})")
    return Column(escaped(name), tuple(shown), tuple(intervals))


def cell(value: Any) -> str:
    """Return one value without an interval.

    >>> cell(None), cell(1860), cell(0.51234), cell("west")
    ('-', '1,860', '0.512', 'west')
    """
    if value is None:
        return MISSING
    if isinstance(value, float):
        return nearest(value)
    return f"{value:,}" if _is_number(value) else escaped(plain_text(value))


def plain_text(value: Any) -> str:
    """Return a value as CSV files have it; a missing value is empty."""
    if value is None:
        return ""
    if isinstance(value, float):
        return format(value, ".10g")
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
