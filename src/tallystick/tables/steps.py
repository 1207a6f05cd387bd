"""Steps between a stored table and its grouped rows, and the unit of a table without a unit column.

A table that a block pays for keeps to its block: the block's predicate is the first filter of its plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tallystick.errors import Refused
from tallystick.strict_json import same
from tallystick.tables.expressions import Expression, col

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.partition import Partition
    from tallystick.tables.keyset import PublicTable
    from tallystick.tables.local import LocalStep
    from tallystick.tables.table import Query, Table


@dataclass(frozen=True, slots=True)
class EachRow:
    """Row-level privacy: every row is its own unit."""


EACH_ROW = EachRow()
each_row: Final = EACH_ROW
"""``unit=ts.each_row``: protect single rows. Weaker than protecting the people the rows are about."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step between the stored table and the grouped rows: a filter, a derived column, a public join, or one that
    sees all rows of a unit (``local``).
    """

    kind: str
    name: str = ""
    expression: Expression | None = field(default=None, compare=False)
    public: PublicTable | None = None
    how: str = "inner"
    local: LocalStep | None = None

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data."""
        data: dict[str, Any] = {"kind": self.kind}
        if self.expression is not None:
            data["expression"] = self.expression.to_data()
        if self.name:
            data["name"] = self.name
        if self.public is not None:
            data |= {"public": self.public.to_data(), "how": self.how}
        if self.local is not None:
            data |= self.local.to_data()
            if self.local.other is not None:
                data["other"] = self.local.other.as_other()
        return data


def within_block(query: Query, payer: Account) -> Query:
    """The question about the rows of the payer's block; refused when nothing says which rows these are.

    A population pays the largest of its blocks only, so a block that could ask about everybody would be asked once per
    block and paid for once.
    """
    partitions = payer.partitions()
    return query.about(_within(query.table, payer, partitions)) if partitions else query


def _within(table: Table, payer: Account, partitions: Sequence[Partition]) -> Table:
    """A table, and every other that it meets, with the filters of the payer's block first."""
    filters = []
    for partition in partitions:
        if not partition.column:
            raise Refused(
                f"account {payer.name!r} is a block of {partition.name!r} that does not say which rows are its own, "
                "so a table could ask about everyone at the cost of one block; open it with "
                "Partition(..., column=, values=), or without partition="
            )
        condition = col(partition.column).isin(partition.values)
        kind = "text" if isinstance(partition.values[0], str) else "integer"
        if table.base.type_of(partition.column) != kind:
            raise Refused(
                f"blocks of {partition.name!r} are distinguished by {kind} values, and {partition.column!r} is "
                f"{table.base.type_of(partition.column)} here: two blocks could share rows"
            )
        filters.append(Step("filter", expression=condition))
    steps = [
        replace(step, local=step.local and step.local.with_other(lambda other: _within(other, payer, partitions)))
        for step in table.steps
    ]
    there = [step.to_data() for step in table.steps[: len(filters)]]
    if not same(there, [step.to_data() for step in filters]):  # 1 and 1.0 are equal to Python, and different filters
        steps = [*filters, *steps]
    return replace(table, stored=table.base, steps=tuple(steps))
