"""Reports on what caps and bounds left out: how much, of how much, and which share; read from the noisy integers.

A new report is one function and its entry in ``REPORTS``: the function reads one part and gives its lines, and the
entry says which questions have such a part. ``words`` has their sentences. Reading is post-processing. A share is a
ratio of two noisy numbers, with the interval of Fieller that ``ratio`` gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tallystick.accounting import check
from tallystick.digits import plural
from tallystick.inference.linear import half_width
from tallystick.tables.estimates import Estimate, Noisy, ratio
from tallystick.tables.expressions import constants_of
from tallystick.tables.parts import Caps, OfTable, Outside, Part, RowsOver, UnitsOver
from tallystick.tables.reporting import words
from tallystick.tables.reporting.line import Line
from tallystick.tables.reporting.totals import RowsCounted, UnitsBeyond, UnitsSeen

if TYPE_CHECKING:
    from tallystick.tables.aggregates import Measure
    from tallystick.tables.table import Query, Table


def removed_parts(query: Query, seen_to: int, totals: bool) -> tuple[OfTable, ...]:
    """Return what may be left out, by what is public alone: the parts of all reports.

    With ``totals`` also of how many: units in all, and rows that count.
    """
    asked: list[OfTable] = []
    of: list[OfTable] = []
    for report in REPORTS.values():
        parts = report.parts(query, seen_to)
        asked += parts
        of += [report.total] if parts and totals else []
    return tuple(dict.fromkeys([*asked, *of]))


def _caps_exceeded(query: Query, seen_to: int) -> list[UnitsOver]:
    groups, rows = query.can_leave_out
    caps = query.caps
    over = [UnitsOver(caps.max_groups, groups=True)] if groups and not _is_implied(caps, caps.max_groups) else []
    over += [UnitsOver(caps.max_rows, groups=False)] if rows and not _is_implied(caps, caps.max_rows) else []
    return over


def _is_implied(caps: Caps, cap: int) -> bool:
    """True if a unit over a cap has more rows in all than count, too: one number says both."""
    return caps.in_all is not None and cap >= caps.in_all


def _rows_in_all_exceeded(query: Query, seen_to: int) -> list[UnitsBeyond]:
    in_all = query.caps.in_all
    return [] if in_all is None else [UnitsBeyond(in_all)]


def _rows_exceeding(query: Query, seen_to: int) -> list[RowsOver]:
    _, rows = query.can_leave_out
    return [RowsOver(seen_to)] if rows else []


def outside_parts(query: Query, measures: Iterable[Measure] | None = None) -> list[Outside]:
    """Return the counts of values beyond the bounds of measures, where there can be any: not of chosen constants."""
    asked = [one for _, one in query.measures] if measures is None else measures
    parts = [one.outside for one in asked if one.outside is not None]
    return [part for part in parts if not _is_inside(query.table, part)]


def _is_inside(table: Table, part: Outside) -> bool:
    """True if the column was derived as one of a few constants, all of them inside the bounds."""
    for step in reversed(table.steps):
        if step.kind == "derive" and step.name == part.column and step.expression is not None:
            values = constants_of(step.expression)
            return values is not None and all(part.lower <= value <= part.upper for value in values)
        if step.kind not in ("derive", "filter"):
            break  # a name may mean something else before it
    return False


@dataclass(frozen=True, slots=True)
class Reading:
    """Noisy numbers of a release, read at one confidence."""

    numbers: Mapping[Part, Noisy]
    confidence: float
    who: str = "unit"
    """The word for one person."""

    def line(self, part: OfTable, place: int, of: str, did: str, *, label: str = "", is_beside: bool = False) -> Line:
        """Return the line of one number of a part, with its share of the report's total if that was asked.

        ``of`` says what the total is of, ``did`` what is true of the share, and ``label`` names it in a table. A
        number that ``is_beside`` the total is not a part of it: the share is of both together.
        """
        noisy = self.numbers[part]
        number = replace(noisy, values=noisy.values[:, place : place + 1])
        half = noisy.half_width(1.0 - self.confidence)
        value = float(number.column[0])
        # a number below zero is read as 0, as ``ratio`` reads it: nearer to every number that it can be
        what = part.told[place]
        line = Line(what, *_whole(value, value - half, max(value, 0.0) + half), label=label or what)
        whole = self.numbers.get(REPORTS[type(part)].total)
        if whole is None:
            return line
        read = _of_both if is_beside else _of_one
        sums, shares = read(number, whole, self.confidence)
        middle, least, most = _whole(*sums.first())
        share, smallest, largest = shares.first()
        if line.upper and not line.lower:
            # "at most 64 of about 1,000": no smaller share than a reader gets who divides the two
            largest = max(largest, min(1.0, line.upper / max(1, middle)))
        return replace(
            line,
            did=did,
            of=plural(self.who) if of == words.UNITS else of,
            may_be_more=is_beside,
            total=middle,
            total_lower=least,
            total_upper=most,
            share=None if math.isnan(share) else share,
            share_lower=smallest,
            share_upper=largest,
        )


def units_over(part: UnitsOver, reading: Reading) -> Iterator[Line]:
    """Report the units with more groups, or more rows in some group, than count."""
    did = words.had_more(part.cap, are_groups=part.groups)
    label = words.over_label(part.cap, reading.who, are_groups=part.groups)
    line = reading.line(part, 0, words.UNITS, did, label=label)
    yield replace(line, limit=part.cap, is_of_groups=part.groups)


def units_beyond(part: UnitsBeyond, reading: Reading) -> Iterator[Line]:
    """Report the units with more rows in all than count."""
    did, label = words.had_more_in_all(part.cap), words.in_all_label(part.cap, reading.who)
    line = reading.line(part, 0, words.UNITS, did, label=label)
    yield replace(line, limit=part.cap)


def rows_over(part: RowsOver, reading: Reading) -> Iterator[Line]:
    """Report the rows over the caps. They are beside the rows that count, and may be more."""
    did, label = words.were_over_limits(part.seen_to, reading.who), words.rows_label(part.seen_to, reading.who)
    line = reading.line(part, 0, words.ROWS, did, label=label, is_beside=True)
    yield replace(line, seen_to=part.seen_to)


def values_outside(part: Outside, reading: Reading) -> Iterator[Line]:
    """Report the values below, and those above the bounds of a column."""
    below, above = words.had_value_below(part.column, part.lower), words.had_value_above(part.column, part.upper)
    lower = words.outside_label(part.column, part.lower, is_above=False)
    upper = words.outside_label(part.column, part.upper, is_above=True)
    yield reading.line(part, 0, words.COUNTED, below, label=lower)
    yield reading.line(part, 1, words.COUNTED, above, label=upper)


@dataclass(frozen=True, slots=True)
class LimitReport:
    """One report: which questions have it, the total of which its number is a share, and its lines."""

    parts: Callable[[Query, int], Sequence[OfTable]]
    """Return the parts that a question has, by what is public alone; a unit's rows are seen up to the second one."""
    total: OfTable
    lines: Callable[[Any, Reading], Iterator[Line]]


REPORTS: Final[Mapping[type[OfTable], LimitReport]] = {
    UnitsOver: LimitReport(_caps_exceeded, UnitsSeen(), units_over),
    UnitsBeyond: LimitReport(_rows_in_all_exceeded, UnitsSeen(), units_beyond),
    RowsOver: LimitReport(_rows_exceeding, RowsCounted(), rows_over),
    Outside: LimitReport(lambda query, _: outside_parts(query), RowsCounted(), values_outside),
}
"""The report of each part, in the order of the output. Totals have no report: they stand with the parts."""


def limit_lines(
    parts: Sequence[OfTable], numbers: Mapping[Part, Noisy], confidence: float, who: str = "unit"
) -> tuple[Line, ...]:
    """Return the lines of all parts, in their order; ``who`` is the word for one person."""
    reading = Reading(numbers, check.inside("confidence", confidence), who)
    reported = (part for part in parts if type(part) in REPORTS)
    return tuple(line for part in reported for line in REPORTS[type(part)].lines(part, reading))


def all_rows(
    query: Query, numbers: Mapping[Part, Noisy], confidence: float, most_rows: int | None = None
) -> Line | None:
    """Return the line on all rows in the groups, counted or over the limits; None if the plan did not pay for it.

    ``most_rows`` is a public maximum of rows of one unit in the stored table. Without it the upper end is not known:
    rows of a unit over the limits are counted up to ``seen_to`` (docs/theory/query-removed.md).
    """
    over = next((part for part in query.removed if isinstance(part, RowsOver)), None)
    if over is None or RowsCounted() not in numbers:
        return None
    beyond, counted = numbers[over], numbers[RowsCounted()]
    least, below = _with_counted(counted, beyond, 1.0, confidence)
    value, lower, _ = _whole(least, least - below, 0.0)
    upper = None
    if most_rows is not None and all(step.kind in ROW_BY_ROW for step in query.table.steps):
        # a unit that reached ``seen_to`` has at most most_rows - 1 rows over the limits, because one row counts
        most, above = _with_counted(counted, beyond, max(1.0, (most_rows - 1) / over.seen_to), confidence)
        upper = max(lower, math.ceil(most + above))
    return Line(words.ALL_ROWS, value, lower, upper, label=words.ALL_ROWS, is_of_all=True)


ROW_BY_ROW: Final = ("filter", "derive")
"""Steps after which no unit has more rows than in the stored table."""


def _with_counted(counted: Noisy, over: Noisy, times: float, confidence: float) -> tuple[float, float]:
    """Return rows that count plus a multiple of those over the limits, and the half-width of their noise."""
    errors, step = (counted.deviation, times * over.deviation), counted.scale + times * over.scale
    half = half_width(over.law.deviations(confidence), errors, step)
    return float(counted.column[0] + times * over.column[0]), half


def _of_one(number: Noisy, whole: Noisy, confidence: float) -> tuple[Estimate, Estimate]:
    """Return the total of which a number is a part, and its share."""
    half = whole.half_width(1.0 - confidence)
    return Estimate.around(whole.column, half), ratio(number, whole, 1.0, confidence)


def _of_both(over: Noisy, counted: Noisy, confidence: float) -> tuple[Estimate, Estimate]:
    """Return the sum of two parts of a total, and the share of the first from their ratio q as q / (1 + q)."""
    value = np.maximum(over.column, 0.0) + counted.column
    half = half_width(over.law.deviations(confidence), (over.deviation, counted.deviation), over.scale)
    odds = ratio(over, counted, math.inf, confidence)
    return Estimate.around(value, half), odds.map(lambda q: 1.0 - 1.0 / (1.0 + q))


def _whole(value: float, lower: float, upper: float) -> tuple[int, int, int]:
    """Return whole numbers, none negative, the interval rounded outward."""
    return max(0, round(value)), max(0, math.floor(lower)), max(0, math.ceil(upper))
