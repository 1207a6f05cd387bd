"""Sizes of groups that an earlier release published: a plan may compare its error with them, at no cost.

A stored answer names its groups by a digest of the plan, and the place of its row counts among its numbers. Both follow
from the plan alone. A size is post-processing of the stored noisy counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tallystick.tables.parts import Rows

if TYPE_CHECKING:
    from tallystick.tables.table import Plan, Table

FIELD: Final = "sized"
"""The field of a stored answer about its groups; answers of earlier versions lack it."""
CONFIDENCE: Final = 0.95


class Usual(NamedTuple):
    """The public number of rows in a group of middle size, and where it comes from, for people."""

    rows: int
    origin: str
    is_registered: bool = False
    """True if the owner registered it."""


def groups_digest(table: Table, by: Sequence[str]) -> str:
    """Return the digest of the groups of a table: its rows after all steps, whom it protects, and the columns."""
    other = table.as_other()
    asked = {"by": list(by), **{name: other[name] for name in ("name", "unit", "steps")}}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def sized(plan: Plan) -> dict[str, Any]:
    """Return the field of a stored answer about its groups; empty if the plan does not count rows."""
    for place, noise in enumerate(plan.noises):
        if isinstance(noise.part, Rows):
            half = noise.law.half_width(1.0 - CONFIDENCE)
            groups = groups_digest(plan.query.table, plan.query.columns)
            return {FIELD: {"groups": groups, "place": place, "half": float(half)}}
    return {}


def size_in(answer: Any, groups: str) -> int | None:
    """Return the rows in the middle group of a stored answer about these groups; None if it does not say that.

    A middle group that is within its noise is not a size.
    """
    if not isinstance(answer, Mapping) or not isinstance(answer.get(FIELD), Mapping):
        return None
    field = answer[FIELD]
    if field.get("groups") != groups:
        return None
    counts = np.asarray(answer["numbers"][field["place"]]).ravel()
    if not counts.size:
        return None
    middle = float(np.median(counts))
    return round(middle) if middle > field["half"] else None
