"""Pictures of cards and audit pages: dots, a budget bar, tables with a chart column, the trade-off curve.

A picture is SVG without colours and without a ``viewBox`` where it has text: the style sheet colours it, and its text
keeps its size at every width. Positions are percentages or pixels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tallystick.digits import interval, up, value_within
from tallystick.printing import html_text
from tallystick.tables.reporting.words import is_too_noisy

LONGEST_NAME: Final = 40
"""Characters of a group's name in a chart; a longer one is cut."""
MOST_TICKS: Final = 5
"""Ticks of an axis."""


def dots(marked: int, about: str) -> str:
    """Draw a hundred possible results in ten rows, the first ``marked`` of them filled.

    >>> "M10 10h180.1" in dots(10, "10 of 100 dots are filled")
    True
    """
    filled, empty = _rows_of_dots(0, marked), _rows_of_dots(marked, 100)
    label = html_text(about)
    return (
        f'<svg viewBox="0 0 200 200" role="img" aria-label="{label}">'
        f'<path class="dots-off" d="{empty}"/>'
        f'<path class="dots-hole" d="{empty}"/>'
        f'<path class="dots-on" d="{filled}"/></svg>'
    )


def _rows_of_dots(start: int, stop: int) -> str:
    """Return a path along the dots from ``start`` up to ``stop``; a dash pattern makes dots of it."""
    pieces = []
    for row in range(10):
        first = max(start, 10 * row)
        last = min(stop, 10 * row + 10)
        if first < last:
            x, y = 10 + 20 * (first - 10 * row), 10 + 20 * row
            pieces.append(f"M{x} {y}h{20 * (last - first - 1) + 0.1:g}")
    return "".join(pieces)


def budget_bar(share: float, about: str) -> str:
    """Draw a bar of which a share is filled.

    >>> 'width="60%"' in budget_bar(0.6, "60 % used")
    True
    """
    used = _percent(min(1.0, max(0.0, share)))
    return (
        f'<svg class="budget" height="18" role="img" aria-label="{html_text(about)}">'
        '<rect class="bar-all" y="1" width="100%" height="16"/>'
        f'<rect class="bar-used" width="{used}" height="18"/></svg>'
    )


@dataclass(frozen=True, slots=True)
class Row:
    """One group of a chart: its name, its value and interval in words, and its strip as SVG."""

    name: str
    value: str
    interval: str
    strip: str
    is_noisy: bool = False
    """True if the value is too noisy to use."""


@dataclass(frozen=True, slots=True)
class IntervalChart:
    """A table of groups whose last column draws each value with its interval."""

    rows: tuple[Row, ...]
    axis: str
    error: str
    """The error in words if it is the same in every group; else empty."""
    from_zero: bool
    more: int
    """Groups of the published table that are not drawn."""


def interval_chart(
    chart: Mapping[str, Any], *, from_zero: bool, bounds: tuple[float, float] | None = None
) -> IntervalChart:
    """Return the rows of a chart: bars from 0, or dots on an axis that need not start at 0.

    With public ``bounds``, a value is marked if its interval covers more than half of them.

    >>> chart = {"groups": ["a"], "value": [3], "lower": [1], "upper": [5], "more": 0}
    >>> drawn = interval_chart(chart, from_zero=True)
    >>> drawn.rows[0].value, drawn.error
    ('3', '±2')
    """
    cells = list(zip(chart["groups"], chart["value"], chart["lower"], chart["upper"], strict=True))
    axis = Axis.of([end for _, *ends in cells for end in ends if end is not None], from_zero=from_zero)
    error = _common_error(cells)
    rows = [_row(cell, axis, from_zero=from_zero, has_interval=not error) for cell in cells]
    if bounds is not None:
        marks = [is_too_noisy(value, low, high, bounds) for _, value, low, high in cells]
        rows = [replace(row, is_noisy=mark) for row, mark in zip(rows, marks, strict=True)]
    return IntervalChart(tuple(rows), axis.svg(), error, from_zero, chart["more"])


def _row(cell: tuple[Any, ...], axis: Axis, *, from_zero: bool, has_interval: bool) -> Row:
    name, value, lower, upper = cell
    short = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
    if lower is None or upper is None:
        return Row(short, "no value", "", "")
    between = interval(lower, upper) if has_interval or value is None else ""
    line = _whisker(axis, lower, upper, has_ends=from_zero)
    if value is None:
        return Row(short, "no value", between, _strip(line))
    mark = _bar(axis, value) if from_zero else _dot(axis, value)
    parts = [mark, line] if from_zero else [*axis.grid(), line, mark]
    return Row(short, value_within(value, lower, upper), between, _strip(*parts))


def _strip(*parts: str) -> str:
    return f'<svg height="20" aria-hidden="true">{"".join(parts)}</svg>'


def _bar(axis: Axis, value: float) -> str:
    start, end = sorted((axis.at(0.0), axis.at(value)))
    return f'<rect class="bar" x="{_percent(start)}" y="3" width="{_percent(end - start)}" height="14"/>'


def _dot(axis: Axis, value: float) -> str:
    return f'<circle class="dot" cx="{_percent(axis.at(value))}" cy="10" r="6"/>'


def _whisker(axis: Axis, lower: float, upper: float, *, has_ends: bool) -> str:
    low, high = _percent(axis.at(lower)), _percent(axis.at(upper))
    lines = [f'<line class="whisker" x1="{low}" x2="{high}" y1="10" y2="10"/>']
    if has_ends:
        lines += [f'<line class="whisker" x1="{end}" x2="{end}" y1="5" y2="15"/>' for end in (low, high)]
    return "".join(lines)


def _common_error(cells: Sequence[tuple[Any, ...]]) -> str:
    """Return the half width of all intervals in words if it is the same, and around the value; else nothing."""
    halves = {_half_width(*ends) for _, *ends in cells}
    half = halves.pop() if len(halves) == 1 else None
    return "" if half is None else f"±{up(half)}"


def _half_width(value: float | None, lower: float | None, upper: float | None) -> float | None:
    if value is None or lower is None or upper is None:
        return None
    is_centred = math.isclose(value - lower, upper - value, rel_tol=1e-9)
    return float(upper - lower) / 2 if is_centred else None


@dataclass(frozen=True, slots=True)
class Axis:
    """A horizontal axis from ``low`` to ``high`` with its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def of(cls, ends: Sequence[float], *, from_zero: bool) -> Axis:
        """Return an axis that holds all ends, and 0 if bars start there.

        >>> Axis.of([12.0, 93.0], from_zero=True).ticks
        (0.0, 25.0, 50.0, 75.0, 100.0)
        """
        known = [float(end) for end in ends] or [0.0]
        if from_zero:
            known.append(0.0)
        low, high = min(known), max(known)
        if low == high:
            high = low + (abs(low) or 1.0)
        step = _tick_step((high - low) / (MOST_TICKS - 1))
        first, last = math.floor(low / step), math.ceil(high / step)
        return cls(first * step, last * step, tuple(step * number for number in range(first, last + 1)))

    def at(self, value: float) -> float:
        """Return the place of a value as a share of the axis."""
        return (value - self.low) / (self.high - self.low)

    def grid(self) -> list[str]:
        """Draw one light line for each tick."""
        places = [_percent(self.at(tick)) for tick in self.ticks]
        return [f'<line class="grid" x1="{x}" x2="{x}" y1="-8" y2="28"/>' for x in places]

    def svg(self) -> str:
        """Draw the axis with its labels; every second label may hide where there is little room."""
        parts = ['<line class="zero" x1="0" x2="100%" y1="0" y2="0"/>']
        for number, tick in enumerate(self.ticks):
            share = self.at(tick)
            x = _percent(share)
            anchor = "start" if share < 0.03 else "end" if share > 0.97 else "middle"
            kind = "axis tick-odd" if number % 2 and len(self.ticks) > 3 else "axis"
            parts.append(f'<line class="zero" x1="{x}" x2="{x}" y1="0" y2="4"/>')
            parts.append(f'<text class="{kind}" x="{x}" y="17" text-anchor="{anchor}">{tick_text(tick)}</text>')
        return f'<svg height="20" aria-hidden="true">{"".join(parts)}</svg>'


def tick_text(value: float) -> str:
    """Return the label of a tick.

    >>> tick_text(2500.0), tick_text(0.25), tick_text(2e9)
    ('2,500', '0.25', '2 billion')
    """
    for size, word in ((1e9, "billion"), (1e6, "million")):
        if abs(value) >= size:
            return f"{value / size:,.4g} {word}"
    return f"{value:,.10g}"


def _tick_step(least: float) -> float:
    """Return the smallest round step that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if power * factor >= least * (1 - 1e-9))


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


# The trade-off curve, in pixels: 280 wide, so that its text is never scaled.

LEFT, TOP, SIDE = 42, 10, 228


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of the trade-off plot, with the name that stands beside it."""

    name: str
    misses: Sequence[float]
    is_limit: bool


def tradeoff(
    alpha: Sequence[float],
    curves: Sequence[Curve],
    *,
    about: str,
    point: tuple[float, float] | None = None,
) -> str:
    """Draw misses against false accusations in per cent; the region below the first curve is shaded.

    ``point`` is one attack: its share of false accusations and its share of misses.

    >>> tradeoff([0, 1], [Curve("limit", [0.5, 0], True)], about="a curve").startswith("<svg")
    True
    """
    first = curves[0]
    shaded = f"{_line(alpha, first.misses)}L{LEFT + SIDE} {TOP + SIDE}L{LEFT} {TOP + SIDE}Z"
    parts = [f'<path class="fill-mark-wash" d="{shaded}"/>', *_square_grid()]
    guessing = f'x1="{LEFT}" y1="{TOP}" x2="{LEFT + SIDE}" y2="{TOP + SIDE}"'
    parts.append(f'<line class="line-dash" {guessing}/>')
    for curve in curves:
        kind = "line-mark" if curve.is_limit else "line-data"
        parts.append(f'<path class="{kind}" d="{_line(alpha, curve.misses)}"/>')
    parts += _names(alpha, curves)
    if point is not None:
        x, y = _place(*point)
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
        parts.append(_label(point[0] + 0.04, point[1] + 0.03, "this attack", "of-data", "start"))
    below = f'x="{LEFT + SIDE / 2}" y="{TOP + SIDE + 38}"'
    beside = f'transform="translate(13 {TOP + SIDE / 2}) rotate(-90)"'
    parts.append(f'<text class="axis" {below} text-anchor="middle">false accusations, %</text>')
    parts.append(f'<text class="axis" {beside} text-anchor="middle">misses, %</text>')
    return f'<svg width="280" height="286" role="img" aria-label="{html_text(about)}">{"".join(parts)}</svg>'


def _names(alpha: Sequence[float], curves: Sequence[Curve]) -> list[str]:
    """Return the names of the curves: that of the limit inside the shaded corner, others right of their line."""
    parts = [_label(0.62, 0.56, "guessing", "axis", "start")]
    for curve in curves:
        if curve.is_limit:
            parts.append(_label(0.05, 0.05, curve.name, "of-mark", "start"))
            continue
        # Halfway along the curve, where misses and false accusations are equal.
        gaps = [abs(a - b) for a, b in zip(alpha, curve.misses, strict=True)]
        middle = alpha[gaps.index(min(gaps))]
        parts.append(_label(middle + 0.03, middle + 0.03, curve.name, "of-data", "start"))
    return parts


def _label(x: float, y: float, words: str, kind: str, anchor: str) -> str:
    left, top = _place(x, y)
    return f'<text class="{kind} halo" x="{left:.0f}" y="{top:.0f}" text-anchor="{anchor}">{html_text(words)}</text>'


def _square_grid() -> list[str]:
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = _place(share, share)
        kind = "zero" if share == 0 else "grid"
        label = f"{100 * share:.0f}"
        parts.append(f'<line class="{kind}" x1="{LEFT}" x2="{LEFT + SIDE}" y1="{y}" y2="{y}"/>')
        parts.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="{TOP}" y2="{TOP + SIDE}"/>')
        parts.append(f'<text class="axis" x="{LEFT - 6}" y="{y + 5}" text-anchor="end">{label}</text>')
        parts.append(f'<text class="axis" x="{x}" y="{TOP + SIDE + 18}" text-anchor="middle">{label}</text>')
    return parts


def _line(alpha: Sequence[float], misses: Sequence[float]) -> str:
    points = [_place(a, b) for a, b in zip(alpha, misses, strict=True)]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _place(x: float, y: float) -> tuple[float, float]:
    """Return the pixels of a point of the unit square."""
    return LEFT + SIDE * x, TOP + SIDE * (1 - y)
