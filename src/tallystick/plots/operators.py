"""Operations on trade-off functions: symmetry, sampling, and the limit of many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallystick.digits import nearest, percent, percent_down, percent_up, typed
from tallystick.drawing import BLUE, GREEN, ORANGE, QUIET, VERMILLION
from tallystick.plots.canvas import DASHES, square
from tallystick.plots.labels import finish

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tallystick.theorems.piecewise import PiecewiseTradeoff

Floats = NDArray[np.float64]
ALPHAS: Floats = np.linspace(0.0, 1.0, 401)
_USUAL = 20
"""Place in ``ALPHAS`` of 5 % false accusations, at which curves are compared."""


def symmetry(curve: PiecewiseTradeoff, *, title: str | None = None) -> Figure:
    """Draw f, its inverse, and max(f, f^-1), the curve of a symmetric relation (Proposition 13.2).

    >>> from tallystick.theorems.piecewise import PiecewiseTradeoff
    >>> len(symmetry(PiecewiseTradeoff.of_pair([0.9, 0.1], [0.5, 0.5])).axes[0].get_lines())
    4
    """
    from tallystick.theorems.piecewise import symmetrised

    both, one = symmetrised(curve)(ALPHAS), curve(ALPHAS)
    figure, axes = square(title=title or _raised(both, one))
    axes.plot(ALPHAS, both, color=BLUE, label="the larger of both")
    axes.plot(ALPHAS, one, color=VERMILLION, label="f")
    axes.plot(ALPHAS, curve.inverse()(ALPHAS), color=GREEN, label="the inverse of f")
    finish(axes)
    return figure


def _raised(both: Floats, one: Floats) -> str:
    """Return the finding: the largest gain from symmetry."""
    at = int(np.argmax(both - one))
    gain = f"from {percent_down(float(one[at]))} to {percent_down(float(both[at]))}"
    where = f"at {percent(float(ALPHAS[at]))} false accusations"
    return f"Both directions together raise the misses {where} {gain}"


def sampling(curve: PiecewiseTradeoff, *, rate: float, title: str | None = None) -> Figure:
    """Draw the subsampling operator (section 13.10): f, its mixture f_p, its inverse, and C_p(f).

    >>> from tallystick.theorems.piecewise import PiecewiseTradeoff
    >>> figure = sampling(PiecewiseTradeoff.of_approx_dp(epsilon=2.0), rate=0.5)
    >>> figure.axes[0].get_legend_handles_labels()[1][0]
    'without sampling: f'
    """
    from tallystick.theorems.piecewise import hull_of_min, mixed_with_identity

    mixed = mixed_with_identity(curve, rate=rate)
    inverse = mixed.inverse()
    whole, sampled = curve(ALPHAS), hull_of_min(mixed, inverse)(ALPHAS)
    figure, axes = square(title=title or _weakened(whole, sampled, rate))
    axes.plot(ALPHAS, whole, color=QUIET, label="without sampling: f")
    axes.plot(ALPHAS, sampled, color=BLUE, label="with sampling: C_p(f)")
    mixture = f"f_p = {typed(rate)} f + {nearest(1 - rate)} Id"
    axes.plot(ALPHAS, mixed(ALPHAS), color=ORANGE, label=mixture)
    axes.plot(ALPHAS, inverse(ALPHAS), color=GREEN, label="the inverse of f_p")
    finish(axes)
    return figure


def _weakened(whole: Floats, sampled: Floats, rate: float) -> str:
    """Return the finding: the people found with sampling and without it."""
    with_it, without = (percent_up(1 - float(line[_USUAL])) for line in (sampled, whole))
    found = f"at most {with_it} are found instead of {without}"
    where = f"with {percent(float(ALPHAS[_USUAL]))} false accusations"
    return f"Sampling {percent(rate)} of people: {where}, {found}"


def limit_band(*, epsilon: float, steps: int, title: str | None = None) -> Figure:
    """Draw the exact curve of pure losses, its Gaussian limit, and the band of Theorem 13.5.

    >>> figure = limit_band(epsilon=0.1, steps=100)
    >>> figure.axes[0].get_legend_handles_labels()[1][0]
    '100 steps of epsilon 0.1, exact'
    """
    from tallystick.accounting import losses
    from tallystick.accounting.gdp import tradeoff
    from tallystick.theorems.clt import gaussian_limit, tradeoff_moments
    from tallystick.theorems.piecewise import PiecewiseTradeoff

    step = tradeoff_moments(PiecewiseTradeoff.of_approx_dp(epsilon=epsilon))
    limit = gaussian_limit([step] * steps)
    low, high = np.array([limit.tradeoff_band(alpha=float(alpha)) for alpha in ALPHAS]).T
    normal = np.array([tradeoff(limit.mu, float(alpha)) for alpha in ALPHAS])
    loss = steps * losses.pure_dp(epsilon=epsilon)
    exact = np.asarray(loss.tradeoff(alpha=ALPHAS), dtype=float)
    gap = nearest(100 * float(np.max(np.abs(exact - normal))), 2)
    run = f"{steps:,} steps of epsilon {typed(epsilon)}"
    figure, axes = square(title=title or f"{run} differ from the Gaussian limit by at most {gap} percentage points")
    axes.fill_between(ALPHAS, low, high, color=ORANGE, alpha=0.2, linewidth=0)
    axes.plot(ALPHAS, exact, color=BLUE, label=f"{run}, exact")
    label = f"Gaussian limit, mu = {nearest(limit.mu)}"
    axes.plot(ALPHAS, normal, color=VERMILLION, linestyle=DASHES, label=label)
    edge = "band that the theorem proves"
    axes.plot(ALPHAS, low, color=ORANGE, linewidth=1.0, label=edge)
    axes.plot(ALPHAS, high, color=ORANGE, linewidth=1.0)
    finish(axes)
    return figure
