"""Cells of a release as answers of ``ts.inference``: value, noise law, and what is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.errors import InvalidInput, Refused
from tallystick.inference.means import Mean as MeanAnswer
from tallystick.inference.noise import Noise
from tallystick.inference.released import SELECTED, Answer, Released
from tallystick.tables.aggregates import Count, Histogram, Mean, Measure, Sum
from tallystick.tables.parts import Part, Units

if TYPE_CHECKING:
    from tallystick.tables.release import Release


def answers_of(release: Release, field: str, of: int | None) -> dict[tuple[Any, ...], Answer]:
    """One column, group by group; refused for measures whose intervals tables make themselves."""
    query = release.plan.query
    fields = {one: (measure, i) for name, measure in query.measures for i, one in enumerate(measure.fields(name))}
    if field not in fields:
        raise InvalidInput("field", field, f"one of {', '.join(fields)}")
    measure, place = fields[field]
    once = query.caps.max_groups == 1 and query.caps.max_rows == 1
    if of is not None and not (once and isinstance(measure, Count | Histogram)):
        raise Refused("no public share: of= needs a count in which a unit counts once (caps of 1 group and 1 row)")
    if of is not None and release.plan.threshold is not None and measure.kind != "count_units":
        raise Refused(SELECTED)
    made: list[Answer] = []
    for row, key in enumerate(release.keys):
        about = " ".join([field, *map(str, key)])
        if isinstance(measure, Mean):
            made.append(_mean(release, measure, row, about, independent=once))
        else:
            made.append(_number(release, _single(measure), row, place, about, of))
    return dict(zip(release.keys, made, strict=True))


def _single(measure: Measure) -> Part:
    """The one part behind a measure."""
    if not isinstance(measure, Count | Histogram | Sum) or len(measure.parts()) != 1:
        raise Refused(f"a {measure.kind} has no answer of its own yet. Works: counts, histograms, means, sums from 0")
    return measure.parts()[0]


def _number(release: Release, part: Part, row: int, place: int, about: str, of: int | None = None) -> Released:
    noises = {noise.part: (i, noise.law) for i, noise in enumerate(release.plan.noises)}
    index, law = noises[part]
    values = np.asarray(release.answer["numbers"][index]).reshape(-1, part.width)
    # With private keys a group is shown only where this very number reaches the threshold.
    least = release.plan.threshold if isinstance(part, Units) else None
    return Released(float(values[row, place]) * part.scale, Noise(law, part.scale), about, of, least)


def _mean(release: Release, measure: Mean, row: int, about: str, *, independent: bool) -> MeanAnswer:
    low, high = measure.limits
    total, present = (_number(release, part, row, 0, about) for part in (measure.total, measure.present))
    return MeanAnswer(total, present, (low, high), origin=low, about=about, independent=independent)
