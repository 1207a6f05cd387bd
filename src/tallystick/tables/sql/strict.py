"""NULL propagation: is an expression of SQL certainly missing where some of its columns are?"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from tallystick.tables.sql.tree import children

_EITHER = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.DPipe,
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE,
)  # fmt: skip
_FIRST = (
    exp.Paren, exp.Neg, exp.Not, exp.Cast, exp.Nullif, exp.Abs, exp.Floor, exp.Ceil, exp.Round, exp.Lower, exp.Upper,
    exp.Length, exp.Trim, exp.Left, exp.Substring, exp.Year, exp.Quarter, exp.Month, exp.Day, exp.DayOfYear,
    exp.In, exp.Between, exp.Like, exp.ILike, exp.TimestampTrunc,
)  # fmt: skip


def missing_without(node: exp.Expr | None, gone: Callable[[exp.Column], bool]) -> bool:
    """True if the value is certainly missing where every column that is ``gone`` is missing."""

    def missing(each: exp.Expr | None) -> bool:
        return missing_without(each, gone)

    if node is None or isinstance(node, exp.Null):
        return True
    if isinstance(node, exp.Column):
        return gone(node)
    if isinstance(node, _EITHER):
        return missing(node.this) or missing(node.expression)
    if isinstance(node, _FIRST):
        return missing(node.this)
    if isinstance(node, exp.Extract):
        return missing(node.expression)
    if isinstance(node, exp.Coalesce):
        return all(missing(each) for each in (node.this, *children(node, "expressions")))
    if isinstance(node, exp.Case):  # a branch whose condition is missing is not taken
        compared = node.this is not None and missing(node.this)
        branches = [compared or missing(each.this) or missing(each.args["true"]) for each in children(node, "ifs")]
        return all(branches) and missing(node.args.get("default"))
    return False
