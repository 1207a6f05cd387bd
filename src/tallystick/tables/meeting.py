"""Which private tables may meet: of one engine, one payer, and the same units by all that is public.

Tables of different files meet as tables of one source, which is all those files; each is still known to the ledger by
its own place.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tallystick.errors import Refused, Remedy
from tallystick.tables.sources import Source, beside, identity

if TYPE_CHECKING:
    from tallystick.tables.local import LocalStep
    from tallystick.tables.table import Table

MOST_TABLES: Final = 16
"""Stored tables in one question, each as often as it is named."""

LONGEST_STEM: Final = 150


def meeting(table: Table, step: LocalStep) -> tuple[Table, LocalStep]:
    """A table and a step of it, whose second table, if it has one, is of the same source as the first."""
    if step.other is None:
        return table, step
    table, other = related(table, step.other)
    return table, step.with_other(lambda _: other)


def related(table: Table, other: Table) -> tuple[Table, Table]:
    """Both tables of one source, if they are about the same units by all that is public; refused otherwise."""
    mine, theirs = table.unit, other.unit
    if not isinstance(mine, str) or not isinstance(theirs, str):
        raise Refused("where single rows are protected no two rows have the same unit, so tables cannot meet on it")
    if table.source != other.source or table.source.handle is not other.source.handle:
        table, other = _beside(table, other)
    if table.adjacency is not other.adjacency or not _same_payer(table, other):
        raise Refused("the two tables have different neighbours or accounts, so no single cost covers both")
    if table.base.type_of(mine) != other.base.type_of(theirs):
        raise Refused(f"units {mine!r} and {theirs!r} are of different types, so none of them is the same")
    leaves = [*table.leaves(), *other.leaves()]
    if len(leaves) > MOST_TABLES:
        raise Refused(f"this question names {len(leaves)} stored tables, at most {MOST_TABLES} are allowed")
    known: dict[str, Table] = {}
    for leaf in leaves:  # engines have several names for one table
        first = known.setdefault(identity(table.source, leaf.name), leaf)
        if (first.name, first.base, first.unit) != (leaf.name, leaf.base, leaf.unit):
            raise Refused(f"table {leaf.name!r} stands twice in this question, with different columns, units or names")
    return table, other


def _beside(table: Table, other: Table) -> tuple[Table, Table]:
    """Two tables of different files as tables of one source, which is both files; each leaf is called by its file."""
    if not all(each.source.paths for each in (table, other)):
        raise Refused(
            f"tables of {table.source.kind} and of {other.source.kind} cannot meet: one engine reads both. "
            "Use files, or tables of one database",
            remedies=[Remedy("pass_frame")],
        )
    names: dict[str, str] = {}
    members: dict[str, tuple[Source, str]] = {}
    for leaf in [*table.leaves(), *other.leaves()]:
        place, (own, stored) = identity(leaf.source, leaf.name), leaf.source.member(leaf.name)
        if place not in names:
            plain = stored if own.kind == "duckdb" else Path(own.place).stem
            said = plain if plain.isprintable() and 0 < len(plain) <= LONGEST_STEM else "table"
            tries = (said if i == 1 else f"{said} {i}" for i in itertools.count(1))
            names[place] = next(each for each in tries if each not in members)
            members[names[place]] = own, stored
    together = beside(members)

    def moved(one: Table) -> Table:
        steps = tuple(replace(step, local=step.local and step.local.with_other(moved)) for step in one.steps)
        return replace(one, source=together, name=names[identity(one.source, one.name)], steps=steps)

    return moved(table), moved(other)


def _same_payer(table: Table, other: Table) -> bool:
    one, two = table.account, other.account
    if one is None or two is None:
        return one is two
    return one.name == two.name and one.ledger is two.ledger
