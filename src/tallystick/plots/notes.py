"""Figures of the lecture notes. Each title states the finding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.digits import nearest, percent, percent_up, typed
from tallystick.drawing import BLUE, INK, PALETTE, QUIET, VERMILLION
from tallystick.errors import InvalidInput
from tallystick.plots.canvas import DASHES, sheet, square
from tallystick.plots.labels import finish
from tallystick.plots.steps import Curve, lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tallystick.mechanisms.select.noisy_law import PumpkinPrices

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]
_USUAL = 20
"""Place of 5 % false accusations among 401 shares."""


def pair(
    first: Function,
    second: Function,
    *,
    epsilon: float,
    between: tuple[float, float],
    title: str | None = None,
) -> Figure:
    """Draw two densities (Figure 1 of the notes), and e^epsilon times the second: delta is above it.

    >>> figure = pair(lambda x: np.exp(-abs(x)) / 2, lambda x: np.exp(-abs(x - 1)) / 2, epsilon=0.5, between=(-5, 6))
    >>> "delta" in figure.axes[0].texts[0].get_text()
    True
    """
    x = _range(between)
    one, other = (np.asarray(density(x), dtype=np.float64) for density in (first, second))
    ceiling = math.exp(epsilon) * other
    delta = float(np.sum(np.maximum(one - ceiling, 0.0)) * (x[1] - x[0]))
    figure, axes = sheet(
        title=title or f"At epsilon {typed(epsilon)}, delta is {nearest(delta)}: the shaded area",
        across="output",
        up="probability density",
        height=4.6,
    )
    scaled = f"e^{typed(epsilon)} times that"
    axes.plot(x, one, color=BLUE, label="with the person")
    axes.plot(x, other, color=VERMILLION, label="without the person")
    axes.plot(x, ceiling, color=VERMILLION, linewidth=1.2, linestyle=DASHES, label=scaled)
    above = list(one > ceiling)
    axes.fill_between(x, ceiling, one, where=above, color=BLUE, alpha=0.25, linewidth=0)
    words = f"delta, the shaded part: {nearest(delta)}"
    axes.text(0.02, 0.97, words, transform=axes.transAxes, color=INK, va="top")
    axes.set_ylim(0, 1.08 * float(max(one.max(), ceiling.max())))
    axes.set_yticks([])
    finish(axes)
    return figure


def supporting_lines(promises: Sequence[tuple[float, float]], *, title: str | None = None) -> Figure:
    """Draw the lines 1 - delta - e^epsilon alpha, their mirror images, and the curve above them.

    >>> supporting_lines([(0.0, 0.3), (1.0, 0.0)]).axes[0].get_xlabel()
    'false accusations (share of tests without the person)'
    """
    if not promises:
        raise InvalidInput("promises", promises, "at least one (epsilon, delta)")
    alpha = np.linspace(0, 1, 401)
    pairs = [_mirrored(alpha, epsilon, delta) for epsilon, delta in promises]
    best = np.max([np.zeros_like(alpha), *(line for pair in pairs for line in pair)], axis=0)
    finding = f"at most {percent_up(1 - float(best[_USUAL]))} are found"
    where = f"with {percent(float(alpha[_USUAL]))} false accusations"
    count = f"{len(promises)} guarantee{'s' * (len(promises) > 1)} together"
    figure, axes = square(title=title or f"{count}: {where}, {finding}")
    colours = cycle(PALETTE[1:])
    for (epsilon, delta), lines_of, colour in zip(promises, pairs, colours, strict=False):
        label = f"epsilon {typed(epsilon)}, delta {typed(delta)}"
        for line, name in zip(lines_of, (label, "_mirror"), strict=True):
            axes.plot(alpha, line, color=colour, linewidth=1.2, linestyle=DASHES, label=name)
    axes.fill_between(alpha, 0, best, color=BLUE, alpha=0.13, linewidth=0)
    axes.plot(alpha, best, color=BLUE, label="all together", zorder=1.9)
    finish(axes)
    return figure


def _mirrored(alpha: Floats, epsilon: float, delta: float) -> tuple[Floats, Floats]:
    """Return the line of a guarantee and its mirror image."""
    steep = 1 - delta - math.exp(epsilon) * alpha
    return steep, math.exp(-epsilon) * (1 - delta - alpha)


def tangent(tradeoff: Function, *, epsilon: float, title: str | None = None) -> Figure:
    """Draw the curve and its tangent of slope -e^epsilon, which meets the axis at 1 - delta.

    >>> figure = tangent(lambda a: (1 - a) ** 2, epsilon=0.5)
    >>> figure.axes[0].texts[-1].get_text()
    '1 - delta = 0.969'
    """
    slope, alpha = math.exp(epsilon), np.linspace(0, 1, 2001)
    curve = np.asarray(tradeoff(alpha), dtype=np.float64)
    height = float(np.min(curve + slope * alpha))
    finding = f"At epsilon {typed(epsilon)}, delta is {nearest(1 - height)}"
    figure, axes = square(title=title or f"{finding}: the tangent meets the axis at 1 - delta")
    steep = height - slope * alpha
    label = f"tangent of slope -e^{typed(epsilon)}"
    axes.plot(alpha, curve, color=BLUE, label="trade-off curve")
    axes.plot(alpha, steep, color=VERMILLION, linewidth=1.4, linestyle=DASHES, label=label)
    mirrored = "its mirror image"
    axes.plot(steep, alpha, color=QUIET, linewidth=1.0, linestyle=DASHES, label=mirrored)
    axes.plot([0], [height], "o", color=VERMILLION, clip_on=False)
    finish(axes)
    words = f"1 - delta = {nearest(height)}"
    place: Any = {"xytext": (12, 4), "textcoords": "offset points"}
    axes.annotate(words, (0, height), color=VERMILLION, **place)
    return figure


def noise_for_queries(
    variances: Mapping[str, Sequence[float]],
    *,
    queries: Sequence[int],
    title: str | None = None,
) -> Figure:
    """Draw the variance of one answer against the number of queries, one line per method.

    >>> figure = noise_for_queries({"basic": [2.0, 200.0], "advanced": [50.0, 500.0]}, queries=[1, 10])
    >>> figure.axes[0].get_xscale()
    'log'
    """
    counts = tuple(queries)
    if any(len(values) != len(counts) for values in variances.values()):
        raise InvalidInput("variances", "lists of several lengths", "one number for each number of questions")
    least = min(variances, key=lambda name: variances[name][-1])
    finding = f"variance {nearest(float(variances[least][-1]))} per answer"
    figure, axes = sheet(
        title=title or f"For {counts[-1]:,} queries, {least} needs the least noise: {finding}",
        across="queries (number)",
        up="variance of one answer (squared units of the query)",
        width=8.4,
    )
    curves = [Curve(name, counts, tuple(float(v) for v in values)) for name, values in variances.items()]
    lines(axes, curves, curves[-1].name)
    return figure


def tilted(
    objective: Function,
    *,
    tilts: Sequence[float],
    between: tuple[float, float],
    title: str | None = None,
) -> Figure:
    """Draw an objective (Figure 2 of the notes), its tilts objective(x) + tilt x, and their minima.

    >>> len(tilted(lambda x: x**2, tilts=[-1.0, 1.0], between=(-2, 2)).axes[0].lines)
    6
    """
    x = _range(between)
    plain = np.asarray(objective(x), dtype=np.float64)
    minima = {tilt: int(np.argmin(plain + tilt * x)) for tilt in (0.0, *tilts)}
    moved = max(abs(x[least] - x[minima[0.0]]) for least in minima.values())
    figure, axes = sheet(
        title=title or f"Random tilts move the minimum by up to {nearest(float(moved), 2)}",
        across="parameter",
        up="objective",
        height=4.6,
    )
    for tilt, least in minima.items():
        y = plain + tilt * x
        colour = VERMILLION if tilt else BLUE
        label = f"tilt {typed(tilt)}" if tilt else "objective"
        axes.plot(x, y, color=colour, linewidth=1.2 if tilt else 2.6, label=label)
        axes.plot([x[least]], [y[least]], "o", color=colour, zorder=5)
    finish(axes)
    return figure


def staircase(
    values: Sequence[float],
    *,
    points: Sequence[float],
    chances: Sequence[float],
    alpha: float = 0.5,
    title: str | None = None,
) -> Figure:
    """Draw the counting staircase of the data (Remark 7.2), the wanted rank, and the answer's chances.

    >>> figure = staircase([1.0, 2.0, 4.0], points=[0.0, 1.0, 2.0, 3.0], chances=[0.1, 0.2, 0.5, 0.2])
    >>> figure.axes[0].get_ylabel()
    'records up to here (number)'
    """
    if len(points) != len(chances):
        raise InvalidInput("chances", len(chances), f"one for each of {len(points)} points")
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    likely = float(points[int(np.argmax(chances))])
    finding = f"The private {typed(alpha)} quantile is most often near {nearest(likely)}"
    figure, axes = sheet(title=title or finding, across="value", up="records up to here (number)")
    ranks = np.arange(1, ordered.size + 1)
    axes.step(ordered, ranks, where="post", color=BLUE, label="records up to a value")
    wanted: Any = {"color": VERMILLION, "linewidth": 1.2, "linestyle": DASHES}
    axes.axhline(alpha * ordered.size, label="wanted rank", **wanted)
    tall = np.asarray(chances, dtype=np.float64) / max(chances) * ordered.size * 0.4
    places = np.asarray(points, dtype=np.float64)
    axes.fill_between(places, 0, tall, color=QUIET, alpha=0.35, linewidth=0, step="mid")
    axes.step(places, tall, where="mid", color=QUIET, linewidth=0.8, label="chances of the answer")
    axes.set_ylim(bottom=0)
    finish(axes)
    return figure


def densities(named: Mapping[str, Function], *, between: tuple[float, float], title: str | None = None) -> Figure:
    """Draw several densities, the last one dashed: a distribution as n grows, and its limit (7.4.3).

    >>> bell = lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    >>> len(densities({"n = 10": bell, "limit": bell}, between=(-3, 3)).axes[0].lines)
    2
    """
    if not named:
        raise InvalidInput("named", named, "at least one density with its name")
    x = _range(between)
    heights = {name: np.asarray(density(x), dtype=np.float64) for name, density in named.items()}
    figure, axes = sheet(
        title=title or _nearness(heights, float(x[1] - x[0])),
        across="value",
        up="probability density",
        height=4.6,
    )
    last = list(heights)[-1]
    for (name, height), colour in zip(heights.items(), cycle(PALETTE), strict=False):
        is_last = name == last
        style: Any = {"color": INK, "linestyle": DASHES} if is_last else {"color": colour}
        axes.plot(x, height, label=name, **style)
    axes.set_yticks([])
    axes.set_ylim(bottom=0)
    finish(axes)
    return figure


def _nearness(heights: Mapping[str, Floats], step: float) -> str:
    """Return the finding: the total variation distance between the last two densities."""
    *others, limit = heights
    if not others:
        return f"Density of {limit}"
    name = others[-1]
    distance = float(np.sum(np.abs(heights[name] - heights[limit])) * step / 2)
    return f"{name} and {limit} differ by {nearest(100 * distance, 2)} % of their mass"


def revenue(sale: PumpkinPrices, *, title: str | None = None) -> Figure:
    """Draw revenue against what a pumpkin is sold for (Figure 3 of the notes), and two private ways to choose that.

    >>> from tallystick.mechanisms.select.noisy_law import pumpkin_prices
    >>> figure = revenue(pumpkin_prices([1.0, 1.0, 1.0, 4.01] * 25, epsilon=1.0))
    >>> figure.axes[0].get_xlabel()
    'money per pumpkin'
    """
    earned = [f"{nearest(value)}" for value in (sale.expected, sale.expected_by_noise, sale.best)]
    finding = "The exponential mechanism earns {} of {}; noise on the best choice earns {}"
    figure, axes = sheet(
        title=title or finding.format(earned[0], earned[2], earned[1]),
        across="money per pumpkin",
        up="revenue (money)",
    )
    axes.plot(sale.prices, sale.revenue, color=INK, label="revenue")
    tallest = max(float(sale.chances.max()), float(sale.noisy.max()))
    ways = {
        f"exponential mechanism: earns {earned[0]} of {earned[2]}": (sale.chances, BLUE),
        f"noise on the best choice: earns {earned[1]} of {earned[2]}": (sale.noisy, VERMILLION),
    }
    for name, (chances, colour) in ways.items():
        tall = chances / tallest * sale.best * 0.6
        axes.fill_between(sale.prices, 0, tall, color=colour, alpha=0.3, linewidth=0)
        axes.plot(sale.prices, tall, color=colour, linewidth=1.0, label=name)
    axes.set_ylim(0, 1.35 * sale.best)
    finish(axes)
    return figure


def _range(between: tuple[float, float]) -> Floats:
    low, high = between
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput("between", between, "(low, high), finite, low < high")
    return np.linspace(low, high, 2001)
