"""Which data sets are neighbours, and in which order a pair of them is read."""

from __future__ import annotations

from enum import Enum


class Adjacency(str, Enum):
    """The neighbouring relation a loss speaks about.

    ADD_REMOVE (unbounded): one unit is added or removed. REPLACE (bounded): one unit is changed.
    The lecture notes swap the two names in one list (errata 19); these are the usual ones.

    >>> Adjacency("replace") is Adjacency.REPLACE
    True
    """

    ADD_REMOVE = "add_remove"
    REPLACE = "replace"

    def __str__(self) -> str:
        return self.value


class Direction(str, Enum):
    """Which of the two data sets is on the left: with the unit (REMOVE) or without it (ADD).

    >>> Direction.REMOVE.other is Direction.ADD
    True
    """

    REMOVE = "remove"
    ADD = "add"

    @property
    def other(self) -> Direction:
        """The opposite direction."""
        return Direction.ADD if self is Direction.REMOVE else Direction.REMOVE

    def __str__(self) -> str:
        return self.value
