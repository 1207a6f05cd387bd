"""How error grows: Laplace against Gaussian in the dimension, local against central in the number of people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tallystick.digits import percent, typed
from tallystick.drawing import BLUE, GREEN, INK, QUIET, VERMILLION
from tallystick.errors import InvalidInput
from tallystick.plots.canvas import sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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
    """Where a published number may fall around the true one with Laplace noise, and the interval read back from it.

    ``half_width`` is what ``mechanism.error(confidence=)`` returns; ``published`` draws one release with its interval.

    >>> release(100, scale=2, half_width=6, published=97).axes[0].get_xlabel()
    'published number'
    """
    if not 0 < scale < math.inf or not 0 < half_width < math.inf:
        raise InvalidInput("scale", (scale, half_width), "a finite scale > 0 and a finite half_width > 0")
    x = np.linspace(true_value - 2.2 * half_width, true_value + 2.2 * half_width, 601)
    y = np.exp(-np.abs(x - true_value) / scale) / (2 * scale)
    across = f"published number ({unit})" if unit else "published number"
    figure, axes = sheet(title="The true number and where its release falls", across=across, up="how often", height=4.2)
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
    title = f"Error of a mean of {count:,} vectors"
    figure, axes = sheet(title=title, across="dimension d", up="L2 error (root mean square)")
    axes.plot(dimensions, laplace, color=VERMILLION)
    axes.plot(dimensions, gaussian, color=BLUE)
    axes.set(xscale="log", yscale="log")
    _name(axes, dimensions, laplace, f"Laplace, epsilon = {typed(epsilon)}: grows like d^1.5", VERMILLION)
    _name(axes, dimensions, gaussian, f"Gaussian, delta = {typed(delta)}: grows like d", BLUE, below=True)
    return figure


def error_in_people(*, epsilon: float, people: Sequence[int] = _PEOPLE) -> Figure:
    """Root mean square error of a share of yes: nobody, a trusted curator, or everybody adds noise (Example 3.5).

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
        title=f"Error of a share at epsilon = {typed(epsilon)}",
        up="standard error",
    )


def rates_in_people(*, epsilon: float, moments: float = 2.0, people: Sequence[int] = _PEOPLE) -> Figure:
    """Minimax rates of a mean with k finite moments (Theorems 4.1 and 4.2), without their constants.

    >>> rates_in_people(epsilon=1.0, people=(100, 1000)).axes[0].get_xlabel()
    'people n'
    """
    from tallystick.mechanisms.response.rates import open_mean_rate
    from tallystick.theorems import central_rate, local_rate

    return _by_people(
        people,
        local=[local_rate(people=n, epsilon=epsilon, moments=moments) for n in people],
        central=[central_rate(people=n, epsilon=epsilon, moments=moments) for n in people],
        public=[open_mean_rate(count=n) for n in people],
        title=f"Best possible rates with {typed(moments)} moments at epsilon = {typed(epsilon)}",
        up="mean squared error, up to a constant",
    )


def _by_people(
    people: Sequence[int],
    *,
    local: Sequence[float],
    central: Sequence[float],
    public: Sequence[float],
    title: str,
    up: str,
) -> Figure:
    """Three lines that fall with the number of people: everybody adds noise, a curator does, nobody does."""
    figure, axes = sheet(title=title, across="people n", up=up)
    axes.plot(people, local, color=VERMILLION)
    axes.plot(people, central, color=BLUE)
    axes.plot(people, public, color=GREEN, linestyle=(0, (4, 3)))
    axes.set(xscale="log", yscale="log")
    _name(axes, people, local, "local: everybody randomizes", VERMILLION)
    _name(axes, people, central, "central: noise is added once", BLUE, below=True)
    axes.text(0.98, 0.95, "dashed: no privacy", transform=axes.transAxes, ha="right", va="top", color=QUIET)
    return figure


def _name(
    axes: Axes, across: Sequence[int], up: Sequence[float], words: str, colour: str, *, below: bool = False
) -> None:
    """Write a line's name on its free side; a legend would make the reader match colours."""
    place = len(across) // 2 if below else 2 * len(across) // 3
    rising = up[-1] > up[0]
    axes.annotate(
        words,
        xy=(across[place], up[place]),
        xytext=(-10 if rising != below else 10, -16 if below else 8),
        textcoords="offset points",
        ha="right" if rising != below else "left",
        color=colour,
    )
