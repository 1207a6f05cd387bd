"""A budget going down, charge by charge: what is left of an account over its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tallystick.drawing import BLUE, QUIET, VERMILLION
from tallystick.errors import InvalidInput
from tallystick.plots.canvas import sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Step:
    """One charge: when (milliseconds since 1970), how much, and whether it was burned."""

    at: int
    amount: float
    burned: bool = False


def burndown(
    steps: Sequence[Step], *, limit: float, symbol: str = "rho", name: str = "budget", fixed: float | None = None
) -> Figure:
    """A falling staircase from the limit to what is left; burned charges are marked.

    ``fixed`` draws a line at an amount that must be kept back. Released reservations are not steps: they cost nothing.

    >>> figure = burndown([Step(0, 0.1), Step(86_400_000, 0.2, burned=True)], limit=0.5)
    >>> figure.axes[0].get_ylabel()
    'rho left'
    """
    if not limit > 0:
        raise InvalidInput("limit", limit, "a number > 0")
    ordered = sorted(steps, key=lambda step: step.at)
    figure, axes = sheet(title=f"What is left of {name}", across="time (UTC)", up=f"{symbol} left", width=8.4)
    if not ordered:
        axes.axhline(limit, color=BLUE)
        axes.set_ylim(0, 1.05 * limit)
        return figure
    times, left, marks = [_moment(ordered[0].at)], [limit], []
    for step in ordered:
        times.append(_moment(step.at))
        left.append(left[-1] - step.amount)
        if step.burned:
            marks.append((times[-1], left[-1]))
    axes.step(times, left, where="post", color=BLUE)  # type: ignore[arg-type]
    axes.fill_between(times, left, step="post", color=BLUE, alpha=0.12)  # type: ignore[arg-type]
    if marks:
        axes.plot(
            *zip(*marks, strict=True), "x", color=VERMILLION, markersize=9, label="burned: failed after the start"
        )
        axes.legend(loc="upper right")
    if fixed is not None:
        axes.axhline(fixed, color=QUIET, linestyle=(0, (3, 2)), linewidth=1.4)
    axes.set_ylim(0, 1.05 * limit)
    figure.autofmt_xdate()
    return figure


def _moment(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)
