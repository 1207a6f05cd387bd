"""The trade-off curve: the people an attacker must miss, for each share of false accusations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting.adjacency import Protects
from tallystick.cards.meaning import Whom
from tallystick.digits import percent, percent_up
from tallystick.drawing import BLUE, INK, PALETTE, PAPER, VERMILLION
from tallystick.errors import InvalidInput
from tallystick.plots.canvas import square
from tallystick.plots.labels import finish
from tallystick.tables.reporting.words import capital

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tallystick.accounting.loss import PrivacyLoss

Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]
_USUAL = 0.05
"""Share of false accusations at which curves are compared."""


def tradeoff(
    loss: PrivacyLoss,
    *,
    title: str | None = None,
    mark: float = 0.05,
    unit: str | None = None,
) -> Figure:
    """Draw misses against false accusations; the numbers are written out at the share ``mark``.

    ``unit`` names what is protected if the loss does not: without either, people.

    The curve is ``loss.tradeoff``, a certified lower bound of the attacker's misses, so the shaded region is out
    of reach of every attacker, even if they know all about everyone else.
    """
    alpha = np.unique(
        np.concatenate([np.linspace(0, 1, 161), np.geomspace(1e-4, 1, 41), 1 - np.geomspace(1e-4, 1, 41)])
    )
    misses = np.asarray(loss.tradeoff(alpha=alpha), dtype=float)
    whom = Whom.of(loss, unit=unit)
    accused, unnoticed = whom.errors
    missed = float(np.asarray(loss.tradeoff(alpha=mark)))
    found = f"at most {percent_up(1 - Fraction(missed))} of {whom.crowd} are found"
    figure, axes = square(
        title=title or f"With {percent(mark)} false accusations, {found}",
        across=f"false accusations: {accused}",
        up=f"misses: {unnoticed}",
    )
    axes.fill_between(alpha, 0, misses, color=BLUE, alpha=0.13, linewidth=0)
    axes.plot(alpha, misses, color=BLUE)
    _mark(axes, mark, missed, whom.crowd)
    if loss.tradeoff(alpha=0.35) > 0.12:
        axes.text(0.04, 0.04, "no attacker\ncan get here", color=BLUE, fontsize=11)
    return figure


def tradeoffs(
    curves: Mapping[str, Function],
    *,
    title: str | None = None,
    unit: str | None = None,
) -> Figure:
    """Draw several trade-off functions with their names; a higher curve is a stronger guarantee.

    ``unit`` names what the functions protect: without it, people.

    >>> from tallystick.theorems.piecewise import PiecewiseTradeoff
    >>> figure = tradeoffs({"epsilon 1": PiecewiseTradeoff.of_approx_dp(epsilon=1.0)})
    >>> figure.axes[0].get_legend_handles_labels()[1]
    ['epsilon 1']
    """
    if not curves:
        raise InvalidInput("curves", len(curves), "at least one trade-off function")
    accused, unnoticed = Whom(Protects(unit=unit)).errors
    figure, axes = square(
        title=title or _strongest(curves),
        across=f"false accusations: {accused}",
        up=f"misses: {unnoticed}",
    )
    alpha = np.linspace(0.0, 1.0, 401)
    for (name, misses), colour in zip(curves.items(), cycle(PALETTE), strict=False):
        axes.plot(alpha, misses(alpha), color=colour, label=name)
    finish(axes)
    return figure


def _strongest(curves: Mapping[str, Function]) -> str:
    """Return the finding: the curve under which an attacker finds least, at a usual share."""
    at = np.array([_USUAL])
    missed = {name: float(misses(at)[0]) for name, misses in curves.items()}
    name = max(missed, key=lambda each: missed[each])
    most = percent_up(1 - Fraction(missed[name]))
    return f"{capital(name)} is the strongest: at most {most} found with {percent(_USUAL)} false accusations"


def _mark(axes: Axes, alpha: float, missed: float, crowd: str) -> None:
    axes.plot([alpha], [missed], marker="o", markersize=8, color=VERMILLION, zorder=5, clip_on=False)
    text = f"{percent(alpha)} false accusations:\nat most {percent_up(1 - Fraction(missed))} of {crowd} found"
    axes.annotate(
        text,
        (alpha, missed),
        xytext=(0.98, 0.88 if missed > 0.55 else 0.66),
        color=INK,
        fontsize=11,
        ha="right",
        va="center",
        bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 2},
        arrowprops={"arrowstyle": "-", "color": VERMILLION, "linewidth": 1.2, "shrinkB": 6},
    )
