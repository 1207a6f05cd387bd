"""Say before the charge what the owner's registration makes clear: other people, and a delta that is too large."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tallystick.digits import down, plural, typed
from tallystick.printing import visible
from tallystick.tables.expressions import columns_of

if TYPE_CHECKING:
    from tallystick.tables.table import Query

IDENTIFIES: Final = "identifies"
"""The owner's statement that names columns which identify other people; several with semicolons."""


def identifying(about: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns that identify other people, by the statements of the owner.

    >>> identifying({"identifies": "lecturer; examiner"})
    ('lecturer', 'examiner')
    """
    names = (name.strip() for name in about.get(IDENTIFIES, "").split(";"))
    return tuple(name for name in names if name)


def other_people(query: Query, about: Mapping[str, str], who: str) -> list[str]:
    """Return for each identifying column that groups are made of that the people behind it are not protected."""
    named = identifying(about)
    used = {name for column in query.columns for name in _sources(query, column)}
    return [
        f"column {visible(name)} identifies other people, who are not protected: the guarantee is for {plural(who)} "
        "alone"
        for name in named
        if name in used
    ]


def _sources(query: Query, column: str) -> set[str]:
    """Return the column and those that it is computed from."""
    sources = {column}
    for step in reversed(query.table.steps):
        if step.kind == "derive" and step.name in sources and step.expression is not None:
            sources |= columns_of(step.expression)
    return sources


def large_delta(delta: float, people: int | None) -> list[str]:
    """Return the warning that delta is not below 1 / n, in a list; empty if it is, or if n is not public.

    A mechanism that publishes the record of one person, drawn at random, has epsilon 0 at delta 1 / n.

    >>> large_delta(1e-3, 1_000), large_delta(1e-6, 1_000)
    (['delta 0.001 of 1,000 people allows to publish one of them as is. Use a delta far below 0.001'], [])
    """
    if people is None or delta * people < 1.0:
        return []
    most = down(1.0 / people)
    return [
        f"delta {typed(delta)} of {people:,} people allows to publish one of them as is. Use a delta far below {most}"
    ]
