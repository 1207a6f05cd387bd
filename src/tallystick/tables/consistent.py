"""Cells of a release that are whole numbers, never negative, and add up with all their margins.

Post-processing, and free (docs/theory/query-consistent.md). The nearest cells that are not negative and have the same
sum are found by least squares; pulling cells up to 0 one by one would raise the sum. Then cells are rounded so that the
sum stays. Margins are sums of the rounded cells, so everything adds up. All cells of a column have the same noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.accounting import check
from tallystick.errors import InvalidInput, Refused
from tallystick.inference.linear import half_width, nonnegative, whole
from tallystick.tables.keyset import PrivateKeys
from tallystick.tables.output import Columns
from tallystick.tables.parts import Total, Units
from tallystick.tables.reporting.rows import CellsOver
from tallystick.tables.units_with import UnitsWith

if TYPE_CHECKING:
    from tallystick.inference.noise import Floats
    from tallystick.tables.estimates import Noisy
    from tallystick.tables.release import Release

OF_UNITS = (Units, UnitsWith, CellsOver)
"""Numbers of units: not those of a sum of groups."""
SAID = (
    "values were moved to add up, and are biased where cells are near 0; an interval is that of the number before it "
    "was moved, widened to hold the new one, so it holds the value within limits and bounds at least as often"
)


@dataclass(frozen=True)
class Consistent(Columns):
    """One column of a table after it was made to add up; ``margin`` sums it."""

    release: Release
    field: str
    settled: Floats
    noisy: Noisy
    place: int
    confidence: float

    @property
    def data(self) -> dict[str, list[Any]]:
        """The table as columns: groups, value, lower and upper."""
        return self.margin(*self.release.plan.query.columns)

    def margin(self, *columns: str) -> dict[str, list[Any]]:
        """Sums of the cells over all other columns, each with its interval; without columns the total."""
        known = self.release.plan.query.columns
        for column in columns:
            if column not in known:
                raise InvalidInput("margin", column, f"some of {', '.join(known)}")
        members: dict[tuple[Any, ...], list[int]] = {}
        for i, key in enumerate(self.release.keys):
            members.setdefault(tuple(key[known.index(column)] for column in columns), []).append(i)
        found: dict[str, list[Any]] = {column: [key[i] for key in members] for i, column in enumerate(columns)}
        ends = [self._ends(cells) for cells in members.values()]
        for end, numbers in zip(("", "_lower", "_upper"), zip(*ends, strict=True), strict=True):
            found[f"{self.field}{end}"] = list(numbers)
        return found

    def _ends(self, cells: list[int]) -> tuple[float, float, float]:
        value, before = float(self.settled[cells].sum()), float(self.noisy.table[cells, self.place].sum())
        if len(cells) == 1:
            half = self.noisy.half_width(1.0 - self.confidence)
        else:
            errors = (self.noisy.deviation * math.sqrt(len(cells)),)
            half = half_width(self.noisy.law.deviations(self.confidence), errors)
        low, high = max(0.0, min(before - half, value)), max(before + half, value)
        return (int(value), math.floor(low), math.ceil(high)) if value.is_integer() else (value, low, high)

    @property
    def holds(self) -> str:
        """Words for what was done, and what the intervals are about."""
        return f"Made to add up: {SAID}. {self.release.holds}"

    def __str__(self) -> str:
        return "\n".join([*self.lines(), self.holds])

    def __repr__(self) -> str:
        return f"<Consistent {self.field}: {len(self.settled)} groups of plan {self.release.plan.hash[:12]}>"


def consistent(release: Release, field: str, confidence: float) -> Consistent:
    """One column of a release made to add up; see ``Release.consistent``."""
    query = release.plan.query
    if isinstance(query.keys, PrivateKeys):
        raise Refused("groups that were chosen by their size do not add up to anything. Try: public keys")
    once = query.caps.max_groups == 1
    adding = {
        one: (measure.parts()[0], i)
        for name, measure in query.measures
        for i, one in enumerate(measure.fields(name))
        # a unit in two groups counts in both, and once in their sum
        if measure.never_negative
        and len(measure.parts()) == 1
        and (once or not isinstance(measure.parts()[0], OF_UNITS))
    }
    if field not in adding:
        works = ", ".join(adding) or "none here"
        raise InvalidInput("field", field, f"a column that adds up over groups: counts, sums from 0, bins ({works})")
    part, place = adding[field]
    noisy = release.numbers[part]
    near = nonnegative(noisy.table[:, place])
    settled = near if isinstance(part, Total) else whole(near)
    return Consistent(release, field, settled, noisy, place, check.inside("confidence", confidence))
