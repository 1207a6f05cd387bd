"""The cells of (unit, group) by sorting one word for each row, where hashing rows would reach for memory all over.

A word has 62 bits: the row's unit, its group, and what it adds where that fits. Among sorted words the rows of a cell,
and the cells of a unit, stand beside each other. ``program.py`` says the same as SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tallystick.tables.capping import PRIME
from tallystick.tables.parts import Caps, Integers

BITS = 62
"""One less than are never negative: the word after a cell is one, too."""

WEIGHT_OF_TEXT = 256
"""Bytes that a text takes besides its characters: itself, where it is listed, and its number."""

AT_ONCE, _UNITS_AT_ONCE = 1 << 15, 1 << 11
"""Words, and units over the cap, that are worked on while they are in the cache: fresh memory costs more than the work.
"""

_LISTED = 1 << 12
"""Up to this many possible groups, or one for each cell, have a place in a list; of more, those that there are."""


class Named(Protocol):
    """The random-looking numbers that ``capping.py`` gives units and groups."""

    def lines(self, units: NDArray[Any]) -> tuple[Integers, Integers]:
        """The slope and the shift of every unit."""

    def points(self, groups: Sequence[NDArray[Any]]) -> Integers:
        """The x of every group, whose parts are given."""


@dataclass(frozen=True, slots=True)
class Coded:
    """Form of a column in a word: its values less the least of them, or numbers of a list of values."""

    bits: int
    least: int = 0
    values: NDArray[Any] | None = None
    shift: int = 0

    def decoded(self, words: Integers) -> NDArray[Any]:
        """The column's values in some words."""
        codes = words >> self.shift & ((1 << self.bits) - 1)
        return codes + self.least if self.values is None else self.values[codes]


@dataclass(frozen=True, slots=True)
class Cells:
    """Every cell that has a row, in order: its unit and group in one word, its rows, and the sums of what they add."""

    words: Integers
    columns: tuple[Coded, ...]
    """The unit, and the parts of the group."""
    rows: Integers
    sums: tuple[NDArray[Any], ...]

    def __len__(self) -> int:
        return len(self.words)

    @property
    def grouping(self) -> int:
        """The bits of the group, at the end of a word."""
        return self.columns[0].shift


def cells_of(columns: Sequence[NDArray[Any]], added: Integers, fields: Sequence[int]) -> Cells:
    """The cells of rows, whose arrays are used up.

    ``columns`` are the unit and the parts of the group, whole numbers or texts; ``added`` is made of numbers of so many
    bits as ``fields`` says, the first one lowest.

    >>> made = cells_of([np.array([7, 5, 7]), np.array([1, 1, 1])], np.array([3, 1, 2]), [2])
    >>> made.columns[0].decoded(made.words).tolist(), made.rows.tolist(), made.sums[0].tolist()
    ([5, 7], [1, 2], [1, 5])
    """
    count, needed = len(added), sum(fields)
    if count == 0:
        none = np.zeros(0, dtype=np.int64)
        return Cells(none, tuple(Coded(0) for _ in columns), none, tuple(none for _ in fields))
    codes, coded = _placed(columns, min(needed, (count - 1).bit_length()))
    free = BITS - coded[0].shift - coded[0].bits
    words = _packed(codes, coded)
    np.clip(added, 0, (1 << needed) - 1, out=added)  # it is: but a number too many would be another unit's
    if needed <= free:
        words <<= needed
        words |= added
        words.sort()
        return _added_up(words, needed, None, coded, fields, [*codes[1:], added])
    order = np.argsort(words)
    return _added_up(words[order], 0, added[order], coded, fields, [*codes[1:], words, added])


def _placed(columns: Sequence[NDArray[Any]], room: int) -> tuple[list[Integers], tuple[Coded, ...]]:
    """Columns as numbers with their places in a word, which leave so many bits if they can: where values are too far
    apart, units are numbered, and then groups. Two numbers of rows are far shorter than a word.
    """
    pairs = [_coded(column) for column in columns]
    unit, groups = pairs[0], pairs[1:]
    if _bits(pairs) + room > BITS and unit[1].values is None:
        codes, where = _numbered(unit[0])
        unit = codes, Coded(_length(len(where)), values=unit[0][where])
    if _bits([unit, *groups]) > BITS:
        codes, where = _jointly(groups)
        bits = _length(len(where))
        values = (own[where] if how.values is None else how.values[own[where]] for own, how in groups)
        shared = (Coded(bits, values=each) for each in values)
        return [unit[0], codes], (replace(unit[1], shift=bits), *shared)
    found, shift = [], _bits([unit, *groups])
    for _, how in (unit, *groups):
        shift -= how.bits
        found.append(replace(how, shift=shift))
    return [own for own, _ in (unit, *groups)], tuple(found)


def _bits(pairs: Sequence[tuple[Integers, Coded]]) -> int:
    return sum(how.bits for _, how in pairs)


def _length(count: int) -> int:
    """Bits of the numbers below a count."""
    return (count - 1).bit_length()


def _coded(column: NDArray[Any]) -> tuple[Integers, Coded]:
    if column.dtype == object:  # texts, in the order in which they are met
        met: dict[str, int] = {}
        codes = np.fromiter((met.setdefault(text, len(met)) for text in column), np.int64, len(column))
        return codes, Coded(_length(len(met)), values=np.array(list(met), dtype=object))
    column = column.astype(np.int64, casting="safe", copy=False)  # a shift in fewer bits would be another unit's
    least, most = int(column.min()), int(column.max())
    return column, Coded((most - least).bit_length(), least)


def _numbered(column: Integers) -> tuple[Integers, NDArray[np.intp]]:
    """Numbers from 0 in the order of the values, for values that are far apart, and a row that has each of them."""
    order = np.argsort(column)
    ordered = column[order]
    first = np.ones(len(column), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    codes = np.empty(len(column), dtype=np.int64)
    codes[order] = np.cumsum(first) - 1
    return codes, order[first]


def _jointly(groups: Sequence[tuple[Integers, Coded]]) -> tuple[Integers, NDArray[np.intp]]:
    """Numbers of the groups that there are, made of any columns, and a row that has each of them."""
    codes, where = _numbered(groups[0][0])
    for column, _ in groups[1:]:
        more, others = _numbered(column)
        codes, where = _numbered(codes << _length(len(others)) | more)
    return codes, where


def _packed(codes: Sequence[Integers], coded: Sequence[Coded]) -> Integers:
    """All columns in one word, in the memory of the first."""
    words, first = codes[0], coded[0]
    words -= first.least
    words <<= first.shift
    for column, how in zip(codes[1:], coded[1 : len(codes)], strict=True):
        column -= how.least
        words |= column << how.shift if how.shift else column
    return words


def _added_up(
    words: Integers,
    low: int,
    added: Integers | None,
    columns: tuple[Coded, ...],
    fields: Sequence[int],
    spare: list[Integers],
) -> Cells:
    """Sums over the rows of every cell, in the memory of what is no longer needed. ``added`` is None where words end
    with what rows add, and otherwise in the order of the words.
    """
    made = 0
    rows = spare.pop() if spare else np.empty_like(words)
    place = len(words).bit_length()
    kinds = [np.int32 if bits + place < 32 else np.int64 for bits in fields]
    sums = [spare.pop() if spare and kind is np.int64 else np.empty(len(words), dtype=kind) for kind in kinds]
    for begin, end in _whole_cells(words, low):
        here = words[begin:end]
        cells = here >> low
        numbers = here & ((1 << low) - 1) if added is None else added[begin:end].copy()
        start = _starts(cells)
        to = made + len(start)
        rows[made:to] = np.diff(start, append=len(cells))
        for bits, out in zip(fields, sums, strict=True):
            out[made:to] = np.add.reduceat(numbers & ((1 << bits) - 1), start)
            numbers >>= bits
        words[made:to] = cells[start]
        made = to
    return Cells(words[:made], columns, rows[:made], tuple(out[:made] for out in sums))


def _whole_cells(words: Integers, low: int) -> Iterator[tuple[int, int]]:
    """Slices of sorted words that begin and end with a cell; what lies before the slice may be overwritten."""
    begin, count = 0, len(words)
    while begin < count:
        end = min(begin + AT_ONCE, count)
        if end < count:
            after = ((int(words[end - 1]) >> low) + 1) << low
            end = begin + int(np.searchsorted(words[begin:], after))
        yield begin, end
        begin = end


def _starts(values: Integers) -> NDArray[np.intp]:
    """Positions at which a value differs from the one before it."""
    changed = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return np.flatnonzero(changed)


class Groups:
    """The groups that there are, in order, and which of them a word is about."""

    def __init__(self, cells: Cells) -> None:
        self.mask = (1 << cells.grouping) - 1
        self.few = self.mask < max(len(cells), _LISTED)
        if not self.few:
            self.words = np.unique(cells.words & self.mask)
            return
        there = np.zeros(self.mask + 1, dtype=np.bool_)
        for begin in range(0, len(cells), AT_ONCE):
            there[cells.words[begin : begin + AT_ONCE] & self.mask] = True
        self.words = np.flatnonzero(there)
        self.listed = np.cumsum(there) - 1

    def of(self, words: Integers) -> Integers:
        """The number of each word's group."""
        groups = words & self.mask
        return self.listed[groups] if self.few else np.searchsorted(self.words, groups)


def dropped(cells: Cells, start: Integers, groups: Groups, most: int, names: Named) -> NDArray[np.bool_]:
    """Which cells the cap on groups leaves out, as ``capping.py`` says: those at the (most + 1)-th smallest place of
    their unit or beyond it. ``start`` is where units begin.
    """
    out = np.zeros(len(cells), dtype=np.bool_)
    sizes = np.diff(start, append=len(cells))
    wide = np.flatnonzero(sizes > most)
    if not len(wide):
        return out
    slope, shift = names.lines(cells.columns[0].decoded(cells.words[start[wide]]))
    point = names.points([column.decoded(groups.words) for column in cells.columns[1:]])
    for begin in range(0, len(wide), _UNITS_AT_ONCE):
        some = slice(begin, begin + _UNITS_AT_ONCE)
        count = sizes[wide[some]]
        first = np.cumsum(count) - count
        here = np.repeat(start[wide[some]] - first, count)
        here += np.arange(len(here))
        place = point[groups.of(cells.words[here])]
        place *= np.repeat(slope[some], count)
        place += np.repeat(shift[some], count)
        place %= PRIME
        ranked = np.repeat(np.arange(len(count)), count)
        ranked <<= PRIME.bit_length()
        ranked |= place
        ranked.sort()  # units stay in their order, and so do the places of each
        cut = ranked[first + most] & ((1 << PRIME.bit_length()) - 1)
        out[here] = place >= np.repeat(cut, count)
    return out


def counting(
    cells: Cells, start: Integers, groups: Groups, out: NDArray[np.bool_], caps: Caps, names: Named
) -> Integers:
    """Number of rows of every cell that count, at most: the cap, or less if its unit has more rows than count in all.

    ``capping.py`` has the rule. Ties of places are broken by the group.
    """
    same = np.broadcast_to(np.int64(caps.max_rows), len(cells))  # one number, not an array of it
    if caps.in_all is None or not len(cells):
        return same
    own = np.minimum(cells.rows, caps.max_rows) if caps.cuts_first else cells.rows.copy()
    own[out] = 0
    total = np.add.reduceat(own, start)
    beyond = np.flatnonzero(total > caps.in_all)
    if not len(beyond):
        return same
    most = same.copy()
    sizes = np.diff(start, append=len(cells))
    slope, shift = names.lines(cells.columns[0].decoded(cells.words[start[beyond]]))
    keys = [column.decoded(groups.words) for column in cells.columns[1:]]
    point, rank = names.points(keys), _ranks(keys)
    for begin in range(0, len(beyond), _UNITS_AT_ONCE):
        some = slice(begin, begin + _UNITS_AT_ONCE)
        count = sizes[beyond[some]]
        first = np.cumsum(count) - count
        here = np.repeat(start[beyond[some]] - first, count) + np.arange(int(count.sum()))
        unit = np.repeat(np.arange(len(count)), count)
        group = groups.of(cells.words[here])
        place = (point[group] * slope[some][unit] + shift[some][unit]) % PRIME
        here = here[np.lexsort((rank[group], place, unit))]  # units stay in their order
        ended = np.cumsum(own[here])
        so_far = ended - (ended[first] - own[here[first]])[unit]
        whole = total[beyond[some]][unit]
        offset = shift[some][unit] % whole
        after, before = so_far * caps.in_all + offset, (so_far - own[here]) * caps.in_all + offset
        most[here] = after // whole - before // whole
    return most


def _ranks(keys: Sequence[NDArray[Any]]) -> Integers:
    """The places of groups in the order of their keys; texts are compared as SQL does, byte by byte."""
    columns = [np.unique(key, return_inverse=True)[1] for key in keys]
    ranks = np.empty(len(columns[0]), dtype=np.int64)
    ranks[np.lexsort(columns[::-1])] = np.arange(len(ranks))
    return ranks


def unit_starts(cells: Cells) -> Integers:
    """Positions at which the cells of each unit begin."""
    found = []
    for begin in range(0, len(cells), AT_ONCE):
        units = cells.words[max(begin - 1, 0) : begin + AT_ONCE] >> cells.grouping
        starts = _starts(units)
        found.append(starts if begin == 0 else starts[1:] + (begin - 1))
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
