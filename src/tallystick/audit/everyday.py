"""Attacks that need no mathematics: differencing two counts, linking two lists, few features that single people out.

Chapter 1 of the notes, and Example 3.6. These are demonstrations on data that the attacker already has in hand: none of
their numbers is private.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.loss import PrivacyLoss
from tallystick.audit.two_sample import upper_limit
from tallystick.errors import InvalidInput

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Differencing:
    """How often the difference of two counts gave one person's bit away.

    ``lower`` and ``upper`` are exact 95 % limits of ``rate``; ``ceiling`` is what the claim allows anybody, or 1.
    """

    right: int
    repeats: int
    lower: float
    upper: float
    ceiling: float

    @property
    def rate(self) -> float:
        """The share of right guesses; a coin has one half."""
        return self.right / self.repeats

    def __str__(self) -> str:
        return (
            f"{self.rate:.1%} of {self.repeats} guesses right [{self.lower:.1%}, {self.upper:.1%}]; "
            f"the claim allows {self.ceiling:.1%}, a coin has 50.0%"
        )


def differencing(
    release: Callable[[list[int]], float],
    *,
    others: Sequence[int],
    repeats: int = 1000,
    claim: PrivacyLoss | None = None,
    rng: np.random.Generator | None = None,
) -> Differencing:
    """Ask for the count with a person and the count without, and guess the person's bit from the difference.

    ``release`` counts ones in a list, exactly or with noise. The person's bit is a fair coin, new in every repeat. The
    count without the person says nothing about them, so one release of ``claim`` bounds every guess:
    e^epsilon/(1 + e^epsilon) for epsilon-DP, and half of 1 + total variation in general.

    >>> found = differencing(sum, others=[1, 0, 1], repeats=50)
    >>> found.rate
    1.0
    """
    tosses = rng or np.random.default_rng()
    count = check.count("repeats", repeats, least=1)
    rest = [int(bit) for bit in others]
    right = 0
    for _ in range(count):
        bit = int(tosses.random() < 0.5)
        difference = float(release([*rest, bit])) - float(release(rest))
        guess = int(difference > 0.5) if difference != 0.5 else int(tosses.random() < 0.5)
        right += guess == bit
    lower = 1.0 - upper_limit(count - right, count, 0.025)
    ceiling = 1.0 if claim is None else min(1.0, 0.5 + 0.5 * float(claim.delta(epsilon=0.0)))
    return Differencing(right, count, lower, upper_limit(right, count, 0.025), ceiling)


@dataclass(frozen=True, slots=True)
class Linkage:
    """Matches of a released table with a public list: (row of the release, row of the list), each unique."""

    matches: tuple[tuple[int, int], ...]
    released: int
    right: int | None

    @property
    def share(self) -> float:
        """The share of released rows that were matched to exactly one person."""
        return len(self.matches) / self.released

    @property
    def precision(self) -> float | None:
        """The share of matches that are right, where the truth was given."""
        return None if self.right is None or not self.matches else self.right / len(self.matches)

    def __str__(self) -> str:
        right = "" if self.precision is None else f", {self.precision:.1%} of them rightly"
        return f"{len(self.matches)} of {self.released} rows ({self.share:.1%}) are linked to one person{right}"


def linkage(
    released: Sequence[Row],
    public: Sequence[Row],
    *,
    on: Sequence[str],
    tolerance: Mapping[str, float] | None = None,
    same: Callable[[int, int], bool] | None = None,
) -> Linkage:
    """Match the rows of a released table without names to a public list with names.

    A row is linked where exactly one person agrees on all columns of ``on`` that both know, numbers within their
    ``tolerance``, and no other released row agrees with that person. ``same(i, j)`` tells whether a match is right.

    >>> ratings = [{"film": 4, "day": 10}, {"film": 2, "day": 31}]
    >>> named = [{"name": "Ada", "film": 4, "day": 11}]
    >>> print(linkage(ratings, named, on=["film", "day"], tolerance={"day": 2}))
    1 of 2 rows (50.0%) are linked to one person
    """
    if not on or isinstance(on, str):
        raise InvalidInput("on", on, "a list of columns that both tables have")
    if not len(released):
        raise InvalidInput("released", 0, "at least one row")
    near = {name: check.nonnegative(f"tolerance[{name!r}]", value) for name, value in (tolerance or {}).items()}
    _check_columns("on", on, [*released, *public])
    if not all(any(name in row for row in rows for name in on) for rows in (released, public) if rows):
        raise InvalidInput("on", list(on), "columns of which both tables have some")
    for name in near:
        if not all(isinstance(row.get(name), int | float | None) for row in (*released, *public)):
            raise InvalidInput("tolerance", name, "a column of numbers")
    listed = [name for name in on if all(row.get(name) is not None for row in (*released, *public))]
    places: dict[Hashable, list[int]] = {}
    for j, person in enumerate(public):
        places.setdefault(_place(person, listed, near), []).append(j)
    agree = [
        [j for at in _around(row, listed, near) for j in places.get(at, ()) if _agree(row, public[j], on, near)]
        for row in released
    ]
    taken = Counter(j for people in agree for j in people)
    matches = tuple((i, people[0]) for i, people in enumerate(agree) if len(people) == 1 and taken[people[0]] == 1)
    return Linkage(matches, len(released), None if same is None else sum(same(i, j) for i, j in matches))


def _check_columns(argument: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
    for name in columns:
        if rows and all(name not in row for row in rows):
            raise InvalidInput(argument, name, "columns that the rows have")


def _place(row: Row, columns: Sequence[str], near: Mapping[str, float]) -> tuple[Hashable, ...]:
    """Rows that agree on what all rows have are at one place, or at neighbouring ones where numbers are near."""
    return tuple(
        _key(row[name]) if name not in near else math.floor(row[name] / near[name]) if _binned(row[name], near[name])
        else None
        for name in columns
    )  # fmt: skip


def _binned(value: float, tolerance: float) -> bool:
    return tolerance > 0.0 and abs(value) < 1e9 * tolerance


def _around(row: Row, columns: Sequence[str], near: Mapping[str, float]) -> Iterator[tuple[Hashable, ...]]:
    here = _place(row, columns, near)
    choices = [
        (at,) if name not in near else (None, at - 1, at, at + 1) if isinstance(at, int) else (None, at)
        for name, at in zip(columns, here, strict=True)
    ]
    yield from dict.fromkeys(itertools.product(*choices))


def _agree(row: Row, person: Row, on: Sequence[str], near: Mapping[str, float]) -> bool:
    known = [
        (name, row[name], person[name]) for name in on if row.get(name) is not None and person.get(name) is not None
    ]
    return bool(known) and all(
        abs(one - other) <= near[name] if name in near else one == other for name, one, other in known
    )


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """Return how many rows are unique: ``sizes`` counts the groups of equal rows by their size. Not private."""

    rows: int
    sizes: dict[int, int]

    @property
    def unique(self) -> float:
        """The share of rows that are alone."""
        return self.sizes.get(1, 0) / self.rows

    @property
    def anonymity(self) -> int:
        """k of k-anonymity: the smallest group."""
        return min(self.sizes)

    def __str__(self) -> str:
        return (
            f"{self.unique:.1%} of {self.rows} rows are unique; the smallest group has {self.anonymity} (not private)"
        )


def uniqueness(rows: Sequence[Row], columns: Sequence[str]) -> Uniqueness:
    """Count the people whom a few features single out: a diagnostic of the raw data, and itself not private.

    >>> print(uniqueness([{"zip": 1, "sex": "f"}, {"zip": 1, "sex": "m"}, {"zip": 1, "sex": "m"}], ["zip", "sex"]))
    33.3% of 3 rows are unique; the smallest group has 1 (not private)
    """
    if not len(rows) or not columns or isinstance(columns, str):
        raise InvalidInput("columns", columns, "a list of columns, of at least one row")
    _check_columns("columns", columns, rows)
    groups = Counter(tuple(_key(row.get(name)) for name in columns) for row in rows)
    return Uniqueness(len(rows), dict(sorted(Counter(groups.values()).items())))


def _key(value: Any) -> Hashable:
    return (
        value if isinstance(value, Hashable) and not (isinstance(value, float) and math.isnan(value)) else repr(value)
    )


def swapped(
    rows: Sequence[Row], *, column: str, share: float, rng: np.random.Generator | None = None
) -> list[dict[str, Any]]:
    """Census swapping before differential privacy: a share of the rows exchange one column in pairs.

    Totals of the column stay exact, and so does every row that was not swapped: Example 3.6 of the notes. No epsilon
    is small enough to be claimed for it.

    >>> towns = [{"town": t} for t in "aabb"]
    >>> sorted(row["town"] for row in swapped(towns, column="town", share=1.0))
    ['a', 'a', 'b', 'b']
    """
    tosses = rng or np.random.default_rng()
    if not all(column in row for row in rows):
        raise InvalidInput("column", column, "a column that every row has")
    copies = [dict(row) for row in rows]
    moved = tosses.permutation(len(copies))[: int(check.probability("share", share) * len(copies)) // 2 * 2]
    for i, j in moved.reshape(-1, 2).tolist():
        copies[i][column], copies[j][column] = copies[j][column], copies[i][column]
    return copies
