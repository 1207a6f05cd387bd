"""Growth of errors: Laplace against Gaussian in the dimension, local against central in the number of people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tallystick.digits import nearest, percent, typed, up
from tallystick.drawing import BLUE, GREEN, INK, VERMILLION
from tallystick.errors import InvalidInput
from tallystick.plots.canvas import DASHES, sheet
from tallystick.plots.labels import finish

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DIMENSIONS = tuple(int(d) for d in np.unique(np.round(np.logspace(0, 4, 60)).astype(int)))
_PEOPLE = tuple(int(n) for n in np.unique(np.round(np.logspace(2, 7, 60)).astype(int)))


def release(
    true_value: float,
    *,
    scale: float,
    half_width: float,
    confidence: float = 0.95,
    published: float | None = None,
    unit: str = "",
) -> Figure:
    """Draw where a published number may fall around the true one with Laplace noise, and the interval around it.

    ``half_width`` is what ``mechanism.error(confidence=)`` returns; ``published`` draws one release with its interval.

    >>> release(100, scale=2, half_width=6, published=97).axes[0].get_xlabel()
    'published number'
    """
    if not 0 < scale < math.inf or not 0 < half_width < math.inf:
        raise InvalidInput("scale", (scale, half_width), "a finite scale > 0 and a finite half_width > 0")
    x = np.linspace(true_value - 2.2 * half_width, true_value + 2.2 * half_width, 601)
    y = np.exp(-np.abs(x - true_value) / scale) / (2 * scale)
    across = f"published number ({unit})" if unit else "published number"
    within = f"±{up(half_width)} {unit}".rstrip()
    title = f"{percent(confidence)} of published numbers are within {within} of the true one"
    figure, axes = sheet(title=title, across=across, up="probability density", height=4.2)
    inside = np.abs(x - true_value) <= half_width
    axes.fill_between(x[inside], 0, y[inside], color=BLUE, alpha=0.18, linewidth=0)
    axes.plot(x, y, color=BLUE)
    axes.axvline(true_value, color=INK, linewidth=1.2)
    axes.annotate("true", xy=(true_value, y.max()), xytext=(6, -2), textcoords="offset points", color=INK)
    if published is not None:
        height = 0.12 * float(y.max())
        axes.errorbar([published], [height], xerr=[[half_width], [half_width]], color=VERMILLION, marker="o", capsize=5)
        words = f"published, with an interval that\ncovers the true number\n{percent(confidence)} of the time"
        axes.text(0.02, 0.95, words, transform=axes.transAxes, va="top", color=VERMILLION)
    axes.set_ylim(bottom=0)
    axes.set_yticks([])
    return figure


def error_in_dimension(
    *, epsilon: float, delta: float, count: int = 10_000, dimensions: Sequence[int] = _DIMENSIONS
) -> Figure:
    """L2 error of a private mean of vectors in [0, 1]^d: d^{3/2} with Laplace noise, d with Gaussian (notes 000, 10.1).

    >>> error_in_dimension(epsilon=1.0, delta=1e-6, dimensions=(1, 10)).axes[0].get_xscale()
    'log'
    """
    from tallystick.mechanisms.noise.accuracy import laplace_mean_error, unit_sigma

    sigma = unit_sigma(epsilon=epsilon, delta=delta)
    laplace = [laplace_mean_error(dimension=d, count=count, epsilon=epsilon) for d in dimensions]
    gaussian = [d * sigma / count for d in dimensions]  # gaussian_mean_error, calibrated once
    better = [d for d, one, other in zip(dimensions, laplace, gaussian, strict=True) if other < one]
    winner = f"Gaussian noise is smaller from dimension {better[0]:,}" if better else "Laplace noise is smaller"
    title = f"{winner} (mean of {count:,} vectors)"
    figure, axes = sheet(title=title, across="dimension d (number)", up="L2 error (root mean square)")
    pure, approximate = f"epsilon {typed(epsilon)}", f"delta {typed(delta)}"
    label = f"Laplace, {pure}: grows like d^1.5"
    axes.plot(dimensions, laplace, color=VERMILLION, label=label)
    label = f"Gaussian, {approximate}: grows like d"
    axes.plot(dimensions, gaussian, color=BLUE, label=label)
    axes.set(xscale="log", yscale="log")
    finish(axes)
    return figure


def error_in_people(*, epsilon: float, people: Sequence[int] = _PEOPLE) -> Figure:
    """Draw the error of a share: without privacy, by a trusted curator, by each person (Example 3.5).

    >>> error_in_people(epsilon=1.0, people=(100, 1000)).axes[0].get_yscale()
    'log'
    """
    from tallystick.mechanisms.noise.accuracy import proportion_variance
    from tallystick.mechanisms.response import randomize

    mechanism = randomize(epsilon=epsilon)
    return _by_people(
        people,
        local=[math.sqrt(mechanism.variance(share=0.5, reports=n)) for n in people],
        central=[math.sqrt(proportion_variance(proportion=0.5, n=n, epsilon=epsilon)) for n in people],
        public=[math.sqrt(0.25 / n) for n in people],
        where=f"at epsilon {typed(epsilon)}",
        unit="standard error of the share",
    )


def rates_in_people(*, epsilon: float, moments: float = 2.0, people: Sequence[int] = _PEOPLE) -> Figure:
    """Minimax rates of a mean with k finite moments (Theorems 4.1 and 4.2), without their constants.

    >>> rates_in_people(epsilon=1.0, people=(100, 1000)).axes[0].get_xlabel()
    'people (number)'
    """
    from tallystick.mechanisms.response.rates import open_mean_rate
    from tallystick.theorems import central_rate, local_rate

    return _by_people(
        people,
        local=[local_rate(people=n, epsilon=epsilon, moments=moments) for n in people],
        central=[central_rate(people=n, epsilon=epsilon, moments=moments) for n in people],
        public=[open_mean_rate(count=n) for n in people],
        where=f"with {typed(moments)} moments at epsilon {typed(epsilon)}",
        unit="mean squared error, up to a constant",
    )


def _by_people(
    people: Sequence[int],
    *,
    local: Sequence[float],
    central: Sequence[float],
    public: Sequence[float],
    where: str,
    unit: str,
) -> Figure:
    """Draw three errors that fall with the number of people: local, central and without privacy."""
    factor = nearest(local[-1] / central[-1])
    title = f"Local noise has {factor} times the error of central noise for {people[-1]:,} people {where}"
    figure, axes = sheet(title=title, across="people (number)", up=unit)
    axes.plot(people, local, color=VERMILLION, label="local: each person adds noise")
    axes.plot(people, central, color=BLUE, label="central: noise is added once")
    axes.plot(people, public, color=GREEN, linestyle=DASHES, label="without privacy")
    axes.set(xscale="log", yscale="log")
    finish(axes)
    return figure
