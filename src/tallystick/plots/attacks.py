"""Pictures of attacks: what is recovered at which noise, who is found, a measured trade-off beside the claimed one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tallystick.cards.meaning import Whom
from tallystick.drawing import BLUE, INK, PALETTE, QUIET, SHARE_LABELS, SHARES, VERMILLION
from tallystick.errors import InvalidInput
from tallystick.plots.canvas import sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.audit.band import Band
    from tallystick.audit.everyday import Differencing
    from tallystick.audit.membership import HitRate

DASHES = (0, (4, 3))


def recovery(
    shares: Mapping[int, Sequence[float]],
    *,
    noises: Sequence[float],
    title: str = "Everybody's bit, from counts with too little noise",
) -> Figure:
    """The share of bits recovered against noise/sqrt(n): ``shares`` has a line for every number of people.

    ``noises`` are standard deviations in units of sqrt(n), in which the lines of all n fall together.
    """
    if not shares or any(len(line) != len(noises) for line in shares.values()):
        raise InvalidInput(
            "shares", len(shares), f"for every number of people a share for each of {len(noises)} noises"
        )
    figure, axes = sheet(
        title=title, across="standard deviation of the noise, divided by √n", up="share of people recovered"
    )
    axes.axvline(1.0, color=QUIET, linestyle=DASHES, linewidth=1.2)
    axes.annotate("noise = √n", (1.0, 0.97), xytext=(5, 0), textcoords="offset points", color=QUIET)
    axes.axhline(0.5, color=QUIET, linestyle=DASHES, linewidth=1.2)
    axes.annotate("a coin", (min(noises), 0.5), xytext=(2, 4), textcoords="offset points", color=QUIET)
    for colour, (people, line) in zip(_colours(len(shares)), shares.items(), strict=True):
        axes.plot(noises, line, color=colour, marker="o", markersize=4, label=f"n = {people}")
    axes.set_xscale("log")
    axes.legend(loc="lower left")
    _shares_up(axes)
    return figure


def guesses(found: Mapping[float, Differencing], *, title: str = "One person's bit, from two counts") -> Figure:
    """Right guesses with exact 95 % limits against epsilon, and the ceiling e^epsilon/(1 + e^epsilon)."""
    if not found:
        raise InvalidInput("found", 0, "at least one epsilon")
    figure, axes = sheet(title=title, across="epsilon of each count", up="share of right guesses")
    epsilons = np.geomspace(min(found) / 1.5, max(found) * 1.5, 200)
    axes.plot(epsilons, 1.0 / (1.0 + np.exp(-epsilons)), color=BLUE)
    axes.fill_between(epsilons, 1.0 / (1.0 + np.exp(-epsilons)), 1.0, color=BLUE, alpha=0.13, linewidth=0)
    axes.annotate("no attacker can get here", (epsilons[4], 0.94), color=BLUE)
    for epsilon, seen in found.items():
        axes.plot([epsilon, epsilon], [seen.lower, seen.upper], color=VERMILLION, linewidth=1.4)
        axes.plot([epsilon], [seen.rate], marker="o", markersize=5, color=VERMILLION)
    axes.set_xscale("log")
    _shares_up(axes)
    return figure


def linked(shares: Mapping[str, Mapping[int, float]], *, title: str = "Who is behind a row without a name?") -> Figure:
    """The share of people found against what is known about each: a line for every released table, by its name."""
    if not shares:
        raise InvalidInput("shares", 0, "at least one table")
    figure, axes = sheet(
        title=title, across="ratings that the attacker knows of each person", up="share of people found"
    )
    for colour, (name, line) in zip(_colours(len(shares)), shares.items(), strict=True):
        axes.plot(list(line), list(line.values()), color=colour, marker="o", markersize=5, label=name)
    axes.legend(loc="center right")
    axes.locator_params(axis="x", integer=True)
    _shares_up(axes)
    return figure


def hits(
    rates: Sequence[HitRate],
    *,
    claim: PrivacyLoss,
    title: str = "Who was in the training data?",
    unit: str | None = None,
) -> Figure:
    """Members found against realised false alarms, with 95 % limits, and the ceiling 1 - f of the claim.

    ``unit`` is what members are where the claim names nothing: without either, people.
    """
    if not len(rates):
        raise InvalidInput("rates", 0, "at least one hit_rate(...)")
    figure, axes = sheet(
        title=title,
        across=f"false alarms: {Whom.of(claim, unit=unit).errors[0]}",
        up="share of members found",
    )
    least = min([rate.alarm for rate in rates if rate.alarm > 0] or [1e-3]) / 2.0
    alarms = np.geomspace(least, 1.0, 120)
    allowed = 1.0 - np.asarray(claim.tradeoff(alpha=alarms), dtype=float)
    axes.fill_between(alarms, allowed, 1.0, color=BLUE, alpha=0.13, linewidth=0)
    axes.plot(alarms, allowed, color=BLUE, label="most that the claim allows")
    axes.plot(alarms, alarms, color=QUIET, linestyle=DASHES, linewidth=1.2, label="guessing")
    for rate in rates:
        at = max(rate.alarm, least)
        axes.plot([at, at], [rate.lower, rate.upper], color=VERMILLION, linewidth=1.4)
        axes.plot([at], [rate.power], marker="o", markersize=5, color=VERMILLION)
    axes.set_xscale("log")
    axes.legend(loc="upper left")
    _shares_up(axes)
    return figure


def tradeoff_band(band: Band, *, title: str = "Measured against the claim") -> Figure:
    """The confidence band of a score's trade-off, and the claimed curve, which no part of the band may lie below."""
    figure, axes = sheet(
        title=title,
        across="false alarms of the test",
        up="misses of the test",
        height=5.4,
    )
    upper, lower = (np.array(sorted(points)) for points in (band.upper, band.lower))
    alarms = np.linspace(0.0, 1.0, 161)
    claimed = np.asarray(band.loss.tradeoff(alpha=alarms), dtype=float)
    # Limits of both axes at once are rectangles; between thresholds the curve is no higher than at the one before.
    high = [min([1.0, *upper[upper[:, 0] <= alarm, 1]]) for alarm in alarms]
    low = [max([0.0, *lower[lower[:, 0] >= alarm, 1]]) for alarm in alarms]
    axes.fill_between(alarms, low, high, color=VERMILLION, alpha=0.25, linewidth=0, label="band of this score")
    axes.plot(alarms, claimed, color=BLUE, label="claimed")
    axes.plot([0, 1], [1, 0], color=QUIET, linestyle=DASHES, linewidth=1.2, label="guessing")
    below = [(a, b) for a, b in band.upper if b < float(np.asarray(band.loss.tradeoff(alpha=a)))]
    if below:
        axes.plot(*zip(*below, strict=True), linestyle="", marker="o", markersize=5, color=INK, label="below the claim")
    axes.set(xlim=(0, 1), ylim=(0, 1.005))
    axes.set_aspect("equal")
    axes.set_xticks(SHARES, SHARE_LABELS)
    axes.set_yticks(SHARES, SHARE_LABELS)
    axes.legend(loc="upper right", title=band.verdict)
    return figure


def _colours(count: int) -> list[str]:
    return [PALETTE[i % len(PALETTE)] for i in range(count)]


def _shares_up(axes: Axes) -> None:
    axes.set_ylim(0.0, 1.02)
    axes.set_yticks(SHARES, SHARE_LABELS)
