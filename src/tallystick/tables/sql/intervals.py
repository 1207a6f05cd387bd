"""Intervals of what a statement computes from released numbers: sums, differences, products and ratios.

Each of the k noisy columns of an expression is taken at confidence 1 - a/k, so all of them hold together with 1 - a.
The interval is then all that the expression can be for numbers in theirs. A ratio whose divisor may be zero gets no
interval and no value. What a CASE chooses depends on noisy numbers, so its interval holds all that it could choose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

Floats = NDArray[np.float64]


class Ends(NamedTuple):
    """The ends of intervals, row by row; NaN where there is no interval."""

    lower: Floats
    upper: Floats


def columns_of(value: exp.Expr, fields: frozenset[str]) -> frozenset[str] | None:
    """Return the released columns that an expression computes with; None if it has no interval here."""
    if isinstance(value, exp.Column):
        return frozenset([value.name]) if value.name in fields else None
    if isinstance(value, exp.Literal):
        return None if value.is_string else frozenset()
    if isinstance(value, exp.Case):
        return _columns_of_all(_branches(value), fields) if _branches(value) else None
    if isinstance(value, exp.Window):
        summed = summed_column(value)
        return frozenset([f"{TOTAL}{summed}"]) if summed in fields else None
    if isinstance(value, exp.Paren | exp.Neg) or _digits(value) is not None or type(value) in _RISING:
        return columns_of(value.this, fields)
    if _is_replaced(value) or _is_cast(value):
        return columns_of(value.this, fields)
    if type(value) not in _RULES:
        return None
    return _columns_of_all([value.this, value.expression], fields)


TOTAL: Final = "\0total "
"""Before the name of a released column: its sum over all groups. No column has a name with this character."""
LATER: Final = (exp.Window, exp.Case, exp.Nullif, exp.Coalesce, exp.Cast, exp.TryCast, exp.Sqrt, exp.Floor, exp.Ceil)
"""Nodes that have an interval in answers of the form ``sources.SAYS_LIMITED`` or later."""


def summed_column(value: exp.Window) -> str | None:
    """Return the column that SUM(...) OVER () adds up over all groups; None for another window."""
    parts = [name for name in ("partition_by", "order", "spec", "over", "alias") if value.args.get(name)]
    is_whole = set(parts) <= {"over"} and isinstance(value.this, exp.Sum)
    return value.this.this.name if is_whole and isinstance(value.this.this, exp.Column) else None


def _columns_of_all(values: Sequence[exp.Expr], fields: frozenset[str]) -> frozenset[str] | None:
    sides = [columns_of(side, fields) for side in values]
    known = [side for side in sides if side is not None]
    return frozenset().union(*known) if len(known) == len(sides) else None


def _branches(value: exp.Case) -> list[exp.Expr]:
    """Return what a CASE can be; which of it is decided by noisy numbers, so it can be any."""
    chosen = [each.args["true"] for each in value.args["ifs"]]
    default = value.args.get("default")
    return [each for each in (*chosen, default) if each is not None and not isinstance(each, exp.Null)]


def _is_replaced(value: exp.Expr) -> bool:
    """True for NULLIF and COALESCE with constants: their number is the first argument, or it has no interval."""
    if isinstance(value, exp.Nullif):
        return isinstance(value.expression, exp.Literal)
    return isinstance(value, exp.Coalesce) and all(isinstance(each, exp.Literal) for each in value.expressions)


def _is_cast(value: exp.Expr) -> bool:
    """True for a cast to double, which changes no number here."""
    return isinstance(value, exp.Cast | exp.TryCast) and value.args["to"].this == exp.DataType.Type.DOUBLE


def ends_of(value: exp.Expr, known: Mapping[str, Ends], rows: int) -> Ends:
    """Return the interval of an expression from those of its columns."""
    if isinstance(value, exp.Column):
        return known[value.name]
    if isinstance(value, exp.Window):
        return known[f"{TOTAL}{summed_column(value)}"]
    if isinstance(value, exp.Literal):
        number = np.full(rows, float(value.this))
        return Ends(number, number)
    if isinstance(value, exp.Case):
        return _hull([ends_of(each, known, rows) for each in _branches(value)])
    inner = ends_of(value.this, known, rows)
    if isinstance(value, exp.Paren) or _is_replaced(value) or _is_cast(value):
        return inner
    if type(value) in _RISING:
        return _applied(_RISING[type(value)], inner)
    if isinstance(value, exp.Neg):
        return Ends(-inner.upper, -inner.lower)
    digits = _digits(value)
    if digits is not None:  # rounding moves a number by half of the last digit at most, in an engine by a little more
        return Ends(inner.lower - 10.0**-digits, inner.upper + 10.0**-digits)
    return _RULES[type(value)](inner, ends_of(value.expression, known, rows))


def _hull(branches: Sequence[Ends]) -> Ends:
    """Return the interval that holds all of several; NaN if an interval is missing."""
    lower = np.array([each.lower for each in branches]).min(axis=0)
    upper = np.array([each.upper for each in branches]).max(axis=0)
    is_known = np.isfinite(lower) & np.isfinite(upper)
    return Ends(np.where(is_known, lower, np.nan), np.where(is_known, upper, np.nan))


def _applied(function: Callable[[Floats], Floats], inner: Ends) -> Ends:
    """Return the interval of a rising function; NaN where it is not defined on all of the interval."""
    with np.errstate(all="ignore"):
        ends = Ends(function(inner.lower), function(inner.upper))
    is_known = np.isfinite(ends.lower) & np.isfinite(ends.upper)
    return Ends(np.where(is_known, ends.lower, np.nan), np.where(is_known, ends.upper, np.nan))


_RISING: Final[dict[type[Any], Callable[[Floats], Floats]]] = {
    exp.Sqrt: np.sqrt,
    exp.Floor: np.floor,
    exp.Ceil: np.ceil,
}
"""Functions that rise with their argument."""


def _digits(value: exp.Expr) -> int | None:
    """Return the decimals that a number is rounded to; None where it is not rounded to a public number of them."""
    if not isinstance(value, exp.Round):
        return None
    said = value.args.get("decimals")
    if said is None:
        return 0
    is_public = isinstance(said, exp.Literal) and not said.is_string and str(said.this).isdigit()
    return min(15, int(said.this)) if is_public else None


def _corners(combine: Callable[[Floats, Floats], Floats]) -> Callable[[Ends, Ends], Ends]:
    """Return a rule for what is largest and smallest where both sides are at an end."""

    def rule(left: Ends, right: Ends) -> Ends:
        with np.errstate(all="ignore"):  # no number, or one too large for a double, is no interval
            found = np.array([combine(a, b) for a in left for b in right])
        found[:, ~np.isfinite(found).all(axis=0)] = np.nan
        return Ends(found.min(axis=0), found.max(axis=0))

    return rule


_quotient = _corners(np.divide)


def _divided(left: Ends, right: Ends) -> Ends:
    may_be_zero = ~((right.lower > 0) | (right.upper < 0))
    found = _quotient(left, right)
    return Ends(np.where(may_be_zero, np.nan, found.lower), np.where(may_be_zero, np.nan, found.upper))


_RULES: Final[dict[type[Any], Callable[[Ends, Ends], Ends]]] = {
    exp.Add: _corners(np.add),
    exp.Sub: _corners(np.subtract),
    exp.Mul: _corners(np.multiply),
    exp.Div: _divided,
}
