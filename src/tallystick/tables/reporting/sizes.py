"""Sizes of groups that an earlier release published: a plan may compare its error with them, at no cost.

A stored answer names its groups by a digest of the plan, and the place of its counts among its numbers. Both follow
from the plan alone. A size is post-processing of the stored noisy counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tallystick.tables.parts import UNITS, Part, Rows

if TYPE_CHECKING:
    from tallystick.tables.aggregates import Measure
    from tallystick.tables.table import Plan, Table

FIELD: Final = "sized"
"""The field of a stored answer about its groups; answers of earlier versions lack it."""
COUNTS: Final[Mapping[str, Part]] = {"rows": Rows(), "people": UNITS}
"""Parts whose numbers are sizes of groups, by what they count."""
CONFIDENCE: Final = 0.95


class Usual(NamedTuple):
    """The public size of a middle group, in rows and in people, and where it comes from, for people."""

    rows: int | None
    people: int | None
    origin: str
    is_registered: bool = False
    """True if the owner registered it."""

    def of(self, measure: Measure) -> int | None:
        """Return the size that the error of a measure is compared with; None if it is not known."""
        return self.rows if measure.by_rows else self.people


def groups_digest(table: Table, by: Sequence[str]) -> str:
    """Return the digest of the groups of a table: its rows after all steps, whom it protects, and the columns."""
    other = table.as_other()
    asked = {"by": list(by), **{name: other[name] for name in ("name", "unit", "steps")}}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def sized(plan: Plan) -> dict[str, Any]:
    """Return the field of a stored answer about its groups; empty if the plan counts neither rows nor people."""
    counts = {}
    places = {noise.part: place for place, noise in enumerate(plan.noises)}
    for name, part in COUNTS.items():
        if part in places:
            law = plan.noises[places[part]].law
            counts[name] = {"place": places[part], "half": float(law.half_width(1.0 - CONFIDENCE))}
    groups = groups_digest(plan.query.table, plan.query.columns)
    return {FIELD: {"groups": groups, **counts}} if counts else {}


class Size(NamedTuple):
    """The middle group of a stored answer, in rows and in people."""

    rows: int | None
    people: int | None
    noise: float
    """Share of the size that half the noise interval is, the smaller of both."""


def size_in(answer: Any, groups: str) -> Size | None:
    """Return the middle group of a stored answer, if it is about these groups and is not within its noise."""
    field = answer.get(FIELD) if isinstance(answer, Mapping) else None
    if not isinstance(field, Mapping) or field.get("groups") != groups:
        return None
    middles = [_middle(answer["numbers"], field.get(kind)) for kind in COUNTS]
    shares = [half / size for size, half in filter(None, middles)]
    if not shares:
        return None
    rows, people = (None if each is None else each[0] for each in middles)
    return Size(rows, people, min(shares))


def _middle(numbers: Sequence[Any], count: Mapping[str, Any] | None) -> tuple[int, float] | None:
    """Return the middle group of one count of a stored answer, and half its noise interval."""
    values = np.asarray([] if count is None else numbers[count["place"]]).ravel()
    if count is None or not values.size:
        return None
    middle, half = float(np.median(values)), float(count["half"])
    return (round(middle), half) if middle > half else None
