"""Say before the charge which measures will be mostly noise: from the plan and from public sizes of groups alone.

The interval of such a measure covers more than half of the numbers that it can be in a group of that size. It is the
rule of ``words.is_too_noisy`` for released values, before there are any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tallystick.digits import plural, up
from tallystick.printing import visible
from tallystick.tables.reporting.columns import person

if TYPE_CHECKING:
    from tallystick.tables.aggregates import Measure
    from tallystick.tables.reporting.sizes import Usual
    from tallystick.tables.table import Plan

LADDER: Final = (100, 1_000, 10_000)
"""Sizes of a group that an error is compared with if no public size is known."""
USUAL: Final = 1_000
"""Size from which a query is warned of if no public size is known: smaller groups are the caller's to know."""
RULE: Final = "(mostly noise above 25 %)"
HALF: Final = 0.5
"""Share of the numbers that a measure can be. An interval that covers more is mostly noise."""


def noisy_measures(plan: Plan, sizes: Sequence[int] = (), usual: Usual | None = None) -> dict[str, str]:
    """Return for each measure that will be mostly noise, by name, in groups of which sizes.

    ``sizes`` are public, and ``usual`` is one if none are named. Without them the error is compared with ``LADDER``,
    unless the plan shows it by size anyway.
    """
    found: dict[str, str] = {}
    for name, measure in plan.query.measures:
        own = sizes or known_sizes(usual, measure)
        if not own and measure.error_needs_size:
            continue
        noisy = [size for size in own or LADDER if is_noise(plan, name, measure, size)]
        if noisy and measure.counts and not own:
            found[visible(name)] = _beside_sizes(plan, name, measure)
        elif noisy:
            paid = "" if sizes or usual is None or not own or usual.is_registered else f" ({usual.origin})"
            found[visible(name)] = f"mostly noise {_where(plan, measure, noisy)}{paid}"
    return found


def known_sizes(usual: Usual | None, measure: Measure) -> tuple[int, ...]:
    """Return the usual size as the sizes that the error of a measure is compared with; none if it is not known."""
    size = None if usual is None else usual.of(measure)
    return () if size is None else (size,)


def noise_lines(plan: Plan, sizes: Sequence[int] = (), usual: Usual | None = None) -> list[str]:
    """Return the same as lines for a terminal."""
    found = noisy_measures(plan, sizes, usual)
    width = max(map(len, found), default=0)
    lines = [f"{name:<{width}}  {text}" for name, text in found.items()]
    return [*lines, RULE] if any("%" in text for text in found.values()) else lines


def is_noise(plan: Plan, name: str, measure: Measure, size: float) -> bool:
    """Return whether the interval of a measure will cover more than half of what it can be in a group of that size."""
    return 2 * plan.error(group_size=size)[name] > HALF * measure.span(size)


def warned(plan: Plan, usual: Usual | None = None) -> str:
    """Return the warning before a charge, in a sentence; empty without one. ``usual`` is public."""
    named, places = [], []
    for name, measure in plan.query.measures:
        known = known_sizes(usual, measure)
        size = known[0] if known else USUAL
        if is_noise(plan, name, measure, size):
            named.append(f"{visible(name)} ±{up(plan.error(group_size=size)[name])}")
            origin = f"({usual.origin})" if known and usual is not None else "or fewer"
            places.append(f"{_where(plan, measure, [size])} {origin}")
    if not named:
        return ""
    where = " and ".join(dict.fromkeys(places[:1] if usual is None or usual.is_registered else places))
    return f"the answer will be mostly noise {where}: {', '.join(named)}. A higher cost or lower limits per person help"


def _where(plan: Plan, measure: Measure, sizes: Iterable[int]) -> str:
    what = _counted(plan, measure)
    listed = [f"{size:,}" for size in sizes]
    several = " and ".join(filter(None, [", ".join(listed[:-1]), listed[-1]]))
    return f"in groups of {several} {what}" if plan.query.columns else f"if there are {several} {what}"


def _beside_sizes(plan: Plan, name: str, measure: Measure) -> str:
    """Return the error of a count beside the sizes of ``LADDER``, as shares of them."""
    half = plan.error()[name]
    first, *others = (f"{up(100 * half / size)} % of {size:,}" for size in LADDER)
    return f"±{up(half)} is {first} {_counted(plan, measure)}, {' and '.join(others)}"


def _counted(plan: Plan, measure: Measure) -> str:
    return "rows" if measure.by_rows else plural(person(plan))
