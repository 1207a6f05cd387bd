"""Between which bounds the values of an aggregate are clamped: the registered ones, and narrower ones that it says."""

from __future__ import annotations

from sqlglot import exp

from tallystick.digits import typed
from tallystick.errors import Refused
from tallystick.tables.expressions import Expression
from tallystick.tables.sql.options import Options
from tallystick.tables.sql.ranges import Range, range_of
from tallystick.tables.sql.relations import Relation
from tallystick.tables.sql.tree import spelled


def limits_of(relation: Relation, node: exp.Expr, made: Expression, options: Options) -> Range | None:
    """The bounds of what an aggregate is about, or None where nothing public says them."""
    text = relation.text
    known = range_of(made, {name: (low, high) for name, low, high in relation.table.declared}, relation.schema)
    said = options.clamp_of(node.meta.get("start", -1))
    if said is None:
        return known
    if said[0] >= said[1]:
        raise text.wrong("CLAMPED BETWEEN", node, "a lower bound below the upper bound")
    if known is not None and not known[0] <= said[0] < said[1] <= known[1]:
        raise text.refused(
            f"bounds {typed(said[0])} to {typed(said[1])}",
            node,
            f"bounds within {typed(known[0])} to {typed(known[1])}, which are registered",
        )
    return float(said[0]), float(said[1])


def no_bounds(relation: Relation, node: exp.Expr) -> Refused:
    """Return the error for an aggregate that needs bounds and has no bounds."""
    word = spelled(node)
    return relation.text.refused(
        f"{word} without bounds", node, f"{word}(... CLAMPED BETWEEN 0 AND 100), or bounds registered for the column"
    )
