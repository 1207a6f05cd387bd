"""The integers a plan asks an engine for, and how far one unit can move them.

Every aggregate is made of parts; equal parts of two aggregates are computed, noised and paid once. After capping, one
(unit, group) cell adds a non-negative integer of at most ``peak`` to a part, so with G groups per unit

    L1 = G * levels * peak        L2^2 = G * levels * peak^2

where ``levels`` counts how often the same rows are added up again (the levels of a tree; otherwise 1).
"""

from __future__ import annotations

from dataclasses import dataclass

from tallystick.accounting.adjacency import Adjacency
from tallystick.tables.grid import WEIGHT_BITS, Bins, Grid


@dataclass(frozen=True, slots=True)
class Caps:
    """How much of the table one unit can touch: at most this many groups, and rows in each.

    >>> Caps(4, 5).groups_moved(Adjacency.REPLACE)
    8
    """

    max_groups: int
    max_rows: int

    def groups_moved(self, adjacency: Adjacency) -> int:
        """Groups in which neighbouring tables can differ: adding a unit touches K, replacing one 2K."""
        return 2 * self.max_groups if adjacency is Adjacency.REPLACE else self.max_groups


@dataclass(frozen=True, slots=True)
class Part:
    """One family of integers per group.

    ``kind`` is rows, units, present, total, squares, bins or tree.
    """

    kind: str
    column: str | None = None
    grid: Grid | None = None
    bins: Bins | None = None
    missing: float | None = None

    @property
    def label(self) -> str:
        """A short name for people."""
        if self.kind == "bins" and self.bins:
            return f"{self.bins.count} bins of {self.column}"
        if self.kind == "tree" and self.bins:
            return f"tree of {self.bins.height} levels over {self.column}"
        words = {
            "rows": "rows",
            "units": "units",
            "present": f"rows with {self.column}",
            "total": f"total of {self.column}",
            "squares": f"squares of {self.column}",
        }
        return words[self.kind]

    @property
    def levels(self) -> int:
        """How often one row is counted."""
        return self.bins.height if self.kind == "tree" and self.bins else 1

    @property
    def width(self) -> int:
        """How many noisy numbers each group has."""
        if self.kind == "tree" and self.bins:
            return sum(level_sizes(self.bins.height))
        return self.bins.count if self.bins else 1

    def peak(self, caps: Caps) -> int:
        """The most one (unit, group) cell adds, at one level."""
        if self.kind == "units":
            return 1
        if self.kind in ("bins", "tree"):
            return caps.max_rows << WEIGHT_BITS
        if self.grid and self.kind == "total":
            return caps.max_rows * self.grid.top
        if self.grid and self.kind == "squares":
            return caps.max_rows * self.grid.square_top
        return caps.max_rows

    @property
    def scale(self) -> float:
        """The size of one integer step in the units of the data."""
        if self.kind in ("bins", "tree"):
            return 2.0**-WEIGHT_BITS
        if self.grid and self.kind == "total":
            return self.grid.step
        if self.grid and self.kind == "squares":
            return self.grid.step**2 * 2.0**self.grid.square_shift
        return 1.0

    @property
    def reference(self) -> float:
        """Peak over typical value, with values spread evenly over the declared range: 1, for totals 2, squares 3."""
        return {"total": 2.0, "squares": 3.0}.get(self.kind, 1.0)

    def l1(self, caps: Caps, adjacency: Adjacency) -> int:
        """L1 sensitivity in integer steps.

        >>> Part("rows").l1(Caps(4, 5), Adjacency.ADD_REMOVE)
        20
        """
        return caps.groups_moved(adjacency) * self.levels * self.peak(caps)

    def l2_squared(self, caps: Caps, adjacency: Adjacency) -> int:
        """Squared L2 sensitivity in integer steps: of a row count K L^2, of a tree of height h K h L^2.

        >>> Part("rows").l2_squared(Caps(4, 5), Adjacency.ADD_REMOVE)
        100
        """
        return caps.groups_moved(adjacency) * self.levels * self.peak(caps) ** 2


def level_sizes(height: int) -> list[int]:
    """Nodes per level of a binary tree without its root, from the top: 2, 4, ..., 2^height.

    >>> level_sizes(3)
    [2, 4, 8]
    """
    return [1 << level for level in range(1, height + 1)]
