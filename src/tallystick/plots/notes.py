"""The figures of the lecture notes: each draws numbers it is given and answers the question in its title."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallystick.drawing import BLUE, INK, PALETTE, PAPER, QUIET, SHARE_LABELS, SHARES, VERMILLION
from tallystick.errors import InvalidInput
from tallystick.plots.canvas import sheet
from tallystick.plots.steps import Curve, lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tallystick.mechanisms.select.noisy_law import PumpkinPrices

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]
_DASHED = (0, (4, 3))


def pair(
    first: Function,
    second: Function,
    *,
    epsilon: float,
    between: tuple[float, float],
    title: str = "Can one output tell two tables apart?",
) -> Figure:
    """Two densities (Figure 1 of the notes), and e^epsilon times the second: what is above it is delta.

    >>> figure = pair(lambda x: np.exp(-abs(x)) / 2, lambda x: np.exp(-abs(x - 1)) / 2, epsilon=0.5, between=(-5, 6))
    >>> "delta" in figure.axes[0].texts[0].get_text()
    True
    """
    x = _range(between)
    one, other = (np.asarray(density(x), dtype=np.float64) for density in (first, second))
    ceiling = math.exp(epsilon) * other
    figure, axes = sheet(title=title, across="output", up="how often", height=4.2)
    axes.plot(x, one, color=BLUE, label="with the person")
    axes.plot(x, other, color=VERMILLION, label="without")
    axes.plot(x, ceiling, color=VERMILLION, linewidth=1.2, linestyle=_DASHED, label=f"e^{epsilon:g} times that")
    axes.fill_between(x, ceiling, one, where=list(one > ceiling), color=BLUE, alpha=0.25, linewidth=0)
    delta = float(np.sum(np.maximum(one - ceiling, 0.0)) * (x[1] - x[0]))
    axes.text(0.02, 0.92, f"delta, the shaded part: {delta:.3g}", transform=axes.transAxes, color=INK, va="top")
    axes.legend(loc="upper right")
    axes.set_ylim(0, 1.15 * float(max(one.max(), other.max())))
    axes.set_yticks([])
    return figure


def supporting_lines(
    promises: Sequence[tuple[float, float]], *, title: str = "What do several (ε, δ) promises say together?"
) -> Figure:
    """The lines 1 - delta - e^epsilon alpha and their mirror images, and the trade-off function that they hold up.

    >>> supporting_lines([(0.0, 0.3), (1.0, 0.0)]).axes[0].get_xlabel()
    'false alarms'
    """
    if not promises:
        raise InvalidInput("promises", promises, "at least one (epsilon, delta)")
    alpha = np.linspace(0, 1, 401)
    figure, axes = _square(title)
    best = np.zeros_like(alpha)
    for (epsilon, delta), colour in zip(promises, cycle(PALETTE[1:]), strict=False):
        steep, flat = 1 - delta - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - delta - alpha)
        for line in (steep, flat):
            axes.plot(alpha, line, color=colour, linewidth=1.2, linestyle=_DASHED)
        best = np.maximum(best, np.maximum(steep, flat))
    axes.fill_between(alpha, 0, best, color=BLUE, alpha=0.13, linewidth=0)
    axes.plot(alpha, best, color=BLUE)
    return figure


def tangent(
    tradeoff: Function, *, epsilon: float, title: str = "Where does delta sit on the trade-off curve?"
) -> Figure:
    """The curve with its tangent of slope -e^epsilon: it meets the axis at 1 - delta, and its mirror image too.

    >>> figure = tangent(lambda a: (1 - a) ** 2, epsilon=0.5)
    >>> figure.axes[0].texts[0].get_text()
    '1 - delta = 0.969'
    """
    slope, alpha = math.exp(epsilon), np.linspace(0, 1, 2001)
    curve = np.asarray(tradeoff(alpha), dtype=np.float64)
    height = float(np.min(curve + slope * alpha))
    figure, axes = _square(title)
    axes.plot(alpha, curve, color=BLUE)
    axes.plot(alpha, height - slope * alpha, color=VERMILLION, linewidth=1.4, linestyle=_DASHED)
    axes.plot(height - slope * alpha, alpha, color=QUIET, linewidth=1.0, linestyle=_DASHED)
    axes.plot([0], [height], "o", color=VERMILLION)
    axes.text(
        0.97, 0.8, f"1 - delta = {height:.3g}", color=INK, ha="right", bbox={"facecolor": PAPER, "edgecolor": "none"}
    )
    return figure


def noise_for_queries(
    variances: Mapping[str, Sequence[float]],
    *,
    queries: Sequence[int],
    title: str = "How much noise do many questions need?",
) -> Figure:
    """Variance of one answer against the number of questions, one line per method (composition notes).

    >>> figure = noise_for_queries({"basic": [2.0, 200.0], "advanced": [50.0, 500.0]}, queries=[1, 10])
    >>> figure.axes[0].get_xscale()
    'log'
    """
    counts = tuple(queries)
    if any(len(values) != len(counts) for values in variances.values()):
        raise InvalidInput("variances", "lists of several lengths", "one number for each number of questions")
    figure, axes = sheet(title=title, across="questions k", up="variance of one answer", width=8.4)
    curves = [Curve(name, counts, tuple(float(v) for v in values)) for name, values in variances.items()]
    lines(axes, curves, curves[-1].name)
    return figure


def tilted(
    objective: Function,
    *,
    tilts: Sequence[float],
    between: tuple[float, float],
    title: str = "How far does a random tilt move the minimum?",
) -> Figure:
    """An objective (Figure 2 of the notes), its tilts objective(x) + tilt x, and where each of them is least.

    >>> len(tilted(lambda x: x**2, tilts=[-1.0, 1.0], between=(-2, 2)).axes[0].lines)
    6
    """
    x = _range(between)
    figure, axes = sheet(title=title, across="parameter", up="objective", height=4.6)
    for tilt in (0.0, *tilts):
        y = np.asarray(objective(x), dtype=np.float64) + tilt * x
        least = int(np.argmin(y))
        colour = BLUE if tilt == 0.0 else VERMILLION
        axes.plot(x, y, color=colour, linewidth=2.6 if tilt == 0.0 else 1.2, zorder=4 if tilt == 0.0 else 3)
        axes.plot([x[least]], [y[least]], "o", color=colour, zorder=5)
    return figure


def staircase(
    values: Sequence[float],
    *,
    points: Sequence[float],
    chances: Sequence[float],
    alpha: float = 0.5,
    title: str = "Where does a private quantile land?",
) -> Figure:
    """The counting staircase of the data (Remark 7.2), the rank that is wanted, and the law of the answer below it.

    >>> figure = staircase([1.0, 2.0, 4.0], points=[0.0, 1.0, 2.0, 3.0], chances=[0.1, 0.2, 0.5, 0.2])
    >>> figure.axes[0].get_ylabel()
    'records up to here'
    """
    if len(points) != len(chances):
        raise InvalidInput("chances", len(chances), f"one for each of {len(points)} points")
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    figure, axes = sheet(title=title, across="value", up="records up to here")
    axes.step(ordered, np.arange(1, ordered.size + 1), where="post", color=BLUE)
    axes.axhline(alpha * ordered.size, color=VERMILLION, linewidth=1.2, linestyle=_DASHED)
    tall = np.asarray(chances, dtype=np.float64) / max(chances) * ordered.size * 0.4
    axes.fill_between(np.asarray(points, dtype=np.float64), 0, tall, color=QUIET, alpha=0.35, linewidth=0, step="mid")
    axes.set_ylim(bottom=0)
    return figure


def densities(
    named: Mapping[str, Function], *, between: tuple[float, float], title: str = "When does the normal limit set in?"
) -> Figure:
    """Several densities on one sheet, the last one dashed: a law as n grows, beside its limit (section 7.4.3).

    >>> bell = lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    >>> len(densities({"n = 10": bell, "limit": bell}, between=(-3, 3)).axes[0].lines)
    2
    """
    if not named:
        raise InvalidInput("named", named, "at least one density with its name")
    x = _range(between)
    figure, axes = sheet(title=title, across="value", up="how often", height=4.2)
    for (name, density), colour in zip(named.items(), cycle(PALETTE), strict=False):
        last = name == list(named)[-1]
        axes.plot(
            x, np.asarray(density(x)), label=name, color=INK if last else colour, linestyle=_DASHED if last else "-"
        )
    axes.legend()
    axes.set_yticks([])
    axes.set_ylim(bottom=0)
    return figure


def revenue(sale: PumpkinPrices, *, title: str = "Why not add noise to the best price?") -> Figure:
    """Revenue against the price (Figure 3 of the notes), with the law of the price under two private ways to choose it.

    >>> from tallystick.mechanisms.select.noisy_law import pumpkin_prices
    >>> figure = revenue(pumpkin_prices([1.0, 1.0, 1.0, 4.01] * 25, epsilon=1.0))
    >>> figure.axes[0].get_xlabel()
    'price'
    """
    figure, axes = sheet(title=title, across="price", up="revenue")
    axes.plot(sale.prices, sale.revenue, color=INK)
    told = {"exponential mechanism": (sale.chances, BLUE, sale.expected)}
    told["noise on the best price"] = (sale.noisy, VERMILLION, sale.expected_by_noise)
    for name, (chances, colour, earned) in told.items():
        tall = chances / max(float(sale.chances.max()), float(sale.noisy.max())) * sale.best * 0.6
        label = f"{name}: earns {earned:.0f} of {sale.best:.0f}"
        axes.fill_between(sale.prices, 0, tall, color=colour, alpha=0.45, linewidth=0, label=label)
    axes.legend(loc="upper right")
    axes.set_ylim(0, 1.35 * sale.best)
    return figure


def _range(between: tuple[float, float]) -> Floats:
    low, high = between
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput("between", between, "(low, high), finite, low < high")
    return np.linspace(low, high, 2001)


def _square(title: str) -> tuple[Figure, Axes]:
    figure, axes = sheet(title=title, across="false alarms", up="misses", height=5.4)
    axes.plot([0, 1], [1, 0], color=QUIET, linewidth=1.2, linestyle=_DASHED)
    axes.set(xlim=(0, 1), ylim=(0, 1.005))
    axes.set_aspect("equal")
    axes.set_xticks(SHARES, SHARE_LABELS)
    axes.set_yticks(SHARES, SHARE_LABELS)
    return figure, axes
