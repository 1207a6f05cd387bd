"""What is made of trade-off functions: the symmetric one, the sampled one, and the limit of many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallystick.drawing import BLUE, GREEN, ORANGE, QUIET, SHARE_LABELS, SHARES, VERMILLION
from tallystick.plots.canvas import sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tallystick.theorems.piecewise import PiecewiseTradeoff

ALPHAS: NDArray[np.float64] = np.linspace(0.0, 1.0, 401)


def symmetry(curve: PiecewiseTradeoff, *, title: str = "What does symmetry add?") -> Figure:
    """f, its inverse, and max(f, f^-1): what a symmetric relation of neighbours makes of f (Proposition 13.2).

    >>> from tallystick.theorems.piecewise import PiecewiseTradeoff
    >>> len(symmetry(PiecewiseTradeoff.of_pair([0.9, 0.1], [0.5, 0.5])).axes[0].get_lines())
    4
    """
    from tallystick.theorems.piecewise import symmetrised

    figure, axes = _square(title)
    axes.plot(ALPHAS, symmetrised(curve)(ALPHAS), color=BLUE, linewidth=4, label="max(f, its inverse)")
    axes.plot(ALPHAS, curve(ALPHAS), color=VERMILLION, label="f")
    axes.plot(ALPHAS, curve.inverse()(ALPHAS), color=GREEN, label="the inverse of f")
    axes.legend(fontsize=10, loc="upper right")
    return figure


def sampling(curve: PiecewiseTradeoff, *, rate: float, title: str = "What does sampling do to a curve?") -> Figure:
    """The subsampling operator (section 13.10): f, its mixture f_p with guessing, its inverse, and C_p(f) under both.

    >>> from tallystick.theorems.piecewise import PiecewiseTradeoff
    >>> figure = sampling(PiecewiseTradeoff.of_approx_dp(epsilon=2.0), rate=0.5)
    >>> figure.axes[0].get_legend_handles_labels()[1][0]
    'f'
    """
    from tallystick.theorems.piecewise import hull_of_min, mixed_with_identity

    mixed = mixed_with_identity(curve, rate=rate)
    inverse = mixed.inverse()
    figure, axes = _square(title)
    axes.plot(ALPHAS, curve(ALPHAS), color=QUIET, label="f")
    axes.plot(ALPHAS, mixed(ALPHAS), color=ORANGE, label=f"f_p = {rate:g} f + {1 - rate:g} Id")
    axes.plot(ALPHAS, inverse(ALPHAS), color=GREEN, label="its inverse")
    axes.plot(ALPHAS, hull_of_min(mixed, inverse)(ALPHAS), color=BLUE, linewidth=3, label="C_p(f): the hull under both")
    axes.legend(fontsize=10, loc="upper right")
    return figure


def limit_band(*, epsilon: float, steps: int, title: str = "How close to a Gaussian are many small losses?") -> Figure:
    """The exact curve of ``steps`` pure losses, the Gaussian limit, and its Berry-Esseen band (Theorem 13.5).

    >>> figure = limit_band(epsilon=0.1, steps=100)
    >>> figure.axes[0].get_legend_handles_labels()[1][0]
    'what the theorem proves'
    """
    from tallystick.accounting import losses
    from tallystick.accounting.gdp import tradeoff
    from tallystick.theorems.clt import gaussian_limit, tradeoff_moments
    from tallystick.theorems.piecewise import PiecewiseTradeoff

    step = tradeoff_moments(PiecewiseTradeoff.of_approx_dp(epsilon=epsilon))
    found = gaussian_limit([step] * steps)

    low, high = np.array([found.tradeoff_band(alpha=float(alpha)) for alpha in ALPHAS]).T
    normal = [tradeoff(found.mu, float(alpha)) for alpha in ALPHAS]
    exact = np.asarray((steps * losses.pure_dp(epsilon=epsilon)).tradeoff(alpha=ALPHAS), dtype=float)
    figure, axes = _square(title)
    axes.fill_between(ALPHAS, low, high, color=ORANGE, alpha=0.2, linewidth=0, label="what the theorem proves")
    axes.plot(ALPHAS, exact, color=BLUE, label=f"{steps} times epsilon {epsilon:g}, exact")
    axes.plot(ALPHAS, normal, color=VERMILLION, linestyle=(0, (5, 3)), label=f"its limit, mu = {found.mu:.3g}")
    axes.legend(fontsize=10, loc="upper right")
    return figure


def _square(title: str) -> tuple[Figure, Axes]:
    """A sheet for trade-off functions, with the line of guessing."""
    figure, axes = sheet(title=title, across="false alarms", up="misses", height=5.6)
    axes.plot([0, 1], [1, 0], color=QUIET, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.set(xlim=(0, 1), ylim=(0, 1.005))
    axes.set_aspect("equal")
    axes.set_xticks(SHARES, SHARE_LABELS)
    axes.set_yticks(SHARES, SHARE_LABELS)
    return figure, axes
