"""Pieces of a statement alone, for options of the command line: a condition, a derived column, a list of aggregates."""

from __future__ import annotations

from sqlglot import exp

from tallystick.tables.aggregates import Measure
from tallystick.tables.expressions import Expression
from tallystick.tables.sql.catalogue import Known
from tallystick.tables.sql.options import cut
from tallystick.tables.sql.relations import Relation, of_table
from tallystick.tables.sql.select import Aggregation
from tallystick.tables.sql.tree import Text
from tallystick.tables.table import Table


def condition(text: str, table: Table) -> Expression:
    """``year >= 2026 AND ward <> 'x'`` as a condition on a row of the table."""
    relation, tree, _ = _read("SELECT COUNT(*) WHERE ", text, table, ("where",))
    return relation.reader.condition(tree.args["where"].this)


def derived(text: str, table: Table) -> Table:
    """The table with a column such as ``net = amount * (1 - discount)``."""
    name, _, meaning = text.partition("=")
    relation, tree, _ = _read("SELECT ", meaning, table, ())
    made = [relation.reader.read(each) for each in tree.expressions]
    return table.derive(**{name.strip(): made[0]})


def measures(text: str, table: Table) -> tuple[Table, dict[str, Measure]]:
    """``avg(age), count(*) filter (where urgent) as n`` as measures, and the table with the columns they need."""
    relation, tree, aggregation = _read("SELECT ", text, table, ())
    for each in tree.expressions:
        value = aggregation._rewritten(each.unalias(), each.alias)
        if not isinstance(value, exp.Column):
            raise relation.text.refused(each.sql(), each, "aggregates alone; a whole statement can add them up")
    return aggregation.relation.table, aggregation.measures


def _read(before: str, text: str, table: Table, also: tuple[str, ...]) -> tuple[Relation, exp.Select, Aggregation]:
    read = Text(before + text, len(before))
    tokens, options = cut(read)
    tree = read.tree(tokens)
    extra = [name for name, value in tree.args.items() if value and name not in ("expressions", *also)]
    if not isinstance(tree, exp.Select) or extra or options.given:
        raise read.refused(text[:60], len(before), "an expression, and no other part of a statement")
    relation = of_table(read, Known(table), table.name)
    return relation, tree, Aggregation(read, relation, options)
