"""A question answered by sorting: rows come from an engine as arrays, and their integers are added up here.

They are the integers that ``program.py`` asks an engine for, and all are exact: fewer than 2^25 rows are handed over,
of which none adds more than 2^34, so no total leaves 64 bits, or 53 where numbers are added as doubles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.tables.capping import LISTED, NAMED, UNIT
from tallystick.tables.dialects import SATURATED_TOTAL
from tallystick.tables.parts import Added, Caps, Integers, OfTable, Part
from tallystick.tables.sorted_cells import AT_ONCE, Cells, Groups, cells_of, counting, dropped, unit_starts

if TYPE_CHECKING:
    from tallystick.tables.engines.base import SortingEngine
    from tallystick.tables.program import Sorting
    from tallystick.tables.table import Query

MOST_BYTES = 288 << 20
"""What rows may weigh that are handed over at once, as arrays; for a moment there are two of each. Ten million rows of
a unit, a group and a number weigh less.
"""

_EXACT = 1 << 53
_FEW_GROUPS = 1 << 15
_ONE: dict[str, NDArray[Any]] = {"integer": np.zeros(1, dtype=np.int64), "text": np.array(["x"], dtype=object)}


@dataclass(frozen=True, slots=True)
class Sums:
    """The parts of every group's key, the integers of the groups, and those of the whole table."""

    keys: list[list[Any]]
    numbers: dict[Part, Integers]
    removed: dict[OfTable, Integers]


def sums_of(engine: SortingEngine, sorting: Sorting, query: Query) -> Sums:
    """Results that the stages and queries of the program would give."""
    *columns, added = engine.arrays(sorting.rows)
    cells = cells_of(columns, added, [bits for _, widths in sorting.parts for bits in widths])
    names = _Names(engine, sorting)
    if not len(cells):
        names.tried()
    start, groups = unit_starts(cells), Groups(cells)
    out = np.zeros(len(cells), dtype=np.bool_)
    if sorting.lines:
        out = dropped(cells, start, groups, query.caps.max_groups, names)
    most = counting(cells, start, groups, out, query.caps, names)
    marked = Marked(cells, start, out, most, query.caps, _places(sorting))
    some, numbers = totals(marked, groups, query.parts)
    keys = [column.decoded(groups.words[some]).tolist() for column in cells.columns[1:]]
    return Sums(keys, numbers, removed(marked, query.removed))


def _places(sorting: Sorting) -> dict[Added, tuple[int, ...]]:
    """Indices of the sums that belong to each part."""
    found, place = {}, 0
    for part, widths in sorting.parts:
        found[part] = tuple(range(place, place + len(widths)))
        place += len(widths)
    return found


@dataclass(frozen=True, slots=True)
class _Names:
    """Lines and points, asked of the engine: their digests are written in SQL, once for all engines."""

    engine: SortingEngine
    sorting: Sorting

    def tried(self) -> None:
        """Try lines and points on one made-up unit: a rehearsal may have no unit over the cap."""
        if self.sorting.lines:
            unit, *groups = (_ONE[kind] for kind in self.sorting.kinds)
            self.lines(unit)
            self.points(groups)

    def lines(self, units: NDArray[Any]) -> tuple[Integers, Integers]:
        slope, shift = self._asked(self.sorting.lines, {UNIT: units})
        return slope, shift

    def points(self, groups: Sequence[NDArray[Any]]) -> Integers:
        [point] = self._asked(self.sorting.points, dict(zip(self.sorting.groups, groups, strict=True)))
        return point

    def _asked(self, sql: str, columns: Mapping[str, NDArray[Any]]) -> list[Integers]:
        """In the order of the list: engines keep none."""
        count = len(next(iter(columns.values())))
        self.engine.lend(NAMED, {LISTED: np.arange(count), **columns})
        place, *found = self.engine.arrays(sql)
        ordered = [np.empty(count, dtype=np.int64) for _ in found]
        for out, values in zip(ordered, found, strict=True):
            out[place] = values
        return ordered


@dataclass(frozen=True, slots=True)
class Marked:
    """Sorted cells with all that is asked of them: where units begin, and which cells the cap on groups leaves out."""

    cells: Cells
    start: Integers
    out: NDArray[np.bool_]
    most: Integers
    """Of each cell how many rows count, at most."""
    caps: Caps
    places: Mapping[Added, tuple[int, ...]]
    """Of each part which sums are its."""

    @property
    def rows(self) -> Integers:
        """The rows of every cell."""
        return self.cells.rows

    def units(self, places: NDArray[np.intp]) -> Integers:
        """The units of some cells, as numbers in order."""
        return self.cells.words[places] >> self.cells.grouping

    def counted(self, part: Added | None = None) -> Iterator[tuple[Integers, Integers, list[Integers]]]:
        """The rows of cells that count, how many of them count, and what these add to a part; some cells at a time."""
        places = () if part is None else self.places[part]
        for begin in range(0, len(self.cells), AT_ONCE):
            some = slice(begin, begin + AT_ONCE)
            inside = ~self.out[some]
            sums = [self.cells.sums[place][some][inside].astype(np.int64) for place in places]
            yield self.cells.rows[some][inside], self.most[some][inside], sums

    def kept(self) -> Iterator[tuple[Cells, Integers]]:
        """The cells that count, and how many of their rows count; some at a time."""
        for begin in range(0, len(self.cells), AT_ONCE):
            some = slice(begin, begin + AT_ONCE)
            inside = ~self.out[some]
            rows, words = self.cells.rows[some][inside], self.cells.words[some][inside]
            sums = (each[some][inside].astype(np.int64) for each in self.cells.sums)
            yield Cells(words, self.cells.columns, rows, tuple(sums)), self.most[some][inside]

    def sums(self, part: Added, cells: Cells) -> list[Integers]:
        """Amounts that the rows of every cell add to a part."""
        return [cells.sums[place] for place in self.places[part]]


def totals(marked: Marked, groups: Groups, parts: Sequence[Part]) -> tuple[NDArray[np.intp], dict[Part, Integers]]:
    """The groups of which a cell is kept, by their number, and of each the integers of every part."""
    count, caps = len(groups.words), marked.caps
    found = {part: np.zeros(count, dtype=np.int64) for part in parts}
    there = np.zeros(count, dtype=np.bool_)
    for cells, most in marked.kept():
        index = groups.of(cells.words)
        there[index] = True
        for part, total in found.items():
            value = part.of_sums(marked.sums(part, cells)) if isinstance(part, Added) else cells.rows
            # What is paid for is 0 to the peak: a part that adds more or less would be a mistake, and does not all the
            # same.
            largest = part.peak(caps) if caps.in_all is None else part.peak_of(most, caps)
            added = np.clip(part.counted(value, cells.rows, most), 0, largest)
            _add(total, index, added, part.peak(caps))
    some = np.flatnonzero(there)
    return some, {part: total[some] for part, total in found.items()}


def _add(total: Integers, index: Integers, values: Integers, peak: int) -> None:
    """Add every value to its place; where there are few places, as doubles, as long as those are exact."""
    if len(total) <= _FEW_GROUPS and peak * len(values) < _EXACT:
        total += np.bincount(index, weights=values, minlength=len(total)).astype(np.int64)
    else:
        np.add.at(total, index, values)


def removed(marked: Marked, parts: Sequence[OfTable]) -> dict[OfTable, Integers]:
    """The integers of the whole table."""
    return {part: _one_line(part.of_sorted(marked)) for part in parts}


def _one_line(numbers: Sequence[int]) -> Integers:
    return np.array([[min(number, SATURATED_TOTAL) for number in numbers]], dtype=np.int64)
