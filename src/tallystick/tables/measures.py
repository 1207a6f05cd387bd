"""Measures of a group: the words ``ts.count``, ``ts.sum``, ``ts.mean`` and their like."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from inspect import signature
from typing import Any

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.tables.aggregates import (
    KINDS,
    WORDS,
    Count,
    CountUnits,
    Histogram,
    Mean,
    Measure,
    Quantile,
    Sum,
    Variance,
    word,
)
from tallystick.tables.fixed_point import bounds, histogram_bins
from tallystick.tables.reporting.rows import RowsOverCap, UnitsOverCap
from tallystick.tables.schema import column_name
from tallystick.tables.units_with import CountUnitsWith


@word
def count() -> Measure:
    """Count rows, each unit's rows capped.

    >>> count().to_data()
    {'kind': 'count'}
    """
    return Count()


@word
def count_units(column: str | None = None) -> Measure:
    """Count the units that have a row, or a row with a value in a column.

    >>> count_units("bought").to_data()
    {'kind': 'count_units_with', 'column': 'bought'}
    """
    return CountUnits() if column is None else CountUnitsWith(column_name(column))


@word
def rows() -> Measure:
    """Count rows. Where limits per person can leave rows out, the column ends in ``_limited``.

    >>> rows().to_data()
    {'kind': 'count', 'says_limited': False}
    """
    return Count(says_limited=False)


@word
def people(column: str | None = None) -> Measure:
    """Count the people who have a row, or a row with a value in a column.

    Where the limit on groups can leave people out, the column ends in ``_limited``.
    """
    if column is None:
        return CountUnits(says_limited=False)
    return CountUnitsWith(column_name(column), says_limited=False)


@word
def units_over_cap() -> Measure:
    """Count the units that have more rows in a group than count there.

    >>> units_over_cap().to_data()
    {'kind': 'units_over_cap'}
    """
    return UnitsOverCap()


@word
def rows_over_cap(most: int = 10) -> Measure:
    """Count the rows of a group that are over the cap on rows, of each unit up to ``most``.

    Only units that count in the group are counted. More than ``most`` rows of one are not reported, and a larger
    number has more noise.

    >>> rows_over_cap(20).to_data()
    {'kind': 'rows_over_cap', 'most': 20}
    """
    return RowsOverCap(check.count("most", most, least=1))


@word
def sum(
    column: str, lower: float | None = None, upper: float | None = None, *, missing: float | None = None
) -> Measure:
    """Total of a column clamped to public bounds.

    >>> sum("cost", 0, 5_000).to_data()
    {'kind': 'sum', 'column': 'cost', 'lower': 0, 'upper': 5000}
    """
    return Sum(*_column(column, lower, upper), missing)


@word
def mean(
    column: str, lower: float | None = None, upper: float | None = None, *, missing: float | None = None
) -> Measure:
    """Mean of a column clamped to public bounds: noisy total over noisy count."""
    return Mean(*_column(column, lower, upper), missing)


@word
def variance(
    column: str, lower: float | None = None, upper: float | None = None, *, missing: float | None = None
) -> Measure:
    """Variance of a column clamped to public bounds (divided by n)."""
    return Variance(*_column(column, lower, upper), missing)


@word
def standard_deviation(
    column: str, lower: float | None = None, upper: float | None = None, *, missing: float | None = None
) -> Measure:
    """Square root of ``variance``."""
    return Variance(*_column(column, lower, upper), missing, root=True)


@word
def median(
    column: str,
    lower: float | None = None,
    upper: float | None = None,
    *,
    bins: int | None = None,
    missing: float | None = None,
) -> Measure:
    """The middle value: ``quantile`` at one half."""
    return quantile(column, 0.5, lower, upper, bins=bins, missing=missing)


@word
def quantile(
    column: str,
    p: float,
    lower: float | None = None,
    upper: float | None = None,
    *,
    bins: int | None = None,
    missing: float | None = None,
) -> Measure:
    """The value below which a share ``p`` lies.

    >>> quantile("age", 0.9, 0, 110).to_data()["p"]
    0.9
    """
    share = check.probability("p", p)
    return Quantile(*_column(column, lower, upper), missing, p=share, bins=bins)


def histogram(column: str, edges: Sequence[float]) -> Measure:
    """Rows per bin.

    >>> histogram("age", [0, 18, 65, 110]).fields("age")
    ('age[0,18)', 'age[18,65)', 'age[65,110]')
    """
    return Histogram(column_name(column), histogram_bins(edges).edges)


def measure_from_data(data: Any) -> Measure:
    """The measure that ``to_data`` wrote; its numbers are checked, like any others, when it is asked of a table."""
    try:
        values = dict(data)
        return KINDS[values.pop("kind")].from_data(values)
    except InvalidInput:
        raise
    except (KeyError, TypeError, ValueError) as problem:
        raise InvalidInput("measure", type(problem).__name__, f"one of {', '.join(KINDS)}") from None


def _column(column: str, lower: float | None, upper: float | None) -> tuple[str, float | None, float | None]:
    if (lower is None) != (upper is None):
        raise InvalidInput("bounds", (lower, upper), "both bounds, or none", problem="one bound is missing")
    if lower is not None:
        bounds(lower, upper)
    return column_name(column), lower, upper


def _unknown(said: str, inside: str) -> InvalidInput:
    """The error for a word that is not a measure: the nearest measure, or all of them."""
    near = [_ALSO_CALLED[said]] if said in _ALSO_CALLED else get_close_matches(said, WORDS, n=1)
    problem = f"unknown measure {said}"
    if near:
        meant = f"{near[0]}({inside})" if inside else near[0]
        problem = f"{problem}. Did you mean {meant}?"
    return InvalidInput("measures", said, f"one of: {', '.join(WORDS)}", code="unknown_measure", problem=problem)


_ALSO_CALLED = {
    "average": "mean",
    "avg": "mean",
    "total": "sum",
    "stddev": "standard_deviation",
    "std": "standard_deviation",
}
"""Words of other programs for our measures."""


def parse(text: str) -> dict[str, Measure]:
    """Measures from words, as the command line takes them.

    >>> sorted(parse("count, mean(age), quantile(age, 0.9, 0, 110)"))
    ['count', 'mean_age', 'quantile_age_0.9']
    """
    measures: dict[str, Measure] = {}
    for said, _, inside in re.findall(r"\s*([a-z_]+)\s*(\(([^()]*)\))?\s*(?:,|$)", text):
        if said not in WORDS:
            raise _unknown(said, inside)
        arguments = [piece.strip() for piece in inside.split(",")] if inside.strip() else []
        named = "column" in signature(WORDS[said]).parameters  # which comes first
        values = [piece if named and i == 0 else _number(piece) for i, piece in enumerate(arguments)]
        needed = [one for one in signature(WORDS[said]).parameters.values() if one.default is one.empty]
        name = "_".join([said, *arguments[: len(needed)]])
        try:
            measures[name] = WORDS[said](*values)
        except TypeError:
            raise InvalidInput("measures", f"{said}({inside})", f"{said} with the arguments it takes") from None
    if not measures or re.sub(r"\s*([a-z_]+)\s*(\(([^()]*)\))?\s*(?:,|$)", "", text).strip():
        raise InvalidInput("measures", text, "a list such as count,mean(age),quantile(age,0.9)")
    return measures


def _number(piece: str) -> float:
    try:
        return float(piece)
    except ValueError:
        raise InvalidInput("measures", piece, "numbers after the column name") from None
