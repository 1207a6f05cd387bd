"""A report beside a published table: its columns, its intervals, and what limits and bounds changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.printing import visible
from tallystick.tables import layout
from tallystick.tables.reporting import words
from tallystick.tables.reporting.columns import capped, described, limit_in_all, limits_of, measured, person, touched
from tallystick.tables.reporting.limits import outside_parts
from tallystick.tables.reporting.line import Line, standard_error
from tallystick.tables.reporting.plan import column_lines

if TYPE_CHECKING:
    from tallystick.tables.table import Plan

HOW_FAR = (
    "The table does not say how far outside the bounds values were, so a mean without bounds could differ by any "
    "amount."
)


@dataclass(frozen=True, slots=True)
class Report:
    """The plan of a table and the names under which it is shown.

    ``names`` are those of measures that are shown under others, ``computed`` the columns that are not measures, and
    ``intervals`` says whether any column has one.
    """

    plan: Plan
    names: Mapping[str, str] = field(default_factory=dict)
    computed: tuple[str, ...] = ()
    intervals: bool = True
    all_groups: bool = False
    """True if the intervals of each column hold for all groups together."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Standard errors of columns by their names in the table, where all groups have the same."""

    @property
    def who(self) -> str:
        """The word for one person."""
        return person(self.plan)

    def notes(self, limits: Sequence[Line], noisy: str = "") -> list[str]:
        """Return the lines under a table: intervals, groups that were found, and the effect of limits.

        ``noisy`` says which means are too noisy to use.
        """
        intervals = [words.NOISE_ONLY] if self.intervals else []
        intervals += [words.ALL_GROUPS] if self.intervals and self.all_groups else []
        threshold = self.plan.threshold
        groups = "" if threshold is None else words.groups_shown(threshold, self.who)
        lines = [" ".join([*intervals, *filter(None, [noisy])]), groups, self.effect(limits)]
        return [line for line in lines if line]

    def effect(self, limits: Sequence[Line]) -> str:
        """Return the effect of limits and bounds in sentences; empty if it is small or touches no column."""
        query = self.plan.query
        if limits:
            return words.effect(limits, self.who, touched(query))
        return words.not_measured(limits=any(query.can_leave_out), bounds=bool(outside_parts(query)))

    def details(self, limits: Sequence[Line]) -> list[str]:
        """Return what limits and bounds changed as a table, and what each column is."""
        query = self.plan.query
        groups, rows = limits_of(query)
        how = words.how_limits_work(self.who, groups=groups, rows=rows, in_all=limit_in_all(query))
        lines = [f"Limits: {capped(query, self.who)}.", how, ""]
        if limits:
            lines += ["What limits and bounds changed (95 % intervals, privacy noise only)", *_changes(limits), ""]
        if any(line.of == words.COUNTED for line in limits):
            lines += [HOW_FAR, ""]
        return [*lines, "Columns", *self._columns()]

    def _columns(self) -> list[str]:
        query = self.plan.query
        said = {self._name(name): described(query, measure, self.who) for name, measure in query.measures}
        said |= dict.fromkeys(self.computed, words.COMPUTED)
        return column_lines(said)

    def holds(self) -> str:
        """Return what the numbers and their intervals are about, in sentences."""
        query = self.plan.query
        columns = [Line(self._name(name), did=described(query, each, self.who)) for name, each in query.measures]
        meaning = words.interval_meaning(self.plan.threshold, self.who, all_groups=self.all_groups)
        intervals = f" Intervals: {meaning}." if self.intervals else ""
        return f"Limits: {capped(query, self.who)}. {'; '.join(map(str, columns))}.{intervals}"

    def left_out(self, limits: Iterable[Line]) -> str:
        """Return what limits and bounds changed, in sentences; empty if it was not measured."""
        return words.left_out(list(limits), self.who)

    def about(self, limits: Iterable[Line], noisy: str = "") -> list[list[Any]]:
        """Return all of it as the rows of a table with the columns ``line.CELLS``.

        ``noisy`` says which values are too noisy to use.
        """
        said = {}
        if self.intervals:
            said["every _lower and _upper"] = words.interval_meaning(
                self.plan.threshold, self.who, all_groups=self.all_groups
            )
        said |= self.measured()
        said |= dict.fromkeys(self.computed, words.COMPUTED)
        said |= {words.NOISY_VALUES: noisy} if noisy else {}
        columns = [Line(name, did=did) for name, did in said.items()]
        return [
            *(line.to_cells() for line in (*columns, *limits)),
            *(standard_error(*each) for each in self.errors.items()),
        ]

    def measured(self) -> dict[str, str]:
        """Return by name in the table what each measure is, what is done to its values, and which rows count."""
        return {self._name(name): did for name, did in measured(self.plan.query, self.who).items()}

    def _name(self, measure: str) -> str:
        return self.names.get(measure, measure)


def _changes(limits: Sequence[Line]) -> list[str]:
    """Return the lines of a table: what was counted, its number, out of how many, and the share."""
    names = layout.Column("", tuple(visible(line.label) for line in limits), is_text=True)
    cells = zip(*(words.number_cells(line) for line in limits), strict=True)
    headers = ("number", "out of", "share")
    columns = [layout.Column(name, each, is_text=True) for name, each in zip(headers, cells, strict=True)]
    return layout.lines([names, *columns])
