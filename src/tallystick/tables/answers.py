"""A cell of a release for ``ts.inference``: which one, and what the plan knows about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.errors import InvalidInput, Refused
from tallystick.inference.noise import Noise
from tallystick.inference.released import SELECTED, Answer, Released

if TYPE_CHECKING:
    from tallystick.tables.aggregates import Noisy
    from tallystick.tables.release import Release


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of a group. ``threshold`` chose the groups by their noisy number of units, if they were chosen."""

    row: int
    place: int
    about: str
    of: int | None
    threshold: int | None
    rows_per_unit: int
    sample: str

    def count(self, noisy: Noisy) -> Released:
        """A count, or a share of ``of`` units."""
        if self.of is not None and self.threshold is not None:
            raise Refused(SELECTED)
        return self._released(noisy, self.of, None)

    def compared(self, noisy: Noisy) -> Released:
        """The number of units that was compared with the threshold itself."""
        return self._released(noisy, self.of, self.threshold)

    def total(self, noisy: Noisy) -> Released:
        """A number that is no count."""
        if self.of is not None:
            raise InvalidInput("of", self.of, "nothing: it is for counts")
        return self._released(noisy, None, None)

    def _released(self, noisy: Noisy, of: int | None, least: int | None) -> Released:
        value = float(noisy.table[self.row, self.place])
        return Released(value, Noise(noisy.law, noisy.scale), self.about, of, least, self.sample)


def answers_of(release: Release, field: str, of: int | None) -> dict[tuple[Any, ...], Answer]:
    """One column, group by group."""
    plan, query = release.plan, release.plan.query
    fields = {one: (measure, i) for name, measure in query.measures for i, one in enumerate(measure.fields(name))}
    if field not in fields:
        raise InvalidInput("field", field, f"one of {', '.join(fields)}")
    measure, place = fields[field]
    once = query.caps.max_groups == 1 and query.caps.max_rows == 1
    if of is not None and not once:
        raise Refused("no public share: of= needs a count in which a unit counts once (caps of 1 group and 1 row)")
    sample = plan.hash if release.receipt is None else str(release.receipt.charge)
    cells = (
        Cell(row, place, " ".join([field, *map(str, key)]), of, plan.threshold, query.caps.max_rows, sample)
        for row, key in enumerate(release.keys)
    )
    return {key: measure.answer(release.numbers, cell) for key, cell in zip(release.keys, cells, strict=True)}
