"""Which data sets are neighbours, and in which order a pair of them is read."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Protects:
    """Whom a loss protects: the neighbouring relation, and the name of the unit where there is one.

    >>> Protects(Adjacency.REPLACE, "patient").arguments(Adjacency.ADD_REMOVE)
    ("adjacency='replace'", "unit='patient'")
    """

    adjacency: Adjacency
    unit: str | None = None

    def arguments(self, meant: Adjacency) -> tuple[str, ...]:
        """What must be written in a constructor that means the neighbours ``meant`` if none are named."""
        relation = () if self.adjacency is meant else (f"adjacency={self.adjacency.value!r}",)
        return relation if self.unit is None else (*relation, f"unit={self.unit!r}")
