"""A table that a block pays for keeps to its block: the block's predicate is the first filter of its plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tallystick.errors import Refused
from tallystick.strict_json import same
from tallystick.tables.expressions import col
from tallystick.tables.steps import Step

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.partition import Partition
    from tallystick.tables.table import Query, Table


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
    steps = [
        replace(step, local=step.local and step.local.with_other(lambda other: _within(other, payer, partitions)))
        for step in table.steps
    ]
    there = [step.to_data() for step in table.steps[: len(filters)]]
    if not same(there, [step.to_data() for step in filters]):  # 1 and 1.0 are equal to Python, and different filters
        steps = [*filters, *steps]
    return replace(table, stored=table.base, steps=tuple(steps))
