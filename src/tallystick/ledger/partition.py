"""Parallel composition over blocks: when may a population pay the maximum over its blocks instead of the sum?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tallystick.errors import InvalidInput, Refused
from tallystick.ledger.chain import checked

ASSIGNED_BY: Final = ("unit id", "public attribute")
MOST_VALUES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Partition:
    """A way to split the units of a population into blocks.

    The population pays its own charges plus the **largest** block only under three conditions: (i) neighbours differ by
    adding or removing one unit, (ii) a unit lies in one block, and (iii) the block is a function of the unit's id or
    of an enforced public attribute, never of other records. A median split of the table, for example, fails (iii):
    erratum 49, docs/theory/parallel-composition.md. Under replacement one unit can leave one block and enter another.

    ``column`` and ``values`` are the predicate of one block: a table paid by it sees only rows with one of the values,
    and no two blocks share a value. Without a predicate nothing makes a table keep to its block, so none is paid by it.
    That all rows of a unit have the same value is what ``one_block_per_unit`` vouches for.

    >>> Partition("ward", by="unit id", one_block_per_unit=True).require("add_remove")
    """

    name: str
    by: str
    one_block_per_unit: bool
    column: str = ""
    values: tuple[str | int, ...] = ()

    def __post_init__(self) -> None:
        allowed = "column= and values=: a column and up to 10000 different texts, or as many whole numbers, in it"
        values = tuple(self.values)
        plain = {type(value) for value in values} in (set(), {str}, {int}) and len(set(values)) == len(values)
        plain = plain and len(values) <= MOST_VALUES
        if bool(self.column) != bool(values) or not plain:
            raise InvalidInput("partition", self.name, allowed)
        if self.column:
            checked("column", self.column)
        object.__setattr__(self, "values", values)

    def to_data(self) -> list[Any]:
        """As the chain has it."""
        return [self.name, self.by, self.one_block_per_unit, self.column, list(self.values)]

    def require(self, adjacency: str) -> None:
        """Refuse, naming the condition that failed, when the maximum would not be valid."""
        failed = None
        if adjacency != "add_remove":
            failed = "the adjacency is not add/remove: a replaced unit can touch two blocks"
        elif self.one_block_per_unit is not True:
            failed = "a unit may lie in several blocks (one_block_per_unit is not True)"
        elif self.by not in ASSIGNED_BY:
            failed = f"blocks are assigned by {self.by!r}, not by {' or '.join(ASSIGNED_BY)}"
        if failed:
            raise Refused(
                f"parallel composition over {self.name!r} is refused: {failed}; "
                "open the block without partition= and the population pays the sum"
            )


class Blocks:
    """The blocks of one partition that exist already. All have one column, and no two share a value.

    >>> from dataclasses import replace
    >>> wards = Blocks()
    >>> north = Partition("ward", by="unit id", one_block_per_unit=True, column="ward", values=("north",))
    >>> wards.add(north)
    >>> wards.require_apart(replace(north, values=("south",)))
    """

    def __init__(self) -> None:
        self._first: Partition | None = None
        self._first_with_values: Partition | None = None
        self._block_of: dict[str | int, Partition] = {}

    def add(self, block: Partition) -> None:
        """Take in a block that exists."""
        self._first = self._first or block
        if block.values:
            self._first_with_values = self._first_with_values or block
        self._block_of.update(dict.fromkeys(block.values, block))

    def require_apart(self, block: Partition) -> None:
        """Refuse a block that shares a value with another block of the partition, or is cut along another column.

        Texts and whole numbers do not go together: "1" and 1 are one value to an owner who declares the column's type.
        """
        other = self._in_conflict(block)
        if other is not None:
            raise Refused(
                f"blocks of {block.name!r} are cut along one column and share no value; another block has "
                f"{other.column or 'no column'}: {', '.join(map(str, other.values[:5])) or 'no values'}"
            )

    def _in_conflict(self, block: Partition) -> Partition | None:
        """Return an existing block that does not go together with ``block``, or None."""
        if self._first is None:
            return None
        if self._first.column != block.column:
            return self._first
        known = self._first_with_values
        if known is not None and block.values and type(known.values[0]) is not type(block.values[0]):
            return known
        shared = (self._block_of[value] for value in block.values if value in self._block_of)
        return next(shared, None)
