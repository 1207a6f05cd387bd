"""Which data sets are neighbours, and in which order a pair of them is read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from tallystick.errors import AdjacencyMismatch, InvalidInput, UnitMismatch


class Adjacency(str, Enum):
    """The neighbouring relation a loss speaks about.

    ADD_REMOVE (unbounded): one unit is added or removed. REPLACE (bounded): one unit is changed.
    The lecture notes swap the two names in one list (erratum 19); these are the usual ones.

    >>> Adjacency("replace") is Adjacency.REPLACE
    True
    """

    ADD_REMOVE = "add_remove"
    REPLACE = "replace"

    def __str__(self) -> str:
        return self.value


class Direction(str, Enum):
    """Order of two neighbouring datasets: the left one is with the unit (REMOVE) or without it (ADD).

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


def read_adjacency(value: Any) -> Adjacency:
    """An ``Adjacency``, also from its text."""
    try:
        return Adjacency(value)
    except ValueError:
        raise InvalidInput("adjacency", value, "Adjacency.ADD_REMOVE or Adjacency.REPLACE") from None


def read_unit(value: Any) -> str | None:
    """The name of the protected unit, or None."""
    if value is None or (isinstance(value, str) and 0 < len(value) <= 200):
        return value
    raise InvalidInput("unit", value, "a short name such as 'patient', or None")


@dataclass(frozen=True, slots=True)
class Protects:
    """Whom a loss protects: the neighbouring relation, and the name of the unit where there is one.

    >>> Protects("replace", "patient").about["adjacency"]
    <Adjacency.REPLACE: 'replace'>
    """

    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: str | None = None

    def __post_init__(self) -> None:
        if type(self.adjacency) is not Adjacency:
            object.__setattr__(self, "adjacency", read_adjacency(self.adjacency))
        read_unit(self.unit)

    @property
    def about(self) -> dict[str, Any]:
        """The keyword arguments of a constructor that means this."""
        return {"adjacency": self.adjacency, "unit": self.unit}

    def arguments(self, meant: Adjacency) -> tuple[str, ...]:
        """What must be written in a constructor that means the neighbours ``meant`` if none are named."""
        relation = () if self.adjacency is meant else (f"adjacency={self.adjacency.value!r}",)
        return relation if self.unit is None else (*relation, f"unit={self.unit!r}")

    def joined(self, other: Protects) -> Protects:
        """Whom both protect, where one names a unit and the other none; anything else is refused."""
        if self == other:
            return self
        if self.adjacency is not other.adjacency:
            raise AdjacencyMismatch(self.adjacency, other.adjacency)
        if self.unit is not None and other.unit is not None:
            raise UnitMismatch(self.unit, other.unit)
        return self if other.unit is None else other


ANY_UNIT = Protects()
"""Add/remove neighbours, and no unit named."""
