"""A linear model as a card knows it: target, features and bounds, read from the plan of its sums.

The plan says everything, so a card needs no statement about it that could be wrong. ``LinearForm.of`` reads the columns
from the last steps of a plan, builds these steps again and compares them.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

from tallystick.errors import Refused
from tallystick.inference.regression import APPROXIMATE, Line, named_statistics, said_of_intervals, sum_name
from tallystick.printing import listed
from tallystick.tables.aggregates import Sum
from tallystick.tables.expressions import Expression, col, when
from tallystick.tables.measures import count
from tallystick.tables.measures import sum as total

if TYPE_CHECKING:
    from tallystick.tables.aggregates import Measure
    from tallystick.tables.plan import Plan
    from tallystick.tables.release import Release
    from tallystick.tables.table import Query, Table

CLAMPED_MODEL = (
    "Values outside the bounds count as the nearer bound, which can change the line by any amount. The intervals do "
    "not say how far outside the values were. It was not measured."
)


@dataclass(frozen=True, slots=True)
class LinearForm:
    """Target and features of a linear model; ``bounds`` are those of the features and, last, of the target."""

    target: str
    features: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, plan: Plan) -> LinearForm | None:
        """The model whose sums a plan releases; None if the plan is another one."""
        found = []
        steps = [step.to_data() for step in plan.query.table.steps]
        for place in range(sum(step["kind"] == "derive" for step in steps)):
            named = [step["expression"] for step in steps if step.get("name") == f"fit_{place}"]
            if not named:
                break
            found.append(_clamped(named[-1]))
        if len(found) < 2 or None in found:
            return None
        names, bounds = zip(*(each for each in found if each is not None), strict=True)
        form = cls(names[-1], names[:-1], bounds)
        own = form._steps()
        asked = {name: _as_asked(measure) for name, measure in plan.query.measures}
        is_same = steps[-len(own) :] == own and asked == form._sums() and not plan.query.columns
        return form if is_same else None

    @property
    def columns(self) -> tuple[str, ...]:
        """Features, then the target."""
        return (*self.features, self.target)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Places of columns whose products are summed."""
        return list(combinations_with_replacement(range(len(self.columns)), 2))

    @property
    def steps(self) -> int:
        """Number of steps at the end of the plan that prepare the sums."""
        return len(self._steps())

    @property
    def title(self) -> str:
        """The model in a few words."""
        return f"a linear model of {self.target} on {listed(self.features)}"

    def query(self, table: Table) -> Query:
        """The sums of a table."""
        table = (
            table.filter(self._there()).derive(**scaled_columns(self.columns, self.bounds)).derive(**self._products())
        )
        return table.agg(**self._sums())

    def line(self, release: Release, *, ridge: float | None = None) -> Line:
        """The line, read from released sums."""
        values = {name: float(estimate.value[0]) for name, estimate in release.estimates().items()}
        noises = {noise.part: noise.law.variance * noise.part.scale**2 for noise in release.plan.noises}
        variances = {name: noises[measure.parts()[0]] for name, measure in release.plan.query.measures}
        sums = named_statistics(values, variances, features=len(self.features))
        return Line(sums, self.bounds, release.plan.query.caps.max_rows, ridge)

    def facts(self, release: Release | None, rows_per_unit: int) -> dict[str, Any]:
        """The model as a card has it, as plain data."""
        coefficients, reason = ([], None) if release is None else self._coefficients(release)
        released = {} if release is None else release.estimates()
        values = {name: {"value": float(each.value[0])} for name, each in released.items()}
        return {
            "kind": "linear",
            "title": self.title,
            "target": self.target,
            "features": list(self.features),
            "bounds": [list(pair) for pair in self.bounds],
            "coefficients": coefficients,
            "no_intervals": reason,
            "intervals": APPROXIMATE,
            "intervals_about": said_of_intervals(self.target, *self.bounds[-1], rows_per_unit),
            "sums": [{**each, **values.get(each["name"], {})} for each in self._sums_in_words()],
        }

    def _coefficients(self, release: Release) -> tuple[list[dict[str, Any]], str | None]:
        """Values with their intervals, and why there are no intervals."""
        line = self.line(release)
        named = zip((*self.features, "intercept"), line.values.tolist(), strict=True)
        try:
            ends = line.intervals()
        except Refused as problem:
            return [{"name": name, "value": value, "lower": None, "upper": None} for name, value in named], str(problem)
        both = zip(named, ends, strict=True)
        return [
            {"name": name, "value": value, "lower": low, "upper": high} for (name, value), (low, high) in both
        ], None

    def _sums_in_words(self) -> list[dict[str, str]]:
        """Return what each sum adds up; ``part`` is its name among the parts of the noise."""
        names = self.columns
        sums = [{"name": "n", "part": "rows", "said": "number of rows"}]
        sums += [
            {"name": sum_name(i, None), "part": f"total of fit_{i}", "said": f"sum of {name}"}
            for i, name in enumerate(names)
        ]
        for i, j in self.pairs:
            product = f"{names[i]} squared" if i == j else f"{names[i]} times {names[j]}"
            sums.append({"name": sum_name(i, j), "part": f"total of fit_{i}_{j}", "said": f"sum of {product}"})
        return sums

    def _there(self) -> Expression:
        return functools.reduce(operator.and_, (~col(name).is_missing() for name in self.columns))

    def _products(self) -> dict[str, Expression]:
        return {f"fit_{i}_{j}": col(f"fit_{i}") * col(f"fit_{j}") for i, j in self.pairs}

    def _sums(self) -> dict[str, Measure]:
        sums: dict[str, Measure] = {"n": count()}
        sums |= {sum_name(i, None): total(f"fit_{i}", 0, 1) for i in range(len(self.columns))}
        return sums | {sum_name(i, j): total(f"fit_{i}_{j}", 0, 1) for i, j in self.pairs}

    def _steps(self) -> list[dict[str, Any]]:
        """The steps of ``query`` as plain data."""
        derived = {**scaled_columns(self.columns, self.bounds), **self._products()}
        steps: list[dict[str, Any]] = [{"kind": "filter", "expression": self._there().to_data()}]
        return steps + [
            {"kind": "derive", "expression": expression.to_data(), "name": name} for name, expression in derived.items()
        ]


def scaled_columns(columns: Sequence[str], bounds: Sequence[tuple[float, float]]) -> dict[str, Expression]:
    """Return derived columns fit_0, fit_1, ...: each one clamped and mapped to [0, 1]."""
    both = zip(columns, bounds, strict=True)
    return {f"fit_{i}": scaled(name, low, high) for i, (name, (low, high)) in enumerate(both)}


def scaled(name: str, low: float, high: float) -> Expression:
    """Return a column clamped to its bounds, as a number from 0 to 1."""
    inside = when(col(name) < low, low, when(col(name) > high, high, col(name)))
    return (inside - low) / (high - low)


def _as_asked(measure: Measure) -> Measure:
    """Return a measure of a plan as it was asked for: a plan adds whether a column has whole numbers."""
    return replace(measure, whole=None) if isinstance(measure, Sum) else measure


def _clamped(expression: Any) -> tuple[str, tuple[float, float]] | None:
    """Column and bounds of an expression that ``scaled`` made; None for another one."""
    try:
        below, above = expression[1][1][1], expression[1][1][3][1]
        name, low, high = str(below[1][1]), below[2][1], above[2][1]
        return (name, (low, high)) if scaled(name, low, high).to_data() == expression else None
    except (LookupError, TypeError, ArithmeticError):
        return None
