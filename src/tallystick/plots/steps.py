"""Epsilon against the number of steps: the picture that composition theorems are about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallystick.errors import InvalidInput
from tallystick.plots.canvas import PALETTE, QUIET, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Curve:
    """One method: epsilon at each number of steps; ``is_bound`` is False for an approximation, drawn dashed."""

    name: str
    counts: tuple[int, ...]
    epsilons: tuple[float, ...]
    is_bound: bool = True


def steps(
    curves: Sequence[Curve], *, delta: float, title: str = "The price of asking again", highlight: str = "tight"
) -> Figure:
    """One line per method on log-log axes, each named at its right end; the method ``highlight`` is drawn on top.

    Points that a method does not have (infinite or missing) are left out rather than drawn somewhere else.
    """
    drawn = [(curve, _points(curve)) for curve in curves]
    drawn = [(curve, points) for curve, points in drawn if points]
    if not drawn:
        raise InvalidInput("curves", len(curves), "at least one method with a finite, positive epsilon")
    figure, axes = sheet(title=title, across="steps", up=f"epsilon at delta = {delta:g}", width=8.4, height=5.4)
    axes.set(xscale="log", yscale="log")
    colours = _colours([curve.name for curve, _ in drawn], highlight)
    for curve, points in drawn:
        loud = curve.name == highlight
        axes.plot(
            *zip(*points, strict=True),
            color=colours[curve.name],
            linewidth=3.2 if loud else 1.8,
            linestyle="-" if curve.is_bound else (0, (3, 2)),
            zorder=5 if loud else 3,
        )
    _name_lines(axes, [(curve, points[-1]) for curve, points in drawn], colours, highlight)
    if any(not curve.is_bound for curve, _ in drawn):
        axes.text(
            0.02,
            0.97,
            "solid: proven bound    dashed: approximation, may be too low",
            transform=axes.transAxes,
            color=QUIET,
            fontsize=10,
            va="top",
        )
    return figure


def _points(curve: Curve) -> list[tuple[int, float]]:
    pairs = zip(curve.counts, curve.epsilons, strict=True)
    return [(count, epsilon) for count, epsilon in pairs if math.isfinite(epsilon) and epsilon > 0]


def _colours(names: Sequence[str], highlight: str) -> dict[str, str]:
    others = [name for name in names if name != highlight]
    colours = {name: PALETTE[1 + index % (len(PALETTE) - 1)] for index, name in enumerate(others)}
    return {**colours, highlight: PALETTE[0]}


def _name_lines(
    axes: Axes, ends: Sequence[tuple[Curve, tuple[int, float]]], colours: dict[str, str], highlight: str
) -> None:
    """Names at the line ends, pushed apart so that no two overlap; a legend would make the reader match colours."""
    low, high = (math.log(value) for value in axes.get_ylim())
    gap = (high - low) * 0.052
    heights: list[float] = []
    furthest = max(count for _, (count, _) in ends)
    for curve, (count, epsilon) in sorted(ends, key=lambda end: end[1][1]):
        height = math.log(epsilon)
        if heights and height < heights[-1] + gap:
            height = heights[-1] + gap
        heights.append(height)
        axes.annotate(
            curve.name,
            xy=(count, epsilon),
            xytext=(furthest * _STEP_ASIDE, math.exp(height)),
            color=colours[curve.name],
            fontweight="bold" if curve.name == highlight else "normal",
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colours[curve.name], "linewidth": 0.6, "alpha": 0.6},
        )


_STEP_ASIDE = 1.35
