"""Pictures of attacks: what is recovered at which noise, who is found, a measured trade-off beside the claimed one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tallystick.cards.meaning import Whom
from tallystick.digits import nearest, percent, percent_up, typed
from tallystick.drawing import BLUE, INK, PALETTE, QUIET, VERMILLION
from tallystick.errors import InvalidInput
from tallystick.plots.canvas import DASHES, shares_up, sheet, square
from tallystick.plots.labels import finish

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.audit.band import Band
    from tallystick.audit.everyday import Differencing
    from tallystick.audit.membership import HitRate


def recovery(shares: Mapping[int, Sequence[float]], *, noises: Sequence[float], title: str | None = None) -> Figure:
    """Draw the share of bits recovered against noise/sqrt(n), with a line for every number of people.

    ``noises`` are standard deviations in units of sqrt(n), in which the lines of all n coincide.
    """
    if not shares or any(len(line) != len(noises) for line in shares.values()):
        allowed = f"for every number of people a share for each of {len(noises)} noises"
        raise InvalidInput("shares", len(shares), allowed)
    figure, axes = sheet(
        title=title or _recovered(shares, noises),
        across="standard deviation of the noise, in units of √n",
        up="people whose bit is recovered (share)",
    )
    axes.axvline(1.0, color=QUIET, linestyle=DASHES, linewidth=1.2)
    axes.annotate("noise = √n", (1.0, 0.97), xytext=(5, 0), textcoords="offset points", color=QUIET)
    axes.axhline(0.5, color=QUIET, linestyle=DASHES, linewidth=1.2)
    place = (min(noises), 0.5)
    axes.annotate("guessing", place, xytext=(2, 4), textcoords="offset points", color=QUIET)
    for colour, (people, line) in zip(_colours(len(shares)), shares.items(), strict=True):
        axes.plot(noises, line, color=colour, marker="o", markersize=4, label=f"{people:,} people")
    axes.set_xscale("log")
    shares_up(axes)
    finish(axes)
    return figure


def _recovered(shares: Mapping[int, Sequence[float]], noises: Sequence[float]) -> str:
    """Return the finding: the recovered share at the least and at the most noise, for most people."""
    line = shares[max(shares)]
    low, high = noises.index(min(noises)), noises.index(max(noises))
    first = f"Noise of {typed(noises[low])} √n: {_per_cent(line[low])} of people recovered"
    return f"{first}. Noise of {typed(noises[high])} √n: {_per_cent(line[high])}"


def guesses(found: Mapping[float, Differencing], *, title: str | None = None) -> Figure:
    """Draw right guesses with exact 95 % limits against epsilon, and e^epsilon/(1 + e^epsilon)."""
    if not found:
        raise InvalidInput("found", 0, "at least one epsilon")
    most = max(found)
    finding = f"At epsilon {typed(most)}, {_per_cent(found[most].rate)} of guesses were right"
    figure, axes = sheet(
        title=title or f"{finding}; at most {percent_up(_ceiling(most))} can be",
        across="epsilon of each count",
        up="right guesses (share)",
    )
    epsilons = np.geomspace(min(found) / 1.5, most * 1.5, 200)
    ceiling = 1.0 / (1.0 + np.exp(-epsilons))
    axes.plot(epsilons, ceiling, color=BLUE, label="the most any attacker can reach")
    axes.fill_between(epsilons, ceiling, 1.0, color=BLUE, alpha=0.13, linewidth=0)
    axes.axhline(0.5, color=QUIET, linestyle=DASHES, linewidth=1.2, label="guessing")
    for epsilon, seen in found.items():
        axes.plot([epsilon, epsilon], [seen.lower, seen.upper], color=VERMILLION, linewidth=1.4)
    rates = [seen.rate for seen in found.values()]
    words = "right guesses with 95 % limits"
    axes.plot(list(found), rates, "o", markersize=5, color=VERMILLION, label=words)
    axes.set_xscale("log")
    shares_up(axes)
    finish(axes)
    return figure


def _ceiling(epsilon: float) -> float:
    """Return the largest share of right guesses under epsilon-DP."""
    return float(1.0 / (1.0 + np.exp(-epsilon)))


def linked(shares: Mapping[str, Mapping[int, float]], *, title: str | None = None) -> Figure:
    """Draw the share of people found against known ratings, with a line for every published table."""
    if not shares:
        raise InvalidInput("shares", 0, "at least one table")
    figure, axes = sheet(
        title=title or _found_most(shares),
        across="ratings that the attacker knows of each person",
        up="people found (share)",
    )
    for colour, (name, line) in zip(_colours(len(shares)), shares.items(), strict=True):
        values = list(line.values())
        axes.plot(list(line), values, color=colour, marker="o", markersize=5, label=name)
    axes.locator_params(axis="x", integer=True)
    shares_up(axes)
    finish(axes)
    return figure


def _found_most(shares: Mapping[str, Mapping[int, float]]) -> str:
    """Return the finding: the table in which most people are found, and by how many ratings."""
    found = [(share, known, name) for name, line in shares.items() for known, share in line.items()]
    share, known, name = max(found)
    return f"{known} known ratings find {_per_cent(share)} of people ({name})"


def hits(
    rates: Sequence[HitRate],
    *,
    claim: PrivacyLoss,
    title: str | None = None,
    unit: str | None = None,
) -> Figure:
    """Draw members found against false accusations, with 95 % limits, and the ceiling of the claim.

    ``unit`` names the members if the claim does not: without either, people.
    """
    if not len(rates):
        raise InvalidInput("rates", 0, "at least one hit_rate(...)")
    figure, axes = sheet(
        title=title or _hit(max(rates, key=lambda rate: rate.power)),
        across=f"false accusations: {Whom.of(claim, unit=unit).errors[0]}",
        up="members found (share)",
    )
    least = min([rate.alarm for rate in rates if rate.alarm > 0] or [1e-3]) / 2.0
    alarms = np.geomspace(least, 1.0, 120)
    allowed = 1.0 - np.asarray(claim.tradeoff(alpha=alarms), dtype=float)
    axes.fill_between(alarms, allowed, 1.0, color=BLUE, alpha=0.13, linewidth=0)
    axes.plot(alarms, allowed, color=BLUE, label="the most that the claim allows")
    axes.plot(alarms, alarms, color=QUIET, linestyle=DASHES, linewidth=1.2, label="guessing")
    places = [max(rate.alarm, least) for rate in rates]
    for place, rate in zip(places, rates, strict=True):
        axes.plot([place, place], [rate.lower, rate.upper], color=VERMILLION, linewidth=1.4)
    powers = [rate.power for rate in rates]
    words = "found, with 95 % limits"
    axes.plot(places, powers, "o", markersize=5, color=VERMILLION, label=words)
    axes.set_xscale("log")
    shares_up(axes)
    finish(axes)
    return figure


def _hit(best: HitRate) -> str:
    """Return the finding: the share of members found, and the share that the claim allows."""
    found = f"{_per_cent(best.power)} of members found"
    finding = f"{found} with {_per_cent(best.alarm)} false accusations"
    if best.allowed is None:
        return finding
    return f"{finding}; the claim allows {percent_up(best.allowed)}"


def tradeoff_band(band: Band, *, title: str | None = None) -> Figure:
    """Draw the confidence band of a score's trade-off, and the claimed curve.

    The claim is false if a part of the band lies below the curve.
    """
    upper, lower = (np.array(sorted(points)) for points in (band.upper, band.lower))
    below = [(a, b) for a, b in band.upper if b < float(np.asarray(band.loss.tradeoff(alpha=a)))]
    figure, axes = square(
        title=title or _band_finding(band),
        across="false accusations of the test (share)",
        up="misses of the test (share)",
    )
    alarms = np.linspace(0.0, 1.0, 161)
    claimed = np.asarray(band.loss.tradeoff(alpha=alarms), dtype=float)
    # The limits of both axes are rectangles. Between two thresholds the curve is not above the first.
    high = [min([1.0, *upper[upper[:, 0] <= alarm, 1]]) for alarm in alarms]
    low = [max([0.0, *lower[lower[:, 0] >= alarm, 1]]) for alarm in alarms]
    axes.fill_between(alarms, low, high, color=VERMILLION, alpha=0.25, linewidth=0)
    axes.plot(alarms, high, color=VERMILLION, linewidth=0.8, label="measured, with its band")
    axes.plot(alarms, claimed, color=BLUE, label="claimed")
    if below:
        across, up = zip(*below, strict=True)
        axes.plot(across, up, "o", markersize=5, color=INK, label="below the claim")
    finish(axes)
    return figure


def _band_finding(band: Band) -> str:
    """Return the finding: evidence against the claim, or none."""
    confidence = f"{percent(1.0 - band.significance)} confidence"
    if band.falsified:
        return f"Evidence against the claim: the measured errors are below it ({confidence})"
    return f"No evidence against the claim found ({confidence})"


def _per_cent(share: float) -> str:
    return f"{nearest(100 * share)} %"


def _colours(count: int) -> list[str]:
    return [PALETTE[i % len(PALETTE)] for i in range(count)]
