"""A report beside a published table: how it was capped, what its columns and intervals are, what was left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.printing import visible
from tallystick.tables.reporting import words
from tallystick.tables.reporting.columns import capped, described, measured
from tallystick.tables.reporting.line import Line
from tallystick.tables.steps import EachRow

if TYPE_CHECKING:
    from tallystick.tables.table import Plan


@dataclass(frozen=True, slots=True)
class Report:
    """The plan of a table and the names under which it is shown.

    ``names`` are those of measures that are shown under others, ``computed`` the columns that are none, and
    ``intervals`` says whether any column has one.
    """

    plan: Plan
    names: Mapping[str, str] = field(default_factory=dict)
    computed: tuple[str, ...] = ()
    intervals: bool = True

    @property
    def who(self) -> str:
        """Name of one unit: the column that tells units apart."""
        unit = self.plan.query.table.unit
        return "row" if isinstance(unit, EachRow) else visible(unit)

    def holds(self) -> str:
        """Return what the numbers and their intervals are about, in a sentence."""
        query = self.plan.query
        columns = [Line(self._name(name), did=described(query, measure)) for name, measure in query.measures]
        meaning = words.interval_meaning(self.plan.threshold)
        brackets = f" In brackets: {meaning}." if self.intervals else ""
        return f"Capped: {capped(query, self.who)}. {'; '.join(map(str, columns))}.{brackets}"

    def left_out(self, limits: Iterable[Line]) -> str:
        """Return what the caps and bounds left out, in a sentence; empty if it was not asked."""
        return words.left_out(list(limits), self.who)

    def about(self, limits: Iterable[Line], noisy: str = "") -> list[list[Any]]:
        """Return all of it as the rows of a table with the columns ``line.CELLS``.

        ``noisy`` says which values are too noisy to use.
        """
        told = {}
        if self.intervals:
            told["every _lower and _upper"] = words.interval_meaning(self.plan.threshold)
        told |= {self._name(name): did for name, did in measured(self.plan.query, self.who).items()}
        told |= dict.fromkeys(self.computed, words.COMPUTED)
        told |= {words.NOISY_VALUES: noisy} if noisy else {}
        columns = [Line(name, did=did) for name, did in told.items()]
        return [line.to_cells() for line in (*columns, *limits)]

    def _name(self, measure: str) -> str:
        return self.names.get(measure, measure)
