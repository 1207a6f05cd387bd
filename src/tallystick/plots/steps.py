"""Epsilon against the number of steps: the picture that composition theorems are about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallystick.digits import typed, up
from tallystick.drawing import PALETTE, QUIET
from tallystick.errors import InvalidInput
from tallystick.plots.canvas import sheet
from tallystick.plots.labels import keep_visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tallystick.accounting.loss import PrivacyLoss

POINTS = 9
REPEATS = 100


@dataclass(frozen=True, slots=True)
class Curve:
    """One method: epsilon at each number of steps; ``is_bound`` is False for an approximation, drawn dashed."""

    name: str
    counts: tuple[int, ...]
    epsilons: tuple[float, ...]
    is_bound: bool = True


def steps(curves: Sequence[Curve], *, delta: float, title: str | None = None, highlight: str = "tight") -> Figure:
    """Draw one line per method on log-log axes, each named at its right end; ``highlight`` is wide.

    Points that a method does not have (infinite or missing) are left out.
    """
    figure, axes = sheet(
        title=title or _finding(curves, delta, highlight),
        across="steps (number)",
        up=f"epsilon at delta = {typed(delta)}",
        width=8.4,
        height=5.4,
    )
    drawn = lines(axes, curves, highlight)
    if any(not curve.is_bound for curve in drawn):
        axes.text(
            0.98,
            0.03,
            "dashed: approximation, may be too low",
            transform=axes.transAxes,
            color=QUIET,
            fontsize=10,
            ha="right",
            va="bottom",
        )
    return figure


def _finding(curves: Sequence[Curve], delta: float, highlight: str) -> str:
    """Return the last epsilon of the highlighted method, or of the best bound."""
    drawn = {curve.name: _points(curve)[-1] for curve in curves if _points(curve)}
    bounds = [curve.name for curve in curves if curve.is_bound and curve.name in drawn]
    if not bounds:
        return f"No proven bound on epsilon at delta {typed(delta)}"
    name = highlight if highlight in bounds else min(bounds, key=lambda bound: drawn[bound][1])
    count, epsilon = drawn[name]
    return f"Epsilon {up(epsilon)} at delta {typed(delta)} after {count:,} step{'s' * (count > 1)}"


def curves_of(loss: PrivacyLoss, *, delta: float, points: int = POINTS) -> list[Curve]:
    """Epsilon against steps by every method, from one step to the whole loss.

    A step is the loss with its counts divided by what they have in common; a loss that cannot be divided is repeated.
    Of an iteration a step is a pass, every iterate is released, and the last iterate alone is one more line.
    """
    from tallystick.accounting.leaves.last_iterate import iteration_of
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.theorems.compare import Kind, epsilon_against_steps, last_iterate_against_steps

    iteration = iteration_of(loss)
    if iteration is not None:
        loss = iteration.every(iteration.passes)
    shared = math.gcd(*(count for _, count in loss.terms)) if loss.terms else 1
    one = PrivacyLoss(tuple((leaf, count // shared) for leaf, count in loss.terms), loss.protects, loss.group)
    most = shared if shared > 1 else REPEATS
    ladder = sorted({round(most ** (i / (points - 1))) for i in range(points)})
    curves = list(epsilon_against_steps(one, delta=delta, steps=ladder))
    if iteration is not None:
        curves.append(last_iterate_against_steps(iteration, delta=delta, passes=ladder))
    return [
        Curve(
            curve.method,
            curve.steps,
            tuple(math.inf if epsilon is None else epsilon for epsilon in curve.epsilons),
            is_bound=curve.kind is not Kind.APPROXIMATION,
        )
        for curve in curves
    ]


def lines(axes: Axes, curves: Sequence[Curve], highlight: str) -> list[Curve]:
    """The curves that have points, one line each on log-log axes, named at their right ends."""
    drawn = [(curve, _points(curve)) for curve in curves]
    drawn = [(curve, points) for curve, points in drawn if points]
    if not drawn:
        raise InvalidInput("curves", len(curves), "at least one method with a finite, positive value")
    axes.set(xscale="log", yscale="log")
    colours = _colours([curve.name for curve, _ in drawn], highlight)
    for curve, points in drawn:
        loud = curve.name == highlight
        axes.plot(
            *zip(*points, strict=True),
            color=colours[curve.name],
            linewidth=3.2 if loud else 1.8,
            linestyle="-" if curve.is_bound else (0, (3, 2)),
            label=curve.name,
            zorder=2.5 if loud else 3,  # a thin line on the wide one leaves both visible
        )
    keep_visible(axes)
    names = [str(line.get_label()) for line in axes.get_lines()]
    ends = [(name, curve, points[-1]) for name, (curve, points) in zip(names, drawn, strict=True)]
    _name_lines(axes, ends, colours, highlight)
    return [curve for curve, _ in drawn]


def _points(curve: Curve) -> list[tuple[int, float]]:
    pairs = zip(curve.counts, curve.epsilons, strict=True)
    return [(count, epsilon) for count, epsilon in pairs if math.isfinite(epsilon) and epsilon > 0]


def _colours(names: Sequence[str], highlight: str) -> dict[str, str]:
    others = [name for name in names if name != highlight]
    colours = {name: PALETTE[1 + index % (len(PALETTE) - 1)] for index, name in enumerate(others)}
    return {**colours, highlight: PALETTE[0]}


def _name_lines(
    axes: Axes,
    ends: Sequence[tuple[str, Curve, tuple[int, float]]],
    colours: dict[str, str],
    highlight: str,
) -> None:
    """Write names at the line ends, moved apart so that no two overlap."""
    low, high = (math.log(value) for value in axes.get_ylim())
    ordered = sorted(ends, key=lambda end: end[2][1])
    wanted = [math.log(epsilon) for _, _, (_, epsilon) in ordered]
    heights = _apart(wanted, gap=(high - low) * 0.052)
    furthest = max(count for _, _, (count, _) in ends)
    left = max(axes.get_xlim()[1], furthest * 1.3)
    for (name, curve, (count, epsilon)), height in zip(ordered, heights, strict=True):
        axes.annotate(
            name,
            xy=(count, epsilon),
            xytext=(left, math.exp(height)),
            color=colours[curve.name],
            fontweight="bold" if curve.name == highlight else "normal",
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colours[curve.name],
                "linewidth": 0.7,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 0,
            },
        )


def _apart(wanted: Sequence[float], *, gap: float) -> list[float]:
    """The heights nearest to the (ascending) wanted ones that are at least ``gap`` apart.

    Crowded neighbours are pooled and share their mean position, which is the least-squares answer.

    >>> _apart([0.0, 0.0, 5.0], gap=1.0)
    [-0.5, 0.5, 5.0]
    """
    pools: list[tuple[float, int]] = []  # mean of (wanted - index * gap), how many
    for index, height in enumerate(wanted):
        pool = (height - index * gap, 1)
        while pools and pools[-1][0] > pool[0]:
            mean, count = pools.pop()
            pool = ((mean * count + pool[0] * pool[1]) / (count + pool[1]), count + pool[1])
        pools.append(pool)
    flat = [mean for mean, count in pools for _ in range(count)]
    return [mean + index * gap for index, mean in enumerate(flat)]
