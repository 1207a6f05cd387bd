"""The noise that is added to an answer, with the interval that holds most of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tallystick.digits import percent, up
from tallystick.drawing import BLUE, INK, VERMILLION
from tallystick.errors import InvalidInput
from tallystick.plots.canvas import sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

Density = Callable[["NDArray[np.float64]"], "NDArray[np.float64]"]


def noise(
    density: Density,
    *,
    half_width: float,
    confidence: float = 0.95,
    unit: str = "",
    title: str | None = None,
) -> Figure:
    """The density of additive noise; the middle ``confidence`` of it, within ±``half_width``, is shaded.

    ``half_width`` is what a mechanism's ``.error(confidence)`` returns.

    >>> figure = noise(lambda x: np.exp(-abs(x)) / 2, half_width=3.0)
    >>> figure.axes[0].get_xlabel()
    'published minus true'
    """
    if not 0 < confidence < 1:
        raise InvalidInput("confidence", confidence, "a number strictly between 0 and 1")
    if not 0 < half_width < float("inf"):
        raise InvalidInput("half_width", half_width, "a finite number > 0")
    x = np.linspace(-2.2 * half_width, 2.2 * half_width, 601)
    y = np.asarray(density(x), dtype=float)
    inside = np.abs(x) <= half_width
    across = f"published minus true ({unit})" if unit else "published minus true"
    within = f"±{up(half_width)} {unit}".rstrip()
    finding = f"{percent(confidence)} of published numbers are within {within} of the true one"
    figure, axes = sheet(title=title or finding, across=across, up="probability density", height=4.2)
    axes.fill_between(x[inside], 0, y[inside], color=BLUE, alpha=0.18, linewidth=0)
    axes.plot(x, y, color=BLUE)
    for side in (-half_width, half_width):
        axes.axvline(side, color=VERMILLION, linewidth=1.2, linestyle=(0, (4, 3)))
    words = f"{percent(confidence)} of the time\nwithin {within}"
    axes.text(0.98, 0.92, words, transform=axes.transAxes, ha="right", va="top", color=INK)
    axes.set_ylim(bottom=0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False)
    return figure
