"""The trade-off curve: how many people an attacker must miss for each share of false alarms."""

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
from tallystick.drawing import BLUE, INK, PALETTE, PAPER, QUIET, SHARE_LABELS, SHARES, VERMILLION
from tallystick.errors import InvalidInput
from tallystick.plots.canvas import sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tallystick.accounting.loss import PrivacyLoss


def tradeoff(
    loss: PrivacyLoss,
    *,
    title: str = "What the best attacker can do",
    mark: float = 0.05,
    unit: str | None = None,
) -> Figure:
    """Misses against false alarms; ``mark`` is the share of false alarms at which the numbers are written out.

    ``unit`` is what the picture is about where the loss names nothing: without either, people.

    The curve is ``loss.tradeoff``, a certified lower bound of the attacker's misses, so the shaded region is out
    of reach of every attacker, whatever they know about everybody else.
    """
    alpha = np.unique(
        np.concatenate([np.linspace(0, 1, 161), np.geomspace(1e-4, 1, 41), 1 - np.geomspace(1e-4, 1, 41)])
    )
    misses = np.asarray(loss.tradeoff(alpha=alpha), dtype=float)
    whom = Whom.of(loss, unit=unit)
    accused, unnoticed = whom.errors
    figure, axes = sheet(title=title, across=f"false alarms: {accused}", up=f"misses: {unnoticed}", height=5.4)
    axes.plot([0, 1], [1, 0], color=QUIET, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.fill_between(alpha, 0, misses, color=BLUE, alpha=0.13, linewidth=0)
    axes.plot(alpha, misses, color=BLUE)
    _mark(axes, mark, float(np.asarray(loss.tradeoff(alpha=mark))), whom.crowd)
    axes.text(0.73, 0.30, "guessing", color=QUIET, rotation=-44, ha="center", va="bottom", fontsize=10)
    if loss.tradeoff(alpha=0.35) > 0.12:
        axes.text(0.04, 0.04, "no attacker\ncan get here", color=BLUE, fontsize=11)
    axes.set(xlim=(0, 1), ylim=(0, 1.005))
    axes.set_aspect("equal")
    axes.set_xticks(SHARES, SHARE_LABELS)
    axes.set_yticks(SHARES, SHARE_LABELS)
    return figure


def tradeoffs(
    curves: Mapping[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]],
    *,
    title: str = "Which promise is harder to break?",
    unit: str | None = None,
) -> Figure:
    """Several trade-off functions on one sheet, each with its name: the higher a curve, the more an attacker misses.

    A function does not say whom it protects: ``unit`` does, and without it the sheet is about people.

    >>> from tallystick.theorems.piecewise import PiecewiseTradeoff
    >>> figure = tradeoffs({"epsilon 1": PiecewiseTradeoff.of_approx_dp(epsilon=1.0)})
    >>> figure.axes[0].get_legend_handles_labels()[1]
    ['epsilon 1']
    """
    if not curves:
        raise InvalidInput("curves", len(curves), "at least one trade-off function")
    unnoticed = Whom(Protects(unit=unit)).errors[1]
    figure, axes = sheet(title=title, across="false alarms", up=f"misses: {unnoticed}", height=5.8)
    alpha = np.linspace(0.0, 1.0, 401)
    axes.plot([0, 1], [1, 0], color=QUIET, linewidth=1.2, linestyle=(0, (4, 3)))
    for (name, misses), colour in zip(curves.items(), cycle(PALETTE)):
        axes.plot(alpha, misses(alpha), color=colour, label=name)
    axes.set(xlim=(0, 1), ylim=(0, 1.005))
    axes.set_aspect("equal")
    axes.set_xticks(SHARES, SHARE_LABELS)
    axes.set_yticks(SHARES, SHARE_LABELS)
    axes.legend(fontsize=9.5, loc="upper right")
    return figure


def _mark(axes: Axes, alpha: float, missed: float, crowd: str) -> None:
    axes.plot([alpha], [missed], marker="o", markersize=8, color=VERMILLION, zorder=5, clip_on=False)
    text = f"{percent(alpha)} false alarms:\nat most {percent_up(1 - Fraction(missed))} of {crowd} found"
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
