"""The privacy profile: the delta that goes with every epsilon."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tallystick.digits import typed, up
from tallystick.drawing import BLUE, INK, VERMILLION
from tallystick.plots.canvas import sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tallystick.accounting.loss import PrivacyLoss


def profile(loss: PrivacyLoss, *, title: str | None = None, mark: float = 1e-5, smallest: float = 1e-12) -> Figure:
    """Draw delta (log scale) against epsilon, down to ``smallest``, with the epsilon at delta = ``mark`` written out.

    The curve is ``loss.delta``, an upper bound of the truth at each point.
    """
    chosen = loss.epsilon(delta=mark)
    figure, axes = sheet(
        title=title or f"Epsilon {up(chosen)} at delta {typed(mark)}",
        across="epsilon",
        up="delta (probability that epsilon does not cover)",
    )
    furthest = loss.epsilon(delta=smallest)
    span = furthest if math.isfinite(furthest) and furthest > 0 else max(4.0, 4 * _finite(chosen))
    epsilon = np.linspace(0.0, span, 121)
    delta = np.asarray(loss.delta(epsilon=epsilon), dtype=float)
    shown = delta > 0
    axes.semilogy(epsilon[shown], delta[shown], color=BLUE)
    if math.isfinite(chosen) and chosen > 0:
        axes.plot([chosen], [mark], marker="o", markersize=8, color=VERMILLION, zorder=5)
        axes.annotate(
            f"epsilon {up(chosen)}\nat delta {typed(mark)}",
            (chosen, mark),
            xytext=(14, 12),
            textcoords="offset points",
            color=INK,
        )
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=max(smallest, float(delta[shown].min(initial=1.0)) / 3), top=1.5)
    return figure


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 1.0
