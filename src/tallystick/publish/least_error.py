"""Limits per person with the least total error: noise of a group's count, and rows of a group that limits leave out.

    groups, rows = Sizes.of(...), Sizes.of(...)    people by their number of groups, and by their most rows in a group
    crowd = Crowd.of(groups, rows)                 the people by both
    crowd.counted(limits)                          rows that count under each of many limits

The inputs are released noisy histograms and public numbers, so everything here is post-processing.
docs/theory/query-suggested-limits.md derives the criterion.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallystick.tables.estimates import Noisy
from tallystick.tables.parts import Caps

Numbers = NDArray[np.float64]

CANDIDATES: Final = (
    1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200, 250, 300, 400, 500, 600, 800, 1000,
)  # fmt: skip
"""Limits that are proposed; few and public, because each has its own noise."""
IN_ALL: Final = (*CANDIDATES, 1500, 2000, 3000, 5000, 10_000)
"""Limits on the rows of a person in all groups that are proposed."""
MIDDLES: Final = np.array([1.0, *((low + 1 + high) / 2 for low, high in pairwise(CANDIDATES)), CANDIDATES[-1]])
"""Size of a person in each bin: the middle of the bin. More than the largest candidate counts as that one, because no
proposed limit counts more."""

Cells = Literal["even", "steep", "flat", "usual"]
"""Rows of a person in each group, by the largest number of them.

- ``even``: in the other groups evenly between 1 and the largest number
- ``steep``: 1 in each other group. No person has fewer.
- ``flat``: as many in each group. No person has more.
- ``usual``: even for half of the people, and steep for the others
"""
SEEN: Final = 0.99995
"""Confidence at which bins must hold people to be seen. It is compared with all runs of bins, about 400. A bin that
only noise fills would stand for people with more rows than all others together, and the limits would follow it."""


class Choice(NamedTuple):
    """Limits per person: on groups, on rows in each, and on rows in all; None if the others allow no more."""

    max_groups: int
    max_rows_per_group: int
    max_rows: int | None

    @property
    def caps(self) -> Caps:
        """The limits as a query has them."""
        return Caps(*self)


@dataclass(frozen=True)
class Limits:
    """Many limits side by side, as columns of numbers; without a limit on rows in all it is infinite."""

    groups: Numbers
    rows: Numbers
    in_all: Numbers

    @classmethod
    def of(cls, choices: Sequence[Choice]) -> Limits:
        """Return limits as columns."""
        in_all = [math.inf if each.max_rows is None else each.max_rows for each in choices]
        groups, rows = ([each[place] for each in choices] for place in (0, 1))
        return cls(np.array(groups, dtype=float), np.array(rows, dtype=float), np.array(in_all, dtype=float))

    def norms(self, order: int) -> Numbers:
        """Return the norm of what one person adds to a count: (max sum of l^order)^(1/order), as ``most_added``."""
        full = np.minimum(self.groups, np.floor(self.in_all / self.rows))
        rest = np.where(full < self.groups, self.in_all - full * self.rows, 0.0)
        return np.asarray((full * self.rows**order + rest**order) ** (1.0 / order))


@cache
def all_choices(most_groups: int) -> tuple[Choice, ...]:
    """Return all limits that may be proposed, the smallest first. A limit on rows in all that changes nothing is None.

    >>> [tuple(choice) for choice in all_choices(2)][25:29]
    [(1, 800, None), (1, 1000, None), (2, 1, None), (2, 2, 2)]
    """
    found = []
    for groups in dict.fromkeys(min(candidate, most_groups) for candidate in CANDIDATES):
        for rows in CANDIDATES:
            smaller = [in_all for in_all in IN_ALL if max(groups, rows) <= in_all < groups * rows]
            found += [Choice(groups, rows, in_all) for in_all in (*smaller, None)]
    return tuple(found)


@dataclass(frozen=True)
class Sizes:
    """People by a size: ``over[k]`` of them are in bin k or a later one. Bins end at the candidates."""

    over: Numbers
    seen: int
    """Bins in which the noise shows people. Later ones are empty here."""
    hidden: float
    """Most people who may be in later bins, at 95 %."""
    is_known: bool
    """False if the noise hides how many people there are."""

    @classmethod
    def of(cls, noisy: Noisy, shift: int = 0, largest: int | None = None) -> Sizes:
        """Return the people by size, from a noisy histogram.

        Bins are seen up to the last run of bins that holds more people than noise alone would. A sum of b bins has
        sqrt(b) times the noise of one. ``shift`` is -1 or 1 for an end of the 95 % intervals of such sums. No size is
        above ``largest``, if it is public.
        """
        bins = len(noisy.table[0])
        counts = noisy.table[0][: bins if largest is None else bisect_left(CANDIDATES, largest) + 1]
        least, half = (noisy.law.deviations(level) * noisy.deviation for level in (SEEN, 0.95))
        seen = _seen(counts, least)
        raw = np.cumsum(counts[:seen][::-1])[::-1]
        people = max(1.0, float(raw[0]))
        margin = half * np.sqrt(np.arange(seen, 0, -1))
        moved = np.zeros(bins)
        moved[:seen] = np.clip(raw + shift * margin, 0.0, people)
        moved[0] = people
        later = len(counts) - seen
        hidden = max(0.0, float(counts[seen:].sum()) + half * math.sqrt(later)) if later else 0.0
        return cls(_falling(moved), seen, hidden, bool(raw[0] > least * math.sqrt(seen)))

    @property
    def people(self) -> float:
        """Number of people, at least 1."""
        return float(self.over[0])

    @property
    def shares(self) -> Numbers:
        """Share of the people in each bin or a later one."""
        return np.asarray(self.over / self.over[0])

    @property
    def largest(self) -> int:
        """The size at which the last bin that is seen ends."""
        return CANDIDATES[min(self.seen, len(CANDIDATES)) - 1]


def _seen(counts: Numbers, least: float) -> int:
    """Return the number of bins up to the end of the last run of bins that holds more people than noise alone would.

    Of all such runs it is the one that begins last, and of those the shortest.
    """
    totals = np.concatenate([[0.0], np.cumsum(counts)])
    for begin in range(len(counts) - 1, 0, -1):
        sums = totals[begin + 1 :] - totals[begin]
        is_more = sums > least * np.sqrt(np.arange(1, len(sums) + 1))
        if is_more.any():
            return begin + int(is_more.argmax()) + 1
    return 1


def _falling(values: Numbers) -> Numbers:
    """Return falling numbers near the given ones: the middle of the least falling bound above and the largest below."""
    above = np.maximum.accumulate(values[::-1])[::-1]
    below = np.minimum.accumulate(values)
    return (above + below) / 2.0


@dataclass(frozen=True)
class Crowd:
    """People by number of groups and most rows in a group, and how the rows of each are divided over the groups."""

    people: Numbers
    groups: Numbers
    most: Numbers
    cells: Cells

    @classmethod
    def of(cls, groups: Sizes | None, rows: Sizes, cells: Cells = "usual") -> Crowd:
        """Pair sizes by rank: the people with the most groups have the most rows in a group.

        Among all people with these two histograms, those have the most rows if every group of a person has as many.
        """
        by_groups = np.array([1.0]) if groups is None else groups.shares
        people = rows.people if groups is None else (groups.people + rows.people) / 2.0
        ends = np.unique(np.concatenate([by_groups, rows.shares, [0.0]]))
        ranks = (ends[1:] + ends[:-1]) / 2.0
        in_groups, in_rows = ((shares[:, None] > ranks).sum(axis=0) - 1 for shares in (by_groups, rows.shares))
        return cls(np.diff(ends) * people, MIDDLES[in_groups], MIDDLES[in_rows], cells)

    @property
    def rows(self) -> float:
        """Number of rows."""
        everything = Limits(*(np.array([math.inf]),) * 3)
        return float(self.counted(everything)[0])

    def counted(self, limits: Limits) -> Numbers:
        """Return the number of rows that count, under each of many limits."""
        if self.cells == "usual":
            even, steep = (replace(self, cells=cells).counted(limits) for cells in ("even", "steep"))
            return (even + steep) / 2.0
        groups = np.minimum(self.groups[:, None], limits.groups)
        in_one = _within(self.groups[:, None], self.most[:, None], limits.rows, self.cells)
        each = np.minimum(groups * in_one, limits.in_all)
        return np.asarray(self.people @ each)

    def left_out(self, limits: Limits) -> Numbers:
        """Return the number of rows that do not count, under each of many limits."""
        lost = self.rows - self.counted(limits)
        return np.where(lost < ROUNDING * self.rows, 0.0, lost)


def _within(groups: Numbers, most: Numbers, limit: Numbers, cells: Cells) -> Numbers:
    """Return the mean rows of a person in a group that a limit on rows in a group leaves."""
    largest = np.minimum(most, limit)
    if cells == "flat":
        return largest
    if cells == "steep":
        return (largest + (groups - 1.0)) / groups
    # The mean of min(c, limit) for c even between 1 and most: the area up to ``largest``, and the rest at ``largest``.
    length = np.maximum(most - 1.0, 1e-9)
    spread = ((largest**2 - 1.0) / 2.0 + largest * (most - largest)) / length
    others = np.where(most <= 1.0, largest, spread)
    return np.asarray((largest + (groups - 1.0) * others) / groups)


# The trade-off: what each of a few limits costs and leaves out, and how sure that is.


@dataclass(frozen=True, slots=True)
class Question:
    """A count in each of some groups, at a known cost: the limits are chosen for it."""

    words: str
    """The question with its cost, for people."""
    by: tuple[str, ...]
    """The columns that it groups by."""
    half: float
    """Half the 95 % interval of a count if one person adds at most 1 row to it."""
    order: int
    """The order of the norm that the noise goes by."""
    groups: int | None
    """The number of groups, if it is public."""


@dataclass(frozen=True, slots=True)
class Line:
    """Limits with the error of a count in a group of middle size."""

    limits: Choice
    noise: float
    """Half the 95 % interval of the privacy noise."""
    left_out: float
    """Rows of the group that do not count."""
    share: float
    """Share of all rows that do not count."""

    @property
    def total(self) -> float:
        """Noise and rows left out."""
        return self.noise + self.left_out


@dataclass(frozen=True, slots=True)
class Hidden:
    """People who may be beyond the sizes that the noise shows."""

    size: int
    """The largest size that the noise shows."""
    people: float
    """Most people who may have more, at 95 %."""
    share: float
    """Their share of all people."""


@dataclass(frozen=True, slots=True)
class TradeOff:
    """Errors under several limits side by side, the limits with the least, and how sure that is."""

    lines: tuple[Line, ...]
    """Limits with the least rows left out at several sizes of the noise, the smallest noise first."""
    best: Line
    question: Question
    groups: int
    """The number of groups, or the most groups of a person that the noise shows."""
    people: float
    rows: float
    """Rows in a group of middle size, about."""
    left_out: tuple[float, float]
    """Least and most rows of the group that the best limits leave out: a person's rows in all are not measured."""
    lowest: Choice
    highest: Choice
    """Smallest and largest limits that are best at an end of the noise."""
    times: float
    """How many times smaller the error may be with other limits, for all that the noise tells."""
    hidden: Mapping[str, Hidden]
    """By the limit: ``max_rows_per_group``, and ``max_groups`` unless people are seen in all groups."""
    is_known: bool
    """False if the noise hides how many people there are."""

    @property
    def hidden_share(self) -> float:
        """The largest share of people who may be beyond what the noise shows."""
        return max((each.share for each in self.hidden.values()), default=0.0) if self.is_known else 1.0

    def bars(self) -> list[tuple[str, float, float, float, float]]:
        """The lines for ``ts.plots.rehearsed``."""
        return [(_short(each.limits), each.noise, each.left_out, 0.0, each.total) for each in self.lines]

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "question": self.question.words,
            "groups": self.groups,
            "groups_are_public": self.question.groups is not None,
            "people": self.people,
            "rows_in_a_group": self.rows,
            "lines": [_line_data(each, is_best=each == self.best) for each in self.lines],
            "left_out": list(self.left_out),
            "times_smaller": self.times,
            "hidden": {name: asdict(each) for name, each in self.hidden.items()},
            "people_are_known": self.is_known,
        }


def _line_data(line: Line, *, is_best: bool) -> dict[str, Any]:
    numbers = {"noise": line.noise, "left_out": line.left_out, "share": line.share, "total": line.total}
    return {**line.limits._asdict(), **numbers, "is_best": is_best}


def _short(limits: Choice) -> str:
    """Return limits in the fewest words, for a picture."""
    in_all = "" if limits.max_rows is None else f"\n{limits.max_rows:,} in all"
    return f"{limits.max_groups} x {limits.max_rows_per_group}{in_all}"


ROUNDING: Final = 1e-9
"""Share of the rows below which a difference of two sums of them is rounding."""
FACTORS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Sizes of the noise that are shown, as multiples of the noise of the best limits."""


def trade_off(groups: Noisy | None, rows: Noisy, question: Question) -> TradeOff:
    """Return the limits with the least total error, from noisy histograms of groups and of most rows in a group.

    ``groups`` is None for a question about the whole table.
    """
    sizes = _sizes(groups, rows, question, 0)
    number = _number_of_groups(sizes[0], question)
    choices = all_choices(number)
    limits = Limits.of(choices)
    noise = question.half * limits.norms(question.order)
    crowd = Crowd.of(*sizes)
    lost = crowd.left_out(limits)
    at = int((noise + lost / number).argmin())
    # the best limits again, if the noise had moved the histograms to an end of their intervals
    ends = [noise + Crowd.of(*_sizes(groups, rows, question, shift)).left_out(limits) / number for shift in (-1, 1)]
    near = [choices[at], *(choices[int(end.argmin())] for end in ends)]
    lines = {
        place: _line(place, choices, noise, lost / number, crowd.rows / number) for place in _shown(at, noise, lost)
    }
    known = {"max_rows_per_group": sizes[1]}
    if sizes[0] is not None and (question.groups is None or sizes[0].largest < question.groups):
        known["max_groups"] = sizes[0]
    return TradeOff(
        lines=tuple(sorted(lines.values(), key=lambda line: (line.noise, line.left_out))),
        best=lines[at],
        question=question,
        groups=number,
        people=float(crowd.people.sum()),
        rows=crowd.rows / number,
        left_out=_ends(sizes, choices[at], number),
        lowest=_end(min, near),
        highest=_end(max, near),
        times=max(float(end[at] / end.min()) for end in ends),
        hidden={name: _hidden(size) for name, size in known.items()},
        is_known=all(size.is_known for size in sizes if size is not None),
    )


def _ends(sizes: tuple[Sizes | None, Sizes], choice: Choice, number: int) -> tuple[float, float]:
    """Return the rows of a group that limits leave out, of people with as few and with as many rows as possible."""
    limits = Limits.of([choice])
    least, most = (float(Crowd.of(*sizes, cells).left_out(limits)[0] / number) for cells in ("steep", "flat"))
    return least, most


def _sizes(groups: Noisy | None, rows: Noisy, question: Question, shift: int) -> tuple[Sizes | None, Sizes]:
    by_groups = None if groups is None else Sizes.of(groups, shift, question.groups)
    return by_groups, Sizes.of(rows, shift)


def _number_of_groups(sizes: Sizes | None, question: Question) -> int:
    """Return the public number of groups; else the most groups of a person that the noise shows."""
    if sizes is None:
        return 1
    return sizes.largest if question.groups is None else question.groups


def _hidden(sizes: Sizes) -> Hidden:
    return Hidden(sizes.largest, sizes.hidden, min(1.0, sizes.hidden / sizes.people))


def _line(place: int, choices: Sequence[Choice], noise: Numbers, lost: Numbers, rows: float) -> Line:
    """Return a line of the table; ``rows`` are those of a group of middle size."""
    return Line(choices[place], float(noise[place]), float(lost[place]), float(lost[place]) / rows)


def _shown(at: int, noise: Numbers, lost: Numbers) -> list[int]:
    """Return the best limits, and those that leave out least at several sizes of the noise around theirs."""
    found = [at]
    for factor in FACTORS:
        fitting = np.flatnonzero(noise <= factor * noise[at] * (1 + 1e-9))
        if factor != 1.0 and fitting.size:
            order = np.lexsort((noise[fitting], lost[fitting]))
            found.append(int(fitting[order[0]]))
    return found


def _end(end: Callable[..., int], choices: Sequence[Choice]) -> Choice:
    """Return the smallest or the largest of each limit; none on rows in all is the largest."""
    in_all = end(math.inf if each.max_rows is None else each.max_rows for each in choices)
    groups, rows = end(each.max_groups for each in choices), end(each.max_rows_per_group for each in choices)
    return Choice(groups, rows, None if in_all == math.inf else int(in_all))
