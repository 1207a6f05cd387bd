"""Small tables with everything that can go wrong in them, and a plain-Python reading of the stated rules."""

from __future__ import annotations

import datetime
import hashlib
import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tallystick.tables.estimates import Noisy
from tallystick.tables.parts import Binned, ColumnPart, Gridded, Outside, Part, Rows, Total, UnitsOver
from tallystick.tables.plan import Plan
from tallystick.tables.reporting.rows import CellRowsOver, CellsOver
from tallystick.tables.reporting.totals import RowsCounted, UnitsBeyond, UnitsSeen
from tallystick.tables.units_with import UnitsWith

STEPS = 2**16
"""Of a row that is counted at a weight."""

WARDS = ["a", "b'x", "c\\d", "ü;--"]


def awkward(rows: int = 1500, seed: int = 0) -> pa.Table:
    """NULL units and groups, NaN, infinities, huge values, quotes and backslashes; units above both caps."""
    rng = np.random.default_rng(seed)
    cost = rng.gamma(2, 500, rows)
    cost[:20], cost[20:40], cost[40:60], cost[60] = np.nan, np.inf, -np.inf, 1e308
    units = [None if u < 0.02 else int(i) for u, i in zip(rng.random(rows), rng.integers(0, 90, rows), strict=True)]
    wards = [None if u < 0.02 else str(w) for u, w in zip(rng.random(rows), rng.choice(WARDS, rows), strict=True)]
    costs = [None if u < 0.03 else float(c) for u, c in zip(rng.random(rows), cost, strict=True)]
    days = [datetime.date(2024, 12, 30) + datetime.timedelta(days=int(d)) for d in rng.integers(0, 4, rows)]
    return pa.table(
        {
            "pid": pa.array(units, pa.int64()),
            "ward": pa.array(wards, pa.string()),
            "day": pa.array(days, pa.date32()),
            "ok": pa.array(rng.random(rows) < 0.5),
            "cost": pa.array(costs, pa.float64()),
            "days": pa.array(rng.integers(-5, 60, rows), pa.int32()),
        }
    )


PRIME = 2**31 - 1
Cell = tuple[Any, Any, list[dict[str, Any]], int]
"""Unit, group, rows, and how many of them count."""


def md5_of(salt: str, *pieces: Any) -> str:
    """md5 in hexadecimal: texts after their length, everything else before a colon."""
    told = (f"{len(piece)}:{piece}" if isinstance(piece, str) else f"{piece}:" for piece in pieces)
    text = f"{salt}:" + "".join(told)
    return hashlib.md5(text.encode()).hexdigest()


def place_of(salt: str, unit: Any, group: tuple[Any, ...]) -> int:
    """Where a group stands for a unit: on the unit's line, at the group's point."""
    line, point = md5_of(f"{salt}:unit", unit), md5_of(f"{salt}:group", *group)
    slope, shift = int(line[:8], 16) % (PRIME - 1) + 1, int(line[8:16], 16) % PRIME
    return (slope * (int(point[:8], 16) % PRIME) + shift) % PRIME


def expected(plan: Plan, rows: list[dict[str, Any]]) -> dict[Part, dict[Any, Any]]:
    """The integers of every part by group, read off the rules row by row. Groups are tuples of values."""
    kept, _ = _capped(plan, rows)
    return {part: _total(part, kept) for part in plan.query.parts}


def removed(plan: Plan, rows: list[dict[str, Any]]) -> dict[Part, list[int]]:
    """The integers about the whole table, read off the rules unit by unit, in steps of 2^-16."""
    kept, cells = _capped(plan, rows)
    found: dict[Part, list[int]] = {}
    for part in plan.query.removed:
        if isinstance(part, Outside):
            ends = [0, 0]
            for _, _, own, most in kept:
                values = [value for row in own if (value := _value(part, row)) is not None]
                for end, number in enumerate(
                    (sum(v < part.lower for v in values), sum(v > part.upper for v in values))
                ):
                    ends[end] += number * most * STEPS // len(own) if len(own) > most else number * STEPS
            found[part] = ends
        elif isinstance(part, UnitsOver):
            sizes = [len(groups) if part.groups else max(map(len, groups.values())) for groups in cells.values()]
            found[part] = [STEPS * sum(size > part.cap for size in sizes)]
        elif isinstance(part, UnitsBeyond):
            found[part] = [STEPS * sum(sum(map(len, groups.values())) > part.cap for groups in cells.values())]
        elif isinstance(part, UnitsSeen):
            found[part] = [STEPS * len(cells)]
        elif isinstance(part, RowsCounted):
            found[part] = [STEPS * sum(min(most, len(own)) for _, _, own, most in kept)]
        else:
            counted = {unit: sum(min(most, len(own)) for u, _, own, most in kept if u == unit) for unit in cells}
            lost = [sum(map(len, groups.values())) - counted[unit] for unit, groups in cells.items()]
            found[part] = [STEPS * sum(min(part.seen_to, each) for each in lost)]
    return found


def _capped(plan: Plan, rows: list[dict[str, Any]]) -> tuple[list[Cell], Any]:
    """The cells that count, as (unit, group, rows, how many of them count), and all there are."""
    query = plan.query
    listed = None if query.keys is None else getattr(query.keys, "rows", None)
    cells: dict[Any, dict[Any, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        unit, group = row[query.table.unit], tuple(row[column] for column in query.columns)  # type: ignore[index]
        if unit is not None and None not in group and (listed is None or group in listed):
            cells[unit][group].append(row)
    kept: list[Cell] = []
    told: Callable[[Any], Any] = lambda g: (listed.index(g),) if listed else tuple(_canonical(v) for v in g)  # noqa: E731
    for unit, groups in cells.items():
        chosen = sorted(groups, key=lambda g: place_of(plan.salt, unit, told(g)))[: query.caps.max_groups]
        own = counting = [min(query.caps.max_rows, len(groups[group])) for group in chosen]
        if query.caps.in_all == query.caps.max_rows:  # of so many rows in all no group has more
            own = [len(groups[group]) for group in chosen]
        if query.caps.in_all is not None and sum(own) > query.caps.in_all:
            counting = spread(own, query.caps.in_all, shift_of(plan.salt, unit) % sum(own))
        kept += [(unit, group, groups[group], most) for group, most in zip(chosen, counting, strict=True)]
    return kept, cells


def spread(own: list[int], in_all: int, offset: int) -> list[int]:
    """How many rows of each cell count: marks at equal distances over all rows, in order, counted in each cell.

    Row i of T, from 0, has a mark if a multiple of T lies in (i R + offset, (i + 1) R + offset].
    """
    total, counting, row = sum(own), [], 0
    for rows in own:
        marked = [
            i for i in range(row, row + rows) if ((i + 1) * in_all + offset) // total > (i * in_all + offset) // total
        ]
        counting.append(len(marked))
        row += rows
    return counting


def shift_of(salt: str, unit: Any) -> int:
    """The shift of a unit's line."""
    return int(md5_of(f"{salt}:unit", unit)[8:16], 16) % PRIME


def _canonical(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def _total(part: Part, kept: list[Cell]) -> dict[Any, Any]:
    found: dict[Any, Any] = defaultdict(lambda: defaultdict(int) if isinstance(part, Binned) else 0)
    for _, group, rows, most in kept:
        count = len(rows)
        if isinstance(part, Binned):
            inside: dict[int, int] = defaultdict(int)
            for row in rows:
                place = _bin(part, _value(part, row))
                if place is not None:
                    inside[place] += 1
            for place, number in inside.items():
                found[group][place] += number * most * STEPS // count if count > most else number * STEPS
            continue
        number = min(count, most) if isinstance(part, Rows) else 1
        if isinstance(part, CellsOver):
            number = int(count > most)
        elif isinstance(part, CellRowsOver):
            number = min(part.seen_to, max(0, count - most))
        if isinstance(part, UnitsWith):
            number = int(any(_value(part, row) is not None for row in rows))
        elif isinstance(part, ColumnPart):
            number = sum(_integer(part, _value(part, row)) for row in rows) * _finer(part)
            number = number * most // count if count > most else number
        found[group] += number
    return found


def _value(part: ColumnPart, row: dict[str, Any]) -> float | None:
    value = row[part.column]
    if value is None or math.isnan(value):
        return part.missing
    return float(value)


def _integer(part: ColumnPart, value: float | None) -> int:
    if value is None:
        return 0
    if not isinstance(part, Gridded):
        return 1
    grid = part.grid
    q = math.floor((min(max(value, grid.lower), grid.upper) - grid.lower) * grid.inverse)
    return q if isinstance(part, Total) else (q * q) >> grid.square_shift


def _finer(part: ColumnPart) -> int:
    """Numbers of rows have steps of 2^-16, and values as many as leave the largest one below 2^24."""
    if not isinstance(part, Gridded):
        return STEPS
    most = part.grid.top if isinstance(part, Total) else part.grid.square_top
    return max(1 << n for n in range(17) if n == 0 or most << n < 2**24)


def _bin(part: Binned, value: float | None) -> int | None:
    bins = part.bins
    if value is None or (not bins.clamp and not bins.edges[0] <= value <= bins.edges[-1]):
        return None
    return min(bins.count - 1, max(0, int(np.searchsorted(bins.edges, value, side="right")) - 1))


def numbers_of(plan: Plan, rows: float, **off: float) -> dict[Part, Noisy]:
    """Noisy numbers of a table of so many rows, by the kind of the part so many deviations off from 0."""
    found = {}
    for noise in plan.noises:
        part, deviation = noise.part, noise.law.variance**0.5
        steps = off.get(part.kind.replace(" ", "_"), 0.0) * deviation
        if part.kind in ("present", "rows", "units seen", "rows counted"):
            steps = rows / part.scale
        found[part] = Noisy(np.full((1, part.width), round(steps)), noise.law, part.scale)
    return found
