"""Parallel composition over blocks: when may a population pay the maximum over its blocks instead of the sum?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tallystick.errors import Refused

ASSIGNED_BY: Final = ("unit id", "public attribute")


@dataclass(frozen=True, slots=True)
class Partition:
    """A way to split the units of a population into blocks.

    The population pays its own charges plus the **largest** block only when (i) neighbours differ by adding or removing
    one unit, (ii) a unit lies in one block, and (iii) the block is a function of the unit's id or of an enforced public
    attribute, never of other records. A median split of the table, for example, fails (iii): errata 49,
    docs/theory/parallel-composition.md. Under replacement one unit can leave one block and enter another.

    >>> Partition("ward", by="unit id", one_block_per_unit=True).require("add_remove")
    """

    name: str
    by: str
    one_block_per_unit: bool

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
