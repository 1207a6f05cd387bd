"""Pictures of privacy: what an attacker can do, what a promise says at every epsilon, what composition costs.

    tradeoff(loss)            misses against false alarms, with the region no attacker can reach
    tradeoffs(curves)         several trade-off functions on one sheet
    symmetry(curve)           f, its inverse and the larger of both
    sampling(curve, rate=)    the subsampling operator: f, f_p, its inverse and the hull under both
    limit_band(...)           many small losses, their Gaussian limit and its band
    profile(loss)             delta against epsilon
    steps(curves)             epsilon against the number of steps, one line per accounting method
    positions(epsilons, ...)  epsilon of the record at step t against t, when the last iterate only is released
    samples(plans)            records against adaptive questions, one line per route
    noise(density, ...)       the noise that is added, with the interval that holds most of it
    errors(plan)              how wrong a table will be, against the size of its groups
    rehearsed(lines, ...)     error from noise, caps and clamping for several caps
    released(table)           a released table: values as bars, with their intervals
    burndown(account)         what is left of a budget, charge by charge
    recovery(shares, ...)     people reconstructed against noise/sqrt(n); the frontier is at 1
    guesses(found)            one person's bit guessed from two counts, under its ceiling
    linked(shares)            people found behind rows without names
    hits(rates, claim=...)    members found against false alarms, under the ceiling 1 - f
    pair(first, second, ...)  two densities, and delta above e^epsilon of one of them
    supporting_lines(...)     several (epsilon, delta) promises as lines, and the curve they hold up
    tangent(curve, ...)       delta read off the tangent of slope -e^epsilon
    noise_for_queries(...)    variance against the number of questions
    tilted(objective, ...)    an objective, its tilts, and their minima
    staircase(values, ...)    data as a counting staircase with the law of a private quantile
    densities(named, ...)     a law as n grows, beside its limit
    revenue(sale)             pumpkins: revenue against the price, and two private ways to choose it
    tradeoff_band(band)       a measured trade-off with its confidence band, against the claimed one

Each returns a matplotlib figure; ``save(figure, path)`` writes SVG or PNG. matplotlib is the extra ``plots`` and
is imported only when a picture is drawn. Nothing here computes privacy: the numbers are read from the loss.
"""

from __future__ import annotations

from tallystick.plots.attacks import guesses, hits, linked, recovery, tradeoff_band
from tallystick.plots.burndown import burndown
from tallystick.plots.canvas import save
from tallystick.plots.errors import errors
from tallystick.plots.noise import noise
from tallystick.plots.notes import (
    densities,
    noise_for_queries,
    pair,
    revenue,
    staircase,
    supporting_lines,
    tangent,
    tilted,
)
from tallystick.plots.operators import limit_band, sampling, symmetry
from tallystick.plots.positions import positions
from tallystick.plots.profile import profile
from tallystick.plots.rehearsed import rehearsed
from tallystick.plots.released import released
from tallystick.plots.samples import samples
from tallystick.plots.steps import Curve, steps
from tallystick.plots.tradeoff import tradeoff, tradeoffs

__all__ = [
    "Curve",
    "burndown",
    "densities",
    "errors",
    "guesses",
    "hits",
    "limit_band",
    "linked",
    "noise",
    "noise_for_queries",
    "pair",
    "positions",
    "profile",
    "recovery",
    "rehearsed",
    "released",
    "revenue",
    "samples",
    "sampling",
    "save",
    "staircase",
    "steps",
    "supporting_lines",
    "symmetry",
    "tangent",
    "tilted",
    "tradeoff",
    "tradeoff_band",
    "tradeoffs",
]
