"""A table that a block pays for keeps to its block: the block's predicate is the first filter of its plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tallystick.errors import Refused
from tallystick.strict_json import same
from tallystick.tables.expressions import col
from tallystick.tables.table import Step

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.tables.asked import Query


def within_block(query: Query, payer: Account) -> Query:
    """The question about the rows of the payer's block; refused when nothing says which rows these are.

    A population pays the largest of its blocks only, so a block that could ask about everybody would be asked once per
    block and paid for once.
    """
    table, filters = query.table, []
    for partition in payer.partitions():
        if not partition.column:
            raise Refused(
                f"account {payer.name!r} is a block of {partition.name!r} that does not say which rows are its own, so "
                "a table could ask about everybody at the price of one block; open it with "
                "Partition(..., column=, values=), or without partition="
            )
        condition = col(partition.column).isin(partition.values)
        kind = "text" if isinstance(partition.values[0], str) else "integer"
        if table.base.type_of(partition.column) != kind:
            raise Refused(
                f"blocks of {partition.name!r} are told apart by {kind} values, and {partition.column!r} is "
                f"{table.base.type_of(partition.column)} here: two blocks could share rows"
            )
        filters.append(Step("filter", expression=condition))
    there = [step.to_data() for step in table.steps[: len(filters)]]
    if same(there, [step.to_data() for step in filters]):  # 1 and 1.0 are equal to Python, and different filters
        return query
    return query.about(replace(table, stored=table.base, steps=(*filters, *table.steps)))
