"""Epsilon of the record at step t against t, when the last iterate only is released."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tallystick.digits import typed
from tallystick.digits import up as number
from tallystick.drawing import BLUE, VERMILLION
from tallystick.errors import InvalidInput
from tallystick.plots.canvas import sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def positions(
    epsilons: Sequence[float],
    *,
    every: float,
    delta: float,
    title: str | None = None,
) -> Figure:
    """Draw epsilon of a record against its batch, and the line of plain composition.

    ``every`` is epsilon if every iterate were released, the same at every position.
    """
    if not len(epsilons):
        raise InvalidInput("epsilons", len(epsilons), "one epsilon for every position")
    first, last = (f"epsilon {number(value)}" for value in (epsilons[0], epsilons[-1]))
    finding = f"A record in the first batch has {first}; one in the last has {last}"
    title = title or finding
    across = "the record's batch in the pass (number)"
    figure, axes = sheet(title=title, across=across, up=f"epsilon at delta = {typed(delta)}")
    places = range(1, len(epsilons) + 1)
    axes.plot([1, len(epsilons)], [every, every], color=VERMILLION, linestyle=(0, (3, 2)))
    axes.plot(places, epsilons, color=BLUE, marker="o" if len(epsilons) <= 40 else None, markersize=4)
    axes.annotate("every iterate released", (1, every), xytext=(4, 6), textcoords="offset points", color=VERMILLION)
    axes.annotate(
        "last iterate only", (1, epsilons[0]), xytext=(4, 8), textcoords="offset points", color=BLUE, va="bottom"
    )
    axes.set_ylim(bottom=0.0, top=1.12 * max(every, *epsilons))
    axes.locator_params(axis="x", integer=True)
    return figure
