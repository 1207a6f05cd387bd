"""Intervals of what a statement computes from released numbers: sums, differences, products and ratios.

Each of the k noisy columns of an expression is taken at confidence 1 - a/k, so all of them hold together with 1 - a.
The interval is then all that the expression can be for numbers in theirs. A ratio whose divisor may be zero gets no
interval and no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    if isinstance(value, exp.Paren | exp.Neg) or _digits(value) is not None:
        return columns_of(value.this, fields)
    if type(value) not in _RULES:
        return None
    sides = [columns_of(side, fields) for side in (value.this, value.expression)]
    known = [side for side in sides if side is not None]
    return frozenset().union(*known) if len(known) == len(sides) else None


def ends_of(value: exp.Expr, known: Mapping[str, Ends], rows: int) -> Ends:
    """Return the interval of an expression from those of its columns."""
    if isinstance(value, exp.Column):
        return known[value.name]
    if isinstance(value, exp.Literal):
        number = np.full(rows, float(value.this))
        return Ends(number, number)
    inner = ends_of(value.this, known, rows)
    if isinstance(value, exp.Paren):
        return inner
    if isinstance(value, exp.Neg):
        return Ends(-inner.upper, -inner.lower)
    digits = _digits(value)
    if digits is not None:  # rounding moves a number by half of the last digit at most, in an engine by a little more
        return Ends(inner.lower - 10.0**-digits, inner.upper + 10.0**-digits)
    return _RULES[type(value)](inner, ends_of(value.expression, known, rows))


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
